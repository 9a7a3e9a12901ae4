//! Uses of shared memory that nothing orders: read before they are written, overwritten before they are read, or freed in use.
//!
//! [`history`] puts the calls of all processes together as a [`book`]. [`clocks`] finds since when the work of a use is known to be
//! done, [`rounds`] the pairs that begin before that, and [`sentences`] the words. [`unread`] finds writes that were overwritten. A finding is certain if no order is even possible.

mod book;
mod clocks;
mod history;
mod rounds;
mod sentences;
#[cfg(test)]
mod tests;
mod unread;

use super::context::Context;
use super::objects;
use crate::follow::pending::{PendingAccess, PendingFinding};
use cupeer_report::places::Stack;
use cupeer_rules::Confidence;
use cupeer_rules::reason::Reason;
use history::{History, Origin};
use rounds::{Round, Rounds, Wrong};
use std::collections::BTreeSet;

/// The place of a use.
type Place = (usize, usize, Stack);

pub fn found(context: &Context) -> Vec<PendingFinding> {
    if !context.all.tallies.iter().any(|tally| !tally.uses.all.is_empty()) {
        return Vec::new();
    }
    let realms: BTreeSet<_> = context.all.realms.iter().copied().collect();
    let histories = realms.into_iter().filter_map(|realm| History::of(context, realm));
    histories.flat_map(|history| of_history(context, &history)).collect()
}

fn of_history(context: &Context, history: &History) -> Vec<PendingFinding> {
    let mut all = Rounds::<Place>::new();
    for uses in &history.memories {
        rounds::find(&history.book, uses, |step| place_of(history, step), &mut all);
    }
    let pairs = all.iter().map(|((wrong, ..), round)| pending(context, history, *wrong, round));
    pairs.chain(unread::found(context, history)).collect()
}

fn place_of(history: &History, step: usize) -> Place {
    let origin = history.origin(step);
    (origin.process, origin.function as usize, origin.site.stack)
}

fn pending(context: &Context, history: &History, wrong: Wrong, round: &Round) -> PendingFinding {
    let (first, second) = (history.origin(round.pair.first), history.origin(round.pair.second));
    let text = sentences::sentence(context, history, wrong, round);
    let reason = Reason::AccessNotOrdered { text: &text };
    let is_sure = round.pair.is_sure && !context.is_part;
    let confidence = if is_sure { Confidence::Certain } else { Confidence::Inferred };
    let found = about(context, &reason, confidence, [first, second]);
    PendingFinding { last: round.last, count: round.count, lacks_facts: !is_sure, ..found }
}

/// A finding about the second of two uses.
fn about(
    context: &Context,
    reason: &Reason,
    confidence: Confidence,
    [first, second]: [&Origin; 2],
) -> PendingFinding {
    let (call, place) = ((second.function, 0), (second.site, second.at));
    let mut found = PendingFinding::of(reason, confidence, call, second.process as u32, place);
    if first.process != second.process {
        found.processes.push(first.process);
    }
    PendingFinding {
        objects: vec![objects::using(first.process, first.site, first.at, first.bytes.len())],
        accesses: vec![access(context, first), access(context, second)],
        ..found
    }
}

fn access(context: &Context, origin: &Origin) -> PendingAccess {
    let streams = &context.all.tallies[origin.process].order.streams;
    PendingAccess {
        process: origin.process,
        function: origin.function,
        site: origin.site,
        stream: history::name(streams, origin.stream),
        bytes: origin.bytes.len(),
        offset: origin.bytes.from,
        at: origin.at,
    }
}
