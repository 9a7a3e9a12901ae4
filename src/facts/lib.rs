//! The facts that follow from the records of a job, and the report that is made from them.
//!
//! The source of a recording (a directory, a packed file) is up to the command, and the rows are those of [`cupeer_report::model`].
//! A recording passes three floors. Nothing here grows with the number of events.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this, and the same of each folder:
//!
//! - `follow`: events become the state of processes and tables of calls.
//! - `infer`: findings that only the whole recording shows, and the rows of all findings.
//! - `assemble`: the rows of the report, of one recording or of several parts of a job.

mod assemble;
mod follow;
mod infer;

pub use assemble::whole::{find_broken_rules, read, reduce};
pub use assemble::{first_pass, part};
pub use follow::faults;
