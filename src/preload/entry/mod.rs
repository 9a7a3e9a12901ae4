//! How the program and the loader reach us: exports, our own functions for C, the constructor.

pub mod c_api;
pub mod exports;
mod init;
