//! Findings about file descriptors that no process closes.

use super::drafts::{Context, Draft, Sentence};
use cupeer_rules::reason::Reason;
use cupeer_rules::{Confidence, Rule};

/// So many descriptors a process may make or take before it seems to close none: some export all that they have, and
/// close all of it then.
const MANY: u64 = 64;

/// Descriptors whose numbers never came back, by process and function.
pub fn kept<'a>(context: &Context<'a>) -> Vec<Draft<'a>> {
    let mut drafts = Vec::new();
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
            let sentence = Sentence::of(&reason, Confidence::Inferred);
            let draft = Draft::of(sentence, first.function, 0, process as u32, first.site, first.at);
            drafts.push(Draft { last: numbers.last, count: numbers.times, ..draft });
        }
    }
    drafts
}
