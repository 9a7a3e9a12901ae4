//! How libcupeer.so shares memory without locks: between threads, with signal handlers of the same thread, and between
//! processes.
//!
//! What belongs here: the order in which words are read and written, as small functions over atomics. What does not:
//! where the words lie (mapped files, a thread's block), and what they mean to a call. The library and the models use
//! these same functions: with the feature `loom` the atomics are loom's, and the models at the end of each file try all orders
//! in which two or three threads can go through them (`scripts/models`).

pub mod block;
pub mod entry;
pub mod route;
pub mod users;
pub mod window;

/// The atomics: the processor's, or loom's.
pub(crate) mod atomic {
    #[cfg(not(feature = "loom"))]
    pub use core::sync::atomic::*;
    #[cfg(feature = "loom")]
    pub use loom::sync::atomic::*;
}

#[cfg(feature = "loom")]
pub(crate) mod model;
