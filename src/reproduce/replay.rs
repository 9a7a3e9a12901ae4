//! `cupeer replay`: repeats a recording on a simulated machine, and lists the answers that differ.

use crate::args::ReplayArgs;
use crate::program::{Reproduction, machines_like};
use crate::trial::TrialRunner;
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
    let text = reproduction.format();
    let mut runner = match args.sim.clone().flatten() {
        Some(machine) => TrialRunner::new(Some(machine))?,
        None => TrialRunner::choose_machine(machines_like(job), &text)?,
    };
    let Some(observed) = runner.run(&text)? else { bail!("interrupted") };
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for line in &observed.lines {
        *counts.entry(describe_difference(line)).or_default() += 1;
    }
    let calls = counted(reproduction.plan.call_count() as u64, "call");
    let left_out = match reproduction.left_out_count() {
        0 => String::new(),
        count => format!(", {} could not be repeated", counted(count, "call")),
    };
    let differ = counted(observed.lines.len() as u64, "answer");
    let machine = runner.machine.unwrap_or_default();
    let mut text = format!("{calls} repeated on {}{left_out}: {differ} differ\n", machine.display());
    for (difference, count) in &counts {
        text += &format!("  {difference}, {}\n", counted(*count, "time"));
    }
    output::print(&text)?;
    Ok(if counts.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the function and its results, without its arguments and the place in the file.
fn describe_difference(line: &str) -> String {
    let call = line.split_once(", line ").and_then(|(_, rest)| rest.split_once(": "));
    let parts = call.and_then(|(_, call)| Some((call.split_once('(')?.0, call.rsplit_once(" returned ")?.1)));
    parts.map_or_else(|| line.to_owned(), |(function, results)| format!("{function} returned {results}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_the_function_and_both_results() {
        let line = "process 1, line 40: cuMemFree(memory1 + 2) returned CUDA_SUCCESS, not CUDA_ERROR_INVALID_VALUE";
        assert_eq!(describe_difference(line), "cuMemFree returned CUDA_SUCCESS, not CUDA_ERROR_INVALID_VALUE");
        assert_eq!(describe_difference("process 1: it ended"), "process 1: it ended");
    }
}
