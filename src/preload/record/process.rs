//! This process and its record: whether there is one, and a new one after a fork.
//!
//! A page that the kernel clears in a forked child holds the number of the record, its epoch. Each thread has a
//! copy; where both differ, the thread has no window in this record yet. A child of vfork shares our memory, and
//! counts as us.

use super::aside::aside;
use super::file::File;
use super::{about, environment, live, place};
use crate::arch::thread;
use crate::every_call::{EVERY_CALL, NO_PAGE};
use crate::{life, message, settings, status};
use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_spec::record::meta::RANKS;

/// The record of this process, or of the one that it was forked from.
static FILE: AtomicPtr<File> = AtomicPtr::new(ptr::null_mut());

/// The epoch of a process that has given its record up: not that of any thread.
const NONE: u64 = u64::MAX;

/// The number of this process's record; 0 where there is none yet.
#[inline(always)]
pub fn epoch() -> u64 {
    // SAFETY: the page is never unmapped.
    unsafe { (*EVERY_CALL.page.load(Relaxed)).load(Relaxed) }
}

/// The record, where this process has one.
pub fn current() -> Option<&'static File> {
    match epoch() {
        0 | NONE => None,
        // SAFETY: files are never freed.
        _ => unsafe { FILE.load(Acquire).as_ref() },
    }
}

/// Makes the record of this process where there is none, and says whether there is one now. Every thread comes here
/// at its first call.
pub fn attach() -> bool {
    /// The process that is at it.
    static BUSY: AtomicU32 = AtomicU32::new(0);
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() } as u32;
    for attempt in 0..ATTEMPTS {
        if epoch() == NONE {
            return false;
        }
        if let Some(file) = current() {
            join(file);
            return true;
        }
        if is_child_of_vfork() {
            return false;
        }
        // Where no handler can interrupt it: one that jumps out of it would leave it half made.
        let is_run = aside(|| {
            let busy = BUSY.load(Acquire);
            if busy != pid && BUSY.compare_exchange(busy, pid, AcqRel, Acquire).is_ok() {
                make();
                BUSY.store(0, Release);
            }
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
    without(libc::ETIMEDOUT)
}

/// So often a thread looks whether another one has made the record, a millisecond each: longer than a file system
/// takes that works.
const ATTEMPTS: u32 = 10_000;

/// Makes a thread one of the record's. It has no window yet: the first slot will be asked for.
fn join(file: &File) {
    let thread = thread();
    // SAFETY: the block is this thread's alone.
    unsafe {
        if (*thread).epoch != file.epoch {
            ((*thread).next_slot, (*thread).window_end) = (0, 0);
            (*thread).window = ptr::null_mut();
            (*thread).epoch = file.epoch;
        }
    }
}

/// This process and what it forks go on without a record.
fn without(error: i32) -> bool {
    // SAFETY: the page is never unmapped.
    unsafe { (*EVERY_CALL.page.load(Relaxed)).store(NONE, Release) };
    give_up(error);
    false
}

/// Whether our memory is our parent's. A record that such a child made would be the parent's afterwards, under a
/// wrong name. Where the system does not tell, the answer is no.
fn is_child_of_vfork() -> bool {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: asks the kernel to compare two processes; no memory is involved.
    unsafe { libc::syscall(libc::SYS_kcmp, libc::getpid(), libc::getppid(), KCMP_VM, 0, 0) == 0 }
}

/// Makes the page and the record, or gives the record up.
fn make() {
    static EPOCHS: AtomicU64 = AtomicU64::new(0);
    if current().is_some() || epoch() == NONE {
        return;
    }
    let Some(page) = page() else {
        // Children have it from here, and go without as well.
        NO_PAGE.store(NONE, Release);
        return give_up(libc::ENOSYS);
    };
    // SAFETY: files are never freed.
    let parents = unsafe { FILE.load(Acquire).as_ref() };
    let next = EPOCHS.fetch_add(1, Relaxed) + 1;
    let made = place::directory().and_then(|directory| {
        let file = File::create(&directory, next)?;
        live::attach(file, &directory);
        Ok(file)
    });
    match made {
        Ok(file) => {
            if let Some(parents) = parents {
                parents.leave_to_parent();
            }
            about::begin(file);
            introduce();
            FILE.store(ptr::from_ref(file).cast_mut(), Release);
            page.store(next, Release);
        }
        Err(error) => {
            page.store(NONE, Release);
            give_up(error);
        }
    }
}

/// The rank of this process, and what tells this program of it from later ones: for the live table.
static RANK: AtomicU32 = AtomicU32::new(u32::MAX);
static STACK: AtomicU32 = AtomicU32::new(0);

/// The rank of this process; `u32::MAX` where no launcher gave it one.
pub fn rank() -> u32 {
    RANK.load(Relaxed)
}

/// Where the stack of this program began, as [`life::look`] sees it of others.
pub fn stack() -> u32 {
    STACK.load(Relaxed)
}

/// Looks at what others shall know of this process.
fn introduce() {
    let mut best = usize::MAX;
    environment::each(|variable| {
        let mut parts = variable.splitn(2, |byte| *byte == b'=');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else { return };
        let place = RANKS.iter().position(|known| known.as_bytes() == name).unwrap_or(best);
        if place < best {
            best = place;
            let rank = core::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            RANK.store(rank.unwrap_or(u32::MAX), Relaxed);
        }
    });
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() } as u32;
    STACK.store(life::look(pid).map_or(0, |seen| seen.stack), Relaxed);
}

/// The page, which is made once: a child inherits it, cleared.
fn page() -> Option<&'static AtomicU64> {
    const PAGE_SIZE: usize = 4096;
    let old = EVERY_CALL.page.load(Acquire);
    if !ptr::eq(old, &NO_PAGE) {
        // SAFETY: never unmapped.
        return Some(unsafe { &*old });
    }
    // SAFETY: maps new memory, and asks the kernel to clear it in children.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(ptr::null_mut(), PAGE_SIZE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if page == libc::MAP_FAILED || libc::madvise(page, PAGE_SIZE, libc::MADV_WIPEONFORK) != 0 {
            return None;
        }
        EVERY_CALL.page.store(page.cast(), Release);
        Some(&*page.cast())
    }
}

/// Says that there is no record, once in a process and what it forks.
#[cold]
#[inline(never)]
fn give_up(error: i32) {
    static SAID: AtomicBool = AtomicBool::new(false);
    status::record_lost();
    if SAID.swap(true, Relaxed) {
        return;
    }
    let mut reason = [0u8; 128];
    // SAFETY: writes at most that many bytes, with a NUL.
    unsafe { libc::strerror_r(error, reason.as_mut_ptr().cast(), reason.len()) };
    let reason = CStr::from_bytes_until_nul(&reason).unwrap_or_default().to_str().unwrap_or_default();
    let directory = settings::get().record.as_ref().map(|record| record.directory.to_string_lossy());
    message::line(format_args!(
        "cannot record into {}: {reason}; this process goes on without a record",
        directory.unwrap_or_default()
    ));
}
