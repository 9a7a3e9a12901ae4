//! What the ledger shows about handles: freed while open elsewhere, opened too late or in the wrong place, never
//! closed.
//!
//! What belongs here: rules across processes, for calls in which the processes themselves have found nothing. What
//! rests on the order of times rests on one host: handles of two hosts have nothing in common.

use super::super::ledger::settle::Fate;
use super::super::ledger::{Ended, Entry, Export, Failing, Import, Kind, Realm, Time};
use super::super::model::Fingerprint;
use super::super::places::{Places, Stack};
use super::objects::{Objects, in_words};
use super::rows::{Context, Draft};
use cupeer_rules::Rule;
use cupeer_rules::reason::{Ago, Handle, Reason};
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::finding::Confidence;
use std::collections::{BTreeMap, HashMap};

/// How long a process is taken to live after it was last seen: one that waits makes no calls.
const UNSEEN: u64 = 2_000_000_000;

/// All that is found.
pub fn drafts<'a>(context: &Context<'a>, objects: &Objects, places: &mut Places) -> Vec<Draft<'a>> {
    let mut handles =
        Handles { context, objects, places, originals: context.all.ledger.originals(), drafts: Vec::new() };
    let mut contexts = BTreeMap::new();
    let mut unclosed = BTreeMap::new();
    let ledger = &context.all.ledger;
    for entry in ledger.handles().iter().filter(|entry| !ledger.damage.is_of(entry)) {
        handles.ended(entry, &mut contexts);
        handles.failed(entry);
        handles.damaged(entry);
        never_closed(context, entry, &mut unclosed);
    }
    contexts.into_values().for_each(|ended| handles.context_ended(&ended));
    unclosed.into_iter().for_each(|(key, open)| handles.unclosed(key, &open));
    handles.drafts
}

struct Handles<'a, 'c, 'p, 'n> {
    context: &'c Context<'a>,
    objects: &'c Objects<'c>,
    places: &'p mut Places<'n>,
    originals: HashMap<(Realm, &'static str, u64), Fingerprint>,
    drafts: Vec<Draft<'a>>,
}

/// What ended while others had it open.
struct EndedOpen<'a> {
    entry: &'a Entry,
    export: &'a Export,
    ended: &'a Ended,
    by: FnId,
    at: u64,
    /// Whether it is known to have ended.
    is_sure: bool,
    /// Who had it open, the first one first.
    open: Vec<(&'a Import, &'a Time)>,
}

/// What a context took with it: by process, and when that began.
type Contexts<'a> = BTreeMap<(u32, u64), Vec<EndedOpen<'a>>>;

/// What was left open, by process and stack.
type Unclosed<'a> = BTreeMap<(u32, Stack), Vec<(&'a Entry, &'a Time)>>;

impl<'a> Handles<'a, '_, '_, '_> {
    fn fate(&self, process: u32) -> &'a Fate {
        &self.context.all.fates[process as usize]
    }

    /// What was freed or destroyed while others had it open.
    fn ended(&mut self, entry: &'a Entry, contexts: &mut Contexts<'a>) {
        let Some(export) = entry.export.as_deref() else { return };
        let sure = export.ended_before.iter().chain(&export.ended).map(|ended| (ended, true));
        for (ended, is_sure) in sure.chain(export.perhaps_ended.iter().map(|ended| (ended, false))) {
            let (Some(at), Some(by), Some(site)) = (ended.at, ended.by, ended.site) else { continue };
            let open = self.open_at(entry, export, at);
            if site.is_judged || open.is_empty() {
                continue;
            }
            let ended = EndedOpen { entry, export, ended, by, at, is_sure, open };
            if Rule::IpcContextEndedWhileOpen.spec().functions.contains(&by) {
                contexts.entry((export.process, at)).or_default().push(ended);
                continue;
            }
            let (handle, importers, first) =
                (Handle(entry.fingerprint), ended.importers(), self.opener(&ended));
            let address = export.address;
            let reason = match entry.kind {
                Kind::Memory => {
                    let bytes = export.bytes.unwrap_or(0);
                    Reason::IpcFreedWhileOpen { address, bytes, handle, importers, first }
                }
                _ => Reason::IpcEventDestroyedWhileOpen { event: address, handle, importers, first },
            };
            self.while_open(reason, &ended);
        }
    }

    /// Who of the others had a handle open at a time.
    fn open_at(&self, entry: &'a Entry, export: &Export, at: u64) -> Vec<(&'a Import, &'a Time)> {
        let others = entry.imports.iter().filter(|import| import.process != export.process);
        let open = others.filter_map(|import| {
            // Of what has an end that nobody saw it is not known how long it was open.
            let until = |time: &Time| match time.ended {
                // What a fault plan keeps open the importer has given up.
                _ if time.kept.is_some() => time.kept.unwrap_or(0),
                Some(ended) => ended.at.unwrap_or(0),
                None if self.fate(import.process).alive == Some(true) => u64::MAX,
                None => self.fate(import.process).last_seen,
            };
            Some((import, import.times.iter().find(|time| time.opened < at && at < until(time))?))
        });
        let mut open: Vec<_> = open.collect();
        open.sort_by_key(|(_, time)| time.opened);
        open
    }

    fn opener(&self, ended: &EndedOpen) -> cupeer_rules::reason::Process {
        in_words(self.context.job, ended.open.first().map_or(0, |(import, _)| import.process))
    }

    /// A context that took handles with it which others had open.
    fn context_ended(&mut self, all: &[EndedOpen<'a>]) {
        // If some have ended, only these are listed.
        let any_sure = all.iter().any(|ended| ended.is_sure);
        let all: Vec<&EndedOpen> = all.iter().filter(|ended| ended.is_sure == any_sure).collect();
        let Some(first) = all.first() else { return };
        let mut importers: Vec<u32> =
            all.iter().flat_map(|ended| ended.open.iter().map(|(import, _)| import.process)).collect();
        importers.sort_unstable();
        importers.dedup();
        let reason = Reason::IpcContextEndedWhileOpen {
            what: first.by.spec().name,
            handles: all.len() as u64,
            importers: importers.len() as u64,
            first: self.opener(first),
        };
        self.while_open(reason, first);
    }

    fn while_open(&mut self, reason: Reason<'a>, ended: &EndedOpen<'a>) {
        let Some(site) = ended.ended.site else { return };
        let EndedOpen { entry, export, .. } = ended;
        let mut objects = vec![self.objects.export(entry, export, self.places)];
        for (import, time) in ended.open.iter().take(MOST_OBJECTS) {
            objects.push(self.objects.opening(entry, import.process, time, self.places));
        }
        self.drafts.push(Draft {
            reason,
            note: None,
            confidence: if ended.is_sure { Confidence::Certain } else { Confidence::Inferred },
            function: ended.by,
            result: Some(0),
            argument: match ended.by.spec().ends().map(|end| end.object) {
                Some(Object::Memory | Object::Event) => Some(ended.by.spec().args[0].name),
                _ => None,
            },
            processes: vec![export.process as usize],
            site: (site.tid, site.seq),
            stack: site.stack,
            at: ended.at,
            last: ended.at,
            count: 1,
            driver_message: None,
            objects,
        });
    }

    /// Why a handle could not be opened.
    fn failed(&mut self, entry: &'a Entry) {
        for import in &entry.imports {
            for failing in import.failing.iter().filter(|f| !f.site.is_judged && !f.is_injected) {
                let Some((reason, confidence)) = self.why(entry, import, failing) else { continue };
                let export = self.exported(entry);
                let mut objects = Vec::new();
                if let Some((entry, export)) = export {
                    objects.push(self.objects.export(entry, export, self.places));
                    if let Some(ended) = export.ended.as_ref().filter(|ended| ended.site.is_some()) {
                        objects.push(self.objects.freeing(entry, export, ended, self.places));
                    }
                }
                self.drafts.push(Draft {
                    reason,
                    note: None,
                    confidence,
                    function: failing.function,
                    result: Some(failing.result),
                    argument: Some("handle"),
                    processes: vec![import.process as usize],
                    site: (failing.site.tid, failing.site.seq),
                    stack: failing.site.stack,
                    at: failing.at,
                    last: failing.last,
                    count: failing.count,
                    driver_message: failing.message.as_deref(),
                    objects,
                });
            }
        }
    }

    /// The first reason that explains a failure, in the order of the rules.
    fn why(&self, entry: &Entry, import: &Import, failing: &Failing) -> Option<(Reason<'a>, Confidence)> {
        let job = self.context.job;
        let (handle, is_event) = (Handle(entry.fingerprint), entry.kind == Kind::Event);
        let mut reasons = Vec::new();
        match entry.export.as_deref() {
            Some(export) if export.process == import.process => {
                let (pid, address) = (in_words(job, export.process).pid, export.address);
                let ago = failing.at.checked_sub(export.last.1).map(Ago);
                let reason = Reason::IpcOpenInExportingProcess { handle, pid, address, ago, is_event };
                reasons.push((reason, Confidence::Certain));
            }
            Some(export) => {
                let owner = in_words(job, export.process);
                if let Some(at) = export.ended.and_then(|ended| ended.at).filter(|at| *at < failing.at) {
                    let ago = Some(Ago(failing.at - at));
                    let reason =
                        Reason::IpcOpenAfterFree { handle, owner, ago, is_event, with_context: false };
                    reasons.push((reason, Confidence::Certain));
                }
                let fate = self.fate(export.process);
                let is_gone = fate.alive != Some(true) && !fate.is_ended_on_purpose;
                // One that has ended since may have waited until then; that it was gone is the likeliest all the same, but
                // where the importer has looked.
                let is_late = failing.at > fate.last_seen.saturating_add(UNSEEN);
                let is_likely = fate.alive.is_some()
                    && failing.at > fate.last_seen
                    && !self.context.all.findings.was_checked(import.process as usize);
                if is_gone && (is_late || is_likely) {
                    let is_known = is_late && fate.alive.is_some();
                    let how = if is_known { Confidence::Stale } else { Confidence::Inferred };
                    reasons.push((Reason::IpcExporterGone { handle, owner }, how));
                }
            }
            None if self.of_other_kind(entry).is_some() => {
                let reason = Reason::IpcHandleKind { handle, is_memory: is_event };
                reasons.push((reason, Confidence::Certain));
            }
            None => match self.exported(entry) {
                Some((original, export)) => {
                    let (original, owner) = (Handle(original.fingerprint), in_words(job, export.process));
                    let reason = Reason::IpcDamagedHandle { handle, original, owner, is_opened: false };
                    reasons.push((reason, Confidence::Certain));
                }
                None if self.knows_all() => {
                    // What its bytes name stands in no record, of memory as of events.
                    let reason = Reason::IpcUnknownHandle {
                        handle,
                        is_zero: false,
                        named: None,
                        runs: None,
                        is_event: true,
                    };
                    reasons.push((reason, Confidence::Inferred));
                }
                None => {}
            },
        }
        let explains =
            |(reason, _): &(Reason, _)| reason.rule().spec().explains(failing.function, failing.result);
        reasons.into_iter().find(explains)
    }

    /// Whether the record has all that its processes exported.
    fn knows_all(&self) -> bool {
        self.context.all.fates.iter().all(|fate| fate.is_full && !fate.has_lost)
    }

    /// The same bytes, exported as the other kind.
    fn of_other_kind(&self, entry: &Entry) -> Option<(&'a Entry, &'a Export)> {
        let other = if entry.kind == Kind::Memory { Kind::Event } else { Kind::Memory };
        let found = self.context.all.ledger.handle(entry.realm, other, entry.fingerprint)?;
        Some((found, found.export.as_deref()?))
    }

    /// What was exported: the handle itself, as the other kind, or the one that it is a damaged copy of.
    fn exported(&self, entry: &'a Entry) -> Option<(&'a Entry, &'a Export)> {
        if let Some(export) = entry.export.as_deref() {
            return Some((entry, export));
        }
        self.of_other_kind(entry).or_else(|| {
            let original = self.originals.get(&(entry.realm, entry.kind.word(), entry.checked))?;
            let found = self.context.all.ledger.handle(entry.realm, entry.kind, original.0)?;
            Some((found, found.export.as_deref()?))
        })
    }

    /// A damaged handle that the driver took for what it is a copy of.
    fn damaged(&mut self, entry: &'a Entry) {
        if entry.export.is_some() || self.of_other_kind(entry).is_some() {
            return;
        }
        let Some((original, export)) = self.exported(entry) else { return };
        let (handle, original_name) = (Handle(entry.fingerprint), Handle(original.fingerprint));
        let owner = in_words(self.context.job, export.process);
        for import in &entry.imports {
            for time in import.times.iter().filter(|time| !time.is_judged) {
                let reason =
                    Reason::IpcDamagedHandle { handle, original: original_name, owner, is_opened: true };
                self.drafts.push(Draft {
                    reason,
                    note: None,
                    confidence: Confidence::Certain,
                    function: time.function,
                    result: Some(0),
                    argument: Some("handle"),
                    processes: vec![import.process as usize],
                    site: (time.tid, time.seq),
                    stack: time.stack,
                    at: time.opened,
                    last: time.opened,
                    count: time.times,
                    driver_message: None,
                    objects: vec![self.objects.export(original, export, self.places)],
                });
            }
        }
    }

    /// What a process had opened in one place, and had open when it ended.
    fn unclosed(&mut self, (process, stack): (u32, Stack), open: &[(&'a Entry, &'a Time)]) {
        let Some((entry, time)) = open.iter().min_by_key(|(_, time)| time.opened) else { return };
        let size = |(entry, _): &(&Entry, _)| entry.export.as_ref().and_then(|export| export.bytes);
        let mut objects = vec![self.objects.opening(entry, process, time, self.places)];
        if let Some(export) = &entry.export {
            objects.push(self.objects.export(entry, export, self.places));
        }
        let (handles, bytes) = (open.len() as u64, open.iter().filter_map(size).fold(0, u64::saturating_add));
        self.drafts.push(Draft {
            reason: Reason::IpcNeverClosed { handles, bytes },
            note: None,
            confidence: Confidence::Certain,
            function: time.function,
            result: Some(0),
            argument: None,
            processes: vec![process as usize],
            site: (time.tid, time.seq),
            stack,
            at: time.opened,
            last: open.iter().map(|(_, time)| time.opened).max().unwrap_or(time.opened),
            count: handles,
            driver_message: None,
            objects,
        });
    }
}

impl EndedOpen<'_> {
    fn importers(&self) -> u64 {
        self.open.len() as u64
    }
}

/// The most objects that are named.
const MOST_OBJECTS: usize = 16;

/// Adds what ended processes have not closed of a handle, where they have not said so themselves.
fn never_closed<'a>(context: &Context<'a>, entry: &'a Entry, unclosed: &mut Unclosed<'a>) {
    for import in &entry.imports {
        let Some(time) = import.times.last().filter(|time| time.ended.is_none()) else { continue };
        let fate = &context.all.fates[import.process as usize];
        let is_left = fate.alive == Some(false) && !time.is_kept(fate);
        if is_left && !context.all.findings.has(Rule::IpcNeverClosed, import.process as usize) {
            unclosed.entry((import.process, time.stack)).or_default().push((entry, time));
        }
    }
}
