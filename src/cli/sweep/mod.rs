//! `cupeer sweep`: fails each call of a program in turn, and reports how the program copes.
//!
//! This file shows the order of a sweep; each step has a file. The program of the [`plan`] runs without faults first
//! ([`baseline`]), with its calls counted ([`count`]), and what of virtual memory it keeps ([`held`]). From the calls come
//! runs ([`trials`]), which are done side by side ([`pool`]), each started ([`launch`], [`processes`]) and compared
//! ([`trial`], [`verdict`]). What a run calls that the program does not call without faults is made to fail next, until
//! nothing new is left. With `--late`, runs differ by a seed instead ([`late`]). A journal counts the runs that are done ([`state`]); findings are shown at the end ([`table`],
//! [`json`]).

mod baseline;
mod compare;
mod count;
mod held;
mod interrupt;
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
mod trial;
mod trials;
mod verdict;

pub use outcome::Outcome;

use crate::records::kept;
use crate::start::args::{SweepArgs, SweepFormat};
use crate::start::home::shown;
use crate::start::{output, status};
use anyhow::Result;
use launch::{End, Launcher};
use plan::Plan;
use state::Journal;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use trial::Bench;
use verdict::judge_baseline;

pub fn command(args: &SweepArgs) -> Result<ExitCode> {
    output::be_verbose(args.verbose);
    output::be_quiet(args.quiet);
    let plan = Plan::new(args)?;
    let mut journal = Journal::create(args.out.as_deref(), &plan.program)?;
    interrupt::watch()?;
    let directory = journal.directory.clone();
    let swept = match args.late {
        Some(seeds) => late::sweep(args, plan, &mut journal, seeds.into()).map(boxed),
        None => sweep(args, plan, &mut journal).map(boxed),
    };
    if swept.is_err() && journal.runs == 0 {
        // It has nothing to show; what stays there is no harm.
        let _ = std::fs::remove_dir_all(&directory);
    }
    if args.out.is_none() {
        kept::prune(Some(&directory)).iter().for_each(|line| output::note(line));
    }
    let outcome = swept?;
    let is_interrupted = interrupt::is_set();
    if let Some(outcome) = &outcome {
        match args.format {
            SweepFormat::Text => output::print(&outcome.text())?,
            SweepFormat::Json => output::print_json(&outcome.json(is_interrupted))?,
        };
    }
    if is_interrupted {
        output::complain(&format!("interrupted; the findings so far are in {}", shown(&directory)));
        return Ok(ExitCode::from(status::INTERRUPTED));
    }
    let has_findings = outcome.is_some_and(|outcome| outcome.has_findings());
    Ok(ExitCode::from(u8::from(has_findings)))
}

/// The outcome of all runs.
trait Found {
    fn has_findings(&self) -> bool;
    fn text(&self) -> String;
    fn json(&self, is_interrupted: bool) -> serde_json::Value;
}

impl Found for Outcome {
    fn has_findings(&self) -> bool {
        Outcome::has_findings(self)
    }

    fn text(&self) -> String {
        table::show(self)
    }

    fn json(&self, is_interrupted: bool) -> serde_json::Value {
        json::value(self, is_interrupted)
    }
}

fn boxed<T: Found + 'static>(found: Option<T>) -> Option<Box<dyn Found>> {
    found.map(|found| Box::new(found) as Box<dyn Found>)
}

/// Sweeps. `None` where it was interrupted before anything was known.
fn sweep(args: &SweepArgs, plan: Plan, journal: &mut Journal) -> Result<Option<Outcome>> {
    let start = Instant::now();
    let mut launcher = Launcher::new(plan, journal.directory.clone(), args.keep);
    let Some(baseline) = baseline::measure(&mut launcher)? else { return Ok(None) };
    launcher.plan.names_programs = baseline.has_programs;
    launcher.limit(baseline.ran.time);
    baseline.notes.iter().for_each(|note| output::note(&format!("note: {note}")));
    let own = judge_baseline(&baseline);
    let mut outcome = Outcome {
        plan: launcher.plan.clone(),
        places: baseline.places.clone(),
        baseline: baseline.clone(),
        own,
        done: Vec::new(),
        left_out: Vec::new(),
        unplanned: 0,
        directory: journal.directory.clone(),
        time: Duration::ZERO,
    };
    // Where it does not end by itself, there is nothing to compare with.
    let is_enough = args.fail_fast && outcome.own_finding().is_some();
    if matches!(baseline.ran.end, End::Exited(_)) && !is_enough {
        let known = baseline.places.iter().map(|place| place.site.clone()).collect();
        let bench = Bench { launcher, baseline, known };
        queue::runs(args, &bench, journal, &mut outcome)?;
    }
    outcome.time = start.elapsed();
    Ok(Some(outcome))
}

pub fn time(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis().max(1)),
        seconds @ ..10 => format!("{seconds}.{} s", time.subsec_millis() / 100),
        seconds @ ..100 => format!("{seconds} s"),
        seconds @ ..6000 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_say_them() {
        let texts = [0, 12, 400, 2_345, 43_000, 150_000, 9_000_000].map(|ms| time(Duration::from_millis(ms)));
        assert_eq!(texts, ["1 ms", "12 ms", "400 ms", "2.3 s", "43 s", "3 min", "2 h 30 min"]);
    }
}
