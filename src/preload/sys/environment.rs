//! Reads the current environment without the risk of a fault, because another thread may be changing it.

use super::program_memory;
use core::ffi::c_char;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use cupeer_spec::rank::Ranks;

/// Number of bytes of an entry that are read: the first ones.
const LONGEST: usize = 2048;
/// Number of entries that are read: the first ones.
const MOST: usize = 4096;

static RANK: AtomicU32 = AtomicU32::new(u32::MAX);
static LOCAL_RANK: AtomicU32 = AtomicU32::new(u32::MAX);

/// Returns the rank of this process in the job, as [`find_ranks`] found it last; `u32::MAX` if no launcher
/// set one.
pub fn rank() -> u32 {
    RANK.load(Relaxed)
}

/// Returns the rank of this process on its host; `u32::MAX` if there is none.
pub fn local_rank() -> u32 {
    LOCAL_RANK.load(Relaxed)
}

pub fn find_ranks() {
    let mut ranks = Ranks::default();
    each(|variable| {
        if let Some(at) = variable.iter().position(|byte| *byte == b'=') {
            ranks.add_variable(&variable[..at], &variable[at + 1..]);
        }
    });
    RANK.store(ranks.rank_in_job().unwrap_or(u32::MAX), Relaxed);
    LOCAL_RANK.store(ranks.rank_on_host().unwrap_or(u32::MAX), Relaxed);
}

/// Calls `found` with each entry `NAME=value` of the environment, cut to [`LONGEST`] bytes.
pub fn each(mut found: impl FnMut(&[u8])) {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: a word of libc's.
    let mut entry = unsafe { environ };
    let mut text = [0u8; LONGEST];
    for _ in 0..MOST {
        let mut pointer = [0u8; 8];
        if entry.is_null() || program_memory::copy(entry as usize, &mut pointer) < pointer.len() {
            return;
        }
        let place = usize::from_le_bytes(pointer);
        if place == 0 {
            return;
        }
        let read = program_memory::copy(place, &mut text);
        let length = text[..read].iter().position(|byte| *byte == 0).unwrap_or(read);
        found(&text[..length]);
        entry = entry.wrapping_add(1);
    }
}
