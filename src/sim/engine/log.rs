//! The driver's log: what it says about failing calls, to callbacks, to CUDA_LOG_FILE, and to whoever asks
//! later.
//!
//! It has a lock of its own, because calls can fail before `cuInit`, and gives it back before it calls
//! anybody.

use super::answer::{Answer, Failure, fail};
use super::forks::is_forked_child;
use cupeer_spec::results::Result as Code;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString, c_int};
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// How many lines are kept for `dump`.
const KEPT: usize = 100;

/// A function of the program that wants each line: called with the level, and the text alone.
pub(crate) type Listener = Box<dyn Fn(i32, &str) + Send + Sync>;

/// CU_LOG_LEVEL_ERROR.
const ERROR: i32 = 0;

struct Log {
    listeners: Vec<(u64, std::sync::Arc<Listener>)>,
    next_listener: u64,
    lines: VecDeque<String>,
    /// How many lines there ever were: the number of the next one.
    written: u32,
}

static LOG: Mutex<Log> =
    Mutex::new(Log { listeners: Vec::new(), next_listener: 1, lines: VecDeque::new(), written: 0 });

fn lock() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a listener; the number takes it away again.
pub(crate) fn listen(listener: Listener) -> u64 {
    let mut log = lock();
    let number = log.next_listener;
    log.next_listener += 1;
    log.listeners.push((number, std::sync::Arc::new(listener)));
    number
}

/// Takes a listener away.
pub(crate) fn forget(number: u64) -> Answer {
    let mut log = lock();
    let Some(at) = log.listeners.iter().position(|(known, _)| *known == number) else {
        return fail(Code::INVALID_VALUE);
    };
    log.listeners.remove(at);
    Ok(())
}

/// The number of the next line.
pub(crate) fn now() -> u32 {
    lock().written
}

/// The lines from number `from` on that are kept, oldest first, and the number of the next one.
pub(crate) fn since(from: u32) -> (Vec<String>, u32) {
    let log = lock();
    let first = log.written - log.lines.len() as u32;
    let skip = from.saturating_sub(first) as usize;
    (log.lines.iter().skip(skip).cloned().collect(), log.written)
}

/// Says why a function fails: its own words, and then the result. Nothing is said before `cuInit`.
pub(crate) fn say(function: &str, failure: &Failure) {
    if failure.code == Code::NOT_INITIALIZED {
        return;
    }
    let spec = failure.code.spec();
    let returning = format!("Returning {} ({}) from {function}", spec.number, spec.name());
    for message in failure.messages.iter().map(|m| m.as_ref()).chain([returning.as_str()]) {
        write(message);
    }
}

/// Says something, also about a call that succeeds. The driver's lock must not be held.
pub(crate) fn write(message: &str) {
    let line = format!("{} {message}", prefix());
    // A child of fork may find the lock taken for ever, by a thread that it does not have.
    let Ok(mut log) = LOG.try_lock().or_else(|_| retry()) else { return };
    if log.lines.len() == KEPT {
        log.lines.pop_front();
    }
    log.lines.push_back(line.clone());
    log.written = log.written.wrapping_add(1);
    let listeners: Vec<_> = log.listeners.iter().map(|(_, f)| f.clone()).collect();
    drop(log);
    to_file(&line);
    for listener in listeners {
        listener(ERROR, message);
    }
}

fn retry() -> Result<MutexGuard<'static, Log>, ()> {
    if is_forked_child() { Err(()) } else { Ok(lock()) }
}

/// `[time][thread][source][level]`.
fn prefix() -> String {
    // SAFETY: all-zero is a value of the plain structure, which the call fills; pthread_self has no preconditions.
    let (now, thread) = unsafe {
        let mut now: libc::timespec = core::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_REALTIME, &mut now);
        (now, libc::pthread_self())
    };
    // UTC. For local time libc takes a lock, and a child that another thread forks meanwhile would find it taken for ever.
    let (second, milli) = (now.tv_sec.rem_euclid(24 * 60 * 60), now.tv_nsec / 1_000_000);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("[{hour:02}:{minute:02}:{second:02}.{milli:03}][{thread}][CUDA][E]")
}

/// Where lines go, as the environment said when the first function was called.
pub(crate) fn file() -> Option<&'static OsStr> {
    static FILE: OnceLock<Option<OsString>> = OnceLock::new();
    let read = || std::env::var_os("CUDA_LOG_FILE").filter(|path| !path.is_empty());
    FILE.get_or_init(read).as_deref()
}

fn to_file(line: &str) {
    let Some(path) = file() else { return };
    let text = format!("{line}\n");
    // What cannot be written is lost: the call fails for its own reason.
    // Standard streams without the locks of Rust's, which a child of fork may find taken for ever.
    let _ = if path == "stdout" {
        standard(libc::STDOUT_FILENO, &text)
    } else if path == "stderr" {
        standard(libc::STDERR_FILENO, &text)
    } else {
        append(path, &text)
    };
}

/// Says something on standard error.
pub(crate) fn complain(error: &str) {
    let _ = standard(libc::STDERR_FILENO, &format!("cupeer: simulated driver: {error}\n"));
}

fn standard(number: c_int, text: &str) -> std::io::Result<()> {
    // SAFETY: the descriptor is only written to, and not closed with the value, whatever is under it.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
    file.write_all(text.as_bytes())
}

/// Writes at the end of a file, which is made where there is none.
pub(crate) fn append(path: &OsStr, text: &str) -> std::io::Result<()> {
    std::fs::OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes())
}
