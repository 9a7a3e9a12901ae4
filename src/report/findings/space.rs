//! What processes mapped, and no device could ever use.

use super::rows::{Context, Draft, Sentence};
use cupeer_rules::Confidence;
use cupeer_rules::reason::Reason;

/// Mappings without access, by process and place: those that were unmapped so, and those that an ended process left so. Of
/// a process that runs, or whose record is not whole, it is not known what comes, or has come.
pub fn unused<'a>(context: &Context<'a>) -> Vec<Draft<'a>> {
    let mut drafts = Vec::new();
    for (process, (tally, fate)) in context.all.tallies.iter().zip(&context.all.fates).enumerate() {
        let is_whole = fate.is_full && !fate.has_lost;
        let has_ended = fate.alive == Some(false) && !fate.is_ended_on_purpose;
        for unused in tally.unused.iter().filter(|unused| is_whole && (!unused.is_left || has_ended)) {
            let reason =
                Reason::VmmNoAccess { mappings: unused.count, bytes: unused.bytes, start: unused.start };
            let sentence = Sentence::of(&reason, Confidence::Certain, "");
            let draft = Draft::of(sentence, unused.function, 0, process as u32, unused.site, unused.at);
            drafts.push(Draft { last: unused.last, count: unused.count, ..draft });
        }
    }
    drafts
}
