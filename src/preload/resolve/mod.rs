//! Finds the function that a call goes to next, for each way in, and the address that a lookup returns.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `entries`, `names`: our entries, and the functions by their names.
//! - `loader`, `dlerror`: the C library's own functions of the loader, and its messages.
//! - `used`: which functions the process has called.
//! - `needs`: which functions' calls run through `call`.
//! - `libraries`, `scope`: the library that an object is, and the definitions of objects.
//! - `reported`, `data_symbols`, `patched`: libraries that bypass us, and changes of references and of our entries by others.
//! - `driver`: the libraries that we follow.
//! - `linked`, `runtime`, `handed_out`: where linked calls go, calls of the runtime, and functions that a lookup returns.
//! - `traced`: changes of the functions that run through `call`.
//! - `bypasses`, `deep`: the search for libraries that bypass us.
//! - `dlclose`, `dlsym`: the functions that we interpose.

pub mod bypasses;
pub mod data_symbols;
pub mod deep;
pub mod dlclose;
pub mod dlerror;
pub mod dlsym;
pub mod driver;
pub mod entries;
pub mod handed_out;
pub mod libraries;
pub mod linked;
pub mod loader;
pub mod names;
pub mod needs;
pub mod patched;
pub mod reported;
pub mod runtime;
pub mod scope;
pub mod traced;
pub mod used;
