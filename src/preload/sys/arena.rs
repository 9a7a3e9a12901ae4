//! Memory for the few things that are kept permanently. It does not use malloc, because a call may come from a signal
//! handler that interrupted malloc.

use super::pages;
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

const CHUNK: usize = 64 * 1024;

#[repr(C, align(16))]
struct Chunk {
    /// Number of bytes after this header that are taken.
    used: AtomicUsize,
}

/// The first chunk, which is static so that it exists even if memory is short.
#[repr(C, align(16))]
struct FirstChunk(Chunk, UnsafeCell<[u8; CHUNK - size_of::<Chunk>()]>);
// SAFETY: each byte has one owner, who was given it by `take`.
unsafe impl Sync for FirstChunk {}
static FIRST: FirstChunk =
    FirstChunk(Chunk { used: AtomicUsize::new(0) }, UnsafeCell::new([0; CHUNK - size_of::<Chunk>()]));

static CURRENT: AtomicPtr<Chunk> = AtomicPtr::new(ptr::from_ref(&FIRST).cast_mut().cast());

/// Stores a value for the rest of the process. Returns `None` if there is no memory.
pub fn store_permanently<T: Sync>(value: T) -> Option<&'static T> {
    const { assert!(align_of::<T>() <= ALIGN && size_of::<T>() <= 4096 && !core::mem::needs_drop::<T>()) };
    let place = take(size_of::<T>(), align_of::<T>()).cast::<T>();
    if place.is_null() {
        return None;
    }
    // SAFETY: that many bytes, aligned, and nobody else's.
    unsafe {
        place.write(value);
        Some(&*place)
    }
}

/// Alignment of all stored values, in bytes.
const ALIGN: usize = 16;

/// Takes `size` bytes for the rest of the process. Returns null if there is no memory.
pub fn take(size: usize, align: usize) -> *mut u8 {
    if size > CHUNK / 4 || align > ALIGN {
        // The kernel aligns new memory to pages.
        return if align <= 4096 { pages::map_zeroed(size, 0).unwrap_or(ptr::null_mut()) } else { ptr::null_mut() };
    }
    let size = size.next_multiple_of(ALIGN);
    loop {
        let chunk = CURRENT.load(Acquire);
        // SAFETY: chunks are never unmapped.
        let place = size_of::<Chunk>() + unsafe { (*chunk).used.fetch_add(size, Relaxed) };
        if place + size <= CHUNK {
            return chunk.cast::<u8>().wrapping_add(place);
        }
        let Ok(new) = pages::map_zeroed(CHUNK, 0) else { return ptr::null_mut() };
        let header = new.cast::<Chunk>();
        // SAFETY: new, large enough, and nobody else's yet.
        unsafe { header.write(Chunk { used: AtomicUsize::new(0) }) };
        if CURRENT.compare_exchange(chunk, header, AcqRel, Acquire).is_err() {
            // SAFETY: mapped above and not published.
            unsafe { libc::munmap(new.cast(), CHUNK) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_values_stay_what_they_were() {
        let kept: Vec<_> = (0..20_000u64).filter_map(|i| store_permanently([i; 5])).collect();
        assert_eq!(kept.len(), 20_000);
        assert!(kept.iter().enumerate().all(|(i, value)| **value == [i as u64; 5]));
    }
}
