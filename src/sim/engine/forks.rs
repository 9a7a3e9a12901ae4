//! What tells the process that called `cuInit` from its children by fork.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A word that holds 1 in the process that called `cuInit`, and 0 in its children: the kernel wipes it.
static MARK: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
/// The process that called `cuInit`, where the kernel does not know such words.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Remembers the calling process as the one that called `cuInit`.
pub(crate) fn remember() {
    MARK.get_or_init(mark);
    PROCESS.store(std::process::id(), Ordering::Relaxed);
}

fn mark() -> Option<&'static AtomicU32> {
    // SAFETY: a new anonymous page of our own, which stays mapped for ever; the word in it is aligned, and
    // any bytes are a value of it.
    unsafe {
        let page = libc::mmap(
            core::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED || libc::madvise(page, 4096, libc::MADV_WIPEONFORK) != 0 {
            return None;
        }
        let word = &*page.cast::<AtomicU32>();
        word.store(1, Ordering::Relaxed);
        Some(word)
    }
}

/// Whether `cuInit` was called by the process of which this one is a child, by fork and without exec.
pub(crate) fn is_forked_child() -> bool {
    match MARK.get() {
        None => false,
        Some(Some(word)) => word.load(Ordering::Relaxed) == 0,
        Some(None) => PROCESS.load(Ordering::Relaxed) != std::process::id(),
    }
}
