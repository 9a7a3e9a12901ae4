//! Input and output that all commands of cupeer share: the environment, words of options, printing, and the exit
//! status.
//!
//! In: the environment, file descriptors, and signals of the process; a text or a value to print. Out: bytes on
//! stdout and stderr, and an exit status. Begin with [`output`].
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `startup`, `status`: the state that this process inherited, and how it ends.
//! - `variables`: the environment.
//! - `args`: words and times of command lines.
//! - `output`: stdout and stderr.
//! - `interrupt`, `progress`: commands that run programs: the request to end, and lines about the progress.
//! - `annotations`: findings as GitHub Actions reads them.

#![allow(missing_docs, reason = "only the commands of cupeer use this crate")]

pub mod annotations;
pub mod args;
pub mod interrupt;
pub mod output;
pub mod progress;
pub mod startup;
pub mod status;
pub mod variables;
