//! What the processes of a job share: its directory and key, and the table of what is open in it now.
//!
//! What does not belong here: the record of a process, which only that process writes, and any rule.

pub mod closed;
mod closing;
pub mod directory;
pub mod ended_child;
pub mod importers;
pub mod ledger;
pub mod live;
pub mod process;
mod reclaim;
