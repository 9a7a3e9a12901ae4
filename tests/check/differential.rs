//! Agreement of findings at the call, from the live table and the driver, with findings afterwards, from the recording: in every
//! scene, and in random schedules of processes that share correctly and incorrectly.
//!
//! What belongs here: runs with a check and without it, and their packed records. What a single rule says is tested
//! elsewhere.

use super::scenes::{How, cannot, for_each, program, report, scenes};
use crate::support::{compile_c, cupeer, done, sample, stdout, temp_dir};
use cupeer_rules::{RULES, Rule};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Findings about the calls of one place: their number, and the ranks.
type Findings = BTreeMap<(String, String, String, String), (u64, Vec<u64>)>;

fn findings(report: &Value) -> Findings {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let rows = report["findings"].as_array().expect("findings").iter();
    rows.map(|row| {
        let place = row["caller"]["offset"].as_str().unwrap_or_default().to_owned();
        let key = (text(row, "rule"), text(row, "function"), text(row, "result"), place);
        let ranks = row["ranks"].as_array().expect("ranks").iter().filter_map(Value::as_u64).collect();
        (key, (row["count"].as_u64().expect("a number"), ranks))
    })
    .collect()
}

/// Runs with a check and without it, and compares. Returns what differs, and the report of the first run.
fn run_both(run: impl Fn(&[&str], &Path) -> Command) -> (Vec<String>, Value) {
    let folder = temp_dir();
    let record = folder.path().join("checked");
    let done = done(&mut run(&["--check=notes"], &record));
    assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
    let at_the_call = report(&record);
    (compare(&at_the_call, run), at_the_call)
}

/// Runs without a check; what the record says must be what the report of a run with a check says, and what it says when it
/// is packed. Returns what is not so.
fn compare(at_the_call: &Value, run: impl Fn(&[&str], &Path) -> Command) -> Vec<String> {
    let folder = temp_dir();
    let [afterwards, packed] = ["plain", "packed"].map(|name| folder.path().join(name));
    let done = done(&mut run(&["--record=full", "--check=off"], &afterwards));
    assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
    stdout(cupeer().arg("pack").arg(&afterwards).arg("-o").arg(&packed));
    let [afterwards, packed] = [&afterwards, &packed].map(|record| report(record));
    let reports = [at_the_call, &afterwards, &packed];
    let mut said: Vec<String> = reports.iter().flat_map(|report| contradictions(report)).collect();
    let [checked, plain, packed] = reports.map(findings);
    let keys: BTreeSet<_> = checked.keys().chain(plain.keys()).collect();
    let nothing = (0, Vec::new());
    for key in keys {
        let [(count, ranks), (known, knowing)] =
            [&checked, &plain].map(|findings| findings.get(key).unwrap_or(&nothing));
        let rule = Rule::of(&key.0).expect("a rule");
        let is_listed = rule.spec().only_at_the_call().is_some();
        let is_less = known <= count && knowing.iter().all(|rank| ranks.contains(rank));
        // A damaged handle that nobody recognises is an unknown one.
        let damaged = |findings: &Findings| {
            let key = (Rule::IpcDamagedHandle.spec().name().to_owned(), key.1.clone(), key.2.clone(), key.3.clone());
            findings.get(&key).map_or(0, |(count, _)| *count)
        };
        let is_unrecognised = rule == Rule::IpcUnknownHandle && known + damaged(&plain) == count + damaged(&checked);
        // Without the call, the report does not know that the limit was reached, and calls it a leak.
        let is_exhausted =
            rule == Rule::FdLeak && checked.keys().any(|(name, ..)| *name == *Rule::DescriptorsExhausted.spec().name());
        let is_excused = is_listed && is_less || is_unrecognised || is_exhausted;
        if !is_excused && (known, knowing) != (count, ranks) {
            said.push(format!("{key:?}: {count} in {ranks:?} at the call, {known} in {knowing:?} afterwards"));
        }
    }
    if packed != plain {
        said.push(format!("packed: {packed:#?}\nnot packed: {plain:#?}"));
    }
    said
}

/// Findings that say the opposite of what the same report says of their handle.
pub fn contradictions(report: &Value) -> Vec<String> {
    let handles = report["handles"].as_array().expect("handles");
    let exported =
        |name: &str| handles.iter().any(|handle| handle["fingerprint"] == name && handle["exporter"].is_string());
    let rows = report["findings"].as_array().expect("findings").iter();
    let denies = |row: &&Value| {
        let message = row["message"].as_str().unwrap_or_default();
        let handle = message.split(|c: char| c.is_whitespace() || c == ';').find(|word| word.starts_with("ipc:"));
        let is_denied = ["ipc-unknown-handle", "ipc-damaged-handle"].iter().any(|rule| row["rule"] == *rule);
        is_denied && handle.is_some_and(exported)
    };
    rows.filter(denies).map(|row| format!("the ledger contradicts {row:#}")).collect()
}

/// Without a check, cupeer does not follow the memory that graphs use.
const OF_GRAPHS: [&str; 4] = ["graph", "captured", "apart", "altered"];

#[test]
fn every_scene_is_judged_alike_at_the_call_and_afterwards() {
    for_each(scenes(), |scene| {
        if scene.play.name.strip_prefix("access-not-ordered/").is_some_and(|form| OF_GRAPHS.contains(&form)) {
            return Vec::new();
        }
        let checked = scene.outcome_checked(How::Bad);
        if cannot(&checked.done) {
            return Vec::new();
        }
        assert!(checked.done.status.success(), "{}{}", checked.done.stdout, checked.done.stderr);
        compare(&checked.report, |options, record| scene.under(How::Bad, options, record))
    });
    println!("what only a call can tell:");
    for rule in RULES {
        if let Some(fact) = rule.only_at_the_call() {
            println!("  {}: {fact}", rule.name());
        }
    }
}

#[test]
fn random_schedules_are_judged_alike_at_the_call_and_afterwards() {
    /// So many schedules are played in one job.
    const IN_A_JOB: u32 = 20;
    let program = compile_c("soak/schedules.c", &["-ldl"]);
    let play = &|job: u32| {
        let seed = 1 + job * IN_A_JOB;
        // Handles are given out again as a driver was seen to do, and as early as it may.
        let machine = ["--sim=nvlink:2", "--sim=nvlink:2,reuse=early"][job as usize % 2];
        let run = |options: &[&str], record: &Path| {
            let mut command = cupeer();
            command.args(["run", machine]).args(options).arg("--out").arg(record).arg("--");
            command.arg(&program).args([&seed.to_string(), "50", "planted", &IN_A_JOB.to_string()]);
            command
        };
        let (said, report) = run_both(run);
        assert!(said.is_empty(), "seeds from {seed} on:\n{}", said.join("\n"));
        findings(&report).values().map(|(count, _)| count).sum::<u64>()
    };
    // The processes of a job take turns, so that several jobs take no longer than one.
    let found: u64 = std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..sample(4, 26)).map(|job| scope.spawn(move || play(job))).collect();
        jobs.into_iter().map(|job| job.join().expect("it is judged alike")).sum()
    });
    assert!(found > sample(300, 2000), "{found}");
}

#[test]
fn many_openings_after_a_free_are_judged_alike_at_the_call_and_afterwards() {
    const RANKS: u64 = 16;
    // So many that the table of the job gives up what explains the oldest openings.
    const ROUNDS: u64 = 24;
    let program = program("many");
    let run = |options: &[&str], record: &Path| {
        let mut command = cupeer();
        command.args(["run", "--sim=nvlink:2"]).args(options).arg("--out").arg(record).arg("--");
        command.arg(&program).arg(ROUNDS.to_string());
        command
    };
    let (said, report) = run_both(run);
    assert!(said.is_empty(), "{}", said.join("\n"));
    // Each is opened after its free by the three that had it open, and once more at the end.
    let expected = [(Rule::IpcOpenAfterFree, RANKS * ROUNDS * 4), (Rule::IpcUnknownHandle, RANKS)];
    let expected = expected.map(|(rule, count)| (rule.spec().name().to_owned(), (count, (0..RANKS).collect())));
    let found: Vec<_> = findings(&report).into_iter().map(|(key, what)| (key.0, what)).collect();
    assert_eq!(found, expected);
    let handles = report["handles"].as_array().expect("handles");
    let freed = handles.iter().filter(|row| row["exporter"].is_string() && row["freed_ns"].is_u64()).count();
    assert_eq!((freed as u64, handles.len() as u64), (RANKS * ROUNDS, RANKS * ROUNDS + 1));
}
