//! The bytes of a [`detail::HIT`](super::detail::HIT): a [`Hit`], and the name of the rule.

/// Actions that were taken, as bits of [`Hit::did`].
pub mod did {
    /// The result is not the driver's.
    pub const ERROR: u16 = 1;
    /// An output is not the driver's.
    pub const OUT: u16 = 2;
    /// A wait before the call.
    pub const DELAY: u16 = 4;
    /// A wait after it.
    pub const DELAY_AFTER: u16 = 8;
    /// A wait until a user releases the call.
    pub const HANG: u16 = 16;
    /// A signal.
    pub const SIGNAL: u16 = 32;
    /// The end of the process.
    pub const EXIT: u16 = 64;
    /// The pair of devices is denied.
    pub const DENIED: u16 = 128;
    /// The real call was not made.
    pub const NOT_CALLED: u16 = 256;
    /// The effect of the real call was undone.
    pub const UNDONE: u16 = 512;
    /// No action was taken, because the plan is in a dry run.
    pub const DRY: u16 = 1024;

    /// The words for them, by their bits from the lowest.
    pub const WORDS: [&str; 11] = [
        "error",
        "out",
        "delay",
        "delay-after",
        "hang",
        "signal",
        "exit",
        "denied",
        "not-called",
        "undone",
        "dry",
    ];
}

/// A rule that fired at a call.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Hit {
    /// [`did`].
    pub did: u16,
    /// The number of the process in the job, from 1: the order in which they reached the driver.
    pub process: u16,
    /// Result of the real call, if it was made.
    pub driver_result: i32,
    /// Number of the call among those that the rule counts.
    pub count: u64,
    /// [`crate::fault::stack_hash`] of the call's frames; 0 if they are unknown.
    pub stack: u64,
    /// Delay in nanoseconds.
    pub waited: u64,
}

impl Hit {
    /// Parses an item: the hit, and the name of its rule. `None` if it is malformed.
    pub fn read(bytes: &[u8]) -> Option<(Hit, &str)> {
        let hit = crate::record::read(bytes)?;
        Some((hit, core::str::from_utf8(&bytes[size_of::<Hit>()..]).ok()?))
    }
}
