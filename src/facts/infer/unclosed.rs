//! Handles that processes did not close: a note about those that were open at an exit, and a warning about those that pile up,
//! also of virtual memory that they imported. [`growth`](super::growth) decides whether they do.

use super::context::Context;
use super::growth::{PlaceHistory, SimilarMarks, UnreleasedObject};
use super::objects::{closing_object, opening_and_export_objects};
use super::table::library_of;
use super::touched::LastUses;
use crate::follow::ledger::settle::ProcessEnd;
use crate::follow::ledger::{CallSite, HandleEntry, ObjectEnd, OpenPeriod};
use crate::follow::marks::RepeatedMarks;
use crate::follow::pending::PendingFinding;
use crate::follow::virtual_memory::AllocationImport;
use cupeer_report::places::{PlaceTable, StackNumber};
use cupeer_rules::reason::{Growth, Reason};
use cupeer_rules::{Cache, Confidence, Rule};
use cupeer_spec::effect::Object as Kind;
use std::collections::{BTreeMap, HashMap};

/// Largest number of opens of one handle that are listed one by one; if there are more, this many are chosen evenly.
const MOST_AGAIN: u64 = 64;

/// Handles that were left open, by process, kind, and stack.
type UnclosedByPlace<'a> = BTreeMap<PlaceKey, Vec<(&'a HandleEntry, &'a OpenPeriod)>>;
/// Key of a place that opened handles: process, kind of object, and stack.
type PlaceKey = (usize, Kind, StackNumber);

/// Finds handles that were not closed. Calls `add` with each finding.
pub fn find_unclosed(context: &Context, used: &LastUses, places: &mut PlaceTable, add: &mut dyn FnMut(PendingFinding)) {
    let mut unclosed = UnclosedByPlace::new();
    for entry in context.all.ledger.undamaged_handles() {
        add_never_closed(context, entry, &mut unclosed);
    }
    let (siblings, marks) = (opens_in_places(context, &unclosed), context.all.marks.group_repeated());
    find_unreleased_imports(context, &marks, used, add);
    for (site, open) in unclosed {
        let siblings = siblings.get(&site).map(Vec::as_slice).unwrap_or_default();
        if let Some(found) = finding_of_place(context, places, (site.0, &open), siblings, (&marks, used)) {
            add(found);
        }
    }
}

/// Returns the marks by which growth of a process is measured: its own or, if it sets none, those of other processes, whose
/// iterations it may share.
pub fn marks_of<'m>(marks: &'m RepeatedMarks, process: usize) -> impl Iterator<Item = SimilarMarks<'m>> {
    let has_own = marks.keys().any(|(of, _)| *of == process);
    let own = marks.iter().filter(move |((of, _), _)| !has_own || *of == process);
    own.map(|(_, (like, times))| (*like, &times[..]))
}

/// Returns the growth of objects of a process.
pub fn growth_of_objects<'m>(
    context: &Context,
    process: usize,
    (made, half, left): (u64, u64, &[UnreleasedObject]),
    marks: &'m RepeatedMarks,
) -> Option<Growth<'m>> {
    let (fate, stats) = (&context.all.fates[process], &context.all.stats[process]);
    let is_whole = fate.has_all_calls() && !fate.has_gaps;
    let line = PlaceHistory { made, half, left, steps: is_whole.then_some(&stats.steps), end: fate.last_seen };
    line.find_growth(marks_of(marks, process))
}

/// An import of virtual memory by a process.
struct MatchedImport<'a> {
    entry: &'a HandleEntry,
    time: &'a OpenPeriod,
    of: AllocationImport,
}

/// Finds virtual memory that processes imported and did not release. Only complete recordings show what was released.
fn find_unreleased_imports(
    context: &Context,
    marks: &RepeatedMarks,
    used: &LastUses,
    add: &mut dyn FnMut(PendingFinding),
) {
    for (process, fate) in context.all.fates.iter().enumerate() {
        if !fate.shows_leaks() {
            continue;
        }
        let mut sites: BTreeMap<StackNumber, Vec<MatchedImport>> = BTreeMap::new();
        for of in context.imports().imports_of(process) {
            let Some(entry) = context.all.find_handle(process, Kind::Allocation, of.fingerprint) else {
                continue;
            };
            let times = entry.import_by(process).into_iter().flat_map(|import| &import.times);
            let time = times.min_by_key(|time| time.opened.abs_diff(of.call.at));
            if let Some(time) = time {
                sites.entry(of.call.site.stack).or_default().push(MatchedImport { entry, time, of });
            }
        }
        for mut all in sites.into_values() {
            all.sort_by_key(|import| import.of.call.at);
            let lefts: Vec<UnreleasedObject> = left_imports(&all, process, used);
            let left: Vec<&MatchedImport> = all.iter().filter(|import| import.of.ended.is_none()).collect();
            let Some(first) = left.first() else { continue };
            let half = count_at_half(all.iter().map(|import| (import.of.call.at, import.of.ended)));
            let all_made = (all.len() as u64, half, &lefts[..]);
            let Some(growth) = growth_of_objects(context, process, all_made, marks) else { continue };
            let sum = |is_counted: &dyn Fn(&AllocationImport) -> bool| {
                let counted = left.iter().filter(|import| is_counted(&import.of));
                counted.fold(0u64, |bytes, import| bytes.saturating_add(import.of.bytes))
            };
            let (handles, bytes, freed) = (
                left.len() as u64,
                sum(&|_| true),
                sum(&|of| of.given_up_at.is_some_and(|at| was_open_after(fate, at))),
            );
            let reason = Reason::VmmLeak { handles, opened: all.len() as u64, bytes, freed, growth };
            let objects = opening_and_export_objects(context, first.entry, process, first.time);
            let last = left.last().map_or(first.of.call.at, |import| import.of.call.at);
            let (function, site) = (first.time.function, first.of.call.site);
            let call = CallSite { function, site, at: first.of.call.at };
            let found = PendingFinding::new(&reason, Confidence::Certain, process, call, 0);
            add(PendingFinding { last, count: handles, objects, ..found });
        }
    }
}

/// Returns the number of objects that existed when half of all objects had been made. Each object is a creation and a release
/// time.
fn count_at_half(all: impl ExactSizeIterator<Item = (u64, Option<u64>)> + Clone) -> u64 {
    let middle = all.clone().nth(all.len() / 2).map_or(0, |(at, _)| at);
    let is_there = |(at, ended): &(u64, Option<u64>)| *at < middle && ended.is_none_or(|ended| ended > middle);
    all.filter(is_there).count() as u64
}

fn left_imports(all: &[MatchedImport], process: usize, used: &LastUses) -> Vec<UnreleasedObject> {
    let mut before = 0;
    let left = all.iter().zip(0..).filter_map(|(import, ordinal)| {
        let at = import.of.call.at;
        let is_exchanged = import.entry.is_exported_between(before, at);
        before = at;
        let is_before = |used: &u64| import.of.unmapped_since.is_none_or(|idle| *used < idle);
        let used = used.last_use_by(process, import.entry).filter(is_before);
        import.of.ended.is_none().then_some(UnreleasedObject {
            bytes: import.of.bytes,
            idle: import.of.unmapped_since,
            is_consumed: used.is_some(),
            ordinal,
            at,
            used,
            is_exchanged,
        })
    });
    left.collect()
}

/// Adds the opens of a handle that were not closed, except for those about which a process recorded a finding itself.
fn add_never_closed<'a>(context: &Context<'a>, entry: &'a HandleEntry, unclosed: &mut UnclosedByPlace<'a>) {
    if entry.kind.needs_granted_access() {
        return;
    }
    for import in &entry.imports {
        let Some(time) = import.times.last().filter(|time| time.ended.is_none()) else { continue };
        let fate = &context.all.fates[import.process];
        let is_left = fate.alive.is_some() && !fate.has_lost && !time.is_kept_by_fault_plan(fate);
        if is_left && !context.all.findings.has_finding_of(Rule::IpcNeverClosed, import.process) {
            unclosed
                .entry((import.process, entry.kind, time.place_with_most_open(entry.kind).stack))
                .or_default()
                .push((entry, time));
        }
    }
}

/// An open of a handle in a place that left a handle open.
struct OpenInPlace<'a> {
    entry: &'a HandleEntry,
    time: &'a OpenPeriod,
    /// Time of the open.
    opened: u64,
    is_left: bool,
    is_again: bool,
}

/// Returns all opens in places that left a handle open, in the order of time.
fn opens_in_places<'a>(context: &Context<'a>, unclosed: &UnclosedByPlace) -> HashMap<PlaceKey, Vec<OpenInPlace<'a>>> {
    let mut all: HashMap<_, Vec<OpenInPlace>> = unclosed.keys().map(|site| (*site, Vec::new())).collect();
    for entry in context.all.ledger.handles() {
        for (import, time) in entry.open_periods() {
            let Some(known) = all.get_mut(&(import.process, entry.kind, time.place_with_most_open(entry.kind).stack))
            else {
                continue;
            };
            if time.closing_end().is_some() || time.ended.is_none() {
                add_opens(entry, time, known);
            }
        }
    }
    all.values_mut().for_each(|siblings| siblings.sort_by_key(|sibling| sibling.opened));
    all
}

/// Adds each open of a handle in the time in which it was open. If there are very many, adds only some.
fn add_opens<'a>(entry: &'a HandleEntry, time: &'a OpenPeriod, all: &mut Vec<OpenInPlace<'a>>) {
    let count = time.times.clamp(1, MOST_AGAIN);
    let left = if time.ended.is_some() { 0 } else { (time.count * count / time.times.max(1)).clamp(1, count) };
    all.extend((0..count).map(|n| {
        let later = (time.last - time.opened) as u128 * n as u128 / (count - 1).max(1) as u128;
        let is_left = (n + 1) * left / count > n * left / count;
        OpenInPlace { entry, time, opened: time.opened + later as u64, is_left, is_again: n > 0 }
    }));
}

impl OpenPeriod {
    /// Returns the call that closed the handle.
    fn closing_end(&self) -> Option<&ObjectEnd> {
        let is_close = |ended: &&ObjectEnd| ended.by.is_some_and(|by| by.spec().closes().is_some());
        self.ended.as_ref().filter(is_close)
    }
}

impl HandleEntry {
    /// Returns true if the exporter exported the handle after `from` and before `to`.
    pub fn is_exported_between(&self, from: u64, to: u64) -> bool {
        let export = self.export.as_ref();
        export.is_some_and(|export| [export.first.at, export.last.at].iter().any(|at| from < *at && *at <= to))
    }
}

fn left_opens(siblings: &[OpenInPlace], process: usize, used: &LastUses) -> Vec<UnreleasedObject> {
    let mut before = 0;
    let left = siblings.iter().zip(0..).filter_map(|(sibling, ordinal)| {
        let OpenInPlace { entry, time, opened: at, is_left, is_again } = *sibling;
        let is_exchanged = is_again || entry.is_exported_between(before, at);
        before = at;
        let freed = entry.export.as_ref().and_then(|export| export.ended?.at).filter(|freed| *freed > at);
        let is_counted = entry.kind != Kind::Event && time.closes.0 > 0;
        let closed_again = is_counted.then_some(time.last);
        let used = used.last_use_by(process, entry);
        let is_consumed = used.is_some() || is_again || entry.kind == Kind::Event;
        let used = used.filter(|_| !is_again).max(closed_again);
        is_left.then_some(UnreleasedObject { bytes: 0, idle: freed, ordinal, at, used, is_exchanged, is_consumed })
    });
    left.collect()
}

/// Returns the growth of a process that never closes handles from one exporting place, although other processes of the same
/// program regularly close such handles.
fn growth_unlike_others(
    context: &Context,
    process: usize,
    (siblings, lefts): (&[OpenInPlace], Vec<UnreleasedObject>),
    marks: &RepeatedMarks,
) -> Option<Growth<'static>> {
    let origin = |entry: &HandleEntry| {
        let export = entry.export.as_ref()?;
        Some((entry.kind, export.process, export.first.site.stack))
    };
    let its = origin(siblings.first()?.entry).filter(|_| lefts.len() == siblings.len())?;
    let program = |process: usize| context.job.processes[process].program();
    let mut others = vec![(Vec::new(), Vec::new()); context.all.fates.len()];
    for entry in context.all.ledger.handles().iter().filter(|entry| origin(entry) == Some(its)) {
        for import in entry.imports.iter().filter(|import| program(import.process) == program(process)) {
            let (opened, closed) = &mut others[import.process];
            opened.extend(import.times.iter().map(|time| time.opened));
            closed.extend(import.times.iter().filter_map(|time| time.closing_end()?.at));
        }
    }
    others.swap_remove(process);
    others.retain(|(opened, _)| !opened.is_empty());
    let closes_all_along = |(opened, closed): &(Vec<u64>, Vec<u64>)| {
        let newest = opened.iter().max();
        let meanwhile = closed.iter().filter(|at| Some(*at) < newest).count();
        closed.len() * 10 >= opened.len() * 9 && meanwhile * 2 >= opened.len()
    };
    if others.is_empty() || !others.iter().all(closes_all_along) {
        return None;
    }
    let mut closed: Vec<u64> = others.into_iter().flat_map(|(_, closed)| closed).collect();
    closed.sort_unstable();
    let mut before = 0;
    let exchanged = lefts.into_iter().map(|left| {
        let next = closed.partition_point(|at| *at < before);
        let is_exchanged = closed.get(next).is_some_and(|at| *at < left.at);
        before = left.at;
        UnreleasedObject { is_exchanged, ..left }
    });
    let lefts: Vec<UnreleasedObject> = exchanged.collect();
    let grown = growth_of_objects(context, process, (lefts.len() as u64, 0, &lefts), marks)?;
    matches!(grown, Growth::PerExchange).then_some(Growth::UnlikeOtherProcesses)
}

/// Returns a finding about the handles that a process opened in one place and did not close, with the call that exported
/// them, and one that closed others.
fn finding_of_place(
    context: &Context,
    places: &mut PlaceTable,
    (process, open): (usize, &[(&HandleEntry, &OpenPeriod)]),
    siblings: &[OpenInPlace],
    (marks, used): (&RepeatedMarks, &LastUses),
) -> Option<PendingFinding> {
    let (entry, time) = open.iter().min_by_key(|(_, time)| time.opened)?;
    let fate = &context.all.fates[process];
    let exported = |entry: &HandleEntry| entry.export.as_ref().and_then(|export| export.bytes).unwrap_or(0);
    let freed_at = |entry: &HandleEntry| entry.export.as_ref()?.ended.as_ref()?.at;
    let is_freed = |entry: &HandleEntry| freed_at(entry).is_some_and(|at| was_open_after(fate, at));
    let sum = |bytes: u64, (entry, _): &(&HandleEntry, _)| bytes.saturating_add(exported(entry));
    let bytes = open.iter().fold(0, sum);
    let lefts = left_opens(siblings, process, used);
    let ended = |sibling: &OpenInPlace| {
        let ended = sibling.time.ended.map(|ended| ended.at.unwrap_or(sibling.opened));
        (sibling.opened, if sibling.is_left { None } else { ended.or(Some(sibling.opened)) })
    };
    let (made, half) = (siblings.len() as u64, count_at_half(siblings.iter().map(ended)));
    let growth = growth_of_objects(context, process, (made, half, &lefts), marks)
        .or_else(|| growth_unlike_others(context, process, (siblings, lefts), marks));
    let reason = match growth {
        Some(growth) => {
            let freed = open.iter().filter(|(entry, _)| is_freed(entry)).fold(0, sum);
            let first = siblings.iter().filter(|sibling| !sibling.is_again);
            let opened = first.map(|sibling| sibling.time.times.max(1)).sum();
            let handles = open.iter().map(|(_, time)| time.count.max(1)).sum();
            Reason::IpcLeak { handles, opened, bytes, freed, growth }
        }
        // A running process may still need its open handles, so there is no note.
        None if fate.alive == Some(true) => return None,
        None => Reason::IpcNeverClosed { handles: open.len() as u64, bytes },
    };
    let mut objects = opening_and_export_objects(context, entry, process, time);
    let closed = siblings.iter().rev().find_map(|sibling| Some((sibling.entry, sibling.time.closing_end()?)));
    if let (Reason::IpcLeak { .. }, Some((entry, ended))) = (&reason, closed) {
        objects.push(closing_object(entry, process, ended));
    }
    let cache = cache_of(context, places, time);
    let call = CallSite { site: time.place_with_most_open(entry.kind), ..time.first_call() };
    let count = match reason {
        Reason::IpcLeak { handles, .. } => handles,
        _ => open.len() as u64,
    };
    Some(PendingFinding {
        last: open.iter().map(|(_, time)| time.last).max().unwrap_or(time.opened),
        count,
        objects,
        ..PendingFinding::new(&reason, Confidence::Certain, process, call, 0).with_cache(cache)
    })
}

/// Returns true if a process still had a handle open after its owner gave it up at a time.
fn was_open_after(fate: &ProcessEnd, at: u64) -> bool {
    fate.alive == Some(true) || at < fate.last_seen
}

/// Returns the cache for which a handle was opened; `None` if code without a cache opened it, too.
pub fn cache_of(context: &Context, places: &mut PlaceTable, time: &OpenPeriod) -> Option<Cache> {
    let sites = [&time.site].into_iter().chain(time.opens_elsewhere.iter().map(|again| &again.site));
    let mut caches = sites.map(|site| {
        let (place, _) = places.place_and_stack(&context.all.stacks, site.stack);
        Cache::of(library_of(&place).as_bytes())
    });
    let first = caches.next().flatten()?;
    caches.all(|cache| cache.is_some()).then_some(first)
}
