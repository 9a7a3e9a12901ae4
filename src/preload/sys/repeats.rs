//! Stores a thread's data about the calls that it repeats. All zeros is empty. `recorder::repeats` defines its meaning.
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

/// The calls of one kind: with the same function, the same result, and the same caller.
#[repr(C)]
pub struct CallKind {
    /// Hash of the properties that the calls share; 0 if the entry is free.
    pub key: u64,
    /// Number of the part of the recording to which the last stack was written, and the height of that stack.
    pub part: u64,
    /// Number of calls of this kind.
    pub count: u64,
    /// Number of recent calls, which is halved each time that another kind needs an entry.
    pub heat: u64,
}

/// Calls that fail in the same way, and that share one slot of the record.
#[repr(C)]
pub struct FailureRun {
    /// Hash of the properties that the calls share; 0 if the entry is free.
    pub key: u64,
    /// Address of the slot that the calls share, once there is one.
    pub place: usize,
    pub number: u64,
    /// Epoch of the recording that contains the slot.
    pub epoch: u64,
    /// State of the facts that rules depend on, when a call of the run was last judged.
    pub world: u64,
    /// Time when the next call must be judged, in ticks of the record's clock.
    pub due: u64,
    /// Number of calls of this run.
    pub count: u64,
    pub result: i32,
    /// Number of recent calls, which is halved each time that another run needs an entry.
    pub heat: u32,
    /// Stored arguments of the call that is in flight.
    pub args: [u8; 64],
}

/// The kinds and the runs of a thread, in sets: an entry may be anywhere in the set that its key chooses.
#[repr(C)]
pub struct Repeats {
    /// Number of times that an entry was replaced by another one.
    pub turn: u64,
    pub kinds: [[CallKind; WAYS]; SETS],
    pub runs: [[FailureRun; WAYS]; SETS],
}

pub const SETS: usize = 4;
pub const WAYS: usize = 4;

/// Number of threads that can remember repeated calls at once. Further threads record the stack of each call.
const MOST_THREADS: usize = 4096;

/// The data of one thread about repeated calls, and the id of that thread.
struct ThreadRepeats {
    owner: AtomicU32,
    repeats: AtomicPtr<Repeats>,
}

static ALL: [ThreadRepeats; MOST_THREADS] =
    [const { ThreadRepeats { owner: AtomicU32::new(0), repeats: AtomicPtr::new(ptr::null_mut()) } }; MOST_THREADS];

/// Returns the data of this thread about repeated calls; `None` if too many threads have such data. Contains nothing of an ended
/// thread.
pub fn of_thread(thread: *mut Thread) -> Option<&'static mut Repeats> {
    // SAFETY: only this thread and its signal handlers use the block, and what it points to is this thread's, and never unmapped.
    unsafe {
        if (*thread).repeats.is_null() {
            (*thread).repeats = signals::with_signals_blocked(take)?.cast();
        }
        Some(&mut *(*thread).repeats.cast())
    }
}

/// Takes an entry of [`ALL`] that no running thread has, for this thread.
#[cold]
#[inline(never)]
fn take() -> Option<*mut Repeats> {
    /// Largest number of entries that are checked for one whose thread ended.
    const MOST_CHECKED: usize = 16;
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static START: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: neither has preconditions.
    let (process, own) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid) as u32) };
    // SAFETY: signal 0 is sent to nobody.
    let is_gone = |tid: u32| unsafe { libc::syscall(libc::SYS_tgkill, process, tid, 0) } != 0 && errno() == libc::ESRCH;
    let count = COUNT.load(Relaxed).min(MOST_THREADS);
    let start = START.fetch_add(MOST_CHECKED, Relaxed);
    for i in 0..count.min(MOST_CHECKED) {
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
        ALL.get(COUNT.fetch_update(Relaxed, Relaxed, |count| (count < MOST_THREADS).then_some(count + 1)).ok()?)?;
    let repeats = pages::map_zeroed(size_of::<Repeats>(), 0).ok()?.cast::<Repeats>();
    place.owner.store(own, Relaxed);
    place.repeats.store(repeats, Release);
    Some(repeats)
}

/// An entry of a set, which another one may replace.
pub trait Entry {
    fn key(&self) -> u64;

    /// Halves the number of recent calls of the entry. Returns the new number.
    fn halve_heat(&mut self) -> u64;
}

impl Entry for CallKind {
    fn key(&self) -> u64 {
        self.key
    }
    fn halve_heat(&mut self) -> u64 {
        self.heat /= 2;
        self.heat
    }
}

impl Entry for FailureRun {
    fn key(&self) -> u64 {
        self.key
    }
    fn halve_heat(&mut self) -> u64 {
        self.heat /= 2;
        self.heat.into()
    }
}

/// Returns the set in which an entry with this key may be.
#[inline(always)]
pub fn set_of_key<T>(sets: &mut [[T; WAYS]; SETS], key: u64) -> &mut [T; WAYS] {
    &mut sets[key as usize % SETS]
}

/// Returns the entry with this key; `None` if there is none.
#[inline(always)]
pub fn find<T: Entry>(sets: &mut [[T; WAYS]; SETS], key: u64) -> Option<&mut T> {
    set_of_key(sets, key).iter_mut().find(|entry| entry.key() == key)
}

/// Returns the entry to replace in the set of a key: the one with the fewest recent calls. The recent calls of all entries in the
/// set are halved.
pub fn coldest<T: Entry>(sets: &mut [[T; WAYS]; SETS], key: u64) -> &mut T {
    let set = set_of_key(sets, key);
    let heats = set.each_mut().map(|entry| if entry.key() == 0 { 0 } else { 1 + entry.halve_heat() });
    let place = heats.iter().enumerate().min_by_key(|(_, heat)| **heat).map_or(0, |(place, _)| place);
    &mut set[place]
}
