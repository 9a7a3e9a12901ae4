//! The comment at the head of the file: what was recorded, what it reproduces, and what it leaves out. It has nothing of the
//! program.

use crate::plan::Plan;
use crate::plan::step::ExpectedOutcome;
use cupeer_record::Process;
use cupeer_report::model::Report;
use cupeer_report::names::counted;
use std::collections::BTreeMap;

/// Most findings and failures that are listed.
const MOST_LISTED: usize = 8;

/// The whole program of which a part is left.
pub struct ShrunkFrom {
    /// The thing that the part still shows.
    pub goal: String,
    /// Number of calls of the whole program.
    pub calls: usize,
}

/// Returns the paragraphs of the comment.
pub fn build_head(
    processes: &[&Process],
    report: &Report,
    plan: &Plan,
    shrunk_from: Option<&ShrunkFrom>,
) -> Vec<String> {
    let (calls, count) = (counted(plan.call_count() as u64, "call"), counted(processes.len() as u64, "process"));
    let version = env!("CARGO_PKG_VERSION");
    let mut paragraphs = vec![
        format!("Repeats {calls} of {count}, as cupeer {version} recorded them. It has nothing else of the program."),
        String::new(),
        format!("Recorded with {}.", describe_system(processes)),
    ];
    match shrunk_from {
        Some(ShrunkFrom { goal, calls }) => {
            let whole = counted(*calls as u64, "call");
            paragraphs
                .push(format!("It reproduces {goal}. The whole program has {whole}; the others do not matter for it."));
        }
        None => {
            paragraphs.extend(describe_errors(report, plan));
            paragraphs.push(String::new());
            paragraphs.extend(describe_left_out(processes, plan));
        }
    }
    let build = "Build: cc -Wall -o bug bug.c -lcuda";
    let run = "Run: ./bug prints each result that differs from the recorded one, and exits with 1 if one does.";
    paragraphs.extend(["", build, run].map(ToOwned::to_owned));
    paragraphs
}

fn describe_system(processes: &[&Process]) -> String {
    let driver = processes.iter().find_map(|process| process.text("driver")?.parse::<u32>().ok());
    let driver = driver.map(|version| format!("a driver for CUDA {}.{}", version / 1000, version % 1000 / 10));
    let mut devices = BTreeMap::new();
    for device in processes.iter().flat_map(|process| &process.devices) {
        devices.entry(device.uuid).or_insert((device.ordinal, &device.name));
    }
    let devices = devices.values().map(|(ordinal, name)| format!("device {ordinal}: {name}"));
    let devices = devices.collect::<Vec<_>>().join(", ");
    format!("{}; {devices}", driver.as_deref().unwrap_or("an unknown driver"))
}

/// Returns the findings and failed calls that the file reproduces.
fn describe_errors(report: &Report, plan: &Plan) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for finding in report.findings.iter().take(MOST_LISTED) {
        let (rule, severity, function) = (&finding.rule, &finding.severity, &finding.function);
        lines.push(format!("{severity} {rule}: {function}, {}", counted(finding.count, "time")));
    }
    let mut failures: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for step in &plan.steps {
        let name = step.call.split('(').next().unwrap_or_default();
        match &step.expected {
            ExpectedOutcome::Result(result) if result != "CUDA_SUCCESS" => {
                *failures.entry((name, result)).or_default() += step.times;
            }
            ExpectedOutcome::NoReturn => *failures.entry((name, "no return")).or_default() += 1,
            _ => {}
        }
    }
    let failed = failures.iter().take(MOST_LISTED);
    lines.extend(failed.map(|((name, result), times)| format!("{name}: {result}, {}", counted(*times, "time"))));
    if lines.is_empty() {
        return vec!["cupeer found no error in it.".to_owned()];
    }
    std::iter::once("It reproduces:".to_owned()).chain(lines.into_iter().map(|line| format!("- {line}"))).collect()
}

fn describe_left_out(processes: &[&Process], plan: &Plan) -> Vec<String> {
    let mut lines = vec![
        "Not recorded, so not repeated: kernels, streams, work on memory that is not shared, most small allocations, threads, flags \
         of contexts, and calls between these. Contents of memory are patterns."
            .to_owned(),
    ];
    let left_out: Vec<String> = plan.left_out.iter().map(|(function, count)| format!("{function} ({count})")).collect();
    if !left_out.is_empty() {
        lines.push(format!("Recorded, but not repeated: {}.", left_out.join(", ")));
    }
    if plan.injected > 0 {
        lines.push(format!("Left out because a fault plan supplied the result: {}.", counted(plan.injected, "call")));
    }
    for (number, process) in processes.iter().enumerate() {
        if process.has_overwritten() {
            lines.push(format!("The recording lacks the first calls of process {number}: its ring was full."));
        } else if process.has_losses() {
            lines.push(format!("The recording lacks calls of process {number}."));
        }
    }
    lines
}
