//! The arguments of a call as the record keeps them: their bytes, and what is known of each.

use crate::settings;
use crate::sys::guard::guarded;
use crate::sys::program_memory;
use core::cell::Cell;
use cupeer_spec::record::slot::{MOST_ARGS, shape};
use cupeer_spec::value::{CHECKED, Fingerprint, Shareable, Value};

pub const FINGERPRINT: Fingerprint = settings::key::fingerprint;

/// Stores the arguments of a call, for the record. The fast path knows the type; the slow paths exist once for all functions.
pub trait Store {
    /// `succeeded` is true after a call that succeeded: then its outputs can be read.
    fn store(&self, arguments: &mut Arguments, succeeded: bool);
}

/// A buffer for the arguments of a call: as many bytes as fit, and the shape of each argument.
pub struct Arguments<'a> {
    bytes: &'a mut [u8],
    at: usize,
    index: usize,
    pub(super) shape: u64,
    /// The handle among the arguments, once its fingerprint is known.
    handle: &'a Cell<Option<Handle>>,
}

/// A handle and its stored form, computed once per call because a call stores it up to three times.
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

    /// Puts a value. A function of its own, because unoptimized builds would need too much stack otherwise.
    #[inline]
    fn put_value<T: Value>(value: T, place: &mut [u8], known: &Cell<Option<Handle>>) {
        match value.handle() {
            Some(bytes) => Self::put_handle(value, bytes, place, known),
            None => value.store(place, FINGERPRINT),
        }
    }

    /// Puts a handle that consists of these bytes.
    #[inline(never)]
    fn put_handle<T: Value>(value: T, bytes: [u8; 64], place: &mut [u8], known: &Cell<Option<Handle>>) {
        if let Some(known) = known.get().filter(|known| known.bytes == bytes) {
            return place.copy_from_slice(&known.stored);
        }
        value.store(place, FINGERPRINT);
        known.set(place.try_into().ok().map(|stored| Handle { bytes, stored }));
    }

    #[inline(always)]
    fn put<T: Value>(&mut self, value: Option<T>, shape: u64) {
        if let (Some(value), Some(place)) = (value, self.bytes.get_mut(self.at..self.at + T::STORED)) {
            Self::put_value(value, place, self.handle);
        }
        self.at += T::STORED;
        self.mark(shape);
    }

    #[inline(always)]
    fn mark(&mut self, shape: u64) {
        self.shape |= shape << shape::shift(self.index);
        self.index += 1;
    }

    /// An argument that the function reads.
    #[inline(always)]
    pub fn input<T: Value>(&mut self, value: T) {
        self.put(Some(value), shape::VALUE);
    }

    /// An argument that the function writes; it is read only if the call `succeeded`.
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

    /// A shareable handle; `None` if it cannot be read.
    pub fn shareable(&mut self, handle: Option<Shareable>) {
        self.put(handle, if handle.is_some() { shape::VALUE } else { shape::UNREAD });
    }

    /// An array or a text. Its bytes are a detail of the call.
    #[inline(always)]
    pub fn elsewhere<T>(&mut self, pointer: *const T) {
        self.mark(if pointer.is_null() { shape::NULL } else { shape::VALUE });
    }
}

/// The arguments of a call as they are stored.
pub struct Stored {
    pub bytes: [u8; MOST_ARGS],
    /// The shape of each argument, as [`Arguments`] has it.
    pub shape: u64,
    /// The bytes of the handle among them.
    pub handle: Option<[u8; 64]>,
}

impl Stored {
    /// The fingerprint of the bytes of its handle that the driver does not check; 0 without a handle.
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
        // A known fingerprint is not computed again.
        known.set(Some(Handle { bytes: [1; 64], stored: [7; 16] }));
        assert_eq!(stored(one, &known), [7; 16]);
        // The fingerprint of another handle is computed.
        assert_eq!(stored(other, &known), stored(other, &Cell::new(None)));
        assert_ne!(stored(other, &known), first);
    }
}
