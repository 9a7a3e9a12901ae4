//! Counters of fault plans. All processes of a job on one host share them, so the counts of killed processes
//! are kept.
//!
//! The counters are a file `faults-BOOT-PLAN` in the job's directory, mapped shared. BOOT is the first eight
//! digits of the boot id. PLAN is eight digits of the hash of the plan's text, or `planN` for the N-th plan
//! that was armed while the job was running (`armed`). The file contains:
//!
//! - the [`Header`]
//! - from [`TEXT`] on, the plan's text, one line per rule: its name, a space, and the rule
//! - from [`Header::counters`] on, a [`FaultCounter`] per rule
//! - from [`Header::scopes`] on, a hash table of [`Header::scope_count`] times a [`ScopeCounter`]
//!
//! There are no locks. A process may die at any instruction, so each number is changed independently.

use super::live::mix_bits;
use core::fmt;
use core::sync::atomic::AtomicU64;

/// Prefix of a file in the directory that releases calls that hang under a label. The label follows.
pub const RELEASE: &str = "release-";

/// First bytes of the file.
pub const MAGIC: [u8; 8] = *b"cupeer\0F";
/// The version of the format.
pub const VERSION: u32 = 1;
/// Prefix of the file's name.
pub const PREFIX: &str = "faults-";
/// Offset of the plan's text in the file.
pub const TEXT: usize = 4096;
/// Offset in the file of the fingerprints of damaged handles. There are [`DAMAGED_COUNT`] of them, and 0
/// marks an unused one.
pub const DAMAGED: usize = 2048;
/// Number of fingerprints at [`DAMAGED`].
pub const DAMAGED_COUNT: usize = 256;
/// Largest number of bytes in the text of a plan that was armed while the job was running.
pub const LONGEST: usize = 1 << 20;
/// Number of scopes in a file.
pub const SCOPES: usize = 4096;

/// The name of the file of a plan that was armed while the job was running.
pub struct PlanFileName {
    /// Boot id of the host.
    pub boot_id: [u8; 16],
    /// Number of the plan.
    pub number: u64,
}

impl fmt::Display for PlanFileName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{PREFIX}{}-plan{}", BootIdPrefix(self.boot_id), self.number)
    }
}

/// Boot id, printed as its first eight digits.
pub struct BootIdPrefix(pub [u8; 16]);

impl fmt::Display for BootIdPrefix {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The start of the file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Header {
    /// Bytes [`MAGIC`]. They are written last.
    pub magic: [u8; 8],
    /// Version of the format: [`VERSION`].
    pub version: u32,
    /// Number of faults in the plan.
    pub rules: u32,
    /// Boot id of the host.
    pub boot_id: [u8; 16],
    /// Number of bytes of the plan's text.
    pub text: u32,
    /// Offset of the counters.
    pub counters: u32,
    /// Offset of the scopes.
    pub scopes: u32,
    /// Number of scopes.
    pub scope_count: u32,
    /// Number of processes that registered. The next process gets this number plus 1. Changed atomically.
    pub processes: u64,
    /// Number of damaged handles whose fingerprints did not fit. Atomic.
    pub damaged_more: u64,
    /// Number of a plan that was armed while the job was running; 0 for the plan in the environment.
    pub number: u64,
    /// Time at which the plan was armed, in nanoseconds of CLOCK_REALTIME.
    pub armed: u64,
    /// Time at which the plan was disarmed; 0 while it is armed. Atomic.
    pub disarmed: u64,
    /// Pid of the process that armed the plan for itself and its descendants. This field and the next two are
    /// zeros for a plan of `cupeer fault`, which is for all processes that accept it.
    pub root_pid: u32,
    /// Unused; 0.
    pub reserved: u32,
    /// Pid namespace of the process that armed the plan.
    pub root_pid_ns: u64,
    /// Start time of the process that armed the plan, in ticks since boot.
    pub root_started: u64,
}

impl Header {
    /// Returns the process that armed the plan for itself and its descendants: pid, pid namespace, and start.
    /// `None` for other plans.
    pub fn arming_process(&self) -> Option<(u32, u64, u64)> {
        (self.root_pid != 0).then_some((self.root_pid, self.root_pid_ns, self.root_started))
    }
}

/// Returns true if the text, counters, and scopes that a header names are within a file of this size, and aligned.
pub fn is_header_within(header: &Header, size: usize) -> bool {
    let fits = |at: u32, count: u32, each: usize| {
        let (at, count) = (at as usize, count as usize);
        at >= TEXT
            && at.is_multiple_of(8)
            && count.checked_mul(each).is_some_and(|bytes| bytes <= size.saturating_sub(at))
    };
    header.magic == MAGIC
        && header.version == VERSION
        && header.text as usize <= size.saturating_sub(TEXT)
        && header.text as usize <= LONGEST
        && header.scope_count as usize <= SCOPES
        && fits(header.counters, header.rules, size_of::<FaultCounter>())
        && (header.scope_count == 0 || fits(header.scopes, header.scope_count, size_of::<ScopeCounter>()))
}

/// Returns the text of a file: a line per fault, with its name and its text.
pub fn format_plan_lines<'a>(rules: impl Iterator<Item = (&'a str, String)>) -> String {
    rules.map(|(name, text)| format!("{name} {text}\n")).collect()
}

/// Returns the plan in the text of a file, without the name before each line. Returns `None` if the text has another
/// form.
pub fn plan_without_names(text: &[u8]) -> Option<String> {
    let text = core::str::from_utf8(text).ok()?;
    let rules = text.lines().map(|line| Some(line.split_once(' ')?.1.to_owned() + "\n"));
    rules.collect()
}

/// Counts of one fault.
#[repr(C)]
#[derive(Debug, Default)]
pub struct FaultCounter {
    /// Number of calls that met the fault's conditions.
    pub matched: AtomicU64,
    /// Number of calls at which the fault fired. In a dry run, number of calls at which it would have fired.
    pub fired: AtomicU64,
}

/// Count of one fault and one function in one scope.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ScopeCounter {
    /// Key of the scope: [`scope_key`]. 0 if this place is free.
    pub key: AtomicU64,
    /// Number of calls that met the conditions.
    pub count: AtomicU64,
    /// Number of calls at which the fault fired.
    pub fired: AtomicU64,
    /// Unused; 0.
    pub reserved: AtomicU64,
}

/// Returns the key of a scope: of a fault, a function (`u32::MAX` for all functions together), and a rank, thread, or
/// context. The key is never 0.
pub fn scope_key(rule: u32, function: u32, whose: u64) -> u64 {
    mix_bits(mix_bits(u64::from(rule) << 32 | u64::from(function)) ^ whose.wrapping_add(0x9e37_79b9_7f4a_7c15)).max(1)
}

const _: () = assert!(size_of::<Header>() <= DAMAGED && DAMAGED + 8 * DAMAGED_COUNT <= TEXT);

#[cfg(test)]
mod tests {
    use super::super::read_plain;
    use super::*;

    #[test]
    fn reads_stay_within_the_file() {
        let good = Header {
            magic: MAGIC,
            version: VERSION,
            rules: 2,
            text: 100,
            counters: 4224,
            scopes: 4288,
            scope_count: 3,
            ..Header::default()
        };
        let size = 4288 + 3 * size_of::<ScopeCounter>();
        assert!(is_header_within(&good, size) && !is_header_within(&good, size - 1) && !is_header_within(&good, 0));
        for seed in 0..20_000 {
            let mut bytes = super::super::plain_bytes(&good).to_vec();
            for round in 0..1 + seed % 4 {
                let at = mix_bits(seed * 8 + round) as usize % 56;
                bytes[at] = mix_bits(seed * 8 + round + 4) as u8;
            }
            let header = read_plain::<Header>(&bytes).expect("as many bytes");
            let size = if seed % 2 == 0 { size } else { mix_bits(seed) as usize % (2 * size) };
            if is_header_within(&header, size) {
                let counters = header.counters as usize + header.rules as usize * size_of::<FaultCounter>();
                let scopes = match header.scope_count as usize {
                    0 => 0,
                    count => header.scopes as usize + count * size_of::<ScopeCounter>(),
                };
                assert!(TEXT + header.text as usize <= size && counters <= size && scopes <= size, "{seed}");
                assert!(
                    header.counters.is_multiple_of(8) && (scopes == 0 || header.scopes.is_multiple_of(8)),
                    "{seed}"
                );
            }
        }
    }
}
