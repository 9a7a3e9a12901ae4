//! The ways in which the program and the loader reach the library: the exports, the functions for C programs, and the
//! constructor.
//!
//! Nothing here decides anything, and no other module imports it.

mod arch;
pub mod c_api;
pub mod exec;
pub mod exit;
mod exports;
mod init;
mod nvtx;
mod sanitizer;
pub mod wait;
