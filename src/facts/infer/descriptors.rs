//! Findings about file descriptors that no process closes.

use super::context::Context;
use crate::follow::pending::PendingFinding;
use cupeer_rules::reason::Reason;
use cupeer_rules::{Confidence, Rule};

/// So many descriptors a process may make or take before it seems to close none: some export all that they have, and
/// close all of it then.
const MANY: u64 = 64;

/// Descriptors whose numbers never came back, by process and function.
pub fn kept(context: &Context) -> Vec<PendingFinding> {
    let mut all = Vec::new();
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
            let reason = Reason::FdLeak { descriptors: numbers.times, is_export };
            let (call, at) = ((first.function, 0), (first.site, first.at));
            let found = PendingFinding::of(&reason, Confidence::Inferred, call, process as u32, at);
            all.push(PendingFinding { last: numbers.last, count: numbers.times, ..found });
        }
    }
    all
}
