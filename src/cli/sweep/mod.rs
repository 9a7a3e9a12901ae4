//! `cupeer sweep`: lets each call of a program fail, one after the other, and says what becomes of the program.
//!
//! The order of a sweep stands here; each step has a file. The program runs without faults first ([`baseline`]), with its
//! calls counted ([`count`]). From the calls come runs ([`trials`]), which are done side by side ([`pool`]), each started
//! and cleared away ([`launch`]) and compared ([`trial`], [`verdict`]). What a run calls that the program does not call
//! without faults is made to fail next, until nothing new is left. All that is done stands in a journal ([`state`]); what
//! is found is shown at the end ([`table`], [`json`]).

mod baseline;
mod compare;
mod count;
mod interrupt;
mod json;
mod launch;
mod pool;
mod state;
mod table;
mod trial;
mod trials;
mod verdict;

pub use verdict::Verdict;

use crate::args::{SweepArgs, SweepFormat};
use crate::{output, status};
use anyhow::{Context, Result, bail};
use launch::{End, Launcher};
use pool::{Limits, Progress};
use state::{Baseline, Done, Journal, Kept, Plan};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};
use trial::Bench;
use trials::Trial;
use verdict::{Judged, judge_baseline};

/// A sweep that takes longer wants a budget.
const LONG: Duration = Duration::from_secs(3600);
/// The shortest time after which a run hangs, and how many times as long as without faults it may take.
const TIMEOUT: (Duration, u32) = (Duration::from_secs(10), 10);

/// All that a sweep has come to.
pub struct Outcome {
    /// What was run.
    pub plan: Plan,
    /// Without faults.
    pub baseline: Baseline,
    /// What is wrong without faults.
    pub own: Option<Judged>,
    /// The runs that are done, in their order.
    pub done: Vec<Done>,
    /// The runs that are not.
    pub left_out: Vec<Trial>,
    /// Who calls, of all places.
    pub places: Vec<trials::Counts>,
    /// The directory of the sweep.
    pub directory: PathBuf,
    /// How long it took this time.
    pub time: Duration,
}

/// Carries out the subcommand.
pub fn command(args: &SweepArgs) -> Result<ExitCode> {
    output::be_verbose(args.verbose);
    let (journal, kept) = match &args.resume {
        Some(directory) => Journal::open(directory)?,
        None => {
            let plan = Plan::new(args)?;
            let journal = Journal::create(args.out.as_deref(), &plan)?;
            (journal, Kept { plan, places: None, done: Vec::new() })
        }
    };
    launch::adopt_orphans();
    interrupt::watch();
    let directory = journal.directory.clone();
    let swept = sweep(args, journal, kept);
    let is_empty = || std::fs::read_dir(&directory).is_ok_and(|entries| entries.count() <= 1);
    if swept.is_err() && args.resume.is_none() && is_empty() {
        // There is nothing to go on with; what stays there is no harm.
        let _ = std::fs::remove_dir_all(&directory);
    }
    let outcome = swept?;
    let is_interrupted = interrupt::is_set();
    if let Some(outcome) = &outcome {
        match args.format {
            SweepFormat::Text => output::print(&table::show(outcome))?,
            SweepFormat::Json => output::print_json(&json::value(outcome, is_interrupted))?,
        };
    }
    if is_interrupted {
        let shown = shortest(&directory);
        output::complain(&format!("interrupted; 'cupeer sweep --resume {shown}' goes on"));
        return Ok(ExitCode::from(status::INTERRUPTED));
    }
    let has_findings = outcome.is_some_and(|outcome| outcome.has_findings());
    Ok(ExitCode::from(u8::from(has_findings)))
}

impl Outcome {
    /// The runs with findings.
    pub fn findings(&self) -> impl Iterator<Item = &Done> {
        self.done.iter().filter(|done| self.plan.is_finding(done.judged.verdict))
    }

    /// What is wrong without faults, where that is a finding.
    pub fn own_finding(&self) -> Option<&Judged> {
        self.own.as_ref().filter(|own| self.plan.is_finding(own.verdict))
    }

    /// Whether there is a finding.
    pub fn has_findings(&self) -> bool {
        self.own_finding().is_some() || self.findings().next().is_some()
    }

    /// Who calls from the place of a call.
    pub fn caller(&self, site: &count::Site) -> &str {
        self.places.iter().find(|place| place.site == *site).map_or("", |place| place.caller.as_str())
    }

    /// The command that repeats a run, or the program without faults.
    pub fn command(&self, trial: Option<&Trial>, is_checked: bool) -> String {
        let mut words = vec!["cupeer".to_owned(), "run".to_owned()];
        match &self.plan.sim {
            Some(Some(topology)) => words.push(format!("--sim={topology}")),
            Some(None) => words.push("--sim".into()),
            None => {}
        }
        if let Some(driver) = &self.plan.driver {
            words.extend(["--driver".into(), driver.display().to_string()]);
        }
        if is_checked {
            words.push("--check".into());
        }
        for rule in trial.into_iter().flat_map(|trial| trial.rules(&self.plan)) {
            words.extend(["--inject".into(), rule]);
        }
        words.push("--".into());
        words.extend(self.plan.program.iter().cloned());
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+=:,./@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The directory as a person would type it.
fn shortest(directory: &Path) -> String {
    let here = std::env::current_dir().ok();
    let relative = here.and_then(|here| directory.strip_prefix(here).ok());
    relative.unwrap_or(directory).display().to_string()
}

/// Sweeps. `None` where it was interrupted before anything was known.
fn sweep(args: &SweepArgs, mut journal: Journal, kept: Kept) -> Result<Option<Outcome>> {
    let start = Instant::now();
    let Kept { plan, places, done } = kept;
    let mut launcher = Launcher {
        timeout: plan.timeout.unwrap_or(Duration::MAX),
        plan,
        directory: journal.directory.clone(),
        usual: BTreeSet::new(),
        keeps: args.keep,
    };
    let Some(baseline) = baseline::measure(&mut launcher)? else { return Ok(None) };
    launcher.plan.names_programs = baseline.has_programs;
    launcher.timeout = launcher.plan.timeout.unwrap_or((baseline.time * TIMEOUT.1).max(TIMEOUT.0));
    match &places {
        Some(places) if !trials::is_same(places, &baseline.places) => {
            bail!(
                "'{}' makes other calls than when the sweep in {} was begun; begin a new one",
                launcher.plan.program[0],
                shortest(&journal.directory)
            );
        }
        Some(_) => {}
        None => journal.places(&baseline.places)?,
    }
    baseline.notes.iter().for_each(|note| output::complain(&format!("note: {note}")));
    let own = judge_baseline(&baseline);
    let mut outcome = Outcome {
        plan: launcher.plan.clone(),
        places: baseline.places.clone(),
        baseline: baseline.clone(),
        own,
        done: Vec::new(),
        left_out: Vec::new(),
        directory: journal.directory.clone(),
        time: Duration::ZERO,
    };
    // Where it does not end by itself, there is nothing to compare with.
    if matches!(baseline.end, End::Exited(_)) {
        if let End::Exited(status @ 1..) = baseline.end {
            output::complain(&format!("note: it ends with status {status} without any fault"));
        }
        let known = baseline.places.iter().map(|place| place.site.clone()).collect();
        let bench = Bench { launcher, baseline, known, alone: RwLock::new(()) };
        runs(args, &bench, &mut journal, done, &mut outcome, start)?;
    }
    outcome.time = start.elapsed();
    Ok(Some(outcome))
}

/// Does all runs.
fn runs(
    args: &SweepArgs,
    bench: &Bench,
    journal: &mut Journal,
    done: Vec<Done>,
    outcome: &mut Outcome,
    start: Instant,
) -> Result<()> {
    let plan = &bench.launcher.plan;
    let distinct = trials::distinct(&outcome.places, &[], plan);
    let further = trials::further(&outcome.places, plan);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or_else(|| (cpus / bench.baseline.processes.max(1)).max(1), usize::from);
    announce(args, bench, distinct.len(), distinct.len() + further.len(), jobs, done.len())?;
    let limits = Limits { jobs, until: args.budget.map(|budget| start + budget) };
    let mut queue = Queue {
        bench,
        limits,
        journal: Mutex::new(journal),
        progress: Progress::new(),
        had: done.into_iter().map(|done| (done.trial.clone(), done)).collect(),
        known: bench.known.clone(),
        outcome,
    };
    queue.progress.expect(distinct.len() + further.len());
    let swept = queue.with_all_behind(distinct).and_then(|()| queue.with_all_behind(further));
    queue.progress.finish();
    swept
}

/// Says how much there is to do, before it is done.
fn announce(
    args: &SweepArgs,
    bench: &Bench,
    distinct: usize,
    all: usize,
    jobs: usize,
    had: usize,
) -> Result<()> {
    let places = &bench.baseline.places;
    let calls: u64 = places.iter().map(trials::Counts::total).sum();
    let left = all.saturating_sub(had);
    let expected = bench.baseline.time.mul_f64(left as f64 / jobs as f64);
    let about = time(expected);
    let mut sentence = format!(
        "{}, {} of {} each: about {about} with -j {jobs}",
        table::counted_on(calls, places.len()),
        table::counted(all as u64, "run"),
        time(bench.baseline.time),
    );
    if had > 0 {
        sentence += &format!("; {had} are done already");
    }
    output::complain(&sentence);
    match args.budget {
        None if expected > LONG => bail!(
            "that is more than an hour; --budget TIME says how much of it may be spent, on the {distinct} runs about distinct stacks first; --codes one needs fewer"
        ),
        Some(budget) if expected > budget => output::complain(&format!(
            "the budget of {} is spent on the {distinct} runs about distinct stacks first",
            time(budget)
        )),
        _ => {}
    }
    Ok(())
}

/// A time in words.
pub fn time(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis().max(1)),
        seconds @ ..10 => format!("{seconds}.{} s", time.subsec_millis() / 100),
        seconds @ ..100 => format!("{seconds} s"),
        seconds @ ..6000 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The runs on their way.
struct Queue<'a> {
    bench: &'a Bench,
    limits: Limits,
    journal: Mutex<&'a mut Journal>,
    progress: Progress,
    /// What an earlier sweep has done.
    had: HashMap<Trial, Done>,
    /// Places whose calls fail already, or will.
    known: HashSet<count::Site>,
    outcome: &'a mut Outcome,
}

impl Queue<'_> {
    /// Does runs, and then those about the calls that the program made in them and does not make without faults.
    fn with_all_behind(&mut self, mut batch: Vec<Trial>) -> Result<()> {
        while !batch.is_empty() {
            let from = self.outcome.done.len();
            self.do_all(batch)?;
            batch = self.behind(from);
            if !batch.is_empty() {
                tracing::debug!("{} more runs are about calls behind faults", batch.len());
                self.progress.expect(batch.len());
            }
        }
        Ok(())
    }

    fn do_all(&mut self, batch: Vec<Trial>) -> Result<()> {
        let first = self.outcome.done.len() + self.outcome.left_out.len() + 1;
        let plan = &self.bench.launcher.plan;
        let run = |index: usize, trial: &Trial| {
            let rules = || format!("failed to run with {}", trial.rules(plan).join(";"));
            let done = match self.had.get(trial) {
                Some(done) => done.clone(),
                None => {
                    let Some(done) = self.bench.run(first + index, trial).with_context(rules)? else {
                        return Ok(None);
                    };
                    if let Ok(mut journal) = self.journal.lock() {
                        journal.done(&done)?;
                    }
                    done
                }
            };
            self.progress.done(plan.is_finding(done.judged.verdict));
            Ok(Some(done))
        };
        let results = pool::all(&batch, &self.limits, &run)?;
        for (trial, result) in batch.into_iter().zip(results) {
            match result {
                Some(done) => self.outcome.done.push(done),
                None => self.outcome.left_out.push(trial),
            }
        }
        Ok(())
    }

    /// The runs about what is behind those from a number on.
    fn behind(&mut self, from: usize) -> Vec<Trial> {
        let plan = &self.bench.launcher.plan;
        let mut batch = Vec::new();
        for done in &self.outcome.done[from..] {
            if done.trial.faults.len() >= usize::from(plan.depth) {
                continue;
            }
            for place in &done.new {
                if self.known.insert(place.site.clone()) {
                    batch.extend(trials::distinct(std::slice::from_ref(place), &done.trial.faults, plan));
                    self.outcome.places.push(place.clone());
                }
            }
        }
        batch
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

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("cuIpcOpen:when=1+:error=MAP_FAILED"), "cuIpcOpen:when=1+:error=MAP_FAILED");
        assert_eq!(["", "a b", "it's", "*"].map(quoted), ["''", "'a b'", r"'it'\''s'", "'*'"]);
    }
}
