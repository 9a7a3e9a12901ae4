//! `cupeer fault`: arms, disarms, and lists fault plans of a job while it is running.

use super::running::{self, find_hanging_calls, format_hanging_count, has_job_ended, nothing_to_do};
use crate::lists::list::ListFormat;
use anyhow::{Context, Result, bail, ensure};
use clap::{ArgGroup, Args};
use cupeer_console::output::{self, line_width};
use cupeer_facts::faults::release_label_of_fault;
use cupeer_launch::args::InjectArgs;
use cupeer_launch::board::{BoardReader, PlanBoard};
use cupeer_launch::settings;
use cupeer_record::faults::LaterPlan;
use cupeer_record::{Event, FaultCounts, FaultFile, Job, Process, alive, host};
use cupeer_recordings::home;
use cupeer_report::model::DENY;
use cupeer_report::moments::duration;
use cupeer_report::names::{clean, counted};
use cupeer_spec::env;
use cupeer_spec::record::Header;
use cupeer_spec::record::faults::PlanFileName;
use cupeer_views::table::Table;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Pause between two checks of which processes have the plans.
const PAUSE: Duration = Duration::from_millis(5);
/// Maximum number of processes without the new plans that are named; further ones are only counted.
const MOST_NAMED: usize = 8;

#[derive(Args)]
#[command(
    group(ArgGroup::new("action").required(true).multiple(true).args(["inject", "inject_file", "release", "list"])),
    after_help = "\
The job must allow it: start it with 'cupeer run --allow-faults'. Plans reach all of its processes on this host that belong to you, and \
those that start later. Processes that have called the driver before take a plan at their next call of it.

Exit status: 0 if the plans are armed or disarmed, 1 if there is none to disarm, 125 if cupeer failed or the job does not allow it.

Examples:
  cupeer run -o r --allow-faults --sim -- target/demo-share &
  cupeer fault r --inject 'cuIpcOpenMemHandle*:error=MAP_FAILED'    # every further open fails
  cupeer fault r --list           # which plans there are, and how often they fired
  cupeer fault r --release 1      # disarms plan 1, and releases the calls that it holds
  cupeer fault r --release --inject '@ipc:rank=2:delay=5ms'         # replaces all plans"
)]
pub struct FaultArgs {
    /// Recording of the job: a directory, or a name that 'cupeer ls' lists
    #[arg(value_name = "RECORD")]
    pub directory: PathBuf,
    /// Arm a plan, as in 'cuIpcOpenMemHandle*:error=MAP_FAILED' ('cupeer list faults'); repeatable
    #[arg(long, value_name = "PLAN")]
    pub inject: Vec<String>,
    /// Arm a plan from FILE: one fault per line, '# comment', 'include OTHER', 'plan NAME'; repeatable
    #[arg(long, value_name = "FILE")]
    pub inject_file: Vec<PathBuf>,
    /// Seed for random choices in the plans [default: random, and printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Disarm the plans that 'cupeer fault' armed, and release the calls that they hold; or only WHICH: its number, name, or label
    #[arg(long, value_name = "WHICH", num_args = 0..=1)]
    pub release: Option<Option<String>>,
    /// List all plans of the job, with the number of calls that matched and at which they fired
    #[arg(long, conflicts_with_all = ["inject", "inject_file", "release", "wait"])]
    pub list: bool,
    /// Form of the list: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text", requires = "list", hide_possible_values = true)]
    pub format: ListFormat,
    /// Wait up to TIME until all processes have the plans
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = cupeer_console::args::duration)]
    pub wait: Duration,
}

pub fn command(args: &FaultArgs) -> Result<ExitCode> {
    let directory = home::find_recording(&args.directory)?;
    running::check_recording(&directory)?;
    if args.list {
        return list_faults(&directory, args.format);
    }
    let shown = home::report_argument(&directory);
    let job = Job::open(&directory).ok();
    let plans =
        open_allowed_board(&directory, job.as_ref()).with_context(|| format!("no plan was changed in '{shown}'"))?;
    let mut text = String::new();
    // A mistake in the new plans must not change the old ones, so they are parsed first.
    let options = InjectArgs {
        inject: args.inject.clone(),
        inject_file: args.inject_file.clone(),
        seed: args.seed,
        ..InjectArgs::default()
    };
    let mut number = 0;
    let (rules, seed) = settings::inject::read_plan(&options, || {
        number = plans.take_plan_number();
        format!("fault-{number}")
    })?;
    if let Some(which) = &args.release {
        text += &disarm_plans(&directory, &plans, job.as_ref(), which.as_deref(), !rules.is_empty())?;
    }
    if !rules.is_empty() {
        plans.arm(number, &rules, seed)?;
        if args.seed.is_none() && rules.iter().any(|rule| rule.is_random() && !rule.has_clause("seed")) {
            text += &format!("the plan leaves something to chance; --seed {seed} repeats its decisions\n");
        }
        text += &format!("plan {number} is armed");
    }
    text += &wait_until_armed(&plans, job.as_ref(), args.wait);
    output::print(&text)
}

/// Returns the board of a job that allows plans from outside; otherwise, an error with the reason.
fn open_allowed_board(directory: &Path, job: Option<&Job>) -> Result<PlanBoard> {
    ensure!(!job.is_some_and(|job| has_job_ended(job, directory)), "all processes of the job have ended");
    let plans = PlanBoard::find(directory)?.filter(PlanBoard::allows_plans);
    plans.with_context(|| {
        format!(
            "its processes were started without permission for that; start them with 'cupeer run --allow-faults', or with {}=1 \
             in their environment",
            env::ALLOW_FAULTS
        )
    })
}

/// Disarms plans that `cupeer fault` armed: all, or those with a number, a name, or the label or name of one of their faults.
fn disarm_plans(
    directory: &Path,
    plans: &PlanBoard,
    job: Option<&Job>,
    which: Option<&str>,
    is_replaced: bool,
) -> Result<String> {
    let files = FaultFile::all_in(directory);
    let boot_id = host::boot_id();
    let is_armed = |file: &FaultFile, later: &LaterPlan| {
        let name = PlanFileName { boot_id: file.boot_id, number: later.number }.to_string();
        Some(file.boot_id) == boot_id && later.disarmed == 0 && file.path.ends_with(name)
    };
    let armed = files.iter().filter_map(|file| Some((file.later.as_ref()?, file)));
    let armed = armed.filter(|(later, file)| is_armed(file, later));
    let is_named = |file: &FaultFile, number: u64| {
        let is_it = |rule: &FaultCounts, word: &str| {
            // Names of faults that are numbers only give the position in the plan.
            let own = rule.name.rsplit('/').next().filter(|own| own.parse::<u64>().is_err());
            [rule.plan_name(), &rule.name].contains(&word)
                || own == Some(word)
                || release_label_of_fault(rule).as_deref() == Some(word)
        };
        which.is_none_or(|word| word == number.to_string() || file.rules.iter().any(|rule| is_it(rule, word)))
    };
    let chosen: Vec<_> = armed.filter(|(later, file)| is_named(file, later.number)).collect();
    let (outside, own): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|(later, _)| later.root.is_none());
    if outside.is_empty() && !is_replaced {
        let sentence = match (which, own.first().and_then(|(later, _)| Some((later, later.root?)))) {
            (Some(_), Some((later, (pid, ..)))) => {
                format!("plan {} was armed by process {pid}, which alone disarms it", later.number)
            }
            (Some(word), None) => {
                format!("no plan '{}' is armed from outside; --list shows all plans", clean(word))
            }
            (None, _) => "no plan is armed from outside; --list shows all plans".to_owned(),
        };
        bail!(nothing_to_do(sentence));
    }
    let names: Vec<&str> = outside.iter().flat_map(|(_, file)| &file.rules).map(|rule| rule.name.as_str()).collect();
    let held = job.map(find_hanging_calls).unwrap_or_default();
    let held = held.iter().filter(|call| names.contains(&&*call.rule)).count() as u64;
    for (later, _) in &outside {
        plans.disarm(later.number)?;
    }
    let numbers: Vec<String> = outside.iter().map(|(later, _)| later.number.to_string()).collect();
    let mut text = match &numbers[..] {
        [] => return Ok(String::new()),
        [one] => format!("plan {one} is disarmed"),
        all => format!("plans {} are disarmed", all.join(", ")),
    };
    if held > 0 {
        text += &format!("; {} under it, and may go on", format_hanging_count(held));
    }
    if is_replaced {
        text.push('\n');
    }
    Ok(text)
}

/// Waits until all running processes have the plans; returns a sentence about which processes have them.
fn wait_until_armed(plans: &PlanBoard, job: Option<&Job>, most: Duration) -> String {
    let (wanted, until) = (plans.generation(), Instant::now() + most);
    let has = |process: &BoardReader| process.plan_generation.is_some_and(|has| has >= wanted);
    let processes = loop {
        let processes = running_readers(plans);
        if processes.iter().all(has) || Instant::now() >= until {
            break processes;
        }
        sleep(PAUSE);
    };
    let looked = processes.iter().filter(|process| has(process)).count();
    let mut text = match processes.len() {
        0 => "; no process that allows it has called the driver yet, and those that do take it over then\n".to_owned(),
        all => format!(" in {looked} of {}\n", counted(all as u64, "process")),
    };
    let named = |pid: u32, pid_ns: u64| {
        let is_it = |process: &&Process| process.header.pid == pid && process.header.pid_ns == pid_ns;
        let rank = job.iter().flat_map(|job| &job.processes).find(is_it).and_then(Process::rank);
        rank.map_or_else(|| format!("process {pid}"), |rank| format!("process {pid} (rank {rank})"))
    };
    let behind: Vec<&BoardReader> = processes.iter().filter(|process| !has(process)).collect();
    for process in behind.iter().take(MOST_NAMED) {
        let name = named(process.pid, process.pid_ns);
        text += &format!("  {name} has not looked yet; it does at its next call of the driver\n");
    }
    if behind.len() > MOST_NAMED {
        text += &format!("  and {} more have not\n", behind.len() - MOST_NAMED);
    }
    for process in job.map(processes_without_permission).unwrap_or_default() {
        let Header { pid, pid_ns, started, .. } = process.header;
        if !processes.iter().any(|one| (one.pid, one.pid_ns, one.started) == (pid, pid_ns, started)) {
            text += &format!("  {} does not allow it, and is left alone\n", named(pid, pid_ns));
        }
    }
    text
}

/// Returns the running processes that allow plans from outside.
fn running_readers(plans: &PlanBoard) -> Vec<BoardReader> {
    let open: Vec<BoardReader> = plans.list_readers().into_iter().filter(|process| process.allows_plans).collect();
    let identity = |process: &BoardReader| (process.pid_ns, process.pid, process.started);
    let runs = alive::running_on_this_host(&open.iter().map(identity).collect::<Vec<_>>());
    open.into_iter().zip(runs).filter(|(_, runs)| *runs != Some(false)).map(|(open, _)| open).collect()
}

/// Returns the running processes of a job on this host that do not allow plans from outside.
fn processes_without_permission(job: &Job) -> Vec<&Process> {
    let is_open =
        |process: &Process| process.variables.iter().any(|(name, value)| name == env::ALLOW_FAULTS && value == "1");
    let runs = job.processes.iter().zip(job.are_alive()).filter(|(_, alive)| *alive == Some(true));
    runs.map(|(process, _)| process).filter(|process| !is_open(process)).collect()
}

/// A fault in the output of `--list`.
#[derive(Serialize)]
struct Row {
    /// Number of the plan; null for the plan of `cupeer run`.
    number: Option<u64>,
    plan: String,
    name: String,
    rule: String,
    /// Command that armed the plan: `cupeer run`, `cupeer fault`, or `process PID`.
    origin: String,
    /// Time at which the plan was armed, in nanoseconds since 1970; null for the plan of `cupeer run`, which is armed from the
    /// start.
    armed_ns: Option<u64>,
    disarmed_ns: Option<u64>,
    matched: u64,
    fired: u64,
    /// Processes in which the fault fired, according to their recordings.
    processes: Vec<Fired>,
}

#[derive(Serialize)]
struct Fired {
    pid: u32,
    rank: Option<u32>,
    fired: u64,
}

fn list_faults(directory: &Path, format: ListFormat) -> Result<ExitCode> {
    let job = Job::open(directory).ok();
    let files = job.as_ref().map_or_else(|| FaultFile::all_in(directory), |job| job.faults.clone());
    let mut fired = job.as_ref().map(count_fired).unwrap_or_default();
    let mut rows = Vec::new();
    for file in &files {
        let later = file.later.as_ref();
        let origin = match later.map(|later| later.root) {
            None => "cupeer run".to_owned(),
            Some(None) => "cupeer fault".to_owned(),
            Some(Some((pid, ..))) => format!("process {pid}"),
        };
        for rule in file.rules.iter().filter(|rule| rule.plan_name() != DENY) {
            rows.push(Row {
                number: later.map(|later| later.number),
                plan: rule.plan_name().to_owned(),
                name: rule.name.clone(),
                rule: cupeer_facts::faults::strip_name_clause(&rule.text),
                origin: origin.clone(),
                armed_ns: later.map(|later| later.armed),
                disarmed_ns: later.map(|later| later.disarmed).filter(|at| *at != 0),
                matched: rule.matched,
                fired: rule.fired,
                processes: fired.remove(&rule.name).unwrap_or_default(),
            });
        }
    }
    rows.sort_by_key(|row| row.number);
    match format {
        ListFormat::Json => output::print_json(&serde_json::json!({ "plans": rows })),
        _ if rows.is_empty() => output::print("the job has no fault plans\n"),
        _ => output::print(&faults_table(&rows)),
    }
}

fn faults_table(rows: &[Row]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let mut table = Table::new(&["PLAN", "ARMED", "BY", "MATCHED", "FIRED", "FAULT"], 6, 20).with_last_below();
    table = table.with_numbers(&[3, 4]);
    let mut below = String::new();
    for row in rows {
        let since = match (row.armed_ns, row.disarmed_ns) {
            (_, Some(_)) => "no".to_owned(),
            (Some(armed), None) => format!("since {}", duration(now.saturating_sub(armed))),
            (None, None) => "from the start".to_owned(),
        };
        let number = row.number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let (matched, fired) = (row.matched.to_string(), row.fired.to_string());
        table.push_row([number, since, row.origin.clone(), matched, fired, clean(&row.rule)]);
        for Fired { pid, rank, fired } in &row.processes {
            let rank = rank.map(|rank| format!(" (rank {rank})")).unwrap_or_default();
            let name = clean(&row.name);
            below += &format!("{name}: fired {} in process {pid}{rank}\n", counted(*fired, "time"));
        }
    }
    table.render(line_width()) + &below
}

/// Returns the processes in which each fault fired, by the fault's name, with the number of times according to their recordings.
fn count_fired(job: &Job) -> BTreeMap<String, Vec<Fired>> {
    let mut all: BTreeMap<String, Vec<Fired>> = BTreeMap::new();
    for process in &job.processes {
        let mut times: BTreeMap<String, u64> = BTreeMap::new();
        for event in process.events().into_iter().flatten() {
            let Event::Call(call) = event else { continue };
            for hit in &call.details.hits {
                *times.entry(hit.fault_name.clone()).or_default() += 1;
            }
        }
        for (rule, fired) in times {
            let (pid, rank) = (process.header.pid, process.rank());
            all.entry(rule).or_default().push(Fired { pid, rank, fired });
        }
    }
    all
}
