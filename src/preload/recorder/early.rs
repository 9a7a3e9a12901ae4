//! Keeps the last marks that a program sets before its record begins.
//!
//! A record begins with the first recorded call. The thread that makes that call writes these marks, so they are in
//! its stream.

use super::clock;
use super::detail::Detail;
use crate::sys::lock::Lock;
use crate::sys::pages;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};
use cupeer_spec::record::{Moment, slot};

/// How many are kept.
const MOST: usize = 128;

/// What is kept of one process. All zero is a value of it.
struct Early {
    /// Whose marks these are: a child of fork has made none.
    pid: u32,
    /// How many there were.
    count: usize,
    /// When the first was.
    first: Moment,
    /// When each was, and its text; in turn.
    marks: [(u64, Detail); MOST],
}

/// Held by who looks at what is behind [`EARLY`].
static LOCK: Lock = Lock::new();
static EARLY: AtomicPtr<Early> = AtomicPtr::new(ptr::null_mut());

/// Keeps a mark. Says whether it could.
pub fn keep(text: &[u8]) -> bool {
    let mut is_kept = false;
    LOCK.with(|| {
        if EARLY.load(Acquire).is_null() {
            let Ok(new) = pages::new(size_of::<Early>(), 0) else { return };
            clock::choose();
            EARLY.store(new.cast(), Release);
        }
        // SAFETY: mapped above and not given back, as both happens under the lock; all of its bytes are values.
        let Early { pid, count, first, marks } = unsafe { &mut *EARLY.load(Acquire) };
        if *pid != own() {
            (*pid, *count, *first) = (own(), 0, clock::moment());
        }
        marks[*count % MOST] = (clock::now(), Detail::of_text(text));
        *count += 1;
        is_kept = true;
    });
    is_kept
}

/// When the first mark of this process was, of those that are kept.
pub fn first() -> Option<Moment> {
    let mut first = None;
    if !EARLY.load(Acquire).is_null() {
        LOCK.with(|| first = kept().map(|early| early.first));
    }
    first
}

/// Writes what is kept into the stream of this thread, which has joined the record.
#[inline]
pub fn flush() {
    if !EARLY.load(Acquire).is_null() {
        flush_all();
    }
}

#[cold]
#[inline(never)]
fn flush_all() {
    let mut taken: *mut Early = ptr::null_mut();
    LOCK.with(|| taken = EARLY.swap(ptr::null_mut(), Acquire));
    // SAFETY: taken above, so nobody else has it; mapped when it was put there, and unmapped only here.
    let Some(early) = (unsafe { taken.as_ref() }) else { return };
    if early.pid == own() {
        let left_out = early.count.saturating_sub(MOST);
        if left_out > 0 {
            Detail::of_text(b"... earlier marks are left out").append(slot::MARK, early.first.ticks);
        }
        for index in left_out..early.count {
            let (time, text) = &early.marks[index % MOST];
            text.append(slot::MARK, *time);
        }
    }
    // SAFETY: the mapping is this thread's alone, and not used from here on.
    unsafe { libc::munmap(taken.cast(), size_of::<Early>()) };
}

/// What is kept of this process. For use under the lock.
fn kept() -> Option<&'static Early> {
    // SAFETY: mapped for as long as it is there, and given back only by who has taken it away under the lock.
    let early = unsafe { EARLY.load(Acquire).as_ref() };
    early.filter(|early| early.pid == own())
}

fn own() -> u32 {
    // SAFETY: getpid has no preconditions.
    unsafe { libc::getpid() as u32 }
}
