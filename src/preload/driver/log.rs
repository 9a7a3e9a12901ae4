//! The driver log: drivers from CUDA 12.9 on explain errors to a registered function, in the thread of the call and
//! before it returns. Older drivers have none.

use crate::resolve::driver;
use crate::sys::arch::{Thread, thread};
use crate::sys::guard::guarded;
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::function::Library;

/// The most that is kept of what is said about one call.
const ROOM: usize = 240;

struct Messages {
    bytes: [u8; ROOM],
    length: usize,
}

impl Messages {
    const fn new() -> Self {
        Messages { bytes: [0; ROOM], length: 0 }
    }

    /// What was said, messages separated by semicolons.
    fn text(&self) -> &str {
        self.bytes[..self.length].utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }

    fn add(&mut self, message: &[u8]) {
        let separator: &[u8] = if self.length > 0 { b"; " } else { b"" };
        for byte in separator.iter().chain(message) {
            let Some(place) = self.bytes.get_mut(self.length) else { return };
            // Lines and control characters would break ours.
            *place = if byte.is_ascii_control() { b' ' } else { *byte };
            self.length += 1;
        }
    }
}

/// How many calls can be listened to at once; what is said about more of them is lost. The messages are not on the stack of
/// the program, which may be small.
const SHELVES: usize = 64;
static ALL: [Shelf; SHELVES] =
    [const { Shelf { taken: AtomicBool::new(false), messages: UnsafeCell::new(Messages::new()) } }; SHELVES];

struct Shelf {
    taken: AtomicBool,
    messages: UnsafeCell<Messages>,
}
// SAFETY: the messages are used by whoever has taken the shelf alone.
unsafe impl Sync for Shelf {}

/// Keeps what the driver logs about one call.
pub struct DriverLog(Option<&'static Shelf>);

impl DriverLog {
    /// One that keeps nothing.
    #[inline(always)]
    pub fn disabled() -> Self {
        DriverLog(None)
    }

    /// One that keeps what it can, where one is free.
    #[cold]
    #[inline(never)]
    pub fn enabled() -> Self {
        register();
        // Each thread begins at another place.
        let first = thread() as usize / size_of::<Thread>();
        let free = (0..SHELVES).map(|i| &ALL[first.wrapping_add(i) % SHELVES]).find(|shelf| {
            !shelf.taken.load(Relaxed) && shelf.taken.compare_exchange(false, true, Acquire, Relaxed).is_ok()
        });
        if let Some(shelf) = free {
            // SAFETY: taken above.
            unsafe { (*shelf.messages.get()).length = 0 };
        }
        DriverLog(free)
    }

    /// Where [`Thread::driver_messages`] points to meanwhile; null where nothing is kept.
    #[inline(always)]
    pub fn messages(&self) -> *mut c_void {
        self.0.map_or(ptr::null_mut(), |shelf| shelf.messages.get().cast())
    }

    /// What was said. For when the call has returned.
    pub fn text(&self) -> &str {
        // SAFETY: messages of the shelf that this log has taken, to which nobody adds any more.
        self.0.map_or("", |shelf| unsafe { (*shelf.messages.get()).text() })
    }
}

impl Drop for DriverLog {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(shelf) = self.0 {
            shelf.taken.store(false, Release);
        }
    }
}

/// Asks the driver to explain errors, once a process.
fn register() {
    /// Whether that is done, or there is nothing to register with.
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    type Callback = unsafe extern "C" fn(*mut c_void, c_int, *mut c_char, usize);
    type Register = unsafe extern "C" fn(Callback, *mut c_void, *mut *mut c_void) -> c_int;
    if REGISTERED.load(Relaxed) {
        return;
    }
    guarded(|| {
        // Not while no driver is there.
        let Some(address) = driver::function(Library::Cuda, c"cuLogsRegisterCallback") else { return };
        if !REGISTERED.swap(true, Relaxed) && address != 0 {
            let mut handle = ptr::null_mut();
            // SAFETY: the driver's function of this name has this type; what it registers stays as long as this
            // library, which is never unloaded. Where it refuses, nothing is said.
            unsafe { core::mem::transmute::<usize, Register>(address)(heard, ptr::null_mut(), &mut handle) };
        }
    });
}

/// The driver says something on this thread.
unsafe extern "C" fn heard(_: *mut c_void, _: c_int, message: *mut c_char, length: usize) {
    // SAFETY: only this thread and its signal handlers use the block.
    let messages = unsafe { (*thread()).driver_messages }.cast::<Messages>();
    if messages.is_null() || message.is_null() {
        return;
    }
    // SAFETY: the driver passes a text of this length, and the messages live as long as the call that it is in.
    let (message, messages) =
        unsafe { (core::slice::from_raw_parts(message.cast::<u8>(), length.min(ROOM)), &mut *messages) };
    // The last line of each failure repeats its result.
    if !message.starts_with(b"Returning ") {
        messages.add(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_joined_and_cut() {
        let mut messages = Messages::new();
        messages.add(b"one\n");
        messages.add("zw\u{f6}lf".as_bytes());
        assert_eq!(messages.text(), "one ; zw\u{f6}lf");
        messages.add(&[b'a'; 2 * ROOM]);
        assert_eq!(messages.text().len(), ROOM);
    }
}
