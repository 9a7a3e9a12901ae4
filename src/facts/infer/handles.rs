//! Findings from the handle table: handles that were freed while open elsewhere, or opened too late or in the wrong
//! place. Those that were never closed are in [`unclosed`].
//!
//! These are rules across processes, for calls in which the processes themselves found nothing or were not certain.
//! Conclusions from the order of times apply to one host: handles of two hosts have nothing in common.

use super::afterwards::{Afterwards, Thing, Whole};
use super::drafts::{Context, Draft, Drafts, Sentence};
use super::objects::{Objects, in_words};
use super::{freed, replaced, unclosed};
use crate::follow::judged::{About, Key};
use crate::follow::ledger::{Again, Current, Ended, Entry, Export, Failing, Import, Site, Time};
use cupeer_report::model::Object;
use cupeer_report::places::{Places, Stack};
use cupeer_rules::decide::{Ending, FreedBefore, Importers};
use cupeer_rules::{Cache, Confidence, Rule, Tells};
use cupeer_spec::effect::Object as Kind;
use cupeer_spec::function::FnId;
use std::collections::{BTreeMap, HashMap, HashSet};

/// All that is found, and what processes have inferred that is not so, or is known better.
pub fn drafts<'a>(
    context: &Context<'a>,
    objects: &Objects,
    places: &mut Places,
) -> (Drafts<'a, 'a>, HashSet<Key>) {
    let (drafts, revised) = (Drafts::new(context.filter), HashSet::new());
    let mut handles = Handles { context, whole: &Whole::new(context), objects, places, drafts, revised };
    let mut contexts = BTreeMap::new();
    let ledger = &context.all.ledger;
    let freed = freed(context);
    for entry in ledger.handles().iter().filter(|entry| !ledger.damage.is_of(entry)) {
        handles.ended(entry, &mut contexts);
        handles.reused(entry, &freed);
        for import in &entry.imports {
            handles.failed(entry, import);
            handles.opened(entry, import);
        }
    }
    contexts.into_values().for_each(|ended| handles.context_ended(&ended));
    let Handles { mut drafts, revised, .. } = handles;
    unclosed::found(context, objects, places, &mut |draft| drafts.push(draft));
    replaced::found(context, objects, places, &mut drafts);
    (drafts, revised)
}

struct Handles<'a, 'c, 'p, 'n> {
    context: &'c Context<'a>,
    whole: &'c Whole<'a, 'c>,
    objects: &'c Objects<'c>,
    places: &'p mut Places<'n>,
    drafts: Drafts<'a, 'a>,
    /// What was inferred and does not stand.
    revised: HashSet<Key>,
}

struct EndedOpen<'a> {
    entry: &'a Entry,
    export: &'a Export,
    ended: &'a Ended,
    by: FnId,
    at: u64,
    is_sure: bool,
    /// Who had it open: those that are no cache first, and then the first one.
    open: Vec<(&'a Import, &'a Time)>,
    /// The cache that alone had.
    cache: Option<Cache>,
}

/// Who had something open, and the cache that alone had.
type OpenAt<'a> = (Vec<(&'a Import, &'a Time)>, Option<Cache>);

/// What a context took with it: by process, and when that began.
type Contexts<'a> = BTreeMap<(u32, u64), Vec<EndedOpen<'a>>>;

impl<'a> Handles<'a, '_, '_, '_> {
    /// What was freed or destroyed while others had it open.
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

    /// Who of the others had a handle open at a time, those that are no cache first; and the cache that alone had.
    fn open_at(&mut self, entry: &'a Entry, export: &Export, at: u64) -> OpenAt<'a> {
        let others = entry.imports.iter().filter(|import| import.process != export.process);
        let open = others.filter_map(|import| {
            // Of what has an end that nobody saw it is not known how long it was open.
            let fate = &self.context.all.fates[import.process as usize];
            let until = |time: &Time| match time.ended {
                // What a fault plan keeps open the importer has given up.
                _ if time.kept.is_some() => time.kept.unwrap_or(0),
                Some(_) => time.closed_at(fate).unwrap_or(0),
                // The call that closed it may be missing.
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

    /// An address was exported anew while others had open what was exported from it before.
    fn reused(&mut self, entry: &'a Entry, freed: &Freed<'a>) {
        let Some(export) = entry.export.as_deref() else { return };
        let (Some((function, site)), (_, at)) = (export.made, export.first) else { return };
        let process = export.process;
        if entry.kind != Kind::Memory
            || site.is_judged
            || self.context.all.findings.was_checked(process as usize)
        {
            return;
        }
        let key = (process, export.address);
        let before = freed.get(&key).into_iter().flatten().filter(|(_, _, ended)| *ended < at);
        let before =
            before.filter(|(other, ..)| other.fingerprint != entry.fingerprint && other.realm == entry.realm);
        let open = before.filter_map(|(other, export, ended)| {
            let (open, cache) = self.open_at(other, export, at);
            (!open.is_empty()).then_some((*other, *export, open, cache, *ended))
        });
        let Some((other, before, open, cache, _)) = open.max_by_key(|(.., ended)| *ended) else { return };
        let Some((import, time)) = open.first() else { return };
        let first = (in_words(self.context.job, import.process), Thing::Opened(other, import.process, time));
        let mut world = self.world(entry, process, at, Current::default());
        let importers = Importers { running: open.len() as u64, unknown: 0, first, uses: (0, 0), cache };
        world.freed_before = Some(FreedBefore { export: world.export_of(other, before), importers });
        let Some((sentence, things)) = decided(&world, function, 0).pop() else { return };
        let mut objects: Vec<_> = things.iter().map(|thing| self.object(*thing)).collect();
        let what = (Rule::IpcAddressReused, entry.realm, at);
        freed::freed(self.context.all, what, &mut objects, self.objects, self.places);
        let draft = Draft::of(sentence, function, 0, process, site, at).with_cache(cache);
        self.drafts.push(Draft { objects, ..draft });
    }

    /// A context that took handles with it which others had open.
    fn context_ended(&mut self, all: &[EndedOpen<'a>]) {
        // If some have ended, only these are listed.
        let any_sure = all.iter().any(|ended| ended.is_sure);
        let all: Vec<&EndedOpen> = all.iter().filter(|ended| ended.is_sure == any_sure).collect();
        let Some(first) = all.iter().min_by_key(|ended| ended.cache.is_some()) else { return };
        let importers: HashSet<u32> =
            all.iter().flat_map(|ended| ended.open.iter().map(|(import, _)| import.process)).collect();
        self.while_open(first, all.len() as u64, importers.len() as u64);
    }

    fn while_open(&mut self, ended: &EndedOpen<'a>, handles: u64, importers: u64) {
        let (Some(site), Some((import, time))) = (ended.ended.site, ended.open.first()) else { return };
        let &EndedOpen { entry, export, by, at, is_sure, cache, .. } = ended;
        let mut world = self.world(entry, export.process, at, Current::default());
        let first = (in_words(self.context.job, import.process), Thing::Opened(entry, import.process, time));
        world.ending = Some(Ending {
            kind: entry.kind,
            export: world.export_of(entry, export),
            bytes: export.bytes.unwrap_or(0),
            handles,
            importers: Importers { running: importers, unknown: 0, first, uses: time.uses(at), cache },
            is_sure,
        });
        let Some((sentence, _)) = decided(&world, by, 0).pop() else { return };
        self.revise(export.process, by, 0, site.stack, About::Call(site.tid, site.seq));
        let mut objects = vec![self.objects.export(entry, export, self.places)];
        for (import, time) in ended.open.iter().take(MOST_OBJECTS) {
            objects.push(self.objects.opening(entry, import.process, time, self.places));
        }
        let draft = Draft::of(sentence, by, 0, export.process, site, at).with_cache(cache);
        self.drafts.push(Draft { objects, ..draft });
    }

    /// Takes back what a process had inferred.
    fn revise(&mut self, process: u32, function: FnId, result: i32, stack: Stack, about: About) {
        let inferred = self.context.all.findings.inferred(process as usize, function, result, stack, about);
        self.revised.extend(inferred);
    }

    fn world<'w>(&self, entry: &'a Entry, process: u32, at: u64, current: Current) -> Afterwards<'a, 'w>
    where
        Self: 'w,
    {
        Afterwards {
            whole: self.whole,
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
        for failing in import.failing.iter().filter(|f| !f.site.is_judged && !f.is_injected) {
            let (process, Failing { function, result, site, .. }) = (import.process, failing);
            let world = self.world(entry, process, failing.at, failing.current);
            let found = decided(&world, *function, *result).pop();
            // Who was checked has looked at it, and knew what the driver says.
            let is_guess = |found: &Decided| found.0.confidence == Confidence::Inferred;
            let was_checked = self.context.all.findings.was_checked(process as usize);
            let found = found.filter(|found| !(was_checked && is_guess(found)));
            let findings = &self.context.all.findings;
            let about = About::Handle(entry.fingerprint);
            let inferred = findings.inferred(process as usize, *function, *result, site.stack, about);
            if !inferred.is_empty() {
                let is_known = found.as_ref().is_some_and(|(it, _)| it.confidence != Confidence::Inferred);
                let denies =
                    |key: &Key| findings.rule(key).is_some_and(|rule| rule.spec().tells(Tells::NotExported));
                let is_denied = entry.export.is_some() && inferred.iter().any(denies);
                if !is_known && !is_denied {
                    continue;
                }
                self.revised.extend(inferred);
            }
            let Some((sentence, things)) = found else { continue };
            let mut objects: Vec<_> = things.iter().map(|thing| self.object(*thing)).collect();
            if let Some(export) = entry.export.as_deref()
                && let Some(ended) = export.ended.as_ref().filter(|ended| ended.site.is_some())
            {
                objects.push(self.objects.freeing(entry, export, ended, self.places));
            }
            self.drafts.push(Draft {
                last: failing.last,
                count: failing.count,
                driver_message: failing.message.as_deref(),
                objects,
                ..Draft::of(sentence, *function, *result, process, *site, failing.at)
            });
        }
    }

    /// What is worth knowing of a handle that was opened.
    fn opened(&mut self, entry: &'a Entry, import: &'a Import) {
        let process = import.process;
        for time in &import.times {
            if !time.site.is_judged {
                let found = decided(&self.world(entry, process, time.opened, time.current), time.function, 0);
                self.opening(process, time, time.site, found, (time.opened, time.opened, 1));
            }
            for again in time.again.iter().filter(|again| !again.site.is_judged) {
                let Again { site, first, last, count, open } = *again;
                let libraries = [time.site, site].map(|site| {
                    let (place, _) = self.places.stack(&self.context.all.stacks, site.stack);
                    place.file_name().unwrap_or("?").to_owned()
                });
                let found = {
                    let mut world = self.world(entry, process, first, time.current);
                    world.again = Some((&libraries[0], &libraries[1], open, time));
                    decided(&world, time.function, 0)
                };
                self.opening(process, time, site, found, (first, last, count));
            }
        }
    }

    fn opening(
        &mut self,
        process: u32,
        time: &Time,
        site: Site,
        found: Vec<Decided<'a>>,
        (at, last, count): (u64, u64, u64),
    ) {
        for (sentence, things) in found {
            let mut objects: Vec<_> = things.iter().map(|thing| self.object(*thing)).collect();
            if let Some(rule) = Rule::of(&sentence.rule) {
                let realm = self.context.all.realms[process as usize];
                freed::freed(self.context.all, (rule, realm, at), &mut objects, self.objects, self.places);
            }
            let draft = Draft::of(sentence, time.function, 0, process, site, at);
            self.drafts.push(Draft { last, count, objects, ..draft });
        }
    }

    fn object(&mut self, thing: Thing) -> Object {
        match thing {
            Thing::Exported(entry, export) => self.objects.export(entry, export, self.places),
            Thing::Opened(entry, process, time) => self.objects.opening(entry, process, time, self.places),
        }
    }
}

/// Memory that was exported and has ended for sure, with when that was, by process and address.
type Freed<'a> = HashMap<(u32, u64), Vec<(&'a Entry, &'a Export, u64)>>;

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

/// What was found, and what it is about.
type Decided<'a> = (Sentence, Vec<Thing<'a>>);

fn decided<'a>(world: &Afterwards<'a, '_>, function: FnId, result: i32) -> Vec<Decided<'a>> {
    let mut all = Vec::new();
    world.look(function, result, &mut |found| {
        let argument = found.argument.map(|index| function.spec().args()[index].name());
        let sentence = Sentence { argument, ..Sentence::of(&found.reason, found.confidence) };
        all.push((sentence, found.objects.iter().map(|(_, thing)| *thing).collect()));
    });
    all
}

/// Whether all others are known to have closed a handle before a time.
fn was_closed(entry: &Entry, export: &Export, at: u64) -> bool {
    let others = entry.imports.iter().filter(|import| import.process != export.process);
    let is_over = |time: &Time| {
        time.opened >= at || time.ended.is_some_and(|ended| ended.at.is_some_and(|ended| ended <= at))
    };
    others.flat_map(|import| &import.times).all(is_over)
}

const MOST_OBJECTS: usize = 16;
