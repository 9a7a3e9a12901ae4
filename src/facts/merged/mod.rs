//! The report, from the facts of one recording or of several parts of a job.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `part`: the parts of a job, and how they are combined.
//! - `assemble`: the facts as rows.
//! - `whole`: all steps.

pub mod assemble;
pub mod part;
pub mod whole;
