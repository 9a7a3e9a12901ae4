//! Findings about file descriptors that no process closes.

use super::context::Context;
use super::growth::Left;
use super::unclosed::growth;
use crate::follow::ledger::descriptors::Numbers;
use crate::follow::pending::PendingFinding;
use cupeer_rules::reason::{Piled, Reason};
use cupeer_rules::{Confidence, Rule};

/// So many descriptors a process may make or take before it seems to close none: some export all that they have, and
/// close all of it then.
const MANY: u64 = 64;

/// Descriptors whose numbers never came back, by process and function.
pub fn kept(context: &Context) -> Vec<PendingFinding> {
    let (mut all, marks) = (Vec::new(), context.all.marks.repeated());
    for (process, tally) in context.all.tallies.iter().enumerate() {
        // The call that found none left says it.
        if context.all.findings.has(Rule::DescriptorsExhausted, process) {
            continue;
        }
        let of = &tally.descriptors;
        let whole = [(&of.exported, true, false), (&of.imported, false, false)];
        let is_told =
            |is_export| if is_export { of.exported.are_all_new() } else { of.imported.are_all_new() };
        // Where one place closes them, another one may not.
        let places = of.places.iter().filter(|((is_export, _), _)| !is_told(*is_export));
        let places = places.map(|((is_export, _), numbers)| (numbers, *is_export, true));
        for (numbers, is_export, is_place) in whole.into_iter().chain(places) {
            let Some(first) = numbers.first.filter(|_| numbers.times >= MANY && numbers.are_all_new()) else {
                continue;
            };
            let left = left(context, process, (numbers, is_export));
            let growth = growth(context, process as u32, (numbers.times, 0, &left), &marks);
            if is_place && growth.is_none() {
                continue;
            }
            let what = if is_export { Piled::Descriptors } else { Piled::ImportedDescriptors };
            let reason = match growth {
                Some(growth) => {
                    Reason::PilesUp { what, left: numbers.times, made: numbers.times, bytes: 0, growth }
                }
                None => Reason::FdLeak { descriptors: numbers.times, is_export },
            };
            let (call, at) = ((first.function, 0), (first.site, first.at));
            let found = PendingFinding::of(&reason, Confidence::Inferred, call, process as u32, at);
            all.push(PendingFinding { last: numbers.last, count: numbers.times, ..found });
        }
    }
    all
}

/// The descriptors that a process seems to have: each with whether another one took or made some between the one before and it.
fn left(context: &Context, process: usize, (numbers, is_export): (&Numbers, bool)) -> Vec<Left> {
    let all = context.all;
    let is_other = |other: &usize| *other != process && all.realms[*other] == all.realms[process];
    let others: Vec<_> =
        (0..all.tallies.len()).filter(is_other).map(|other| &all.tallies[other].descriptors).collect();
    let mut before = 0;
    let left = numbers.kept().into_iter().map(|(ordinal, at)| {
        let calls = others.iter().map(|of| if is_export { &of.imported.calls } else { &of.exported.calls });
        let is_exchanged = calls.into_iter().any(|calls| calls.until(at) > calls.until(before));
        before = at;
        Left { ordinal, at, is_exchanged, is_consumed: true, ..Left::default() }
    });
    left.collect()
}
