//! Facts about the driver: the table of functions, the result codes, and the names and words that the preload
//! library, the simulated driver, and the command share. The crate has no dependencies and no side effects.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `named`: enumerations with a word for each value.
//! - `launchers`: the launchers of jobs.
//! - `abi`, `duration`, `names`, `origin`, `p2p`, `placeholders`, `proc`, `rank`, `signals`, `trust`, `uuid`,
//!   `version`, `bypass`: words and forms that need nothing else.
//! - `deny`, `status`: devices and states in text.
//! - `value`: the format of the C types' values.
//! - `group`: the libraries of functions, and their groups.
//! - `effect`, `results`: the effects and the results of calls.
//! - `record`: the format of recordings.
//! - `functions`: the table.
//! - `waits`: the work that calls wait for.
//! - `argument`, `function`: the table as data.
//! - `others`: the functions of the driver beyond the table.
//! - `env`: the environment variables.
//! - `runtime`: the names of the CUDA runtime.
//! - `selector`: sets of functions.
//! - `fault`: fault plans.

#[macro_use]
mod named;

pub mod abi;
pub mod argument;
pub mod bypass;
pub mod deny;
pub mod duration;
pub mod effect;
pub mod env;
pub mod fault;
pub mod function;
pub mod functions;
pub mod group;
pub mod launchers;
pub mod names;
pub mod origin;
pub mod others;
pub mod p2p;
pub mod placeholders;
pub mod proc;
pub mod rank;
pub mod record;
pub mod results;
pub mod runtime;
pub mod selector;
pub mod signals;
pub mod status;
pub mod trust;
pub mod uuid;
pub mod value;
pub mod version;
pub mod waits;
