//! Tells the process that called `cuInit` from its children by fork.

use super::pages;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A word that is 1 in the process that called `cuInit`. The kernel sets it to 0 in children by fork. `None`
/// if the kernel cannot do so.
static FORK_FLAG: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
/// The pid of the process that called `cuInit`, for kernels that cannot wipe memory on fork.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Notes that the calling process has called `cuInit`.
pub(crate) fn remember_process() {
    FORK_FLAG.get_or_init(map_fork_flag);
    PROCESS.store(std::process::id(), Ordering::Relaxed);
}

fn map_fork_flag() -> Option<&'static AtomicU32> {
    let page = pages::map_pages(0, 4096, pages::USABLE, 0)? as *mut AtomicU32;
    // SAFETY: the page is new and stays mapped; the word at its start is aligned, and any bytes are a value of it.
    unsafe {
        if libc::madvise(page.cast(), 4096, libc::MADV_WIPEONFORK) != 0 {
            return None;
        }
        (*page).store(1, Ordering::Relaxed);
        Some(&*page)
    }
}

/// Returns true in a process that is a child of the process that called `cuInit`, by fork and without exec.
pub(crate) fn is_forked_child() -> bool {
    match FORK_FLAG.get() {
        None => false,
        Some(Some(word)) => word.load(Ordering::Relaxed) == 0,
        Some(None) => PROCESS.load(Ordering::Relaxed) != std::process::id(),
    }
}
