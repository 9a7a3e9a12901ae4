//! NVIDIA's libraries, loaded into this process. Functions are called by their names.
//!
//! In: the name of a library and of a function. Out: what the function writes, or a sentence about why there is nothing. Begin
//! with the macro [`call!`]; [`nvml`] is what commands ask NVML with it.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `library`: a library, and calls of its functions.
//! - `nvml`: the devices of the machine, their links, and the use of their memory.

#![allow(missing_docs, reason = "only the commands of cupeer use this crate")]

mod library;
pub mod nvml;

pub use libloading::os::unix::Library as Handle;
pub use library::{Device, NVLINK, find, format_cuda_version, load, p2p_status, start_nvml};
