//! Data that every recorded call reads and that is rarely written, in a cache line of its own.
//!
//! Next to data that is written often, all other threads would fetch it again. Each additional cache line that a call
//! touches is evicted by the memory of the record.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The data that every recorded call reads: see [`EVERY_CALL`]. The module that writes a field defines its meaning, and the type
/// that it points to.
#[repr(C, align(64))]
pub struct EveryCall {
    /// Pointer to the settings; null before they are read: `settings`.
    pub settings: AtomicPtr<c_void>,
    /// Pointer to the armed faults; null if there are none, and [`UNREAD`] before those of the environment are read:
    /// `fault::inject`.
    pub armed: AtomicPtr<c_void>,
    /// Page with the epoch of the process's record; [`NO_PAGE`] while there is none: [`recording_epoch`].
    pub page: AtomicPtr<AtomicU64>,
    /// Epoch of the record that describes the driver's devices: `driver::queries`.
    pub described: AtomicU64,
    /// Counter that changes when a library was unloaded, because cached facts about libraries may then be wrong: `elf`.
    pub libraries: AtomicU32,
    /// Pointer to the number of times that plans were armed and disarmed in the job; [`NO_PAGE`] if this process does not follow
    /// plans: `fault::inject`.
    pub generation: AtomicPtr<AtomicU64>,
    /// Value at `generation` when this process read it last; [`UNSEEN`] before.
    pub seen: AtomicU64,
    /// True if the processor's counter is the clock of the recording. Decided when the process's file is created:
    /// `recorder::clock`.
    pub by_counter: AtomicBool,
}

/// Value of [`EveryCall::armed`] before the faults of the environment are read. Not a valid pointer.
pub const UNREAD: *mut c_void = ptr::without_provenance_mut(1);

/// Stands for the page with the epoch while there is no such page.
pub static NO_PAGE: AtomicU64 = AtomicU64::new(0);

/// The instance of [`EveryCall`]. Recorded calls write none of its fields.
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

/// Returns true if this process checks for newly armed plans at each call.
pub fn follows_plans() -> bool {
    !ptr::eq(EVERY_CALL.generation.load(Relaxed), &NO_PAGE)
}

/// Value of [`EveryCall::seen`] before the first check. It is never a value at [`EveryCall::generation`].
pub const UNSEEN: u64 = u64::MAX;

/// Returns true if plans were armed or disarmed in the job since this process last checked.
#[inline(always)]
pub fn has_unseen_plan_changes() -> bool {
    // SAFETY: the page is never unmapped.
    unsafe { (*EVERY_CALL.generation.load(Relaxed)).load(Relaxed) != EVERY_CALL.seen.load(Relaxed) }
}

/// Returns the epoch of this process's recording; 0 if there is none yet.
#[inline(always)]
pub fn recording_epoch() -> u64 {
    // SAFETY: the page is never unmapped.
    unsafe { (*EVERY_CALL.page.load(Relaxed)).load(Relaxed) }
}

/// Epoch of a process that gave up its recording. No thread has this epoch.
pub const GIVEN_UP: u64 = u64::MAX;

pub fn has_record() -> bool {
    !matches!(recording_epoch(), 0 | GIVEN_UP)
}

/// Pid of the process that described the driver's devices; 0 if none did.
pub static DESCRIBED_BY: AtomicU32 = AtomicU32::new(0);

/// Returns a counter that changes when a library was unloaded: see [`EveryCall::libraries`].
#[inline(always)]
pub fn libraries_generation() -> u32 {
    EVERY_CALL.libraries.load(Relaxed)
}
