//! The content of copies between device memory and the host, as the report compares it: if one process copies
//! data to the host and another one copies the same data from there, it took a detour between their devices.

use crate::settings::key::fingerprint;
use crate::sys::program_memory::copy;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Size of the smallest copies that a finding about a detour counts, in bytes.
pub const SMALLEST: u64 = 64 << 10;

/// Number of copies of a process whose content is read: the first ones.
const MOST_COPIES: u32 = 1024;

/// Number of pieces of a buffer that are read, evenly spaced.
const PIECES: u64 = 8;
/// Size of a piece, in bytes.
const PIECE_SIZE: usize = 512;

/// A summary of the bytes that a call copied.
pub struct Content {
    pub hash: u64,
    /// True if the pieces repeat one word.
    pub is_constant: bool,
}

/// Reads pieces of the host buffer of a copy that has returned. Returns `None` if the buffer cannot be read, for example because
/// another thread unmapped it, or if all pieces are 0, as new memory often is. For use in `guarded`.
pub fn sample(host: u64, bytes: u64) -> Option<Content> {
    static READ: AtomicU32 = AtomicU32::new(0);
    if READ.load(Relaxed) >= MOST_COPIES {
        return None;
    }
    READ.fetch_add(1, Relaxed);
    let mut all = [0; PIECE_SIZE * PIECES as usize];
    // The distance is a whole number of words, so that a repeated word looks the same in each piece.
    let step = (bytes - PIECE_SIZE as u64) / (PIECES - 1) / 8 * 8;
    for (number, piece) in (0..).zip(all.chunks_exact_mut(PIECE_SIZE)) {
        if copy((host + step * number) as usize, piece) != PIECE_SIZE {
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
