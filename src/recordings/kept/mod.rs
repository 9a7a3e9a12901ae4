//! The default directory for recordings.
//!
//! [`entry`] describes one entry, and [`mod@prune`] removes old ones.

mod entry;
pub mod ours;
mod prune;

pub use entry::{Entry, EntryKind, entries, list_recordings, unrecorded_since};
pub use prune::{prune, remove_entry};
