//! Launches programs under cupeer: from options to the environment, the libraries, the driver, and the recording of a run.
//!
//! In: the options that `run`, `env`, `sweep`, and `doctor` share. Out: variables for a program, and the directory that its
//! processes record to. Begin with [`settings`].
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `args`: the options.
//! - `elf`: files of programs and libraries.
//! - `libraries`: the libraries that are preloaded.
//! - `driver`: the driver that a program gets.
//! - `board`: plans that are armed while a job is running.
//! - `job`: the recording that a run makes.
//! - `settings`: the variables that the options become.
//! - `program`: obstacles in the program itself.

#![allow(missing_docs, reason = "only the commands of cupeer use this crate")]

pub mod args;
pub mod board;
pub mod driver;
pub mod elf;
pub mod job;
pub mod libraries;
pub mod program;
pub mod settings;
