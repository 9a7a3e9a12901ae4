//! The extent of a report.

/// Optional data of a report, in addition to its counts and sums.
#[derive(Clone, Copy, Default)]
pub struct Keep {
    /// Number of failed calls that are kept one by one: the first ones.
    pub failures: usize,
    /// True to keep the durations of calls, by function.
    pub durations: bool,
    /// True to tell calls apart by caller. This takes 5% of the time, and only JSON shows the callers.
    pub callers: bool,
    /// True to resolve names only if there is a finding above note, and then only for the program's own
    /// libraries, because the others take most of the time.
    pub few_names: bool,
}
