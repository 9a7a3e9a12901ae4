//! What the processes of a job share: its directory, and the table of what is open in it now.

pub mod closed;
pub mod directory;
pub mod importers;
pub mod ledger;
pub mod live;
pub mod process;
mod reclaim;
