//! Data that every recorded call reads and that is rarely written, in a cache line of its own.
//!
//! Next to data that is written often, all other threads would fetch it again. Each additional cache line that a call
//! touches is evicted by the memory of the record.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

/// See [`EVERY_CALL`]. The module that writes a field defines its meaning, and the type that it points to.
#[repr(C, align(64))]
pub struct EveryCall {
    /// The settings, once they are read: `settings`.
    pub settings: AtomicPtr<c_void>,
    /// The faults that are armed; null if there are none, and [`UNREAD`] before those of the environment are read:
    /// `fault::inject`.
    pub armed: AtomicPtr<c_void>,
    /// The page with the number of the process's record; [`NO_PAGE`] while there is none: [`epoch`].
    pub page: AtomicPtr<AtomicU64>,
    /// The record whose devices are described: `driver::queries`.
    pub described: AtomicU64,
    /// Changes when a library was unloaded, so that cached facts about libraries may be wrong: `elf`.
    pub libraries: AtomicU32,
    /// Number of times that plans were armed and disarmed in the job; [`NO_PAGE`] if this process does not follow
    /// plans: `fault::inject`.
    pub generation: AtomicPtr<AtomicU64>,
    /// Value of that number when this process read it last; [`UNSEEN`] before.
    pub seen: AtomicU64,
    /// True if the processor's counter is the clock of the recording, decided when the process's file is created:
    /// `recorder::clock`.
    pub by_counter: AtomicBool,
}

/// Not a pointer: the faults were not read yet.
pub const UNREAD: *mut c_void = ptr::without_provenance_mut(1);

/// Stands for the page while there is none.
pub static NO_PAGE: AtomicU64 = AtomicU64::new(0);

/// The fields. None is written on the way of a call.
pub static EVERY_CALL: EveryCall = EveryCall {
    settings: AtomicPtr::new(ptr::null_mut()),
    armed: AtomicPtr::new(UNREAD),
    page: AtomicPtr::new(ptr::from_ref(&NO_PAGE).cast_mut()),
    described: AtomicU64::new(0),
    libraries: AtomicU32::new(1),
    generation: AtomicPtr::new(ptr::from_ref(&NO_PAGE).cast_mut()),
    seen: AtomicU64::new(0),
    by_counter: AtomicBool::new(false),
};

/// Returns true if this process checks at each call for newly armed plans.
pub fn follows_plans() -> bool {
    !ptr::eq(EVERY_CALL.generation.load(Relaxed), &NO_PAGE)
}

/// Not a value of [`EveryCall::generation`].
pub const UNSEEN: u64 = u64::MAX;

/// Returns true if plans were armed or disarmed in the job since this process checked.
#[inline(always)]
pub fn is_behind() -> bool {
    // SAFETY: the page is never unmapped.
    unsafe { (*EVERY_CALL.generation.load(Relaxed)).load(Relaxed) != EVERY_CALL.seen.load(Relaxed) }
}

/// Returns the number of this process's recording; 0 if there is none yet.
#[inline(always)]
pub fn epoch() -> u64 {
    // SAFETY: the page is never unmapped.
    unsafe { (*EVERY_CALL.page.load(Relaxed)).load(Relaxed) }
}

/// Epoch of a process that gave its recording up: no thread has it.
pub const GIVEN_UP: u64 = u64::MAX;

pub fn has_record() -> bool {
    !matches!(epoch(), 0 | GIVEN_UP)
}

/// The process that described its devices, by its pid; 0 if none did.
pub static DESCRIBED_BY: AtomicU32 = AtomicU32::new(0);

/// See [`EveryCall::libraries`].
#[inline(always)]
pub fn libraries_generation() -> u32 {
    EVERY_CALL.libraries.load(Relaxed)
}
