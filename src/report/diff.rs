//! Two reports compared: by function, by failure, by rule, by fault, and by how the handles stand.
//!
//! What belongs here: what is counted in both. Processes and handles of different runs have nothing in common that
//! could be compared one by one.

use super::model::{Report, SEVERITIES, State};
use super::moments::{bytes, duration, number};
use super::text::names::clean;
use crate::table::Table;
use cupeer_spec::effect::Object;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What [`Diff::schema`] says.
const SCHEMA: &str = "cupeer-report-diff/1";
/// Times are listed where one is this many times the other: less is what any two runs differ by.
const SLOWER: f64 = 1.5;

/// Two records compared. Every pair has the value of the first record, and that of the second.
#[derive(Serialize, JsonSchema)]
pub struct Diff {
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// Where they are.
    records: [String; 2],
    functions: Vec<FunctionPair>,
    failures: Vec<FailurePair>,
    findings: Vec<RulePair>,
    faults: Vec<FaultPair>,
    handles: Vec<HandlePair>,
}

/// A function.
#[derive(Serialize, JsonSchema)]
struct FunctionPair {
    /// Its name.
    function: Rc<str>,
    /// Calls.
    calls: [u64; 2],
    /// Calls with a result other than CUDA_SUCCESS.
    failed: [u64; 2],
    /// The time in it.
    total_ns: [u64; 2],
    /// The median.
    p50_ns: [Option<u64>; 2],
    /// The 99th percentile.
    p99_ns: [Option<u64>; 2],
    /// The longest.
    max_ns: [Option<u64>; 2],
    /// Whether calls or failures differ, or a percentile differs by more than half.
    differs: bool,
}

/// A result of a function.
#[derive(Serialize, JsonSchema)]
struct FailurePair {
    /// The function.
    function: Rc<str>,
    /// The name of the result, or its number.
    result: String,
    /// How often.
    count: [u64; 2],
    /// Whether that differs.
    differs: bool,
}

/// A rule, with one severity.
#[derive(Serialize, JsonSchema)]
struct RulePair {
    /// The rule.
    rule: Rc<str>,
    /// Its severity.
    #[schemars(extend("enum" = SEVERITIES))]
    severity: &'static str,
    /// How often.
    count: [u64; 2],
    /// Whether that differs.
    differs: bool,
}

/// A rule of a fault plan.
#[derive(Serialize, JsonSchema)]
struct FaultPair {
    /// Its name.
    name: String,
    /// The rule.
    rule: String,
    /// The calls that met its conditions.
    matched: [u64; 2],
    /// The calls at which it fired.
    fired: [u64; 2],
    /// Whether these differ.
    differs: bool,
}

/// Handles in one state.
#[derive(Serialize, JsonSchema)]
struct HandlePair {
    /// What they are of.
    #[schemars(extend("enum" = Object::exported()))]
    kind: &'static str,
    /// How they stand.
    state: State,
    /// How many.
    count: [u64; 2],
    /// The bytes of their allocations, where known.
    bytes: [u64; 2],
    /// Whether either differs.
    differs: bool,
}

/// Compares two reports.
pub fn compare(a: &Report, b: &Report) -> Diff {
    let both = [a, b];
    Diff {
        schema: SCHEMA,
        records: both.map(|report| report.record.path.clone()),
        functions: functions(both),
        failures: failures(both),
        findings: findings(both),
        faults: faults(both),
        handles: handles(both),
    }
}

fn functions(both: [&Report; 2]) -> Vec<FunctionPair> {
    let mut names: Vec<&Rc<str>> = both.iter().flat_map(|r| &r.functions).map(|f| &f.function).collect();
    names.sort();
    names.dedup();
    let row = |name: &Rc<str>| {
        let of = both.map(|report| report.functions.iter().find(|f| f.function == *name));
        let number = |value: fn(&super::model::Function) -> u64| of.map(|f| f.map_or(0, value));
        let time = |value: fn(&super::model::Function) -> Option<u64>| of.map(|f| f.and_then(value));
        let (calls, failed) = (number(|f| f.calls), number(|f| f.failed()));
        let (p50_ns, p99_ns) = (time(|f| f.p50_ns), time(|f| f.p99_ns));
        FunctionPair {
            function: name.clone(),
            calls,
            failed,
            total_ns: number(|f| f.total_ns),
            p50_ns,
            p99_ns,
            max_ns: time(|f| f.max_ns),
            differs: calls[0] != calls[1] || failed[0] != failed[1] || slower(p50_ns) || slower(p99_ns),
        }
    };
    let mut rows: Vec<FunctionPair> = names.into_iter().map(row).collect();
    rows.sort_by_key(|row| (!row.differs, std::cmp::Reverse(row.calls[0].abs_diff(row.calls[1]))));
    rows
}

/// Whether one time is much longer than the other.
fn slower(times: [Option<u64>; 2]) -> bool {
    match times {
        [Some(a), Some(b)] => a.max(b) as f64 > a.min(b) as f64 * SLOWER,
        [a, b] => a.is_some() != b.is_some(),
    }
}

fn failures(both: [&Report; 2]) -> Vec<FailurePair> {
    let mut counts: BTreeMap<(Rc<str>, String), [u64; 2]> = BTreeMap::new();
    for (i, report) in both.iter().enumerate() {
        for function in &report.functions {
            for (result, count) in &function.failures {
                counts.entry((function.function.clone(), result.clone())).or_default()[i] += count;
            }
        }
    }
    let row = |((function, result), count): ((Rc<str>, String), [u64; 2])| FailurePair {
        function,
        result,
        count,
        differs: count[0] != count[1],
    };
    let mut rows: Vec<FailurePair> = counts.into_iter().map(row).collect();
    rows.sort_by_key(|row| (!row.differs, std::cmp::Reverse(row.count[0].abs_diff(row.count[1]))));
    rows
}

fn findings(both: [&Report; 2]) -> Vec<RulePair> {
    let mut counts: BTreeMap<(Rc<str>, &'static str), [u64; 2]> = BTreeMap::new();
    for (i, report) in both.iter().enumerate() {
        for finding in &report.findings {
            counts.entry((finding.rule.clone(), finding.severity)).or_default()[i] += finding.count;
        }
    }
    let row = |((rule, severity), count): ((Rc<str>, &'static str), [u64; 2])| RulePair {
        rule,
        severity,
        count,
        differs: count[0] != count[1],
    };
    let mut rows: Vec<RulePair> = counts.into_iter().map(row).collect();
    rows.sort_by_key(|row| (!row.differs, std::cmp::Reverse(row.count[0].abs_diff(row.count[1]))));
    rows
}

fn faults(both: [&Report; 2]) -> Vec<FaultPair> {
    let mut sums: BTreeMap<(&str, &str), [[u64; 2]; 2]> = BTreeMap::new();
    for (i, report) in both.iter().enumerate() {
        for fault in &report.faults {
            let rule = fault.rule.as_deref().unwrap_or_default();
            let [matched, fired] = sums.entry((&fault.name, rule)).or_default();
            matched[i] = matched[i].saturating_add(fault.matched.unwrap_or(0));
            fired[i] = fired[i].saturating_add(fault.fired);
        }
    }
    let row = |((name, rule), [matched, fired]): ((&str, &str), [[u64; 2]; 2])| FaultPair {
        name: name.to_owned(),
        rule: rule.to_owned(),
        matched,
        fired,
        differs: matched[0] != matched[1] || fired[0] != fired[1],
    };
    let mut rows: Vec<FaultPair> = sums.into_iter().map(row).collect();
    rows.sort_by_key(|row| (!row.differs, std::cmp::Reverse(row.fired[0].abs_diff(row.fired[1]))));
    rows
}

fn handles(both: [&Report; 2]) -> Vec<HandlePair> {
    let mut sums: BTreeMap<(&'static str, State), [(u64, u64); 2]> = BTreeMap::new();
    for (i, report) in both.iter().enumerate() {
        for handle in &report.handles {
            let (count, bytes) = &mut sums.entry((handle.kind, handle.state)).or_default()[i];
            *count += 1;
            *bytes = bytes.saturating_add(handle.bytes.unwrap_or(0));
        }
    }
    let row = |((kind, state), sums): ((&'static str, State), [(u64, u64); 2])| HandlePair {
        kind,
        state,
        count: sums.map(|(count, _)| count),
        bytes: sums.map(|(_, bytes)| bytes),
        differs: sums[0] != sums[1],
    };
    sums.into_iter().rev().map(row).collect()
}

/// `48 -> 40`, or `48` where both are the same.
fn change<T: PartialEq>([a, b]: [T; 2], text: impl Fn(T) -> String) -> String {
    if a == b { text(a) } else { format!("{} -> {}", text(a), text(b)) }
}

impl Diff {
    /// The comparison for people: what differs.
    pub fn show(&self, width: usize) -> String {
        let [a, b] = &self.records;
        let mut text = format!("first   {}\nsecond  {}\n", clean(a), clean(b));
        let parts = [
            self.show_functions(width),
            self.show_failures(width),
            self.show_findings(width),
            self.show_faults(width),
            self.show_handles(width),
        ];
        if parts.iter().all(String::is_empty) {
            text += "\nNothing differs in calls, failures, findings, faults and handles.\n";
        }
        text + &parts.concat()
    }

    fn show_functions(&self, width: usize) -> String {
        let mut table = Table::new(&["FUNCTION", "CALLS", "FAILED", "P50", "P99", "MAX", "TOTAL"], 4, 18);
        let time = |times: [Option<u64>; 2]| match times {
            [Some(a), Some(b)] if !slower(times) => duration(a.min(b)),
            _ => change(times, |ns| ns.map_or("-".into(), duration)),
        };
        let rows = self.functions.iter().filter(|row| row.differs);
        for row in rows {
            table.row([
                clean(&row.function),
                change(row.calls, number),
                change(row.failed, number),
                time(row.p50_ns),
                time(row.p99_ns),
                time(row.max_ns),
                time(row.total_ns.map(Some)),
            ]);
        }
        let same = self.functions.iter().filter(|row| !row.differs).count() as u64;
        section("Functions that differ", table, width, same, "function is alike", "functions are alike")
    }

    fn show_failures(&self, width: usize) -> String {
        let mut table = Table::new(&["FUNCTION", "FAILED", "RESULT"], 3, 20);
        for row in self.failures.iter().filter(|row| row.differs) {
            table.row([clean(&row.function), change(row.count, number), row.result.clone()]);
        }
        let same = self.failures.iter().filter(|row| !row.differs).count() as u64;
        section(
            "Failures that differ",
            table,
            width,
            same,
            "failure is as frequent",
            "failures are as frequent",
        )
    }

    fn show_findings(&self, width: usize) -> String {
        let mut table = Table::new(&["RULE", "SEVERITY", "COUNT"], 3, 10);
        for row in self.findings.iter().filter(|row| row.differs) {
            table.row([clean(&row.rule), row.severity.into(), change(row.count, number)]);
        }
        let same = self.findings.iter().filter(|row| !row.differs).count() as u64;
        section("Findings that differ", table, width, same, "rule is as frequent", "rules are as frequent")
    }

    fn show_faults(&self, width: usize) -> String {
        let mut table = Table::new(&["FAULT", "MATCHED", "FIRED", "RULE"], 4, 20).or_below();
        for row in self.faults.iter().filter(|row| row.differs) {
            let (matched, fired) = (change(row.matched, number), change(row.fired, number));
            table.row([clean(&row.name), matched, fired, clean(&row.rule)]);
        }
        let same = self.faults.iter().filter(|row| !row.differs).count() as u64;
        section("Faults that differ", table, width, same, "fault is as frequent", "faults are as frequent")
    }

    fn show_handles(&self, width: usize) -> String {
        let mut table = Table::new(&["HANDLES", "STATE", "COUNT", "SIZE"], 4, 10);
        for row in self.handles.iter().filter(|row| row.differs) {
            let (count, size) = (change(row.count, number), change(row.bytes, bytes));
            table.row([row.kind.into(), row.state.word().into(), count, size]);
        }
        let same = self.handles.iter().filter(|row| !row.differs).count() as u64;
        section(
            "HandlePair that differ",
            table,
            width,
            same,
            "state is as frequent",
            "states are as frequent",
        )
    }
}

/// A table under its title, and how much is left out because it is the same.
fn section(title: &str, table: Table, width: usize, same: u64, one: &str, more: &str) -> String {
    if table.is_empty() {
        return String::new();
    }
    let same = match same {
        0 => String::new(),
        1 => format!("1 {one} in both\n"),
        _ => format!("{} {more} in both\n", number(same)),
    };
    format!("\n{title}\n{}{same}", table.render(width))
}
