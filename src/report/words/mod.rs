//! Parts of rows, in words.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `names`, `results`: the names of things.
//! - `deviation`, `endings`, `judged`, `lives`, `stacks`: ends, durations, and stacks.
//! - `choice`: the frame of a stack that is the place of a call.
//! - `places`: the names of places.
//! - `expected`, `limited`: expected failures, and recordings that lack calls.

mod choice;
pub mod deviation;
pub mod endings;
pub mod expected;
pub mod judged;
pub mod limited;
pub mod lives;
pub mod names;
pub mod places;
pub mod results;
mod stacks;
