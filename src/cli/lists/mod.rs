//! What cupeer knows by itself: functions, rules, results, faults.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `faults`, `rules`: fault plans, and the rules.
//! - `list`: `cupeer list`.
//! - `explain`: `cupeer explain`.

pub mod explain;
mod faults;
pub mod list;
mod rules;
