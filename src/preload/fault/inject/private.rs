//! Memory of this process only. A forked child starts with zeros there, so that it has its own counts.

use crate::sys::pages;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// State of this process for fault injection.
pub struct InjectionState {
    /// 1 once the faults that concern the process are chosen; 0 before.
    prepared: AtomicU32,
    /// Number of the process in the job, from 1, in the order in which the processes got their numbers; 0 before.
    pub number: AtomicU64,
    /// Number of threads of the process that got a number.
    threads: AtomicU64,
}

static PROCESS: AtomicPtr<InjectionState> = AtomicPtr::new(ptr::null_mut());

/// Maps memory that a forked child sees as zeros. Null if there is no memory.
pub fn map_wiped_on_fork(size: usize) -> *mut c_void {
    let mapped = map_with(size, libc::MAP_PRIVATE);
    if !mapped.is_null() {
        // Kernels before 4.14 lack this advice: there, a child continues with the counts of its parent.
        // SAFETY: mapped above.
        unsafe { libc::madvise(mapped, size, libc::MADV_WIPEONFORK) };
    }
    mapped
}

/// Maps memory that forked children share. Null if there is no memory.
pub fn map_shared(size: usize) -> *mut c_void {
    map_with(size, libc::MAP_SHARED)
}

fn map_with(size: usize, kind: i32) -> *mut c_void {
    pages::map(ptr::null_mut(), size, kind | libc::MAP_ANONYMOUS, -1, 0).map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// Maps memory once, and stores its address in `place`: several threads may call this at the same time. Null if there is no
/// memory.
pub fn map_once<T>(place: &AtomicPtr<T>, size: usize, map: fn(usize) -> *mut c_void) -> *mut T {
    let there = place.load(Acquire);
    if !there.is_null() {
        return there;
    }
    let new = map(size).cast::<T>();
    if new.is_null() {
        return new;
    }
    match place.compare_exchange(ptr::null_mut(), new, AcqRel, Acquire) {
        Ok(_) => new,
        Err(first) => {
            // SAFETY: mapped above and not published.
            unsafe { libc::munmap(new.cast(), size) };
            first
        }
    }
}

/// Returns true if the faults that concern this process are chosen. False in a child that was just forked.
#[inline(always)]
pub fn are_faults_chosen() -> bool {
    // SAFETY: never unmapped.
    unsafe { PROCESS.load(Acquire).as_ref() }.is_some_and(|process| process.prepared.load(Acquire) == 1)
}

/// Returns the state of this process. `None` if there is no memory.
pub fn process() -> Option<&'static InjectionState> {
    let process = map_once(&PROCESS, size_of::<InjectionState>(), map_wiped_on_fork);
    // SAFETY: never unmapped, and all zero at first, which is a Process.
    unsafe { process.as_ref() }
}

impl InjectionState {
    /// Stores that the faults that concern this process are chosen, so that its calls skip all other faults.
    pub fn note_faults_chosen(&self) {
        self.prepared.store(1, Release);
    }
}

/// Returns a number for this thread. Unlike a tid, it is never reused.
pub fn thread_number() -> u64 {
    // SAFETY: only this thread and its signal handlers use the block.
    let number = unsafe { &mut (*crate::sys::arch::thread()).number };
    if *number == 0 {
        let count = process().map_or(0, |process| process.threads.fetch_add(1, Relaxed));
        // The first thread of a forked child keeps its number. The tid in it distinguishes it from later threads.
        // SAFETY: gettid has no preconditions.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u64;
        *number = (count + 1) << 32 | tid & 0xffff_ffff;
    }
    *number
}
