//! Finds the function of the table that a program looks up by its name.

use super::entries::{HASHES, is_exported, name};
use crate::sys::object::{GNU_HASH_OF_NOTHING, equals_text, gnu_hash_on};
use core::ffi::{CStr, c_char};
use cupeer_spec::function::FUNCTION_COUNT;

/// A bit for each hash of a function's name, at the position that [`bit_of`] returns. Most lookups are of other names, and most
/// of those names have no bit.
static HAS_NAME: [u64; 32] = {
    let mut has = [0; 32];
    let mut index = 0;
    while index < FUNCTION_COUNT {
        let bit = bit_of(HASHES[index]);
        has[bit / 64] |= 1 << (bit % 64);
        index += 1;
    }
    has
};

const fn bit_of(hash: u32) -> usize {
    (hash.wrapping_mul(0x9e37_79b9) >> 21) as usize
}

/// Returns the index in the table of the function with this name; `None` if no function has it.
///
/// It runs for every lookup in the process, also before libc is ready. So it reads byte by byte, and the compiler cannot
/// turn that into a call of strlen or memcmp.
pub fn index_of(wanted: *const c_char) -> Option<usize> {
    if wanted.is_null() {
        return None;
    }
    let (mut hash, mut next) = (GNU_HASH_OF_NOTHING, wanted.cast::<u8>());
    loop {
        // SAFETY: the name ends in NUL, and no byte after the NUL is read.
        let byte = unsafe { next.read_volatile() };
        if byte == 0 {
            break;
        }
        (hash, next) = (gnu_hash_on(hash, byte), next.wrapping_add(1));
    }
    let bit = bit_of(hash);
    if HAS_NAME[bit / 64] >> (bit % 64) & 1 == 0 {
        return None;
    }
    // SAFETY: the name ends in NUL.
    (0..FUNCTION_COUNT).find(|index| HASHES[*index] == hash && unsafe { equals_text(wanted, name(*index)) })
}

/// Returns the index in the table of the function with this name, if we export it.
pub fn exported_as(wanted: &CStr) -> Option<usize> {
    index_of(wanted.as_ptr()).filter(|index| is_exported(*index))
}

const _: () = assert!(FUNCTION_COUNT < 256, "index_of is linear: give it a hash table");
