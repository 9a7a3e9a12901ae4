//! The atomics: the processor's, or loom's.

#[cfg(not(feature = "loom"))]
pub use core::sync::atomic::*;
#[cfg(feature = "loom")]
pub use loom::sync::atomic::*;
