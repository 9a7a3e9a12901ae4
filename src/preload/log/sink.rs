//! The destination of the log lines: an append-only file descriptor that is written to at once, without a lock.
//!
//! The descriptor is our own: a copy with a high number, because programs close and reuse low ones. Before each line, the
//! sink checks that the descriptor is still the same file. A forked child opens its own file if the file is named after
//! the process. If the log cannot be written, the sink prints one message and gives up: no signal and no error reaches
//! the program.

use super::{message, status};
use crate::settings;
use crate::sys::descriptors::duplicate_high;
use crate::sys::errno::errno;
use crate::sys::files::{self, PATH_MAX, expand};
use crate::sys::opened::identity;
use crate::sys::{arena, opened};
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Open file of the log.
struct Sink {
    file: c_int,
    /// Device and inode number of the file.
    identity: (u64, u64),
    /// Pid of the process that opened the file; 0 if forked children use the same file.
    pid: u32,
}

/// The current sink. It is replaced, but never freed, because another thread may be writing to it.
static SINK: AtomicPtr<Sink> = AtomicPtr::new(ptr::null_mut());

/// Pid of the process that gave the log up; 0 for none.
static GIVEN_UP: AtomicU32 = AtomicU32::new(0);

/// Writes a line as a whole. Returns false if the line was not written.
pub fn write(line: &[u8]) -> bool {
    let pid = std::process::id();
    if GIVEN_UP.load(Relaxed) == pid {
        return false;
    }
    let written = current_log_file(pid).and_then(|sink| match sink {
        Some(sink) => files::write(sink.file, line).map(|()| true),
        None => {
            // stderr was closed, or is another file at present, so no message is printed either.
            GIVEN_UP.store(pid, Relaxed);
            Ok(false)
        }
    });
    written.unwrap_or_else(|error| give_up(pid, error))
}

#[cold]
#[inline(never)]
fn give_up(pid: u32, error: c_int) -> bool {
    if GIVEN_UP.swap(pid, Relaxed) == pid {
        return false;
    }
    status::count(|status| &status.log_lost);
    let reason = message::ErrnoText(error);
    match &settings::get().log_file {
        Some(path) => message::print_line(format_args!(
            "cannot write the log {}: {reason}; this process goes on without a log",
            message::LossyText(path.to_bytes())
        )),
        None => message::print_line(format_args!("cannot log to stderr: {reason}; this process goes on without a log")),
    }
    false
}

/// Returns the sink of this process. Opens a sink if there is none, or if the old sink does not belong to this process any more.
/// `None` if stderr is the log and is closed.
fn current_log_file(pid: u32) -> Result<Option<&'static Sink>, c_int> {
    let old = SINK.load(Acquire);
    // SAFETY: sinks are never freed.
    let sink = unsafe { old.as_ref() };
    let is_ours = |sink: &&Sink| [0, pid].contains(&sink.pid) && identity(sink.file) == Some(sink.identity);
    if let Some(sink) = sink.filter(is_ours) {
        return Ok(Some(sink));
    }
    let Some(sink) = open(pid)? else { return Ok(None) };
    let file = sink.file;
    let new = arena::store_permanently(sink).ok_or(libc::ENOMEM)?;
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

/// Opens the log. `None` if the log goes to stderr and stderr is closed.
fn open(pid: u32) -> Result<Option<Sink>, c_int> {
    // If the program closed a standard stream, a file that is opened gets its low number.
    let log_file = &settings::get().log_file;
    let (low, owner) = match log_file {
        Some(path) => {
            let mut place = [0; PATH_MAX];
            expand(path, pid, &mut place).ok_or(libc::ENAMETOOLONG)?;
            // A named pipe that nobody reads must not stop the program.
            let file = opened::open_log_file(&mut place)?;
            // SAFETY: the descriptor was opened above; its readers may be slow.
            unsafe { libc::fcntl(file, libc::F_SETFL, libc::O_APPEND) };
            (file, if path.to_bytes().contains(&b'%') { pid } else { 0 })
        }
        None if identity(libc::STDERR_FILENO) == settings::get().stderr => (libc::STDERR_FILENO, 0),
        None => return Ok(None),
    };
    let file = duplicate_high(low);
    let error = errno();
    if log_file.is_some() {
        // SAFETY: opened above.
        unsafe { libc::close(low) };
    }
    if file < 0 {
        return if error == libc::EBADF { Ok(None) } else { Err(error) };
    }
    Ok(Some(Sink { file, identity: identity(file).unwrap_or_default(), pid: owner }))
}
