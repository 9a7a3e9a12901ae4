//! Finds the function of the table that a program looks up by its name.

use core::ffi::c_char;
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnSpec};

/// The first bytes of each function's name, with zeros behind a shorter one. Most look-ups are of other names, and these tell
/// them apart.
static HEADS: [u64; FUNCTION_COUNT] = {
    let mut heads = [0; FUNCTION_COUNT];
    let mut index = 0;
    while index < FUNCTION_COUNT {
        let name = FUNCTIONS[index].name().as_bytes();
        let mut i = 0;
        while i < size_of::<u64>() && i < name.len() {
            heads[index] |= (name[i] as u64) << (8 * i);
            i += 1;
        }
        index += 1;
    }
    heads
};

/// A bit for each of these, by their hash: most other names have none.
static HAS_HEAD: [u64; 32] = {
    let mut has = [0; 32];
    let mut index = 0;
    while index < FUNCTION_COUNT {
        let bit = bit_of(HEADS[index]);
        has[bit / 64] |= 1 << (bit % 64);
        index += 1;
    }
    has
};

/// The number of a head's bit.
const fn bit_of(head: u64) -> usize {
    (head.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize
}

/// Which function of the table a name is.
///
/// Called for every look-up in the process, also before libc is ready: reads byte by byte, so that no
/// compiler makes a call of strlen or memcmp of it.
pub fn index_of(name: *const c_char) -> Option<usize> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the name ends in NUL, and no byte after that is read, because each is read only where the
    // one before was not NUL.
    let byte = |i: usize| unsafe { name.add(i).cast::<u8>().read_volatile() };
    let mut head = 0;
    for i in 0..size_of::<u64>() {
        let byte = byte(i);
        if byte == 0 {
            break;
        }
        head |= u64::from(byte) << (8 * i);
    }
    let bit = bit_of(head);
    if HAS_HEAD[bit / 64] >> (bit % 64) & 1 == 0 {
        return None;
    }
    let is_rest = |function: &FnSpec| {
        let rest = || function.name().bytes().enumerate().skip(size_of::<u64>());
        rest().all(|(i, wanted)| byte(i) == wanted) && byte(function.name().len()) == 0
    };
    (0..FUNCTION_COUNT).find(|index| HEADS[*index] == head && is_rest(&FUNCTIONS[*index]))
}

const _: () = assert!(FUNCTION_COUNT < 256, "index_of is linear: give it a hash table");
