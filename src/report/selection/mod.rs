//! Options of a report.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `keep`: the extent.
//! - `suppress`: findings that do not count.
//! - `mark_times`: the times of marks.
//! - `filter`: the chosen processes and calls.

pub mod filter;
pub mod keep;
pub mod mark_times;
pub mod suppress;
