//! The driver's log: lines about failed calls, for callbacks, for CUDA_LOG_FILE, and for later calls that read the log.
//!
//! It has a lock of its own, because calls can fail before `cuInit`, and releases it before it calls the program.

use super::answer::{Answer, Failure};
use super::forks::is_forked_child;
use cupeer_spec::results::Result as Code;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString, c_int};
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Number of lines that the log keeps for later calls; older lines are dropped.
const KEPT: usize = 100;

/// A function of the program that receives each line of the log: the level, and the text without its prefix.
pub(crate) type Listener = Box<dyn Fn(i32, &str) + Send + Sync>;

/// CU_LOG_LEVEL_ERROR.
const ERROR: i32 = 0;

struct Log {
    listeners: Vec<(u64, std::sync::Arc<Listener>)>,
    next_listener: u64,
    lines: VecDeque<String>,
    /// Number of lines that were ever written, which is also the number of the next line.
    written: u32,
}

static LOG: Mutex<Log> =
    Mutex::new(Log { listeners: Vec::new(), next_listener: 1, lines: VecDeque::new(), written: 0 });

fn lock_log() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a function that receives each line. Returns its number for [`remove_listener`].
pub(crate) fn add_listener(listener: Listener) -> u64 {
    let mut log = lock_log();
    let number = log.next_listener;
    log.next_listener += 1;
    log.listeners.push((number, std::sync::Arc::new(listener)));
    number
}

/// Removes a function that [`add_listener`] added.
pub(crate) fn remove_listener(number: u64) -> Answer {
    let mut log = lock_log();
    let at = log.listeners.iter().position(|(known, _)| *known == number).ok_or(Code::INVALID_VALUE)?;
    log.listeners.remove(at);
    Ok(())
}

/// Returns the number that the next line of the log will have.
pub(crate) fn next_line() -> u32 {
    lock_log().written
}

/// Returns the kept lines from the line number `from` on, oldest first, and the number of the next line.
pub(crate) fn lines_from(from: u32) -> (Vec<String>, u32) {
    let log = lock_log();
    let first = log.written - log.lines.len() as u32;
    let skip = from.saturating_sub(first) as usize;
    (log.lines.iter().skip(skip).cloned().collect(), log.written)
}

/// Logs a failure of a function: its messages, and then the result code. Before `cuInit`, logs nothing.
pub(crate) fn log_failure(function: &str, failure: &Failure) {
    if failure.code == Code::NOT_INITIALIZED {
        return;
    }
    let spec = failure.code.spec();
    let returning = format!("Returning {} ({}) from {function}", spec.number, spec.name());
    for message in failure.messages.iter().map(|m| m.as_ref()).chain([returning.as_str()]) {
        log_message(message);
    }
}

/// Logs a message, also about a call that succeeds. The caller must not hold the driver's lock.
pub(crate) fn log_message(message: &str) {
    let line = format!("{} {message}", line_prefix());
    // In a child by fork, the lock may belong to a thread that only the parent has.
    let Ok(mut log) = LOG.try_lock().or_else(|_| lock_unless_child()) else { return };
    if log.lines.len() == KEPT {
        log.lines.pop_front();
    }
    log.lines.push_back(line.clone());
    log.written = log.written.wrapping_add(1);
    let listeners: Vec<_> = log.listeners.iter().map(|(_, f)| f.clone()).collect();
    drop(log);
    write_to_log_file(&line);
    for listener in listeners {
        listener(ERROR, message);
    }
}

/// Waits for the log's lock, except in a child by fork, which could wait forever.
fn lock_unless_child() -> Result<MutexGuard<'static, Log>, ()> {
    if is_forked_child() { Err(()) } else { Ok(lock_log()) }
}

/// Returns the prefix of a line: `[time][thread][source][level]`.
fn line_prefix() -> String {
    // SAFETY: all-zero is a value of the plain structure, which the call fills; pthread_self has no preconditions.
    let (now, thread) = unsafe {
        let mut now: libc::timespec = core::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_REALTIME, &mut now);
        (now, libc::pthread_self())
    };
    // The time is UTC, because libc takes a lock for local time, which a child by fork could find locked
    // forever.
    let (second, milli) = (now.tv_sec.rem_euclid(24 * 60 * 60), now.tv_nsec / 1_000_000);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("[{hour:02}:{minute:02}:{second:02}.{milli:03}][{thread}][CUDA][E]")
}

/// Returns the path in CUDA_LOG_FILE, as the environment had it at the first call; `None` if it is unset or
/// empty.
pub(crate) fn log_file_path() -> Option<&'static OsStr> {
    static FILE: OnceLock<Option<OsString>> = OnceLock::new();
    let read = || std::env::var_os("CUDA_LOG_FILE").filter(|path| !path.is_empty());
    FILE.get_or_init(read).as_deref()
}

/// Writes a line to the file in CUDA_LOG_FILE, or to the standard stream that it names.
fn write_to_log_file(line: &str) {
    let Some(path) = log_file_path() else { return };
    let text = format!("{line}\n");
    // A line that cannot be written is lost, and does not change the result of the call. Standard streams are
    // written without the locks of Rust's library, which no thread would release in a child of fork.
    let _ = if path == "stdout" {
        write_standard_stream(libc::STDOUT_FILENO, &text)
    } else if path == "stderr" {
        write_standard_stream(libc::STDERR_FILENO, &text)
    } else {
        append_to_file(path, &text)
    };
}

/// Writes an error to standard error.
pub(crate) fn print_error(error: &str) {
    let _ = write_standard_stream(libc::STDERR_FILENO, &format!("cupeer: simulated driver: {error}\n"));
}

/// Writes a text to a standard stream, by the number of its descriptor.
fn write_standard_stream(number: c_int, text: &str) -> std::io::Result<()> {
    // SAFETY: the descriptor is only written to, and not closed with the value, whatever is under it.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
    file.write_all(text.as_bytes())
}

/// Appends a text to a file, which is created if needed.
pub(crate) fn append_to_file(path: &OsStr, text: &str) -> std::io::Result<()> {
    std::fs::OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes())
}
