//! Finds the function that a call goes to next, for each way in, and the address that a lookup returns.

pub mod deep;
pub mod dlclose;
pub mod dlerror;
pub mod dlsym;
pub mod dlvsym;
pub mod driver;
pub mod entries;
pub mod escapes;
pub mod handed_out;
pub mod linked;
pub mod loader;
pub mod patched;
pub mod runtime;
pub mod traced;
