//! Lists that need no recording: functions, rules, results, and faults.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `faults`, `rules`: fault plans, and the rules.
//! - `list`: `cupeer list`.
//! - `explain`: `cupeer explain`.

pub mod explain;
pub mod faults;
pub mod list;
mod rules;
