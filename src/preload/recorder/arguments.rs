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
    /// Stores each argument in `arguments`. `succeeded` is true after a call that succeeded: only then are the outputs valid.
    fn store(&self, arguments: &mut Arguments, succeeded: bool);
}

/// The arguments of a call in stored form: as many bytes as fit, and two bits per argument ([`shape`]).
pub struct Arguments<'a> {
    bytes: &'a mut [u8],
    at: usize,
    index: usize,
    pub(super) shape: u64,
    /// The handle among the arguments with its stored form; `None` until it is computed.
    handle: &'a Cell<Option<Handle>>,
}

/// A shareable handle and its stored form. The stored form is computed once per call, because a call stores its arguments up to
/// three times.
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

    /// Puts the stored form of a value into `place`. A separate function, because unoptimized builds would otherwise need too
    /// much stack.
    #[inline]
    fn put_value<T: Value>(value: T, place: &mut [u8], known: &Cell<Option<Handle>>) {
        match value.handle() {
            Some(bytes) => Self::put_handle(value, bytes, place, known),
            None => value.store(place, FINGERPRINT),
        }
    }

    /// Puts the stored form of a handle into `place`. `bytes` are the bytes of the handle.
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
        self.set_shape(shape);
    }

    #[inline(always)]
    fn set_shape(&mut self, shape: u64) {
        self.shape |= shape << shape::shift(self.index);
        self.index += 1;
    }

    /// Stores an argument that the function only reads.
    #[inline(always)]
    pub fn input<T: Value>(&mut self, value: T) {
        self.put(Some(value), shape::VALUE);
    }

    /// Stores an argument that the function writes through a pointer. The value is read only if the call `succeeded`.
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

    /// Stores a structure that the function reads through a pointer.
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

    /// Stores a shareable handle; `None` if the program's handle cannot be read.
    pub fn shareable(&mut self, handle: Option<Shareable>) {
        self.put(handle, if handle.is_some() { shape::VALUE } else { shape::UNREAD });
    }

    /// Stores the address of an array or a text. The contents are stored as a detail of the call.
    #[inline(always)]
    pub fn elsewhere<T>(&mut self, pointer: *const T) {
        self.set_shape(if pointer.is_null() { shape::NULL } else { shape::VALUE });
    }
}

/// The arguments of a call in stored form, after the call.
pub struct StoredArguments {
    pub bytes: [u8; MOST_ARGS],
    /// Two bits per argument, as in [`Arguments`].
    pub shape: u64,
    /// The bytes of the shareable handle among the arguments; `None` without a handle.
    pub handle: Option<[u8; 64]>,
}

impl StoredArguments {
    /// Returns the fingerprint of the first bytes of the handle, which the driver does not check; 0 without a handle.
    pub fn handle_head_fingerprint(&self) -> u64 {
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
