//! The content of copies between device memory and the host, as the report compares it: if one process copies
//! data to the host and another one copies the same data from there, it took a detour between their devices.

use crate::settings::key::fingerprint;
use crate::sys::program_memory::copy;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The size of the smallest copies that a finding about a detour counts.
pub const SMALLEST: u64 = 64 << 10;

/// The most copies of a process that are read.
const MOST: u32 = 1024;

/// The number of pieces that are read, evenly spaced over the buffer, and the bytes of each.
const PIECES: u64 = 8;
const PIECE: usize = 512;

/// The content of a copy.
pub struct Content {
    pub hash: u64,
    /// True if the pieces repeat one word.
    pub is_constant: bool,
}

/// Reads the content of a buffer that a call has just copied. `None` if it cannot be read, as another thread may have unmapped it, or
/// if all of it is 0, as new memory often is. For use in `guarded`.
pub fn of(host: u64, bytes: u64) -> Option<Content> {
    static READ: AtomicU32 = AtomicU32::new(0);
    if READ.load(Relaxed) >= MOST {
        return None;
    }
    READ.fetch_add(1, Relaxed);
    let mut all = [0; PIECE * PIECES as usize];
    // The distance is a whole number of words, so that a repeated word looks the same in each piece.
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
