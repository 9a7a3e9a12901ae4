//! How the program and the loader reach us: exports, our own functions for C, the constructor.

mod arch;
pub mod c_api;
mod exports;
mod init;
