//! Results of calls until the time at which the calls return.
//!
//! Calls are read in the order in which they began. A process has what a call takes (a handle, memory, a mapping) when the call
//! returns, and no longer has what a call releases when that call begins. So a call that takes waits here until a call comes
//! that began after it returned, and a call that releases counts at once. A number that one thread releases and another
//! receives anew in between stays separate. If a call releases something that the process does not have, a waiting call took
//! it: processors do not read their counters in program order, so the end of one call can be later than the start of another
//! that uses its result.

/// Waiting results, each with the time at which its call returned, in ticks.
pub struct WaitingResults<T>(Vec<(u64, T)>);

impl<T> Default for WaitingResults<T> {
    fn default() -> Self {
        WaitingResults(Vec::new())
    }
}

impl<T> WaitingResults<T> {
    pub fn push(&mut self, end: u64, result: T) {
        self.0.push((end, result));
    }

    /// Removes and returns the result of the call that returned first, if it returned by a time.
    pub fn take_returned_by(&mut self, ticks: u64) -> Option<T> {
        let first = (0..self.0.len()).min_by_key(|index| self.0[*index].0)?;
        (self.0[first].0 <= ticks).then(|| self.0.remove(first).1)
    }

    /// Removes and returns the first result for which `is_it` returns true, whenever its call returned.
    pub fn take_first(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let index = self.0.iter().position(|(_, result)| is_it(result))?;
        Some(self.0.remove(index).1)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, result)| result)
    }
}
