//! Pairs of uses that nothing orders. Pairs of the same two places count as one round, so a loop gives one finding.

use super::book::{IndexedSteps, MOST_FLAG_BYTES, Step, UseKind, UseStep};
use super::clocks::{OrderLevel, OrderedWork, find_ordered_work};
use crate::follow::order::StreamKind;
use std::collections::BTreeMap;

/// Number of later uses with which one use is compared: the next ones; uses after those are not.
const MOST_COMPARED: usize = 1024;
/// Number of pairs after which a use is not compared any further.
const MOST_PAIRS: usize = 32;
/// Number of rounds after which pairs of a new kind are dropped.
const MOST_ROUNDS: usize = 1024;

/// The kind of violation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OrderViolation {
    ReadBeforeWritten,
    OverwrittenBeforeRead,
    WrittenTwice,
    FreedInUse,
}

/// Two uses that nothing orders: first the use that began earlier, then the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnorderedPair {
    pub first: usize,
    pub second: usize,
    /// True if no order is even possible.
    pub is_sure: bool,
    /// Time from which the first use is known to be done; `u64::MAX` if it never is.
    pub known_done: u64,
    /// True if an event was recorded after the first use.
    pub is_recorded: bool,
}

/// The pairs of the same two places: the first of the most certain pairs, with a count.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub pair: UnorderedPair,
    /// Number of counted pairs. A pair that shares a use with the pair counted before is not counted.
    pub count: u64,
    /// The last counted pair.
    counted: (usize, usize),
    /// Time of the last pair.
    pub last: u64,
    /// Shortest and longest time from the begin of the first use to that of the second, in nanoseconds.
    pub apart: (u64, u64),
}

/// Rounds, by what went wrong and the two places.
pub type Rounds<K> = BTreeMap<(OrderViolation, K, K), Round>;

/// Returns what goes wrong if nothing orders two uses.
fn find_violation(first: &Step, second: &Step) -> Option<OrderViolation> {
    let (one, other) = (first.memory_use()?, second.memory_use()?);
    let is_same = one.stream.is_some() && one.stream == other.stream;
    if is_same || !one.bytes.surely_overlaps(&other.bytes) {
        return None;
    }
    match (one.how, other.how) {
        (UseKind::Writes, UseKind::Reads) => Some(OrderViolation::ReadBeforeWritten),
        (UseKind::Reads, UseKind::Writes) => Some(OrderViolation::OverwrittenBeforeRead),
        // Two memsets with the same value have the same result in either order.
        (UseKind::Writes, UseKind::Writes) if one.value.is_some() && one.value == other.value => None,
        (UseKind::Writes, UseKind::Writes) => Some(OrderViolation::WrittenTwice),
        (UseKind::Reads | UseKind::Writes, UseKind::Unmaps) => {
            (first.process == second.process && one.base == other.base).then_some(OrderViolation::FreedInUse)
        }
        (UseKind::Reads | UseKind::Writes, UseKind::Frees) => Some(OrderViolation::FreedInUse),
        _ => None,
    }
}

/// Returns true if a use may be that of a flag by which others learn about progress.
fn may_be_flag(uses: &UseStep) -> bool {
    uses.how == UseKind::Reads && uses.bytes.len() <= MOST_FLAG_BYTES || uses.bytes.len() <= 8
}

fn is_memset(step: &Step) -> bool {
    step.memory_use().is_some_and(|uses| uses.value.is_some())
}

/// Returns true if other streams may wait for the work: a process may have waited for such streams in calls that are not
/// recorded.
fn may_have_unseen_waits(book: &IndexedSteps, uses: &UseStep) -> bool {
    let is_legacy =
        |stream: &usize| book.streams[*stream].kind == StreamKind::Legacy && uses.is_done_on_return == Some(false);
    uses.stream
        .as_ref()
        .filter(|it| is_legacy(it))
        .is_some_and(|stream| book.synchronizing_streams(*stream).next().is_some())
}

/// Returns true if nothing orders two uses, at a level of certainty.
fn is_unordered(book: &IndexedSteps, reach: &OrderedWork, first: &Step, second: &Step, level: OrderLevel) -> bool {
    if reach.is_before(second) {
        return false;
    }
    // The call waits for all work of its process before it frees.
    let frees = |uses: &UseStep| uses.how == UseKind::Frees && uses.stream.is_none();
    if second.memory_use().is_some_and(frees) {
        let waited = reach.streams.iter().filter(|(_, since)| *since < second.after);
        return !waited.into_iter().any(|(stream, _)| book.streams[*stream].process == second.process);
    }
    let overlaps = second.before < first.after;
    !overlaps || !self::find_ordered_work(book, second, level).is_before(first)
}

/// Finds the pairs in the uses of one memory, which are numbers of steps in the order of time. `place` tells the place of a step.
pub fn find_unordered_pairs<K: Ord + Copy>(
    book: &IndexedSteps,
    uses: &[usize],
    place: impl Fn(usize) -> K,
    rounds: &mut Rounds<K>,
) {
    for (number, first) in uses.iter().enumerate() {
        let step = &book.steps[*first];
        let is_use = |uses: &UseStep| matches!(uses.how, UseKind::Reads | UseKind::Writes);
        if !step.memory_use().is_some_and(is_use) {
            continue;
        }
        let (mut is_over, mut found) = (false, 0);
        let mut both: Option<(OrderedWork, Option<OrderedWork>)> = None;
        for second in uses[number + 1..].iter().take(MOST_COMPARED) {
            let later = &book.steps[*second];
            let is_known = both.as_ref().is_some_and(|(made, _)| made.known_done <= later.before);
            if is_known || is_over || found >= MOST_PAIRS {
                break;
            }
            // After a free, the address belongs to other memory.
            is_over = later.memory_use().is_some_and(|uses| uses.how == UseKind::Frees);
            let Some(wrong) = find_violation(step, later) else { continue };
            let (made, possible) = both.get_or_insert_with(|| (find_ordered_work(book, step, OrderLevel::Made), None));
            if !is_unordered(book, made, step, later, OrderLevel::Made) {
                continue;
            }
            let possible = possible.get_or_insert_with(|| find_ordered_work(book, step, OrderLevel::Possible));
            // Only kernels wait for a flag without a recorded call.
            let has_kernels = !book.with_kernels.is_empty() || book.has_graphs;
            let is_erased = !has_kernels && [step, later].iter().all(|step| is_memset(step));
            let is_certain = |step: &&Step| {
                step.memory_use()
                    .is_some_and(|uses| (is_erased || !may_be_flag(uses)) && !may_have_unseen_waits(book, uses))
                    && !book.with_kernels.contains(&step.process)
            };
            let is_sure = [step, later].iter().all(is_certain)
                && !(book.has_graphs && possible.is_recorded)
                && is_unordered(book, possible, step, later, OrderLevel::Possible);
            // A process that frees its own memory may have waited for the work in calls that are not recorded.
            if !is_sure && wrong == OrderViolation::FreedInUse && step.process == later.process {
                continue;
            }
            let (known, is_recorded) = (made.known_done, made.is_recorded);
            let pair = UnorderedPair { first: *first, second: *second, is_sure, known_done: known, is_recorded };
            let (key, apart) = ((wrong, place(*first), place(*second)), later.before - step.before);
            add_pair(rounds, key, pair, later.before, apart);
            found += 1;
        }
    }
}

fn add_pair<K: Ord>(rounds: &mut Rounds<K>, key: (OrderViolation, K, K), pair: UnorderedPair, at: u64, apart: u64) {
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
