//! The commands for recordings.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `reduced`: directories with reduced files.
//! - `pack`: recordings as files.
//! - `opened`: the recording to report on.
//! - `parts`: one recording, or the parts of a job.
//! - `running`: the job while it is running.
//! - `clean`, `export`, `fault`, `ls`, `reduce`, `release`, `report`, `reproduce`: the commands.

pub mod clean;
pub mod export;
pub mod fault;
pub mod ls;
mod opened;
pub mod pack;
mod parts;
pub mod reduce;
mod reduced;
pub mod release;
pub mod report;
pub mod reproduce;
mod running;
