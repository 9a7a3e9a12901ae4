//! Finds the function that a call goes to next, for each way in, and the address that a lookup returns.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `entries`, `names`: our entries, and which function a name is.
//! - `loader`, `dlerror`: the C library's own functions of the loader, and its messages.
//! - `used`: which functions the process has called.
//! - `needs`: which functions' calls run through `call`.
//! - `libraries`, `scope`: which library an object is, and what the objects define.
//! - `named`, `data_symbols`, `patched`: who bypasses us, and what others did to references and to our entries.
//! - `driver`: the libraries that we follow.
//! - `linked`, `runtime`, `handed_out`: where linked calls go, calls of the runtime, and functions that a lookup returns.
//! - `traced`: what changes who runs through `call`.
//! - `escapes`, `deep`: the search for libraries that bypass us.
//! - `dlclose`, `dlsym`: the functions that we interpose.

pub mod data_symbols;
pub mod deep;
pub mod dlclose;
pub mod dlerror;
pub mod dlsym;
pub mod driver;
pub mod entries;
pub mod escapes;
pub mod handed_out;
pub mod libraries;
pub mod linked;
pub mod loader;
pub mod named;
pub mod names;
pub mod needs;
pub mod patched;
pub mod runtime;
pub mod scope;
pub mod traced;
pub mod used;
