//! Findings about virtual memory: mappings that no device, or not every expected device, could access, and waits that
//! nothing ends.

use super::context::Context;
use crate::follow::judged::uuid;
use crate::follow::memory::{Apart, Unused};
use crate::follow::pending::PendingFinding;
use crate::follow::virtual_memory::Waiting;
use cupeer_rules::Confidence;
use cupeer_rules::reason::{Device, Reason};

/// Returns findings about mappings without access, by process and place: mappings that ended, or whose process ended. Processes
/// that run are left out, because access may still follow, and so are incomplete recordings.
pub fn unused(context: &Context) -> Vec<PendingFinding> {
    let mut all = Vec::new();
    for (process, (stats, fate)) in context.all.stats.iter().zip(&context.all.fates).enumerate() {
        let is_whole = fate.has_all_calls();
        let has_ended = fate.alive == Some(false) && !fate.is_ended_on_purpose;
        for unused in stats.unused.iter().filter(|unused| is_whole && (!unused.is_left || has_ended)) {
            let device = |ordinal| Device { ordinal, uuid: uuid(&context.job.processes[process], ordinal) };
            let &Unused { count: mappings, bytes, start, .. } = unused;
            let (reason, confidence) = match unused.apart {
                None => (Reason::VmmNoAccess { mappings, bytes, start }, Confidence::Certain),
                // The recording does not show which device uses the memory.
                Some(Apart { from, home }) => {
                    let (from, home) = (device(from), device(home));
                    (Reason::VmmAccess { mappings, bytes, start, from, home }, Confidence::Inferred)
                }
            };
            let found = PendingFinding::new(&reason, confidence, process, unused.call, 0);
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

/// Returns findings about calls that wait for devices of a multicast object that no recorded process added.
pub fn incomplete(context: &Context) -> Vec<PendingFinding> {
    // Otherwise, an unrecorded call may have added the device.
    let is_known = |waiting: &Waiting| context.all.knows_all(context.all.domains[waiting.process]);
    let waiting = context.imports().waiting().into_iter().filter(is_known);
    let found = waiting.map(|waiting| {
        let reason = Reason::MulticastIncomplete { added: waiting.added, wanted: waiting.wanted };
        let has_ended = context.all.fates[waiting.process].alive == Some(false);
        let confidence = if has_ended { Confidence::Certain } else { Confidence::Inferred };
        PendingFinding::new(&reason, confidence, waiting.process, waiting.call, 0)
    });
    found.collect()
}
