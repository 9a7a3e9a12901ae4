//! Facts from the events of a recording. Nothing here grows with their number.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `functions`: how often each was called.
//! - `ledger`: the handles of all processes.
//! - `allocator`, `hits`, `runtime`: what is known of single calls.
//! - `faults`: the faults of plans.
//! - `peers`: the access between devices.
//! - `virtual_memory`, `pools`, `scarce`: memory.
//! - `expected`, `failures`, `callers`, `marks`: failures, callers, and marks.
//! - `at_calls`: the findings of calls.
//! - `collect`: reads the events.
//! - `leaks`, `findings`: what the whole recording shows.

pub mod allocator;
pub mod at_calls;
pub mod callers;
pub mod collect;
pub mod expected;
pub mod failures;
pub mod faults;
pub mod findings;
pub mod functions;
pub mod hits;
pub mod leaks;
pub mod ledger;
pub mod marks;
pub mod peers;
pub mod pools;
pub mod runtime;
pub mod scarce;
pub mod virtual_memory;
