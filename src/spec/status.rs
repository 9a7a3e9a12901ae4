//! The status page, which `cupeer run` shares with the processes that it started. It shows whether any of
//! them reached the driver, even without a recording.
//!
//! The launcher creates the page and names it in [`crate::env::STATUS`]. A process opens it when it first
//! meets a driver, counts itself, and closes it. Both sides use a shared mapping. The memory of the simulated
//! devices, which only the simulated driver uses, follows the page.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Name of the page in /proc. The page is a memory file.
pub const FILE: &CStr = c"cupeer-status";
/// Offset in the file of the simulated devices' memory, behind the page.
pub const ROOM: u64 = (size_of::<Status>() as u64).next_multiple_of(1 << 16);
/// Size of the file in bytes.
pub const BYTES: u64 = ROOM + (1 << 18);

/// Value of [`Status::magic`].
pub const MAGIC: u32 = 0x6375_7035;

/// Status page.
#[repr(C)]
pub struct Status {
    /// [`MAGIC`], written by the launcher.
    pub magic: AtomicU32,
    /// Number of processes that reached a driver under cupeer.
    pub reached: AtomicU32,
    /// Number of libraries whose calls bypassed cupeer, counted once per process.
    pub escaped: AtomicU32,
    /// Number of processes that lost their log.
    pub log_lost: AtomicU32,
    /// Number of processes that lost their recording, or a part of it.
    pub record_lost: AtomicU32,
    /// Number of processes without any recording, among those in `record_lost`.
    pub unrecorded: AtomicU32,
    /// Number of findings that are warnings or errors.
    pub findings: AtomicU32,
    /// Number of processes with a driver and without any observed call.
    pub unseen: AtomicU32,
    /// Nonzero if the CUDA runtime requested unnamed functions of the simulated driver, which it does not
    /// have.
    pub nameless: AtomicU32,
    /// Number of processes that began without the library in LD_PRELOAD, although it is loaded: programs that
    /// they start lack it.
    pub dropped: AtomicU32,
    /// Pid of the process that the launcher started, set between fork and exec.
    pub launched: AtomicU32,
    /// Number of programs that the process in `launched` executed with the library loaded.
    pub loaded: AtomicU32,
    /// End of the last program that the process in `launched` executed: 0 if it has not ended, [`ENDED`], or
    /// [`EXECUTES`].
    pub ended: AtomicU32,
    /// Name by which the kernel started the last program that the process in `launched` executed.
    pub image: [AtomicU8; NAME],
    /// Name of the last process that was counted in `dropped`.
    pub dropper: [AtomicU8; NAME],
    /// Hashes of the lines that processes printed, so that no other rank prints the same line. 0 marks a free place.
    pub printed_hashes: [AtomicU64; SAID],
    /// Number of calls that failed for lack of memory, and were recorded with the memory that was left. Each
    /// of them wakes the launcher.
    pub exhausted: AtomicU32,
    /// Futex on which the launcher waits.
    pub bell: AtomicU32,
}

/// The program ended.
pub const ENDED: u32 = 1;
/// The program was about to execute another one, which did not start with the library.
pub const EXECUTES: u32 = 2;

/// Number of printed lines that are remembered. Later lines are printed by each process.
pub const SAID: usize = 256;

/// Length of the kernel's name for a process, including its NUL.
pub const NAME: usize = 16;
