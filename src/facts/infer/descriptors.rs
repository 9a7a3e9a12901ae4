//! Findings about file descriptors that no process closes.

use super::context::Context;
use super::growth::UnreleasedObject;
use super::unclosed::growth_of_objects;
use crate::follow::ledger::descriptors::DescriptorNumbers;
use crate::follow::pending::PendingFinding;
use cupeer_rules::reason::{Piled, Reason};
use cupeer_rules::{Confidence, Rule};

/// Smallest number of unclosed descriptors for a finding: some programs export all their memory first, and then close all
/// descriptors.
const MANY: u64 = 64;

/// Returns findings about descriptors whose numbers were never used again, by process and function.
pub fn find_unclosed(context: &Context) -> Vec<PendingFinding> {
    let (mut all, marks) = (Vec::new(), context.all.marks.group_repeated());
    for (process, stats) in context.all.stats.iter().enumerate() {
        // The finding about the call that failed for lack of descriptors counts them already.
        if context.all.findings.has_finding_of(Rule::DescriptorsExhausted, process) {
            continue;
        }
        let of = &stats.descriptors;
        let whole = [(&of.exported, true, false), (&of.imported, false, false)];
        let is_told = |is_export| if is_export { of.exported.are_all_new() } else { of.imported.are_all_new() };
        // A function is judged as a whole, because programs may close the descriptors of one place and not those of another.
        let places = of.places.iter().filter(|((is_export, _), _)| !is_told(*is_export));
        let places = places.map(|((is_export, _), numbers)| (numbers, *is_export, true));
        for (numbers, is_export, is_place) in whole.into_iter().chain(places) {
            let Some(first) = numbers.first.filter(|_| numbers.times >= MANY && numbers.are_all_new()) else {
                continue;
            };
            let left = unclosed_descriptors(context, process, (numbers, is_export));
            let growth = growth_of_objects(context, process, (numbers.times, 0, &left), &marks);
            if is_place && growth.is_none() {
                continue;
            }
            let what = if is_export { Piled::Descriptors } else { Piled::ImportedDescriptors };
            let reason = match growth {
                Some(growth) => Reason::PilesUp { what, left: numbers.times, made: numbers.times, bytes: 0, growth },
                None => Reason::FdLeak { descriptors: numbers.times, is_export },
            };
            let found = PendingFinding::new(&reason, Confidence::Inferred, process, first, 0);
            all.push(PendingFinding { last: numbers.last, count: numbers.times, ..found });
        }
    }
    all
}

/// Returns the descriptors that a process seems to have open. Each says if another process exported or imported descriptors
/// between the previous descriptor and this one.
fn unclosed_descriptors(
    context: &Context,
    process: usize,
    (numbers, is_export): (&DescriptorNumbers, bool),
) -> Vec<UnreleasedObject> {
    let all = context.all;
    let is_other = |other: &usize| *other != process && all.domains[*other] == all.domains[process];
    let others: Vec<_> = (0..all.stats.len()).filter(is_other).map(|other| &all.stats[other].descriptors).collect();
    let mut before = 0;
    let left = numbers.not_reused().into_iter().map(|(ordinal, at)| {
        let calls = others.iter().map(|of| if is_export { &of.imported.calls } else { &of.exported.calls });
        let is_exchanged = calls.into_iter().any(|calls| calls.count_until(at) > calls.count_until(before));
        before = at;
        UnreleasedObject { ordinal, at, is_exchanged, is_consumed: true, ..UnreleasedObject::default() }
    });
    left.collect()
}
