//! The findings that only the whole recording shows, and the rows of all.
//!
//! What was found in calls is in [`crate::follow::judged`]. Afterwards, findings
//! follow from the handle table ([`handles`], [`unclosed`], [`freed`], [`replaced`]), from mappings ([`space`]), from descriptors
//! ([`mod@descriptors`], [`awaited`]), and from all ranks together ([`ranks`]). [`mod@rows`] builds the rows, [`table`] joins
//! those of all processes, and [`objects`] adds the objects involved. [`mod@afterwards`] supplies the facts that the recording has
//! for the rules.

mod afterwards;
mod awaited;
mod descriptors;
mod drafts;
mod exhausted;
mod freed;
mod handles;
pub mod leaks;
mod objects;
mod placement;
mod ranks;
mod replaced;
mod row;
mod rows;
mod space;
mod staged;
mod table;
mod unclosed;

pub use drafts::Context;
pub use row::Member;
pub use rows::{found, rows};
pub use table::FindingRows;
