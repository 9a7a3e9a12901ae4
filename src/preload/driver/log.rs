//! The driver log: drivers from CUDA 12.9 on explain errors to a registered function, in the thread of the call and
//! before it returns. Older drivers have none.

use super::shelf::{ExclusiveValue, TakenValue};
use crate::resolve::driver;
use crate::sys::arch::{Thread, thread};
use crate::sys::guard::guarded;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use cupeer_spec::function::Library;

/// Number of bytes of the messages about one call that are kept: the first ones.
const ROOM: usize = 240;

pub struct Messages {
    bytes: [u8; ROOM],
    length: usize,
}

impl Messages {
    const fn new() -> Self {
        Messages { bytes: [0; ROOM], length: 0 }
    }

    /// Returns the messages, separated by semicolons.
    fn text(&self) -> &str {
        self.bytes[..self.length].utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }

    fn add(&mut self, message: &[u8]) {
        let separator: &[u8] = if self.length > 0 { b"; " } else { b"" };
        for byte in separator.iter().chain(message) {
            let Some(place) = self.bytes.get_mut(self.length) else { return };
            // Line breaks and control characters would break our own lines.
            *place = if byte.is_ascii_control() { b' ' } else { *byte };
            self.length += 1;
        }
    }
}

/// Number of calls whose messages can be kept at once. The messages about further calls are lost.
const SHELVES: usize = 64;
static SHELF: [ExclusiveValue<Messages>; SHELVES] = [const { ExclusiveValue::new(Messages::new()) }; SHELVES];

/// Messages that the driver logs during one call, if they are kept.
pub struct DriverLog(Option<TakenValue<Messages>>);

impl DriverLog {
    /// Returns a log that keeps no messages.
    #[inline(always)]
    pub fn disabled() -> Self {
        DriverLog(None)
    }

    /// Returns a log that keeps messages, if there is a free place for them.
    #[cold]
    #[inline(never)]
    pub fn enabled() -> Self {
        register();
        // Each thread starts its search at another place.
        let first = thread() as usize / size_of::<Thread>();
        let mut taken = (0..SHELVES).find_map(|i| SHELF[first.wrapping_add(i) % SHELVES].take());
        if let Some(messages) = &mut taken {
            messages.length = 0;
        }
        DriverLog(taken)
    }

    /// Returns the buffer to store in [`Thread::driver_messages`] during the call; null if no messages are kept.
    #[inline(always)]
    pub fn buffer_pointer(&self) -> *mut c_void {
        self.0.as_ref().map_or(ptr::null_mut(), |messages| messages.as_ptr().cast())
    }

    /// Returns the messages about the call. Must run after the call returned.
    pub fn text(&self) -> &str {
        self.0.as_ref().map_or("", |messages| messages.text())
    }
}

/// Registers this library to receive the driver's messages, once per process.
fn register() {
    /// True once the registration is done, or if the driver has no function for it.
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    type Callback = unsafe extern "C" fn(*mut c_void, c_int, *mut c_char, usize);
    type Register = unsafe extern "C" fn(Callback, *mut c_void, *mut *mut c_void) -> c_int;
    if REGISTERED.load(Relaxed) {
        return;
    }
    guarded(|| {
        // While no driver is loaded, the registration waits.
        let Some(address) = driver::function(Library::Cuda, c"cuLogsRegisterCallback") else { return };
        if !REGISTERED.swap(true, Relaxed) && address != 0 {
            let mut handle = ptr::null_mut();
            // SAFETY: the driver's function of this name has this type. The callback is there as long as this library, which is
            // never unloaded. If the driver refuses, there are no messages.
            unsafe { core::mem::transmute::<usize, Register>(address)(receive_message, ptr::null_mut(), &mut handle) };
        }
    });
}

/// Receives a message of the driver about the call that this thread is forwarding.
unsafe extern "C" fn receive_message(_: *mut c_void, _: c_int, message: *mut c_char, length: usize) {
    // SAFETY: only this thread and its signal handlers use the block.
    let messages = unsafe { (*thread()).driver_messages }.cast::<Messages>();
    if messages.is_null() || message.is_null() {
        return;
    }
    // SAFETY: the driver passes a text of this length, and the messages stay until the call returns.
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
