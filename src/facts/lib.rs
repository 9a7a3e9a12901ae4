//! What follows from the records of a job, and the report that is made from it.
//!
//! The source of a recording (a directory, a packed file) is up to the command, and the rows are those of [`cupeer_report::model`].
//! `collect` reads the events and passes them to `functions`, `failures`, `ledger`, `virtual_memory`, and others. Nothing here
//! grows with the number of events. `findings` says what the whole recording shows, and `merged` builds the report.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this, and the same of each folder:
//!
//! - `functions`: how often each was called.
//! - `ledger`: the handles of all processes.
//! - `allocator`, `hits`, `runtime`: what is known of single calls.
//! - `faults`: the faults of plans.
//! - `peers`: the access between devices.
//! - `virtual_memory`, `pools`, `scarce`: memory.
//! - `failures`, `callers`, `marks`: failures, callers, and marks.
//! - `at_calls`: the findings of calls.
//! - `collect`: reads the events.
//! - `leaks`, `findings`: what the whole recording shows.
//! - `merged`: the report.
//! - `second`: what a second reading needs of the first one.

mod allocator;
mod at_calls;
mod callers;
mod collect;
mod failures;
pub mod faults;
mod findings;
mod functions;
mod hits;
mod leaks;
mod ledger;
mod marks;
mod merged;
mod peers;
mod pools;
mod runtime;
mod scarce;
pub mod second;
mod virtual_memory;

pub use merged::part;
pub use merged::whole::{broken, read, reduce};
