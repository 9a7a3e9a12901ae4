//! The forms of the command line for people and shells: help, mistakes, and completions.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `help`: the help as it is printed.
//! - `misspelt`: mistakes in it.
//! - `complete`: completions for shells.

pub mod complete;
pub mod help;
pub mod misspelt;
