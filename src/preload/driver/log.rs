//! The driver's own words about a call: drivers from CUDA 12.9 on explain errors to a function that is registered, on
//! the thread of the call and before it returns. Where they do not, there are no words.

use crate::resolve::driver;
use crate::sys::arch::{Thread, thread};
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::function::Library;

/// The most that is kept of what is said about one call.
const ROOM: usize = 240;

/// What was said about one call.
pub struct Words {
    bytes: [MaybeUninit<u8>; ROOM],
    length: usize,
}

impl Words {
    const fn new() -> Self {
        Words { bytes: [const { MaybeUninit::uninit() }; ROOM], length: 0 }
    }

    /// What was said, messages separated by semicolons.
    fn text(&self) -> &str {
        // SAFETY: the first `length` bytes were written by `add`.
        let bytes = unsafe { core::slice::from_raw_parts(self.bytes.as_ptr().cast::<u8>(), self.length) };
        bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }

    fn add(&mut self, message: &[u8]) {
        let separator: &[u8] = if self.length > 0 { b"; " } else { b"" };
        for byte in separator.iter().chain(message) {
            let Some(place) = self.bytes.get_mut(self.length) else { return };
            // Lines and control characters would break ours.
            place.write(if byte.is_ascii_control() { b' ' } else { *byte });
            self.length += 1;
        }
    }
}

/// So many calls can be listened to at once; what is said about more of them is lost. The words are not on the stack of
/// the program, which may be small.
const EARS: usize = 64;
static WORDS: [Shelf; EARS] =
    [const { Shelf { taken: AtomicBool::new(false), words: UnsafeCell::new(Words::new()) } }; EARS];

struct Shelf {
    taken: AtomicBool,
    words: UnsafeCell<Words>,
}
// SAFETY: the words are used by whoever has taken the shelf alone.
unsafe impl Sync for Shelf {}

/// An ear for what the driver says about one call.
pub struct Ear(*const Shelf);

impl Ear {
    /// One that hears nothing.
    #[inline(always)]
    pub fn deaf() -> Self {
        Ear(ptr::null())
    }

    /// One that listens, where there is a free one.
    #[cold]
    #[inline(never)]
    pub fn new() -> Self {
        register();
        // Each thread begins at another place.
        let first = thread() as usize / size_of::<Thread>();
        let free = (0..EARS).map(|i| &WORDS[first.wrapping_add(i) % EARS]).find(|shelf| {
            !shelf.taken.load(Relaxed) && shelf.taken.compare_exchange(false, true, Acquire, Relaxed).is_ok()
        });
        let Some(shelf) = free else { return Ear::deaf() };
        // SAFETY: taken above.
        unsafe { (*shelf.words.get()).length = 0 };
        Ear(shelf)
    }

    /// Where the words are put; null where none are.
    #[inline(always)]
    pub fn words(&self) -> *mut Words {
        // SAFETY: null or a shelf, which stays.
        unsafe { self.0.as_ref() }.map_or(ptr::null_mut(), |shelf| shelf.words.get())
    }

    /// What was said. For when the call has returned.
    pub fn text(&self) -> &str {
        // SAFETY: null, or words that nobody else adds to.
        unsafe { self.words().as_ref() }.map_or("", Words::text)
    }
}

impl Drop for Ear {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: null or a shelf, which stays, and which this ear has taken.
        if let Some(shelf) = unsafe { self.0.as_ref() } {
            shelf.taken.store(false, Release);
        }
    }
}

/// 0: not tried yet; 1: done, or there is nothing to register with.
static REGISTERED: AtomicU32 = AtomicU32::new(0);

/// Asks the driver to explain errors, once a process.
fn register() {
    if REGISTERED.load(Relaxed) == 0 {
        register_slowly();
    }
}

#[cold]
#[inline(never)]
fn register_slowly() {
    type Callback = unsafe extern "C" fn(*mut c_void, c_int, *mut c_char, usize);
    type Register = unsafe extern "C" fn(Callback, *mut c_void, *mut *mut c_void) -> c_int;
    crate::call::quietly(|| {
        // Not while no driver is there.
        let Some(address) = driver::function(Library::Cuda, c"cuLogsRegisterCallback") else { return };
        if REGISTERED.swap(1, Relaxed) == 0 && address != 0 {
            let mut handle = ptr::null_mut();
            // SAFETY: the driver's function of this name has this type; what it registers stays as long as this
            // library, which is never unloaded. Where it refuses, there are no words.
            unsafe { core::mem::transmute::<usize, Register>(address)(heard, ptr::null_mut(), &mut handle) };
        }
    });
}

/// The driver says something on this thread.
unsafe extern "C" fn heard(_: *mut c_void, _: c_int, message: *mut c_char, length: usize) {
    // SAFETY: the block is this thread's alone.
    let words = unsafe { (*thread()).words };
    if words.is_null() || message.is_null() {
        return;
    }
    // SAFETY: the driver passes a text of this length, and the words live as long as the call that it is in.
    let (message, words) =
        unsafe { (core::slice::from_raw_parts(message.cast::<u8>(), length.min(ROOM)), &mut *words) };
    // The last line of each failure repeats its result.
    if !message.starts_with(b"Returning ") {
        words.add(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_joined_and_cut() {
        let mut words = Words::new();
        words.add(b"one\n");
        words.add("zw\u{f6}lf".as_bytes());
        assert_eq!(words.text(), "one ; zw\u{f6}lf");
        words.add(&[b'a'; 2 * ROOM]);
        assert_eq!(words.text().len(), ROOM);
    }
}
