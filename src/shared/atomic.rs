//! Provides the atomic types: those of the processor, or those of loom for models.

#[cfg(not(feature = "loom"))]
pub use core::sync::atomic::*;
#[cfg(feature = "loom")]
pub use loom::sync::atomic::*;
