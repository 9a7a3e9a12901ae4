//! The page that `cupeer run` shares with the processes that it started: how it learns, without a record,
//! whether any of them reached the driver.
//!
//! The launcher creates the page and names it in [`crate::env::STATUS`]; a process opens it when it first
//! meets a driver, counts itself, and closes it. Both sides use it through a shared mapping. Behind the page is the room of
//! the simulated devices, which only the simulated driver uses.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// The name that /proc shows of the file, which is a memory file.
pub const FILE: &CStr = c"cupeer-status";
/// Where the room of the simulated devices begins in the file, behind the page, however long that is.
pub const ROOM: u64 = (size_of::<Status>() as u64).next_multiple_of(1 << 16);
/// The bytes of the file.
pub const BYTES: u64 = ROOM + (1 << 18);

/// What the first word holds.
pub const MAGIC: u32 = 0x6375_7035;

/// The page.
#[repr(C)]
pub struct Status {
    /// [`MAGIC`], written by the launcher.
    pub magic: AtomicU32,
    /// Processes that met a driver under cupeer.
    pub reached: AtomicU32,
    /// Libraries whose calls escaped cupeer, counted once a process.
    pub escaped: AtomicU32,
    /// Processes that had to give up their log.
    pub log_lost: AtomicU32,
    /// Processes that lost their record, or a part of it.
    pub record_lost: AtomicU32,
    /// Those of them that have no record at all.
    pub unrecorded: AtomicU32,
    /// Findings that are warnings or errors.
    pub findings: AtomicU32,
    /// Processes that had a driver of which no watched call was seen.
    pub unseen: AtomicU32,
    /// Whether the CUDA runtime asked the simulated driver for functions that have no names, and was refused.
    pub nameless: AtomicU32,
    /// Processes that began without our library in LD_PRELOAD, although it is in them: what they start is without it.
    pub dropped: AtomicU32,
    /// The process that the launcher started, set between fork and exec.
    pub launched: AtomicU32,
    /// How many programs this has been with our library in it.
    pub loaded: AtomicU32,
    /// Whether the last of them came to its end there: 0, [`ENDED`], or [`EXECUTES`].
    pub ended: AtomicU32,
    /// The name by which the kernel started that.
    pub image: [AtomicU8; NAME],
    /// The name of the last process that is counted as `dropped`.
    pub dropper: [AtomicU8; NAME],
    /// What processes have said in a line, each as a hash: the same of the next rank is not said again. 0 for none.
    pub said: [AtomicU64; SAID],
    /// Calls that failed for want of memory, and were recorded with what was left; each rings the bell.
    pub exhausted: AtomicU32,
    /// A futex on which the launcher waits.
    pub bell: AtomicU32,
}

/// The program came to its end.
pub const ENDED: u32 = 1;
/// It was about to become another program, which has not begun with our library.
pub const EXECUTES: u32 = 2;

/// How many different lines are told apart; what finds no place is said again.
pub const SAID: usize = 256;

/// As long as a name of the kernel for a process, with its NUL.
pub const NAME: usize = 16;
