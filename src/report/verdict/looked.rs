//! Tracks how far each rule was checked, because the absence of findings means something only for rules that were checked.

use crate::model::{Escaped, Process, Report};
use crate::words::names::{clean, counted, format_unrecorded_count};
use cupeer_rules::{RULES, RuleSet, RuleSpec};
use cupeer_spec::env;
use cupeer_spec::function::{FnId, Group};
use std::collections::{BTreeMap, BTreeSet};

/// Returns why it is unknown whether all processes of a recording obeyed a rule. `None` if this is known, or
/// if a finding shows that a process broke the rule.
pub fn why_unknown(report: &Report, rule: &RuleSpec) -> Option<String> {
    reasons_for_doubt(report).into_iter().next().or_else(|| why_not_checked(report, rule))
}

/// Words for the recorded calls of each group of functions.
const GROUP_WORDS: [(Group, &str); 7] = [
    (Group::Peer, "peer access"),
    (Group::Ipc, "legacy IPC"),
    (Group::Vmm, "virtual memory"),
    (Group::Multicast, "multicast objects"),
    (Group::Pool, "memory pools"),
    (Group::Copy, "copies between devices"),
    (Group::Lifetime, "frees and ends of contexts"),
];

/// Number of unchecked rules that are named; of further ones, only the number is given.
const MOST_RULES: usize = 3;
/// Number of unrecorded functions that are named; of further ones, only the number is given.
const MOST_FUNCTIONS: usize = 4;

/// Describes the scope of a report that explains nothing: the calls that rules checked, and those that no
/// rule checked, in two sentences.
pub fn describe_scope(report: &Report) -> String {
    let has = |group: Group| {
        let mut known = report.functions.iter().filter_map(|function| FnId::by_name(&function.function));
        known.any(|id| id.spec().is_in(group))
    };
    let about: Vec<&str> = GROUP_WORDS.iter().filter(|(group, _)| has(*group)).map(|(_, what)| *what).collect();
    let is_asked =
        |rule: &&RuleSpec| rule.is_checked() && is_called(report, rule) && why_not_checked(report, rule).is_none();
    let rules = counted(RULES.iter().filter(is_asked).count() as u64, "rule");
    let of_what = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
    let but = reasons_for_doubt(report).into_iter().next().map_or_else(String::new, |why| format!("; {why}"));
    let calls = counted(report.call_count(), "call");
    format!("{rules} looked at {calls}{of_what}. Not checked: {}{but}", describe_unchecked(report))
}

/// Describes the unchecked part of a recording: calls that no rule ever checks, rules that were excluded, and
/// functions that the program called and that were not recorded.
pub fn describe_unchecked(report: &Report) -> String {
    let mut all = vec!["the order of reads and writes by kernels".to_owned(), "what memory contains".to_owned()];
    let called = report.unrecorded_functions();
    let named: Vec<&str> = called.iter().take(MOST_FUNCTIONS).map(|name| &**name).collect();
    if !named.is_empty() {
        let more = match called.len() - named.len() {
            0 => String::new(),
            more => format!(" and {}", counted(more as u64, "more function")),
        };
        all.push(format!("calls of {}{more}", named.join(", ")));
    }
    let left_out: Vec<&str> = excluded_rules(report).into_values().flatten().collect();
    let why = if unchecked_processes_clause(report).is_some() { "only with --check" } else { "left out by options" };
    let names = || match left_out.len().saturating_sub(MOST_RULES) {
        0 => left_out.join(", "),
        more => format!("{} and {more} more", left_out[..MOST_RULES].join(", ")),
    };
    let rules = || counted(left_out.len() as u64, "rule");
    all.extend((!left_out.is_empty()).then(|| format!("{} ({why}: {})", rules(), names())));
    format!("{}, and the program's own code", all.join(", "))
}

/// Returns reasons that apply to all rules for which it is unknown whether all processes kept them.
pub fn reasons_for_doubt(report: &Report) -> Vec<String> {
    let record = &report.record;
    let unseen = report.processes_without_calls().map(|(_, why)| why);
    let mut all: Vec<String> =
        unseen.map(|why| format!("libcuda was loaded, but cupeer saw no call that it records: {why}")).collect();
    all.extend(report.bypassing_libraries().map(Escaped::bypass_sentence));
    all.extend(record.problems.iter().map(|problem| format!("the recording is incomplete: {}", clean(problem))));
    let lost = counted(record.lost, "event");
    all.extend((record.lost > 0).then(|| format!("the recording is incomplete: {lost} could not be kept")));
    all.extend(report.reason_for_missing_calls());
    all.extend(record.running.then(|| "processes are still running".into()));
    let mut seen = BTreeSet::new();
    all.retain(|why| seen.insert(why.clone()));
    all
}

/// Returns true if a rule is relevant to a recording: cupeer checks the rule, and a recorded call could have
/// broken it.
pub fn is_relevant(report: &Report, rule: &RuleSpec) -> bool {
    rule.is_checked() && is_called(report, rule)
}

/// Returns why a recording has no call; `None` if it has calls.
pub fn why_no_calls(report: &Report) -> Option<String> {
    let record = &report.record;
    let why = || match format_unrecorded_count(record.count_quiet_processes(), 0) {
        Some(quiet) => format!("{quiet}; --record full keeps all"),
        None if !record.filters.is_empty() => format!("no call matches {}", record.filters.join(" ")),
        None if report.processes.is_empty() => "no process called the CUDA driver under cupeer".into(),
        None => "no process made a call that cupeer records".into(),
    };
    let has_call = report.functions.iter().any(|function| function.calls > 0);
    (!has_call).then(|| reasons_for_doubt(report).into_iter().next().unwrap_or_else(why))
}

/// Returns the rules that were not checked because an option excluded or did not select them, by the reason.
pub fn excluded_rules(report: &Report) -> BTreeMap<String, Vec<&'static str>> {
    let mut all: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for rule in RULES.iter().filter(|rule| is_relevant(report, rule)) {
        if let Some(why) = why_not_checked(report, rule) {
            all.entry(why).or_default().push(rule.name());
        }
    }
    all
}

fn why_not_checked(report: &Report, rule: &RuleSpec) -> Option<String> {
    let all = &report.processes;
    let left_out = all.iter().find_map(|process| excluding_option(process, rule));
    left_out.or_else(|| {
        let what = rule.only_at_the_call()?;
        let how_far = unchecked_processes_clause(report)?;
        Some(format!("not looked for without --check{how_far}: only the call tells {what}"))
    })
}

/// Names the processes in which no rule was checked during the run; empty if this is true of all processes.
/// `None` if rules were checked in all processes.
fn unchecked_processes_clause(report: &Report) -> Option<String> {
    let all = &report.processes;
    match all.iter().filter(|process| process.check_level().is_none()).count() {
        0 => None,
        count if count == all.len() => Some(String::new()),
        count => Some(format!(" in {count} of {}", counted(all.len() as u64, "process"))),
    }
}

/// Returns true if a recorded call could have broken the rule. Calls that a fault plan answers are not
/// judged.
fn is_called(report: &Report, rule: &RuleSpec) -> bool {
    let is_its = |name: &str| rule.functions().iter().any(|function| function.spec().name() == name);
    let mut judged = report.functions.iter().filter(|function| function.calls > function.injected);
    judged.any(|function| rule.functions().is_empty() || is_its(&function.function))
}

/// Returns the option that excluded this rule in a process, at least for calls of some libraries; `None` if
/// no option did.
fn excluding_option(process: &Process, rule: &RuleSpec) -> Option<String> {
    // A process ignored a selection that cannot be parsed.
    let set = |name| Some((RuleSet::parse(variable_value(process, name)?).ok()?, variable_value(process, name)?));
    let ignored = set(env::IGNORE).filter(|(set, _)| set.contains_for_any_library(rule.id));
    let ignored = ignored.map(|(_, text)| format!("--ignore {} leaves it out", clean(text)));
    let only = || set(env::ONLY).filter(|(set, _)| !set.contains(rule.id, b""));
    ignored.or_else(|| only().map(|(_, text)| format!("--only {} leaves it out", clean(text))))
}

fn variable_value<'a>(process: &'a Process, name: &str) -> Option<&'a str> {
    process.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
}
