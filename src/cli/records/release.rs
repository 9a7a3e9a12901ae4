//! `cupeer release`: releases calls held by a fault plan.
//!
//! Whatever hangs under a label waits for a file in the record's directory whose name has that label. What belongs here:
//! making that file, and saying what hangs, as far as the record tells.

use crate::start::args::ReleaseArgs;
use crate::start::home;
use crate::start::output::{self, Failure, terminal_width};
use anyhow::{Context, Result, bail, ensure};
use cupeer_facts::faults::label_of;
use cupeer_record::{Call, Event, FaultFile, FaultRule, Job, Outcome, Process, faults};
use cupeer_record::{launcher, plain};
use cupeer_report::names::{clean, counted};
use cupeer_spec::record::faults::RELEASE;
use cupeer_spec::record::slot::hit::did;
use cupeer_spec::record::{SUFFIX, job};
use cupeer_views::table::Table;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const LONGEST: usize = 64;
/// The exit status where nothing hangs under a label.
const NOTHING: u8 = 1;
/// The label of rules that are known by their calls alone.
const UNKNOWN: &str = "?";

pub fn command(args: &ReleaseArgs) -> Result<ExitCode> {
    let record = Record::open(&home::find(&args.directory)?)?;
    match &args.label {
        Some(label) => record.release(label),
        None => record.list(),
    }
}

struct Record {
    directory: PathBuf,
    rules: Vec<FaultRule>,
    hanging: Vec<Hanging>,
    /// Whether nothing of it runs, as far as is known.
    has_ended: bool,
}

struct Hanging {
    /// The name of the rule that lets it.
    rule: String,
    /// Who is where, in words.
    place: String,
}

impl Record {
    fn open(directory: &Path) -> Result<Record> {
        let shown = directory.display();
        let about = directory.metadata().with_context(|| format!("'{shown}' cannot be read"))?;
        ensure!(about.is_dir(), "'{shown}' is not a directory; name the one that the run records to");
        let is_record = is_record(directory).with_context(|| format!("'{shown}' cannot be read"))?;
        ensure!(is_record, "'{shown}' holds no record; name the directory that the run records to");
        let job = Job::open(directory).ok();
        let files = job.as_ref().map_or_else(|| FaultFile::all_in(directory), |job| job.faults.clone());
        let hanging = job.as_ref().map(hanging).unwrap_or_default();
        let has_ended = job.as_ref().is_some_and(|job| has_ended(job, directory));
        Ok(Record { directory: directory.to_owned(), rules: faults::merged(&files), hanging, has_ended })
    }

    /// The labels with the rules that hang under them. A label that calls have and no rule is [`UNKNOWN`].
    fn labels(&self) -> BTreeMap<String, Vec<&str>> {
        let mut labels: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for rule in &self.rules {
            if let Some(label) = label_of(rule) {
                labels.entry(label).or_default().push(&rule.name);
            }
        }
        for call in &self.hanging {
            if self.rules.iter().all(|rule| rule.name != call.rule) {
                labels.entry(UNKNOWN.into()).or_default().push(&call.rule);
            }
        }
        labels.values_mut().for_each(|rules| rules.dedup());
        labels
    }

    fn hanging_by<'a>(&'a self, rules: &'a [&str]) -> impl Iterator<Item = &'a Hanging> {
        self.hanging.iter().filter(|call| rules.contains(&&*call.rule))
    }

    fn file(&self, label: &str) -> PathBuf {
        self.directory.join(format!("{RELEASE}{label}"))
    }

    /// Makes the file that what hangs waits for.
    fn release(&self, label: &str) -> Result<ExitCode> {
        let is_right = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        ensure!(
            (1..=LONGEST).contains(&label.len()) && label.bytes().all(is_right),
            "'{}' is not a label; a label has 1 to {LONGEST} letters, digits, '.', '_' and '-'",
            clean(label)
        );
        let labels = self.labels();
        let rules = match labels.get(label) {
            Some(rules) => &rules[..],
            // What a program armed itself hangs under a label that nobody has written down.
            None if labels.contains_key(UNKNOWN) => &[],
            None => {
                let sentence = format!("no plan of this job has the label '{label}'; {}", others(&labels));
                bail!(nothing(sentence))
            }
        };
        let file = self.file(label);
        // Whoever takes part in the record may release.
        let is_shared = self.directory.metadata().is_ok_and(|about| about.mode() & 0o020 != 0);
        let mode = if is_shared { 0o660 } else { 0o600 };
        match plain::create(&file, mode) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return output::print(&format!("{label} was already released\n"));
            }
            Err(error) => return Err(error).with_context(|| format!("failed to make '{}'", file.display())),
        }
        let mut text = match self.hanging_by(rules).count() as u64 {
            0 if self.has_ended => {
                bail!(nothing(format!(
                    "released {label}, but nothing hangs there: all processes of the record have ended"
                )))
            }
            0 => format!("released {label}; no call is known to hang there\n"),
            count => format!("released {label}, where {}\n", hang(count)),
        };
        text += &self.hanging_by(rules).map(|call| format!("  {}\n", call.place)).collect::<String>();
        output::print(&text)
    }

    fn list(&self) -> Result<ExitCode> {
        let labels = self.labels();
        if labels.is_empty() {
            return output::print("no known rule makes calls hang\n");
        }
        let mut table = Table::new(&["LABEL", "RELEASED", "HANGING", "RULES"], 4, 20).with_numbers(&[2]);
        let mut calls = String::new();
        for (label, rules) in &labels {
            let released = label != UNKNOWN && self.file(label).exists();
            let hanging = self.hanging_by(rules).count();
            let released = if released { "yes" } else { "no" };
            table.row([label.clone(), released.into(), hanging.to_string(), clean(&rules.join(", "))]);
            calls +=
                &self.hanging_by(rules).map(|call| format!("{label}: {}\n", call.place)).collect::<String>();
        }
        output::print(&(table.render(terminal_width()) + &calls))
    }
}

/// Whether processes record or count in a directory itself, and not in one of those in it.
fn is_record(directory: &Path) -> io::Result<bool> {
    let is_ours = |name: &str, path: &Path| match name {
        job::FILE => crate::start::job::read(path).is_ok_and(|text| text.starts_with(job::FIRST_LINE)),
        _ => name.ends_with(SUFFIX) || FaultFile::is_named(name),
    };
    let mut entries = fs::read_dir(directory)?.flatten();
    Ok(entries.any(|entry| is_ours(&entry.file_name().to_string_lossy(), &entry.path())))
}

/// That nothing was released: a status of its own, so that a script can tell it from a mistake.
fn nothing(sentence: String) -> Failure {
    Failure { sentence, excerpt: None, status: NOTHING }
}

/// Whether all processes of a job have ended, and all who started some.
fn has_ended(job: &Job, directory: &Path) -> bool {
    let text = crate::start::job::read(&directory.join(job::FILE)).unwrap_or_default();
    let mut answers = job.alive().into_iter().chain(launcher::running(&text));
    !job.processes.is_empty() && answers.all(|answer| answer == Some(false))
}

fn others(labels: &BTreeMap<String, Vec<&str>>) -> String {
    match labels.keys().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => "no known rule lets calls hang".to_owned(),
        [one] => format!("the only one is {one}"),
        ref all => format!("there are {}", all.join(", ")),
    }
}

/// `1 call hangs`, or `2 calls hang`.
fn hang(count: u64) -> String {
    format!("{} hang{}", counted(count, "call"), if count == 1 { "s" } else { "" })
}

/// The calls of a job that hang because a fault plan said so, in processes that may still run.
fn hanging(job: &Job) -> Vec<Hanging> {
    let running = job.processes.iter().zip(job.alive()).filter(|(_, alive)| *alive != Some(false));
    running.flat_map(|(process, _)| of_process(process)).collect()
}

fn of_process(process: &Process) -> Vec<Hanging> {
    let mut pending: HashMap<(u32, u64), Call> = HashMap::new();
    // What cannot be read hangs as far as is known.
    for event in process.events().into_iter().flatten() {
        match event {
            Event::Call(call) if call.outcome == Outcome::Pending => {
                pending.insert((call.stream, call.seq), call);
            }
            Event::LateEnd { stream, seq, .. } => drop(pending.remove(&(stream, seq))),
            _ => {}
        }
    }
    let mut calls: Vec<&Call> = pending.values().collect();
    calls.sort_by_key(|call| (call.start, call.stream, call.seq));
    let of_call = |call: &&Call| {
        let hit = call.stopped_by().filter(|hit| hit.has(did::HANG))?;
        let rank = process.rank().map(|rank| format!("rank {rank}, ")).unwrap_or_default();
        let (function, pid) = (clean(process.function_name(call.number)), process.header.pid);
        let place = format!("{rank}process {pid}, thread {} in {function} ({})", call.tid, clean(&hit.rule));
        Some(Hanging { rule: hit.rule.clone(), place })
    };
    calls.iter().filter_map(of_call).collect()
}
