//! `dlerror`: returns the same message as without cupeer.
//!
//! Two things could differ. Our own lookups overwrite the message of the program's last failure. And if a lookup must
//! fail although our export was found, the message would name us. In both cases we leave a marker as the loader's
//! message, and return the right text when the program asks and the marker is still the last message.

use super::loader;
use crate::log::message::LossyText;
use crate::sys::arch::{Decision, deciding_entry, thread};
use core::ffi::{CStr, c_char, c_void};
use core::fmt;
use core::sync::atomic::AtomicUsize;

const MARKER: &CStr = c"cupeer, a marker";

/// Size of the text in [`crate::sys::arch::Thread`], in bytes.
const LONGEST: usize = 800;

#[unsafe(link_section = ".data.start")]
static REAL: AtomicUsize = AtomicUsize::new(0);

/// Replaces libc's `dlerror`: returns the message that the program would get without cupeer.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlerror() -> *mut c_char {
    deciding_entry!(decide)
}

unsafe extern "C" fn decide(_: *mut c_void, _: *const c_char, _: usize) -> Decision {
    // SAFETY: only this thread and its signal handlers use the block.
    let text = unsafe { &raw mut (*thread()).dlerror };
    // SAFETY: the text is this thread's own, and a byte of it is always initialized.
    if unsafe { (*text)[0] } == 0 {
        return Decision { jump: find(), value: 0 };
    }
    let message = call_real();
    let value = if is_marker(message) { text.cast() } else { message };
    if value != text.cast::<c_char>() {
        // SAFETY: the text is this thread's own. The pretended message has been overtaken by a real one.
        unsafe { (*text)[0] = 0 };
    }
    Decision { jump: 0, value: value as usize }
}

/// Returns the address of libc's own dlerror, which is searched once.
#[unsafe(link_section = ".text.startup")]
pub fn find() -> usize {
    loader::libcs_own(c"dlerror", &REAL)
}

fn call_real() -> *mut c_char {
    let real = find();
    if real == 0 {
        return core::ptr::null_mut();
    }
    // SAFETY: the address of libc's dlerror, which has this type.
    unsafe { core::mem::transmute::<usize, unsafe extern "C" fn() -> *mut c_char>(real)() }
}

fn is_marker(message: *const c_char) -> bool {
    // SAFETY: a message of libc ends in NUL.
    !message.is_null() && unsafe { CStr::from_ptr(message) }.to_bytes().ends_with(MARKER.to_bytes())
}

/// Returns and clears the loader's last message.
///
/// # Safety
///
/// The program's own message need not survive: see [`preserving`].
pub unsafe fn take_loader_message() -> impl fmt::Display {
    let message = call_real();
    let text = if message.is_null() {
        c"unknown reason"
    } else {
        // SAFETY: a message of libc ends in NUL, and stays until the thread calls the loader again.
        unsafe { CStr::from_ptr(message) }
    };
    LossyText(text.to_bytes())
}

/// Does work that calls the loader, and restores the message that the program has not read yet.
pub fn preserving<T>(work: impl FnOnce() -> T) -> T {
    let mut pending = [0; LONGEST];
    let mut message = call_real().cast_const();
    if is_marker(message) {
        // SAFETY: only this thread and its signal handlers use the block.
        message = unsafe { (&raw const (*thread()).dlerror).cast() };
    }
    if !message.is_null() {
        // SAFETY: a message of libc ends in NUL, and so does the text of the block.
        fill(&mut pending, &[unsafe { CStr::from_ptr(message) }.to_bytes()]);
    }
    let result = work();
    if pending[0] == 0 {
        call_real();
    } else {
        pretend_text(&pending);
    }
    result
}

/// Makes `dlerror` return a text that consists of several pieces, as if the loader had just failed with that message.
pub fn pretend(pieces: &[&[u8]]) {
    let mut text = [0; LONGEST];
    fill(&mut text, pieces);
    pretend_text(&text);
}

fn pretend_text(text: &[c_char; LONGEST]) {
    find();
    loader::look_up(libc::RTLD_NEXT, MARKER);
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe { (*thread()).dlerror = *text };
}

/// Copies the pieces as far as they fit, and keeps the final NUL.
fn fill(text: &mut [c_char; LONGEST], pieces: &[&[u8]]) {
    let bytes = pieces.iter().copied().flatten();
    text[..LONGEST - 1].iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte as c_char);
}
