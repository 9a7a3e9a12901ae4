//! Uses of shared memory that nothing orders: read before they are written, overwritten before they are read, or freed in use.
//!
//! [`history`] puts the calls of all processes together as a [`book`]. [`clocks`] finds since when the work of a use is known to be
//! done, [`rounds`] the pairs that begin before that. [`unread`] finds writes that were overwritten. A finding is certain if no order is even possible.

mod book;
mod clocks;
mod history;
mod rounds;
#[cfg(test)]
mod tests;
mod unread;

use super::context::Context;
use super::objects;
use crate::follow::pending::{PendingAccess, PendingFinding};
use book::UseKind;
use cupeer_report::moments::{bytes, duration, number};
use cupeer_report::places::StackNumber;
use cupeer_rules::Confidence;
use cupeer_rules::reason::Reason;
use history::{DomainHistory, UseOrigin, stream_name};
use rounds::{OrderViolation, Round, Rounds};
use std::collections::BTreeSet;

/// The place of a use: process, function, and call stack.
type UsePlace = (usize, usize, StackNumber);

pub fn find_unordered(context: &Context) -> Vec<PendingFinding> {
    if !context.all.stats.iter().any(|stats| !stats.uses.all.is_empty()) {
        return Vec::new();
    }
    let domains: BTreeSet<_> = context.all.domains.iter().copied().collect();
    let histories = domains.into_iter().filter_map(|domain| DomainHistory::new(context, domain));
    histories.flat_map(|history| findings_of_history(context, &history)).collect()
}

fn findings_of_history(context: &Context, history: &DomainHistory) -> Vec<PendingFinding> {
    let mut all = Rounds::<UsePlace>::new();
    for uses in &history.memories {
        rounds::find_unordered_pairs(&history.book, uses, |step| place_of(history, step), &mut all);
    }
    let pairs = all.iter().map(|((wrong, ..), round)| build_finding(context, history, *wrong, round));
    pairs.chain(unread::find_unread(context, history)).collect()
}

fn place_of(history: &DomainHistory, step: usize) -> UsePlace {
    let origin = history.origin_of_step(step);
    (origin.process, origin.call.function as usize, origin.call.site.stack)
}

fn build_finding(context: &Context, history: &DomainHistory, wrong: OrderViolation, round: &Round) -> PendingFinding {
    let (first, second) = (history.origin_of_step(round.pair.first), history.origin_of_step(round.pair.second));
    let text = describe_round(context, history, wrong, round);
    let reason = Reason::AccessNotOrdered { text: &text };
    let is_sure = round.pair.is_sure && !context.is_part;
    let confidence = if is_sure { Confidence::Certain } else { Confidence::Inferred };
    let found = finding_about_pair(context, &reason, confidence, [first, second]);
    PendingFinding { last: round.last, count: round.count, lacks_facts: !is_sure, ..found }
}

/// Returns a finding about the second of two uses.
fn finding_about_pair(
    context: &Context,
    reason: &Reason,
    confidence: Confidence,
    [first, second]: [&UseOrigin; 2],
) -> PendingFinding {
    let mut found = PendingFinding::new(reason, confidence, second.process, second.call, 0);
    if first.process != second.process {
        found.processes.push(first.process);
    }
    PendingFinding {
        objects: vec![objects::using_object(first.process, first.call, first.bytes.len())],
        accesses: vec![pending_access(context, first), pending_access(context, second)],
        ..found
    }
}

fn pending_access(context: &Context, origin: &UseOrigin) -> PendingAccess {
    let streams = &context.all.stats[origin.process].order.streams;
    PendingAccess {
        process: origin.process,
        call: origin.call,
        stream: stream_name(streams, origin.stream),
        bytes: origin.bytes.len(),
        offset: origin.bytes.from,
    }
}

fn describe_round(context: &Context, history: &DomainHistory, wrong: OrderViolation, round: &Round) -> String {
    let (first, second) = (history.origin_of_step(round.pair.first), history.origin_of_step(round.pair.second));
    let shared = first.bytes.to.min(second.bytes.to) - first.bytes.from.max(second.bytes.from);
    let size = match first.bytes.has_gaps || second.bytes.has_gaps {
        true => "bytes".into(),
        false => bytes(shared).to_string(),
    };
    let size = format!("{size} of ipc:{:016x}", first.entry.fingerprint);
    let is_same = first.process == second.process;
    let other = if is_same { "its other stream".into() } else { context.named_process(first.process).to_string() };
    let head = match wrong {
        OrderViolation::ReadBeforeWritten => format!("this process may read {size} before {other} wrote it"),
        OrderViolation::OverwrittenBeforeRead => {
            format!("this process may overwrite {size} before {other} read it")
        }
        OrderViolation::WrittenTwice => format!("this process and {other} may write {size} in either order"),
        OrderViolation::FreedInUse if second.how == UseKind::Unmaps => {
            format!("this process may unmap {size} while its own call still uses it")
        }
        OrderViolation::FreedInUse => {
            format!("this process may free {size} while a call of {other} still uses it")
        }
    };
    let call = |origin: &UseOrigin| {
        let streams = &context.all.stats[origin.process].order.streams;
        let stream = stream_name(streams, origin.stream).map(|name| match name.starts_with("0x") {
            true => format!(", stream {name}"),
            false => format!(", {name} stream"),
        });
        let (size, offset) = (bytes(origin.bytes.len()), number(origin.bytes.from));
        let function = origin.call.function.spec().name();
        let rows = if origin.bytes.has_gaps { "rows in " } else { "" };
        format!("{function} ({rows}{size} at offset {offset}{})", stream.unwrap_or_default())
    };
    let who = if is_same { "it".into() } else { other };
    let (one, two, apart) = (call(first), call(second), duration(second.call.at - first.call.at));
    let missing = match (round.pair.known_done, round.pair.is_recorded) {
        (u64::MAX, false) => "no event was recorded after it in its stream, and no call waited for that stream".into(),
        (u64::MAX, true) => "no call waited for an event that was recorded after it".into(),
        (known, _) => {
            let late = duration(known.saturating_sub(second.call.at));
            format!("no process could know that it was done until {late} after the second call began")
        }
    };
    let times = match (round.count, round.apart) {
        (1, _) => String::new(),
        (count, (least, most)) => {
            format!("; {} times, {} to {} apart", number(count), duration(least), duration(most))
        }
    };
    format!(
        "{head}; {who} called {one} {apart} before this process called {two}, and nothing orders them: {missing}{times}"
    )
}
