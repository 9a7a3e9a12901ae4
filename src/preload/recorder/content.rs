//! The content of copies between device memory and the host, as the report compares it: data that one process copies to the host and
//! another one copies from there went between their devices on a detour.

use crate::settings::key::fingerprint;
use crate::sys::program_memory::copy;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Smaller copies are not worth a detour's finding.
pub const SMALLEST: u64 = 64 << 10;

/// The most copies of a process that are looked at.
const MOST: u32 = 1024;

/// The pieces that are read, from the beginning to the end, and the bytes of each.
const PIECES: u64 = 8;
const PIECE: usize = 512;

/// What was copied.
pub struct Content {
    pub hash: u64,
    /// Whether the pieces repeat one word.
    pub is_constant: bool,
}

/// Reads the content of a buffer that a call has just copied. `None` if it cannot be read, or all of it is 0: new memory often is. Another
/// thread may have unmapped it. For use in `guarded`.
pub fn of(host: u64, bytes: u64) -> Option<Content> {
    static LOOKED: AtomicU32 = AtomicU32::new(0);
    if LOOKED.load(Relaxed) >= MOST {
        return None;
    }
    LOOKED.fetch_add(1, Relaxed);
    let mut all = [0; PIECE * PIECES as usize];
    // Whole words, so that one that is repeated is seen to be.
    let step = (bytes - PIECE as u64) / (PIECES - 1) / 8 * 8;
    for (number, piece) in (0..).zip(all.chunks_exact_mut(PIECE)) {
        if copy((host + step * number) as usize, piece) != PIECE {
            return None;
        }
    }
    let (words, _) = all.as_chunks::<8>();
    let is_constant = words.iter().all(|word| *word == words[0]);
    if is_constant && words[0] == [0; 8] {
        return None;
    }
    Some(Content { hash: fingerprint(&all), is_constant })
}
