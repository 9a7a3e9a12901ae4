//! What a report is asked for.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `suppress`: findings that do not count.
//! - `mark_times`: the times of marks.
//! - `filter`: the chosen processes and calls.

pub mod filter;
pub mod mark_times;
pub mod suppress;
