//! A memory file, which holds device memory, or data that processes share.
//!
//! It has no name in any file system. Other processes reach it through `/proc/PID/fd`, and it vanishes with the last process
//! that holds it, even after SIGKILL. Reads and writes go through the descriptor, so an invalid address is an error and
//! never a signal.

use super::answer::{Answer, fail, fail_if};
use super::limits;
use cupeer_spec::results::Result as Code;
use std::ffi::{CStr, CString};

/// Distance from each byte of the file to a byte beyond all data. Pending work that uses the first byte locks the
/// second one.
const MARKS: u64 = 1 << 43;

/// An open memory file.
#[derive(Debug)]
pub(crate) struct Backing {
    descriptor: i32,
    /// Device and inode of the file. With them, [`Backing::check_still_open`] notices if the program closed the
    /// descriptor, and perhaps opened another file under its number.
    identity: (u64, u64),
}

impl Backing {
    /// Creates a file of `length` bytes. /proc shows the name.
    pub(crate) fn create(name: &CStr, length: u64) -> Option<Backing> {
        // The system call is made by its number, because glibc has a function for it only since 2.27. SAFETY:
        // `name` is NUL-terminated, and the call reads nothing else.
        let low = unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), libc::MFD_CLOEXEC) };
        let backing = Backing::from_descriptor(move_to_high_number(i32::try_from(low).ok()?)?)?;
        // SAFETY: the call takes only numbers; the descriptor is ours.
        let sized = unsafe { libc::ftruncate(backing.descriptor, i64::try_from(length).ok()?) };
        (sized == 0).then_some(backing)
    }

    /// Opens the file of a descriptor of another process. Returns `None` unless it is a memory file of this
    /// name.
    pub(crate) fn open(pid: u32, descriptor: u32, name: &CStr) -> Option<Backing> {
        Backing::open_path(format!("/proc/{pid}/fd/{descriptor}"), name)
    }

    /// Opens the file of a descriptor of this process once more. Returns `None` unless it is a memory file of
    /// this name.
    pub(crate) fn open_own(descriptor: i32, name: &CStr) -> Option<Backing> {
        Backing::open_path(format!("/proc/self/fd/{descriptor}"), name)
    }

    /// Opens the same file once more: the new descriptor has locks and a position of its own.
    pub(crate) fn reopen(&self) -> Option<Backing> {
        self.check_still_open().ok()?;
        let path = CString::new(format!("/proc/self/fd/{}", self.descriptor)).ok()?;
        // SAFETY: `path` is NUL-terminated, and the call reads nothing else.
        let descriptor = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        if descriptor < 0 { None } else { Backing::from_descriptor(descriptor) }
    }

    /// Sets the position of the open file. Reads and writes do not depend on it. Returns false on failure.
    pub(crate) fn seek(&self, position: i64) -> bool {
        // SAFETY: the call takes only numbers; the descriptor is ours.
        unsafe { libc::lseek(self.descriptor, position, libc::SEEK_SET) == position }
    }

    /// Returns the descriptor without closing it. The caller must close it.
    pub(crate) fn into_descriptor(self) -> i32 {
        core::mem::ManuallyDrop::new(self).descriptor
    }

    /// Opens a path in /proc. Returns `None` unless it leads to a memory file of this name.
    pub(crate) fn open_path(path: String, name: &CStr) -> Option<Backing> {
        let target = std::fs::read_link(&path).ok()?;
        let expected = format!("/memfd:{} (deleted)", name.to_str().ok()?);
        if target.as_os_str() != expected.as_str() {
            return None;
        }
        let path = CString::new(path).ok()?;
        // SAFETY: `path` is NUL-terminated, and the call reads nothing else.
        let low = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        Backing::from_descriptor(move_to_high_number(low)?)
    }

    fn from_descriptor(descriptor: i32) -> Option<Backing> {
        Some(Backing { descriptor, identity: file_identity(descriptor)? })
    }

    /// Returns the number of the descriptor, by which other processes open the file.
    pub(crate) fn descriptor_number(&self) -> i32 {
        self.descriptor
    }

    /// Returns the inode of the file, which no other memory file has.
    pub(crate) fn inode(&self) -> u64 {
        self.identity.1
    }

    /// Fails if the program closed the descriptor, even if the number now stands for another file.
    pub(crate) fn check_still_open(&self) -> Answer {
        if file_identity(self.descriptor) == Some(self.identity) { Ok(()) } else { fail(Code::OPERATING_SYSTEM) }
    }

    /// Reads bytes from the file, from the offset `at` on.
    pub(crate) fn read_bytes(&self, at: u64, bytes: &mut [u8]) -> Answer {
        // SAFETY: the bytes are borrowed, and as many as that.
        unsafe { self.read_to_address(at, bytes.as_mut_ptr() as u64, bytes.len() as u64) }
    }

    /// Reads 64-bit words from the file, from the offset `at` on.
    pub(crate) fn read_words<const N: usize>(&self, at: u64) -> Answer<[u64; N]> {
        let mut words = [0; N];
        // SAFETY: the array is writable and as long as that; any bytes are words.
        unsafe { self.read_to_address(at, words.as_mut_ptr() as u64, size_of_val(&words) as u64)? };
        Ok(words)
    }

    /// Writes 64-bit words to the file, from the offset `at` on.
    pub(crate) fn write_words(&self, at: u64, words: &[u64]) -> Answer {
        self.write_from_address(at, words.as_ptr() as u64, size_of_val(words) as u64)
    }

    /// Writes bytes to the file, from the offset `at` on.
    pub(crate) fn write_bytes(&self, at: u64, bytes: &[u8]) -> Answer {
        self.write_from_address(at, bytes.as_ptr() as u64, bytes.len() as u64)
    }

    /// Copies from the file to an address of this process.
    ///
    /// # Safety
    ///
    /// The memory at the address may be overwritten.
    pub(crate) unsafe fn read_to_address(&self, mut at: u64, mut address: u64, mut length: u64) -> Answer {
        while length > 0 {
            // SAFETY: the kernel writes to the address, or fails with EFAULT; the caller promises that these bytes may be
            // written.
            let done =
                unsafe { libc::pread(self.descriptor, address as *mut _, length.min(1 << 30) as usize, at as i64) };
            let done = count_moved_bytes(done, length)?;
            (at, address, length) = (at + done, address + done, length - done);
        }
        Ok(())
    }

    /// Copies from an address of this process to the file.
    pub(crate) fn write_from_address(&self, mut at: u64, mut address: u64, mut length: u64) -> Answer {
        while length > 0 {
            if length >= limits::LARGE {
                limits::check_host_memory()?;
            }
            // SAFETY: the kernel reads from the address, or fails with EFAULT.
            let done = unsafe {
                libc::pwrite(self.descriptor, address as *const _, length.min(limits::LARGE) as usize, at as i64)
            };
            let done = count_moved_bytes(done, length)?;
            (at, address, length) = (at + done, address + done, length - done);
        }
        Ok(())
    }

    /// Allocates a part of the file, and maps it for reading and writing. Returns the address. The caller
    /// unmaps it.
    pub(crate) fn map(&self, at: u64, length: u64) -> Option<u64> {
        // SAFETY: the calls take only numbers; the descriptor is ours, and the kernel chooses the address.
        let start = unsafe {
            if libc::fallocate(self.descriptor, 0, at as i64, length as i64) != 0 {
                return None;
            }
            let both = libc::PROT_READ | libc::PROT_WRITE;
            let of = (self.descriptor, at as i64);
            libc::mmap(core::ptr::null_mut(), length as usize, both, libc::MAP_SHARED, of.0, of.1)
        };
        (start != libc::MAP_FAILED).then_some(start as u64)
    }

    /// Releases the pages of a range, which then read as zeros.
    pub(crate) fn release_pages(&self, at: u64, length: u64) -> bool {
        // SAFETY: the call takes only numbers; the descriptor is ours.
        unsafe {
            libc::fallocate(
                self.descriptor,
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                at as i64,
                length as i64,
            ) == 0
        }
    }

    /// Locks a byte of the file, together with other holders. [`Backing::is_locked_elsewhere`] then returns true to
    /// others, until [`Backing::unlock`] or the end of this process.
    pub(crate) fn lock_shared(&self, byte: u64) -> bool {
        self.set_file_lock(libc::F_OFD_SETLK, libc::F_RDLCK, byte, 1).is_some()
    }

    /// Unlocks a byte that [`Backing::lock_shared`] locked.
    pub(crate) fn unlock(&self, byte: u64) {
        self.set_file_lock(libc::F_OFD_SETLK, libc::F_UNLCK, byte, 1);
    }

    /// Returns true if another open file has locked the byte by [`Backing::lock_shared`].
    pub(crate) fn is_locked_elsewhere(&self, byte: u64) -> bool {
        // If the query fails, the byte counts as held: its range is not used again.
        self.set_file_lock(libc::F_OFD_GETLK, libc::F_WRLCK, byte, 1) != Some(libc::F_UNLCK)
    }

    /// Does work while no other process holds or locks this byte.
    pub(crate) fn run_exclusively<T>(&self, byte: u64, work: impl FnOnce() -> Answer<T>) -> Answer<T> {
        while self.set_file_lock(libc::F_OFD_SETLKW, libc::F_WRLCK, byte, 1).is_none() {
            fail_if(std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR), Code::OPERATING_SYSTEM)?;
        }
        let done = work();
        self.unlock(byte);
        done
    }

    /// Locks bytes that pending work reads (`Some(false)`) or writes (`Some(true)`), or unlocks them (`None`).
    /// Returns false if another open file has locked some of these bytes, and one of the two uses is a write.
    pub(crate) fn lock_for_use(&self, at: u64, length: u64, is_write: Option<bool>) -> bool {
        let kind = match is_write {
            Some(true) => libc::F_WRLCK,
            Some(false) => libc::F_RDLCK,
            None => libc::F_UNLCK,
        };
        self.set_file_lock(libc::F_OFD_SETLK, kind, MARKS + at, length).is_some()
    }

    fn set_file_lock(&self, command: i32, kind: i32, byte: u64, length: u64) -> Option<i32> {
        // SAFETY: all-zero is a value of this plain structure.
        let mut lock: libc::flock = unsafe { core::mem::zeroed() };
        lock.l_type = kind as i16;
        lock.l_whence = libc::SEEK_SET as i16;
        lock.l_start = byte as i64;
        lock.l_len = length as i64;
        // SAFETY: `lock` lives through the call and is what these commands take.
        let result = unsafe { libc::fcntl(self.descriptor, command, &mut lock) };
        (result == 0).then_some(i32::from(lock.l_type))
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        if self.check_still_open().is_ok() {
            // SAFETY: the descriptor is still the file that this value opened, and its last use is here.
            unsafe { libc::close(self.descriptor) };
        }
    }
}

/// Returns the number of bytes that a read or a write moved: 0 after an interruption, so that the caller
/// tries again. `done` is the result of the call.
fn count_moved_bytes(done: isize, wanted: u64) -> Answer<u64> {
    if done > 0 {
        return Ok((done as u64).min(wanted));
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EINTR) if done < 0 => Ok(0),
        Some(libc::EFAULT) if done < 0 => fail(Code::INVALID_VALUE),
        Some(libc::ENOSPC | libc::ENOMEM | libc::EFBIG | libc::EDQUOT) if done < 0 => fail(Code::OUT_OF_MEMORY),
        _ => fail(Code::OPERATING_SYSTEM),
    }
}

/// Gives a descriptor a high number, because programs expect the lowest numbers for their own files.
fn move_to_high_number(low: i32) -> Option<i32> {
    if low < 0 {
        return None;
    }
    let lowest = (limits::resource_limit(libc::RLIMIT_NOFILE) / 2).clamp(3, 4096) as i32;
    // SAFETY: the calls take only numbers, and `low` is ours.
    unsafe {
        let high = libc::fcntl(low, libc::F_DUPFD_CLOEXEC, lowest);
        if high < 0 {
            return Some(low);
        }
        libc::close(low);
        Some(high)
    }
}

/// Returns the device and the inode of a file; `None` if the descriptor is closed.
fn file_identity(descriptor: i32) -> Option<(u64, u64)> {
    // SAFETY: all-zero is a value of this plain structure.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: `status` is a structure of the kind that the call fills.
    let result = unsafe { libc::fstat(descriptor, &mut status) };
    (result == 0).then_some((status.st_dev, status.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &CStr = c"cupeer-sim test";

    #[test]
    fn bytes_go_in_and_out_and_bad_addresses_are_errors() {
        let file = Backing::create(NAME, 1 << 40).unwrap();
        let (text, mut back) = (*b"hello", [0u8; 5]);
        file.write_from_address(1 << 39, text.as_ptr() as u64, 5).unwrap();
        file.read_bytes(1 << 39, &mut back).unwrap();
        assert_eq!(back, text);
        assert_eq!(file.write_from_address(0, 0x10, 5), fail(Code::INVALID_VALUE));
        // SAFETY: nothing is mapped there.
        assert_eq!(unsafe { file.read_to_address(0, 0x10, 5) }, fail(Code::INVALID_VALUE));
        assert!(file.release_pages(1 << 39, 4096));
        file.read_bytes(1 << 39, &mut back).unwrap();
        assert_eq!(back, [0; 5]);
    }

    #[test]
    fn another_opening_holds_bytes_until_it_is_gone() {
        let file = Backing::create(NAME, 4096).unwrap();
        let other = Backing::open(std::process::id(), file.descriptor_number() as u32, NAME).unwrap();
        assert!(other.lock_shared(7) && file.is_locked_elsewhere(7) && !file.is_locked_elsewhere(8));
        other.unlock(7);
        assert!(!file.is_locked_elsewhere(7));
        assert!(other.lock_shared(8));
        drop(other);
        assert!(!file.is_locked_elsewhere(8));
    }

    #[test]
    fn only_files_of_the_name_are_opened() {
        let file = Backing::create(c"cupeer-sim other", 4096).unwrap();
        assert!(Backing::open(std::process::id(), file.descriptor_number() as u32, NAME).is_none());
        assert!(Backing::open(std::process::id(), 0, NAME).is_none());
        assert!(Backing::open(0, 0, NAME).is_none());
    }

    #[test]
    fn a_descriptor_that_was_closed_is_noticed() {
        let file = Backing::create(NAME, 4096).unwrap();
        // SAFETY: the descriptor is open; that it is closed behind the back of its owner is the test.
        unsafe { libc::close(file.descriptor_number()) };
        assert_eq!(file.check_still_open(), fail(Code::OPERATING_SYSTEM));
    }
}
