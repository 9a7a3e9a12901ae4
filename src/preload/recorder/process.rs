//! Tracks whether this process has a record, and starts a new one after a fork.
//!
//! A page that the kernel clears in a forked child holds the number of the record, its epoch. Each thread has a copy;
//! if the two differ, the thread has no window in this record yet. A child of vfork shares our memory, and counts as
//! this process.

use super::current::{BEGAN_ANEW, FILE, current, has_begun_anew};
use super::file::{File, REST};
use super::{about, early, forked, stream};
use crate::job::{directory, live, reclaim};
use crate::log::{message, status};
use crate::resolve::used;
use crate::settings;
use crate::sys::arch::thread;
use crate::sys::aside::aside;
use crate::sys::clock as system_clock;
use crate::sys::every_call::{EVERY_CALL, GIVEN_UP, NO_PAGE, epoch};
use crate::sys::guard::guarded;
use crate::sys::lock::Lock;
use crate::sys::process::owner;
use crate::sys::{pages, signals};
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_spec::record::{BLOCK, SLOTS};

/// Whether a record is asked for and may still begin.
pub fn may_begin() -> bool {
    settings::get().record.is_some() && epoch() == 0
}

/// When the next attempt is due to make a record after one has failed for want of something that may come back, on the
/// monotonic clock.
static RESTS_UNTIL: AtomicU64 = AtomicU64::new(0);

/// How many calls were lost meanwhile, and above the pid of whose calls these are: what a parent has lost, the parent says.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// Counts a call for which there was no record yet.
#[cold]
pub fn miss() {
    let own = u64::from(owner()) << 32;
    let more = |missed| if missed & u64::from(u32::MAX) << 32 == own { missed + 1 } else { own + 1 };
    let _ = MISSED.fetch_update(AcqRel, Acquire, |missed| Some(more(missed)));
    // Made in this moment.
    if let Some(file) = current() {
        tell_missed(file);
    }
}

/// Tells the record of this process what was lost before it was there.
fn tell_missed(file: &File) {
    let missed = MISSED.swap(0, AcqRel);
    if missed >> 32 == u64::from(owner()) {
        file.lose(missed & u64::from(u32::MAX));
    }
}

/// Held by who makes the record.
static LOCK: Lock = Lock::new();

/// The record, where it has no name yet.
fn unnamed() -> Option<&'static File> {
    current().filter(|file| file.is_unnamed())
}

/// Gives the record its name, where it has none yet and can get one. For what is found after a call that is in it.
pub fn show() {
    let _ = unnamed().map(File::name);
}

/// The same before a call is recorded that shares something, by a thread of the record. Where it cannot get one, the process
/// has a new record from here on, and what was in the old one counts as lost: threads take to it as those of a child do to
/// theirs. Says whether there is a record.
#[inline]
pub fn show_before_call() -> bool {
    let mut has = true;
    if unnamed().is_some() {
        guarded(|| has = show_or_begin_anew());
    }
    has
}

#[cold]
#[inline(never)]
fn show_or_begin_anew() -> bool {
    let Some(old) = unnamed().filter(|file| file.name().is_err()) else { return attach() };
    let mut is_over = false;
    let is_run = aside(|| {
        LOCK.with(|| {
            is_over = unnamed().is_some_and(|file| ptr::eq(file, old));
            if is_over {
                BEGAN_ANEW.store(owner(), Relaxed);
                // Its devices are to be described once more; those that a parent has described stay its parent's.
                let _ = EVERY_CALL.described.compare_exchange(old.epoch, 0, AcqRel, Relaxed);
                // SAFETY: never unmapped.
                unsafe { (*EVERY_CALL.page.load(Acquire)).store(0, Release) };
            }
        });
    });
    let has = is_run && attach();
    if is_over {
        current().into_iter().for_each(|new| new.lose(calls_in_ring(old)));
    }
    has
}

/// How many calls a ring holds, and has held.
fn calls_in_ring(file: &File) -> u64 {
    let block = |number: u64| file.ring.wrapping_add(number as usize * BLOCK);
    // SAFETY: blocks of the ring, which is mapped for good.
    let calls = |block| unsafe { stream::calls(block, SLOTS) };
    let used = file.last_block().min(file.ring_blocks - 1);
    let older = file.last_block() - used;
    (1..=used).map(|number| calls(block(number))).sum::<u64>() + older * SLOTS as u64
}

/// Makes the record of this process where there is none, and says whether there is one now. Every thread comes here
/// at its first call.
pub fn attach() -> bool {
    /// The process one of whose threads has waited in vain, by its pid: no other one does.
    static WAITED: AtomicU32 = AtomicU32::new(0);
    let attempts = if WAITED.load(Relaxed) == owner() { 1 } else { ATTEMPTS };
    for attempt in 0..attempts {
        if epoch() == GIVEN_UP {
            return false;
        }
        if let Some(file) = current() {
            join(file);
            early::flush();
            return true;
        }
        if system_clock::now() < RESTS_UNTIL.load(Relaxed) {
            return false;
        }
        // Where no handler can interrupt it: one that jumps out of it would leave it half made.
        let is_run = aside(|| {
            LOCK.try_with(&mut Some(make));
        });
        if !is_run {
            return without(libc::ENOMEM);
        }
        if epoch() == 0 {
            // Another thread is at it, perhaps on a slow file system.
            let pause = libc::timespec { tv_sec: 0, tv_nsec: if attempt < 100 { 0 } else { 1_000_000 } };
            // SAFETY: the time is valid, and nobody asks how much of it was left.
            unsafe { libc::nanosleep(&pause, ptr::null_mut()) };
        }
    }
    WAITED.store(owner(), Relaxed);
    without(libc::ETIMEDOUT)
}

/// So often a thread looks whether another one has made the record, a millisecond each: longer than a file system
/// takes that works.
const ATTEMPTS: u32 = 10_000;

/// Makes a thread one of the record's. It has no window yet: the first slot will be asked for.
fn join(file: &File) {
    let thread = thread();
    // SAFETY: only this thread and its signal handlers use the block.
    signals::held_back(|| unsafe {
        if (*thread).epoch != file.epoch {
            ((*thread).next_slot, (*thread).window_end) = (0, 0);
            ((*thread).window, (*thread).kept) = (ptr::null_mut(), 0);
            // Nor does the record know the library of its last call.
            (*thread).known = (0, 0);
            // What it remembers may be taken by another thread of this process: its owner is one of the parent's.
            ((*thread).repeats, (*thread).runs) = (ptr::null_mut(), 0);
            (*thread).cells = 0;
            (*thread).epoch = file.epoch;
        }
    });
}

/// This process goes on without a record: for good, as do those that it forks, or until there is again what it lacks.
fn without(error: i32) -> bool {
    if is_passing(error) {
        RESTS_UNTIL.store(system_clock::now() + REST, Relaxed);
    } else {
        // SAFETY: the page is never unmapped.
        unsafe { (*EVERY_CALL.page.load(Relaxed)).store(GIVEN_UP, Release) };
    }
    give_up(error);
    false
}

/// Whether what is lacking may be there a moment later.
fn is_passing(error: i32) -> bool {
    matches!(error, libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::EAGAIN | libc::ETIMEDOUT)
}

/// Makes the page and the record, or gives the record up.
fn make() {
    static EPOCHS: AtomicU64 = AtomicU64::new(0);
    if current().is_some() || epoch() == GIVEN_UP {
        return;
    }
    let made = || {
        // Where there is no page, children go without as well.
        let page = page()?;
        let next = EPOCHS.fetch_add(1, Relaxed) + 1;
        let directory = directory::directory()?;
        let is_large = settings::get().record.as_ref().is_some_and(|record| record.is_large);
        let is_named = !is_large || has_begun_anew();
        let file = if is_large {
            // Who reduces the record takes an empty folder away.
            directory.in_folder(|folder| File::create(folder, next, is_named, early::first))?
        } else {
            File::create(&directory, next, is_named, early::first)?
        };
        // SAFETY: the header is mapped for good.
        let header = unsafe { &*file.header };
        crate::job::process::introduce(header);
        live::attach(header, &directory);
        reclaim::forget_earlier_images(header);
        if !is_named {
            crate::job::process::announce(header, &directory);
        }
        // SAFETY: files are never freed.
        if let Some(parents) = unsafe { FILE.load(Acquire).as_ref() } {
            parents.leave_to_parent();
        }
        about::begin(file);
        FILE.store(ptr::from_ref(file).cast_mut(), Release);
        page.store(next, Release);
        used::note_in(file.called());
        forked::describe(file);
        tell_missed(file);
        Ok(())
    };
    if let Err(error) = made() {
        without(error);
    }
}

/// The page, which is made once: a child inherits it, cleared.
fn page() -> Result<&'static AtomicU64, i32> {
    const PAGE_SIZE: usize = 4096;
    let old = EVERY_CALL.page.load(Acquire);
    if !ptr::eq(old, &NO_PAGE) {
        // SAFETY: never unmapped.
        return Ok(unsafe { &*old });
    }
    let page = pages::new(PAGE_SIZE, 0)?;
    // SAFETY: mapped above; asks the kernel to clear it in children.
    unsafe {
        if libc::madvise(page.cast(), PAGE_SIZE, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page.cast(), PAGE_SIZE);
            return Err(libc::ENOSYS);
        }
        EVERY_CALL.page.store(page.cast(), Release);
        Ok(&*page.cast())
    }
}

/// Says that there is no record, once in a process and what it forks.
#[cold]
#[inline(never)]
fn give_up(error: i32) {
    static SAID: AtomicBool = AtomicBool::new(false);
    status::record_lost();
    if !is_passing(error) {
        status::unrecorded();
    }
    if SAID.swap(true, Relaxed) {
        return;
    }
    let reason = message::Reason(error);
    let directory = settings::get().record.as_ref().map_or(&b""[..], |record| record.directory.to_bytes());
    let until = if is_passing(error) { " until that is over" } else { "" };
    message::line(format_args!(
        "cannot record into {}: {reason}; this process goes on without a recording{until}",
        message::Text(directory)
    ));
}
