//! The program without faults: how it ends, what it leaves open, and which calls it makes.

use super::compare;
use super::count::{self, RunObservations};
use super::launch::{RunEnd, RunLauncher, RunRequest, RunResult, program_stderr_lines};
use super::plan::SweepPlan;
use super::trials::{self, SiteCounts};
use anyhow::{Result, bail};
use cupeer_console::progress::StepAnnouncer;
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// Functions whose calls fail without --calls: all except those that load libraries or release something (programs
/// rarely check these), and those that programs call all the time to query, allocate, and copy.
const DEFAULT_CALLS: &str =
    "^@lookup,^@init,^@release,^@lifetime,^@query,^@alloc,^@copy,^@launch,^@graph,^@event,^@order";

#[derive(Clone, Debug)]
pub struct Baseline {
    /// Observations about the runs. If a count differs between the runs, this is the largest.
    pub ran: RunResult,
    pub counted: RunObservations,
    /// True if all runs had the same stdout.
    pub is_comparable: bool,
    /// Average duration of a run with all preparations.
    pub cost: Duration,
    pub places: Vec<SiteCounts>,
    /// True if several programs of the run reach the driver.
    pub has_programs: bool,
    /// Sentences about differences between the runs.
    pub notes: Vec<String>,
}

/// Returns the rule that counts calls: it matches all calls that may fail, and only records them.
pub fn counting_rule(plan: &SweepPlan) -> String {
    format!("{}:delay=0ms:name={}", plan.calls.as_deref().unwrap_or(DEFAULT_CALLS), count::COUNT)
}

/// Runs the program once without faults, and twice with all calls counted. Returns `None` if the sweep was interrupted.
pub fn measure_baseline(launcher: &mut RunLauncher) -> Result<Option<Baseline>> {
    let counting = counting_rule(&launcher.plan);
    let orders = [("baseline-1", ""), ("baseline-2", &counting), ("baseline-3", &counting)];
    let mut runs = Vec::new();
    let mut steps = StepAnnouncer::new();
    let start = Instant::now();
    for (number, (name, rules)) in (1..).zip(orders) {
        let what = if rules.is_empty() { "running the program as it is" } else { "counting its calls" };
        steps.announce_step(&format!("{what}: run {number} of {}, without faults", orders.len()));
        let Some(ran) = launcher.run_program(&RunRequest { name, rules, is_dry: true })? else {
            return Ok(None);
        };
        let counted = count::read_recording(&ran.recording_path(), &|_| false)?;
        if counted.processes == 0 && matches!(ran.end, RunEnd::Exited(_)) {
            let program = &launcher.plan.program[0];
            bail!(
                "no process of '{program}' reached the driver under cupeer, so there is nothing to fail; 'cupeer run' and 'cupeer doctor' say why"
            );
        }
        launcher.usual_stderr.extend(program_stderr_lines(&ran));
        let is_over = ran.end == RunEnd::TimedOut;
        runs.push((ran, counted));
        if is_over {
            break;
        }
    }
    let cost = start.elapsed() / runs.len() as u32;
    let baseline = build_baseline(launcher, &runs, cost, &mut steps)?;
    if baseline.is_some() && !launcher.keeps {
        for (ran, _) in &runs {
            // If this fails, a directory remains, which is harmless.
            let _ = fs::remove_dir_all(&ran.directory);
        }
    }
    Ok(baseline)
}

fn build_baseline(
    launcher: &RunLauncher,
    runs: &[(RunResult, RunObservations)],
    cost: Duration,
    steps: &mut StepAnnouncer,
) -> Result<Option<Baseline>> {
    let (first, _) = &runs[0];
    let mut notes = Vec::new();
    if runs.iter().any(|(ran, _)| ran.end != first.end) {
        notes.push("it does not always end in the same way: verdicts may not be repeatable".to_owned());
    }
    let is_comparable = runs.iter().all(|(ran, _)| ran.output == first.output);
    if let Some(command) = &launcher.plan.compare {
        for (number, (ran, _)) in (1..).zip(runs) {
            steps.announce_step(&format!("comparing: --compare judges run {number} of {}", runs.len()));
            match compare::is_output_right(command, &launcher.plan.directory, &ran.stdout_path())? {
                Some(true) => {}
                Some(false) => bail!("--compare '{command}' rejects the result even without a fault"),
                None => return Ok(None),
            }
        }
    } else if !is_comparable {
        notes
            .push("its output differs from run to run, and is not compared; --compare COMMAND can judge it".to_owned());
    }
    let (_, last) = &runs[runs.len() - 1];
    let places = trials::sorted_sites(last);
    if runs.len() == 3 && !trials::made_same_calls(&places, &trials::sorted_sites(&runs[1].1)) {
        notes.push("its calls differ from run to run: verdicts may not be repeatable".to_owned());
    }
    let (mut ran, mut counted) = (first.clone(), last.clone());
    for (other, also) in runs {
        ran.leftover_processes = ran.leftover_processes.max(other.leftover_processes);
        ran.time = ran.time.max(other.time);
        for (known, of_run) in [(&mut counted.open, &also.open), (&mut counted.held, &also.held)] {
            for (what, count) in of_run {
                let most = known.entry(what.clone()).or_default();
                *most = *count.max(most);
            }
        }
        counted.broken.extend(also.broken.iter().cloned());
        counted.forgotten.extend(also.forgotten.iter().cloned());
    }
    let taken_back: Vec<&str> = counted.reclaimed_objects(counted.open.keys()).collect();
    if ran.end == RunEnd::Exited(0) && !taken_back.is_empty() {
        notes.push(format!("it ends with {} open, which the system takes back", taken_back.join(", ")));
    }
    let programs: BTreeSet<&str> = places.iter().map(|place| place.site.program.as_str()).collect();
    let has_programs = programs.len() > 1;
    Ok(Some(Baseline { ran, counted, is_comparable, cost, has_programs, places, notes }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::fault;
    use cupeer_spec::function::{FnId, Group};

    #[test]
    fn the_rule_that_counts_can_be_read() {
        let functions = |calls: Option<&str>| {
            let rule = counting_rule(&SweepPlan { calls: calls.map(str::to_owned), ..SweepPlan::default() });
            let plan = fault::FaultPlan::parse("sweep", &rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
            FnId::all().filter(|function| plan.rules[0].functions.contains(*function as usize)).collect::<Vec<_>>()
        };
        let is_usual = |function: &FnId| {
            let spec = function.spec();
            spec.is_alterable()
                && !spec.is_recorded_on_request()
                && !spec.is_in(Group::Init)
                && !spec.is_release()
                && !spec.is_device_work()
        };
        assert_eq!(functions(None), FnId::all().filter(is_usual).collect::<Vec<_>>());
        let alterable = FnId::all().filter(|function| function.spec().is_alterable());
        assert_eq!(functions(Some("all")), alterable.collect::<Vec<_>>());
    }
}
