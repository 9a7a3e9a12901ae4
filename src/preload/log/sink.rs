//! Where the lines go: an append-only descriptor that is written to at once, without a lock.
//!
//! The descriptor is ours alone: for stderr a copy, far up, because programs close and reuse the low
//! numbers. Before each line it is checked to be still the same file, and in a forked child a file that is
//! named after the process is opened anew. What cannot be written is given up with one message, and costs
//! the program nothing else: no signal, no error.

use super::Line;
use crate::settings;
use crate::{arena, message, status};
use core::ffi::CStr;
use core::ffi::c_int;
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Descriptors of ours are at least this high.
const HIGH: c_int = 900;

/// An open log.
struct Sink {
    file: c_int,
    device: u64,
    inode: u64,
    /// The process that opened it; 0 where children go on with it.
    pid: u32,
}

/// The current one. Replaced, never freed: another thread may be writing to it.
static SINK: AtomicPtr<Sink> = AtomicPtr::new(ptr::null_mut());

/// The process that gave the log up.
static GIVEN_UP: AtomicU32 = AtomicU32::new(0);

/// Writes a line, whole. Says whether it could.
pub fn write(line: &[u8]) -> bool {
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() } as u32;
    if GIVEN_UP.load(Relaxed) == pid {
        return false;
    }
    let error = match current(pid) {
        Ok(Some(sink)) => match write_to(sink.file, line) {
            Ok(()) => return true,
            Err(error) => error,
        },
        Ok(None) => {
            // stderr was closed, or is somebody else's file now: nobody is left to talk to.
            GIVEN_UP.store(pid, Relaxed);
            return false;
        }
        Err(error) => error,
    };
    give_up(pid, error);
    false
}

/// Writes to a descriptor and ignores failure, and every signal that failing would raise.
pub fn write_quietly(file: c_int, line: &[u8]) {
    let _ = write_to(file, line);
}

#[cold]
#[inline(never)]
fn give_up(pid: u32, error: c_int) {
    if GIVEN_UP.swap(pid, Relaxed) == pid {
        return;
    }
    status::log_lost();
    let mut reason = [0u8; 128];
    // SAFETY: writes at most that many bytes, with a NUL.
    unsafe { libc::strerror_r(error, reason.as_mut_ptr().cast(), reason.len()) };
    let reason = CStr::from_bytes_until_nul(&reason).unwrap_or_default().to_str().unwrap_or_default();
    match &settings::get().log_file {
        Some(path) => message::line(format_args!(
            "cannot write the log {}: {reason}; this process goes on without one",
            path.to_string_lossy()
        )),
        None => message::line(format_args!("cannot log to stderr: {reason}; this process goes on without")),
    }
}

/// The sink for this process, opened where there is none or the old one is not ours any more.
fn current(pid: u32) -> Result<Option<&'static Sink>, c_int> {
    let old = SINK.load(Acquire);
    // SAFETY: sinks are never freed.
    let sink = unsafe { old.as_ref() };
    if let Some(sink) = sink.filter(|sink| (sink.pid == 0 || sink.pid == pid) && sink.is_unchanged()) {
        return Ok(Some(sink));
    }
    let Some(sink) = open(pid)? else { return Ok(None) };
    let file = sink.file;
    let new = arena::keep(sink).ok_or(libc::ENOMEM)?;
    match SINK.compare_exchange(old, ptr::from_ref(new).cast_mut(), AcqRel, Acquire) {
        Ok(_) => Ok(Some(new)),
        Err(first) => {
            // SAFETY: ours was opened above and not published; the other one is never freed.
            unsafe {
                libc::close(file);
                Ok(first.as_ref())
            }
        }
    }
}

impl Sink {
    fn is_unchanged(&self) -> bool {
        identity(self.file) == Some((self.device, self.inode))
    }
}

/// What file a descriptor is: device and inode.
pub fn identity(file: c_int) -> Option<(u64, u64)> {
    let mut about = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `about` is writable, and initialised where fstat succeeds.
    unsafe { (libc::fstat(file, about.as_mut_ptr()) == 0).then(|| about.assume_init()) }
        .map(|about| (about.st_dev, about.st_ino))
}

/// Opens the log. `None` where it goes to stderr and that is closed.
fn open(pid: u32) -> Result<Option<Sink>, c_int> {
    let (low, owner) = match &settings::get().log_file {
        Some(path) => {
            let mut place = [0; PATH_MAX];
            let expanded = expand(path, pid, &mut place).ok_or(libc::ENAMETOOLONG)?;
            // A named pipe that nobody reads must not stop the program.
            let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOCTTY;
            // SAFETY: the path ends in NUL.
            let file = unsafe { libc::open(expanded.as_ptr(), flags | libc::O_NONBLOCK, 0o600) };
            if file < 0 {
                return Err(errno());
            }
            // SAFETY: the descriptor was opened above; its readers may be slow.
            unsafe { libc::fcntl(file, libc::F_SETFL, flags) };
            (file, if path.to_bytes().contains(&b'%') { pid } else { 0 })
        }
        None if identity(libc::STDERR_FILENO) == settings::get().stderr => (libc::STDERR_FILENO, 0),
        None => return Ok(None),
    };
    // SAFETY: copies a descriptor to a free number.
    let mut file = unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, HIGH) };
    if file < 0 {
        // The limit may be low: the first free number then.
        // SAFETY: as above.
        file = unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, 3) };
    }
    let error = errno();
    if low != libc::STDERR_FILENO {
        // SAFETY: opened above.
        unsafe { libc::close(low) };
    }
    if file < 0 {
        return if error == libc::EBADF { Ok(None) } else { Err(error) };
    }
    let (device, inode) = identity(file).unwrap_or_default();
    Ok(Some(Sink { file, device, inode, pid: owner }))
}

/// The longest path that the system takes, with its NUL.
const PATH_MAX: usize = 4096;

/// `%p` becomes the pid, `%h` the host, `%q{VAR}` a variable, `%%` a percent sign; anything else stays.
/// `None` where the result is longer than a path may be.
fn expand<'a>(path: &CStr, pid: u32, place: &'a mut [u8; PATH_MAX]) -> Option<&'a CStr> {
    let mut out = Line::new();
    let mut rest = path.to_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            out.push(&[*first]).ok()?;
            continue;
        }
        match tail {
            [b'p', tail @ ..] => {
                write!(out, "{pid}").ok()?;
                rest = tail;
            }
            [b'h', tail @ ..] => {
                let mut name = [0u8; 65];
                // SAFETY: writes at most 64 bytes into 65, so that a NUL stays.
                unsafe { libc::gethostname(name.as_mut_ptr().cast(), 64) };
                out.push(CStr::from_bytes_until_nul(&name).ok()?.to_bytes()).ok()?;
                rest = tail;
            }
            [b'%', tail @ ..] => {
                out.push(b"%").ok()?;
                rest = tail;
            }
            [b'q', b'{', tail @ ..] if tail.contains(&b'}') => {
                let end = tail.iter().position(|byte| *byte == b'}')?;
                let mut name = [0u8; 256];
                name.get_mut(..end)?.copy_from_slice(&tail[..end]);
                // SAFETY: the name ends in NUL, because the copy is shorter than the array.
                let value = (end < name.len()).then(|| unsafe { libc::getenv(name.as_ptr().cast()) })?;
                if !value.is_null() {
                    // SAFETY: not null, and ends in NUL.
                    out.push(unsafe { CStr::from_ptr(value) }.to_bytes()).ok()?;
                }
                rest = &tail[end + 1..];
            }
            _ => out.push(b"%").ok()?,
        }
    }
    let bytes = out.bytes();
    place.get_mut(..bytes.len())?.copy_from_slice(bytes);
    *place.get_mut(bytes.len())? = 0;
    CStr::from_bytes_until_nul(place).ok()
}

fn errno() -> c_int {
    // SAFETY: __errno_location gives this thread's errno.
    unsafe { *libc::__errno_location() }
}

/// Writes all bytes. SIGPIPE and SIGXFSZ, which a closed pipe and a size limit raise in the writing
/// thread, are held back and taken away again; those that were pending before stay.
fn write_to(file: c_int, bytes: &[u8]) -> Result<(), c_int> {
    // SAFETY: the sets are initialised before they are used, and the mask is put back.
    unsafe {
        let mut ours = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(ours.as_mut_ptr());
        libc::sigaddset(ours.as_mut_ptr(), libc::SIGPIPE);
        libc::sigaddset(ours.as_mut_ptr(), libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, ours.as_ptr(), before.as_mut_ptr());
        libc::sigemptyset(pending.as_mut_ptr());
        libc::sigpending(pending.as_mut_ptr());
        let result = write_all(file, bytes);
        if let Err(error @ (libc::EPIPE | libc::EFBIG)) = result {
            let raised = if error == libc::EPIPE { libc::SIGPIPE } else { libc::SIGXFSZ };
            if libc::sigismember(pending.as_ptr(), raised) == 0 {
                let mut one = MaybeUninit::<libc::sigset_t>::uninit();
                libc::sigemptyset(one.as_mut_ptr());
                libc::sigaddset(one.as_mut_ptr(), raised);
                let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                libc::sigtimedwait(one.as_ptr(), ptr::null_mut(), &no_time);
            }
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        result
    }
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
            // A reader that is behind, on a descriptor that the program made non-blocking.
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

#[cfg(test)]
mod tests {
    use super::*;
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
    fn paths_that_become_too_long_are_refused() {
        let path = CString::new("a/".repeat(2047) + "%p").unwrap();
        assert_eq!(expanded(&path).map(|p| p.len()), None);
        assert_eq!(expanded(&CString::new("%q{".to_string() + &"A".repeat(300) + "}").unwrap()), None);
    }
}
