//! Data that every recorded call reads and that is rarely written, in a cache line of its own.
//!
//! Next to data that is written often, all other threads would fetch it again. Each additional cache line that a call
//! touches is evicted by the memory of the record.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

/// See [`EVERY_CALL`]. Who writes a field says what it means, and what type it points to.
#[repr(C, align(64))]
pub struct EveryCall {
    /// The settings, once they are read: `settings`.
    pub settings: AtomicPtr<c_void>,
    /// The rules of faults that are armed; null where none is, and [`UNREAD`] before those of the environment are:
    /// `fault::inject`.
    pub armed: AtomicPtr<c_void>,
    /// The page with the number of the process's record; [`NO_PAGE`] while there is none: [`epoch`].
    pub page: AtomicPtr<AtomicU64>,
    /// The record whose devices are described: `driver::questions`.
    pub described: AtomicU64,
    /// Changes when what is known of libraries may be wrong, because one was unloaded: `elf`.
    pub libraries: AtomicU32,
    /// How often plans were armed and disarmed in the job; [`NO_PAGE`] where nobody looks: `fault::inject`.
    pub generation: AtomicPtr<AtomicU64>,
    /// How often that was when this process looked last; [`UNSEEN`] before it has.
    pub seen: AtomicU64,
    /// Whether the processor's counter is the clock of the record, decided when the process's file is made:
    /// `recorder::clock`.
    pub by_counter: AtomicBool,
}

/// No pointer: before it is known whether there are any.
pub const UNREAD: *mut c_void = ptr::without_provenance_mut(1);

/// What stands for the page while there is none.
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

/// Whether this process looks at each call whether plans were armed.
pub fn follows_plans() -> bool {
    !ptr::eq(EVERY_CALL.generation.load(Relaxed), &NO_PAGE)
}

/// No number of [`EveryCall::generation`].
pub const UNSEEN: u64 = u64::MAX;

/// Whether plans were armed or disarmed in the job since this process looked.
#[inline(always)]
pub fn is_behind() -> bool {
    // SAFETY: the page is never unmapped.
    unsafe { (*EVERY_CALL.generation.load(Relaxed)).load(Relaxed) != EVERY_CALL.seen.load(Relaxed) }
}

/// The number of this process's record; 0 where there is none yet.
#[inline(always)]
pub fn epoch() -> u64 {
    // SAFETY: the page is never unmapped.
    unsafe { (*EVERY_CALL.page.load(Relaxed)).load(Relaxed) }
}

/// The epoch of a process that has given its record up: not that of any thread.
pub const GIVEN_UP: u64 = u64::MAX;

pub fn has_record() -> bool {
    !matches!(epoch(), 0 | GIVEN_UP)
}

/// The process that described its devices, by its pid; 0 where none has.
pub static DESCRIBED_BY: AtomicU32 = AtomicU32::new(0);

/// See [`EveryCall::libraries`].
#[inline(always)]
pub fn libraries_generation() -> u32 {
    EVERY_CALL.libraries.load(Relaxed)
}
