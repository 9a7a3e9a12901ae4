//! Builds the rows of findings: each with its severity, its place in words, and its objects. [`super::table`]
//! joins them.

use super::context::Context;
use super::objects::ObjectBuilder;
use super::row::{FindingRow, ProcessSummary};
use super::table::{FindingRows, library_of};
use super::touched::LastUses;
use super::{
    awaited, descriptors, events, exchanges, exhausted, forks, freed, handles, links, order, piles, placement, ranks,
    space, staged, waste, written,
};
use crate::follow::functions::FunctionCounts;
use crate::follow::pending::PendingFinding;
use cupeer_report::model::{Finding, Object};
use cupeer_report::places::{PlaceTable, RuleBreakingCalls};
use cupeer_report::results;
use cupeer_report::suppress::FindingFacts;
use cupeer_rules::{Basis, Confidence, Rule, Scope, Severity, Tells};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Clause of a finding that a missing call might contradict.
const LACKS_CALLS: &str = "; the recording lacks calls, and one of them may show that this is not so";

/// Returns all findings of a recording, before those of all processes are joined.
pub fn find_all(context: &Context, places: &mut PlaceTable) -> FindingRows {
    places.learn_helpers(&context.all.stacks);
    let objects = ObjectBuilder::new(context);
    let used = LastUses::new(context.all, context.shared_ranges());
    let (mut kinds, revised) = handles::find_from_handle_table(context, &used, places);
    for (_, kept) in context.all.findings.by_key.iter().filter(|(key, _)| !revised.contains(key)) {
        kinds.push(context.complete_finding(kept, &objects));
    }
    let mut all = kinds.into_all();
    let exhausted = exhausted::find_exhausted(context, places);
    // The finding about the failed allocation lists this memory already, unless that finding is only a note.
    let is_told = |found: &PendingFinding| {
        let is_same = |other: &PendingFinding| {
            other.site.stack == found.site.stack && other.processes == found.processes && !other.lacks_facts
        };
        exhausted.iter().any(is_same)
    };
    let mut piles = piles::find_piles(context, &used);
    piles.retain(|found| !is_told(found));
    all.extend(exhausted);
    all.extend(piles);
    all.extend(waste::find_reopened(context));
    all.extend(waste::find_exported_again(context));
    all.extend(waste::find_fallback_to_host(context));
    all.extend(exchanges::find_differing(context));
    all.extend(forks::find_used_after_fork(context));
    all.extend(placement::find_crossed_opens(context));
    all.extend(placement::find_foreign_contexts(context));
    all.extend(staged::find_copies_through_host(context));
    all.extend(written::find_wrong_reads(context));
    all.extend(events::find_event_misuse(context));
    all.extend(space::find_unused_mappings(context));
    all.extend(space::find_incomplete_multicast(context));
    all.extend(descriptors::find_unclosed(context));
    all.extend(awaited::find_awaited(context, places));
    all.extend(order::find_unordered(context));
    links::add_links(&mut all);
    links::raise_severities(context, &mut all);
    let offending = offending_by_rule(&all);
    let mut rows = |all: Vec<PendingFinding>| {
        let row = |found: PendingFinding| {
            let offending = offending.get(&found.rule);
            context.build_row(found, offending, &objects, places)
        };
        all.into_iter().filter_map(row).collect()
    };
    FindingRows {
        rows: rows(all),
        fallbacks: rows(ranks::find_fallbacks(context)),
        failing: rows(ranks::failures_by_process(context)),
    }
}

/// Returns the calls that break each rule.
fn offending_by_rule(all: &[PendingFinding]) -> HashMap<Rc<str>, RuleBreakingCalls> {
    let mut rules: HashMap<Rc<str>, RuleBreakingCalls> = HashMap::new();
    for found in all {
        let spec = Rule::of(&found.rule).map(Rule::spec);
        let offending = rules.entry(found.rule.clone()).or_insert_with(|| RuleBreakingCalls {
            stacks: HashSet::new(),
            is_written: spec.is_some_and(|spec| spec.scope == Scope::Arguments),
            is_forgotten: spec.is_some_and(|spec| spec.states_fact(Tells::OpenAtExit)),
        });
        offending.stacks.insert(found.site.stack);
    }
    rules
}

/// Returns a sentence without its ` at LIBRARY` clauses, if the objects of the finding have more exact places. The process knew
/// only the beginning of a long library name.
fn strip_places(mut message: String, objects: &[Object]) -> String {
    for object in objects.iter().filter(|object| object.call_place().is_some_and(|place| place.source().is_some())) {
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
pub fn finding_rows(context: &Context, places: &mut PlaceTable) -> Vec<FindingRow> {
    let members: Vec<ProcessSummary> =
        (0..context.job.processes.len()).map(|index| context.summarize_process(index)).collect();
    let functions = &context.all.functions;
    find_all(context, places).join_rows(&members, |name| functions.calls_by_process_of(name))
}

impl<'a> Context<'a> {
    fn summarize_process(&self, index: usize) -> ProcessSummary {
        ProcessSummary {
            proc: self.all.fates[index].proc.clone(),
            rank: self.job.processes[index].rank(),
            has_injected: self.all.stats[index].injected > 0,
        }
    }

    /// Returns a finding about a call, with further objects from the recording.
    fn complete_finding(&self, kept: &PendingFinding, objects: &ObjectBuilder) -> PendingFinding {
        let mut found = kept.clone();
        freed::add_freeing_call(self.all, &mut found);
        match Rule::of(&found.rule) {
            Some(Rule::DescriptorsExhausted) => exhausted::add_descriptor_counts(self, &mut found),
            Some(Rule::UsedAfterFork) => found.objects.extend(forks::fork_place(self.all, found.processes[0])),
            Some(Rule::IpcDeviceHidden) => found.message.extend(placement::visible_devices_clause(self, kept, objects)),
            _ => {}
        }
        found
    }

    /// Returns the severity and the confidence of a finding for calls of a library; `None` if the settings exclude it.
    fn grade(&self, found: &PendingFinding, lacks_calls: bool, library: &str) -> Option<(Severity, Confidence)> {
        let asked = &self.all.findings.settings[*found.processes.first()?];
        let severity = match (found.recorded_severity, Rule::of(&found.rule)) {
            (Some(severity), _) => severity,
            (None, rule) => {
                asked.severity(rule?.spec(), library, found.cache)?.max(found.lowest_severity.unwrap_or(Severity::Note))
            }
        };
        Some(match lacks_calls || found.lacks_facts {
            true => (Severity::Note, Confidence::Inferred),
            false => (severity, found.confidence),
        })
    }

    /// Returns the row of a finding: with the severity that a process recorded or, for a finding of the report, that of calls
    /// of the calling library. `None` if the settings exclude it.
    fn build_row(
        &self,
        mut found: PendingFinding,
        offending: Option<&RuleBreakingCalls>,
        objects: &ObjectBuilder,
        places: &mut PlaceTable,
    ) -> Option<FindingRow> {
        found.processes.retain(|process| self.filter.has_process(*process));
        if !self.filter.has_call_of(FunctionCounts::id(found.function), found.result != Some(0), found.at) {
            return None;
        }
        let (all, process, id) = (self.all, *found.processes.first()?, FunctionCounts::id(found.function));
        let (caller, stack) = places.place_of_offending(&all.stacks, found.site.stack, offending);
        let spec = Rule::of(&found.rule).map(Rule::spec);
        let lacks_calls = spec.is_some_and(|spec| all.lacks_calls(spec.scope, &found.processes));
        let (severity, confidence) = self.grade(&found, lacks_calls, library_of(&caller))?;
        let basis = spec.map(|spec| spec.basis_at(id));
        let programs: Vec<&str> =
            found.processes.iter().map(|process| self.job.processes[*process].program()).collect();
        let facts = FindingFacts { rule: &found.rule, caller: &caller, stack: &stack, programs: &programs };
        let suppressed_by = self.filter.suppressions.find_match(&facts);
        let listed = objects.objects_of(&found, places);
        let accesses = objects.shared_uses(&found, places);
        let message = match found.recorded_severity {
            Some(_) => strip_places(objects.correct_age(found.message, found.at, &listed, process), &listed),
            None => found.message,
        };
        let finding = Finding {
            rule: found.rule,
            severity: severity.word(),
            fails: false,
            confidence: confidence.word(),
            function: all.functions.name(found.function),
            argument: found.argument,
            result: found.result.map(|result| results::result_name(id, result)),
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
        Some(FindingRow { finding, process, by_report: found.recorded_severity.is_none(), processes: found.processes })
    }
}
