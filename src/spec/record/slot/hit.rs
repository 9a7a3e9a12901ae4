//! The bytes of a [`detail::HIT`](super::detail::HIT): a [`FiredFault`], and the name of the rule.

/// Effects of a fault on a call, as bits of [`FiredFault::did`].
pub mod did {
    /// The program received another result than the driver's.
    pub const ERROR: u16 = 1;
    /// The program received an output with another value than the driver's.
    pub const OUT: u16 = 2;
    /// The call was delayed before it was made.
    pub const DELAY: u16 = 4;
    /// The call was delayed after it was made.
    pub const DELAY_AFTER: u16 = 8;
    /// The call waited until a user released it.
    pub const HANG: u16 = 16;
    /// The thread received a signal.
    pub const SIGNAL: u16 = 32;
    /// The process was ended.
    pub const EXIT: u16 = 64;
    /// The pair of devices is denied.
    pub const DENIED: u16 = 128;
    /// The real call was not made.
    pub const NOT_CALLED: u16 = 256;
    /// The effect of the real call was undone.
    pub const UNDONE: u16 = 512;
    /// No action was taken, because the plan is in a dry run.
    pub const DRY: u16 = 1024;

    /// Words for the effects, by their bits from the lowest.
    pub const WORDS: [&str; 11] =
        ["error", "out", "delay", "delay-after", "hang", "signal", "exit", "denied", "not-called", "undone", "dry"];
}

/// Fault that fired at a call: its effects and circumstances.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct FiredFault {
    /// Effects of the fault: bits of [`did`].
    pub did: u16,
    /// Position of the process in the order in which the job's processes reached the driver, from 1.
    pub process: u16,
    /// Result of the real call, if it was made.
    pub driver_result: i32,
    /// Number of the call among those that the fault counts.
    pub count: u64,
    /// [`crate::fault::stack_hash`] of the call's frames; 0 if they are unknown.
    pub stack: u64,
    /// Time in nanoseconds by which the fault delayed the call.
    pub waited: u64,
}

impl FiredFault {
    /// Parses an item: the fault's effects on a call, and the fault's name. Returns `None` if the item is malformed.
    pub fn read(bytes: &[u8]) -> Option<(FiredFault, &str)> {
        let hit = crate::record::read_plain(bytes)?;
        Some((hit, core::str::from_utf8(&bytes[size_of::<FiredFault>()..]).ok()?))
    }
}
