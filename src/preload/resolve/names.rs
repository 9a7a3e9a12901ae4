//! Finds the function of the table that a program looks up by its name.

use super::entries::{HASHES, is_exported, name};
use crate::sys::object::{GNU_HASH_OF_NOTHING, equals_text, gnu_hash_on};
use core::ffi::{CStr, c_char};
use cupeer_spec::function::FUNCTION_COUNT;

/// Marks the end of a chain.
const NONE: u8 = u8::MAX;

/// Functions whose names have the same [`slot_of`] form a chain: the first function of each slot, and the next one after each
/// function.
static CHAINS: ([u8; 512], [u8; FUNCTION_COUNT]) = {
    let (mut first, mut next) = ([NONE; 512], [NONE; FUNCTION_COUNT]);
    let mut index = FUNCTION_COUNT;
    while index > 0 {
        index -= 1;
        let slot = slot_of(HASHES[index]);
        next[index] = first[slot];
        first[slot] = index as u8;
    }
    (first, next)
};

const fn slot_of(hash: u32) -> usize {
    (hash.wrapping_mul(0x9e37_79b9) >> 23) as usize
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
    let mut index = CHAINS.0[slot_of(hash)];
    while index != NONE {
        let here = usize::from(index);
        // SAFETY: the name ends in NUL.
        if HASHES[here] == hash && unsafe { equals_text(wanted, name(here)) } {
            return Some(here);
        }
        index = CHAINS.1[here];
    }
    None
}

/// Returns the index in the table of the function with this name, if we export it.
pub fn exported_as(wanted: &CStr) -> Option<usize> {
    index_of(wanted.as_ptr()).filter(|index| is_exported(*index))
}

const _: () = assert!(FUNCTION_COUNT < NONE as usize, "the index of a function fits into a byte of CHAINS");
