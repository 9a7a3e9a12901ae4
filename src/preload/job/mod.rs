//! The state that the processes of a job share: its directory, its key, and the live table of open objects.
//!
//! - The directory: `directory` creates it, and `ended_child` writes the ends of killed children to their records.
//! - The live table: `ledger` enters calls in it, `closing` counts closes, `reclaim` makes room, `live` maps it, and
//!   `importers` finds out which processes have an export open.
//! - The memory of this process: `uses` watches what it shares, `tombstones` and `closed` remember what is gone, and
//!   `order` and `nodes` track work on shared memory.
//!
//! There are no rules here, and the record of a process, which only that process writes, is in `recorder`.

pub mod closed;
mod closing;
pub mod directory;
pub mod ended_child;
pub mod importers;
pub mod ledger;
pub mod live;
pub mod nodes;
pub mod order;
pub mod process;
pub mod python_line;
pub mod reclaim;
pub mod tombstones;
pub mod uses;
