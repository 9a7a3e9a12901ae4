//! Parts of rows, in words.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `names`, `results`: the names of things.
//! - `deviation`, `endings`, `judged`, `lives`, `places`: ends, durations, and places.

pub mod deviation;
pub mod endings;
pub mod judged;
pub mod lives;
pub mod names;
pub mod places;
pub mod results;
