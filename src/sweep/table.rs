//! The outcome of a sweep as text: the number of runs by verdict, then each finding with the command that repeats it.

use super::count::CallSite;
use super::outcome::SweepOutcome;
use super::state::CompletedRun;
use super::times::format_duration;
use super::trials::TargetCall;
use super::verdict::Verdict;
use clap::ValueEnum;
use cupeer_console::output::{self, line_width};
use cupeer_recordings::home::{relative_path, report_argument};
use cupeer_report::names::counted;
use cupeer_views::table::{Table, wrap};
use std::collections::{BTreeMap, BTreeSet};

/// Formats numbers of calls and stacks: `24 calls on 9 stacks`.
pub fn format_calls_on_stacks(calls: u64, stacks: usize) -> String {
    format!("{} on {}", counted(calls, "call"), counted(stacks as u64, "stack"))
}

pub fn format_outcome(outcome: &SweepOutcome) -> String {
    let width = line_width();
    let is_quiet = output::is_quiet();
    let mut text = if is_quiet { String::new() } else { verdict_table(outcome).render(width) };
    let own = outcome.baseline_finding();
    let groups = outcome.distinct_findings();
    let all = groups.len() + usize::from(own.is_some());
    if let Some(own) = own {
        text += &format!("\n1. {}: without any fault\n", own.verdict.words());
        text += &format_field("seen", &own.seen, width);
        text += &format!("   again: {}\n", outcome.repeat_command(None, own.verdict));
    }
    for (number, group) in (1 + usize::from(own.is_some())..).zip(&groups) {
        text += &format_finding(number, group, outcome, width);
    }
    match is_quiet {
        true => text.trim_start().to_owned(),
        false => text + &summary_line(outcome, all),
    }
}

fn verdict_table(outcome: &SweepOutcome) -> Table {
    let shown = Verdict::value_variants();
    let heads: Vec<String> = shown.iter().map(|verdict| verdict.words().to_uppercase()).collect();
    let mut head = vec!["FUNCTION", "STACKS", "CALLS", "RUNS"];
    head.extend(heads.iter().map(String::as_str));
    head.push("LEFT OUT");
    let numbers: Vec<usize> = (1..head.len()).collect();
    let mut table = Table::new(&head, 4, 1).with_numbers(&numbers);
    let mut rows: BTreeMap<&str, FunctionRow> = BTreeMap::new();
    for place in &outcome.places {
        let row = rows.entry(&place.site.function).or_default();
        row.stacks += 1;
        row.calls += place.total_calls();
    }
    for done in &outcome.done {
        let Some(fault) = done.trial.subject_fault() else { continue };
        let row = rows.entry(&fault.call.site.function).or_default();
        row.runs += 1;
        *row.verdicts.entry(done.judged.verdict).or_default() += 1;
    }
    for fault in outcome.left_out.iter().filter_map(|trial| trial.subject_fault()) {
        rows.entry(&fault.call.site.function).or_default().left_out += 1;
    }
    for (function, row) in rows {
        let count = |verdict: &Verdict| row.verdicts.get(verdict).copied().unwrap_or(0);
        let mut cells = vec![function.to_owned()];
        cells.extend([row.stacks, row.calls, row.runs].map(|number| number.to_string()));
        cells.extend(shown.iter().map(|verdict| count(verdict).to_string()));
        cells.push(row.left_out.to_string());
        table.push_cells(cells);
    }
    table.without_empty_columns()
}

#[derive(Default)]
struct FunctionRow {
    stacks: u64,
    calls: u64,
    runs: u64,
    verdicts: BTreeMap<Verdict, u64>,
    left_out: u64,
}

fn format_finding(number: usize, group: &[&CompletedRun], outcome: &SweepOutcome, width: usize) -> String {
    let first = group[0];
    let Some((fault, before)) = first.trial.faults.split_last() else { return String::new() };
    let codes = |is_lasting: bool| {
        let faults = group.iter().filter_map(|done| done.trial.subject_fault());
        let mut codes: Vec<String> = Vec::new();
        for fault in faults.filter(|fault| fault.is_lasting == is_lasting) {
            let seen = if fault.is_only_seen() { " (seen, not documented)" } else { "" };
            let code = format!("{}{seen}", fault.code);
            if !codes.contains(&code) {
                codes.push(code);
            }
        }
        codes.join(", ")
    };
    let (once, lasting) = (codes(false), codes(true));
    let with = match (once.is_empty(), lasting.is_empty()) {
        (_, true) => format!("once with {once}"),
        (true, false) => format!("from then on with {lasting}"),
        (false, false) if once == lasting => format!("once or from then on, with {once}"),
        (false, false) => format!("once with {once}, from then on with {lasting}"),
    };
    let head = format!("{}: {} fails {with}", first.judged.verdict.words(), fault.call.site.function);
    let mut text = String::from("\n");
    for (i, line) in wrap(&head, width.saturating_sub(3)).iter().enumerate() {
        text += &if i == 0 { format!("{number}. {line}\n") } else { format!("   {line}\n") };
    }
    let calls: BTreeSet<(Option<u16>, u64)> = group
        .iter()
        .filter_map(|done| done.trial.subject_fault())
        .map(|fault| (fault.call.process, fault.call.n))
        .collect();
    let place = match calls.len() {
        1 => describe_call(&fault.call, outcome),
        several => format!("{several} from {}", describe_site(&fault.call.site, outcome)),
    };
    text += &format_field("call", &place, width);
    for fault in before {
        let (function, call) = (&fault.call.site.function, describe_call(&fault.call, outcome));
        text += &format_field("after", &format!("{function} failed with {}, {call}", fault.code), width);
    }
    text += &format_field("seen", &first.judged.seen, width);
    let record = outcome.directory.join(format!("trial-{}", first.number));
    text += &format!("   record: {}\n", report_argument(&record));
    // The command stays on one line, so that the user can copy it.
    text + &format!("   again: {}\n", outcome.repeat_command(Some(&first.trial), first.judged.verdict))
}

fn describe_call(call: &TargetCall, outcome: &SweepOutcome) -> String {
    let process = call.process.map(|process| format!(", process {process}")).unwrap_or_default();
    format!("number {} from {}{process}", call.n, describe_site(&call.site, outcome))
}

fn describe_site(site: &CallSite, outcome: &SweepOutcome) -> String {
    let rank = site.rank.map(|rank| format!(", rank {rank}")).unwrap_or_default();
    format!("{} in {}{rank}", outcome.caller_at(site), site.program)
}

pub fn format_field(name: &str, value: &str, width: usize) -> String {
    let indent = name.len() + 5;
    let lines = wrap(value, width.saturating_sub(indent).max(20));
    let mut text = format!("   {name}: {}\n", lines[0]);
    lines[1..].iter().for_each(|line| text += &format!("{:indent$}{line}\n", ""));
    text
}

fn summary_line(outcome: &SweepOutcome, findings: usize) -> String {
    let runs = counted(outcome.done.len() as u64, "run");
    let mut text = format!("\n{} in {runs}, {}", counted(findings as u64, "finding"), format_duration(outcome.time));
    let left = outcome.left_out.len() as u64 + outcome.unplanned;
    if left > 0 {
        let is_touched = |site: &CallSite| {
            let mut faults = outcome.done.iter().filter_map(|done| done.trial.subject_fault());
            faults.any(|fault| fault.call.site == *site)
        };
        let untouched = outcome.places.iter().filter(|place| !is_touched(&place.site)).count() as u64;
        text += &format!("; {} left out", counted(left, "run"));
        if untouched > 0 {
            text += &format!(", of {} all", counted(untouched, "stack"));
        }
    }
    text + &format!("; kept in {}\n", relative_path(&outcome.directory))
}
