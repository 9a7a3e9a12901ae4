//! The state that the processes of a job share: its directory, its key, and the table of what is open now.
//!
//! It contains no rule. The record of a process, which only that process writes, is in `record`.

pub mod closed;
mod closing;
pub mod directory;
pub mod ended_child;
pub mod gone;
pub mod importers;
pub mod ledger;
pub mod live;
pub mod nodes;
pub mod order;
pub mod process;
pub mod python_line;
pub mod reclaim;
pub mod uses;
