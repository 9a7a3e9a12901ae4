//! What fault plans have done: counted by all processes of a job on one host, and so known also of those that were
//! killed.
//!
//! A file `faults-BOOT-PLAN` in the job's directory, mapped shared: BOOT are the first eight digits of the boot id, PLAN
//! eight digits of the hash of the plan's text. First the [`Header`], then from [`TEXT`] on the plan's text, a line a
//! rule: its name, a space, the rule; then from [`Header::counters`] on a [`Counter`] for each rule; then from
//! [`Header::scopes`] on [`Header::scope_count`] times a [`Scope`], a hash table.
//!
//! Nothing is locked. A process may die at any instruction: each number is changed by itself.

use super::live::mix;
use core::sync::atomic::AtomicU64;

/// A file of this name in the directory, with a label behind it, releases what hangs under that label.
pub const RELEASE: &str = "release-";

/// What the file begins with.
pub const MAGIC: [u8; 8] = *b"cupeer\0F";
/// The version of the format.
pub const VERSION: u32 = 1;
/// The name of the file begins with this.
pub const PREFIX: &str = "faults-";
/// Where the text begins.
pub const TEXT: usize = 4096;
/// Where the fingerprints of damaged handles stand in the header's page: [`DAMAGED_COUNT`] of them, 0 for none.
pub const DAMAGED: usize = 2048;
/// See [`DAMAGED`].
pub const DAMAGED_COUNT: usize = 256;
/// The scopes of a file.
pub const SCOPES: usize = 4096;

/// The start of the file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// [`MAGIC`]. Written last.
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// How many rules there are.
    pub rules: u32,
    /// The boot id of the host.
    pub boot_id: [u8; 16],
    /// The bytes of the text.
    pub text: u32,
    /// Where the counters begin.
    pub counters: u32,
    /// Where the scopes begin.
    pub scopes: u32,
    /// How many there are.
    pub scope_count: u32,
    /// How many processes have counted themselves: the number of the next one, less 1. Atomic.
    pub processes: u64,
    /// Damaged handles whose fingerprints had no room. Atomic.
    pub damaged_more: u64,
}

/// What is counted of a rule.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Counter {
    /// Calls that met its conditions.
    pub matched: AtomicU64,
    /// Those at which it fired; of a plan that is only tried, would have.
    pub fired: AtomicU64,
}

/// The count of one rule and function for whatever counts by itself.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Scope {
    /// [`scope_key`]; 0 where nobody has taken it.
    pub key: AtomicU64,
    /// Calls that met the conditions.
    pub count: AtomicU64,
    /// Those at which the rule fired.
    pub fired: AtomicU64,
    /// 0.
    pub reserved: AtomicU64,
}

/// The key of a scope: of a rule, a function (`u32::MAX` for all together), and a rank, thread or context. Never 0.
pub fn scope_key(rule: u32, function: u32, whose: u64) -> u64 {
    mix(mix(u64::from(rule) << 32 | u64::from(function)) ^ whose.wrapping_add(0x9e37_79b9_7f4a_7c15)).max(1)
}

const _: () = assert!(size_of::<Header>() <= DAMAGED && DAMAGED + 8 * DAMAGED_COUNT <= TEXT);
