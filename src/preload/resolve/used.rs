//! Notes which functions a process has called, recorded or not, so that a report can list unrecorded ones.
//!
//! The first call of a function comes to us: a linked one to find its route, and a looked-up one because its target is the
//! traced entry until then. Later calls go where they would without this. Without a record, the first call of all looks for plans
//! that are armed while the job is running.

use crate::settings;
use crate::sys::every_call::has_record;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::function::{FUNCTION_COUNT, FnId, Library};
use cupeer_spec::record::{CALLED_WORDS, called_bit};

const _: () = assert!(FUNCTION_COUNT <= 64 * CALLED_WORDS);

/// A bit for each function that this process, or the process that it was forked from, has called.
static CALLED: Called = [const { AtomicU64::new(0) }; CALLED_WORDS];

/// A bit for each function, at the same positions as in `Header::called`.
pub type Called = [AtomicU64; CALLED_WORDS];

/// Bits in the header of this process's recording, or of its parent's; null without a recording.
static IN_RECORD: AtomicPtr<Called> = AtomicPtr::new(ptr::null_mut());

/// Returns true if no call of a function was seen yet in this process.
#[inline(always)]
pub fn is_first_call_awaited(id: FnId) -> bool {
    let (word, bit) = called_bit(id as usize);
    CALLED[word].load(Relaxed) & bit == 0 && id.spec().library == Library::Cuda && settings::get().has_directory()
}

/// Sets the bit of a called function. Returns true if this is its first call; later calls need not come here.
#[inline(always)]
pub fn note(id: FnId) -> bool {
    let is_first = is_first_call_awaited(id);
    if is_first {
        note_first(id);
    }
    is_first
}

#[cold]
#[inline(never)]
fn note_first(id: FnId) {
    let (word, bit) = called_bit(id as usize);
    CALLED[word].fetch_or(bit, Relaxed);
    // SAFETY: the words of a record are never unmapped.
    let recorded = has_record().then(|| unsafe { IN_RECORD.load(Acquire).as_ref() }).flatten();
    if let Some(recorded) = recorded {
        recorded[word].fetch_or(bit, Relaxed);
    }
}

/// Sets the bits in a new recording: for the functions that were called before, and for those that are called from now on.
pub fn share_bits_with_recording(recorded: &'static Called) {
    IN_RECORD.store(ptr::from_ref(recorded).cast_mut(), Release);
    for (recorded, called) in recorded.iter().zip(&CALLED) {
        recorded.fetch_or(called.load(Relaxed), Relaxed);
    }
}
