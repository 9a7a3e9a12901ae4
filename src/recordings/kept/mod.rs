//! What is kept at home.
//!
//! What an entry there is, and whether it is still written to, is [`entry`]'s; which ones go is [`mod@prune`]'s.

mod entry;
pub mod ours;
mod prune;

pub use entry::{Entry, Kind, entries, records, unrecorded_since};
pub use prune::{prune, remove};
