//! Findings about interprocess CUDA events: recorded without any wait, or recorded again before a process waited for the last
//! record.

use super::context::Context;
use super::objects::{export, opening};
use super::touched::{Touch, Touched};
use crate::follow::ledger::{Entry, Export, HandleDomain, Import, Time};
use crate::follow::order::{Ordering, Orders, Work};
use crate::follow::pending::PendingFinding;
use cupeer_rules::reason::{Ago, Handle, Reason};
use cupeer_rules::{Confidence, Severity};
use cupeer_spec::effect::Object;
use std::collections::{BTreeSet, HashMap};

/// The records of an event, with the times at which they began, and the waits, with the times at which they returned. Each has
/// its process.
#[derive(Default)]
struct Acts {
    records: Vec<(usize, u64)>,
    waits: Vec<(usize, u64)>,
}

pub fn found(context: &Context) -> Vec<PendingFinding> {
    let events = || context.all.ledger.exports().filter(|(entry, _)| entry.kind == Object::Event);
    if !events().any(|(entry, _)| !entry.imports.is_empty()) {
        return Vec::new();
    }
    let (acts, mut all) = (acts(context), Vec::new());
    for (entry, of) in events().filter(|(entry, _)| context.all.knows_all(entry.domain)) {
        let mut members = entry.imports.iter().map(|import| import.process).chain([of.process]);
        let is_whole = members.all(|process| context.all.stats[process].order.gaps.is_empty());
        if !is_whole {
            continue;
        }
        let Some(acts) = acts.get(&(entry.domain, entry.fingerprint)) else { continue };
        let opened = entry.imports.iter().filter_map(|import| Some((import, import.times.first()?)));
        let opened =
            opened.filter(|(import, _)| import.process != of.process).min_by_key(|(_, time)| time.opened);
        let Some(opened) = opened else { continue };
        all.extend(unwaited(context, (entry, of), opened, acts));
        all.extend(recorded_again(context, (entry, of), opened, acts));
    }
    all
}

/// Returns the records and waits of each event, by its domain and fingerprint.
fn acts(context: &Context) -> HashMap<(HandleDomain, u64), Acts> {
    let mut all = HashMap::<_, Acts>::new();
    for (process, stats) in context.all.stats.iter().enumerate() {
        let mut names = HashMap::<usize, Vec<u64>>::new();
        for (handle, event) in stats.order.handles.iter().collect::<BTreeSet<_>>() {
            names.entry(*event).or_default().push(*handle);
        }
        for step in &stats.order.all {
            let (event, is_record) = match step.orders {
                Orders::Records { event, .. } => (event, true),
                Orders::Follows { event, .. } | Orders::Completes { work: Work::Event(event), .. } => {
                    (event, false)
                }
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
fn unwaited(
    context: &Context,
    (entry, of): (&Entry, &Export),
    (import, time): (&Import, &Time),
    acts: &Acts,
) -> Option<PendingFinding> {
    let (by, at) = *acts.records.first().filter(|_| acts.waits.is_empty())?;
    let member = if by == of.process { import.process } else { of.process };
    let memories = || context.touched().iter().filter(|memory| memory.owner == of.process);
    let uses = memories().flat_map(|memory| &memory.all).filter(|it| it.process == member && it.used.at > at);
    let used = uses.min_by_key(|it| it.used.at);
    // If the process opened no memory of the same exporter, there is no use that the event could order.
    let is_open = |(entry, export): (&Entry, &Export)| {
        entry.kind != Object::Event && export.process == of.process && !entry.imports.is_empty()
    };
    if used.is_none() && !context.all.ledger.exports().any(is_open) {
        return None;
    }
    // A launched graph may wait for the event, which the recording does not show.
    let is_launched = context.job.processes[member].called().any(|id| id.spec().replays().is_some());
    let is_bad = !is_launched && memories().any(|memory| is_in_doubt(context, memory, (by, at), member));
    let reason = Reason::IpcEventUnwaited {
        handle: Handle(entry.fingerprint),
        owner: context.who(of.process),
        recorder: context.who(by),
        records: acts.records.len() as u64,
        user: used.map(|_| context.who(member)),
        after: used.map(|it| Ago(it.used.at - at)),
    };
    let found = opened_as(context, &reason, (entry, of), (import, time));
    Some(PendingFinding { raised: is_bad.then_some(Severity::Warning), ..found })
}

/// Returns true if a process used bytes of memory after an event was recorded behind unfinished work on these bytes.
fn is_in_doubt(context: &Context, memory: &Touched, (by, at): (usize, u64), member: usize) -> bool {
    let steps = &context.all.stats[by].order.all;
    let is_pending = |first: &Touch, until: u64| {
        let completes = |it: &Ordering| matches!(it.orders, Orders::Completes { .. });
        first.used.waits == Some(false)
            && !steps.iter().any(|it| completes(it) && it.after > first.used.at && it.before < until)
    };
    let before = memory.all.iter().filter(|it| it.process == by && it.used.at < at);
    let after = |first: &Touch| {
        let is_other = |it: &&Touch| it.process == member && it.used.at > at && it.overlaps(first);
        memory
            .all
            .iter()
            .find(is_other)
            .filter(|it| it.used.is_write || first.used.is_write)
            .map(|it| it.used.at)
    };
    before.into_iter().any(|first| after(first).is_some_and(|until| is_pending(first, until)))
}

/// Returns a finding about an event that only its exporter recorded, and that was recorded again before another process waited
/// for the previous record, although a process waited as often as the event was recorded.
fn recorded_again(
    context: &Context,
    (entry, of): (&Entry, &Export),
    (import, time): (&Import, &Time),
    acts: &Acts,
) -> Option<PendingFinding> {
    let own = of.process;
    let records: Vec<u64> = acts.records.iter().map(|(_, at)| *at).collect();
    if acts.records.iter().any(|(by, _)| *by != own) {
        return None;
    }
    let waits: Vec<u64> =
        acts.waits.iter().filter(|(by, _)| *by == import.process).map(|(_, at)| *at).collect();
    let is_missed =
        |pair: &&[u64]| !acts.waits.iter().any(|(by, at)| *by != own && (pair[0]..pair[1]).contains(at));
    let mut missed = records.windows(2).filter(is_missed).filter(|pair| waits.iter().any(|at| *at > pair[1]));
    let first = missed.next().filter(|_| waits.len() == records.len())?;
    let (count, last) = missed.fold((1, first[1]), |(count, _), pair| (count + 1, pair[1]));
    let wait = *waits.iter().find(|at| **at > first[1])?;
    let reason = Reason::IpcEventRecordedAgain {
        handle: Handle(entry.fingerprint),
        importer: context.who(import.process),
        apart: Ago(first[1] - first[0]),
        late: Ago(wait - first[1]),
    };
    let record = *context.all.stats[own].records.iter().find(|record| record.at == first[1])?;
    let found = PendingFinding::new(&reason, Confidence::Certain, of.process, record, 0);
    let objects = vec![export(context, entry, of), opening(entry, import.process, time)];
    Some(PendingFinding { last, count, objects, ..found })
}

/// Returns a finding about the call that opened an event.
fn opened_as(
    context: &Context,
    reason: &Reason,
    (entry, of): (&Entry, &Export),
    (import, time): (&Import, &Time),
) -> PendingFinding {
    let found = PendingFinding::new(reason, Confidence::Certain, import.process, time.call(), 0);
    PendingFinding { objects: vec![export(context, entry, of)], ..found }
}
