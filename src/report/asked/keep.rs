//! The extent of a report.

/// Data that a report has in addition to sums.
#[derive(Clone, Copy, Default)]
pub struct Keep {
    /// Number of single failures.
    pub failures: usize,
    /// True to keep the durations of calls, by function.
    pub durations: bool,
    /// True to tell calls apart by caller. It takes a twentieth of the time, and only JSON shows it.
    pub callers: bool,
    /// True to name functions only if there is a finding above note, and only those of the program's own libraries: the rest
    /// takes its time.
    pub few_names: bool,
}
