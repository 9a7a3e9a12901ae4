//! Reads the call stacks of C and Python code from memory that may not exist.
//!
//! libcupeer.so reads the stacks of its own process, and `cupeer why` those of others: only the [`Memory`] differs.
//! Invariants: every byte is copied, so any contents of that memory give a wrong or a shorter stack, never a fault.
//! Nothing is allocated, no lock is taken, and nothing waits, because the library reads stacks in signal handlers.
//!
//! This crate reads unwind tables and interpreter structures, and walks from frame to frame. Its callers copy
//! memory, list the objects of a process, and cache results between two walks.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `memory`: memory that may not exist.
//! - `python`, `unwind`: the stacks of Python and of C.

#![no_std]

mod memory;
pub mod python;
pub mod unwind;

pub use memory::{Memory, MemoryWindow};
