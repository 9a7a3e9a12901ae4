//! Memory of the program that may not be there: read without the risk of a fault.

use core::ffi::{c_char, c_void};
use cupeer_spec::value::MOST_TEXT;

/// Copies memory of the program, found out without the risk of a fault. Gives how many bytes could be read.
pub fn copy(address: usize, place: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: place.len() };
    // SAFETY: the kernel reads from this process on our behalf, and answers an error where it cannot.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    if read > 0 {
        return read as usize;
    }
    // Not one byte where the range leaves the mapped memory in its first page; up to the end of that page it
    // may be there.
    const PAGE: usize = 4096;
    let to_end = PAGE - address % PAGE;
    if to_end < place.len() { copy(address, &mut place[..to_end]) } else { 0 }
}

/// Whether memory of the program can be read, found out without the risk of a fault.
pub fn is_readable<T>(pointer: *const T, count: usize) -> bool {
    let mut scratch = [0u8; 1024];
    let size = count.saturating_mul(size_of::<T>());
    match scratch.get_mut(..size) {
        Some(place) if !pointer.is_null() => copy(pointer as usize, place) == size,
        _ => false,
    }
}

/// A copy of a text of the program, as much of it as is printed. `None` where it cannot be read.
pub fn copy_text(text: *const c_char) -> Option<[c_char; MOST_TEXT + 2]> {
    let mut bytes = [0u8; MOST_TEXT + 2];
    if text.is_null() || copy(text as usize, &mut bytes[..=MOST_TEXT]) == 0 {
        return None;
    }
    Some(bytes.map(|byte| byte as c_char))
}
