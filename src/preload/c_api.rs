//! The functions that programs may call on purpose: the only file that the header `cupeer.h` is made
//! from. Find them with dlsym: where the library is not preloaded, they are not there.

use crate::{call, log, record};
use core::ffi::{CStr, c_char, c_int};

/// The version of cupeer, such as "0.1.0". The text is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn cupeer_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Puts your text into the log and the record, to find a place in them again.
///
/// Returns 1 where it was written to either, 0 where there is neither or it cannot be written, and -1 where
/// `text` is NULL.
///
/// # Safety
///
/// `text` is NULL or ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupeer_mark(text: *const c_char) -> c_int {
    if text.is_null() {
        return -1;
    }
    let mut written = false;
    call::quietly(|| {
        // SAFETY: not null, and the caller's text ends in NUL.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        let recorded = record::mark(text);
        written = log::mark(text) || recorded;
    });
    c_int::from(written)
}
