//! `cupeer release`: releases calls held by a fault plan.
//!
//! Whatever hangs under a label waits for a file in the record's directory whose name has that label. What belongs here:
//! making that file, and saying what hangs, as far as the record tells.

use super::running::{self, HangingCall, find_hanging_calls, format_hanging_count, has_job_ended, nothing_to_do};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use cupeer_console::output::{self, line_width};
use cupeer_facts::faults::release_label_of_fault;
use cupeer_record::{FaultCounts, FaultFile, Job, faults, plain};
use cupeer_recordings::home;
use cupeer_report::names::clean;
use cupeer_spec::record::faults::RELEASE;
use cupeer_views::table::Table;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const LONGEST_LABEL: usize = 64;
/// Label of calls whose rule is not known.
const UNKNOWN: &str = "?";

#[derive(Args)]
#[command(
    override_usage = "cupeer release [OPTIONS] <DIR> <LABEL>\n       cupeer release [OPTIONS] <DIR> --list",
    after_help = "\
Exit status: 0 if LABEL is released, 1 if nothing hangs there and nothing will, 125 if cupeer failed.

Examples:
  cupeer run -o r --inject cuIpcCloseMemHandle:hang=gate PROGRAM &
  cupeer release r --list    # which calls hang, and under which label
  cupeer release r gate      # releases them, and all calls that would hang there later"
)]
pub struct ReleaseArgs {
    /// Recording: a directory, or a name that 'cupeer ls' lists
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// LABEL of 'hang=LABEL'; the label of a plain 'hang' is hang
    #[arg(required_unless_present = "list", value_name = "LABEL")]
    pub label: Option<String>,
    /// List labels and the calls that hang, without releasing them
    #[arg(long, conflicts_with = "label")]
    pub list: bool,
}

pub fn command(args: &ReleaseArgs) -> Result<ExitCode> {
    let record = HeldRecording::open(&home::find_recording(&args.directory)?)?;
    match &args.label {
        Some(label) => record.release_label(label),
        None => record.list_labels(),
    }
}

struct HeldRecording {
    directory: PathBuf,
    rules: Vec<FaultCounts>,
    hanging: Vec<HangingCall>,
    /// True if all known processes of the recording have ended.
    has_ended: bool,
}

impl HeldRecording {
    fn open(directory: &Path) -> Result<HeldRecording> {
        running::check_recording(directory)?;
        let job = Job::open(directory).ok();
        let files = job.as_ref().map_or_else(|| FaultFile::all_in(directory), |job| job.faults.clone());
        let hanging = job.as_ref().map(find_hanging_calls).unwrap_or_default();
        let has_ended = job.as_ref().is_some_and(|job| has_job_ended(job, directory));
        Ok(HeldRecording { directory: directory.to_owned(), rules: faults::merge_faults(&files), hanging, has_ended })
    }

    /// Returns the labels, each with the names of the rules that hold calls under it. Calls without a known rule are
    /// under the label [`UNKNOWN`].
    fn rules_by_label(&self) -> BTreeMap<String, Vec<&str>> {
        let mut labels: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for rule in &self.rules {
            if let Some(label) = release_label_of_fault(rule) {
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

    fn calls_held_by<'a>(&'a self, rules: &'a [&str]) -> impl Iterator<Item = &'a HangingCall> {
        self.hanging.iter().filter(|call| rules.contains(&&*call.rule))
    }

    fn release_file(&self, label: &str) -> PathBuf {
        self.directory.join(format!("{RELEASE}{label}"))
    }

    /// Creates the file that the calls held under a label wait for.
    fn release_label(&self, label: &str) -> Result<ExitCode> {
        let is_right = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        ensure!(
            (1..=LONGEST_LABEL).contains(&label.len()) && label.bytes().all(is_right),
            "'{}' is not a label; a label has 1 to {LONGEST_LABEL} letters, digits, '.', '_' and '-'",
            clean(label)
        );
        let labels = self.rules_by_label();
        let rules = match labels.get(label) {
            Some(rules) => &rules[..],
            // Calls of a plan that the program armed itself may be held under a label that is in no file.
            None if labels.contains_key(UNKNOWN) => &[],
            None => {
                let sentence = format!("no plan of this job has the label '{label}'; {}", describe_labels(&labels));
                bail!(nothing_to_do(sentence))
            }
        };
        let file = self.release_file(label);
        // All users who may write to the recording may release calls.
        let is_shared = self.directory.metadata().is_ok_and(|about| about.mode() & 0o020 != 0);
        let mode = if is_shared { 0o660 } else { 0o600 };
        match plain::create(&file, mode) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return output::print(&format!("{label} was already released\n"));
            }
            Err(error) => return Err(error).with_context(|| format!("failed to make '{}'", file.display())),
        }
        let mut text = match self.calls_held_by(rules).count() as u64 {
            0 if self.has_ended => {
                bail!(nothing_to_do(format!(
                    "released {label}, but nothing hangs there: all processes of the recording have ended"
                )))
            }
            0 => format!("released {label}; no call is known to hang there\n"),
            count => format!("released {label}, where {}\n", format_hanging_count(count)),
        };
        text += &self.calls_held_by(rules).map(|call| format!("  {}\n", call.place)).collect::<String>();
        output::print(&text)
    }

    fn list_labels(&self) -> Result<ExitCode> {
        let labels = self.rules_by_label();
        if labels.is_empty() {
            return output::print("no known rule makes calls hang\n");
        }
        let mut table = Table::new(&["LABEL", "RELEASED", "HANGING", "RULES"], 4, 20).with_numbers(&[2]);
        let mut calls = String::new();
        for (label, rules) in &labels {
            let released = label != UNKNOWN && self.release_file(label).exists();
            let hanging = self.calls_held_by(rules).count();
            let released = if released { "yes" } else { "no" };
            table.push_row([label.clone(), released.into(), hanging.to_string(), clean(&rules.join(", "))]);
            calls += &self.calls_held_by(rules).map(|call| format!("{label}: {}\n", call.place)).collect::<String>();
        }
        output::print(&(table.render(line_width()) + &calls))
    }
}

fn describe_labels(labels: &BTreeMap<String, Vec<&str>>) -> String {
    match labels.keys().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => "no known rule lets calls hang".to_owned(),
        [one] => format!("the only one is {one}"),
        ref all => format!("there are {}", all.join(", ")),
    }
}
