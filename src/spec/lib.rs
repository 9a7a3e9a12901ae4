//! What cupeer knows of the driver: the table of functions, the result codes, the names and words that
//! the preload library, the simulated driver and the command share. No dependencies, no side effects.

pub mod abi;
pub mod argument;
pub mod deny;
pub mod duration;
pub mod effect;
pub mod env;
pub mod fault;
pub mod function;
pub mod functions;
pub mod names;
pub mod origin;
#[path = "functions/others.rs"]
pub mod others;
pub mod p2p;
pub mod placeholders;
pub mod proc;
pub mod question;
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
pub mod way;
