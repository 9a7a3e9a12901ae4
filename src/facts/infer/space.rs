//! Findings about virtual memory: mappings that no device, or not every expected device, could access, and waits that
//! nothing ends.

use super::context::Context;
use crate::follow::judged::uuid;
use crate::follow::memory::Waits;
use crate::follow::memory::{Apart, Unused};
use crate::follow::pending::PendingFinding;
use crate::follow::virtual_memory::Waiting;
use cupeer_rules::Confidence;
use cupeer_rules::reason::{Device, Reason};

/// Mappings without access, by process and place: those that were unmapped so, and those that an ended process left so. Of
/// a process that runs, or whose record is not whole, it is not known what comes, or has come.
pub fn unused(context: &Context) -> Vec<PendingFinding> {
    let mut all = Vec::new();
    for (process, (tally, fate)) in context.all.tallies.iter().zip(&context.all.fates).enumerate() {
        let is_whole = fate.is_full && !fate.has_lost;
        let has_ended = fate.alive == Some(false) && !fate.is_ended_on_purpose;
        for unused in tally.unused.iter().filter(|unused| is_whole && (!unused.is_left || has_ended)) {
            let device = |ordinal| Device { ordinal, uuid: uuid(&context.job.processes[process], ordinal) };
            let &Unused { count: mappings, bytes, start, .. } = unused;
            let (reason, confidence) = match unused.apart {
                None => (Reason::VmmNoAccess { mappings, bytes, start }, Confidence::Certain),
                // Which device uses what is not seen.
                Some(Apart { from, home }) => {
                    let (from, home) = (device(from), device(home));
                    (Reason::VmmAccess { mappings, bytes, start, from, home }, Confidence::Inferred)
                }
            };
            let (call, at) = ((unused.function, 0), (unused.site, unused.at));
            let found = PendingFinding::of(&reason, confidence, call, process as u32, at);
            all.push(PendingFinding {
                last: unused.last,
                count: unused.count,
                about: vec![(start, bytes)],
                ..found
            });
        }
    }
    all
}

/// Calls that wait for devices of a multicast object that no process of the record has added.
pub fn incomplete(context: &Context) -> Vec<PendingFinding> {
    // Else somebody may have added one without a trace.
    let is_known = |waiting: &Waiting| context.all.knows_all(context.all.realms[waiting.process]);
    let waiting = context.all.virtual_memory.waiting().into_iter().filter(is_known);
    let found = waiting.map(|waiting| {
        let reason = Reason::MulticastIncomplete { added: waiting.added, wanted: waiting.wanted };
        let has_ended = context.all.fates[waiting.process].alive == Some(false);
        let confidence = if has_ended { Confidence::Certain } else { Confidence::Inferred };
        let Waits { function, site, at } = waiting.call;
        PendingFinding::of(&reason, confidence, (function, 0), waiting.process as u32, (site, at))
    });
    found.collect()
}
