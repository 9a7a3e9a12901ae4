//! The outcome of a sweep as JSON.

use super::outcome::SweepOutcome;
use super::state::CompletedRun;
use super::trials::PlannedFault;
use super::verdict::Verdict;
use serde_json::{Value, json};

pub const SCHEMA: &str = "cupeer-sweep/1";

pub fn outcome_json(outcome: &SweepOutcome, is_interrupted: bool) -> Value {
    let calls: u64 = outcome.baseline.places.iter().map(super::trials::SiteCounts::total_calls).sum();
    json!({
        "schema": SCHEMA,
        "program": outcome.plan.program,
        "directory": outcome.directory,
        "calls": calls,
        "stacks": outcome.baseline.places.len(),
        "baseline": {
            "end": outcome.baseline.ran.end,
            "seconds": outcome.baseline.ran.time.as_secs_f64(),
            "processes": outcome.baseline.counted.processes,
            "notes": outcome.baseline.notes,
            "verdict": outcome.baseline_verdict.as_ref().map_or(Verdict::Same, |own| own.verdict),
            "seen": outcome.baseline_verdict.as_ref().map(|own| &own.seen),
        },
        "runs": outcome.done.iter().map(|done| run_json(done, outcome)).collect::<Vec<_>>(),
        "left_out": outcome.left_out.len() as u64 + outcome.unplanned,
        "findings": outcome.distinct_findings().len() + usize::from(outcome.baseline_finding().is_some()),
        "runs_with_findings": outcome.findings().count(),
        "interrupted": is_interrupted,
        "seconds": outcome.time.as_secs_f64(),
    })
}

fn run_json(done: &CompletedRun, outcome: &SweepOutcome) -> Value {
    let is_finding = outcome.plan.is_finding(done.judged.verdict);
    let record = outcome.directory.join(format!("trial-{}", done.number));
    json!({
        "number": done.number,
        "faults": done.trial.faults.iter().map(|one| fault_json(one, outcome)).collect::<Vec<_>>(),
        "verdict": done.judged.verdict,
        "finding": is_finding,
        "seen": done.judged.seen,
        "record": is_finding.then_some(record),
        "command": outcome.repeat_command(Some(&done.trial), done.judged.verdict),
    })
}

fn fault_json(fault: &PlannedFault, outcome: &SweepOutcome) -> Value {
    let call = &fault.call;
    json!({
        "function": call.site.function,
        "program": call.site.program,
        "rank": call.site.rank,
        "process": call.process,
        "stack": format!("{:016x}", call.site.stack),
        "call": call.n,
        "caller": outcome.caller_at(&call.site),
        "code": fault.code,
        "documented": !fault.is_only_seen(),
        "lasting": fault.is_lasting,
        "rule": fault.inject_rule(&outcome.plan),
    })
}
