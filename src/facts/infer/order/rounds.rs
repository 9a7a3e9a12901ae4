//! Pairs of uses that nothing orders. Pairs of the same two places count as one round, so a loop gives one finding.

use super::book::{Book, FLAG, How, Step, Uses};
use super::clocks::{Level, Reach, reach};
use crate::follow::order::Kind;
use std::collections::BTreeMap;

/// Largest number of later uses with which one use is compared.
const MOST_COMPARED: usize = 1024;
/// Largest number of pairs for one use.
const MOST_PAIRS: usize = 32;
/// Largest number of stored rounds.
const MOST_ROUNDS: usize = 1024;

/// The kind of violation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wrong {
    ReadBeforeWritten,
    OverwrittenBeforeRead,
    WrittenTwice,
    FreedInUse,
}

/// Two uses that nothing orders: first the use that began earlier, then the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    pub first: usize,
    pub second: usize,
    /// True if no order is even possible.
    pub is_sure: bool,
    /// Time from which the first use is known to be done; `u64::MAX` if it never is.
    pub known: u64,
    /// True if an event was recorded after the first use.
    pub is_recorded: bool,
}

/// The pairs of the same two places: the first of the most certain pairs, with a count.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub pair: Pair,
    /// Number of pairs that share no use with the pair counted before.
    pub count: u64,
    /// The last counted pair.
    counted: (usize, usize),
    /// Time of the last pair.
    pub last: u64,
    /// Shortest and longest time from the begin of the first use to that of the second, in nanoseconds.
    pub apart: (u64, u64),
}

/// Rounds, by what went wrong and the two places.
pub type Rounds<K> = BTreeMap<(Wrong, K, K), Round>;

/// Returns what goes wrong if nothing orders two uses.
fn violation(first: &Step, second: &Step) -> Option<Wrong> {
    let (one, other) = (first.uses()?, second.uses()?);
    let is_same = one.stream.is_some() && one.stream == other.stream;
    if is_same || !one.bytes.surely_overlaps(&other.bytes) {
        return None;
    }
    match (one.how, other.how) {
        (How::Writes, How::Reads) => Some(Wrong::ReadBeforeWritten),
        (How::Reads, How::Writes) => Some(Wrong::OverwrittenBeforeRead),
        // Two memsets with the same value have the same result in either order.
        (How::Writes, How::Writes) if one.value.is_some() && one.value == other.value => None,
        (How::Writes, How::Writes) => Some(Wrong::WrittenTwice),
        (How::Reads | How::Writes, How::Unmaps) => {
            (first.process == second.process && one.base == other.base).then_some(Wrong::FreedInUse)
        }
        (How::Reads | How::Writes, How::Frees) => Some(Wrong::FreedInUse),
        _ => None,
    }
}

/// Returns true if a use may be that of a flag by which others learn about progress.
fn is_flag(uses: &Uses) -> bool {
    uses.how == How::Reads && uses.bytes.len() <= FLAG || uses.bytes.len() <= 8
}

fn is_memset(step: &Step) -> bool {
    step.uses().is_some_and(|uses| uses.value.is_some())
}

/// Returns true if other streams may wait for the work: a process may have waited for such streams in calls that are not
/// recorded.
fn is_common(book: &Book, uses: &Uses) -> bool {
    let is_legacy = |stream: &usize| book.streams[*stream].kind == Kind::Legacy && uses.waits == Some(false);
    uses.stream
        .as_ref()
        .filter(|it| is_legacy(it))
        .is_some_and(|stream| book.beside(*stream).next().is_some())
}

/// Returns true if nothing orders two uses, at a level of certainty.
fn is_unordered(book: &Book, reach: &Reach, first: &Step, second: &Step, level: Level) -> bool {
    if reach.is_before(second) {
        return false;
    }
    // The call waits for all work of its process before it frees.
    let frees = |uses: &Uses| uses.how == How::Frees && uses.stream.is_none();
    if second.uses().is_some_and(frees) {
        let waited = reach.streams.iter().filter(|(_, since)| *since < second.after);
        return !waited.into_iter().any(|(stream, _)| book.streams[*stream].process == second.process);
    }
    let overlaps = second.before < first.after;
    !overlaps || !self::reach(book, second, level).is_before(first)
}

/// Finds the pairs in the uses of one memory, which are numbers of steps in the order of time. `place` tells the place of a step.
pub fn find<K: Ord + Copy>(book: &Book, uses: &[usize], place: impl Fn(usize) -> K, rounds: &mut Rounds<K>) {
    for (number, first) in uses.iter().enumerate() {
        let step = &book.steps[*first];
        let is_use = |uses: &Uses| matches!(uses.how, How::Reads | How::Writes);
        if !step.uses().is_some_and(is_use) {
            continue;
        }
        let (mut is_over, mut found) = (false, 0);
        let mut both: Option<(Reach, Option<Reach>)> = None;
        for second in uses[number + 1..].iter().take(MOST_COMPARED) {
            let later = &book.steps[*second];
            let is_known = both.as_ref().is_some_and(|(made, _)| made.known <= later.before);
            if is_known || is_over || found >= MOST_PAIRS {
                break;
            }
            // After a free, the address belongs to other memory.
            is_over = later.uses().is_some_and(|uses| uses.how == How::Frees);
            let Some(wrong) = violation(step, later) else { continue };
            let (made, possible) = both.get_or_insert_with(|| (reach(book, step, Level::Made), None));
            if !is_unordered(book, made, step, later, Level::Made) {
                continue;
            }
            let possible = possible.get_or_insert_with(|| reach(book, step, Level::Possible));
            // Only kernels wait for a flag without a recorded call.
            let has_kernels = !book.with_kernels.is_empty() || book.has_graphs;
            let is_erased = !has_kernels && [step, later].iter().all(|step| is_memset(step));
            let is_certain = |step: &&Step| {
                step.uses().is_some_and(|uses| (is_erased || !is_flag(uses)) && !is_common(book, uses))
                    && !book.with_kernels.contains(&step.process)
            };
            let is_sure = [step, later].iter().all(is_certain)
                && !(book.has_graphs && possible.is_recorded)
                && is_unordered(book, possible, step, later, Level::Possible);
            // A process that frees its own memory may have waited for the work in calls that are not recorded.
            if !is_sure && wrong == Wrong::FreedInUse && step.process == later.process {
                continue;
            }
            let (known, is_recorded) = (made.known, made.is_recorded);
            let pair = Pair { first: *first, second: *second, is_sure, known, is_recorded };
            let (key, apart) = ((wrong, place(*first), place(*second)), later.before - step.before);
            add_pair(rounds, key, pair, later.before, apart);
            found += 1;
        }
    }
}

fn add_pair<K: Ord>(rounds: &mut Rounds<K>, key: (Wrong, K, K), pair: Pair, at: u64, apart: u64) {
    if rounds.len() >= MOST_ROUNDS && !rounds.contains_key(&key) {
        return;
    }
    let new = Round { pair, count: 0, counted: (usize::MAX, 0), last: at, apart: (apart, apart) };
    let round = rounds.entry(key).or_insert(new);
    if pair.is_sure && !round.pair.is_sure {
        // Less certain pairs are not counted.
        *round = new;
    }
    let is_next = round.counted.0 != pair.first && (round.count == 0 || round.counted.1 < pair.second);
    if pair.is_sure == round.pair.is_sure && is_next {
        round.counted = (pair.first, pair.second);
        round.count += 1;
        round.last = round.last.max(at);
        round.apart = (round.apart.0.min(apart), round.apart.1.max(apart));
    }
}
