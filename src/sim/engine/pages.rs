//! Anonymous pages of the process.

/// Protection of pages that no code may touch: their addresses stand for device memory.
pub(crate) const UNTOUCHED: i32 = libc::PROT_NONE;
/// Protection of pages that the program reads and writes.
pub(crate) const USABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Maps new pages near `hint`, or anywhere if nothing is free there. With MAP_FIXED_NOREPLACE in `flags`,
/// maps them only at `hint`.
pub(crate) fn map_pages(hint: u64, size: u64, protection: i32, flags: i32) -> Option<u64> {
    let size = usize::try_from(size).ok()?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flags;
    // SAFETY: a new anonymous mapping, at addresses where nothing is mapped, touches nothing that exists.
    let at = unsafe { libc::mmap(hint as *mut _, size, protection, flags, -1, 0) };
    (at != libc::MAP_FAILED).then_some(at as u64)
}

/// Unmaps pages.
///
/// # Safety
///
/// [`map_pages`] returned these pages, and nothing uses them any more.
pub(crate) unsafe fn unmap_pages(start: u64, size: u64) {
    if size > 0 {
        // SAFETY: the caller promises that these are pages of `map` that nothing uses.
        unsafe { libc::munmap(start as *mut _, size as usize) };
    }
}
