//! Reads memory of the program that may not exist, without the risk of a fault.

use super::errno::errno;
use super::valgrind;
use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use cupeer_spec::value::{MOST_TEXT, Value};
use cupeer_stacks::Memory;

/// The memory of this process.
#[derive(Clone, Copy)]
pub struct Own;

impl Memory for Own {
    #[inline]
    fn copy(self, address: usize, place: &mut [u8]) -> usize {
        copy(address, place)
    }
}

/// Why the system refuses process_vm_readv, an errno, as filters of containers do; 0 where it does not.
static REFUSED: AtomicI32 = AtomicI32::new(0);

/// Copies memory of the program, found out without the risk of a fault. Gives how many bytes could be read.
pub fn copy(address: usize, place: &mut [u8]) -> usize {
    let read = if REFUSED.load(Relaxed) == 0 { by_call(address, place) } else { by_file(address, place) };
    if let Ok(read @ 1..) = read {
        return read;
    }
    // Not one byte where the range leaves the mapped memory in its first page; up to the end of that page it
    // may be there.
    const PAGE: usize = 4096;
    let to_end = PAGE - address % PAGE;
    if to_end < place.len() { copy(address, &mut place[..to_end]) } else { 0 }
}

fn by_call(address: usize, place: &mut [u8]) -> Result<usize, c_int> {
    let local = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: place.len() };
    // SAFETY: the kernel reads from this process on our behalf, and answers an error where it cannot.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(read).or_else(|_| match errno() {
        error @ (libc::EPERM | libc::ENOSYS | libc::EACCES) => {
            REFUSED.store(error, Relaxed);
            by_file(address, place)
        }
        error => Err(error),
    })
}

/// The same through a file, which costs three system calls. It is opened each time, because programs close descriptors
/// that they do not know.
fn by_file(address: usize, place: &mut [u8]) -> Result<usize, c_int> {
    // SAFETY: the path ends in NUL.
    let file = unsafe { libc::open(c"/proc/self/mem".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return Err(errno());
    }
    // SAFETY: the place is writable, and the descriptor was opened above.
    unsafe {
        let read = libc::pread(file, place.as_mut_ptr().cast(), place.len(), address as libc::off_t);
        let read = usize::try_from(read).map_err(|_| errno());
        libc::close(file);
        read
    }
}

/// Copies pieces of memory, one behind the other, in one system call, which costs hardly more for many than for one: they
/// are what it writes, and the place is what it writes to. Gives how many bytes could be read before one that is not
/// there; `None` where the system refuses that.
pub fn gather(pieces: &[libc::iovec], place: &mut [MaybeUninit<u8>]) -> Option<usize> {
    static IS_REFUSED: AtomicBool = AtomicBool::new(false);
    if IS_REFUSED.load(Relaxed) {
        return None;
    }
    // It would complain of what it takes for freed, or for never written.
    if valgrind::is_here() {
        return Some(0);
    }
    let to = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
    // By its number: sanitizers put functions of their own before libc's, which look at what is read.
    // SAFETY: the kernel reads the pieces on our behalf and answers an error where it cannot; the place is writable.
    let read = unsafe {
        libc::syscall(
            libc::SYS_process_vm_writev,
            libc::getpid(),
            pieces.as_ptr(),
            pieces.len(),
            &raw const to,
            1usize,
            0usize,
        )
    };
    usize::try_from(read).map(Some).unwrap_or_else(|_| match errno() {
        libc::EPERM | libc::ENOSYS | libc::EACCES => {
            IS_REFUSED.store(true, Relaxed);
            None
        }
        _ => Some(0),
    })
}

/// Why no memory of the program can be read, where that is so: what process_vm_readv answers, and what /proc/self/mem.
pub fn refusal() -> Option<(c_int, c_int)> {
    static THERE: u8 = 1;
    let (address, mut byte) = (ptr::from_ref(&THERE) as usize, [0]);
    if copy(address, &mut byte) == 1 {
        return None;
    }
    Some((REFUSED.load(Relaxed), by_file(address, &mut byte).err().unwrap_or(0)))
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

/// Returns true if something is mapped at an address, though it may not be readable.
pub fn is_mapped(address: u64) -> bool {
    let mut is_resident = 0;
    // SAFETY: the kernel looks the page up, and writes one byte for it.
    unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE) as u64;
        libc::mincore((address & page.wrapping_neg()) as *mut c_void, 1, &mut is_resident) == 0
    }
}

/// A copy of a value of the program. `None` where it cannot be read.
pub fn copy_value<T: Value>(pointer: *const T) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the bytes are the value's own; what is written there is read by nobody before it is whole.
    let place = unsafe {
        ptr::write_bytes(value.as_mut_ptr(), 0, 1);
        core::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>())
    };
    let is_whole = !pointer.is_null() && copy(pointer as usize, place) == size_of::<T>();
    // SAFETY: all bytes were written, and values are plain data of C, for which any bytes do.
    is_whole.then(|| unsafe { value.assume_init() })
}

/// A copy of a text of the program, as much of it as is printed. `None` where it cannot be read.
pub fn copy_text(text: *const c_char) -> Option<[c_char; MOST_TEXT + 2]> {
    let mut bytes = [0u8; MOST_TEXT + 2];
    if text.is_null() || copy(text as usize, &mut bytes[..=MOST_TEXT]) == 0 {
        return None;
    }
    Some(bytes.map(|byte| byte as c_char))
}
