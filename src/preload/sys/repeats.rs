//! A thread's memory of the calls that it repeats. All zeros is empty. `recorder::repeats` defines its meaning.
//!
//! It is allocated outside of the thread's block, which is part of the thread's stack, because that may be small.
//!
//! Only the thread and its signal handlers use it. A handler may run between any two instructions: counts may lose
//! one, and entries are replaced only while signals are blocked.

use super::arch::Thread;
use super::errno::errno;
use super::{pages, signals};
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Calls of one function and result from one place.
#[repr(C)]
pub struct Kind {
    /// Hash of their common properties; 0 if the entry is free.
    pub key: u64,
    /// Identity and height of the part of the recording to which the last stack was written.
    pub part: u64,
    /// Number of calls.
    pub count: u64,
    /// Number of recent calls, halved each time that another entry needed space.
    pub heat: u64,
}

/// Calls that fail in the same way, which are one event of the record.
#[repr(C)]
pub struct Run {
    /// Hash of their common properties; 0 if the entry is free.
    pub key: u64,
    /// Address and number of their event, once they have one.
    pub place: usize,
    pub number: u64,
    /// The recording that it is in.
    pub epoch: u64,
    /// State of the rules' facts when one of them was last judged.
    pub world: u64,
    /// Time of the next judgment, on the clock of the recording.
    pub due: u64,
    /// Number of calls.
    pub count: u64,
    pub result: i32,
    /// Number of recent calls, as above.
    pub heat: u32,
    /// The arguments of the one that is in flight.
    pub args: [u8; 64],
}

/// Repeated calls of a thread, in sets: an entry may be anywhere in the set of its hash.
#[repr(C)]
pub struct Repeats {
    /// Number of times that an entry was replaced.
    pub turn: u64,
    pub kinds: [[Kind; WAYS]; SETS],
    pub runs: [[Run; WAYS]; SETS],
}

pub const SETS: usize = 4;
pub const WAYS: usize = 4;

/// Limit of threads that remember repeats at once.
const THREADS: usize = 4096;

/// The repeats of a thread, and the thread's number.
struct ThreadRepeats {
    owner: AtomicU32,
    repeats: AtomicPtr<Repeats>,
}

static ALL: [ThreadRepeats; THREADS] =
    [const { ThreadRepeats { owner: AtomicU32::new(0), repeats: AtomicPtr::new(ptr::null_mut()) } }; THREADS];

/// Returns the repeats of this thread; `None` if the process has no more. Nothing of a thread that ended is left in
/// them.
pub fn of(thread: *mut Thread) -> Option<&'static mut Repeats> {
    // SAFETY: only this thread and its signal handlers use the block, and what it points to is this thread's, and never unmapped.
    unsafe {
        if (*thread).repeats.is_null() {
            (*thread).repeats = signals::held_back(take)?.cast();
        }
        Some(&mut *(*thread).repeats.cast())
    }
}

/// Takes repeats that no running thread has.
#[cold]
#[inline(never)]
fn take() -> Option<*mut Repeats> {
    /// Number of shelves that are searched for one whose thread ended.
    const LOOKS: usize = 16;
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static START: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: neither has preconditions.
    let (process, own) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid) as u32) };
    // SAFETY: signal 0 is sent to nobody.
    let is_gone =
        |tid: u32| unsafe { libc::syscall(libc::SYS_tgkill, process, tid, 0) } != 0 && errno() == libc::ESRCH;
    let count = COUNT.load(Relaxed).min(THREADS);
    let start = START.fetch_add(LOOKS, Relaxed);
    for i in 0..count.min(LOOKS) {
        let place = &ALL[start.wrapping_add(i) % count];
        let (old, repeats) = (place.owner.load(Relaxed), place.repeats.load(Acquire));
        let is_free = !repeats.is_null() && is_gone(old);
        if is_free && place.owner.compare_exchange(old, own, AcqRel, Relaxed).is_ok() {
            // SAFETY: taken above; all zero is one.
            unsafe { ptr::write_bytes(repeats, 0, 1) };
            return Some(repeats);
        }
    }
    let place =
        ALL.get(COUNT.fetch_update(Relaxed, Relaxed, |count| (count < THREADS).then_some(count + 1)).ok()?)?;
    let repeats = pages::new(size_of::<Repeats>(), 0).ok()?.cast::<Repeats>();
    place.owner.store(own, Relaxed);
    place.repeats.store(repeats, Release);
    Some(repeats)
}

/// An entry that another one may replace.
pub trait Entry {
    fn key(&self) -> u64;

    /// Halves its number of recent calls, and returns that.
    fn cool(&mut self) -> u64;
}

impl Entry for Kind {
    fn key(&self) -> u64 {
        self.key
    }
    fn cool(&mut self) -> u64 {
        self.heat /= 2;
        self.heat
    }
}

impl Entry for Run {
    fn key(&self) -> u64 {
        self.key
    }
    fn cool(&mut self) -> u64 {
        self.heat /= 2;
        self.heat.into()
    }
}

/// Returns the set of a hash.
#[inline(always)]
pub fn set<T>(sets: &mut [[T; WAYS]; SETS], key: u64) -> &mut [T; WAYS] {
    &mut sets[key as usize % SETS]
}

/// Returns the entry of a hash.
#[inline(always)]
pub fn find<T: Entry>(sets: &mut [[T; WAYS]; SETS], key: u64) -> Option<&mut T> {
    set(sets, key).iter_mut().find(|entry| entry.key() == key)
}

/// Returns the entry of a set to replace: entries that stay in use are kept, and others cool down.
pub fn coldest<T: Entry>(sets: &mut [[T; WAYS]; SETS], key: u64) -> &mut T {
    let set = set(sets, key);
    let heats = set.each_mut().map(|entry| if entry.key() == 0 { 0 } else { 1 + entry.cool() });
    let place = heats.iter().enumerate().min_by_key(|(_, heat)| **heat).map_or(0, |(place, _)| place);
    &mut set[place]
}
