//! The page that `cupeer run` shares with the processes that it started: how it learns, without a record,
//! whether any of them reached the driver.
//!
//! The launcher creates the page and names it in [`crate::env::STATUS`]; a process opens it when it first
//! meets a driver, counts itself, and closes it. Both sides use it through a shared mapping.

use core::sync::atomic::AtomicU32;

/// What the first word holds.
pub const MAGIC: u32 = 0x6375_7031;

/// The page.
#[repr(C)]
pub struct Status {
    /// [`MAGIC`], written by the launcher.
    pub magic: AtomicU32,
    /// Processes that met a driver under cupeer.
    pub reached: AtomicU32,
    /// Libraries whose calls went past cupeer, counted once a process.
    pub escaped: AtomicU32,
    /// Processes that had to give up their log.
    pub log_lost: AtomicU32,
    /// Processes that lost their record, or a part of it.
    pub record_lost: AtomicU32,
    /// Findings that are warnings or errors.
    pub findings: AtomicU32,
}
