//! Reads memory of the program that may not exist, without the risk of a fault.

use super::errno::errno;
use super::valgrind;
use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use cupeer_spec::value::{MOST_TEXT, Value};
use cupeer_stacks::Memory;

/// The memory of this process, as a source for readers of stacks.
#[derive(Clone, Copy)]
pub struct OwnMemory;

impl Memory for OwnMemory {
    #[inline]
    fn copy(self, address: usize, place: &mut [u8]) -> usize {
        copy(address, place)
    }
}

/// Error with which the system refused process_vm_readv, as filters of containers make it do; 0 if it did not.
static REFUSED: AtomicI32 = AtomicI32::new(0);

/// Copies memory of the program without the risk of a fault. Returns the number of bytes that could be read.
pub fn copy(address: usize, place: &mut [u8]) -> usize {
    let read = if REFUSED.load(Relaxed) == 0 { by_call(address, place) } else { by_file(address, place) };
    if let Ok(read @ 1..) = read {
        return read;
    }
    // The call reads nothing if mapped memory ends in the first page of the range. Bytes up to the end of that page may exist.
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

/// Copies memory through /proc/self/mem, which costs three system calls. The file is opened each time, because programs close
/// descriptors that they do not know.
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

/// Copies pieces of memory into one buffer in one system call, which costs little more for many pieces than for one: the call
/// writes from the pieces to the buffer. Returns the number of bytes before the first piece that does not exist; `None` if the
/// system refuses the call.
pub fn gather(pieces: &[libc::iovec], place: &mut [MaybeUninit<u8>]) -> Option<usize> {
    static IS_REFUSED: AtomicBool = AtomicBool::new(false);
    if IS_REFUSED.load(Relaxed) {
        return None;
    }
    // valgrind would report reads of memory that it considers freed or uninitialized.
    if valgrind::is_valgrind_running() {
        return Some(0);
    }
    let to = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
    // The system call is made by its number: sanitizers replace libc's functions with their own, which check the memory that is
    // read.
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

/// Returns the errors of process_vm_readv and of /proc/self/mem if neither can read memory of the program; `None` if one can.
pub fn refusal() -> Option<(c_int, c_int)> {
    static THERE: u8 = 1;
    let (address, mut byte) = (ptr::from_ref(&THERE) as usize, [0]);
    if copy(address, &mut byte) == 1 {
        return None;
    }
    Some((REFUSED.load(Relaxed), by_file(address, &mut byte).err().unwrap_or(0)))
}

/// Returns true if `count` values of the program can be read. A bad pointer causes no fault.
pub fn is_readable<T>(pointer: *const T, count: usize) -> bool {
    let mut scratch = [0u8; 1024];
    let size = count.saturating_mul(size_of::<T>());
    match scratch.get_mut(..size) {
        Some(place) if !pointer.is_null() => copy(pointer as usize, place) == size,
        _ => false,
    }
}

/// Returns true if memory is mapped at an address, even if it is not readable.
pub fn is_mapped(address: u64) -> bool {
    let mut is_resident = 0;
    // SAFETY: the kernel looks the page up, and writes one byte for it.
    unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE) as u64;
        libc::mincore((address & page.wrapping_neg()) as *mut c_void, 1, &mut is_resident) == 0
    }
}

/// Copies a value in memory of the program. Returns `None` if it cannot be read.
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

/// Copies a text in memory of the program, cut to the length that is printed. Returns `None` if it cannot be read.
pub fn copy_text(text: *const c_char) -> Option<[c_char; MOST_TEXT + 2]> {
    let mut bytes = [0u8; MOST_TEXT + 2];
    if text.is_null() || copy(text as usize, &mut bytes[..=MOST_TEXT]) == 0 {
        return None;
    }
    Some(bytes.map(|byte| byte as c_char))
}
