//! A note about processes that failed: a process opened memory at an address where it had closed other memory. An old pointer
//! then leads to the new memory, and the driver cannot tell its use from a right one.

use super::context::Context;
use super::kinds::MergedFindings;
use super::objects::closing_object;
use super::unclosed::cache_of;
use crate::follow::ledger::{HandleEntry, ObjectEnd, OpenPeriod};
use crate::follow::pending::PendingFinding;
use cupeer_report::places::PlaceTable;
use cupeer_rules::Confidence;
use cupeer_rules::reason::{Handle, Reason};
use cupeer_spec::effect::Object as Kind;
use std::collections::BTreeMap;

/// Memory that failed processes had open, by process and address.
type OpenedMemory<'a> = BTreeMap<(usize, u64), Vec<(&'a HandleEntry, &'a OpenPeriod)>>;

/// Adds a note for each place that opened memory at a reused address. Caches drop their old pointers, so they get no note.
pub fn find_replaced(context: &Context, places: &mut PlaceTable, kinds: &mut MergedFindings) {
    let mut opened = OpenedMemory::new();
    for entry in context.all.ledger.handles().iter().filter(|entry| entry.kind == Kind::Memory) {
        for import in entry.imports.iter().filter(|it| context.all.fates[it.process].has_failed) {
            for time in &import.times {
                opened.entry((import.process, time.address)).or_default().push((entry, time));
            }
        }
    }
    for ((process, address), mut all) in opened {
        all.sort_by_key(|(_, time)| time.opened);
        for (&(before, closed), &(entry, time)) in all.iter().zip(&all[1..]) {
            let is_before = |ended: &ObjectEnd| ended.at.is_some_and(|at| at <= time.opened);
            let Some(ended) = closed.ended.filter(is_before) else { continue };
            if before.fingerprint == entry.fingerprint || cache_of(context, places, time).is_some() {
                continue;
            }
            let (handle, before_it) = (Handle(entry.fingerprint), Handle(before.fingerprint));
            let reason = Reason::IpcOpenedAtClosed { handle, address, before: before_it };
            let found = PendingFinding::new(&reason, Confidence::Inferred, process, time.first_call(), 0);
            kinds.push(PendingFinding { objects: vec![closing_object(before, process, &ended)], ..found });
        }
    }
}
