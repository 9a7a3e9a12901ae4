//! Decides whether the objects that a place makes pile up.
//!
//! A place makes objects of one kind: the calls of one call stack in one process. It is growing if one of these is so:
//!
//! - It gives up some of its objects and leaves others, from its first half to its last.
//! - Its objects serve nothing from some time on, and it made more after that.
//! - Its objects become more from one mark to the next.
//! - It made one more in each exchange with another process until the end: after the last, the process did nothing but what it had done
//!   between two of them.
//! - It made them throughout minutes.
//!
//! It is not growing if its older objects are used again after newer ones were made: these are in use, as slots, weights, and caches are.

use crate::follow::steps::Steps;
use cupeer_rules::reason::Growth;

/// The least number of objects that a place leaves while it gives up others, or that serve nothing.
const LEAST_SURE: usize = 3;
/// The least number of objects that are made in exchanges, and of exchanges.
const LEAST_STEADY: usize = 8;
const LEAST_EXCHANGES: usize = 4;
/// The most steps after the last exchange: programs synchronize once more before they end.
const FAREWELL: u64 = 8;
/// The longest time in nanoseconds from the last exchange to the end of the process.
const EXIT: u64 = 250_000_000;
/// The number of newer objects that may be made before an object is done with, as in a pipeline. A rotating set of many
/// objects is larger.
const PIPELINE: usize = 2;
/// If one of this many objects is used again, the others may be too.
const KEPT: usize = 16;
/// The most objects whose uses are recorded at one time.
const WATCHED: usize = 200;
/// The least number of marks after which handles are left open.
const LEAST_MARKS: usize = 4;
/// The least time in nanoseconds, and the least number of objects, if there is no other evidence.
const LEAST_TIME: u64 = 60_000_000_000;
const LEAST_OVER_TIME: usize = 16;
/// Number of equal parts of that time, and of parts without a new object.
const PARTS: u64 = 8;
const PARTS_WITHOUT: usize = 1;
/// The most characters of a mark that a sentence has.
const LONGEST_MARK: usize = 40;

/// An object that was made and not given up.
#[derive(Clone, Copy, Default, Debug)]
pub struct LeftObject {
    /// Number of the object among all objects of the place.
    pub ordinal: u64,
    pub at: u64,
    pub bytes: u64,
    /// Since when it serves nothing.
    pub idle: Option<u64>,
    /// Its last use that is known.
    pub used: Option<u64>,
    /// True if another process did its part between the object before and this one.
    pub is_exchanged: bool,
    /// True if it did what it is for, as far as calls show: it was copied from, or its importer has closed it. A library that sets up
    /// its buffers, and uses them in kernels, shows none of this.
    pub is_consumed: bool,
}

/// The objects of one place.
pub struct Line<'a> {
    pub made: u64,
    /// Number of objects that were there when half of all had been made; 0 if unknown.
    pub half: u64,
    /// In the order in which they were made.
    pub left: &'a [LeftObject],
    /// The steps of the process; `None` if calls are missing.
    pub steps: Option<&'a Steps>,
    /// Until when the process ran.
    pub end: u64,
}

/// Marks that look like the first one, and when they were set.
pub type Marks<'m> = (&'m str, &'m [u64]);

impl Line<'_> {
    /// Returns the growth of the place; `None` if it does not grow.
    pub fn growth<'m>(&self, marks: impl Iterator<Item = Marks<'m>>) -> Option<Growth<'m>> {
        let is_kept = self.is_used_again();
        let idle = || (self.idle() >= LEAST_SURE).then_some(Growth::Idle);
        if is_kept {
            return idle();
        }
        if self.is_left_by_some() {
            return Some(Growth::LeftBySome);
        }
        let (first, before) = (self.left.first()?.at, self.before_newest());
        let over_marks = || {
            let grown = marks.filter_map(|(like, times)| {
                let (of, all) = over_marks(&before, first, times)?;
                let end = like.char_indices().nth(LONGEST_MARK).map_or(like.len(), |(at, _)| at);
                Some((of as u64, all as u64, &like[..end]))
            });
            let (of, all, like) = grown.max_by_key(|(of, _, like)| (*of, usize::MAX - like.len()))?;
            Some(Growth::Marks { of, all, like })
        };
        let steady = || self.is_steady().then_some(Growth::Steady);
        let over_time = || {
            let over = self.end.checked_sub(first).filter(|_| is_over_time(&before, first, self.end))?;
            Some(Growth::Time { over })
        };
        over_marks().or_else(idle).or_else(steady).or_else(over_time)
    }

    /// Returns true if an object was used after so many newer ones were made that it is kept for that.
    fn is_again(&self, index: usize) -> bool {
        let left = &self.left[index];
        self.left.get(index + self.pipeline()).zip(left.used).is_some_and(|(newer, used)| used > newer.at)
    }

    /// So many newer objects may be made before one is done with.
    fn pipeline(&self) -> usize {
        PIPELINE.max(self.left.len() / PARTS as usize)
    }

    fn is_used_again(&self) -> bool {
        let newest = self.left.len().saturating_sub(self.pipeline());
        let used = |index: &usize| self.left[*index].used.is_some();
        let judged: Vec<usize> = (0..newest).rev().filter(used).take(WATCHED).collect();
        let again = judged.iter().filter(|index| self.is_again(**index)).count();
        // After the last was made, some of all may be used.
        let last = self.left.last().map_or(0, |left| left.at);
        let late =
            self.left[..newest].iter().filter(|left| left.used.is_some_and(|used| used > last)).count();
        late >= LEAST_SURE || again > 0 && again * KEPT >= judged.len()
    }

    /// Returns the times of those after which the place gave up a newer one; of a place that gives up none, all: it may still need those
    /// that are younger.
    fn before_newest(&self) -> Vec<u64> {
        let newest = self.newest_given_up().unwrap_or(u64::MAX);
        self.left.iter().filter(|left| left.ordinal < newest).map(|left| left.at).collect()
    }

    fn newest_given_up(&self) -> Option<u64> {
        let kept =
            self.left.iter().rev().zip((0..self.made).rev()).take_while(|(left, n)| left.ordinal == *n);
        self.made.checked_sub(kept.count() as u64 + 1)
    }

    /// Returns true if the place gives up some, and leaves others in between, from its first half to its last.
    fn is_left_by_some(&self) -> bool {
        let Some(newest) = self.newest_given_up() else { return false };
        let first = self.left.iter().zip(0..).take_while(|(left, n)| left.ordinal == *n).count() as u64;
        let is_lost = |index: &usize| self.left[*index].ordinal < newest && !self.is_again(*index);
        let lost: Vec<u64> =
            (0..self.left.len()).filter(is_lost).map(|index| self.left[index].ordinal).collect();
        let between = lost.iter().filter(|ordinal| **ordinal > first).count();
        let half = self.made / 2;
        let is_spread = |first: &u64, last: &u64| *first < half && *last >= half;
        // A set of which some go at random does not become larger.
        lost.len() >= LEAST_SURE
            && self.half * 3 <= self.left.len() as u64 * 2
            && between * 2 >= lost.len()
            && lost.first().zip(lost.last()).is_some_and(|(first, last)| is_spread(first, last))
    }

    /// Counts those that serve nothing since a time after which more were made.
    fn idle(&self) -> usize {
        let newest = self.left.last().map_or(0, |left| left.at);
        self.left.iter().filter(|left| left.idle.is_some_and(|idle| idle < newest)).count()
    }

    /// Returns true if the place makes one more in each exchange, and does so until the process does nothing else any more.
    fn is_steady(&self) -> bool {
        let (left, Some(steps)) = (self.left, self.steps) else { return false };
        if left.len() < LEAST_STEADY || left.len() as u64 * 2 <= self.made {
            return false;
        }
        let later = &left[left.len() / 2..];
        // Several can be made in one exchange, and none makes most of them.
        let newest = || left.iter().rev().take(WATCHED);
        let is_consumed = newest().filter(|left| left.is_consumed).count() * 2 >= newest().count();
        let batches = left.chunk_by(|_, next| !next.is_exchanged);
        let exchanged =
            batches.clone().count() > LEAST_EXCHANGES && later.iter().any(|left| left.is_exchanged);
        let longest = batches.map(<[LeftObject]>::len).max().unwrap_or(0);
        let (first, last) = (left[0].at, later[later.len() - 1].at);
        let between = |from: u64, to: u64| steps.until(to) - steps.until(from);
        let gap = later.windows(2).map(|pair| between(pair[0].at, pair[1].at)).max().unwrap_or(0);
        let (span, tail) = (between(first, last), steps.after(last));
        let goes_on = tail >= span || tail > FAREWELL.max(gap * 2).max(span / PARTS);
        let is_over = self.end.saturating_sub(last) > (last - first).max(EXIT);
        is_consumed && exchanged && longest * 4 <= left.len() && !goes_on && !is_over
    }
}

/// Returns the number of marks after which handles were left open, and the number of marks since the first open of the place.
/// `None` unless it is at least half of them, in the first half and in the second. The time after the last mark does not
/// count.
fn over_marks(left: &[u64], first: u64, marks: &[u64]) -> Option<(usize, usize)> {
    let spans: Vec<_> = marks.windows(2).filter(|span| span[1] > first).collect();
    let is_hit = |span: &&&[u64]| {
        let from = left.partition_point(|at| *at < span[0]);
        left.get(from).is_some_and(|at| *at < span[1])
    };
    let hits = |spans: &[&[u64]]| spans.iter().filter(is_hit).count();
    let (earlier, later) = spans.split_at(spans.len() / 2);
    let [before, after] = [earlier, later].map(hits);
    let is_steady = before * 2 >= earlier.len() && after * 2 >= later.len();
    (before + after >= LEAST_MARKS && is_steady).then_some((before + after, spans.len()))
}

/// The same in equal parts of a time.
fn is_over_time(left: &[u64], first: u64, end: u64) -> bool {
    let Some(span) = end.checked_sub(first).filter(|span| *span >= LEAST_TIME) else { return false };
    let mut parts = [false; PARTS as usize];
    for at in left {
        let part = u128::from(at.saturating_sub(first)) * u128::from(PARTS) / (u128::from(span) + 1);
        parts[(part as usize).min(parts.len() - 1)] = true;
    }
    left.len() >= LEAST_OVER_TIME && parts.iter().filter(|part| !**part).count() <= PARTS_WITHOUT
}

#[cfg(test)]
mod tests;
