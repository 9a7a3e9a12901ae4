//! `cupeer run`: starts a program under the preload library, waits for it, and ends as it ends.
//!
//! In: the options, and a function that reads what processes wait for. Out: the program's exit status or another one, lines on
//! stderr, and in the recording what only the launcher knows: ends of processes, signals, hangs, and memory. Begin with
//! `command` and `watched` in this file: the order of a run. What can be refused is refused before the program starts.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `args`: the options.
//! - `page`, `faults`: memory that the processes share with the launcher.
//! - `samples`: use of memory when a call fails for lack of it.
//! - `ends`, `opens`, `watch`: descendants, seen from outside.
//! - `orphans`, `keepers`: descendants that outlive their parents.
//! - `mask`, `child`: the program's process.
//! - `preloading`: programs that refuse the library.
//! - `hung`, `stops`, `signals`: the hangs that were noticed, and signals to the launcher and from it.
//! - `processors`, `ending`, `hang`: the option `--on-hang`.
//! - `ran`, `told`, `gate`: the result, the summary, and the exit status.

pub mod args;
mod child;
mod ending;
mod ends;
mod faults;
mod gate;
mod hang;
mod hung;
mod keepers;
mod mask;
mod opens;
mod orphans;
mod page;
mod preloading;
mod processors;
mod ran;
mod samples;
mod signals;
mod stops;
mod told;
mod watch;

use crate::args::RunArgs;
use anyhow::{Result, bail};
use child::Child;
use child::ProgramEnd;
use cupeer_console::args::shell_quoted;
use cupeer_console::variables::Environment;
use cupeer_console::{annotations, output, status};
use cupeer_facts::faults::Fault;
use cupeer_launch::args::Options;
use cupeer_launch::driver::{self, ChosenDriver};
use cupeer_launch::job::{self, Job};
use cupeer_launch::program::ProgramOutcome;
use cupeer_launch::settings::deny::{self, VllmCache};
use cupeer_launch::settings::{LaunchSettings, check};
use cupeer_launch::{libraries, program};
use cupeer_record as record;
use cupeer_record::launcher::has_namesake;
use cupeer_recordings::hang::ReadWaits;
use cupeer_recordings::{home, kept, reduce, script, suppressions};
use cupeer_report::names::counted;
use cupeer_report::style::Emphasis;
use cupeer_spec::env;
use cupeer_spec::record::end;
use cupeer_spec::record::job::FILE;
use cupeer_spec::status::Status;
use cupeer_views::plans;
use cupeer_views::summary::{self, SummaryLine};
use cupeer_views::text::suppressed::unmatched_lines;
use faults::RunFaults;
use gate::ExitGate;
use hang::{HangOptions, HangWatcher};
use orphans::Orphan;
use page::{LibraryPresence, StatusPage};
use ran::FinishedRun;
use samples::MemorySampler;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Acquire};
use std::time::{SystemTime, UNIX_EPOCH};
use told::{Summary, SummaryOptions};
use watch::{Observations, ProcessWatch};

/// Name of the command that ends a program by SIGTERM when its time is over.
const TIMEOUT: &str = "timeout";

/// Runs the command. `read` reads what the processes wait in when the run hangs.
pub fn command(mut args: RunArgs, read: ReadWaits) -> Result<ExitCode> {
    output::set_verbose(args.options.verbose);
    output::set_quiet(args.quiet);
    let gate = ExitGate::new(&args)?;
    if gate.is_some() {
        // If the exit status depends on findings, the rules must be checked.
        let option = if args.error_exitcode.is_some() { "--error-exitcode" } else { "--error-on" };
        check::require_checks(&mut args.options, option)?;
    }
    let args = &args;
    let mut how = summary_options(args, gate.as_ref())?;
    let begun = SystemTime::now();
    let name = script::name_of_command(&args.program);
    let settings = LaunchSettings::new(&args.options, Some(&name))?;
    let mut environment = settings.apply_to(Environment::from_process())?;
    args.error_on.iter().for_each(|rules| environment.set(env::ERROR_ON, rules));
    settings.verdicts.iter().filter_map(VllmCache::chosen_cache_warning).for_each(|line| output::print_problem(&line));
    let command: Vec<String> = args.program.iter().map(|word| shell_quoted(&word.to_string_lossy())).collect();
    settings.job.iter().for_each(|job| job.note_command(&command.join(" ")));
    if args.exec {
        match become_program(args, settings, &environment)? {}
    }
    if args.reduce && settings.job.is_none() {
        bail!("--reduce is for a recording, and nothing is recorded; leave out --record off");
    }
    let faults = RunFaults::new(&mut environment, settings.job.as_ref())?;
    if faults.is_none() && args.unused_exitcode.is_some() {
        settings.job.as_ref().map(Job::remove_if_empty);
        bail!("--unused-exitcode is for fault plans, but there is none; add --inject or --deny-peer");
    }
    let unmasked =
        deny::unblocked_access_note(&environment).filter(|_| faults.as_ref().is_some_and(RunFaults::is_reported_here));
    let record = settings.job.as_ref().map(|job| job.directory.clone());
    let on_hang = args.on_hang.map(|asked| HangOptions { options: asked, read, record: record.clone(), page: None });
    let run = run_watched(&args.program, environment, settings.driver.as_ref(), on_hang, record.as_deref());
    let fired = faults.as_ref().map(RunFaults::collect_counts).unwrap_or_default();
    let summarizes_plans = settings.job.as_ref().is_none_or(Job::is_ours_alone);
    let seed = settings.drawn_seed_note();
    let job = settings.job.filter(|job| !remove_if_empty(job, &name));
    let mut run = run?;
    if let Some(job) = job.as_ref().filter(|job| !job.is_inherited()) {
        told::wait_for_last_processes(&job.directory);
    }
    orphans::reap_last_orphans(run.process.0, &mut run.orphans);
    how.launched = run.process.0 as u32;
    job.iter().for_each(|job| note_run_facts(job, &args.program[0], &run));
    let Summary { lines: recorded, report } = summarize_recording(job.as_ref(), &how, begun, run.reached);
    let of_plans = if summarizes_plans { plan_lines(faults.as_ref(), &fired, unmasked) } else { Vec::new() };
    let lines = summary_lines(args, job.as_ref(), &run, recorded, of_plans, seed);
    lines.iter().for_each(output::print_summary_line);
    if let Some(report) = &report {
        unmatched_lines(&report.suppressions).iter().for_each(|line| tracing::debug!("{line}"));
        if !job.as_ref().is_some_and(Job::is_inherited) {
            // An error means that stderr is closed, so nothing can read the annotations.
            let _ = annotations::write_annotations(report, io::stderr().lock());
        }
    }
    let broken = gate.as_ref().and_then(|gate| gate.status_and_reason(report.as_ref(), &run));
    Ok(exit_like(decide_final_end(args, broken, &run, &fired)))
}

/// Returns the options for the summary at the end of the run.
fn summary_options(args: &RunArgs, gate: Option<&ExitGate>) -> Result<SummaryOptions> {
    Ok(SummaryOptions {
        suppressions: suppressions::read_suppressions(&args.suppressions)?,
        decides: gate.is_some(),
        error_on: gate.and_then(|gate| gate.error_selection.clone()),
        annotates: annotations::has_annotation_reader(),
        no_source: args.no_source,
        launched: 0,
    })
}

/// Replaces this process by the program (`--exec`), after the notes that would otherwise follow the run.
fn become_program(args: &RunArgs, mut settings: LaunchSettings, environment: &Environment) -> Result<Infallible> {
    settings.verdicts.iter_mut().for_each(VllmCache::keep_directory);
    if let Some(note) = program::preload_obstacle(&args.program[0]) {
        output::print_problem(&note);
    }
    settings.drawn_seed_note().iter().for_each(|line| output::print_note(line));
    settings.job.iter().filter_map(Job::fallback_reason).for_each(output::print_problem);
    if let Some(job) = settings.job.filter(Job::is_in_default_directory) {
        // No launcher will run at the end to delete old recordings, so they are deleted now.
        kept::prune(Some(&job.directory)).iter().for_each(|line| output::print_note(line));
    }
    child::exec(&args.program, environment)
}

/// Removes the recording of a run that recorded nothing. Returns true if the recording was removed.
fn remove_if_empty(job: &Job, name: &OsStr) -> bool {
    let is_removed = job.remove_if_empty();
    if is_removed && job.is_in_default_directory() {
        home::note_unrecorded(name);
    }
    is_removed
}

/// Adds to a recording the facts about the run that only the launcher knows.
fn note_run_facts(job: &Job, program: &OsStr, run: &FinishedRun) {
    let end = match run.end {
        ProgramEnd::Exited(status) => end::RecordedEnd::Returned(status),
        ProgramEnd::Killed(signal) => end::RecordedEnd::Signal(signal as u8),
    };
    job.note_ends(program, run.process, &run.all_ends(end));
    run.bypasses.iter().for_each(|(process, driver)| job.note_bypass(process, driver));
    job.note_losses(run.record_lost, run.unrecorded);
}

/// Returns the lines about the recording, and the report if it was built. `reached` is the number of processes that reached the
/// driver.
fn summarize_recording(job: Option<&Job>, how: &SummaryOptions, begun: SystemTime, reached: u32) -> Summary {
    let Some(job) = job else { return Summary::default() };
    let shown = home::report_argument(&job.directory);
    if job.is_ours_alone() {
        let mut told = told::summarize_whole(&job.directory, &shown, how);
        let launchers = told.report.as_ref().and_then(|report| summary::programs_without_call(report, reached));
        let line = launchers.and_then(|line| home::notice_once_a_day("launchers", line));
        told.lines.extend(line.map(SummaryLine::from));
        return told;
    }
    if job.is_inherited() && !how.decides {
        return Summary::default();
    }
    let mut told = told::summarize_run(&job.directory, &shown, how, belongs_to_this_run(job, begun));
    if job.is_inherited() {
        // The outer cupeer, which created the recording, prints the lines.
        told.lines.clear();
    }
    told
}

/// Returns the lines about fault plans and denied pairs.
fn plan_lines(faults: Option<&RunFaults>, fired: &[Fault], unmasked: Option<&str>) -> Vec<SummaryLine> {
    let of_faults = faults.filter(|faults| faults.is_reported_here()).map(|_| plans::fault_lines(fired));
    let unmasked = unmasked.and_then(|text| home::notice_once_a_day("denied-pairs", text.to_owned()));
    of_faults.into_iter().flatten().chain(unmasked).map(SummaryLine::from).collect()
}

/// Returns all lines at the end of a run; `recorded` are the lines about its recording, and `of_plans` those about its fault
/// plans.
fn summary_lines(
    args: &RunArgs,
    job: Option<&Job>,
    run: &FinishedRun,
    recorded: Vec<SummaryLine>,
    of_plans: Vec<SummaryLine>,
    seed: Option<String>,
) -> Vec<SummaryLine> {
    let warning = |text| SummaryLine::about_problem(Emphasis::Warning, text);
    let is_recorded = !recorded.is_empty();
    let mut lines = match job.is_some_and(Job::is_inherited) || is_recorded {
        true => recorded,
        false => run.bypass_sentences().into_iter().map(warning).collect(),
    };
    lines.extend(of_plans);
    if let Some(job) = job {
        lines.extend(job.fallback_reason().map(|text| warning(text.to_owned())));
        if args.reduce {
            lines.extend((!job.is_inherited()).then(|| reduce::reduce(&job.directory).into()));
        }
        if job.is_in_default_directory() {
            if lines.iter().any(|line| line.is_about_problem) {
                job.note_notable();
            }
            lines.extend(kept::prune(Some(&job.directory)).map(SummaryLine::from));
        }
    }
    lines.extend(seed.map(SummaryLine::from));
    lines.extend(run.unused.clone().filter(|_| job.is_none()).map(SummaryLine::from));
    let unreached = if is_recorded { &[][..] } else { &run.unreached };
    lines.extend(unreached.iter().chain(&run.notes).cloned().map(warning));
    lines
}

/// Returns a function that is true for processes that use the page of this launcher. The page's path contains the launcher's pid,
/// which other launchers may have had, too: earlier ones, or those in other pid namespaces.
fn belongs_to_this_run(job: &Job, begun: SystemTime) -> impl Fn(&record::Process) -> bool {
    let page = format!("/proc/{}/", std::process::id());
    let has_namesake = job::read_job_file(&job.directory.join(FILE)).map_or(true, |text| has_namesake(&text));
    let pid_ns = record::host::pid_ns().filter(|_| has_namesake);
    let begun = begun.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    move |process| {
        let header = &process.header;
        let has_page = process.variable(env::STATUS).is_some_and(|path| path.starts_with(&page));
        let is_ours = pid_ns.is_none_or(|pid_ns| pid_ns == header.pid_ns);
        has_page && is_ours && u128::from(header.first.realtime) >= begun
    }
}

/// Returns the end of the run, and prints the reason if a hang, a finding, or an unused fault replaces the program's exit status.
fn decide_final_end(args: &RunArgs, broken: Option<(u8, String)>, run: &FinishedRun, seen: &[Fault]) -> ProgramEnd {
    let ended = run.hung.as_ref().and_then(|hung| hung.status);
    let ended = ended.map(|status| (status, "the job hung (--on-hang)".to_owned()));
    let has_exited = matches!(run.end, ProgramEnd::Exited(_));
    let unused = || {
        let why = plans::reason_without_effect(seen)?;
        Some((args.unused_exitcode?, format!("{why} (--unused-exitcode)")))
    };
    match ended.or_else(|| broken.or_else(unused).filter(|_| has_exited)) {
        Some((code, why)) => {
            output::print_problem(&format!("exits with {code}, because {why}"));
            ProgramEnd::Exited(code)
        }
        None => run.end,
    }
}

/// Runs a program with the options of `run`, for other commands.
pub fn run_with_options(options: &Options, extra: &[(&str, &OsStr)], program: &[OsString]) -> Result<ProgramOutcome> {
    let settings = LaunchSettings::new(options, None)?;
    let mut environment = settings.apply_to(Environment::from_process())?;
    for (name, value) in extra {
        environment.set(name, value);
    }
    let run = run_watched(program, environment, settings.driver.as_ref(), None, None)?;
    Ok(ProgramOutcome {
        ended: match run.end {
            ProgramEnd::Exited(code) => format!("ended with status {code}"),
            ProgramEnd::Killed(signal) => format!("was killed by signal {signal}"),
        },
        reached: run.reached,
        is_unseen: run.has_no_seen_call(),
        wrong: [run.unreached, run.notes].concat(),
    })
}

/// Starts a program with an environment, passes signals on to it, watches its processes, and waits for it. Signals from outside
/// are noted in the recording, if any.
fn run_watched(
    program: &[OsString],
    mut environment: Environment,
    driver: Option<&ChosenDriver>,
    on_hang: Option<HangOptions>,
    record: Option<&Path>,
) -> Result<FinishedRun> {
    let obstacle = program::preload_obstacle(&program[0]);
    let page = share_page(&mut environment);
    let for_debugger = environment.get(env::STOP_ON).is_some_and(|rules| !rules.is_empty());
    let before = mask::block_signals();
    let child =
        Child::start(program, &environment, &before, page.as_deref()).inspect_err(|_| before.restore_signals())?;
    tracing::debug!("started process {}", child.pid());
    let watch = ProcessWatch::start(child.pid(), driver.map(|chosen| chosen.library.clone()));
    let samples = page.as_ref().zip(record).and_then(|(page, record)| MemorySampler::start(page, record));
    let hangs = on_hang.map(|on_hang| HangWatcher::start(HangOptions { page: page.clone(), ..on_hang }));
    let mut orphans = Vec::new();
    let end = wait_for_program(&child, for_debugger, &mut orphans, record);
    let ended = cupeer_record::clock::monotonic_now();
    let hung = hangs.and_then(|hangs| hangs.stop(end));
    drop(samples);
    let mut seen = watch.stop();
    if !has_active_options(&environment) {
        seen.loaded.clear();
    }
    let told = |of: fn(&Status) -> &AtomicU32| page.as_ref().map(|page| of(page.status()).load(Acquire));
    let reached = told(|status| &status.reached);
    tracing::debug!("processes that reached the driver: {}", reached.unwrap_or(0));
    let (bypasses, ends) = (std::mem::take(&mut seen.bypasses), std::mem::take(&mut seen.ends));
    let (mut notes, mut unreached) = collect_notes(&program[0], obstacle, seen, reached);
    notes.extend(keepers::unrecorded_device_users(record));
    let mut unused = None;
    let is_unexplained = notes.is_empty() && unreached.is_empty();
    if let Some(page) = page.as_deref().filter(|_| reached == Some(0) && is_unexplained) {
        unreached = explain_missing_library(program, page, &child, end, driver);
        let is_alone = unreached.is_empty() && requests_recording(&environment);
        unused = is_alone.then(|| driver::no_driver_note(driver, program));
    }
    notes.extend(page.iter().flat_map(|page| list_recording_losses(page)));
    Ok(FinishedRun {
        end,
        process: (child.pid(), child.start_ticks()),
        ended,
        orphans,
        ends,
        reached: reached.unwrap_or(0),
        hung,
        findings: told(|status| &status.findings),
        record_lost: told(|status| &status.record_lost).unwrap_or(0),
        unrecorded: told(|status| &status.unrecorded).unwrap_or(0),
        bypasses,
        notes,
        unreached,
        unused,
        unseen_processes: told(|status| &status.unseen).unwrap_or(0),
        bypassing_libraries: told(|status| &status.escaped).unwrap_or(0),
    })
}

/// Waits for the program, and passes signals on to it. Signals from outside are noted in the recording, if any.
fn wait_for_program(child: &Child, for_debugger: bool, orphans: &mut Vec<Orphan>, record: Option<&Path>) -> ProgramEnd {
    let note = |signal: i32, pid: u32, name: &str| {
        if let Some(record) = record {
            job::note_signal(record, signal, pid, name);
        }
    };
    let end = signals::wait_for_end(child, for_debugger, orphans, note);
    if child.last_name() == TIMEOUT && end == ProgramEnd::Exited(status::TIMED_OUT) {
        note(libc::SIGTERM, child.pid() as u32, TIMEOUT);
    }
    end
}

/// Creates the page that this launcher shares with the program's processes, and puts its path into their environment.
fn share_page(environment: &mut Environment) -> Option<Arc<StatusPage>> {
    let failed = |error: &io::Error| tracing::debug!("cannot share a page with the program: {error}");
    let page = StatusPage::new().inspect_err(failed).ok().map(Arc::new);
    match &page {
        Some(page) => environment.set(env::STATUS, page.path()),
        None => environment.remove(env::STATUS),
    }
    page
}

/// Returns sentences about why a program ran without the preload library, or why it found no driver.
fn explain_missing_library(
    program: &[OsString],
    page: &StatusPage,
    child: &Child,
    end: ProgramEnd,
    driver: Option<&ChosenDriver>,
) -> Vec<String> {
    let name = &program[0];
    let reason = preloading::asan_hint(name, end)
        .or_else(|| explain_lost_library(name, page, child, end))
        .or_else(|| preloading::ld_preload_hint(name, end));
    let has_no_driver = driver.is_none() && end == ProgramEnd::Exited(status::NOT_FOUND);
    let missing = if has_no_driver { program::missing_driver_note(name) } else { None };
    reason.into_iter().chain(program::obstacles_in_shell(program)).chain(missing).collect()
}

/// Returns sentences about facts that processes could not record, as they reported it in the page.
fn list_recording_losses(page: &StatusPage) -> Vec<String> {
    let mut notes: Vec<String> =
        page.removed_preloads().map(|(count, name)| describe_removed_preload(count, &name)).into_iter().collect();
    if page.status().nameless.load(Acquire) != 0 {
        notes.push(driver::NO_RUNTIME.to_owned());
    }
    if let lost @ 1.. = page.status().record_lost.load(Acquire) {
        notes.push(format!("{} could not record everything", counted(lost.into(), "process")));
    }
    notes
}

/// Returns true if an environment makes cupeer log, record, or change calls.
fn has_active_options(environment: &Environment) -> bool {
    requests_recording(environment) || is_variable_set(environment, env::LOG) || faults::requests_faults(environment)
}

fn requests_recording(environment: &Environment) -> bool {
    is_variable_set(environment, env::OUT) && environment.get(env::RECORD).is_none_or(|mode| mode != job::OFF)
}

fn is_variable_set(environment: &Environment, name: &str) -> bool {
    environment.get(name).is_some_and(|value| !value.is_empty())
}

/// Returns a sentence if the started process did not load the preload library, or lost it when it executed another program.
/// Returns `None` if a signal killed the process, because the process may have ended before the library was loaded.
fn explain_lost_library(program: &OsStr, page: &StatusPage, child: &Child, end: ProgramEnd) -> Option<String> {
    let library = libraries::PRELOAD;
    let (ProgramEnd::Exited(status), last) = (end, child.last_name()) else { return None };
    let image = page.library_presence();
    let became = matches!(image, LibraryPresence::MaybeLostAfter(_));
    match image {
        // The dynamic loader exits with this status if it cannot start a program.
        LibraryPresence::NeverLoaded if status != status::NOT_FOUND => {
            Some(format!("{} ran without {library}: its loader did not load it", program.display()))
        }
        LibraryPresence::LostAfter(name) | LibraryPresence::MaybeLostAfter(name)
            if !last.is_empty() && (became || name != last) =>
        {
            let ran = if status == status::NOT_FOUND { "if it ran at all, then" } else { "it ran" };
            Some(format!(
                "process {} was '{name}' and then '{last}', which lost cupeer's LD_PRELOAD or has a loader that \
                 cannot load {library}: {ran} without it",
                child.pid()
            ))
        }
        _ => None,
    }
}

fn describe_removed_preload(count: u32, name: &str) -> String {
    let who = match count {
        1 => format!("'{name}'"),
        _ => format!("{}, '{name}' for one,", counted(count.into(), "process")),
    };
    format!(
        "another library removed LD_PRELOAD from the environment of {who} as it began: programs that it starts run without {}",
        libraries::PRELOAD
    )
}

/// Returns the notes for any run, and the reasons why no process reached the driver.
fn collect_notes(
    program: &OsStr,
    obstacle: Option<String>,
    seen: Observations,
    reached: Option<u32>,
) -> (Vec<String>, Vec<String>) {
    let notes = seen.bypassed;
    if reached != Some(0) {
        if let Some(obstacle) = obstacle {
            tracing::debug!("{obstacle}; its children reached the driver anyway");
        }
        return (notes, Vec::new());
    }
    let mut unreached = Vec::new();
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    let own = watch::find_barrier(&name);
    match (obstacle, own) {
        (Some(obstacle), Some(crossing)) => unreached.push(format!("{obstacle}; {}", watch::barrier_hint(crossing))),
        (Some(obstacle), None) => unreached.push(obstacle),
        (None, Some(crossing)) => unreached.push(watch::barrier_note(crossing)),
        (None, None) => {}
    }
    unreached.extend(seen.crossings.into_iter().filter(|crossing| own != Some(*crossing)).map(watch::barrier_note));
    unreached.extend(seen.loaded);
    if notes.is_empty() && unreached.is_empty() {
        unreached.extend(seen.lost);
    }
    (notes, unreached)
}

fn exit_like(end: ProgramEnd) -> ExitCode {
    match end {
        ProgramEnd::Exited(code) => ExitCode::from(code),
        ProgramEnd::Killed(signal) => {
            signals::die_by_signal(signal);
            // Only a signal that does not kill this process leads here.
            ExitCode::from(128u8.wrapping_add(signal as u8))
        }
    }
}
