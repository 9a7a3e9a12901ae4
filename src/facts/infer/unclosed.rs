//! Handles that processes did not close: a note about those that were open at an exit, and a warning about those that pile up,
//! also of virtual memory that they imported.
//!
//! Three patterns are leaks. A place closes most handles and leaves some open, from beginning to end. Open handles
//! become more from one mark to the next of a program that marks its iterations. Or they become more over minutes. Handles that a
//! process holds from its start, and the newest ones, are no leak.

use super::context::Context;
use super::objects::{closing, export, opening};
use super::table::library;
use crate::follow::ledger::settle::Fate;
use crate::follow::ledger::{Ended, Entry, Time};
use crate::follow::marks::Repeated;
use crate::follow::pending::PendingFinding;
use crate::follow::virtual_memory::Imported;
use cupeer_report::places::{Places, Stack};
use cupeer_rules::reason::{Growth, Reason};
use cupeer_rules::{Cache, Confidence, Rule};
use cupeer_spec::effect::Object as Kind;
use std::collections::{BTreeMap, HashMap};

/// How many handles have to be left open by a place that closes others before it is a leak.
const LEAST_LEAKED: usize = 3;
/// After how many marks handles have to be left open.
const LEAST_MARKS: usize = 4;
/// Over how long, and how many, where a program sets no marks.
const LEAST_TIME: u64 = 60_000_000_000;
const LEAST_OVER_TIME: usize = 16;
/// In how many parts of that time, and how many of these may be without any.
const PARTS: u64 = 8;
const PARTS_WITHOUT: usize = 1;
/// The most characters of a mark that a sentence has.
const LONGEST_MARK: usize = 40;

/// What was left open, by process and stack.
type Unclosed<'a> = BTreeMap<(u32, Stack), Vec<(&'a Entry, &'a Time)>>;

/// Gives each finding to `add`.
pub fn found(context: &Context, places: &mut Places, add: &mut dyn FnMut(PendingFinding)) {
    let ledger = &context.all.ledger;
    let mut unclosed = Unclosed::new();
    for entry in ledger.handles().iter().filter(|entry| !ledger.damage.is_of(entry)) {
        never_closed(context, entry, &mut unclosed);
    }
    let (siblings, marks) = (siblings(context, &unclosed), context.all.marks.repeated());
    imports(context, &marks, add);
    for (site, open) in unclosed {
        let siblings = siblings.get(&site).map(Vec::as_slice).unwrap_or_default();
        if let Some(found) = of_site(context, places, (site.0, &open), (siblings, &marks)) {
            add(found);
        }
    }
}

/// An import that a process made in one place.
struct Import<'a> {
    entry: &'a Entry,
    time: &'a Time,
    of: Imported,
}

/// Virtual memory that processes imported and did not give up. What a call released, only a whole record tells.
fn imports(context: &Context, marks: &Repeated, add: &mut dyn FnMut(PendingFinding)) {
    let joined = context.all.virtual_memory.joined();
    for (process, fate) in context.all.fates.iter().enumerate() {
        if fate.alive.is_none() || !fate.is_full || fate.has_lost || fate.is_ended_on_purpose {
            continue;
        }
        let mut sites: BTreeMap<Stack, Vec<Import>> = BTreeMap::new();
        for of in joined.imports(process) {
            let realm = context.all.realms[process];
            let Some(entry) = context.all.ledger.handle(realm, Kind::Allocation, of.fingerprint) else {
                continue;
            };
            let own = entry.imports.iter().filter(|import| import.process as usize == process);
            let time = own.flat_map(|import| &import.times).min_by_key(|time| time.opened.abs_diff(of.since));
            if let Some(time) = time {
                sites.entry(time.site.stack).or_default().push(Import { entry, time, of });
            }
        }
        for mut all in sites.into_values() {
            all.sort_by_key(|import| import.of.since);
            let opened: Vec<(u64, bool)> = all.iter().map(|one| (one.of.since, one.of.is_left)).collect();
            let left: Vec<&Import> = all.iter().filter(|import| import.of.is_left).collect();
            let Some(first) = left.first() else { continue };
            let Some(growth) = growth(&opened, process as u32, fate, marks) else { continue };
            let sum = |is_counted: &dyn Fn(&Imported) -> bool| {
                let counted = left.iter().filter(|import| is_counted(&import.of));
                counted.fold(0u64, |bytes, import| bytes.saturating_add(import.of.bytes))
            };
            let (handles, bytes, freed) =
                (left.len() as u64, sum(&|_| true), sum(&|of| of.freed.is_some_and(|at| is_kept(fate, at))));
            let reason = Reason::VmmLeak { handles, opened: all.len() as u64, bytes, freed, growth };
            let mut objects = vec![opening(first.entry, process as u32, first.time)];
            objects.extend(first.entry.export.iter().map(|of| export(context, first.entry, of)));
            let last = left.last().map_or(first.of.since, |import| import.of.since);
            let (call, at) = ((first.time.function, 0), (first.time.site, first.of.since));
            let found = PendingFinding::of(&reason, Confidence::Certain, call, process as u32, at);
            add(PendingFinding { last, count: handles, objects, ..found });
        }
    }
}

/// Adds what processes have not closed of a handle, where they have not said so themselves.
fn never_closed<'a>(context: &Context<'a>, entry: &'a Entry, unclosed: &mut Unclosed<'a>) {
    if entry.kind.is_granted() {
        return;
    }
    for import in &entry.imports {
        let Some(time) = import.times.last().filter(|time| time.ended.is_none()) else { continue };
        let fate = &context.all.fates[import.process as usize];
        let is_left = fate.alive.is_some() && !fate.has_lost && !time.is_kept(fate);
        if is_left && !context.all.findings.has(Rule::IpcNeverClosed, import.process as usize) {
            unclosed.entry((import.process, time.site.stack)).or_default().push((entry, time));
        }
    }
}

/// A handle that was opened in the same place as one that was left open.
struct Sibling<'a> {
    opened: u64,
    /// Where the process closed it; `None` if it was left open, too.
    closed: Option<(&'a Entry, &'a Ended)>,
}

impl Sibling<'_> {
    fn is_left(&self) -> bool {
        self.closed.is_none()
    }
}

/// All handles that were opened where one was left open, in the order in which they were opened.
fn siblings<'a>(context: &Context<'a>, unclosed: &Unclosed) -> HashMap<(u32, Stack), Vec<Sibling<'a>>> {
    let mut all: HashMap<_, Vec<Sibling>> = unclosed.keys().map(|site| (*site, Vec::new())).collect();
    for entry in context.all.ledger.handles() {
        for (import, time) in
            entry.imports.iter().flat_map(|import| import.times.iter().map(move |time| (import, time)))
        {
            let Some(known) = all.get_mut(&(import.process, time.site.stack)) else { continue };
            let is_close = |ended: &&Ended| ended.by.is_some_and(|by| by.spec().closes().is_some());
            let closed = time.ended.as_ref().filter(is_close);
            if closed.is_some() || time.ended.is_none() {
                known.push(Sibling { opened: time.opened, closed: closed.map(|ended| (entry, ended)) });
            }
        }
    }
    all.values_mut().for_each(|siblings| siblings.sort_by_key(|sibling| sibling.opened));
    all
}

/// What a process had opened in one place and did not close: with the place of the export, and the one that closed others.
fn of_site(
    context: &Context,
    places: &mut Places,
    (process, open): (u32, &[(&Entry, &Time)]),
    (siblings, marks): (&[Sibling], &Repeated),
) -> Option<PendingFinding> {
    let (entry, time) = open.iter().min_by_key(|(_, time)| time.opened)?;
    let fate = &context.all.fates[process as usize];
    let exported = |entry: &Entry| entry.export.as_ref().and_then(|export| export.bytes).unwrap_or(0);
    let freed_at = |entry: &Entry| entry.export.as_ref()?.ended.as_ref()?.at;
    let is_freed = |entry: &Entry| freed_at(entry).is_some_and(|at| is_kept(fate, at));
    let sum = |bytes: u64, (entry, _): &(&Entry, _)| bytes.saturating_add(exported(entry));
    let (handles, bytes) = (open.len() as u64, open.iter().fold(0, sum));
    let times: Vec<(u64, bool)> = siblings.iter().map(|one| (one.opened, one.is_left())).collect();
    let reason = match growth(&times, process, fate, marks) {
        Some(growth) => {
            let freed = open.iter().filter(|(entry, _)| is_freed(entry)).fold(0, sum);
            Reason::IpcLeak { handles, opened: siblings.len() as u64, bytes, freed, growth }
        }
        // What a process has open while it runs it may need.
        None if fate.alive == Some(true) => return None,
        None => Reason::IpcNeverClosed { handles, bytes },
    };
    let mut objects = vec![opening(entry, process, time)];
    objects.extend(entry.export.iter().map(|of| export(context, entry, of)));
    if let (Reason::IpcLeak { .. }, Some((entry, ended))) =
        (&reason, siblings.iter().rev().find_map(|sibling| sibling.closed))
    {
        objects.push(closing(entry, process, ended));
    }
    let cache = cache_of(context, places, time);
    let (call, at) = ((time.function, 0), (time.site, time.opened));
    Some(PendingFinding {
        last: open.iter().map(|(_, time)| time.opened).max().unwrap_or(time.opened),
        count: handles,
        objects,
        ..PendingFinding::of(&reason, Confidence::Certain, call, process, at).with_cache(cache)
    })
}

/// Whether a process kept what it left open beyond a time, when its owner gave it up.
fn is_kept(fate: &Fate, at: u64) -> bool {
    fate.alive == Some(true) || at < fate.last_seen
}

/// The cache for which something was opened; `None` where a library that has none has opened it, too.
pub fn cache_of(context: &Context, places: &mut Places, time: &Time) -> Option<Cache> {
    let sites = [&time.site].into_iter().chain(time.again.iter().map(|again| &again.site));
    let mut caches = sites.map(|site| {
        let (place, _) = places.stack(&context.all.stacks, site.stack);
        Cache::of(library(&place).as_bytes())
    });
    let first = caches.next().flatten()?;
    caches.all(|cache| cache.is_some()).then_some(first)
}

/// How handles of a place pile up, by when each was opened and whether it was left open; `None` if they do not.
fn growth<'m>(opened: &[(u64, bool)], process: u32, fate: &Fate, marks: &'m Repeated) -> Option<Growth<'m>> {
    if closes_most(&opened.iter().map(|(_, is_left)| *is_left).collect::<Vec<_>>()) {
        return Some(Growth::LeftBySome);
    }
    // A place that closes some may still need those that are younger.
    let newest = opened.iter().rposition(|(_, is_left)| !is_left).unwrap_or(opened.len());
    let left: Vec<u64> = opened[..newest].iter().filter(|(_, is_left)| *is_left).map(|(at, _)| *at).collect();
    let first = opened.first()?.0;
    // A process that sets no marks may go through the iterations of another.
    let has_own = marks.keys().any(|(of, _)| *of == process);
    let lists = marks.iter().filter(|((of, _), _)| !has_own || *of == process);
    let grown = lists.filter_map(|(_, (like, times))| {
        let (of, all) = over_marks(&left, first, times)?;
        let end = like.char_indices().nth(LONGEST_MARK).map_or(like.len(), |(at, _)| at);
        Some(Growth::Marks { of: of as u64, all: all as u64, like: &like[..end] })
    });
    let hits = |growth: &Growth| {
        if let Growth::Marks { of, like, .. } = growth { (*of, usize::MAX - like.len()) } else { (0, 0) }
    };
    let over_time = || {
        let span =
            fate.last_seen.checked_sub(first).filter(|_| is_over_time(&left, first, fate.last_seen))?;
        Some(Growth::Time { over: span })
    };
    grown.max_by_key(hits).or_else(over_time)
}

/// Whether a place mostly closes what it opens and now and then leaves it open, from beginning to end.
fn closes_most(is_left: &[bool]) -> bool {
    let left = is_left.iter().filter(|is_left| **is_left).count();
    let Some(newest) = is_left.iter().rposition(|is_left| !is_left) else { return false };
    let leaked: Vec<usize> = (0..newest).filter(|index| is_left[*index]).collect();
    let half = is_left.len() / 2;
    let grows =
        leaked.first().is_some_and(|first| *first < half) && leaked.last().is_some_and(|last| *last >= half);
    leaked.len() >= LEAST_LEAKED && is_left.len() - left > left && grows
}

/// After how many marks handles were left open that were opened at these times, and how many there are from the first opening of
/// the place on: at least half of them, in the first half and in the second. After the last mark, nobody knows.
fn over_marks(left: &[u64], first: u64, marks: &[u64]) -> Option<(usize, usize)> {
    let spans: Vec<_> = marks.windows(2).filter(|span| span[1] > first).collect();
    let is_hit = |span: &&&[u64]| left.iter().any(|at| (span[0]..span[1]).contains(at));
    let hits = |spans: &[&[u64]]| spans.iter().filter(is_hit).count();
    let (earlier, later) = spans.split_at(spans.len() / 2);
    let [before, after] = [earlier, later].map(hits);
    let is_steady = before * 2 >= earlier.len() && after * 2 >= later.len();
    (before + after >= LEAST_MARKS && is_steady).then_some((before + after, spans.len()))
}

/// The same in equal parts of a time.
fn is_over_time(left: &[u64], first: u64, end: u64) -> bool {
    let Some(span) = end.checked_sub(first).filter(|span| *span >= LEAST_TIME) else { return false };
    let mut parts = [false; PARTS as usize];
    for at in left {
        let part = u128::from(at.saturating_sub(first)) * u128::from(PARTS) / (u128::from(span) + 1);
        parts[(part as usize).min(parts.len() - 1)] = true;
    }
    left.len() >= LEAST_OVER_TIME && parts.iter().filter(|part| !**part).count() <= PARTS_WITHOUT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `c` was closed, `o` was left open.
    fn of(text: &str) -> bool {
        closes_most(&text.chars().map(|letter| letter == 'o').collect::<Vec<_>>())
    }

    #[test]
    fn a_place_that_mostly_closes_leaks_from_beginning_to_end() {
        assert!(of("cocccoccccoccc") && of("occcoccccccoc"));
        // Held from the start, the newest ones, more left than closed, and too few to tell.
        for quiet in
            ["ooocccccccc", "cccccccccooo", "ooocccccccooo", "ocooccooo", "cocccccccoc", "ooooo", "ccc", ""]
        {
            assert!(!of(quiet), "{quiet}");
        }
    }

    #[test]
    fn what_becomes_more_with_each_mark_piles_up() {
        let marks: Vec<u64> = (0..=10).map(|i| 100 * i).collect();
        let grown = |left: &[u64]| over_marks(left, left[0], &marks);
        assert_eq!(grown(&[50, 150, 250, 350, 450, 550, 650, 750, 850, 950]), Some((10, 10)));
        assert_eq!(grown(&[350, 450, 650, 750, 850]), Some((5, 7)), "from the first on");
        // All at the start, all before the marks, and too few to tell.
        assert_eq!(grown(&[10, 20, 30, 40, 50, 150, 250]), None);
        assert_eq!(over_marks(&[5, 10, 20, 30], 5, &marks[1..]), None);
        assert_eq!(grown(&[650, 750, 850]), None);
        assert_eq!(over_marks(&[50, 150, 250, 350], 50, &[]), None);
    }

    #[test]
    fn what_becomes_more_over_minutes_piles_up() {
        const SECOND: u64 = 1_000_000_000;
        let every = |seconds: u64, count: u64| (0..count).map(|i| i * seconds * SECOND).collect::<Vec<_>>();
        assert!(is_over_time(&every(5, 20), 0, 100 * SECOND));
        // In a short time, too few, and at the start of a long time.
        assert!(!is_over_time(&every(1, 20), 0, 20 * SECOND));
        assert!(!is_over_time(&every(10, 10), 0, 100 * SECOND));
        assert!(!is_over_time(&every(5, 20), 0, 200 * SECOND));
        assert!(!is_over_time(&every(5, 20), 0, u64::MAX) && !is_over_time(&[], 5, 0));
    }
}
