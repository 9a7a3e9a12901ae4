//! `cupeer sweep`: fails each call of a program in turn, and judges what the program does about it.
//!
//! In: a program, and which calls fail with what. Out: a verdict for each run, and a directory with a journal and the recordings of
//! findings. It runs the program without faults first (`baseline`), counts the calls that can fail (`count`), and makes a plan for
//! each (`trials`). Begin with `sweep` in this file, then `trial`, which takes one run from its rules to its verdict.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `args`: the options.
//! - `times`, `progress`: time, and lines about the progress.
//! - `processes`, `plan`, `launch`, `compare`: one run of the program.
//! - `held`, `count`: its recording.
//! - `trials`, `baseline`: the runs to make, and the one without faults.
//! - `verdict`, `state`, `trial`: the verdict of a run, and the journal.
//! - `outcome`, `json`, `table`: the outcome, and its forms.
//! - `pool`, `queue`: all runs in their order, several at once.
//! - `late`: the option `--late`.

pub mod args;
mod baseline;
mod compare;
mod count;
mod held;
mod json;
mod late;
mod launch;
mod outcome;
mod plan;
mod pool;
mod processes;
mod progress;
mod queue;
mod state;
mod table;
mod times;
mod trial;
mod trials;
mod verdict;

use outcome::{SweepOutcome, SweepReport};

use crate::args::{SweepArgs, SweepFormat};
use anyhow::Result;
use cupeer_console::{interrupt, output, status};
use cupeer_recordings::home::report_argument;
use cupeer_recordings::kept;
use launch::{RunEnd, RunLauncher};
use plan::SweepPlan;
use state::SweepJournal;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use trial::TrialRunner;
use verdict::judge_baseline;

/// Runs the command.
pub fn command(args: &SweepArgs) -> Result<ExitCode> {
    output::set_verbose(args.verbose);
    output::set_quiet(args.quiet);
    let plan = SweepPlan::new(args)?;
    let mut journal = SweepJournal::create(args.out.as_deref(), &plan.program)?;
    interrupt::watch_signals()?;
    let directory = journal.directory.clone();
    let swept = match args.late {
        Some(seeds) => late::sweep_seeds(args, plan, &mut journal, seeds.into()).map(box_outcome),
        None => run_sweep(args, plan, &mut journal).map(box_outcome),
    };
    if swept.is_err() && journal.runs == 0 {
        // There is nothing to show in the directory. If this fails, it remains, which is harmless.
        let _ = std::fs::remove_dir_all(&directory);
    }
    if args.out.is_none() {
        kept::prune(Some(&directory)).iter().for_each(|line| output::print_note(line));
    }
    let outcome = swept?;
    let is_interrupted = interrupt::is_interrupted();
    if let Some(outcome) = &outcome {
        match args.format {
            SweepFormat::Text => output::print(&outcome.text())?,
            SweepFormat::Json => output::print_json(&outcome.json(is_interrupted))?,
        };
    }
    if is_interrupted {
        output::print_problem(&format!("interrupted; the findings so far are in {}", report_argument(&directory)));
        return Ok(ExitCode::from(status::INTERRUPTED));
    }
    let has_findings = outcome.is_some_and(|outcome| outcome.has_findings());
    Ok(ExitCode::from(u8::from(has_findings)))
}

impl SweepReport for SweepOutcome {
    fn has_findings(&self) -> bool {
        SweepOutcome::has_findings(self)
    }

    fn text(&self) -> String {
        table::format_outcome(self)
    }

    fn json(&self, is_interrupted: bool) -> serde_json::Value {
        json::outcome_json(self, is_interrupted)
    }
}

fn box_outcome<T: SweepReport + 'static>(found: Option<T>) -> Option<Box<dyn SweepReport>> {
    found.map(|found| Box::new(found) as Box<dyn SweepReport>)
}

/// Runs the sweep. Returns `None` if it was interrupted before the first result.
fn run_sweep(args: &SweepArgs, plan: SweepPlan, journal: &mut SweepJournal) -> Result<Option<SweepOutcome>> {
    let start = Instant::now();
    let mut launcher = RunLauncher::new(plan, journal.directory.clone(), args.keep);
    let Some(baseline) = baseline::measure_baseline(&mut launcher)? else { return Ok(None) };
    launcher.plan.names_programs = baseline.has_programs;
    launcher.set_time_limit(baseline.ran.time);
    baseline.notes.iter().for_each(|note| output::print_note(&format!("note: {note}")));
    let own = judge_baseline(&baseline);
    let mut outcome = SweepOutcome {
        plan: launcher.plan.clone(),
        places: baseline.places.clone(),
        baseline: baseline.clone(),
        baseline_verdict: own,
        done: Vec::new(),
        left_out: Vec::new(),
        unplanned: 0,
        directory: journal.directory.clone(),
        time: Duration::ZERO,
    };
    // If the program without faults does not exit by itself, its runs cannot be compared.
    let is_enough = args.fail_fast && outcome.baseline_finding().is_some();
    if matches!(baseline.ran.end, RunEnd::Exited(_)) && !is_enough {
        let known = baseline.places.iter().map(|place| place.site.clone()).collect();
        let bench = TrialRunner { launcher, baseline, known };
        queue::run_trials(args, &bench, journal, &mut outcome)?;
    }
    outcome.time = start.elapsed();
    Ok(Some(outcome))
}
