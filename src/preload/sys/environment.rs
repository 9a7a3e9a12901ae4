//! The environment as it is now, read without the risk of a fault: another thread may be changing it.

use crate::call::copy_memory;
use core::ffi::c_char;

/// The longest entry that is looked at.
const LONGEST: usize = 2048;
/// The most entries.
const MOST: usize = 4096;

/// Calls `found` with each `NAME=value` of the environment; what is longer than [`LONGEST`] is cut.
pub fn each(mut found: impl FnMut(&[u8])) {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: a word of libc's.
    let mut entry = unsafe { environ };
    let mut text = [0u8; LONGEST];
    for _ in 0..MOST {
        let mut pointer = [0u8; 8];
        if entry.is_null() || copy_memory(entry as usize, &mut pointer) < pointer.len() {
            return;
        }
        let place = usize::from_le_bytes(pointer);
        if place == 0 {
            return;
        }
        let read = copy_memory(place, &mut text);
        let length = text[..read].iter().position(|byte| *byte == 0).unwrap_or(read);
        found(&text[..length]);
        entry = entry.wrapping_add(1);
    }
}
