//! Keeps a word for each allocation, found by its address.
//!
//! Chunks of 2 MiB, the smallest unit that a driver maps, have a word for each place where an allocation can begin. Only the thread that got
//! an address from the driver, and the one that frees it, use its word: they take no lock.

use crate::sys::pages;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

const CHUNK_SHIFT: u32 = 21;
/// Number of bits of an address below the alignment of allocations: drivers align them to at least 256 bytes.
const GRANULE_SHIFT: u32 = 8;
const WORDS: usize = 1 << (CHUNK_SHIFT - GRANULE_SHIFT);
/// Number of chunks that can be known at once: they cover 64 GiB if all of their memory is used. Allocations in
/// further chunks have no word.
const MOST: usize = 1 << 15;
/// Number of entries of the table, one after the other, in which a chunk may be.
const PLACES: usize = 64;

/// Chunk of 2 MiB of addresses. All bytes are zero in a free entry of the table.
pub struct Chunk {
    /// Number of the chunk, plus one; 0 for a free place of the table.
    key: AtomicU64,
    /// Array of the words of the chunk; null before it is mapped.
    words: AtomicPtr<AtomicU64>,
    /// Device of the memory, as in the key of a row; 0 before the device is known.
    pub device: AtomicU64,
    /// Context that the memory belongs to; 0 for none.
    pub context: AtomicU64,
    /// Time at which the driver returned the device and the context.
    pub queried_at: AtomicU64,
}

static CHUNKS: [Chunk; MOST] = [const {
    Chunk {
        key: AtomicU64::new(0),
        words: AtomicPtr::new(ptr::null_mut()),
        device: AtomicU64::new(0),
        context: AtomicU64::new(0),
        queried_at: AtomicU64::new(0),
    }
}; MOST];

fn probe_places(key: u64) -> impl Iterator<Item = &'static Chunk> {
    (0..PLACES).map(move |place| &CHUNKS[(key as usize).wrapping_add(place) % MOST])
}

/// Returns the chunk that contains an address, if the chunk is known.
#[inline(always)]
pub fn find(address: u64) -> Option<&'static Chunk> {
    let key = (address >> CHUNK_SHIFT) + 1;
    let first = &CHUNKS[key as usize % MOST];
    if first.key.load(Acquire) == key { Some(first) } else { find_elsewhere(key) }
}

#[inline(never)]
fn find_elsewhere(key: u64) -> Option<&'static Chunk> {
    let known = probe_places(key).take_while(|chunk| chunk.key.load(Relaxed) != 0);
    known.into_iter().find(|chunk| chunk.key.load(Acquire) == key)
}

/// Returns the chunk that contains an address, and adds the chunk first if needed. `None` if there is no room.
pub fn find_or_add(address: u64) -> Option<&'static Chunk> {
    let key = (address >> CHUNK_SHIFT) + 1;
    for chunk in probe_places(key) {
        let known = chunk.key.load(Acquire);
        if known == key {
            return Some(chunk).filter(|chunk| chunk.map_words());
        }
        if known == 0 {
            match chunk.key.compare_exchange(0, key, AcqRel, Acquire) {
                Err(others) if others != key => {}
                _ => return Some(chunk).filter(|chunk| chunk.map_words()),
            }
        }
    }
    None
}

/// Runs `work` on all known chunks.
pub fn each(work: impl FnMut(&'static Chunk)) {
    CHUNKS.iter().filter(|chunk| chunk.key.load(Acquire) != 0).for_each(work);
}

/// Forgets all allocations. The chunks stay, because other threads may be using them.
pub fn forget() {
    each(|chunk| {
        let words = chunk.words.load(Acquire);
        if !words.is_null() {
            // SAFETY: private memory of this size, mapped in `map_words` and never unmapped; it reads as zeros from here on.
            unsafe { libc::madvise(words.cast(), WORDS * size_of::<AtomicU64>(), libc::MADV_DONTNEED) };
        }
        chunk.device.store(0, Relaxed);
    });
}

impl Chunk {
    /// Maps the words of the chunk, unless they are mapped. Returns false if there is no memory for them.
    fn map_words(&self) -> bool {
        let size = WORDS * size_of::<AtomicU64>();
        if self.words.load(Acquire).is_null()
            && let Ok(new) = pages::map_zeroed(size, 0)
            && self.words.compare_exchange(ptr::null_mut(), new.cast(), AcqRel, Acquire).is_err()
        {
            // SAFETY: mapped above and not published.
            unsafe { libc::munmap(new.cast(), size) };
        }
        !self.words.load(Acquire).is_null()
    }

    /// Returns the word for an address in the chunk; `None` if the words are not mapped.
    #[inline(always)]
    pub fn word(&self, address: u64) -> Option<&'static AtomicU64> {
        let words = self.words.load(Acquire);
        let index = (address >> GRANULE_SHIFT) as usize % WORDS;
        // SAFETY: there are that many words, which are atomics, and they are never unmapped.
        (!words.is_null()).then(|| unsafe { &*words.add(index) })
    }

    /// Hands over each nonzero word whose address `is_chosen` accepts to `each`, and sets the word to zero.
    pub fn take_chosen(&self, is_chosen: impl Fn(u64) -> bool, mut each: impl FnMut(u64)) {
        let start = self.key.load(Relaxed).wrapping_sub(1) << CHUNK_SHIFT;
        for address in (0..WORDS as u64).map(|index| start + (index << GRANULE_SHIFT)) {
            if let Some(word) = self.word(address)
                && word.load(Relaxed) != 0
                && is_chosen(address)
            {
                each(word.swap(0, AcqRel));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_word() {
        let base = 0x7abc_4000_0000;
        assert!(find(base).is_none());
        // The first place of both is the same.
        let other = base + ((MOST as u64) << CHUNK_SHIFT);
        for (number, address) in [base, base + 256, base + (2 << 20) - 256, other].into_iter().enumerate() {
            find_or_add(address).unwrap().word(address).unwrap().store(number as u64 + 1, Relaxed);
        }
        let read = |address| find(address).and_then(|chunk| chunk.word(address)).map(|word| word.load(Relaxed));
        let all = [base, base + 256, base + (2 << 20) - 256, other, base + 512];
        assert_eq!(all.map(read), [Some(1), Some(2), Some(3), Some(4), Some(0)]);
        assert_eq!(read(base + (2 << 20)), None);
        let mut taken = Vec::new();
        find(base).unwrap().take_chosen(|address| address != base + 256, |word| taken.push(word));
        find(other).unwrap().take_chosen(|address| address == other, |word| taken.push(word));
        assert_eq!((&taken[..], read(base), read(base + 256)), (&[1, 3, 4][..], Some(0), Some(2)));
        forget();
        assert_eq!([base + 256, other].map(read), [Some(0); 2]);
    }
}
