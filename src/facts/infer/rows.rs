//! Builds the rows of findings: each with its severity, its place in words, and its objects. [`super::table`]
//! joins them.

use super::context::Context;
use super::objects::Objects;
use super::row::{Member, Row};
use super::table::{FindingRows, library};
use super::touched::Used;
use super::{
    awaited, descriptors, events, exchanges, exhausted, forks, freed, handles, links, order, piles,
    placement, ranks, space, staged, waste, written,
};
use crate::follow::functions::Functions;
use crate::follow::pending::PendingFinding;
use cupeer_report::model::{Finding, Object};
use cupeer_report::places::{Offending, Places};
use cupeer_report::results;
use cupeer_report::suppress::Facts;
use cupeer_rules::{Basis, Confidence, Rule, Scope, Severity, Tells};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Clause of a finding that a missing call might contradict.
const LACKS_CALLS: &str = "; the recording lacks calls, and one of them may show that this is not so";

/// Returns all findings of a recording, before those of all processes are joined.
pub fn found(context: &Context, places: &mut Places) -> FindingRows {
    places.learn(&context.all.stacks);
    let objects = Objects::new(context);
    let used = Used::new(context.all, context.ranges());
    let (mut kinds, revised) = handles::found(context, &used, places);
    for (_, kept) in context.all.findings.kept.iter().filter(|(key, _)| !revised.contains(key)) {
        kinds.push(context.completed(kept, &objects));
    }
    let mut all = kinds.into_all();
    let exhausted = exhausted::found(context, places);
    // The finding about the failed allocation lists this memory already, unless that finding is only a note.
    let is_told = |found: &PendingFinding| {
        let is_same = |other: &PendingFinding| {
            other.site.stack == found.site.stack && other.processes == found.processes && !other.lacks_facts
        };
        exhausted.iter().any(is_same)
    };
    let mut piles = piles::found(context, &used);
    piles.retain(|found| !is_told(found));
    all.extend(exhausted);
    all.extend(piles);
    all.extend(waste::reopened(context));
    all.extend(waste::exported_again(context));
    all.extend(waste::through_host(context));
    all.extend(exchanges::differing(context));
    all.extend(forks::found(context));
    all.extend(placement::crossed(context));
    all.extend(placement::contexts(context));
    all.extend(staged::found(context));
    all.extend(written::found(context));
    all.extend(events::found(context));
    all.extend(space::unused(context));
    all.extend(space::incomplete(context));
    all.extend(descriptors::kept(context));
    all.extend(awaited::found(context, places));
    all.extend(order::found(context));
    links::add(&mut all);
    links::raise(context, &mut all);
    let offending = offending(&all);
    let mut rows = |all: Vec<PendingFinding>| {
        let row = |found: PendingFinding| {
            let offending = offending.get(&found.rule);
            context.row(found, offending, &objects, places)
        };
        all.into_iter().filter_map(row).collect()
    };
    FindingRows {
        rows: rows(all),
        fallbacks: rows(ranks::fallbacks(context)),
        failing: rows(ranks::failing(context)),
    }
}

/// Returns the calls that break each rule.
fn offending(all: &[PendingFinding]) -> HashMap<Rc<str>, Offending> {
    let mut rules: HashMap<Rc<str>, Offending> = HashMap::new();
    for found in all {
        let spec = Rule::of(&found.rule).map(Rule::spec);
        let offending = rules.entry(found.rule.clone()).or_insert_with(|| Offending {
            stacks: HashSet::new(),
            is_written: spec.is_some_and(|spec| spec.scope == Scope::Arguments),
            is_forgotten: spec.is_some_and(|spec| spec.tells(Tells::OpenAtExit)),
        });
        offending.stacks.insert(found.site.stack);
    }
    rules
}

/// Returns a sentence without its ` at LIBRARY` clauses, if the objects of the finding have more exact places. The process knew
/// only the beginning of a long library name.
fn without_places(mut message: String, objects: &[Object]) -> String {
    for object in objects.iter().filter(|object| object.place().is_some_and(|place| place.source().is_some()))
    {
        let (Some(library), Some(offset)) = (&object.library, object.offset) else { continue };
        let end = format!("+{offset:#x}");
        let found = message
            .find(&end)
            .filter(|at| !message[at + end.len()..].starts_with(|next: char| next.is_ascii_hexdigit()));
        let Some((at, start)) = found.and_then(|at| Some((at, message[..at].rfind(" at ")?))) else {
            continue;
        };
        if library.starts_with(&message[start + " at ".len()..at]) {
            message.replace_range(start..at + end.len(), "");
        }
    }
    message
}

/// Returns all rows of findings of a recording: the worst first, then in the order of time.
pub fn finding_rows(context: &Context, places: &mut Places) -> Vec<Row> {
    let members: Vec<Member> = (0..context.job.processes.len()).map(|index| context.member(index)).collect();
    let functions = &context.all.functions;
    found(context, places).rows(&members, |name| functions.by_process_of(name))
}

impl<'a> Context<'a> {
    fn member(&self, index: usize) -> Member {
        Member {
            proc: self.all.fates[index].proc.clone(),
            rank: self.job.processes[index].rank(),
            has_injected: self.all.stats[index].injected > 0,
        }
    }

    /// Returns a finding about a call, with further objects from the recording.
    fn completed(&self, kept: &PendingFinding, objects: &Objects) -> PendingFinding {
        let mut found = kept.clone();
        freed::add(self.all, &mut found);
        match Rule::of(&found.rule) {
            Some(Rule::DescriptorsExhausted) => exhausted::add_descriptors(self, &mut found),
            Some(Rule::UsedAfterFork) => found.objects.extend(forks::place(self.all, found.processes[0])),
            Some(Rule::IpcDeviceHidden) => found.message.extend(placement::visible(self, kept, objects)),
            _ => {}
        }
        found
    }

    /// Returns the severity and the confidence of a finding for calls of a library; `None` if the settings exclude it.
    fn grade(
        &self,
        found: &PendingFinding,
        lacks_calls: bool,
        library: &str,
    ) -> Option<(Severity, Confidence)> {
        let asked = &self.all.findings.settings[*found.processes.first()?];
        let severity = match (found.said, Rule::of(&found.rule)) {
            (Some(severity), _) => severity,
            (None, rule) => asked
                .severity(rule?.spec(), library, found.cache)?
                .max(found.raised.unwrap_or(Severity::Note)),
        };
        Some(match lacks_calls || found.lacks_facts {
            true => (Severity::Note, Confidence::Inferred),
            false => (severity, found.confidence),
        })
    }

    /// Returns the row of a finding: with the severity that a process recorded or, for a finding of the report, that of calls
    /// of the calling library. `None` if the settings exclude it.
    fn row(
        &self,
        mut found: PendingFinding,
        offending: Option<&Offending>,
        objects: &Objects,
        places: &mut Places,
    ) -> Option<Row> {
        found.processes.retain(|process| self.filter.process(*process));
        if !self.filter.shows(Functions::id(found.function), found.result != Some(0), found.at) {
            return None;
        }
        let (all, process, id) = (self.all, *found.processes.first()?, Functions::id(found.function));
        let (caller, stack) = places.offending(&all.stacks, found.site.stack, offending);
        let spec = Rule::of(&found.rule).map(Rule::spec);
        let lacks_calls = spec.is_some_and(|spec| all.lacks_calls(spec.scope, &found.processes));
        let (severity, confidence) = self.grade(&found, lacks_calls, library(&caller))?;
        let basis = spec.map(|spec| spec.basis_at(id));
        let programs: Vec<&str> =
            found.processes.iter().map(|process| self.job.processes[*process].program()).collect();
        let facts = Facts { rule: &found.rule, caller: &caller, stack: &stack, programs: &programs };
        let suppressed_by = self.filter.suppressions.find(&facts);
        let listed = objects.of(&found, places);
        let accesses = objects.accesses(&found, places);
        let message = match found.said {
            Some(_) => without_places(objects.aged(found.message, found.at, &listed, process), &listed),
            None => found.message,
        };
        let finding = Finding {
            rule: found.rule,
            severity: severity.word(),
            fails: false,
            confidence: confidence.word(),
            function: all.functions.name(found.function),
            argument: found.argument,
            result: found.result.map(|result| results::name(id, result)),
            proc: all.fates[process].proc.clone(),
            tid: found.site.tid,
            seq: found.site.seq,
            time_ns: found.at,
            last_ns: found.last,
            count: found.count,
            procs: Vec::new(),
            procs_more: 0,
            ranks: Vec::new(),
            message: if lacks_calls && !message.is_empty() { message + LACKS_CALLS } else { message },
            sentence: basis.map(Basis::sentence),
            source: basis.map(Basis::source),
            hint: found.hint,
            driver_message: found.driver_message.map(|text| String::from_utf8_lossy(&text).into_owned()),
            runtime: all.made_by.parent_of(process, found.site.tid, found.site.seq),
            caller,
            stack,
            objects: listed,
            accesses,
            suppressed_by,
            follows: None,
        };
        Some(Row { finding, process, by_report: found.said.is_none(), processes: found.processes })
    }
}
