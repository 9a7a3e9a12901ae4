//! Findings from the handle table: handles that were freed while open elsewhere, or opened too late or in the wrong
//! place. Those that were never closed are in [`unclosed`].
//!
//! These are rules across processes, for calls in which the processes themselves found nothing or were not certain.
//! Conclusions from the order of times apply to one host: handles of two hosts have nothing in common.

use super::context::Context;
use super::kinds::MergedFindings;
use super::post_mortem::{JobFacts, JobWorld, ObjectRef};
use super::touched::LastUses;
use super::{freed, objects, replaced, unclosed};
use crate::follow::judged::{FindingKey, FindingSubject};
use crate::follow::ledger::{
    CallSite, CurrentContext, Export, HandleEntry, Import, ObjectEnd, OpenFailures, OpenPeriod, OpensElsewhere,
};
use crate::follow::pending::PendingFinding;
use cupeer_report::places::{PlaceTable, StackNumber};
use cupeer_rules::decide::{EndedObject, FreedExport, Importers};
use cupeer_rules::{Cache, Confidence, Tells};
use cupeer_spec::effect::Object as Kind;
use cupeer_spec::function::FnId;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Returns the findings, and the keys of recorded inferred findings that these refute or replace.
pub fn find_from_handle_table<'a>(
    context: &Context<'a>,
    used: &LastUses,
    places: &mut PlaceTable,
) -> (MergedFindings<'a>, HashSet<FindingKey>) {
    let (kinds, revised) = (MergedFindings::new(context.filter), HashSet::new());
    let mut handles = HandleFindings { context, facts: &JobFacts::new(context), places, kinds, revised };
    let mut contexts = BTreeMap::new();
    let freed = freed_exports(context);
    for entry in context.all.ledger.undamaged_handles() {
        handles.find_ended_while_open(entry, &mut contexts);
        handles.find_reused_addresses(entry, &freed);
        for import in &entry.imports {
            handles.find_failed_opens(entry, import);
            handles.find_bad_opens(entry, import);
        }
    }
    contexts.into_values().for_each(|ended| handles.report_context_end(&ended));
    let HandleFindings { mut kinds, revised, .. } = handles;
    unclosed::find_unclosed(context, used, places, &mut |found| kinds.push(found));
    replaced::find_replaced(context, places, &mut kinds);
    (kinds, revised)
}

struct HandleFindings<'a, 'c, 'p, 'n> {
    context: &'c Context<'a>,
    facts: &'c JobFacts<'a, 'c>,
    places: &'p mut PlaceTable<'n>,
    kinds: MergedFindings<'a>,
    /// Inferred findings that the handle table refutes.
    revised: HashSet<FindingKey>,
}

struct EndedWhileOpen<'a> {
    entry: &'a HandleEntry,
    export: &'a Export,
    ended: &'a ObjectEnd,
    by: FnId,
    at: u64,
    is_sure: bool,
    /// The processes that had the handle open: caches last, then in the order of their opens.
    open: Vec<(&'a Import, &'a OpenPeriod)>,
    /// The cache that had the handle open, if no other code had.
    cache: Option<Cache>,
}

/// The processes that had a handle open, and the cache if no other process had it open.
type OpenersAt<'a> = (Vec<(&'a Import, &'a OpenPeriod)>, Option<Cache>);

/// Handles that ended with a context while others had them open, by process and time.
type EndedByContext<'a> = BTreeMap<(usize, u64), Vec<EndedWhileOpen<'a>>>;

impl<'a> HandleFindings<'a, '_, '_, '_> {
    /// Finds handles that were freed or destroyed while others had them open.
    fn find_ended_while_open(&mut self, entry: &'a HandleEntry, contexts: &mut EndedByContext<'a>) {
        let Some(export) = entry.export.as_deref().filter(|_| !entry.kind.outlives_its_maker()) else {
            return;
        };
        let sure = export.ended_before.iter().chain(&export.ended).map(|ended| (ended, true));
        for (ended, is_sure) in sure.chain(export.perhaps_ended.iter().map(|ended| (ended, false))) {
            let (Some(at), Some(by), Some(site)) = (ended.at, ended.by, ended.site) else { continue };
            if site.is_judged {
                continue;
            }
            let (open, cache) = self.openers_at(entry, export, at);
            if open.is_empty() {
                if was_closed_by_all(entry, export, at) {
                    self.mark_as_revised(export.process, by, 0, site.stack, FindingSubject::Call(site.tid, site.seq));
                }
                continue;
            }
            let ended = EndedWhileOpen { entry, export, ended, by, at, is_sure, open, cache };
            if by.spec().ended_context().is_some() {
                contexts.entry((export.process, at)).or_default().push(ended);
            } else {
                self.report_ended_while_open(&ended, 1, ended.open.len() as u64);
            }
        }
    }

    /// Returns the other processes that had a handle open at a time, caches last, and the cache if no other process had it
    /// open.
    fn openers_at(&mut self, entry: &'a HandleEntry, export: &Export, at: u64) -> OpenersAt<'a> {
        let others = entry.imports.iter().filter(|import| import.process != export.process);
        let open = others.filter_map(|import| {
            // If calls of the importer are missing, its close may not be recorded.
            let fate = &self.context.all.fates[import.process];
            let until = |time: &OpenPeriod| match time.ended {
                // If a fault plan prevented the close, the importer had tried to close the handle.
                _ if time.close_prevented_since.is_some() => time.close_prevented_since.unwrap_or(0),
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

    fn cache_of(&mut self, time: &OpenPeriod) -> Option<Cache> {
        unclosed::cache_of(self.context, self.places, time)
    }

    /// Finds addresses that were exported again while others had the former memory at the address open.
    fn find_reused_addresses(&mut self, entry: &'a HandleEntry, freed: &FreedExports<'a>) {
        let Some(export) = entry.export.as_deref() else { return };
        let CallSite { function, site, at } = export.first;
        let process = export.process;
        if entry.kind != Kind::Memory || site.is_judged || self.context.all.findings.was_checked(process) {
            return;
        }
        let key = (process, export.address);
        let before = freed.get(&key).into_iter().flatten().filter(|(_, _, ended)| *ended < at);
        let before =
            before.filter(|(other, ..)| other.fingerprint != entry.fingerprint && other.domain == entry.domain);
        let open = before.filter_map(|(other, export, ended)| {
            let (open, cache) = self.openers_at(other, export, at);
            (!open.is_empty()).then_some((*other, *export, open, cache, *ended))
        });
        let Some((other, before, open, cache, _)) = open.max_by_key(|(.., ended)| *ended) else { return };
        let Some((import, time)) = open.first() else { return };
        let first = (self.context.named_process(import.process), ObjectRef::Opened(other, import.process, time));
        let mut world = self.job_world_at(entry, process, at, CurrentContext::default());
        let importers = Importers { running: open.len() as u64, unknown: 0, first, opens_and_closes: (0, 0), cache };
        world.freed_before = Some(FreedExport { export: world.to_export(other, before), importers });
        let Some(mut found) = world.judge_call(function, 0, site).pop() else { return };
        freed::add_freeing_call(self.context.all, &mut found);
        self.kinds.push(found.with_cache(cache));
    }

    /// Finds contexts whose end also ended handles that others had open.
    fn report_context_end(&mut self, all: &[EndedWhileOpen<'a>]) {
        // If some of the handles have certainly ended, only these are listed.
        let any_sure = all.iter().any(|ended| ended.is_sure);
        let all: Vec<&EndedWhileOpen> = all.iter().filter(|ended| ended.is_sure == any_sure).collect();
        let Some(first) = all.iter().min_by_key(|ended| ended.cache.is_some()) else { return };
        let importers: HashSet<usize> =
            all.iter().flat_map(|ended| ended.open.iter().map(|(import, _)| import.process)).collect();
        self.report_ended_while_open(first, all.len() as u64, importers.len() as u64);
    }

    fn report_ended_while_open(&mut self, ended: &EndedWhileOpen<'a>, handles: u64, importers: u64) {
        let (Some(site), Some((import, time))) = (ended.ended.site, ended.open.first()) else { return };
        let &EndedWhileOpen { entry, export, by, at, is_sure, cache, .. } = ended;
        let mut world = self.job_world_at(entry, export.process, at, CurrentContext::default());
        let first = (self.context.named_process(import.process), ObjectRef::Opened(entry, import.process, time));
        world.ending = Some(EndedObject {
            kind: entry.kind,
            export: world.to_export(entry, export),
            bytes: export.bytes.unwrap_or(0),
            handles,
            importers: Importers {
                running: importers,
                unknown: 0,
                first,
                opens_and_closes: time.opens_and_closes_before(at),
                cache,
            },
            is_sure,
        });
        let Some(mut found) = world.judge_call(by, 0, site).pop() else { return };
        self.mark_as_revised(export.process, by, 0, site.stack, FindingSubject::Call(site.tid, site.seq));
        found.objects = vec![objects::export_object(self.context, entry, export)];
        let open = ended.open.iter().take(MOST_OBJECTS);
        found.objects.extend(open.map(|(import, time)| objects::opening_object(entry, import.process, time)));
        self.kinds.push(found.with_cache(cache));
    }

    /// Marks an inferred finding of a process as refuted or replaced.
    fn mark_as_revised(
        &mut self,
        process: usize,
        function: FnId,
        result: i32,
        stack: StackNumber,
        about: FindingSubject,
    ) {
        let inferred = self.context.all.findings.inferred_keys(process, function, result, stack, about);
        self.revised.extend(inferred);
    }

    fn job_world_at<'w>(
        &self,
        entry: &'a HandleEntry,
        process: usize,
        at: u64,
        current: CurrentContext,
    ) -> JobWorld<'a, 'w>
    where
        Self: 'w,
    {
        JobWorld {
            facts: self.facts,
            entry,
            process,
            at,
            current,
            earlier_open: None,
            ending: None,
            freed_before: None,
        }
    }

    fn find_failed_opens(&mut self, entry: &'a HandleEntry, import: &'a Import) {
        for failing in import.open_failures.iter().filter(|f| !f.call.site.is_judged && !f.is_injected) {
            let (process, result, CallSite { function, site, at }) = (import.process, failing.result, failing.call);
            let world = self.job_world_at(entry, process, at, failing.current);
            let found = world.judge_call(function, result, site).pop();
            // A process with checks judged the call already when it was made, with answers of the driver.
            let is_guess = |found: &PendingFinding| found.confidence == Confidence::Inferred;
            let was_checked = self.context.all.findings.was_checked(process);
            let found = found.filter(|found| !(was_checked && is_guess(found)));
            let findings = &self.context.all.findings;
            let about = FindingSubject::Handle(entry.fingerprint);
            let inferred = findings.inferred_keys(process, function, result, site.stack, about);
            if !inferred.is_empty() {
                let is_known = found.as_ref().is_some_and(|found| !is_guess(found));
                let denies = |key: &FindingKey| {
                    findings.rule_of(key).is_some_and(|rule| rule.spec().states_fact(Tells::NotExported))
                };
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
                found.objects.push(objects::freeing_object(entry, export, ended));
            }
            let OpenFailures { last, count, .. } = *failing;
            self.kinds.push(PendingFinding { last, count, driver_message: failing.message.clone(), ..found });
        }
    }

    /// Finds violations by calls that opened a handle.
    fn find_bad_opens(&mut self, entry: &'a HandleEntry, import: &'a Import) {
        let process = import.process;
        for time in &import.times {
            if !time.site.is_judged {
                let world = self.job_world_at(entry, process, time.opened, time.current);
                self.push_findings_of_open(world.judge_call(time.function, 0, time.site), time.opened, 1);
            }
            for again in time.opens_elsewhere.iter().filter(|again| !again.site.is_judged) {
                let OpensElsewhere { site, first, last, count, open, .. } = *again;
                let libraries = [time.site, site].map(|site| {
                    let (place, _) = self.places.place_and_stack(&self.context.all.stacks, site.stack);
                    place.calling_place().file_name().unwrap_or("?").to_owned()
                });
                let found = {
                    let mut world = self.job_world_at(entry, process, first, time.current);
                    world.earlier_open = Some((&libraries[0], &libraries[1], open, time));
                    world.judge_call(time.function, 0, site)
                };
                self.push_findings_of_open(found, last, count);
            }
        }
    }

    fn push_findings_of_open(&mut self, all: Vec<PendingFinding>, last: u64, count: u64) {
        for mut found in all {
            freed::add_freeing_call(self.context.all, &mut found);
            self.kinds.push(PendingFinding { last, count, ..found });
        }
    }
}

/// Exported memory that has certainly been freed, with the time of the free, by process and address.
type FreedExports<'a> = HashMap<(usize, u64), Vec<(&'a HandleEntry, &'a Export, u64)>>;

fn freed_exports<'a>(context: &Context<'a>) -> FreedExports<'a> {
    let mut all = FreedExports::new();
    for entry in context.all.ledger.handles().iter().filter(|entry| entry.kind == Kind::Memory) {
        let Some(export) = entry.export.as_deref().filter(|_| !entry.imports.is_empty()) else { continue };
        if let Some(at) = export.ended.as_ref().and_then(|ended| ended.at) {
            all.entry((export.process, export.address)).or_default().push((entry, export, at));
        }
    }
    all
}

/// Returns true if all other processes are known to have closed a handle before a time.
fn was_closed_by_all(entry: &HandleEntry, export: &Export, at: u64) -> bool {
    let others = entry.imports.iter().filter(|import| import.process != export.process);
    let is_over = |time: &OpenPeriod| {
        time.opened >= at || time.ended.is_some_and(|ended| ended.at.is_some_and(|ended| ended <= at))
    };
    others.flat_map(|import| &import.times).all(is_over)
}

const MOST_OBJECTS: usize = 16;
