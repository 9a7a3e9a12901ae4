//! Anonymous pages of the process.

/// Pages that no code may touch: their addresses stand for memory that a device has.
pub(crate) const UNTOUCHED: i32 = libc::PROT_NONE;
/// Pages for the program to read and write.
pub(crate) const USABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Maps new pages near `hint`, or anywhere if nothing is free there. With MAP_FIXED_NOREPLACE as a flag, they are at
/// `hint` or nowhere.
pub(crate) fn map(hint: u64, size: u64, protection: i32, flags: i32) -> Option<u64> {
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
/// [`map`] returned these pages, and nothing uses them any more.
pub(crate) unsafe fn unmap(start: u64, size: u64) {
    if size > 0 {
        // SAFETY: the caller promises that these are pages of `map` that nothing uses.
        unsafe { libc::munmap(start as *mut _, size as usize) };
    }
}
