//! Memory for the few things that we keep for good. Not from malloc: a call may come from a signal handler
//! that interrupted malloc.

use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

const CHUNK: usize = 64 * 1024;

/// The start of a chunk.
struct Chunk {
    used: AtomicUsize,
}

static CURRENT: AtomicPtr<Chunk> = AtomicPtr::new(ptr::null_mut());

/// Keeps a value for as long as the process runs. `None` where there is no memory.
pub fn keep<T: Sync>(value: T) -> Option<&'static T> {
    const { assert!(align_of::<T>() <= 16 && size_of::<T>() <= 4096 && !core::mem::needs_drop::<T>()) };
    let size = size_of::<T>().next_multiple_of(16);
    loop {
        let chunk = CURRENT.load(Acquire);
        // SAFETY: chunks are never unmapped.
        if let Some(header) = unsafe { chunk.as_ref() } {
            let place = header.used.fetch_add(size, Relaxed);
            if place + size <= CHUNK {
                // SAFETY: the bytes from `place` on belong to the chunk, are aligned to 16, and to
                // nobody else.
                return unsafe {
                    let kept = chunk.cast::<u8>().add(place).cast::<T>();
                    kept.write(value);
                    Some(&*kept)
                };
            }
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // By the system call itself: ThreadSanitizer takes libc's mmap for a write to the memory.
        // SAFETY: maps new memory.
        let new = unsafe { libc::syscall(libc::SYS_mmap, 0, CHUNK, protection, flags, -1, 0) };
        if new == -1 {
            return None;
        }
        let new = new as *mut core::ffi::c_void;
        let header = new.cast::<Chunk>();
        // SAFETY: new, large enough, and nobody else's yet.
        unsafe { header.write(Chunk { used: AtomicUsize::new(size_of::<Chunk>().next_multiple_of(16)) }) };
        if CURRENT.compare_exchange(chunk, header, AcqRel, Acquire).is_err() {
            // SAFETY: mapped above and not published.
            unsafe { libc::munmap(new, CHUNK) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_values_stay_what_they_were() {
        let kept: Vec<_> = (0..20_000u64).filter_map(|i| keep([i; 5])).collect();
        assert_eq!(kept.len(), 20_000);
        assert!(kept.iter().enumerate().all(|(i, value)| **value == [i as u64; 5]));
    }
}
