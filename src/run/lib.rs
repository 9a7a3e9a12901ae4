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
use child::End;
use cupeer_console::args::quoted;
use cupeer_console::variables::Environment;
use cupeer_console::{annotations, output, status};
use cupeer_facts::faults::Fault;
use cupeer_launch::args::Options;
use cupeer_launch::driver::{self, Chosen};
use cupeer_launch::job::{self, Job};
use cupeer_launch::program::Ran;
use cupeer_launch::settings::deny::{self, Verdicts};
use cupeer_launch::settings::{Settings, check};
use cupeer_launch::{libraries, program};
use cupeer_record as record;
use cupeer_record::launcher::has_namesake;
use cupeer_recordings::hang::ReadWaits;
use cupeer_recordings::{home, kept, reduce, script, suppressions};
use cupeer_report::names::counted;
use cupeer_report::style::Mark;
use cupeer_spec::env;
use cupeer_spec::record::end;
use cupeer_spec::record::job::FILE;
use cupeer_spec::status::Status;
use cupeer_views::plans;
use cupeer_views::summary::{self, Line};
use cupeer_views::text::suppressed::unmatched;
use faults::Faults;
use gate::Gate;
use hang::{HangWatcher, OnHang};
use orphans::Orphan;
use page::{LibraryPresence, Page};
use ran::Run;
use samples::Samples;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Acquire};
use std::time::{SystemTime, UNIX_EPOCH};
use told::{Summary, SummaryOptions};
use watch::{Sightings, Watch};

/// Name of the command that ends a program by SIGTERM when its time is over.
const TIMEOUT: &str = "timeout";

/// Runs the command. `read` reads what the processes wait in when the run hangs.
pub fn command(mut args: RunArgs, read: ReadWaits) -> Result<ExitCode> {
    output::be_verbose(args.options.verbose);
    output::be_quiet(args.quiet);
    let gate = Gate::new(&args)?;
    if gate.is_some() {
        // If the exit status depends on findings, the rules must be checked.
        let option = if args.error_exitcode.is_some() { "--error-exitcode" } else { "--error-on" };
        check::imply(&mut args.options, option)?;
    }
    let args = &args;
    let mut how = summary_options(args, gate.as_ref())?;
    let begun = SystemTime::now();
    let name = script::name(&args.program);
    let settings = Settings::new(&args.options, Some(&name))?;
    let mut environment = settings.apply(Environment::inherited())?;
    args.error_on.iter().for_each(|rules| environment.set(env::ERROR_ON, rules));
    settings.verdicts.iter().filter_map(Verdicts::warning).for_each(|line| output::complain(&line));
    let command: Vec<String> = args.program.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    settings.job.iter().for_each(|job| job.tell_command(&command.join(" ")));
    if args.exec {
        match become_program(args, settings, &environment)? {}
    }
    if args.reduce && settings.job.is_none() {
        bail!("--reduce is for a recording, and nothing is recorded; leave out --record off");
    }
    let faults = Faults::new(&mut environment, settings.job.as_ref())?;
    if faults.is_none() && args.unused_exitcode.is_some() {
        settings.job.as_ref().map(Job::remove_if_empty);
        bail!("--unused-exitcode is for fault plans, but there is none; add --inject or --deny-peer");
    }
    let unmasked = deny::unmasked(&environment).filter(|_| faults.as_ref().is_some_and(Faults::is_ours));
    let record = settings.job.as_ref().map(|job| job.directory.clone());
    let on_hang = args.on_hang.map(|asked| OnHang { asked, read, record: record.clone(), page: None });
    let run = watched(&args.program, environment, settings.driver.as_ref(), on_hang, record.as_deref());
    let fired = faults.as_ref().map(Faults::seen).unwrap_or_default();
    let summarizes_plans = settings.job.as_ref().is_none_or(Job::is_ours_alone);
    let seed = settings.seed_drawn();
    let job = settings.job.filter(|job| !remove_if_empty(job, &name));
    let mut run = run?;
    if let Some(job) = job.as_ref().filter(|job| !job.is_inherited()) {
        told::wait_for_the_last(&job.directory);
    }
    orphans::reap_the_last(run.process.0, &mut run.orphans);
    how.launched = run.process.0 as u32;
    job.iter().for_each(|job| complete(job, &args.program[0], &run));
    let Summary { lines: recorded, report } = summary(job.as_ref(), &how, begun, run.reached);
    let of_plans = if summarizes_plans { plan_lines(faults.as_ref(), &fired, unmasked) } else { Vec::new() };
    let lines = lines(args, job.as_ref(), &run, recorded, of_plans, seed);
    lines.iter().for_each(output::sum_up);
    if let Some(report) = &report {
        unmatched(&report.suppressions).iter().for_each(|line| tracing::debug!("{line}"));
        if !job.as_ref().is_some_and(Job::is_inherited) {
            // If stderr is closed, nobody reads the annotations.
            let _ = annotations::write(report, io::stderr().lock());
        }
    }
    let broken = gate.as_ref().and_then(|gate| gate.status_and_reason(report.as_ref(), &run));
    Ok(end_as(final_end(args, broken, &run, &fired)))
}

/// Returns the options for the summary at the end of the run.
fn summary_options(args: &RunArgs, gate: Option<&Gate>) -> Result<SummaryOptions> {
    Ok(SummaryOptions {
        suppressions: suppressions::read(&args.suppressions)?,
        decides: gate.is_some(),
        error_on: gate.and_then(|gate| gate.chosen.clone()),
        annotates: annotations::are_read(),
        no_source: args.no_source,
        launched: 0,
    })
}

/// Replaces this process by the program (`--exec`), after the notes that would otherwise follow the run.
fn become_program(args: &RunArgs, mut settings: Settings, environment: &Environment) -> Result<Infallible> {
    settings.verdicts.iter_mut().for_each(Verdicts::keep);
    if let Some(note) = program::obstacle(&args.program[0]) {
        output::complain(&note);
    }
    settings.seed_drawn().iter().for_each(|line| output::note(line));
    settings.job.iter().filter_map(Job::displaced).for_each(output::complain);
    if let Some(job) = settings.job.filter(Job::is_at_home) {
        // No launcher will run at the end to delete old recordings, so they are deleted now.
        kept::prune(Some(&job.directory)).iter().for_each(|line| output::note(line));
    }
    child::exec(&args.program, environment)
}

/// Removes the recording of a run that recorded nothing. Returns true if the recording was removed.
fn remove_if_empty(job: &Job, name: &OsStr) -> bool {
    let is_removed = job.remove_if_empty();
    if is_removed && job.is_at_home() {
        home::note_unrecorded(name);
    }
    is_removed
}

/// Adds to a recording the facts about the run that only the launcher knows.
fn complete(job: &Job, program: &OsStr, run: &Run) {
    let end = match run.end {
        End::Exited(status) => end::End::Returned(status),
        End::Killed(signal) => end::End::Signal(signal as u8),
    };
    job.tell_ends(program, run.process, &run.all_ends(end));
    run.bypasses.iter().for_each(|(process, driver)| job.tell_bypass(process, driver));
    job.tell_lost(run.record_lost, run.unrecorded);
}

/// Returns the lines about the recording, and the report if it was built. `reached` is the number of processes that reached the
/// driver.
fn summary(job: Option<&Job>, how: &SummaryOptions, begun: SystemTime, reached: u32) -> Summary {
    let Some(job) = job else { return Summary::default() };
    let shown = home::shown(&job.directory);
    if job.is_ours_alone() {
        let mut told = told::whole(&job.directory, &shown, how);
        let launchers = told.report.as_ref().and_then(|report| summary::without_call(report, reached));
        let line = launchers.and_then(|line| home::standing("launchers", line));
        told.lines.extend(line.map(Line::from));
        return told;
    }
    if job.is_inherited() && !how.decides {
        return Summary::default();
    }
    let mut told = told::of_run(&job.directory, &shown, how, of_this_run(job, begun));
    if job.is_inherited() {
        // The outer cupeer, which created the recording, prints the lines.
        told.lines.clear();
    }
    told
}

/// Returns the lines about fault plans and denied pairs.
fn plan_lines(faults: Option<&Faults>, fired: &[Fault], unmasked: Option<&str>) -> Vec<Line> {
    let of_faults = faults.filter(|faults| faults.is_ours()).map(|_| plans::lines(fired));
    let unmasked = unmasked.and_then(|text| home::standing("denied-pairs", text.to_owned()));
    of_faults.into_iter().flatten().chain(unmasked).map(Line::from).collect()
}

/// Returns all lines at the end of a run; `recorded` are the lines about its recording, and `of_plans` those about its fault
/// plans.
fn lines(
    args: &RunArgs,
    job: Option<&Job>,
    run: &Run,
    recorded: Vec<Line>,
    of_plans: Vec<Line>,
    seed: Option<String>,
) -> Vec<Line> {
    let warning = |text| Line::bad(Mark::Warning, text);
    let is_recorded = !recorded.is_empty();
    let mut lines = match job.is_some_and(Job::is_inherited) || is_recorded {
        true => recorded,
        false => run.blind().into_iter().map(warning).collect(),
    };
    lines.extend(of_plans);
    if let Some(job) = job {
        lines.extend(job.displaced().map(|text| warning(text.to_owned())));
        if args.reduce {
            lines.extend((!job.is_inherited()).then(|| reduce::reduce(&job.directory).into()));
        }
        if job.is_at_home() {
            if lines.iter().any(|line| line.matters) {
                job.tell_notable();
            }
            lines.extend(kept::prune(Some(&job.directory)).map(Line::from));
        }
    }
    lines.extend(seed.map(Line::from));
    lines.extend(run.unused.clone().filter(|_| job.is_none()).map(Line::from));
    let unreached = if is_recorded { &[][..] } else { &run.unreached };
    lines.extend(unreached.iter().chain(&run.notes).cloned().map(warning));
    lines
}

/// Returns a function that is true for processes that use the page of this launcher. The page's path contains the launcher's pid,
/// which other launchers may have had, too: earlier ones, or those in other pid namespaces.
fn of_this_run(job: &Job, begun: SystemTime) -> impl Fn(&record::Process) -> bool {
    let page = format!("/proc/{}/", std::process::id());
    let has_namesake = job::read(&job.directory.join(FILE)).map_or(true, |text| has_namesake(&text));
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
fn final_end(args: &RunArgs, broken: Option<(u8, String)>, run: &Run, seen: &[Fault]) -> End {
    let ended = run.hung.as_ref().and_then(|hung| hung.status);
    let ended = ended.map(|status| (status, "the job hung (--on-hang)".to_owned()));
    let has_exited = matches!(run.end, End::Exited(_));
    let unused = || {
        let why = plans::unused(seen)?;
        Some((args.unused_exitcode?, format!("{why} (--unused-exitcode)")))
    };
    match ended.or_else(|| broken.or_else(unused).filter(|_| has_exited)) {
        Some((code, why)) => {
            output::complain(&format!("exits with {code}, because {why}"));
            End::Exited(code)
        }
        None => run.end,
    }
}

/// Runs a program with the options of `run`, for other commands.
pub fn with_options(options: &Options, extra: &[(&str, &OsStr)], program: &[OsString]) -> Result<Ran> {
    let settings = Settings::new(options, None)?;
    let mut environment = settings.apply(Environment::inherited())?;
    for (name, value) in extra {
        environment.set(name, value);
    }
    let run = watched(program, environment, settings.driver.as_ref(), None, None)?;
    Ok(Ran {
        ended: match run.end {
            End::Exited(code) => format!("ended with status {code}"),
            End::Killed(signal) => format!("was killed by signal {signal}"),
        },
        reached: run.reached,
        is_unseen: run.is_unseen(),
        wrong: [run.unreached, run.notes].concat(),
    })
}

/// Starts a program with an environment, passes signals on to it, watches its processes, and waits for it. Signals from outside
/// are noted in the recording, if any.
fn watched(
    program: &[OsString],
    mut environment: Environment,
    driver: Option<&Chosen>,
    on_hang: Option<OnHang>,
    record: Option<&Path>,
) -> Result<Run> {
    let obstacle = program::obstacle(&program[0]);
    let page = share_page(&mut environment);
    let for_debugger = environment.get(env::STOP_ON).is_some_and(|rules| !rules.is_empty());
    let before = mask::take_over();
    let child =
        Child::start(program, &environment, &before, page.as_deref()).inspect_err(|_| before.restore())?;
    tracing::debug!("started process {}", child.pid());
    let watch = Watch::start(child.pid(), driver.map(|chosen| chosen.library.clone()));
    let samples = page.as_ref().zip(record).and_then(|(page, record)| Samples::start(page, record));
    let hangs = on_hang.map(|on_hang| HangWatcher::start(OnHang { page: page.clone(), ..on_hang }));
    let mut orphans = Vec::new();
    let end = wait(&child, for_debugger, &mut orphans, record);
    let ended = cupeer_record::clock::monotonic();
    let hung = hangs.and_then(|hangs| hangs.stop(end));
    drop(samples);
    let mut seen = watch.stop();
    if !is_watched(&environment) {
        seen.loaded.clear();
    }
    let reached = page.as_ref().map(|page| page.status().reached.load(Acquire));
    reached.iter().for_each(|count| tracing::debug!("processes that reached the driver: {count}"));
    let (bypasses, ends) = (std::mem::take(&mut seen.bypasses), std::mem::take(&mut seen.ends));
    let (mut notes, mut unreached) = notes(&program[0], obstacle, seen, reached);
    notes.extend(keepers::sentences(record));
    let mut unused = None;
    if let Some(page) = page.as_deref().filter(|_| reached == Some(0))
        && notes.is_empty()
        && unreached.is_empty()
    {
        unreached = refusals(program, page, &child, end, driver);
        unused = (unreached.is_empty() && is_recorded(&environment)).then(|| driver::unused(driver, program));
    }
    notes.extend(page.iter().flat_map(|page| losses(page)));
    let told = |of: fn(&Status) -> &AtomicU32| page.as_ref().map(|page| of(page.status()).load(Acquire));
    Ok(Run {
        end,
        process: (child.pid(), child.started()),
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
        unseen: told(|status| &status.unseen).unwrap_or(0),
        escaped: told(|status| &status.escaped).unwrap_or(0),
    })
}

/// Waits for the program, and passes signals on to it. Signals from outside are noted in the recording, if any.
fn wait(child: &Child, for_debugger: bool, orphans: &mut Vec<Orphan>, record: Option<&Path>) -> End {
    let note = |signal: i32, pid: u32, name: &str| {
        if let Some(record) = record {
            job::tell_signal(record, signal, pid, name);
        }
    };
    let end = signals::wait(child, for_debugger, orphans, note);
    if child.last_name() == TIMEOUT && end == End::Exited(status::TIMED_OUT) {
        note(libc::SIGTERM, child.pid() as u32, TIMEOUT);
    }
    end
}

/// Creates the page that this launcher shares with the program's processes, and puts its path into their environment.
fn share_page(environment: &mut Environment) -> Option<Arc<Page>> {
    let failed = |error: &io::Error| tracing::debug!("cannot share a page with the program: {error}");
    let page = Page::new().inspect_err(failed).ok().map(Arc::new);
    match &page {
        Some(page) => environment.set(env::STATUS, page.path()),
        None => environment.remove(env::STATUS),
    }
    page
}

/// Returns sentences about why a program ran without the preload library, or why it found no driver.
fn refusals(
    program: &[OsString],
    page: &Page,
    child: &Child,
    end: End,
    driver: Option<&Chosen>,
) -> Vec<String> {
    let name = &program[0];
    let reason = preloading::by_sanitizer(name, end)
        .or_else(|| lost_library(name, page, child, end))
        .or_else(|| preloading::by_itself(name, end));
    let has_no_driver = driver.is_none() && end == End::Exited(status::NOT_FOUND);
    let missing = if has_no_driver { program::missing_driver(name) } else { None };
    reason.into_iter().chain(program::obstacles_in_shell(program)).chain(missing).collect()
}

/// Returns sentences about facts that processes could not record, as they reported it in the page.
fn losses(page: &Page) -> Vec<String> {
    let mut notes: Vec<String> =
        page.dropped().map(|(count, name)| dropped(count, &name)).into_iter().collect();
    if page.status().nameless.load(Acquire) != 0 {
        notes.push(driver::NO_RUNTIME.to_owned());
    }
    if let lost @ 1.. = page.status().record_lost.load(Acquire) {
        notes.push(format!("{} could not record everything", counted(lost.into(), "process")));
    }
    notes
}

/// Returns true if an environment makes cupeer log, record, or change calls.
fn is_watched(environment: &Environment) -> bool {
    is_recorded(environment) || is_set(environment, env::LOG) || faults::are_asked_for(environment)
}

fn is_recorded(environment: &Environment) -> bool {
    is_set(environment, env::OUT) && environment.get(env::RECORD).is_none_or(|mode| mode != job::OFF)
}

fn is_set(environment: &Environment, name: &str) -> bool {
    environment.get(name).is_some_and(|value| !value.is_empty())
}

/// Returns a sentence if the started process did not load the preload library, or lost it when it executed another program.
/// Returns `None` if a signal killed the process, because the process may have ended before the library was loaded.
fn lost_library(program: &OsStr, page: &Page, child: &Child, end: End) -> Option<String> {
    let library = libraries::PRELOAD;
    let (End::Exited(status), last) = (end, child.last_name()) else { return None };
    let image = page.library_presence();
    let became = matches!(image, LibraryPresence::Became(_));
    match image {
        // The dynamic loader exits with this status if it cannot start a program.
        LibraryPresence::Never if status != status::NOT_FOUND => {
            Some(format!("{} ran without {library}: its loader did not load it", program.display()))
        }
        LibraryPresence::LastIn(name) | LibraryPresence::Became(name)
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

fn dropped(count: u32, name: &str) -> String {
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
fn notes(
    program: &OsStr,
    obstacle: Option<String>,
    seen: Sightings,
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
    let own = watch::crossing(&name);
    match (obstacle, own) {
        (Some(obstacle), Some(crossing)) => unreached.push(format!("{obstacle}; {}", watch::hint(crossing))),
        (Some(obstacle), None) => unreached.push(obstacle),
        (None, Some(crossing)) => unreached.push(watch::note(crossing)),
        (None, None) => {}
    }
    unreached.extend(seen.crossings.into_iter().filter(|crossing| own != Some(*crossing)).map(watch::note));
    unreached.extend(seen.loaded);
    if notes.is_empty() && unreached.is_empty() {
        unreached.extend(seen.lost);
    }
    (notes, unreached)
}

fn end_as(end: End) -> ExitCode {
    match end {
        End::Exited(code) => ExitCode::from(code),
        End::Killed(signal) => {
            signals::die_by(signal);
            // Only a signal that does not kill this process leads here.
            ExitCode::from(128u8.wrapping_add(signal as u8))
        }
    }
}
