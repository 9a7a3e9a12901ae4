//! `cupeer sweep --late N`: runs the program on late devices with N seeds, and compares each run with a plain one.

use super::baseline::Baseline;
use super::count::{self, RunObservations};
use super::launch::{RunEnd, RunLauncher, RunRequest, RunResult, program_stderr_lines};
use super::outcome::SweepReport;
use super::plan::{SimChoice, SweepPlan};
use super::pool::{self, PoolLimits};
use super::progress::RunProgress;
use super::state::{CompletedRun, SweepJournal};
use super::times::format_duration;
use super::trials::Trial;
use super::verdict::{JudgedRun, Verdict, judge_trial};
use super::{compare, json, table};
use crate::args::SweepArgs;
use anyhow::{Result, bail, ensure};
use cupeer_console::args::shell_quoted;
use cupeer_console::output::{self, line_width};
use cupeer_console::progress::StepAnnouncer;
use cupeer_recordings::home::{relative_path, report_argument};
use cupeer_report::names::counted;
use cupeer_topology::Topology;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Topology of `--sim` without a value.
const DEFAULT_TOPOLOGY: &str = "nvlink:2";

/// The outcome of runs with seeds. The seed of a run is its number.
pub struct SeedOutcome {
    plan: SweepPlan,
    baseline: Baseline,
    done: Vec<CompletedRun>,
    left_out: usize,
    directory: PathBuf,
    time: Duration,
}

/// Returns a topology in which the devices are late, with this seed.
fn late_topology(plan: &SweepPlan, seed: usize) -> String {
    let name = if let SimChoice::Topology(name) = &plan.sim { name.as_str() } else { DEFAULT_TOPOLOGY };
    format!("{name},late:{seed}")
}

/// Runs the program with devices that are not late, and then with each seed. Returns `None` if it was interrupted
/// before the first result.
pub fn sweep_seeds(
    args: &SweepArgs,
    mut plan: SweepPlan,
    journal: &mut SweepJournal,
    seeds: usize,
) -> Result<Option<SeedOutcome>> {
    let start = Instant::now();
    if let SimChoice::Topology(name) = &plan.sim {
        let is_late = Topology::parse(name).is_ok_and(|machine| machine.late.is_some());
        ensure!(!is_late, "--late chooses the seeds; leave 'late' out of --sim={name}");
    } else {
        plan.sim = SimChoice::Usual;
    }
    let mut launcher = RunLauncher::new(plan, journal.directory.clone(), args.keep);
    let Some(baseline) = run_without_delays(&mut launcher)? else { return Ok(None) };
    launcher.set_time_limit(baseline.ran.time);
    let jobs = pool::job_count(args, &baseline);
    let until = args.budget.map(|budget| Instant::now() + budget);
    let limits = PoolLimits { jobs, until, is_first_enough: args.fail_fast };
    let (progress, directory) = (RunProgress::new(jobs), journal.directory.clone());
    progress.add_expected(seeds);
    let journal = Mutex::new(journal);
    let trials = vec![Trial { faults: Vec::new() }; seeds];
    let run = |index: usize, trial: &Trial| {
        let number = index + 1;
        let Some(judged) = run_seed(&launcher, &baseline, number)? else { return Ok(None) };
        progress.note_completed(launcher.plan.is_finding(judged.verdict));
        let done = CompletedRun { trial: trial.clone(), number, judged, new: Vec::new() };
        if let Ok(mut journal) = journal.lock() {
            journal.note_completed(&done)?;
        }
        Ok(Some(done))
    };
    let results = pool::run_all(&trials, &limits, &progress, &run);
    progress.clear_bar();
    let done: Vec<CompletedRun> = results?.into_iter().flatten().collect();
    let left_out = seeds - done.len();
    Ok(Some(SeedOutcome { plan: launcher.plan, baseline, done, left_out, directory, time: start.elapsed() }))
}

/// Runs the program twice with devices that are not late, because its output may differ between any two runs.
fn run_without_delays(launcher: &mut RunLauncher) -> Result<Option<Baseline>> {
    let mut runs: Vec<RunResult> = Vec::new();
    let mut processes = 0;
    let mut steps = StepAnnouncer::new();
    for number in 1..=2 {
        steps.announce_step(&format!("running the program as it is: run {number} of 2, without late devices"));
        let order = RunRequest { name: &format!("plain-{number}"), rules: "", is_dry: true };
        let Some(ran) = launcher.run_program(&order)? else { return Ok(None) };
        let program = &launcher.plan.program[0];
        ensure!(matches!(ran.end, RunEnd::Exited(_)), "'{program}' does not exit by itself without late devices");
        processes = count::read_recording(&ran.recording_path(), &|_| true)?.processes;
        ensure!(processes > 0, "no process of '{program}' reached the driver under cupeer");
        if let Some(command) = &launcher.plan.compare {
            match compare::is_output_right(command, &launcher.plan.directory, &ran.stdout_path())? {
                Some(true) => {}
                Some(false) => bail!("--compare '{command}' rejects the result even without late devices"),
                None => return Ok(None),
            }
        }
        launcher.usual_stderr.extend(program_stderr_lines(&ran));
        runs.push(ran);
    }
    let is_comparable = runs[0].output == runs[1].output;
    let mut notes = Vec::new();
    if !is_comparable && launcher.plan.compare.is_none() {
        notes.push("its output differs from run to run, and is not compared; --compare COMMAND can judge it");
    }
    if runs[0].end != runs[1].end {
        notes.push("it does not always end in the same way: a difference may not be due to late devices");
    }
    notes.iter().for_each(|note| output::print_note(&format!("note: {note}")));
    if !launcher.keeps {
        runs.iter().for_each(|ran| _ = std::fs::remove_dir_all(&ran.directory));
    }
    let mut ran = runs.swap_remove(0);
    ran.time = ran.time.max(runs[0].time);
    ran.leftover_processes = ran.leftover_processes.max(runs[0].leftover_processes);
    Ok(Some(Baseline {
        cost: ran.time,
        ran,
        counted: RunObservations { processes, ..RunObservations::default() },
        is_comparable,
        places: Vec::new(),
        has_programs: false,
        notes: notes.into_iter().map(str::to_owned).collect(),
    }))
}

/// Runs the program with a seed. Returns `None` if the run was interrupted.
fn run_seed(launcher: &RunLauncher, baseline: &Baseline, seed: usize) -> Result<Option<JudgedRun>> {
    let plan = SweepPlan { sim: SimChoice::Topology(late_topology(&launcher.plan, seed)), ..launcher.plan.clone() };
    let late = RunLauncher { plan, ..launcher.clone() };
    let order = RunRequest { name: &format!("seed-{seed}"), rules: "", is_dry: true };
    let Some(ran) = late.run_program(&order)? else { return Ok(None) };
    let right = match &late.plan.compare {
        Some(command) if ran.end == baseline.ran.end => {
            match compare::is_output_right(command, &late.plan.directory, &ran.stdout_path())? {
                None => return Ok(None),
                right => right,
            }
        }
        _ => None,
    };
    let pending = count::read_recording(&ran.recording_path(), &|_| true)?.pending;
    let mut judged =
        judge_trial(baseline, &ran, &RunObservations { fired: true, pending, ..RunObservations::default() }, right);
    if judged.verdict == Verdict::Clean {
        judged.verdict = Verdict::Wrong;
    }
    if !late.keeps && !late.plan.is_finding(judged.verdict) {
        // If this fails, a directory remains, which is harmless.
        let _ = std::fs::remove_dir_all(&ran.directory);
    }
    Ok(Some(judged))
}

impl SeedOutcome {
    fn findings(&self) -> impl Iterator<Item = &CompletedRun> {
        self.done.iter().filter(|done| self.plan.is_finding(done.judged.verdict))
    }

    /// Returns the command that repeats the run with a seed.
    fn repeat_command(&self, seed: usize) -> String {
        let sim = format!("--sim={}", late_topology(&self.plan, seed));
        let words = ["cupeer", "run", sim.as_str(), "--"].into_iter();
        let words = words.chain(self.plan.program.iter().map(String::as_str));
        words.map(shell_quoted).collect::<Vec<_>>().join(" ")
    }

    fn run_directory(&self, seed: usize) -> PathBuf {
        self.directory.join(format!("seed-{seed}"))
    }
}

impl SweepReport for SeedOutcome {
    fn has_findings(&self) -> bool {
        self.findings().next().is_some()
    }

    fn text(&self) -> String {
        let width = line_width();
        let mut text = String::new();
        let verdicts: BTreeSet<Verdict> = self.findings().map(|done| done.judged.verdict).collect();
        for (number, verdict) in (1..).zip(verdicts) {
            let alike: Vec<&CompletedRun> = self.findings().filter(|done| done.judged.verdict == verdict).collect();
            let (first, seeds) = (alike[0], alike.iter().map(|done| done.number.to_string()));
            text += &format!("\n{number}. {}: seed {}\n", verdict.words(), first.number);
            text += &table::format_field("seeds", &seeds.collect::<Vec<_>>().join(", "), width);
            text += &table::format_field("seen", &first.judged.seen, width);
            text += &format!("   record: {}\n", report_argument(&self.run_directory(first.number)));
            text += &format!("   again: {}\n", self.repeat_command(first.number));
        }
        if output::is_quiet() {
            return text.trim_start().to_owned();
        }
        let (all, found) = (self.done.len() as u64, self.findings().count());
        let differ = if found == 1 { "differs" } else { "differ" };
        let left = if self.left_out > 0 { format!("; {} left out", self.left_out) } else { String::new() };
        let last = format!("{found} of {} {differ} from the plain run", counted(all, "seed"));
        text +=
            &format!("\n{last}, {}{left}; kept in {}\n", format_duration(self.time), relative_path(&self.directory));
        text.trim_start().to_owned()
    }

    fn json(&self, is_interrupted: bool) -> Value {
        let run = |done: &CompletedRun| {
            let is_finding = self.plan.is_finding(done.judged.verdict);
            json!({
                "number": done.number,
                "seed": done.number,
                "verdict": done.judged.verdict,
                "finding": is_finding,
                "seen": done.judged.seen,
                "record": is_finding.then(|| self.run_directory(done.number)),
                "command": self.repeat_command(done.number),
            })
        };
        json!({
            "schema": json::SCHEMA,
            "program": self.plan.program,
            "directory": self.directory,
            "baseline": {
                "end": self.baseline.ran.end,
                "seconds": self.baseline.ran.time.as_secs_f64(),
                "processes": self.baseline.counted.processes,
                "notes": self.baseline.notes,
            },
            "runs": self.done.iter().map(run).collect::<Vec<_>>(),
            "left_out": self.left_out,
            "findings": self.findings().map(|done| done.judged.verdict).collect::<BTreeSet<_>>().len(),
            "runs_with_findings": self.findings().count(),
            "interrupted": is_interrupted,
            "seconds": self.time.as_secs_f64(),
        })
    }
}
