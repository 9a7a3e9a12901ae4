//! Compares two reports: by function, by failure, by rule, by fault, and by the state of handles.
//!
//! It compares counts that both have. Processes and handles of different runs have nothing in common that could be
//! compared one by one.

use crate::table::Table;
use cupeer_report::model::{Fault, Finding, Function, Handle, Report, SEVERITIES, State};
use cupeer_report::moments::{bytes, duration, number};
use cupeer_report::names::clean;
use cupeer_report::style::{Emphasis, Style};
use cupeer_spec::effect::Object;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Value of [`Diff::schema`].
const SCHEMA: &str = "cupeer-report-diff/1";
/// Ratio from which two times are listed. Smaller differences occur between any two runs.
const SLOWER: f64 = 1.5;

/// Page on which the comparison is printed: its width and styles.
#[derive(Clone, Copy)]
struct PageStyle {
    width: usize,
    style: Style,
}

/// Comparison of two reports. Every pair has the value of the first report, and that of the second.
#[derive(Serialize, JsonSchema)]
pub struct Diff {
    /// Version of this format.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// Paths of the two recordings.
    records: [String; 2],
    /// Calls by function.
    functions: Vec<FunctionPair>,
    /// Failed calls by function and result.
    failures: Vec<FailurePair>,
    /// Findings by rule and severity.
    findings: Vec<RulePair>,
    /// Faults of fault plans.
    faults: Vec<FaultPair>,
    /// Handles by kind and state.
    handles: Vec<HandlePair>,
}

/// Calls of one function in both recordings.
#[derive(Serialize, JsonSchema)]
struct FunctionPair {
    /// Name of the function.
    function: Rc<str>,
    /// Number of calls.
    calls: [u64; 2],
    /// Number of calls whose result was not CUDA_SUCCESS.
    failed: [u64; 2],
    /// Total duration of the calls in nanoseconds.
    total_ns: [u64; 2],
    /// Median duration in nanoseconds.
    p50_ns: [Option<u64>; 2],
    /// 99th percentile of the durations in nanoseconds.
    p99_ns: [Option<u64>; 2],
    /// Longest duration in nanoseconds.
    max_ns: [Option<u64>; 2],
    /// True if calls or failures differ, or a percentile differs by more than half.
    differs: bool,
}

/// Failed calls of one function with one result in both recordings.
#[derive(Serialize, JsonSchema)]
struct FailurePair {
    /// Name of the function.
    function: Rc<str>,
    /// Name of the result, or its number if it has no name.
    result: String,
    /// Number of failed calls.
    count: [u64; 2],
    /// True if the numbers differ.
    differs: bool,
}

/// Findings of one rule with one severity in both recordings.
#[derive(Serialize, JsonSchema)]
struct RulePair {
    /// Name of the rule.
    rule: Rc<str>,
    /// Severity of the findings.
    #[schemars(extend("enum" = SEVERITIES))]
    severity: &'static str,
    /// Number of findings.
    count: [u64; 2],
    /// True if the numbers differ.
    differs: bool,
}

/// Fault of a fault plan in both recordings.
#[derive(Serialize, JsonSchema)]
struct FaultPair {
    /// Name of the fault.
    name: String,
    /// Text of the fault.
    rule: String,
    /// Number of calls that met the conditions.
    matched: [u64; 2],
    /// Number of calls at which the fault fired.
    fired: [u64; 2],
    /// True if the numbers differ.
    differs: bool,
}

/// Handles of one kind in one state in both recordings.
#[derive(Serialize, JsonSchema)]
struct HandlePair {
    /// Kind of object that the handles are for.
    #[schemars(extend("enum" = Object::exportable_words()))]
    kind: &'static str,
    /// State of the handles.
    state: State,
    /// Number of handles.
    count: [u64; 2],
    /// Size in bytes of their allocations, as far as it is known.
    bytes: [u64; 2],
    /// True if the numbers or sizes differ.
    differs: bool,
}

/// Compares two reports.
///
/// # Examples
///
/// ```no_run
/// use cupeer_report::{model::Report, style::Style};
/// use cupeer_views::diff::compare;
///
/// fn print(before: &Report, after: &Report) {
///     print!("{}", compare(before, after).show(80, Style::Plain));
/// }
/// ```
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
        let number = |value: fn(&Function) -> u64| of.map(|f| f.map_or(0, value));
        let time = |value: fn(&Function) -> Option<u64>| of.map(|f| f.and_then(value));
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
            differs: calls[0] != calls[1] || failed[0] != failed[1] || is_much_longer(p50_ns) || is_much_longer(p99_ns),
        }
    };
    let mut rows: Vec<FunctionPair> = names.into_iter().map(row).collect();
    rows.sort_by_key(|row| sort_key(row.differs, row.calls));
    rows
}

/// Returns true if one time is much longer than the other.
fn is_much_longer(times: [Option<u64>; 2]) -> bool {
    match times {
        [Some(a), Some(b)] => a.max(b) as f64 > a.min(b) as f64 * SLOWER,
        [a, b] => a.is_some() != b.is_some(),
    }
}

fn failures(both: [&Report; 2]) -> Vec<FailurePair> {
    let results = |report: &Report| {
        let of = |f: &Function| f.failures.iter().map(|(r, n)| ((f.function.clone(), r.clone()), [*n])).collect();
        report.functions.iter().flat_map::<Vec<_>, _>(of).collect()
    };
    let mut rows = sum_by_key(both, results, |(function, result), [count], differs| FailurePair {
        function,
        result,
        count,
        differs,
    });
    rows.sort_by_key(|row| sort_key(row.differs, row.count));
    rows
}

fn findings(both: [&Report; 2]) -> Vec<RulePair> {
    let of = |f: &Finding| ((f.rule.clone(), f.severity), [f.count]);
    let row = |(rule, severity), [count]: [_; 1], differs| RulePair { rule, severity, count, differs };
    let mut rows = sum_by_key(both, |report| report.unsuppressed().map(of).collect(), row);
    rows.sort_by_key(|row| sort_key(row.differs, row.count));
    rows
}

fn faults(both: [&Report; 2]) -> Vec<FaultPair> {
    let name = |f: &Fault| (f.name.clone(), f.rule.clone().unwrap_or_default());
    let of = |f: &Fault| (name(f), [f.matched.unwrap_or(0), f.fired]);
    let row = |(name, rule), [matched, fired]: [_; 2], differs| FaultPair { name, rule, matched, fired, differs };
    let mut rows = sum_by_key(both, |report| report.faults.iter().map(of).collect(), row);
    rows.sort_by_key(|row| sort_key(row.differs, row.fired));
    rows
}

fn handles(both: [&Report; 2]) -> Vec<HandlePair> {
    let of = |handle: &Handle| ((handle.kind, handle.state), [1, handle.bytes.unwrap_or(0)]);
    let row = |(kind, state), [count, bytes]: [_; 2], differs| HandlePair { kind, state, count, bytes, differs };
    let mut rows = sum_by_key(both, |report| report.handles.iter().map(of).collect(), row);
    rows.reverse();
    rows
}

/// Sums up rows of numbers by key, in both reports.
fn sum_by_key<K: Ord, R, const N: usize>(
    both: [&Report; 2],
    numbers: impl Fn(&Report) -> Vec<(K, [u64; N])>,
    row: impl Fn(K, [[u64; 2]; N], bool) -> R,
) -> Vec<R> {
    let mut all: BTreeMap<K, [[u64; 2]; N]> = BTreeMap::new();
    for (i, report) in both.into_iter().enumerate() {
        for (key, numbers) in numbers(report) {
            let sums = all.entry(key).or_insert([[0; 2]; N]);
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| sum[i] = sum[i].saturating_add(number));
        }
    }
    all.into_iter().map(|(key, sums)| row(key, sums, sums.iter().any(|[a, b]| a != b))).collect()
}

/// Sort key: the greatest difference comes first.
fn sort_key(differs: bool, [a, b]: [u64; 2]) -> impl Ord {
    (!differs, std::cmp::Reverse(a.abs_diff(b)))
}

/// Formats a pair of values: `48 -> 40`, or `48` if both are the same.
fn format_change<T: PartialEq>([a, b]: [T; 2], text: impl Fn(T) -> String) -> String {
    if a == b { text(a) } else { format!("{} -> {}", text(a), text(b)) }
}

impl Diff {
    /// Returns the differences as text for people.
    pub fn show(&self, width: usize, style: Style) -> String {
        let page = PageStyle { width, style };
        let [a, b] = &self.records;
        let mut text = format!("first   {}\nsecond  {}\n", clean(a), clean(b));
        let parts = [
            self.show_functions(page),
            self.show_failures(page),
            self.show_findings(page),
            self.show_faults(page),
            self.show_handles(page),
        ];
        if parts.iter().all(String::is_empty) {
            text += "\nNothing differs in calls, failures, findings, faults and handles.\n";
        }
        text + &parts.concat()
    }

    fn show_functions(&self, page: PageStyle) -> String {
        let table = Table::new(&["FUNCTION", "CALLS", "FAILED", "P50", "P99", "MAX", "TOTAL"], 4, 18);
        let time = |times: [Option<u64>; 2]| match times {
            [Some(a), Some(b)] if !is_much_longer(times) => duration(a.min(b)),
            _ => format_change(times, |ns| ns.map_or("-".into(), duration)),
        };
        let cells = |row: &FunctionPair| {
            row.differs.then(|| {
                [
                    clean(&row.function),
                    format_change(row.calls, number),
                    format_change(row.failed, number),
                    time(row.p50_ns),
                    time(row.p99_ns),
                    time(row.max_ns),
                    time(row.total_ns.map(Some)),
                ]
            })
        };
        let alike = ["function does not differ", "functions do not differ"];
        format_section("Functions that differ", table, page, &self.functions, cells, alike)
    }

    fn show_failures(&self, page: PageStyle) -> String {
        let table = Table::new(&["FUNCTION", "FAILED", "RESULT"], 3, 20);
        let cells = |row: &FailurePair| {
            row.differs.then(|| [clean(&row.function), format_change(row.count, number), row.result.clone()])
        };
        let alike = ["failure is as frequent", "failures are as frequent"];
        format_section("Failures that differ", table, page, &self.failures, cells, alike)
    }

    fn show_findings(&self, page: PageStyle) -> String {
        let table = Table::new(&["RULE", "SEVERITY", "COUNT"], 3, 10);
        let cells = |row: &RulePair| {
            row.differs.then(|| [clean(&row.rule), row.severity.into(), format_change(row.count, number)])
        };
        let alike = ["rule is as frequent", "rules are as frequent"];
        format_section("Findings that differ", table, page, &self.findings, cells, alike)
    }

    fn show_faults(&self, page: PageStyle) -> String {
        let table = Table::new(&["FAULT", "MATCHED", "FIRED", "DEFINITION"], 4, 20).with_last_below();
        let cells = |row: &FaultPair| {
            let (matched, fired) = (format_change(row.matched, number), format_change(row.fired, number));
            row.differs.then(|| [clean(&row.name), matched, fired, clean(&row.rule)])
        };
        let alike = ["fault is as frequent", "faults are as frequent"];
        format_section("Faults that differ", table, page, &self.faults, cells, alike)
    }

    fn show_handles(&self, page: PageStyle) -> String {
        let table = Table::new(&["HANDLES", "STATE", "COUNT", "SIZE"], 4, 10);
        let cells = |row: &HandlePair| {
            let (count, size) = (format_change(row.count, number), format_change(row.bytes, bytes));
            row.differs.then(|| [row.kind.into(), row.state.to_string(), count, size])
        };
        let alike = ["state is as frequent", "states are as frequent"];
        format_section("Handles that differ", table, page, &self.handles, cells, alike)
    }
}

/// Formats a titled table of the rows for which `cells` returns cells, and below it the number of other rows,
/// which are the same in both recordings. `one` and `more` are the words after this number. Empty if no row
/// has cells.
fn format_section<R, const N: usize>(
    title: &str,
    mut table: Table,
    page: PageStyle,
    rows: &[R],
    cells: impl Fn(&R) -> Option<[String; N]>,
    [one, more]: [&str; 2],
) -> String {
    rows.iter().filter_map(&cells).for_each(|cells| table.push_row(cells));
    if table.is_empty() {
        return String::new();
    }
    let same = match rows.iter().filter(|row| cells(row).is_none()).count() as u64 {
        0 => String::new(),
        1 => format!("1 {one} in both\n"),
        same => format!("{} {more} in both\n", number(same)),
    };
    format!("\n{}\n{}{same}", page.style.emphasize(Emphasis::Heading, title), table.render(page.width))
}
