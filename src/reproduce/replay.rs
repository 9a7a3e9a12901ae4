//! `cupeer replay`: repeats a recording on a simulated machine, and lists the answers that differ.

use crate::args::ReplayArgs;
use crate::program::{Reproduction, choose_machines};
use crate::trial::{Observed, TrialRunner};
use anyhow::{Result, bail};
use cupeer_console::{interrupt, output};
use cupeer_record::Job;
use cupeer_report::names::counted;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Runs the command on an opened recording.
pub fn command(job: &Job, args: &ReplayArgs) -> Result<ExitCode> {
    interrupt::watch_signals()?;
    let reproduction = Reproduction::plan(job)?;
    let machines = choose_machines(job, args.sim.clone().flatten());
    let Some((runner, Observed { differences, .. })) = TrialRunner::choose(machines, &reproduction.format())? else {
        bail!("interrupted before the first run ended")
    };
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for difference in &differences {
        *counts.entry(without_arguments(difference)).or_default() += 1;
    }
    let calls = counted(reproduction.plan.call_count() as u64, "call");
    let left_out = match reproduction.left_out_count() {
        0 => String::new(),
        count => format!(", {} could not be repeated", counted(count, "call")),
    };
    let differ = counted(differences.len() as u64, "answer");
    let machine = runner.machine.unwrap_or_default();
    let mut text = format!("{calls} repeated on {}{left_out}: {differ} differ\n", machine.display());
    for (difference, count) in &counts {
        text += &format!("  {difference}, {}\n", counted(*count, "time"));
    }
    output::print(&text)?;
    Ok(if counts.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns a difference without the arguments of the call.
fn without_arguments(difference: &str) -> String {
    let parts = difference.split_once('(').zip(difference.rsplit_once(" returned "));
    parts
        .map_or_else(|| difference.to_owned(), |((function, _), (_, results))| format!("{function} returned {results}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_the_function_and_both_results() {
        let difference = "cuMemFree(memory1 + 2) returned CUDA_SUCCESS, not CUDA_ERROR_INVALID_VALUE";
        assert_eq!(without_arguments(difference), "cuMemFree returned CUDA_SUCCESS, not CUDA_ERROR_INVALID_VALUE");
        assert_eq!(without_arguments("process 1: it ended"), "process 1: it ended");
    }
}
