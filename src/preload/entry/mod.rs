//! How the program and the loader reach us: the exports, our own functions for C, the constructor. Nothing here decides
//! anything, and nothing imports it.

mod arch;
pub mod c_api;
pub mod exec;
pub mod exit;
mod exports;
mod init;
mod nvtx;
pub mod wait;
