//! What commands begin with, and how they print.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `startup`, `status`: what this process inherited, and how it ends.
//! - `markdown`, `elf`: forms of files.
//! - `variables`: the environment.
//! - `args`, `help`, `misspelt`: the command line.
//! - `output`: what is printed.
//! - `script`: the name of a recording.
//! - `home`: the directory for recordings without a name.
//! - `complete`: completions for shells.
//! - `nvml`: NVML, asked by the command itself.
//! - `libraries`: the libraries that are preloaded.
//! - `driver`: the driver that a program gets.
//! - `board`: plans that are armed while a job is running.
//! - `job`: the recording that a run makes.
//! - `settings`: what the options become.
//! - `tests`: the files of packages, among them man pages.

pub mod args;
pub mod board;
pub mod complete;
pub mod driver;
pub mod elf;
pub mod help;
pub mod home;
pub mod job;
pub mod libraries;
pub mod markdown;
mod misspelt;
pub mod nvml;
pub mod output;
pub mod script;
pub mod settings;
pub mod startup;
pub mod status;
pub mod variables;

#[cfg(test)]
mod tests {
    mod share;
}
