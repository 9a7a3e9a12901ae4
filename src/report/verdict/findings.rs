//! Findings in sentences, and those of one rule and function together: over all processes and callers.
//!
//! The headline and the summary after a run have one line for such a group.

use super::{Problem, Verdict, describe_runtime_call};
use crate::base::moments::{bytes, number};
use crate::model::is_explanation;
use crate::model::{Finding, Object};
use crate::words::names::{as_sentence, clean, counted, format_ranks_in_words};
use cupeer_rules::{Basis, Rule, Severity, Tells, object_label};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::finding::STALE;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Findings of one rule in calls of one function, the earliest first.
pub struct FindingGroup<'a>(Vec<&'a Finding>);

impl<'a> Verdict<'a> {
    /// Returns the findings among the problems in groups by rule and function, in the order of their first ones.
    pub fn main_finding_groups(&self) -> Vec<FindingGroup<'a>> {
        group_findings(self.main_findings.iter().copied())
    }

    /// Returns the notes about costs that no failure shows, in groups by rule and function.
    pub fn cost_note_groups(&self) -> Vec<FindingGroup<'a>> {
        group_findings(self.other_findings.iter().copied().filter(|finding| finding.states_fact(Tells::Waste)))
    }

    /// Returns the notes about the processes of these problems, in groups by rule and function.
    pub fn note_groups_about<'p>(&self, problems: impl Iterator<Item = &'p Problem<'a>>) -> Vec<FindingGroup<'a>>
    where
        'a: 'p,
    {
        let processes: BTreeSet<&str> = problems.flat_map(Problem::processes).map(|process| &*process.proc).collect();
        let is_about = |finding: &&Finding| finding.procs.iter().any(|proc| processes.contains(&**proc));
        group_findings(self.other_findings.iter().copied().filter(is_about))
    }

    /// Returns all that is known about a finding: a heading, which follows the severity, and sentences, each
    /// with the line of source that the sentence is about.
    pub fn finding_paragraph(&self, finding: &Finding) -> (String, Vec<(String, Option<String>)>) {
        let Finding { rule: name, confidence, .. } = finding;
        let rule = Rule::of(name);
        let sure = if *confidence == "inferred" { " (inferred)" } else { "" };
        let head = format!("{}{sure}: {}", clean(name), self.who_and_how_often(finding)) + &self.format_root(finding);
        let plain = |sentence: String| (sentence, None);
        let message =
            (!finding.message.is_empty()).then(|| as_sentence(&clean(&sentence_with_confidence(finding)))).map(plain);
        let call = (self.describe_call(finding), self.report.quoted_source_line(&finding.caller));
        let mut all: Vec<(String, Option<String>)> = message.into_iter().chain([call]).collect();
        let quote = finding.sentence.zip(finding.source).filter(|_| !is_explanation(name));
        all.extend(quote.map(|(sentence, source)| {
            let function = FnId::by_name(&finding.function);
            let basis = rule.map(|rule| rule.spec().basis_at(function));
            let is_documented = matches!(basis, Some(Basis::Documented(..)));
            plain(format!("{}{source}: \"{sentence}\"", if is_documented { "documentation of " } else { "" }))
        }));
        all.extend(finding.objects.iter().map(|object| {
            let code = object.call_place().and_then(|place| self.report.quoted_source_line(place));
            (self.describe_object(rule, object), code)
        }));
        let is_said = finding.message.contains(cupeer_rules::DRIVER_SAYS);
        all.extend(finding.driver_message.as_ref().filter(|_| !is_said).map(|message| {
            let meaning = cupeer_rules::message_meaning(&finding.function, message);
            let meaning = meaning.map(|text| format!(" ({text})")).unwrap_or_default();
            plain(format!("the driver says: {}{meaning}", clean(message)))
        }));
        all.extend(self.format_hint(finding).map(plain));
        (head, all)
    }

    /// Returns ` (follows from ipc-free-import above)`, if a finding follows from another one.
    pub fn format_root(&self, finding: &Finding) -> String {
        let root = finding.follows.and_then(|number| self.report.findings.get(number as usize - 1));
        root.map_or_else(String::new, |root| format!(" (follows from {} above)", clean(&root.rule)))
    }

    /// Returns the fix for a finding.
    pub fn format_hint(&self, finding: &Finding) -> Option<String> {
        (!finding.hint.is_empty()).then(|| format!("hint: {}", clean(&finding.hint)))
    }

    /// Describes the call of a finding: how it ended, when, and where it was made.
    fn describe_call(&self, finding: &Finding) -> String {
        let result = match finding.result.as_deref() {
            Some(result) => format!("returned {}", clean(result)),
            None if *finding.function == *"fork" => "forked".to_owned(),
            None => "has not returned".to_owned(),
        };
        let first = if finding.count > 1 { "first " } else { "" };
        let about = finding.argument.map(|name| format!("argument {name}; ")).unwrap_or_default();
        let caller = clean(&finding.caller.long());
        let runtime = describe_runtime_call(finding.runtime.as_ref());
        format!("{about}{result}, {first}at {} from {caller}{runtime}", self.at(finding.time_ns))
    }

    /// Names the function, the number of calls, and the processes of a finding: `cuIpcOpenMemHandle_v2, 16
    /// times in ranks 0 to 7`.
    pub fn who_and_how_often(&self, finding: &Finding) -> String {
        format!("{}, {} in {}", clean(&finding.function), times(finding.count), self.name_finding_processes(finding))
    }

    /// Names the processes of a finding: `ranks 0 to 7`.
    pub fn name_finding_processes(&self, finding: &Finding) -> String {
        let names = || self.names.processes(finding.procs.iter().map(|proc| &**proc));
        let processes = finding.procs.len() as u64 + finding.procs_more;
        match (finding.ranks.is_empty(), finding.procs_more) {
            (false, _) if finding.ranks.len() as u64 == processes => {
                format_ranks_in_words(finding.ranks.iter().copied())
            }
            (_, 0) if processes == 1 => self.name_process(&finding.proc),
            (_, 0) => names(),
            _ => format!("{} processes", number(processes)),
        }
    }

    /// Names a process: `rank 3`, or `process 1000`.
    pub fn name_process(&self, proc: &str) -> String {
        let name = self.names.process(proc);
        if name.starts_with("rank ") { name } else { format!("process {name}") }
    }

    /// Describes an object in one line: its kind, process, place, size, and time.
    pub fn describe_object(&self, rule: Option<Rule>, object: &Object) -> String {
        let mut parts = vec![match (&object.proc, object.pid, object.rank) {
            (Some(proc), ..) => self.name_process(proc),
            (None, 0, _) => "an unknown process".to_owned(),
            (None, pid, Some(rank)) => format!("process {pid} (rank {rank})"),
            (None, pid, None) => format!("process {pid}"),
        }];
        if object.device.is_some() {
            parts.push(self.names.device(object.device));
        }
        parts.extend(object.address.map(|address| format!("{address:#x}")));
        parts.extend(object.bytes.map(bytes));
        parts.extend(object.allocator.and_then(|allocator| allocator.name_with_certainty()));
        parts.extend(object.fingerprint.map(|handle| handle.to_string()));
        parts.extend(object.time_ns.map(|time| format!("at {}", self.at(time))));
        let caller = match (object.call_place(), &object.library) {
            (Some(place), _) => Some(place.long()),
            (None, Some(library)) => Some(format!("{library}+{:#x}", object.offset.unwrap_or(0))),
            (None, None) => None,
        };
        parts.extend(caller.map(|caller| format!("from {}", clean(&caller))));
        format!("{}: {}", object_label(rule, object.role), parts.join(", "))
    }
}

/// Puts findings into groups, in the order of their first ones.
fn group_findings<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<FindingGroup<'a>> {
    let mut groups: Vec<FindingGroup> = Vec::new();
    for finding in findings {
        let is_alike =
            |group: &&mut FindingGroup| (&group.0[0].rule, &group.0[0].function) == (&finding.rule, &finding.function);
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.0.push(finding),
            None => groups.push(FindingGroup(vec![finding])),
        }
    }
    groups
}

impl<'a> FindingGroup<'a> {
    /// Returns the earliest of these findings.
    pub fn first_finding(&self) -> &'a Finding {
        self.0[0]
    }

    /// Returns how many calls broke the rule, over all of these findings.
    pub fn call_count(&self) -> u64 {
        self.0.iter().map(|finding| finding.count).sum()
    }

    /// Returns true if one of these findings is about the process.
    pub fn is_about(&self, proc: &str) -> bool {
        self.0.iter().flat_map(|finding| &finding.procs).any(|own| **own == *proc)
    }

    /// Returns the sort order of the line in the headline: errors, failures that a rule explains, leaks, and
    /// the rest.
    pub fn headline_rank(&self) -> u8 {
        let first = self.first_finding();
        match Severity::from_word(first.severity) {
            Some(Severity::Error) => 0,
            _ if is_explanation(&first.rule) => 1,
            Some(Severity::Warning) if first.states_fact(Tells::OpenAtExit) => 2,
            _ => 3,
        }
    }

    /// Names the ranks of the findings, or their processes if some have no rank.
    pub fn name_ranks(&self, verdict: &Verdict) -> String {
        let ranks: BTreeSet<u32> = self.0.iter().flat_map(|finding| &finding.ranks).copied().collect();
        let procs: BTreeSet<&str> = self.0.iter().flat_map(|finding| &finding.procs).map(|proc| &**proc).collect();
        let pids: BTreeMap<&str, u32> =
            verdict.report.processes.iter().map(|process| (&*process.proc, process.pid)).collect();
        let more: u64 = self.0.iter().map(|finding| finding.procs_more).sum();
        match procs.first() {
            _ if ranks.len() >= procs.len() => format_ranks_in_words(ranks.into_iter()),
            Some(proc) if procs.len() == 1 => format!("process {}", pids.get(proc).copied().unwrap_or(0)),
            _ => counted(procs.len() as u64 + more, "process"),
        }
    }

    /// Returns the message, followed by its confidence. An explanation names the failed call and its most
    /// likely cause only; the report lists the other causes.
    pub fn message_with_confidence(&self) -> String {
        let first = self.first_finding();
        let is_explanation = is_explanation(&first.rule);
        if is_explanation {
            first_clauses(&first.message, 2).to_owned()
        } else {
            sentence_with_confidence(first).into_owned()
        }
    }
}

/// Returns the sentence of a finding, followed by its confidence.
pub fn sentence_with_confidence(finding: &Finding) -> Cow<'_, str> {
    let message = &finding.message;
    match finding.confidence {
        _ if message.is_empty() || is_explanation(&finding.rule) => message.into(),
        "inferred" => format!("probably, {message}").into(),
        "stale" if !finding.states_fact(Tells::ExporterEnded) => format!("{message}; {STALE}").into(),
        _ => message.into(),
    }
}

/// Returns the part of a sentence before the first semicolon.
pub fn first_clause(message: &str) -> &str {
    first_clauses(message, 1)
}

/// Returns the first `count` clauses of a message, which are separated by semicolons; the whole message if it
/// has fewer.
fn first_clauses(message: &str, count: usize) -> &str {
    message.match_indices("; ").nth(count - 1).map_or(message, |(end, _)| &message[..end])
}

/// Returns a number of times in words: `once`, or `16 times`.
pub fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { counted(count, "time") }
}
