//! Parts of rows, in words.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `names`, `results`: the names of things.
//! - `deviation`, `endings`, `judged`, `lives`, `places`: ends, durations, and places.
//! - `expected`, `limited`: expected failures, and recordings that lack calls.

pub mod deviation;
pub mod endings;
pub mod expected;
pub mod judged;
pub mod limited;
pub mod lives;
pub mod names;
pub mod places;
pub mod results;
