//! The names of signals. Linux has the same numbers on all machines that CUDA runs on.

/// Names of the signals from number 1 on, without SIG.
pub const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
    "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
    "PWR", "SYS",
];

/// Returns the name of a signal without SIG; `None` for a signal without a name, such as a real-time signal.
pub fn signal_name(signal: i32) -> Option<&'static str> {
    NAMES.get(usize::try_from(signal).ok()?.checked_sub(1)?).copied()
}
