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
/// Drivers align allocations to at least 256 bytes.
const GRANULE_SHIFT: u32 = 8;
const WORDS: usize = 1 << (CHUNK_SHIFT - GRANULE_SHIFT);
/// Number of chunks that are known: 64 GiB, if all of their memory is used.
const MOST: usize = 1 << 15;
/// Number of places that a chunk may be in.
const PLACES: usize = 64;

/// A chunk. All zero is one that is not known.
pub struct Chunk {
    /// The number of the chunk, plus one; 0 for a free place.
    key: AtomicU64,
    words: AtomicPtr<AtomicU64>,
    /// The device as in the key of a row; 0 before it is known.
    pub device: AtomicU64,
    /// The context that its memory belongs to; 0 if it belongs to none.
    pub context: AtomicU64,
    /// When the driver returned both.
    pub asked: AtomicU64,
}

static CHUNKS: [Chunk; MOST] = [const {
    Chunk {
        key: AtomicU64::new(0),
        words: AtomicPtr::new(ptr::null_mut()),
        device: AtomicU64::new(0),
        context: AtomicU64::new(0),
        asked: AtomicU64::new(0),
    }
}; MOST];

fn places(key: u64) -> impl Iterator<Item = &'static Chunk> {
    (0..PLACES).map(move |place| &CHUNKS[(key as usize).wrapping_add(place) % MOST])
}

/// Returns the chunk of an address, if it is known.
#[inline(always)]
pub fn find(address: u64) -> Option<&'static Chunk> {
    let key = (address >> CHUNK_SHIFT) + 1;
    let first = &CHUNKS[key as usize % MOST];
    if first.key.load(Acquire) == key { Some(first) } else { find_elsewhere(key) }
}

#[inline(never)]
fn find_elsewhere(key: u64) -> Option<&'static Chunk> {
    let known = places(key).take_while(|chunk| chunk.key.load(Relaxed) != 0);
    known.into_iter().find(|chunk| chunk.key.load(Acquire) == key)
}

/// Returns the chunk of an address, and adds it first if needed. `None` if there is no room.
pub fn find_or_add(address: u64) -> Option<&'static Chunk> {
    let key = (address >> CHUNK_SHIFT) + 1;
    for chunk in places(key) {
        let known = chunk.key.load(Acquire);
        if known == key {
            return Some(chunk).filter(|chunk| chunk.has_words());
        }
        if known == 0 {
            match chunk.key.compare_exchange(0, key, AcqRel, Acquire) {
                Err(others) if others != key => {}
                _ => return Some(chunk).filter(|chunk| chunk.has_words()),
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
            // SAFETY: private memory of this size, mapped in `has_words` and never unmapped; it reads as zeros from here on.
            unsafe { libc::madvise(words.cast(), WORDS * size_of::<AtomicU64>(), libc::MADV_DONTNEED) };
        }
        chunk.device.store(0, Relaxed);
    });
}

impl Chunk {
    /// Maps its words, unless they are mapped. Returns false if there is no memory.
    fn has_words(&self) -> bool {
        let size = WORDS * size_of::<AtomicU64>();
        if self.words.load(Acquire).is_null()
            && let Ok(new) = pages::new(size, 0)
            && self.words.compare_exchange(ptr::null_mut(), new.cast(), AcqRel, Acquire).is_err()
        {
            // SAFETY: mapped above and not published.
            unsafe { libc::munmap(new.cast(), size) };
        }
        !self.words.load(Acquire).is_null()
    }

    /// The word of an address in it.
    #[inline(always)]
    pub fn word(&self, address: u64) -> Option<&'static AtomicU64> {
        let words = self.words.load(Acquire);
        let index = (address >> GRANULE_SHIFT) as usize % WORDS;
        // SAFETY: there are that many words, which are atomics, and they are never unmapped.
        (!words.is_null()).then(|| unsafe { &*words.add(index) })
    }

    /// Takes out the words of the chosen addresses.
    pub fn take(&self, is_chosen: impl Fn(u64) -> bool, mut each: impl FnMut(u64)) {
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
        let read =
            |address| find(address).and_then(|chunk| chunk.word(address)).map(|word| word.load(Relaxed));
        let all = [base, base + 256, base + (2 << 20) - 256, other, base + 512];
        assert_eq!(all.map(read), [Some(1), Some(2), Some(3), Some(4), Some(0)]);
        assert_eq!(read(base + (2 << 20)), None);
        let mut taken = Vec::new();
        find(base).unwrap().take(|address| address != base + 256, |word| taken.push(word));
        find(other).unwrap().take(|address| address == other, |word| taken.push(word));
        assert_eq!((&taken[..], read(base), read(base + 256)), (&[1, 3, 4][..], Some(0), Some(2)));
        forget();
        assert_eq!([base + 256, other].map(read), [Some(0); 2]);
    }
}
