//! Begins the record of this process, and a new one after a fork.
//!
//! A page that the kernel clears in a forked child holds the number of the record, its epoch. Each thread has a copy. If
//! the two differ, the thread has no window in this record yet. A child of vfork shares our memory, and counts as this
//! process.

use super::current::{BEGAN_ANEW, FILE, current, has_begun_anew};
use super::file::{File, REST};
use super::{about, early, forked, stream};
use crate::job::{directory, live, reclaim};
use crate::log::{message, status};
use crate::resolve::used;
use crate::settings;
use crate::sys::arch::thread;
use crate::sys::aside::run_blocked_with_stack;
use crate::sys::clock as system_clock;
use crate::sys::every_call::{EVERY_CALL, GIVEN_UP, NO_PAGE, recording_epoch};
use crate::sys::guard::guarded;
use crate::sys::lock::Lock;
use crate::sys::process::recording_owner_pid;
use crate::sys::{pages, signals};
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_spec::record::{BLOCK, SLOTS};

/// Returns true if the settings ask for a record, and the process has not given up its record.
pub fn may_begin() -> bool {
    settings::get().record.is_some() && recording_epoch() == 0
}

/// Time before which no attempt to begin a record is made, in nanoseconds of the monotonic clock. Set after an attempt failed for
/// a reason that may pass.
static RESTS_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Number of calls that were lost before the record began, in the low half; pid of the process that made them, in the high half.
/// Each process reports its own.
static LOST_BEFORE_RECORD: AtomicU64 = AtomicU64::new(0);

/// Counts a call that was lost because there was no record yet.
#[cold]
pub fn count_call_before_record() {
    let own = u64::from(recording_owner_pid()) << 32;
    let more = |missed| if missed & u64::from(u32::MAX) << 32 == own { missed + 1 } else { own + 1 };
    let _ = LOST_BEFORE_RECORD.fetch_update(AcqRel, Acquire, |missed| Some(more(missed)));
    // Another thread may have begun the record in the meantime.
    if let Some(file) = current() {
        add_missed(file);
    }
}

/// Adds the calls that were lost before the record began to the losses in its header.
fn add_missed(file: &File) {
    let missed = LOST_BEFORE_RECORD.swap(0, AcqRel);
    if missed >> 32 == u64::from(recording_owner_pid()) {
        file.lost_calls().fetch_add(missed & u64::from(u32::MAX), Relaxed);
    }
}

/// Held by the thread that creates the record.
static LOCK: Lock = Lock::new();

/// Returns the record of this process if its file has no name yet.
fn unnamed() -> Option<&'static File> {
    current().filter(|file| file.is_unnamed())
}

/// Gives the record of a process of a large job its name, if it has none yet. Called when the process shares something, or there
/// is a finding about it. Does nothing if the file cannot get a name.
pub fn give_record_name() {
    let _ = unnamed().map(File::give_name);
}

/// Gives the record its name as [`give_record_name`] does, before a call that shares something is recorded. If the
/// record cannot get a name, the process begins a new one, and the calls in the old one count as lost. Threads join
/// the new record as those of a forked child do. Returns false if there is no record.
#[inline]
pub fn give_name_before_call() -> bool {
    let mut has_record = true;
    if unnamed().is_some() {
        guarded(|| has_record = give_name_or_begin_new());
    }
    has_record
}

#[cold]
#[inline(never)]
fn give_name_or_begin_new() -> bool {
    let Some(old) = unnamed().filter(|file| file.give_name().is_err()) else { return join_or_begin_record() };
    let mut is_over = false;
    let is_run = run_blocked_with_stack(|| {
        LOCK.with(|| {
            is_over = unnamed().is_some_and(|file| ptr::eq(file, old));
            if is_over {
                BEGAN_ANEW.store(recording_owner_pid(), Relaxed);
                // The new record must describe the devices again, unless a parent described them.
                let _ = EVERY_CALL.described.compare_exchange(old.epoch, 0, AcqRel, Relaxed);
                // SAFETY: never unmapped.
                unsafe { (*EVERY_CALL.page.load(Acquire)).store(0, Release) };
            }
        });
    });
    let has_record = is_run && join_or_begin_record();
    if let Some(new) = current().filter(|_| is_over) {
        new.lost_calls().fetch_add(calls_in_ring(old), Relaxed);
    }
    has_record
}

/// Returns the approximate number of calls that a ring holds or has overwritten.
fn calls_in_ring(file: &File) -> u64 {
    let block = |number: u64| file.ring.wrapping_add(number as usize * BLOCK);
    // SAFETY: blocks of the ring, which is mapped for good.
    let calls = |block| unsafe { stream::count_calls_in_block(block, SLOTS) };
    let used = file.last_block().min(file.ring_blocks - 1);
    let older = file.last_block() - used;
    (1..=used).map(|number| calls(block(number))).sum::<u64>() + older * SLOTS as u64
}

/// Creates the record of this process if there is none, and joins this thread to it. Returns false without a record. Every thread
/// comes here at its first recorded call.
pub fn join_or_begin_record() -> bool {
    /// Pid of the process in which a thread waited too long for another one to create the record; 0 if none did. Its other
    /// threads do not wait.
    static WAITED: AtomicU32 = AtomicU32::new(0);
    let attempts = if WAITED.load(Relaxed) == recording_owner_pid() { 1 } else { ATTEMPTS };
    for attempt in 0..attempts {
        if recording_epoch() == GIVEN_UP {
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
        // Signals are blocked, because a handler that jumps out would leave the record half made.
        let is_run = run_blocked_with_stack(|| {
            LOCK.try_with(&mut Some(begin_or_give_up));
        });
        if !is_run {
            return continue_without(libc::ENOMEM);
        }
        if recording_epoch() == 0 {
            // Another thread is creating the record, perhaps on a slow file system.
            let pause = libc::timespec { tv_sec: 0, tv_nsec: if attempt < 100 { 0 } else { 1_000_000 } };
            // SAFETY: the time is valid, and the time that remains is not written.
            unsafe { libc::nanosleep(&pause, ptr::null_mut()) };
        }
    }
    WAITED.store(recording_owner_pid(), Relaxed);
    continue_without(libc::ETIMEDOUT)
}

/// Number of times that a thread checks if another one has created the record. Most checks are a millisecond apart, which is
/// longer in total than a working file system takes.
const ATTEMPTS: u32 = 10_000;

/// Joins this thread to the record. It gets its window with its first slot.
fn join(file: &File) {
    let thread = thread();
    // SAFETY: only this thread and its signal handlers use the block.
    signals::with_signals_blocked(|| unsafe {
        if (*thread).epoch != file.epoch {
            ((*thread).next_slot, (*thread).window_end) = (0, 0);
            ((*thread).window, (*thread).kept) = (ptr::null_mut(), 0);
            // The new record does not describe the library of the thread's last call.
            (*thread).known = (0, 0);
            // The memory of repeated calls may belong to a thread of the parent, and another thread of this process may take it
            // over.
            ((*thread).repeats, (*thread).runs) = (ptr::null_mut(), 0);
            (*thread).cells = 0;
            (*thread).epoch = file.epoch;
        }
    });
}

/// Continues without a record: until the next attempt if the reason (an errno) may pass, otherwise permanently, which includes
/// forked children.
fn continue_without(error: i32) -> bool {
    if is_temporary_error(error) {
        RESTS_UNTIL.store(system_clock::now() + REST, Relaxed);
    } else {
        // SAFETY: the page is never unmapped.
        unsafe { (*EVERY_CALL.page.load(Relaxed)).store(GIVEN_UP, Release) };
    }
    print_no_record(error);
    false
}

/// Returns true if an errno is one that may not occur at the next attempt.
fn is_temporary_error(error: i32) -> bool {
    matches!(error, libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::EAGAIN | libc::ETIMEDOUT)
}

/// Creates the page with the epoch, and the record. Gives up if either fails.
fn begin_or_give_up() {
    static EPOCHS: AtomicU64 = AtomicU64::new(0);
    if current().is_some() || recording_epoch() == GIVEN_UP {
        return;
    }
    let made = || {
        // Without this page, forked children have no record either.
        let page = epoch_page()?;
        let next = EPOCHS.fetch_add(1, Relaxed) + 1;
        let directory = directory::directory()?;
        let is_large = settings::get().record.as_ref().is_some_and(|record| record.is_large);
        let is_named = !is_large || has_begun_anew();
        let file = if is_large {
            // Reducing the recording may remove the folder while it is empty, so the folder may have to be created again.
            directory.in_folder(|folder| File::create(folder, next, is_named, early::first))?
        } else {
            File::create(&directory, next, is_named, early::first)?
        };
        // SAFETY: the header is mapped for good.
        let header = unsafe { &*file.header };
        crate::job::process::set_own_identity(header);
        live::attach(header, &directory);
        reclaim::forget_earlier_images(header);
        if !is_named {
            crate::job::process::list_in_host_folder(header, &directory);
        }
        // SAFETY: files are never freed.
        if let Some(parents) = unsafe { FILE.load(Acquire).as_ref() } {
            parents.close_inherited();
        }
        about::write_first_entries(file);
        FILE.store(ptr::from_ref(file).cast_mut(), Release);
        page.store(next, Release);
        used::share_bits_with_recording(file.called_functions());
        forked::add_fork_site(file);
        add_missed(file);
        Ok(())
    };
    if let Err(error) = made() {
        continue_without(error);
    }
}

/// Returns the page that holds the epoch, after creating it if there is none. The kernel clears this page in a forked child.
fn epoch_page() -> Result<&'static AtomicU64, i32> {
    const PAGE_SIZE: usize = 4096;
    let old = EVERY_CALL.page.load(Acquire);
    if !ptr::eq(old, &NO_PAGE) {
        // SAFETY: never unmapped.
        return Ok(unsafe { &*old });
    }
    let page = pages::map_zeroed(PAGE_SIZE, 0)?;
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

/// Prints that there is no record, and why. Prints it once for a process and its forked children.
#[cold]
#[inline(never)]
fn print_no_record(error: i32) {
    static IS_PRINTED: AtomicBool = AtomicBool::new(false);
    status::count(|status| &status.record_lost);
    if !is_temporary_error(error) {
        status::count(|status| &status.unrecorded);
    }
    if IS_PRINTED.swap(true, Relaxed) {
        return;
    }
    let reason = message::ErrnoText(error);
    let directory = settings::get().record.as_ref().map_or(&b""[..], |record| record.directory.to_bytes());
    let until = if is_temporary_error(error) { " until that is over" } else { "" };
    message::print_line(format_args!(
        "cannot record into {}: {reason}; this process goes on without a recording{until}",
        message::LossyText(directory)
    ));
}
