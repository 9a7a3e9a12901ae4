//! Decides whether the objects that a place makes pile up.
//!
//! A place is one call stack in one process, whose calls make objects of one kind. The place is growing if one of these is true:
//!
//! - It releases some of its objects and leaves others, in the first half of its objects and in the last.
//! - Some objects are not used for anything any more, and the place made more objects after that.
//! - Its objects become more from one mark to the next.
//! - It made one more in each exchange with another process until the end: after the last, the process did only what it
//!   had done between two of them.
//! - It made them throughout minutes.
//!
//! A place is not growing if its older objects are used again after newer objects were made: such objects are slots, weights,
//! or caches.

use crate::follow::steps::StepTimes;
use cupeer_rules::reason::Growth;

/// A place that leaves fewer objects while it releases others, or that has fewer unused ones, does not grow.
const LEAST_SURE: usize = 3;
/// A place that makes fewer objects in exchanges does not grow by them.
const LEAST_STEADY: usize = 8;
/// A place with fewer exchanges does not grow by them.
const LEAST_EXCHANGES: usize = 4;
/// Number of steps after the last exchange that are allowed even if the exchanges followed each other closely:
/// programs synchronize once more before they end.
const STEPS_TO_END: u64 = 8;
/// Time in nanoseconds from the last exchange to the end of the process that never speaks against growth. More is
/// allowed if the exchanges lasted longer.
const TIME_TO_EXIT: u64 = 250_000_000;
/// Smallest number of newer objects that a pipeline makes before it is done with an object. An object that is used
/// after more newer objects is part of a rotating set.
const PIPELINE: usize = 2;
/// If one object in this many is used again, the others may be used again, too.
const REUSE_RATIO: usize = 16;
/// Number of the newest objects whose uses are judged.
const JUDGED_USES: usize = 200;
/// A place that leaves handles open after fewer marks does not grow by marks.
const LEAST_MARKS: usize = 4;
/// Objects that are made over a shorter time, in nanoseconds, do not count as growth without other evidence.
const LEAST_TIME: u64 = 60_000_000_000;
/// Fewer objects do not count as growth without other evidence.
const LEAST_OVER_TIME: usize = 16;
/// Number of equal parts into which the time from the first object to the end is divided.
const PARTS: u64 = 8;
/// Number of the `PARTS` that may lack a new object.
const PARTS_WITHOUT: usize = 1;
/// Number of characters after which a sentence cuts off a mark.
const LONGEST_MARK: usize = 40;

/// An object that was made and not released.
#[derive(Clone, Copy, Default, Debug)]
pub struct UnreleasedObject {
    /// Number of the object among all objects of the place.
    pub ordinal: u64,
    pub at: u64,
    pub bytes: u64,
    /// Time since which the object is not used for anything any more; `None` if it is used.
    pub idle: Option<u64>,
    /// Time of the last known use of the object.
    pub used: Option<u64>,
    /// True if another process acted between the creation of the previous object and of this one, as in an exchange.
    pub is_exchanged: bool,
    /// True if calls show that the object served its purpose: it was copied from, or its importer closed it. Buffers that a
    /// library sets up and uses in kernels show neither.
    pub is_consumed: bool,
}

/// The objects of one place.
pub struct PlaceHistory<'a> {
    pub made: u64,
    /// Number of objects that existed when half of all objects had been made; 0 if unknown.
    pub half: u64,
    /// The objects that were not released, in the order of their creation.
    pub left: &'a [UnreleasedObject],
    /// The steps of the process; `None` if calls are missing.
    pub steps: Option<&'a StepTimes>,
    /// Time until which the process ran.
    pub end: u64,
}

/// Marks that differ only in digits: the text of the first, and the times of all.
pub type SimilarMarks<'m> = (&'m str, &'m [u64]);

impl PlaceHistory<'_> {
    /// Returns the growth of the place; `None` if it does not grow.
    pub fn find_growth<'m>(&self, marks: impl Iterator<Item = SimilarMarks<'m>>) -> Option<Growth<'m>> {
        let is_kept = self.is_used_again();
        let idle = || (self.count_idle() >= LEAST_SURE).then_some(Growth::Unused);
        if is_kept {
            return idle();
        }
        if self.leaves_some() {
            return Some(Growth::SomeLeft);
        }
        let (first, before) = (self.left.first()?.at, self.times_before_newest());
        let over_marks = || {
            let grown = marks.filter_map(|(like, times)| {
                let (of, all) = marks_with_growth(&before, first, times)?;
                let end = like.char_indices().nth(LONGEST_MARK).map_or(like.len(), |(at, _)| at);
                Some((of as u64, all as u64, &like[..end]))
            });
            let (of, all, like) = grown.max_by_key(|(of, _, like)| (*of, usize::MAX - like.len()))?;
            Some(Growth::Marks { of, all, example: like })
        };
        let steady = || self.grows_with_exchanges().then_some(Growth::PerExchange);
        let over_time = || {
            let over = self.end.checked_sub(first).filter(|_| grows_over_time(&before, first, self.end))?;
            Some(Growth::Time { over })
        };
        over_marks().or_else(idle).or_else(steady).or_else(over_time)
    }

    /// Returns true if an object was used after many newer objects were made, so it seems to be kept for such uses.
    fn is_used_late(&self, index: usize) -> bool {
        let left = &self.left[index];
        self.left.get(index + self.pipeline_length()).zip(left.used).is_some_and(|(newer, used)| used > newer.at)
    }

    /// Returns the number of newer objects that may be made before an object is done with.
    fn pipeline_length(&self) -> usize {
        PIPELINE.max(self.left.len() / PARTS as usize)
    }

    fn is_used_again(&self) -> bool {
        let newest = self.left.len().saturating_sub(self.pipeline_length());
        let used = |index: &usize| self.left[*index].used.is_some();
        let judged: Vec<usize> = (0..newest).rev().filter(used).take(JUDGED_USES).collect();
        let again = judged.iter().filter(|index| self.is_used_late(**index)).count();
        // Uses after the creation of the last object do not count: all objects may be used then.
        let last = self.left.last().map_or(0, |left| left.at);
        let late = self.left[..newest].iter().filter(|left| left.used.is_some_and(|used| used > last)).count();
        late >= LEAST_SURE || again > 0 && again * REUSE_RATIO >= judged.len()
    }

    /// Returns the creation times of the left objects that are older than the newest released object. If the place released none,
    /// returns the times of all: otherwise, the place may still need the newer objects.
    fn times_before_newest(&self) -> Vec<u64> {
        let newest = self.newest_released().unwrap_or(u64::MAX);
        self.left.iter().filter(|left| left.ordinal < newest).map(|left| left.at).collect()
    }

    fn newest_released(&self) -> Option<u64> {
        let kept = self.left.iter().rev().zip((0..self.made).rev()).take_while(|(left, n)| left.ordinal == *n);
        self.made.checked_sub(kept.count() as u64 + 1)
    }

    /// Returns true if the place releases some objects and leaves others in between, in the first half and in the last.
    fn leaves_some(&self) -> bool {
        let Some(newest) = self.newest_released() else { return false };
        let first = self.left.iter().zip(0..).take_while(|(left, n)| left.ordinal == *n).count() as u64;
        let is_lost = |index: &usize| self.left[*index].ordinal < newest && !self.is_used_late(*index);
        let lost: Vec<u64> = (0..self.left.len()).filter(is_lost).map(|index| self.left[index].ordinal).collect();
        let between = lost.iter().filter(|ordinal| **ordinal > first).count();
        let half = self.made / 2;
        let is_spread = |first: &u64, last: &u64| *first < half && *last >= half;
        // If objects of a set of constant size are released in random order, the set does not grow.
        lost.len() >= LEAST_SURE
            && self.half * 3 <= self.left.len() as u64 * 2
            && between * 2 >= lost.len()
            && lost.first().zip(lost.last()).is_some_and(|(first, last)| is_spread(first, last))
    }

    /// Returns the number of unused objects after whose last use the place made more objects.
    fn count_idle(&self) -> usize {
        let newest = self.left.last().map_or(0, |left| left.at);
        self.left.iter().filter(|left| left.idle.is_some_and(|idle| idle < newest)).count()
    }

    /// Returns true if the place makes one more object in each exchange with another process, until the process ends.
    fn grows_with_exchanges(&self) -> bool {
        let (left, Some(steps)) = (self.left, self.steps) else { return false };
        if left.len() < LEAST_STEADY || left.len() as u64 * 2 <= self.made {
            return false;
        }
        let later = &left[left.len() / 2..];
        // One exchange may make several objects, but no exchange makes most of them.
        let newest = || left.iter().rev().take(JUDGED_USES);
        let is_consumed = newest().filter(|left| left.is_consumed).count() * 2 >= newest().count();
        let batches = left.chunk_by(|_, next| !next.is_exchanged);
        let exchanged = batches.clone().count() > LEAST_EXCHANGES && later.iter().any(|left| left.is_exchanged);
        let longest = batches.map(<[UnreleasedObject]>::len).max().unwrap_or(0);
        let (first, last) = (left[0].at, later[later.len() - 1].at);
        let between = |from: u64, to: u64| steps.count_until(to) - steps.count_until(from);
        let gap = later.windows(2).map(|pair| between(pair[0].at, pair[1].at)).max().unwrap_or(0);
        let (span, tail) = (between(first, last), steps.count_after(last));
        let goes_on = tail >= span || tail > STEPS_TO_END.max(gap * 2).max(span / PARTS);
        let is_over = self.end.saturating_sub(last) > (last - first).max(TIME_TO_EXIT);
        is_consumed && exchanged && longest * 4 <= left.len() && !goes_on && !is_over
    }
}

/// Returns the number of marks after which handles were left open, and the number of marks since the first open of the place.
/// `None` if these are less than half of the marks in the first or in the second half. The time after the last mark does not
/// count.
fn marks_with_growth(left: &[u64], first: u64, marks: &[u64]) -> Option<(usize, usize)> {
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

/// Returns true if objects were left in nearly all of [`PARTS`] equal parts of the time from `first` to `end`.
fn grows_over_time(left: &[u64], first: u64, end: u64) -> bool {
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
