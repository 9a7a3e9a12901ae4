//! Identifies shareable handles as programs pass them: file descriptors and fabric handles.
//!
//! The number of a descriptor does not identify it, only what it refers to. All of the driver's descriptors look the
//! same (one device file, with no data of their own), and programs close theirs soon after sending them. The open file
//! description stays the same in every process that receives a descriptor. So cupeer gives it a number when memory is
//! exported: the position of an advisory lock of its own, far beyond what any program locks. Every process that has
//! the descriptor reads the number from /proc/thread-self/fdinfo. The lock ends with the last descriptor, and changes
//! nothing for the driver or the program (observed with driver 580: results and the lifetime of the memory are
//! unchanged).

use super::clock;
use super::files;
use super::guard::guarded;
use super::line::ShortText;
use super::program_memory::copy;
use core::cell::Cell;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use cupeer_spec::record::live::mix_bits;
use cupeer_spec::value::Shareable;

/// Number of the open file description that was found in a call, so that it is read only once per call.
#[derive(Default)]
pub struct Known(Cell<Option<u64>>);

/// Returns a shareable handle that the program passes to the driver. `kind` is the type of the handle. Returns `None` if the
/// handle cannot be read.
pub fn from_program(handle: *mut c_void, kind: i32, known: &Known) -> Option<Shareable> {
    match kind {
        // The program passes the descriptor itself in place of a pointer to the handle.
        Shareable::DESCRIPTOR => {
            let fd = handle as usize as c_int;
            Some(Shareable::Descriptor(fd, known.get_or(|| read_number(fd))))
        }
        Shareable::FABRIC => copy_bytes(handle.cast_const().cast()).map(Shareable::Fabric),
        _ => None,
    }
}

/// Returns a shareable handle that the driver has returned to the program. `kind` is the type of the handle.
///
/// # Safety
///
/// The driver has written such a handle to `handle`, or it is null.
pub unsafe fn from_driver(handle: *mut c_void, kind: i32, known: &Known) -> Option<Shareable> {
    if handle.is_null() {
        return None;
    }
    match kind {
        Shareable::DESCRIPTOR => {
            // SAFETY: the driver has written a descriptor there.
            let fd = unsafe { handle.cast::<c_int>().read_unaligned() };
            Some(Shareable::Descriptor(fd, known.get_or(|| give_number(fd))))
        }
        // SAFETY: the driver has written 64 bytes there.
        Shareable::FABRIC => Some(Shareable::Fabric(unsafe { handle.cast::<[u8; 64]>().read_unaligned() })),
        _ => None,
    }
}

fn copy_bytes(place: *const u8) -> Option<[u8; 64]> {
    let mut bytes = [0; 64];
    let mut length = 0;
    guarded(|| length = copy(place as usize, &mut bytes));
    (length == bytes.len()).then_some(bytes)
}

impl Known {
    fn get_or(&self, find: impl FnOnce() -> u64) -> u64 {
        if let Some(number) = self.0.get() {
            return number;
        }
        let mut number = 0;
        guarded(|| number = find());
        self.0.set(Some(number));
        number
    }
}

/// Gives a number to the open file description of a descriptor, if it has none yet. Returns the number; 0 if it cannot have one.
fn give_number(fd: c_int) -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // SAFETY: gettid has no preconditions.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) as u64 };
    let number =
        Shareable::description_id(mix_bits(clock::now() ^ mix_bits(thread << 32 ^ COUNT.fetch_add(1, Relaxed))));
    // SAFETY: a structure of integers.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    (lock.l_type, lock.l_whence) = (libc::F_RDLCK as _, libc::SEEK_SET as _);
    (lock.l_start, lock.l_len) = (number as libc::off_t, 1);
    // SAFETY: sets a lock on an open file, from a structure that lives through the call.
    if unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &raw const lock) } == 0 { number } else { 0 }
}

/// Returns the number of the open file description of a descriptor; 0 if it has no number, or the number cannot be read.
fn read_number(fd: c_int) -> u64 {
    let path = ShortText::<64>::new(format_args!("/proc/thread-self/fdinfo/{fd}\0"));
    let mut bytes = [0u8; 1024];
    let read = CStr::from_bytes_until_nul(path.text().as_bytes()).map(|path| files::read(path, &mut bytes));
    parse_number(&bytes[..read.map_or(0, |read| read.unwrap_or(0))])
}

/// Returns the number in the text of /proc/thread-self/fdinfo for a descriptor: `lock:\t1: OFDLCK ADVISORY  READ -1 00:06:174
/// START END`.
fn parse_number(info: &[u8]) -> u64 {
    let text = core::str::from_utf8(info).unwrap_or_default();
    let locks = text.lines().filter(|line| line.starts_with("lock:") && line.contains("OFDLCK"));
    let mut starts = locks.filter_map(|line| line.split_ascii_whitespace().rev().nth(1)?.parse().ok());
    starts.find(|start| Shareable::is_description_id(*start)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsRawFd;

    fn open() -> File {
        // SAFETY: the name ends in NUL; the descriptor is closed with the path's file, opened anew below.
        let memory = unsafe { libc::memfd_create(c"numbered".as_ptr(), libc::MFD_CLOEXEC) };
        let path = format!("/proc/self/fd/{memory}");
        let file = OpenOptions::new().read(true).write(true).open(path).expect("it opens");
        // SAFETY: opened above.
        unsafe { libc::close(memory) };
        file
    }

    #[test]
    fn a_number_belongs_to_the_open_file_description() {
        let (file, other) = (open(), open());
        let one = give_number(file.as_raw_fd());
        assert!(Shareable::is_description_id(one));
        assert_eq!((read_number(file.as_raw_fd()), read_number(other.as_raw_fd())), (one, 0));
        let copy = file.try_clone().expect("a copy");
        assert_eq!(read_number(copy.as_raw_fd()), one, "a duplicate");
        // The same file, opened once more.
        let again = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("it opens");
        assert_eq!(read_number(again.as_raw_fd()), 0);
        assert_ne!(give_number(other.as_raw_fd()), one);
    }

    #[test]
    fn invalid_descriptors_have_no_number() {
        assert_eq!((read_number(-1), read_number(987_654), give_number(987_654)), (0, 0, 0));
        let known = Known::default();
        assert!(from_program((-1isize) as *mut c_void, 1, &known) == Some(Shareable::Descriptor(-1, 0)));
        assert!(from_program(core::ptr::null_mut(), 8, &known).is_none());
        assert!(from_program(16 as *mut c_void, 8, &known).is_none(), "unreadable");
    }

    #[test]
    fn other_locks_are_not_taken_for_one() {
        let number = Shareable::description_id(0x1234);
        let info = format!(
            "pos:\t0\nflags:\t02\nlock:\t1: POSIX  ADVISORY  WRITE 12 00:01:9 {number} {number}\n\
             lock:\t2: OFDLCK ADVISORY  READ -1 00:01:9 4096 EOF\n\
             lock:\t3: OFDLCK ADVISORY  READ -1 00:01:9 {number} {number}\n"
        );
        assert_eq!(parse_number(info.as_bytes()), number);
        let cut = info.rfind("lock:").expect("it is there");
        assert_eq!(parse_number(&info.as_bytes()[..cut]), 0);
        assert_eq!(parse_number(b"\xff\xfe"), 0);
    }
}
