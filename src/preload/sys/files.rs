//! Files, as a guest may use them: without signals, and only by system calls.
//!
//! It contains functions that both the log and the recorder need.

use super::errno::errno;
use super::line::{LineBuffer, ShortText};
use super::opened::OpenedFile;
use super::signals::{bit, change_mask};
use core::ffi::{CStr, c_int};
use core::fmt::{self, Write};
use core::ptr;
use cupeer_spec::placeholders::{FileNamePart, parse_file_name};

/// Calls `found` with each name in a directory that is valid UTF-8, until it returns true. Does not use the C library's
/// `opendir`, which allocates: a signal handler of the program may have interrupted its allocator.
pub fn each_name(directory: &CStr, mut found: impl FnMut(&str) -> bool) {
    /// Offset of the length of an entry in the kernel's `linux_dirent64`.
    const LENGTH: usize = 16;
    /// Offset of the name of an entry in the kernel's `linux_dirent64`.
    const NAME: usize = 19;
    // SAFETY: the path ends in NUL; what is opened is closed below.
    let descriptor = unsafe { libc::open(directory.as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
    let mut entries = [0u8; 2048];
    // If the directory could not be opened, the kernel refuses the negative descriptor.
    'all: loop {
        // SAFETY: the kernel writes at most that many bytes, to an array of ours.
        let read = unsafe { libc::syscall(libc::SYS_getdents64, descriptor, entries.as_mut_ptr(), entries.len()) };
        let mut left = &entries[..usize::try_from(read).unwrap_or(0)];
        if left.is_empty() {
            break;
        }
        while let Some(length) = left.get(LENGTH..).and_then(<[u8]>::first_chunk) {
            let (entry, rest) = left.split_at(usize::from(u16::from_ne_bytes(*length)).max(NAME).min(left.len()));
            let name = CStr::from_bytes_until_nul(entry.get(NAME..).unwrap_or_default()).unwrap_or_default();
            if name.to_str().is_ok_and(&mut found) {
                break 'all;
            }
            left = rest;
        }
    }
    if descriptor >= 0 {
        // SAFETY: opened above.
        unsafe { libc::close(descriptor) };
    }
}

/// Greatest length of a path with its NUL, in bytes.
pub const PATH_MAX: usize = 4096;

/// Expands the placeholders in a path. Returns `None` if the result is longer than a path may be.
pub fn expand<'a>(path: &CStr, pid: u32, place: &'a mut [u8; PATH_MAX]) -> Option<&'a CStr> {
    let mut out = LineBuffer::new();
    for piece in parse_file_name(path.to_bytes()) {
        match piece {
            FileNamePart::Text(text) => out.push(text).ok()?,
            FileNamePart::Pid => write!(out, "{pid}").ok()?,
            FileNamePart::Host => out.push(read_host_name(&mut [0; 65])).ok()?,
            FileNamePart::Variable(variable) => {
                let mut name = [0u8; 256];
                name[..255].get_mut(..variable.len())?.copy_from_slice(variable);
                // SAFETY: the name ends in NUL, because the copy is shorter than the array.
                let value = unsafe { libc::getenv(name.as_ptr().cast()) };
                if !value.is_null() {
                    // SAFETY: not null, and ends in NUL.
                    out.push(unsafe { CStr::from_ptr(value) }.to_bytes()).ok()?;
                }
            }
            FileNamePart::Stray => out.push(b"%").ok()?,
        }
    }
    out.push(b"\0").ok()?;
    place[..out.bytes().len()].copy_from_slice(out.bytes());
    CStr::from_bytes_until_nul(place).ok()
}

pub fn read_host_name(place: &mut [u8; 65]) -> &[u8] {
    // SAFETY: writes no more than that, so that a NUL stays.
    unsafe { libc::gethostname(place.as_mut_ptr().cast(), 64) };
    until_nul(place)
}

/// Returns the bytes before the first NUL.
pub fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(&[])
}

/// Returns the target of a symbolic link, cut to the size of `place`; empty if it is unknown. The path must end in NUL.
pub fn read_link<'a>(path: fmt::Arguments, place: &'a mut [u8]) -> &'a [u8] {
    let path = ShortText::<48>::new(path);
    let path = path.c_text().unwrap_or_default().as_ptr();
    // SAFETY: the path ends in NUL, and the place has that many bytes.
    let length = unsafe { libc::readlink(path, place.as_mut_ptr().cast(), place.len()) };
    &place[..length.max(0) as usize]
}

/// Does work with files while SIGPIPE and SIGXFSZ are blocked, which a closed pipe and a size limit raise in the calling thread.
/// A signal that the work raised is removed; signals that were pending before stay pending.
pub fn without_signals<T>(work: impl FnOnce() -> Result<T, c_int>) -> Result<T, c_int> {
    let before = change_mask(libc::SIG_BLOCK, bit(libc::SIGPIPE) | bit(libc::SIGXFSZ));
    let mut pending = 0;
    // SAFETY: the mask is writable, and as long as is said.
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut pending, size_of::<u64>()) };
    let result = work();
    if let Err(error @ (libc::EPIPE | libc::EFBIG)) = result {
        let raised = bit(if error == libc::EPIPE { libc::SIGPIPE } else { libc::SIGXFSZ });
        if pending & raised == 0 {
            let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let no_info = ptr::null_mut::<libc::siginfo_t>();
            // SAFETY: the mask is as long as is said, and nobody asks about the signal.
            unsafe {
                libc::syscall(
                    libc::SYS_rt_sigtimedwait,
                    &raw const raised,
                    no_info,
                    &raw const no_time,
                    size_of::<u64>(),
                )
            };
        }
    }
    change_mask(libc::SIG_SETMASK, before);
    result
}

/// Writes all bytes to a file, without raising a signal in the program.
pub fn write(file: c_int, bytes: &[u8]) -> Result<(), c_int> {
    without_signals(|| write_all(file, bytes))
}

fn write_all(file: c_int, mut bytes: &[u8]) -> Result<(), c_int> {
    while !bytes.is_empty() {
        // SAFETY: `bytes` is readable.
        let written = unsafe { libc::write(file, bytes.as_ptr().cast(), bytes.len()) };
        if written > 0 {
            bytes = &bytes[written as usize..];
            continue;
        }
        match errno() {
            libc::EINTR => {}
            // The reader is slow, and the program made the descriptor non-blocking.
            libc::EAGAIN => {
                let mut ready = libc::pollfd { fd: file, events: libc::POLLOUT, revents: 0 };
                // SAFETY: one descriptor, as said.
                if unsafe { libc::poll(&mut ready, 1, 1000) } == 0 {
                    return Err(libc::EAGAIN);
                }
            }
            error => return Err(error),
        }
    }
    Ok(())
}

/// Reads a file of the system into `place`, as much as fits. Returns the number of bytes.
pub fn read(path: &CStr, place: &mut [u8]) -> Result<usize, c_int> {
    let file = OpenedFile::open_following_links(path, libc::O_RDONLY)?;
    read_from(file.descriptor(), place)
}

/// Reads from an open file until its end, or until the buffer is full. Returns the number of bytes.
pub fn read_from(file: c_int, place: &mut [u8]) -> Result<usize, c_int> {
    let mut length = 0;
    while length < place.len() {
        let rest = &mut place[length..];
        // SAFETY: the rest has that many bytes.
        let read = unsafe { libc::read(file, rest.as_mut_ptr().cast(), rest.len()) };
        if read <= 0 {
            break;
        }
        length += read as usize;
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::ffi::CString;

    fn expanded(path: &CStr) -> Option<String> {
        let mut place = [0; PATH_MAX];
        expand(path, 42, &mut place).map(|path| path.to_string_lossy().into_owned())
    }

    #[test]
    fn placeholders_are_filled_in_and_all_else_stays() {
        for (path, wanted) in [
            (c"/tmp/log", "/tmp/log"),
            (c"%p", "42"),
            (c"a.%p.b.%p", "a.42.b.42"),
            (c"100%%", "100%"),
            (c"100%", "100%"),
            (c"%x%q", "%x%q"),
            (c"%q{", "%q{"),
            (c"<%q{CUPEER_TEST_NOT_SET}>", "<>"),
        ] {
            assert_eq!(expanded(path).as_deref(), Some(wanted));
        }
        assert!(!expanded(c"%h").unwrap_or_default().is_empty());
    }

    #[test]
    fn each_name_of_a_directory_is_found_until_it_is_enough() {
        let folder = std::env::temp_dir().join(format!("cupeer-names-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let wanted: BTreeSet<String> = (0..300).map(|i| format!("{i}{}", "x".repeat(i % 200))).collect();
        wanted.iter().for_each(|name| drop(std::fs::write(folder.join(name), "")));
        let path = CString::new(folder.to_str().unwrap()).unwrap();
        let (mut names, mut calls) = (BTreeSet::new(), 0);
        each_name(&path, |name| {
            names.insert(name.to_owned());
            false
        });
        assert!(names.remove(".") && names.remove(".."));
        assert_eq!(names, wanted);
        each_name(&path, |_| {
            calls += 1;
            calls == 3
        });
        std::fs::remove_dir_all(&folder).unwrap();
        each_name(c"/nowhere", |_| panic!("there is no such directory"));
        assert_eq!(calls, 3);
    }

    #[test]
    fn paths_that_become_too_long_are_refused() {
        let path = CString::new("a/".repeat(2047) + "%p").unwrap();
        assert_eq!(expanded(&path).map(|p| p.len()), None);
        assert_eq!(expanded(&CString::new("%q{".to_string() + &"A".repeat(300) + "}").unwrap()), None);
    }
}
