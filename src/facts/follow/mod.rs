//! From events to the state of each process: what its calls took and gave back, and how often they failed.
//!
//! `collect` reads the events of a process, and passes each to the modules that it concerns.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `returns`: results of calls that have not returned.
//! - `functions`: how often each was called.
//! - `steps`: what a process does, as a clock.
//! - `ledger`: the handles of all processes.
//! - `allocator`, `last_call`, `runtime`: facts about single calls.
//! - `faults`: the faults of plans.
//! - `peers`: the access between devices.
//! - `memory`: the memory of each process.
//! - `contexts`: the contexts of each process.
//! - `order`: what puts the work of each process in order.
//! - `uses`: the recorded copies, by the memory that they use.
//! - `virtual_memory`, `pools`, `oom_calls`: the memory of all.
//! - `failures`, `callers`, `marks`: failures, callers, and marks.
//! - `pending`: a finding before its place has a name.
//! - `judged`: the findings of single calls, as they are read.
//! - `holdings`: the processes that hold the memory of each device.
//! - `collect`: reads the events.

pub mod allocator;
pub mod callers;
pub mod collect;
pub mod contexts;
pub mod failures;
pub mod faults;
pub mod functions;
pub mod holdings;
pub mod judged;
pub mod last_call;
pub mod ledger;
pub mod marks;
pub mod memory;
pub mod oom_calls;
pub mod order;
pub mod peers;
pub mod pending;
pub mod pools;
mod returns;
pub mod runtime;
pub mod steps;
pub mod uses;
pub mod virtual_memory;
