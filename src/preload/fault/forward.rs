//! The view of a call that fault plans and denied pairs get: its function, the words of its arguments, and its caller.

use crate::recorder::export_of;
use cupeer_spec::effect::Shared;
use cupeer_spec::function::{FnId, MOST_ARGUMENTS};
use cupeer_spec::record::live::{Entry, kind};

/// The arguments of a call in order: numbers without their sign, pointers and handles unchanged, and the address of the bytes of an
/// IPC handle that is passed by value.
pub type ArgumentWords = [u64; MOST_ARGUMENTS];

/// Call whose result or outputs a fault plan or a denied pair may change.
pub struct ForwardedCall<'a> {
    pub id: FnId,
    pub words: &'a ArgumentWords,
    /// Return address of the call.
    pub caller: usize,
}

impl ForwardedCall<'_> {
    /// Returns the live table's entry of the object that the call is about to open: see [`export_of`].
    pub fn live_export(&self) -> Option<Entry> {
        export_of(kind::exported_kind(self.id.spec().opens()?.object), self.handle()?)
    }

    /// Returns the handle that the call is about to open.
    pub fn handle(&self) -> Option<&[u8; 64]> {
        let function = self.id.spec();
        let Shared { handle, .. } =
            function.opens().filter(|shared| function.args()[shared.handle].value_size() == 64)?;
        // SAFETY: the word of a handle by value is the address of its bytes, which the caller keeps during the call.
        unsafe { (self.words[handle] as *const [u8; 64]).as_ref() }
    }
}

/// Returns the word of an argument: see [`ArgumentWords`].
#[inline(always)]
pub fn word<T: Copy>(argument: &T) -> u64 {
    let place = core::ptr::from_ref(argument);
    // SAFETY: the argument has as many bytes as are read.
    unsafe {
        match size_of::<T>() {
            1 => u64::from(place.cast::<u8>().read()),
            2 => u64::from(place.cast::<u16>().read()),
            4 => u64::from(place.cast::<u32>().read()),
            8 => place.cast::<u64>().read(),
            _ => place as u64,
        }
    }
}
