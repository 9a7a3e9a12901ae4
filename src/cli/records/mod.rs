//! What is done with recordings.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `made`, `annotations`, `suppressions`: parts of what follows.
//! - `reduced`, `sweeps`: directories with reduced files, and those of sweeps.
//! - `kept`: what is kept in the default directory.
//! - `pack`: recordings as files.
//! - `opened`: the recording to report on.
//! - `parts`: one recording, or the parts of a job.
//! - `running`: the job while it is running.
//! - `clean`, `export`, `fault`, `ls`, `reduce`, `release`, `report`: the commands.

pub mod annotations;
pub mod clean;
pub mod export;
pub mod fault;
pub mod kept;
pub mod ls;
mod made;
pub mod opened;
pub mod pack;
mod parts;
pub mod reduce;
mod reduced;
pub mod release;
pub mod report;
mod running;
pub mod suppressions;
pub mod sweeps;
