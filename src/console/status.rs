//! Exit statuses of our own, as `env` has them.

/// Exit status if cupeer itself failed, or its command line was wrong.
pub const CUPEER_FAILED: u8 = 125;
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;
/// Exit status of `timeout` if it ended the program because its time was over.
pub const TIMED_OUT: u8 = 124;
/// Exit status if the user interrupted the command: 128 + SIGINT, as in a shell.
pub const INTERRUPTED: u8 = 130;
