//! Handles that processes did not close: a note about those that were open at an exit, and a warning about those that pile up,
//! also of virtual memory that they imported. [`growth`](super::growth) decides whether they do.

use super::context::Context;
use super::growth::{LeftObject, Line, Marks};
use super::objects::{closing, opening_and_export};
use super::table::library;
use super::touched::Used;
use crate::follow::ledger::settle::ProcessEnd;
use crate::follow::ledger::{CallSite, Ended, Entry, Time};
use crate::follow::marks::Repeated;
use crate::follow::pending::PendingFinding;
use crate::follow::virtual_memory::AllocationImport;
use cupeer_report::places::{Places, Stack};
use cupeer_rules::reason::{Growth, Reason};
use cupeer_rules::{Cache, Confidence, Rule};
use cupeer_spec::effect::Object as Kind;
use std::collections::{BTreeMap, HashMap};

/// Largest number of opens of one handle that are listed one by one; if there are more, this many are chosen evenly.
const MOST_AGAIN: u64 = 64;

/// Handles that were left open, by process, kind, and stack.
type Unclosed<'a> = BTreeMap<Key, Vec<(&'a Entry, &'a Time)>>;
/// Key of a place that opened handles: process, kind of object, and stack.
type Key = (usize, Kind, Stack);

/// Finds handles that were not closed. Calls `add` with each finding.
pub fn found(context: &Context, used: &Used, places: &mut Places, add: &mut dyn FnMut(PendingFinding)) {
    let mut unclosed = Unclosed::new();
    for entry in context.all.ledger.undamaged() {
        never_closed(context, entry, &mut unclosed);
    }
    let (siblings, marks) = (siblings(context, &unclosed), context.all.marks.repeated());
    imports(context, &marks, used, add);
    for (site, open) in unclosed {
        let siblings = siblings.get(&site).map(Vec::as_slice).unwrap_or_default();
        if let Some(found) = of_site(context, places, (site.0, &open), siblings, (&marks, used)) {
            add(found);
        }
    }
}

/// Returns the marks by which growth of a process is measured: its own or, if it sets none, those of other processes, whose
/// iterations it may share.
pub fn marks_of<'m>(marks: &'m Repeated, process: usize) -> impl Iterator<Item = Marks<'m>> {
    let has_own = marks.keys().any(|(of, _)| *of == process);
    let own = marks.iter().filter(move |((of, _), _)| !has_own || *of == process);
    own.map(|(_, (like, times))| (*like, &times[..]))
}

/// Returns the growth of objects of a process.
pub fn growth<'m>(
    context: &Context,
    process: usize,
    (made, half, left): (u64, u64, &[LeftObject]),
    marks: &'m Repeated,
) -> Option<Growth<'m>> {
    let (fate, stats) = (&context.all.fates[process], &context.all.stats[process]);
    let is_whole = fate.has_all_calls() && !fate.has_gaps;
    let line = Line { made, half, left, steps: is_whole.then_some(&stats.steps), end: fate.last_seen };
    line.growth(marks_of(marks, process))
}

/// An import of virtual memory by a process.
struct Import<'a> {
    entry: &'a Entry,
    time: &'a Time,
    of: AllocationImport,
}

/// Finds virtual memory that processes imported and did not release. Only complete recordings show what was released.
fn imports(context: &Context, marks: &Repeated, used: &Used, add: &mut dyn FnMut(PendingFinding)) {
    for (process, fate) in context.all.fates.iter().enumerate() {
        if !fate.shows_what_is_left() {
            continue;
        }
        let mut sites: BTreeMap<Stack, Vec<Import>> = BTreeMap::new();
        for of in context.imports().imports(process) {
            let Some(entry) = context.all.handle(process, Kind::Allocation, of.fingerprint) else { continue };
            let times = entry.import_by(process).into_iter().flat_map(|import| &import.times);
            let time = times.min_by_key(|time| time.opened.abs_diff(of.call.at));
            if let Some(time) = time {
                sites.entry(of.call.site.stack).or_default().push(Import { entry, time, of });
            }
        }
        for mut all in sites.into_values() {
            all.sort_by_key(|import| import.of.call.at);
            let lefts: Vec<LeftObject> = lefts_of_imports(&all, process, used);
            let left: Vec<&Import> = all.iter().filter(|import| import.of.ended.is_none()).collect();
            let Some(first) = left.first() else { continue };
            let half = count_at_half(all.iter().map(|import| (import.of.call.at, import.of.ended)));
            let all_made = (all.len() as u64, half, &lefts[..]);
            let Some(growth) = growth(context, process, all_made, marks) else { continue };
            let sum = |is_counted: &dyn Fn(&AllocationImport) -> bool| {
                let counted = left.iter().filter(|import| is_counted(&import.of));
                counted.fold(0u64, |bytes, import| bytes.saturating_add(import.of.bytes))
            };
            let (handles, bytes, freed) =
                (left.len() as u64, sum(&|_| true), sum(&|of| of.freed.is_some_and(|at| is_kept(fate, at))));
            let reason = Reason::VmmLeak { handles, opened: all.len() as u64, bytes, freed, growth };
            let objects = opening_and_export(context, first.entry, process, first.time);
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
    let is_there =
        |(at, ended): &(u64, Option<u64>)| *at < middle && ended.is_none_or(|ended| ended > middle);
    all.filter(is_there).count() as u64
}

fn lefts_of_imports(all: &[Import], process: usize, used: &Used) -> Vec<LeftObject> {
    let mut before = 0;
    let left = all.iter().zip(0..).filter_map(|(import, ordinal)| {
        let at = import.of.call.at;
        let is_exchanged = import.entry.is_exported_between(before, at);
        before = at;
        let is_before = |used: &u64| import.of.idle.is_none_or(|idle| *used < idle);
        let used = used.by(process, import.entry).filter(is_before);
        import.of.ended.is_none().then_some(LeftObject {
            bytes: import.of.bytes,
            idle: import.of.idle,
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
fn never_closed<'a>(context: &Context<'a>, entry: &'a Entry, unclosed: &mut Unclosed<'a>) {
    if entry.kind.is_granted() {
        return;
    }
    for import in &entry.imports {
        let Some(time) = import.times.last().filter(|time| time.ended.is_none()) else { continue };
        let fate = &context.all.fates[import.process];
        let is_left = fate.alive.is_some() && !fate.has_lost && !time.is_kept(fate);
        if is_left && !context.all.findings.has(Rule::IpcNeverClosed, import.process) {
            unclosed
                .entry((import.process, entry.kind, time.place(entry.kind).stack))
                .or_default()
                .push((entry, time));
        }
    }
}

/// An open of a handle in a place that left a handle open.
struct Sibling<'a> {
    entry: &'a Entry,
    time: &'a Time,
    /// Time of the open.
    opened: u64,
    is_left: bool,
    is_again: bool,
}

/// Returns all opens in places that left a handle open, in the order of time.
fn siblings<'a>(context: &Context<'a>, unclosed: &Unclosed) -> HashMap<Key, Vec<Sibling<'a>>> {
    let mut all: HashMap<_, Vec<Sibling>> = unclosed.keys().map(|site| (*site, Vec::new())).collect();
    for entry in context.all.ledger.handles() {
        for (import, time) in entry.times() {
            let Some(known) = all.get_mut(&(import.process, entry.kind, time.place(entry.kind).stack)) else {
                continue;
            };
            if time.closed().is_some() || time.ended.is_none() {
                add_opens(entry, time, known);
            }
        }
    }
    all.values_mut().for_each(|siblings| siblings.sort_by_key(|sibling| sibling.opened));
    all
}

/// Adds each open of a handle in the time in which it was open. If there are very many, adds only some.
fn add_opens<'a>(entry: &'a Entry, time: &'a Time, all: &mut Vec<Sibling<'a>>) {
    let count = time.times.clamp(1, MOST_AGAIN);
    let left =
        if time.ended.is_some() { 0 } else { (time.count * count / time.times.max(1)).clamp(1, count) };
    all.extend((0..count).map(|n| {
        let later = (time.last - time.opened) as u128 * n as u128 / (count - 1).max(1) as u128;
        let is_left = (n + 1) * left / count > n * left / count;
        Sibling { entry, time, opened: time.opened + later as u64, is_left, is_again: n > 0 }
    }));
}

impl Time {
    /// Returns the call that closed the handle.
    fn closed(&self) -> Option<&Ended> {
        let is_close = |ended: &&Ended| ended.by.is_some_and(|by| by.spec().closes().is_some());
        self.ended.as_ref().filter(is_close)
    }
}

impl Entry {
    /// Returns true if the exporter exported the handle after `from` and before `to`.
    pub fn is_exported_between(&self, from: u64, to: u64) -> bool {
        let export = self.export.as_ref();
        export
            .is_some_and(|export| [export.first.at, export.last.at].iter().any(|at| from < *at && *at <= to))
    }
}

fn lefts_of_opens(siblings: &[Sibling], process: usize, used: &Used) -> Vec<LeftObject> {
    let mut before = 0;
    let left = siblings.iter().zip(0..).filter_map(|(sibling, ordinal)| {
        let Sibling { entry, time, opened: at, is_left, is_again } = *sibling;
        let is_exchanged = is_again || entry.is_exported_between(before, at);
        before = at;
        let freed = entry.export.as_ref().and_then(|export| export.ended?.at).filter(|freed| *freed > at);
        let is_counted = entry.kind != Kind::Event && time.closes.0 > 0;
        let closed_again = is_counted.then_some(time.last);
        let used = used.by(process, entry);
        let is_consumed = used.is_some() || is_again || entry.kind == Kind::Event;
        let used = used.filter(|_| !is_again).max(closed_again);
        is_left.then_some(LeftObject { bytes: 0, idle: freed, ordinal, at, used, is_exchanged, is_consumed })
    });
    left.collect()
}

/// Returns the growth of a process that never closes handles from one exporting place, although other processes of the same
/// program regularly close such handles.
fn growth_unlike_others(
    context: &Context,
    process: usize,
    (siblings, lefts): (&[Sibling], Vec<LeftObject>),
    marks: &Repeated,
) -> Option<Growth<'static>> {
    let origin = |entry: &Entry| {
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
            closed.extend(import.times.iter().filter_map(|time| time.closed()?.at));
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
        LeftObject { is_exchanged, ..left }
    });
    let lefts: Vec<LeftObject> = exchanged.collect();
    let grown = growth(context, process, (lefts.len() as u64, 0, &lefts), marks)?;
    matches!(grown, Growth::Steady).then_some(Growth::Unlike)
}

/// Returns a finding about the handles that a process opened in one place and did not close, with the call that exported
/// them, and one that closed others.
fn of_site(
    context: &Context,
    places: &mut Places,
    (process, open): (usize, &[(&Entry, &Time)]),
    siblings: &[Sibling],
    (marks, used): (&Repeated, &Used),
) -> Option<PendingFinding> {
    let (entry, time) = open.iter().min_by_key(|(_, time)| time.opened)?;
    let fate = &context.all.fates[process];
    let exported = |entry: &Entry| entry.export.as_ref().and_then(|export| export.bytes).unwrap_or(0);
    let freed_at = |entry: &Entry| entry.export.as_ref()?.ended.as_ref()?.at;
    let is_freed = |entry: &Entry| freed_at(entry).is_some_and(|at| is_kept(fate, at));
    let sum = |bytes: u64, (entry, _): &(&Entry, _)| bytes.saturating_add(exported(entry));
    let bytes = open.iter().fold(0, sum);
    let lefts = lefts_of_opens(siblings, process, used);
    let ended = |sibling: &Sibling| {
        let ended = sibling.time.ended.map(|ended| ended.at.unwrap_or(sibling.opened));
        (sibling.opened, if sibling.is_left { None } else { ended.or(Some(sibling.opened)) })
    };
    let (made, half) = (siblings.len() as u64, count_at_half(siblings.iter().map(ended)));
    let growth = growth(context, process, (made, half, &lefts), marks)
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
    let mut objects = opening_and_export(context, entry, process, time);
    let closed = siblings.iter().rev().find_map(|sibling| Some((sibling.entry, sibling.time.closed()?)));
    if let (Reason::IpcLeak { .. }, Some((entry, ended))) = (&reason, closed) {
        objects.push(closing(entry, process, ended));
    }
    let cache = cache_of(context, places, time);
    let call = CallSite { site: time.place(entry.kind), ..time.call() };
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
fn is_kept(fate: &ProcessEnd, at: u64) -> bool {
    fate.alive == Some(true) || at < fate.last_seen
}

/// Returns the cache for which a handle was opened; `None` if code without a cache opened it, too.
pub fn cache_of(context: &Context, places: &mut Places, time: &Time) -> Option<Cache> {
    let sites = [&time.site].into_iter().chain(time.again.iter().map(|again| &again.site));
    let mut caches = sites.map(|site| {
        let (place, _) = places.stack(&context.all.stacks, site.stack);
        Cache::of(library(&place).as_bytes())
    });
    let first = caches.next().flatten()?;
    caches.all(|cache| cache.is_some()).then_some(first)
}
