//! Exit statuses of our own, as `env` has them.

/// cupeer failed, or was called wrongly.
pub const OURS: u8 = 125;
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;
/// `timeout` ended the program.
pub const TIMED_OUT: u8 = 124;
/// A signal ended what was to go on: SIGINT, as a shell has it.
pub const INTERRUPTED: u8 = 130;
