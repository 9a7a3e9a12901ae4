//! The arguments of a call as the record keeps them: their bytes, and what is known of each.

use crate::settings;
use crate::sys::guard::guarded;
use crate::sys::program_memory;
use core::cell::Cell;
use cupeer_spec::record::slot::{MOST_ARGS, shape};
use cupeer_spec::value::{CHECKED, Fingerprint, Shareable, Value};

pub const FINGERPRINT: Fingerprint = settings::key::fingerprint;

/// What puts the arguments of a call into the record. The hot way knows its type, and all else is there once for all functions.
pub trait Store {
    /// `succeeded` says whether the call has.
    fn store(&self, arguments: &mut Arguments, succeeded: bool);
}

/// Where the arguments of a call are put: their bytes, as many as there is room for, and what is known of each.
pub struct Arguments<'a> {
    bytes: &'a mut [u8],
    at: usize,
    index: usize,
    pub(super) shape: u64,
    /// The handle that is among them.
    handle: &'a Cell<Option<Handle>>,
}

/// A handle, and what stands for it in the record: computed once for a call, because it is stored up to three times.
#[derive(Clone, Copy)]
pub(super) struct Handle {
    pub(super) bytes: [u8; 64],
    stored: [u8; 16],
}

impl<'a> Arguments<'a> {
    #[inline(always)]
    pub(super) fn new(bytes: &'a mut [u8], handle: &'a Cell<Option<Handle>>) -> Self {
        Arguments { bytes, at: 0, index: 0, shape: 0, handle }
    }

    /// Puts a value. By itself, because the stack may be small where the compiler does not optimize.
    #[inline]
    fn put_value<T: Value>(value: T, place: &mut [u8], known: &Cell<Option<Handle>>) {
        match value.handle() {
            Some(bytes) => Self::put_handle(value, bytes, place, known),
            None => value.store(place, FINGERPRINT),
        }
    }

    /// Puts a handle, whose bytes are these.
    #[inline(never)]
    fn put_handle<T: Value>(value: T, bytes: [u8; 64], place: &mut [u8], known: &Cell<Option<Handle>>) {
        if let Some(known) = known.get().filter(|known| known.bytes == bytes) {
            return place.copy_from_slice(&known.stored);
        }
        value.store(place, FINGERPRINT);
        known.set(place.try_into().ok().map(|stored| Handle { bytes, stored }));
    }

    #[inline(always)]
    fn put<T: Value>(&mut self, value: Option<T>, how: u64) {
        if let (Some(value), Some(place)) = (value, self.bytes.get_mut(self.at..self.at + T::STORED)) {
            Self::put_value(value, place, self.handle);
        }
        self.at += T::STORED;
        self.mark(how);
    }

    #[inline(always)]
    fn mark(&mut self, how: u64) {
        self.shape |= how << shape::shift(self.index);
        self.index += 1;
    }

    /// An argument that the function reads.
    #[inline(always)]
    pub fn input<T: Value>(&mut self, value: T) {
        self.put(Some(value), shape::VALUE);
    }

    /// One that it writes. Read where it has `succeeded`.
    ///
    /// # Safety
    ///
    /// After success, `pointer` is null or points to a readable value.
    #[inline(always)]
    pub unsafe fn output<T: Value>(&mut self, pointer: *const T, succeeded: bool) {
        if pointer.is_null() {
            self.put::<T>(None, shape::NULL);
        } else if succeeded {
            // SAFETY: not null, and readable after success.
            self.put(Some(unsafe { pointer.read_unaligned() }), shape::VALUE);
        } else {
            self.put::<T>(None, shape::UNREAD);
        }
    }

    /// A structure that the function reads.
    ///
    /// # Safety
    ///
    /// After success, `pointer` is null or points to a readable value.
    pub unsafe fn structure<T: Value>(&mut self, pointer: *const T, succeeded: bool) {
        let mut value = None;
        if !succeeded {
            guarded(|| value = program_memory::copy_value(pointer));
        } else if !pointer.is_null() {
            // SAFETY: not null, and readable after success.
            value = Some(unsafe { pointer.read_unaligned() });
        }
        let unknown = if pointer.is_null() { shape::NULL } else { shape::UNREAD };
        self.put(value, if value.is_some() { shape::VALUE } else { unknown });
    }

    /// A shareable handle, where it can be read.
    pub fn shareable(&mut self, handle: Option<Shareable>) {
        self.put(handle, if handle.is_some() { shape::VALUE } else { shape::UNREAD });
    }

    /// An array or a text: its bytes are a detail.
    #[inline(always)]
    pub fn elsewhere<T>(&mut self, pointer: *const T) {
        self.mark(if pointer.is_null() { shape::NULL } else { shape::VALUE });
    }
}

/// The arguments of a call as they are stored.
pub struct Stored {
    pub bytes: [u8; MOST_ARGS],
    /// What is known of each.
    pub shape: u64,
    /// The bytes of a handle.
    pub handle: Option<[u8; 64]>,
}

impl Stored {
    /// The fingerprint of those bytes of its handle that the driver does not check; 0 where it has none.
    pub fn head(&self) -> u64 {
        self.handle.map_or(0, |handle| FINGERPRINT(&handle[..CHECKED.start]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::abi::CUipcMemHandle;

    fn stored(handle: CUipcMemHandle, known: &Cell<Option<Handle>>) -> [u8; 16] {
        let mut bytes = [0; 16];
        Arguments::new(&mut bytes, known).input(handle);
        bytes
    }

    #[test]
    fn a_handle_is_fingerprinted_once() {
        let (one, other) = (CUipcMemHandle { reserved: [1; 64] }, CUipcMemHandle { reserved: [2; 64] });
        let known = Cell::new(None);
        let first = stored(one, &known);
        assert_eq!(known.get().map(|handle| (handle.bytes, handle.stored)), Some(([1; 64], first)));
        // What is known is not computed again.
        known.set(Some(Handle { bytes: [1; 64], stored: [7; 16] }));
        assert_eq!(stored(one, &known), [7; 16]);
        // Another handle in its place is.
        assert_eq!(stored(other, &known), stored(other, &Cell::new(None)));
        assert_ne!(stored(other, &known), first);
    }
}
