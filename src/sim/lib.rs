//! libcupeer_sim.so: a CUDA driver without a GPU.
//!
//! The way of a call: `api::exports` (a symbol that only jumps) → [`api`] (checks and converts what comes from
//! C) → [`engine`] (what a driver does, in ordinary Rust). Nothing comes back from `engine` but an answer or
//! a failure with the driver's own words; `api` turns it into the result code.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `engine`: the behavior.
//! - `abi`: C types.
//! - `api`: the functions as C calls them, and their symbols.
//!
//! The library is `libcuda.so.1` for the programs that load it, and works alone: it knows nothing of the
//! preload library.

mod abi;
mod api;
mod engine;

// What the command reads before it leads a program here.
#[used]
#[unsafe(link_section = ".note.cupeer")]
static VERSION: cupeer_spec::version::Note = cupeer_spec::version::Note::OWN;
