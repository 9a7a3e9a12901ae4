//! Basic parts: numbers, times, and text for terminals.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `durations`, `moments`, `numbered`, `values`: numbers, times, and values.
//! - `pending`: calls that have not returned.
//! - `style`, `terminal`: text for terminals.

pub mod durations;
pub mod moments;
pub mod numbered;
pub mod pending;
pub mod style;
pub mod terminal;
pub mod values;
