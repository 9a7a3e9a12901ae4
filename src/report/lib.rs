//! The report of a recording: its rows, their words, the verdict, and filters.
//!
//! The crate `cupeer-facts` builds a report in three steps. Its `collect` reads the events. Its `assemble` builds the rows of
//! [`model`], which are serialized unchanged. [`verdict`] decides which findings fail a run, which problems there are, and in
//! which order. The forms of `cupeer-views` render rows and verdict. [`symbols`] names addresses.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this, and the same of each folder:
//!
//! - `base`: numbers, times, and text for terminals.
//! - `model`: the rows.
//! - `words`: parts of rows, in words.
//! - `verdict`: the problems.
//! - `selection`: the part of a recording that a report covers.

mod base;
pub mod model;
mod selection;
pub mod verdict;
mod words;

pub use base::{durations, moments, numbered, pending, style, terminal, values};
pub use cupeer_symbols as symbols;
pub use selection::keep::Keep;
pub use selection::{filter, mark_times, suppress};
pub use words::{deviation, endings, expected, judged, limited, lives, names, places, results};
