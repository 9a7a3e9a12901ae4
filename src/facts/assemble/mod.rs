//! The report, from the facts of one recording or of several parts of a job.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `part`: the parts of a job, and how they are combined.
//! - `rows`: the facts as rows.
//! - `whole`: all steps.
//! - `first_pass`: the facts that a second reading of a recording needs, as for a trace.

pub mod first_pass;
pub mod part;
pub mod rows;
pub mod whole;
