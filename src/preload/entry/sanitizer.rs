//! Lets AddressSanitizer start behind this library.

use core::ffi::c_char;

/// The default options of AddressSanitizer, which it asks the program for before it starts. Its shared runtime otherwise
/// refuses to run behind a preloaded library that it does not know. A program that defines this function comes first.
#[unsafe(no_mangle)]
pub extern "C" fn __asan_default_options() -> *const c_char {
    c"verify_asan_link_order=0".as_ptr()
}
