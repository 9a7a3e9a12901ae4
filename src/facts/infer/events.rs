//! Findings about interprocess CUDA events: recorded without any wait, or recorded again before a process waited for the last
//! record.

use super::context::Context;
use super::objects::{export_object, opening_object};
use super::touched::{ProcessUse, UsedMemory};
use crate::follow::ledger::{Export, HandleDomain, HandleEntry, Import, OpenPeriod};
use crate::follow::order::{AwaitedWork, OrderEffect, OrderingCall};
use crate::follow::pending::PendingFinding;
use cupeer_rules::reason::{Ago, Handle, Reason};
use cupeer_rules::{Confidence, Severity};
use cupeer_spec::effect::Object;
use std::collections::{BTreeSet, HashMap};

/// The calls that record an event, with the times at which they began, and those that wait for it, with the times at
/// which they returned. Each has its process.
#[derive(Default)]
struct RecordsAndWaits {
    records: Vec<(usize, u64)>,
    waits: Vec<(usize, u64)>,
}

pub fn find_event_misuse(context: &Context) -> Vec<PendingFinding> {
    let events = || context.all.ledger.undamaged_exports().filter(|(entry, _)| entry.kind == Object::Event);
    if !events().any(|(entry, _)| !entry.imports.is_empty()) {
        return Vec::new();
    }
    let (acts, mut all) = (records_and_waits(context), Vec::new());
    for (entry, of) in events().filter(|(entry, _)| context.all.has_all_calls_of(entry.domain)) {
        let mut members = entry.imports.iter().map(|import| import.process).chain([of.process]);
        let is_whole = members.all(|process| context.all.stats[process].order.gaps.is_empty());
        if !is_whole {
            continue;
        }
        let Some(acts) = acts.get(&(entry.domain, entry.fingerprint)) else { continue };
        let opened = entry.imports.iter().filter_map(|import| Some((import, import.times.first()?)));
        let opened = opened.filter(|(import, _)| import.process != of.process).min_by_key(|(_, time)| time.opened);
        let Some(opened) = opened else { continue };
        all.extend(find_unwaited(context, (entry, of), opened, acts));
        all.extend(find_recorded_again(context, (entry, of), opened, acts));
    }
    all
}

/// Returns the records and waits of each event, by its domain and fingerprint.
fn records_and_waits(context: &Context) -> HashMap<(HandleDomain, u64), RecordsAndWaits> {
    let mut all = HashMap::<_, RecordsAndWaits>::new();
    for (process, stats) in context.all.stats.iter().enumerate() {
        let mut names = HashMap::<usize, Vec<u64>>::new();
        for (handle, event) in stats.order.event_handles.iter().collect::<BTreeSet<_>>() {
            names.entry(*event).or_default().push(*handle);
        }
        for step in &stats.order.all {
            let (event, is_record) = match step.orders {
                OrderEffect::RecordsEvent { event, .. } => (event, true),
                OrderEffect::WaitsForEvent { event, .. }
                | OrderEffect::Completes { work: AwaitedWork::Event(event), .. } => (event, false),
                _ => continue,
            };
            for handle in names.get(&event).into_iter().flatten() {
                let acts = all.entry((context.all.domains[process], *handle)).or_default();
                match is_record {
                    true => acts.records.push((process, step.before)),
                    false => acts.waits.push((process, step.after)),
                }
            }
        }
    }
    for acts in all.values_mut() {
        acts.records.sort_by_key(|(_, at)| *at);
        acts.waits.sort_by_key(|(_, at)| *at);
    }
    all
}

/// Returns a finding about an event that was recorded, and that no process waited for.
fn find_unwaited(
    context: &Context,
    (entry, of): (&HandleEntry, &Export),
    (import, time): (&Import, &OpenPeriod),
    acts: &RecordsAndWaits,
) -> Option<PendingFinding> {
    let (by, at) = *acts.records.first().filter(|_| acts.waits.is_empty())?;
    let member = if by == of.process { import.process } else { of.process };
    let memories = || context.used_memories().iter().filter(|memory| memory.owner == of.process);
    let uses = memories().flat_map(|memory| &memory.all).filter(|it| it.process == member && it.used.at > at);
    let used = uses.min_by_key(|it| it.used.at);
    // If the process opened no memory of the same exporter, there is no use that the event could order.
    let is_open = |(entry, export): (&HandleEntry, &Export)| {
        entry.kind != Object::Event && export.process == of.process && !entry.imports.is_empty()
    };
    if used.is_none() && !context.all.ledger.undamaged_exports().any(is_open) {
        return None;
    }
    // A launched graph may wait for the event, which the recording does not show.
    let is_launched = context.job.processes[member].called_functions().any(|id| id.spec().replays().is_some());
    let is_bad = !is_launched && memories().any(|memory| is_order_in_doubt(context, memory, (by, at), member));
    let reason = Reason::IpcEventUnwaited {
        handle: Handle(entry.fingerprint),
        owner: context.named_process(of.process),
        recorder: context.named_process(by),
        records: acts.records.len() as u64,
        user: used.map(|_| context.named_process(member)),
        after: used.map(|it| Ago(it.used.at - at)),
    };
    let found = finding_about_opening(context, &reason, (entry, of), (import, time));
    Some(PendingFinding { lowest_severity: is_bad.then_some(Severity::Warning), ..found })
}

/// Returns true if a process used bytes of memory after an event was recorded behind unfinished work on these bytes.
fn is_order_in_doubt(context: &Context, memory: &UsedMemory, (by, at): (usize, u64), member: usize) -> bool {
    let steps = &context.all.stats[by].order.all;
    let is_pending = |first: &ProcessUse, until: u64| {
        let completes = |it: &OrderingCall| matches!(it.orders, OrderEffect::Completes { .. });
        first.used.is_done_on_return == Some(false)
            && !steps.iter().any(|it| completes(it) && it.after > first.used.at && it.before < until)
    };
    let before = memory.all.iter().filter(|it| it.process == by && it.used.at < at);
    let after = |first: &ProcessUse| {
        let is_other = |it: &&ProcessUse| it.process == member && it.used.at > at && it.overlaps(first);
        memory.all.iter().find(is_other).filter(|it| it.used.is_write || first.used.is_write).map(|it| it.used.at)
    };
    before.into_iter().any(|first| after(first).is_some_and(|until| is_pending(first, until)))
}

/// Returns a finding about an event that only its exporter recorded, and that was recorded again before another process waited
/// for the previous record, although a process waited as often as the event was recorded.
fn find_recorded_again(
    context: &Context,
    (entry, of): (&HandleEntry, &Export),
    (import, time): (&Import, &OpenPeriod),
    acts: &RecordsAndWaits,
) -> Option<PendingFinding> {
    let own = of.process;
    let records: Vec<u64> = acts.records.iter().map(|(_, at)| *at).collect();
    if acts.records.iter().any(|(by, _)| *by != own) {
        return None;
    }
    let waits: Vec<u64> = acts.waits.iter().filter(|(by, _)| *by == import.process).map(|(_, at)| *at).collect();
    let is_missed = |pair: &&[u64]| !acts.waits.iter().any(|(by, at)| *by != own && (pair[0]..pair[1]).contains(at));
    let mut missed = records.windows(2).filter(is_missed).filter(|pair| waits.iter().any(|at| *at > pair[1]));
    let first = missed.next().filter(|_| waits.len() == records.len())?;
    let (count, last) = missed.fold((1, first[1]), |(count, _), pair| (count + 1, pair[1]));
    let wait = *waits.iter().find(|at| **at > first[1])?;
    let reason = Reason::IpcEventRecordedAgain {
        handle: Handle(entry.fingerprint),
        importer: context.named_process(import.process),
        apart: Ago(first[1] - first[0]),
        late: Ago(wait - first[1]),
    };
    let record = *context.all.stats[own].event_records.iter().find(|record| record.at == first[1])?;
    let found = PendingFinding::new(&reason, Confidence::Certain, of.process, record, 0);
    let objects = vec![export_object(context, entry, of), opening_object(entry, import.process, time)];
    Some(PendingFinding { last, count, objects, ..found })
}

/// Returns a finding about the call that opened an event.
fn finding_about_opening(
    context: &Context,
    reason: &Reason,
    (entry, of): (&HandleEntry, &Export),
    (import, time): (&Import, &OpenPeriod),
) -> PendingFinding {
    let found = PendingFinding::new(reason, Confidence::Certain, import.process, time.first_call(), 0);
    PendingFinding { objects: vec![export_object(context, entry, of)], ..found }
}
