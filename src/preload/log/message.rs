//! Prints messages of cupeer to the program's stderr: one line for each problem that the user would not notice otherwise.

use crate::settings;
use crate::sys::files;
use crate::sys::line::{LONGEST, LineBuffer, Sanitized};
use crate::sys::opened;
use core::ffi::c_int;
use core::fmt::{self, Write};
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr,
    Ordering::{Relaxed, SeqCst},
};

/// Prints one line to stderr, if stderr is still the same file as when the program began.
#[cold]
#[inline(never)]
pub fn print_line(text: fmt::Arguments) {
    let mut line = Sanitized(Cut(LineBuffer::new()));
    let _ = write!(line, "cupeer: {text}");
    let Sanitized(Cut(mut line)) = line;
    let _ = line.push(b"\n");
    print_paragraph(line.bytes());
}

/// Line that is cut if it is too long, but still ends in a newline.
struct Cut(LineBuffer);

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LONGEST - 1 - self.0.bytes().len();
        self.0.push(&text.as_bytes()[..text.floor_char_boundary(room)])
    }
}

/// Displays bytes as text, with a replacement character in place of bytes that are not UTF-8.
pub struct LossyText<'a>(pub &'a [u8]);

impl fmt::Display for LossyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.utf8_chunks().try_for_each(|chunk| {
            f.write_str(chunk.valid())?;
            if chunk.invalid().is_empty() { Ok(()) } else { f.write_char(char::REPLACEMENT_CHARACTER) }
        })
    }
}

/// Displays the description of an errno, in the words of the C library. The C library's own function would take the locks of
/// translations.
pub struct ErrnoText(pub c_int);

impl fmt::Display for ErrnoText {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self.0 {
            libc::EPERM => "Operation not permitted",
            libc::ENOENT => "No such file or directory",
            libc::EINTR => "Interrupted system call",
            libc::EIO => "Input/output error",
            libc::ENXIO => "No such device or address",
            libc::EBADF => "Bad file descriptor",
            libc::EAGAIN => "Resource temporarily unavailable",
            libc::ENOMEM => "Cannot allocate memory",
            libc::EACCES => "Permission denied",
            libc::EBUSY => "Device or resource busy",
            libc::EEXIST => "File exists",
            libc::EXDEV => "Invalid cross-device link",
            libc::ENODEV => "No such device",
            libc::ENOTDIR => "Not a directory",
            libc::EISDIR => "Is a directory",
            libc::EINVAL => "Invalid argument",
            libc::ENFILE => "Too many open files in system",
            libc::EMFILE => "Too many open files",
            libc::ETXTBSY => "Text file busy",
            libc::EFBIG => "File too large",
            libc::ENOSPC => "No space left on device",
            libc::ESPIPE => "Illegal seek",
            libc::EROFS => "Read-only file system",
            libc::EMLINK => "Too many links",
            libc::EPIPE => "Broken pipe",
            libc::ENAMETOOLONG => "File name too long",
            libc::ENOSYS => "Function not implemented",
            libc::ELOOP => "Too many levels of symbolic links",
            libc::EOVERFLOW => "Value too large for defined data type",
            libc::EOPNOTSUPP => "Operation not supported",
            libc::ETIMEDOUT => "Connection timed out",
            libc::ESTALE => "Stale file handle",
            libc::EDQUOT => "Disk quota exceeded",
            other => return write!(f, "error {other}"),
        })
    }
}

/// Prints several lines at once, if stderr is still the same file as when the program began.
#[cold]
#[inline(never)]
pub fn print_paragraph(text: &[u8]) {
    let stderr = settings::get().stderr;
    if stderr.is_some() && opened::identity(libc::STDERR_FILENO) == stderr {
        let _ = files::write(libc::STDERR_FILENO, text);
    }
}

/// True once this process has reached a driver. A process that has not prints nothing.
static HAS_REACHED_DRIVER: AtomicBool = AtomicBool::new(false);
/// Line that is printed when the process reaches a driver; null for none.
static WAITING: AtomicPtr<&'static str> = AtomicPtr::new(ptr::null_mut());

/// Prints one line when the process reaches a driver, or at once if the process has reached one already.
pub fn print_when_driver_reached(text: &'static &'static str) {
    WAITING.store(ptr::from_ref(text).cast_mut(), SeqCst);
    if HAS_REACHED_DRIVER.load(SeqCst) {
        print_waiting();
    }
}

fn print_waiting() {
    // SAFETY: a text that stays, or null.
    if let Some(text) = unsafe { WAITING.swap(ptr::null_mut(), SeqCst).as_ref() } {
        print_line(format_args!("{text}"));
    }
}

/// Prints the complaints about settings, and the waiting line. Must be called when the process reaches a driver.
#[cold]
#[inline(never)]
pub fn note_driver_reached() {
    for complaint in settings::get().complaints() {
        print_line(format_args!("{complaint}"));
    }
    HAS_REACHED_DRIVER.store(true, SeqCst);
    print_waiting();
}

/// Prints a line on the first call in this process. All later calls print nothing, even with another line.
#[cold]
#[inline(never)]
pub fn print_once(text: fmt::Arguments) {
    static IS_PRINTED: AtomicBool = AtomicBool::new(false);
    if !IS_PRINTED.swap(true, Relaxed) {
        print_line(text);
    }
}
