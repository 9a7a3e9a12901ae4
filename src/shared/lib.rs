//! Protocols for memory that libcupeer.so shares without locks: between threads, with signal handlers of the
//! same thread, and between processes.
//!
//! The crate holds small functions over atomics that fix the order in which words are read and written. Other
//! crates decide where the words are stored (mapped files, a thread's block), and what they mean to a call.
//! The library and the models use the same functions: with the feature `loom`, the atomics are loom's, and
//! the models at the end of each file try all orders in which two or three threads can run through them
//! (`scripts/models`).
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `atomic`, `model`: the atomics, of the processor or of loom, and what runs a model.
//! - `window`: how a thread writes to its window.
//! - `block`, `entry`, `route`, `users`: the other structures.

pub(crate) mod atomic;
pub mod block;
pub mod entry;
pub mod route;
pub mod users;
pub mod window;

#[cfg(feature = "loom")]
pub(crate) mod model;
