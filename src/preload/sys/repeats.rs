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
    /// A hash of what they have in common; 0 where there is none.
    pub key: u64,
    /// What tells the part of the record to which the last stack was written, and its height.
    pub part: u64,
    /// How many there were.
    pub count: u64,
    /// How often it was met, halved each time that another one needed room.
    pub heat: u64,
}

/// Calls that fail in the same way, which are one event of the record.
#[repr(C)]
pub struct Run {
    /// A hash of what they have in common; 0 where there is none.
    pub key: u64,
    /// Where their event lies, once they have one, and its number.
    pub place: usize,
    pub number: u64,
    /// The record that it lies in.
    pub epoch: u64,
    /// What was known of the world when one of them was last judged.
    pub world: u64,
    /// When one is to be judged again, on the clock of the record.
    pub due: u64,
    /// How many there were.
    pub count: u64,
    pub result: i32,
    /// How often it was met, as above.
    pub heat: u32,
    /// The arguments of the one that is in flight.
    pub args: [u8; 64],
}

/// Both, of a thread: in sets, in each of which anything with the same low bits of its hash may stand.
#[repr(C)]
pub struct Repeats {
    /// How often an entry was replaced.
    pub turn: u64,
    pub kinds: [[Kind; WAYS]; SETS],
    pub runs: [[Run; WAYS]; SETS],
}

pub const SETS: usize = 4;
pub const WAYS: usize = 4;

/// The most threads that remember at once; others do without.
const THREADS: usize = 4096;

/// What a thread has, and the thread's number.
struct Shelf {
    owner: AtomicU32,
    repeats: AtomicPtr<Repeats>,
}

static SHELVES: [Shelf; THREADS] =
    [const { Shelf { owner: AtomicU32::new(0), repeats: AtomicPtr::new(ptr::null_mut()) } }; THREADS];

/// What this thread has; `None` where there is no more for anybody. Nothing of a thread that is gone is left in it.
pub fn of(thread: *mut Thread) -> Option<&'static mut Repeats> {
    // SAFETY: only this thread and its signal handlers use the block, and what it points to is this thread's, and never unmapped.
    unsafe {
        if (*thread).repeats.is_null() {
            (*thread).repeats = signals::held_back(take)?.cast();
        }
        Some(&mut *(*thread).repeats.cast())
    }
}

/// Takes what nobody has, or who has it is gone.
#[cold]
#[inline(never)]
fn take() -> Option<*mut Repeats> {
    /// How many are looked at for one whose thread is gone.
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
        let shelf = &SHELVES[start.wrapping_add(i) % count];
        let (old, repeats) = (shelf.owner.load(Relaxed), shelf.repeats.load(Acquire));
        let is_free = !repeats.is_null() && is_gone(old);
        if is_free && shelf.owner.compare_exchange(old, own, AcqRel, Relaxed).is_ok() {
            // SAFETY: taken above; all zero is one.
            unsafe { ptr::write_bytes(repeats, 0, 1) };
            return Some(repeats);
        }
    }
    let shelf = SHELVES
        .get(COUNT.fetch_update(Relaxed, Relaxed, |count| (count < THREADS).then_some(count + 1)).ok()?)?;
    let repeats = pages::new(size_of::<Repeats>(), 0).ok()?.cast::<Repeats>();
    shelf.owner.store(own, Relaxed);
    shelf.repeats.store(repeats, Release);
    Some(repeats)
}

/// What has room where something else may stand.
pub trait Entry {
    fn key(&self) -> u64;

    /// Halves how often it was met, and gives that.
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

/// The set of a hash.
#[inline(always)]
pub fn set<T>(sets: &mut [[T; WAYS]; SETS], key: u64) -> &mut [T; WAYS] {
    &mut sets[key as usize % SETS]
}

/// The entry of a hash.
#[inline(always)]
pub fn find<T: Entry>(sets: &mut [[T; WAYS]; SETS], key: u64) -> Option<&mut T> {
    set(sets, key).iter_mut().find(|entry| entry.key() == key)
}

/// The one in its set to give up for another: what stays hot is kept, and what was once hot is not for ever.
pub fn coldest<T: Entry>(sets: &mut [[T; WAYS]; SETS], key: u64) -> &mut T {
    let set = set(sets, key);
    let heats = set.each_mut().map(|entry| if entry.key() == 0 { 0 } else { 1 + entry.cool() });
    let place = heats.iter().enumerate().min_by_key(|(_, heat)| **heat).map_or(0, |(place, _)| place);
    &mut set[place]
}
