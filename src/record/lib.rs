//! Reads the recording of a job: the directory that libcupeer.so writes, in the format of [`cupeer_spec::record`].
//!
//! It turns bytes into calls ordered by time, and trusts none of those bytes: a damaged file gives fewer events or an
//! error, never a panic. The meaning of calls together is up to `cupeer-facts`.
//!
//! # From bytes to events
//!
//! [`source`] supplies bytes, of a file or of memory. `scan` goes over the headers of all blocks, `read` builds a
//! [`process::Process`] from them, and [`job`] collects all processes of a directory. When events are requested,
//! `index` lists the blocks of a stream, `stream` reads one after the other, and [`events`] merges the streams.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `host`, `plain`, `version`, `finding`, `hit`: parts of the modules below.
//! - `alive`: processes that still run.
//! - `source`, `scan`: bytes, and the headers of blocks.
//! - `event`, `detail`, `repeats`: a call, and what is recorded about it.
//! - `clock`: ticks and nanoseconds.
//! - `process`: a process without its events.
//! - `counted`: memory that a process only counts.
//! - `read`: the bytes of a process.
//! - `index`, `reader`, `stream`, `events`: the events of a process.
//! - `faults`, `launcher`, `live`, `quiet`, `sample`, `tail`: other files, and files that grow.
//! - `job`: all processes.
//! - `writer`: recordings for tests and benchmarks.

pub mod alive;
pub mod clock;
pub mod counted;
mod detail;
pub mod event;
pub mod events;
pub mod faults;
mod finding;
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
pub mod sample;
mod scan;
pub mod source;
mod stream;
pub mod tail;
mod version;
#[cfg(feature = "writer")]
pub mod writer;

pub use counted::CountedMemory;
pub use event::{Call, CallDetails, CopyContent, Details, DeviceMemoryState, Event, Outcome, RepeatedCalls};
pub use events::Events;
pub use faults::{FaultCounts, FaultFile};
pub use finding::{Finding, FindingObject};
pub use hit::{FiredFault, effect_words_of};
pub use job::{Error, Job, Problem, StartedProgram};
pub use live::LiveTable;
pub use process::{Clock, Device, ForkOrigin, Library, Process, PythonFunction};
pub use quiet::QuietProcess;
pub use read::parse_library;
pub use sample::{MemoryHolder, MemorySample, MemorySamples};
pub use source::Source;
pub use tail::Follower;
