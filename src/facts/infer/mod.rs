//! The findings that only the whole recording shows, and the rows of all.
//!
//! A finding has three shapes. A decision hands over a [`Violation`](cupeer_rules::decide::Violation), which borrows its values, and a
//! recording keeps the same as a [`Finding`](cupeer_record::Finding), in words. Until its place has a name, it is a
//! [`PendingFinding`]: [`crate::follow::judged`] keeps those of calls, and the modules here return those that follow from all
//! calls. [`mod@rows`] turns each of them into a [`Finding`](cupeer_report::model::Finding) of the report; a
//! [`row::FindingRow`] is that with the numbers of its processes, until [`table`] has joined those of all processes.
//!
//! Findings follow from the handle table ([`handles`], [`unclosed`], [`freed`], [`replaced`]), from what piles up ([`piles`], by the
//! criterion of [`growth`], with the uses of [`touched`]), from mappings ([`space`]), from
//! descriptors ([`mod@descriptors`], [`awaited`]), from what processes use up ([`exhausted`], [`shortage`]), from the devices that they use
//! ([`placement`], [`staged`]), from forks ([`forks`]), from what is done again and again ([`waste`]), from exchanges ([`exchanges`]), from uses of shared memory
//! that nothing orders ([`mod@order`]), from interprocess events ([`mod@events`]), from the bytes that processes use ([`mod@written`], with the uses of [`touched`]), and from all ranks together ([`ranks`]). [`links`] says which of them
//! explains a failed call, and [`mod@clues`] lists facts that break no rule. [`kinds`] merges findings of one kind, [`device_memory`](mod@device_memory) builds the rows about
//! the memory of devices, [`objects`]
//! returns the objects involved, and [`mod@post_mortem`] supplies the facts that the recording has for the rules.
//!
//! [`PendingFinding`]: crate::follow::pending::PendingFinding

mod awaited;
mod clues;
mod context;
mod descriptors;
mod device_memory;
mod events;
mod exchanges;
mod exhausted;
pub mod forks;
mod freed;
mod growth;
mod handles;
mod kinds;
pub mod leaks;
mod links;
mod objects;
mod order;
mod piles;
mod placement;
mod post_mortem;
mod ranks;
mod replaced;
mod row;
mod rows;
mod shortage;
mod space;
mod staged;
mod table;
mod touched;
mod unclosed;
mod waste;
mod written;

pub use clues::find_clues as clues;
pub use context::Context;
pub use device_memory::rows as device_memory;
pub use row::ProcessSummary;
pub use rows::{find_all, finding_rows};
pub use table::FindingRows;
pub use written::handle_accesses;
