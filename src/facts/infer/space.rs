//! Findings about virtual memory: mappings that no device, or not every expected device, could access, and waits that
//! nothing ends.

use super::context::Context;
use crate::follow::judged::uuid_of_ordinal;
use crate::follow::memory::{DeviceWithoutAccess, UnusedMapping};
use crate::follow::pending::PendingFinding;
use crate::follow::virtual_memory::WaitingBind;
use cupeer_rules::Confidence;
use cupeer_rules::reason::{Device, Reason};

/// Returns findings about mappings without access, by process and place: mappings that ended, or whose process ended. Processes
/// that run are left out, because access may still follow, and so are incomplete recordings.
pub fn find_unused_mappings(context: &Context) -> Vec<PendingFinding> {
    let mut all = Vec::new();
    for (process, (stats, fate)) in context.all.stats.iter().zip(&context.all.fates).enumerate() {
        let is_whole = fate.has_all_calls();
        let has_ended = fate.alive == Some(false) && !fate.is_ended_on_purpose;
        for unused in stats.unused_mappings.iter().filter(|unused| is_whole && (!unused.is_left || has_ended)) {
            let device = |ordinal| Device { ordinal, uuid: uuid_of_ordinal(&context.job.processes[process], ordinal) };
            let &UnusedMapping { count: mappings, bytes, start, .. } = unused;
            let (reason, confidence) = match unused.without_access {
                None => (Reason::VmmNoAccess { mappings, bytes, start }, Confidence::Certain),
                // The recording does not show which device uses the memory.
                Some(DeviceWithoutAccess { from, home }) => {
                    let (from, home) = (device(from), device(home));
                    (Reason::VmmAccess { mappings, bytes, start, from, home }, Confidence::Inferred)
                }
            };
            let found = PendingFinding::new(&reason, confidence, process, unused.call, 0);
            all.push(PendingFinding {
                last: unused.last,
                count: unused.count,
                subjects: vec![(start, bytes)],
                ..found
            });
        }
    }
    all
}

/// Returns findings about calls that wait for devices of a multicast object that no recorded process added.
pub fn find_incomplete_multicast(context: &Context) -> Vec<PendingFinding> {
    // Otherwise, an unrecorded call may have added the device.
    let is_known = |waiting: &WaitingBind| context.all.has_all_calls_of(context.all.domains[waiting.process]);
    let waiting = context.imports().waiting_binds().into_iter().filter(is_known);
    let found = waiting.map(|waiting| {
        let reason = Reason::MulticastIncomplete { added: waiting.added, wanted: waiting.wanted };
        let has_ended = context.all.fates[waiting.process].alive == Some(false);
        let confidence = if has_ended { Confidence::Certain } else { Confidence::Inferred };
        PendingFinding::new(&reason, confidence, waiting.process, waiting.call, 0)
    });
    found.collect()
}
