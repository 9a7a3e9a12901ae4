//! Findings about file descriptors that no process closes.

use super::context::Context;
use super::growth::Left;
use super::unclosed::growth;
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
        for (numbers, is_export) in [(&of.exported, true), (&of.imported, false)] {
            let Some(first) = numbers.first.filter(|_| numbers.times >= MANY && numbers.are_all_new()) else {
                continue;
            };
            let growth =
                growth(context, process as u32, (numbers.times, &left(context, process, is_export)), &marks);
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
fn left(context: &Context, process: usize, is_export: bool) -> Vec<Left> {
    let all = context.all;
    let is_other = |other: &usize| *other != process && all.realms[*other] == all.realms[process];
    let others: Vec<_> =
        (0..all.tallies.len()).filter(is_other).map(|other| &all.tallies[other].descriptors).collect();
    let of = &all.tallies[process].descriptors;
    let kept = if is_export { of.exported.kept() } else { of.imported.kept() };
    let mut before = 0;
    let left = kept.into_iter().map(|(ordinal, at)| {
        let calls = others.iter().map(|of| if is_export { &of.imported.calls } else { &of.exported.calls });
        let is_exchanged = calls.into_iter().any(|calls| calls.until(at) > calls.until(before));
        before = at;
        Left { ordinal, at, is_exchanged, is_consumed: true, ..Left::default() }
    });
    left.collect()
}
