//! libcupeer_sim.so: a CUDA driver without a GPU.
//!
//! The path of a call: `api::exports` (a symbol that only jumps) → [`api`] (checks and converts the arguments from C) →
//! [`engine`] (the behavior, in ordinary Rust). `engine` returns a value, or a failure with the driver's messages; `api` turns
//! it into the result code.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `engine`: the behavior.
//! - `abi`: C types.
//! - `api`: the functions as C calls them, and their symbols.
//!
//! Programs load the library as `libcuda.so.1`. It works alone, without the preload library.

mod abi;
mod api;
mod engine;

// The command reads this note before it lets a program load this library.
#[used]
#[unsafe(link_section = ".note.cupeer")]
static VERSION: cupeer_spec::version::VersionNote = cupeer_spec::version::VersionNote::OWN;
