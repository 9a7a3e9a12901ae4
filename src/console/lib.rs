//! What every command of cupeer shares on its way in and out: the environment, the words of its options, what it prints, and its
//! exit status.
//!
//! In: the process's own environment, descriptors, and signals; a text or a value to print. Out: bytes on stdout and stderr, and
//! an exit status. Begin with [`output`].
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `startup`, `status`: the state that this process inherited, and how it ends.
//! - `variables`: the environment.
//! - `args`: words and times of command lines.
//! - `output`: stdout and stderr.
//! - `annotations`: findings as GitHub Actions reads them.

#![allow(missing_docs, reason = "only the commands of cupeer use this crate")]

pub mod annotations;
pub mod args;
pub mod output;
pub mod startup;
pub mod status;
pub mod variables;
