//! Lets AddressSanitizer run although this library is loaded before it.

use core::ffi::c_char;

/// Returns the default options of AddressSanitizer, which it asks the program for before it starts. Otherwise, its shared runtime
/// refuses to run after a preloaded library that it does not know. If the program defines this function, its definition is used
/// instead.
#[unsafe(no_mangle)]
pub extern "C" fn __asan_default_options() -> *const c_char {
    c"verify_asan_link_order=0".as_ptr()
}
