//! Findings from the handle table: handles that were freed while open elsewhere, or opened too late or in the wrong
//! place. Those that were never closed are in [`unclosed`].
//!
//! These are rules across processes, for calls in which the processes themselves found nothing or were not certain.
//! Conclusions from the order of times apply to one host: handles of two hosts have nothing in common.

use super::context::Context;
use super::kinds::Kinds;
use super::post_mortem::{JobFacts, ObjectRef, PostMortem};
use super::touched::Used;
use super::{freed, objects, replaced, unclosed};
use crate::follow::judged::{About, Key};
use crate::follow::ledger::{Again, CallSite, Current, Ended, Entry, Export, Failing, Import, Time};
use crate::follow::pending::PendingFinding;
use cupeer_report::places::{Places, Stack};
use cupeer_rules::decide::{Ending, FreedBefore, Importers};
use cupeer_rules::{Cache, Confidence, Tells};
use cupeer_spec::effect::Object as Kind;
use cupeer_spec::function::FnId;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Returns the findings, and the keys of recorded inferred findings that these refute or replace.
pub fn found<'a>(context: &Context<'a>, used: &Used, places: &mut Places) -> (Kinds<'a>, HashSet<Key>) {
    let (kinds, revised) = (Kinds::new(context.filter), HashSet::new());
    let mut handles = Handles { context, facts: &JobFacts::new(context), places, kinds, revised };
    let mut contexts = BTreeMap::new();
    let freed = freed(context);
    for entry in context.all.ledger.undamaged() {
        handles.ended(entry, &mut contexts);
        handles.reused(entry, &freed);
        for import in &entry.imports {
            handles.failed(entry, import);
            handles.opened(entry, import);
        }
    }
    contexts.into_values().for_each(|ended| handles.context_ended(&ended));
    let Handles { mut kinds, revised, .. } = handles;
    unclosed::found(context, used, places, &mut |found| kinds.push(found));
    replaced::found(context, places, &mut kinds);
    (kinds, revised)
}

struct Handles<'a, 'c, 'p, 'n> {
    context: &'c Context<'a>,
    facts: &'c JobFacts<'a, 'c>,
    places: &'p mut Places<'n>,
    kinds: Kinds<'a>,
    /// Inferred findings that the handle table refutes.
    revised: HashSet<Key>,
}

struct EndedOpen<'a> {
    entry: &'a Entry,
    export: &'a Export,
    ended: &'a Ended,
    by: FnId,
    at: u64,
    is_sure: bool,
    /// The processes that had it open: caches last, then in the order of their opens.
    open: Vec<(&'a Import, &'a Time)>,
    /// The cache that had the handle open, if no other code had.
    cache: Option<Cache>,
}

/// The processes that had a handle open, and the cache if no other process had it open.
type OpenAt<'a> = (Vec<(&'a Import, &'a Time)>, Option<Cache>);

/// Handles that ended with a context while others had them open, by process and time.
type Contexts<'a> = BTreeMap<(usize, u64), Vec<EndedOpen<'a>>>;

impl<'a> Handles<'a, '_, '_, '_> {
    /// Finds handles that were freed or destroyed while others had them open.
    fn ended(&mut self, entry: &'a Entry, contexts: &mut Contexts<'a>) {
        let Some(export) = entry.export.as_deref().filter(|_| !entry.kind.outlives_its_maker()) else {
            return;
        };
        let sure = export.ended_before.iter().chain(&export.ended).map(|ended| (ended, true));
        for (ended, is_sure) in sure.chain(export.perhaps_ended.iter().map(|ended| (ended, false))) {
            let (Some(at), Some(by), Some(site)) = (ended.at, ended.by, ended.site) else { continue };
            if site.is_judged {
                continue;
            }
            let (open, cache) = self.open_at(entry, export, at);
            if open.is_empty() {
                if was_closed(entry, export, at) {
                    self.revise(export.process, by, 0, site.stack, About::Call(site.tid, site.seq));
                }
                continue;
            }
            let ended = EndedOpen { entry, export, ended, by, at, is_sure, open, cache };
            if by.spec().ends_context().is_some() {
                contexts.entry((export.process, at)).or_default().push(ended);
            } else {
                self.while_open(&ended, 1, ended.open.len() as u64);
            }
        }
    }

    /// Returns the other processes that had a handle open at a time, caches last, and the cache if no other process had it
    /// open.
    fn open_at(&mut self, entry: &'a Entry, export: &Export, at: u64) -> OpenAt<'a> {
        let others = entry.imports.iter().filter(|import| import.process != export.process);
        let open = others.filter_map(|import| {
            // If calls of the importer are missing, its close may not be recorded.
            let fate = &self.context.all.fates[import.process];
            let until = |time: &Time| match time.ended {
                // If a fault plan prevented the close, the importer had tried to close the handle.
                _ if time.kept.is_some() => time.kept.unwrap_or(0),
                Some(_) => time.closed_at(fate).unwrap_or(0),
                // The call that closed the handle may be missing.
                None if fate.has_lost => 0,
                None if fate.alive == Some(true) => u64::MAX,
                None => fate.last_seen,
            };
            Some((import, import.times.iter().find(|time| time.opened < at && at < until(time))?))
        });
        let mut open: Vec<_> = open.collect();
        open.sort_by_key(|(_, time)| (self.cache_of(time).is_some(), time.opened));
        let cache = open.first().and_then(|(_, time)| self.cache_of(time));
        (open, cache)
    }

    fn cache_of(&mut self, time: &Time) -> Option<Cache> {
        unclosed::cache_of(self.context, self.places, time)
    }

    /// Finds addresses that were exported again while others had the former memory at the address open.
    fn reused(&mut self, entry: &'a Entry, freed: &Freed<'a>) {
        let Some(export) = entry.export.as_deref() else { return };
        let CallSite { function, site, at } = export.first;
        let process = export.process;
        if entry.kind != Kind::Memory || site.is_judged || self.context.all.findings.was_checked(process) {
            return;
        }
        let key = (process, export.address);
        let before = freed.get(&key).into_iter().flatten().filter(|(_, _, ended)| *ended < at);
        let before = before
            .filter(|(other, ..)| other.fingerprint != entry.fingerprint && other.domain == entry.domain);
        let open = before.filter_map(|(other, export, ended)| {
            let (open, cache) = self.open_at(other, export, at);
            (!open.is_empty()).then_some((*other, *export, open, cache, *ended))
        });
        let Some((other, before, open, cache, _)) = open.max_by_key(|(.., ended)| *ended) else { return };
        let Some((import, time)) = open.first() else { return };
        let first = (self.context.who(import.process), ObjectRef::Opened(other, import.process, time));
        let mut world = self.world(entry, process, at, Current::default());
        let importers = Importers { running: open.len() as u64, unknown: 0, first, uses: (0, 0), cache };
        world.freed_before = Some(FreedBefore { export: world.export_of(other, before), importers });
        let Some(mut found) = world.judge(function, 0, site).pop() else { return };
        freed::add(self.context.all, &mut found);
        self.kinds.push(found.with_cache(cache));
    }

    /// Finds contexts whose end also ended handles that others had open.
    fn context_ended(&mut self, all: &[EndedOpen<'a>]) {
        // If some of the handles have certainly ended, only these are listed.
        let any_sure = all.iter().any(|ended| ended.is_sure);
        let all: Vec<&EndedOpen> = all.iter().filter(|ended| ended.is_sure == any_sure).collect();
        let Some(first) = all.iter().min_by_key(|ended| ended.cache.is_some()) else { return };
        let importers: HashSet<usize> =
            all.iter().flat_map(|ended| ended.open.iter().map(|(import, _)| import.process)).collect();
        self.while_open(first, all.len() as u64, importers.len() as u64);
    }

    fn while_open(&mut self, ended: &EndedOpen<'a>, handles: u64, importers: u64) {
        let (Some(site), Some((import, time))) = (ended.ended.site, ended.open.first()) else { return };
        let &EndedOpen { entry, export, by, at, is_sure, cache, .. } = ended;
        let mut world = self.world(entry, export.process, at, Current::default());
        let first = (self.context.who(import.process), ObjectRef::Opened(entry, import.process, time));
        world.ending = Some(Ending {
            kind: entry.kind,
            export: world.export_of(entry, export),
            bytes: export.bytes.unwrap_or(0),
            handles,
            importers: Importers { running: importers, unknown: 0, first, uses: time.uses(at), cache },
            is_sure,
        });
        let Some(mut found) = world.judge(by, 0, site).pop() else { return };
        self.revise(export.process, by, 0, site.stack, About::Call(site.tid, site.seq));
        found.objects = vec![objects::export(self.context, entry, export)];
        let open = ended.open.iter().take(MOST_OBJECTS);
        found.objects.extend(open.map(|(import, time)| objects::opening(entry, import.process, time)));
        self.kinds.push(found.with_cache(cache));
    }

    /// Marks an inferred finding of a process as refuted or replaced.
    fn revise(&mut self, process: usize, function: FnId, result: i32, stack: Stack, about: About) {
        let inferred = self.context.all.findings.inferred(process, function, result, stack, about);
        self.revised.extend(inferred);
    }

    fn world<'w>(&self, entry: &'a Entry, process: usize, at: u64, current: Current) -> PostMortem<'a, 'w>
    where
        Self: 'w,
    {
        PostMortem {
            facts: self.facts,
            entry,
            process,
            at,
            current,
            again: None,
            ending: None,
            freed_before: None,
        }
    }

    fn failed(&mut self, entry: &'a Entry, import: &'a Import) {
        for failing in import.failing.iter().filter(|f| !f.call.site.is_judged && !f.is_injected) {
            let (process, result, CallSite { function, site, at }) =
                (import.process, failing.result, failing.call);
            let world = self.world(entry, process, at, failing.current);
            let found = world.judge(function, result, site).pop();
            // A process with checks judged the call already when it was made, with answers of the driver.
            let is_guess = |found: &PendingFinding| found.confidence == Confidence::Inferred;
            let was_checked = self.context.all.findings.was_checked(process);
            let found = found.filter(|found| !(was_checked && is_guess(found)));
            let findings = &self.context.all.findings;
            let about = About::Handle(entry.fingerprint);
            let inferred = findings.inferred(process, function, result, site.stack, about);
            if !inferred.is_empty() {
                let is_known = found.as_ref().is_some_and(|found| !is_guess(found));
                let denies =
                    |key: &Key| findings.rule(key).is_some_and(|rule| rule.spec().tells(Tells::NotExported));
                let is_denied = entry.export.is_some() && inferred.iter().any(denies);
                if !is_known && !is_denied {
                    continue;
                }
                self.revised.extend(inferred);
            }
            let Some(mut found) = found else { continue };
            if let Some(export) = entry.export.as_deref()
                && let Some(ended) = export.ended.as_ref().filter(|ended| ended.site.is_some())
            {
                found.objects.push(objects::freeing(entry, export, ended));
            }
            let Failing { last, count, .. } = *failing;
            self.kinds.push(PendingFinding { last, count, driver_message: failing.message.clone(), ..found });
        }
    }

    /// Finds violations by calls that opened a handle.
    fn opened(&mut self, entry: &'a Entry, import: &'a Import) {
        let process = import.process;
        for time in &import.times {
            if !time.site.is_judged {
                let world = self.world(entry, process, time.opened, time.current);
                self.opening(world.judge(time.function, 0, time.site), time.opened, 1);
            }
            for again in time.again.iter().filter(|again| !again.site.is_judged) {
                let Again { site, first, last, count, open, .. } = *again;
                let libraries = [time.site, site].map(|site| {
                    let (place, _) = self.places.stack(&self.context.all.stacks, site.stack);
                    place.maker().file_name().unwrap_or("?").to_owned()
                });
                let found = {
                    let mut world = self.world(entry, process, first, time.current);
                    world.again = Some((&libraries[0], &libraries[1], open, time));
                    world.judge(time.function, 0, site)
                };
                self.opening(found, last, count);
            }
        }
    }

    fn opening(&mut self, all: Vec<PendingFinding>, last: u64, count: u64) {
        for mut found in all {
            freed::add(self.context.all, &mut found);
            self.kinds.push(PendingFinding { last, count, ..found });
        }
    }
}

/// Exported memory that has certainly been freed, with the time of the free, by process and address.
type Freed<'a> = HashMap<(usize, u64), Vec<(&'a Entry, &'a Export, u64)>>;

fn freed<'a>(context: &Context<'a>) -> Freed<'a> {
    let mut all = Freed::new();
    for entry in context.all.ledger.handles().iter().filter(|entry| entry.kind == Kind::Memory) {
        let Some(export) = entry.export.as_deref().filter(|_| !entry.imports.is_empty()) else { continue };
        if let Some(at) = export.ended.as_ref().and_then(|ended| ended.at) {
            all.entry((export.process, export.address)).or_default().push((entry, export, at));
        }
    }
    all
}

/// Returns true if all other processes are known to have closed a handle before a time.
fn was_closed(entry: &Entry, export: &Export, at: u64) -> bool {
    let others = entry.imports.iter().filter(|import| import.process != export.process);
    let is_over = |time: &Time| {
        time.opened >= at || time.ended.is_some_and(|ended| ended.at.is_some_and(|ended| ended <= at))
    };
    others.flat_map(|import| &import.times).all(is_over)
}

const MOST_OBJECTS: usize = 16;
