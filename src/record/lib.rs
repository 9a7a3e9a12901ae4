//! Reads the record of a job: the directory that libcupeer.so writes to, in the format of
//! [`cupeer_spec::record`].
//!
//! What belongs here: from bytes to calls in the order of time, and nothing that trusts those bytes. What does
//! not: what calls mean together (the command's report).
//!
//! # The way of the bytes
//!
//! [`source`] gives bytes, of a file or of memory. [`scan`] goes over the heads of all blocks, [`read`] makes a
//! [`process::Process`] of them, and [`job`] all processes of a directory. When events are asked for, [`index`]
//! says which blocks a stream has, [`stream`] reads one after the other, and [`events`] merges the streams.

pub mod alive;
pub mod clock;
mod detail;
pub mod event;
pub mod events;
pub mod faults;
mod finding;
pub mod follow;
mod hit;
pub mod host;
mod index;
pub mod job;
pub mod launcher;
pub mod live;
pub mod plain;
pub mod process;
pub mod quiet;
mod read;
mod reader;
mod repeats;
mod scan;
pub mod source;
mod stream;
mod version;
#[cfg(feature = "writer")]
pub mod writer;

pub use event::{Call, CallDetails, Details, Event, Outcome, Run};
pub use events::Events;
pub use faults::{FaultFile, FaultRule};
pub use finding::{Finding, Object};
pub use follow::Follower;
pub use hit::{Hit, deeds};
pub use job::{Error, Job, Problem, Started};
pub use live::LiveTable;
pub use process::{Clock, Device, Library, Process, PythonFunction};
pub use quiet::Quiet;
pub use read::library;
pub use source::Source;
