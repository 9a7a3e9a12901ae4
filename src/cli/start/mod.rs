//! The command line, and what shells and packages have of it.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `markdown`: pages.
//! - `args`, `help`: the command line.
//! - `misspelt`: mistakes in it.
//! - `complete`: completions for shells.
//! - `tests`: the files of packages, among them man pages.

pub mod args;
pub mod complete;
pub mod help;
pub mod markdown;
pub mod misspelt;

#[cfg(test)]
mod tests {
    mod share;
}
