//! Random schedules of virtual memory over four processes: what is found at the call, what the report finds without that,
//! and what it finds in the packed record, is what was planted, no more and no less.

use super::scenes::report;
use crate::support::{compile_c, cupeer, done, sample, stdout, temp_dir};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// So many schedules are played in one job, and so many steps each has.
const IN_A_JOB: u32 = 50;
const STEPS: &str = "50";
/// Jobs: how often rules are broken, and on which machine. An early machine reuses handles as early as the documentation allows.
const JOBS: [(&str, &str); 20] = [
    ("right", "nvlink"),
    ("planted", "none,early"),
    ("planted", "none"),
    ("planted", "nvlink,early"),
    ("planted", "nvlink"),
    ("right", "none,early"),
    ("planted", "none"),
    ("planted", "nvlink,early"),
    ("planted", "nvlink"),
    ("planted", "none,early"),
    ("right", "none"),
    ("right", "nvlink,early"),
    ("planted", "nvlink"),
    ("planted", "none,early"),
    ("planted", "none"),
    ("planted", "nvlink,early"),
    ("planted", "nvlink"),
    ("planted", "none,early"),
    ("planted", "none"),
    ("planted", "nvlink,early"),
];

/// Rules that explain failures without a mistake, and those that assume that ranks do the same: these ranks do not.
const NOT_PLANTED: [&str; 3] = ["call-failed", "ranks-differ", "ranks-wait-for-descriptor"];

/// By rule and function: how often, and in which ranks.
type Broken = BTreeMap<(String, String), (u64, BTreeSet<u64>)>;

/// Returns the planted mistakes, as the program prints them.
fn planted(text: &str) -> Broken {
    let mut all = Broken::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("planted ")) {
        let [rule, function, rank] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (count, ranks) = all.entry((rule.to_owned(), function.to_owned())).or_default();
        *count += 1;
        ranks.insert(rank.parse().expect("a rank"));
    }
    all
}

/// Returns the findings of a report.
fn found(report: &Value) -> Broken {
    let mut all = Broken::new();
    let text = |row: &Value, key: &str| row[key].as_str().expect("a text").to_owned();
    let rows = report["findings"].as_array().expect("findings").iter();
    for row in rows.filter(|row| !NOT_PLANTED.iter().any(|name| row["rule"] == *name)) {
        let (count, ranks) = all.entry((text(row, "rule"), text(row, "function"))).or_default();
        *count += row["count"].as_u64().expect("a number");
        ranks.extend(row["ranks"].as_array().expect("ranks").iter().filter_map(Value::as_u64));
    }
    all
}

/// Plays a job with a check and without, and compares. Returns how many calls broke a rule.
fn play(job: usize) -> u64 {
    let (kind, machine) = JOBS[job];
    let program = compile_c("soak/spaces.c", &["-ldl"]);
    let folder = temp_dir();
    let [checked, plain, packed] = ["checked", "plain", "packed"].map(|name| folder.path().join(name));
    let seed = (1 + job as u32 * IN_A_JOB).to_string();
    let mut wrong = 0;
    for (option, record) in [("--check=notes", &checked), ("--check=off", &plain)] {
        let mut command = cupeer();
        let (links, reuse) = match machine.split_once(',') {
            Some((links, _)) => (links, ",reuse=early"),
            None => (machine, ""),
        };
        command.args(["run", &format!("--sim={links}:2{reuse}"), option, "--out"]).arg(record).arg("--");
        command.arg(&program).args([&seed, STEPS, kind, machine, &IN_A_JOB.to_string()]);
        let done = done(&mut command);
        assert!(done.status.success(), "{kind} {machine}, seeds from {seed} on, {option}: {}", done.stderr);
        let planted = planted(&done.stdout);
        wrong = planted.values().map(|(count, _)| count).sum();
        assert_eq!(found(&report(record)), planted, "{kind} {machine}, seeds from {seed} on, {option}");
        if record == &plain {
            stdout(cupeer().arg("pack").arg(record).arg("-o").arg(&packed));
            assert_eq!(found(&report(&packed)), planted, "{kind} {machine}, seeds from {seed} on, packed");
        }
    }
    assert_eq!(wrong > 0, kind == "planted");
    wrong
}

#[test]
fn random_schedules_of_virtual_memory_are_judged_as_they_were_planted() {
    // The processes of a job take turns, so that several jobs take no longer than one.
    let wrong: u64 = std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..sample(4, JOBS.len())).map(|job| scope.spawn(move || play(job))).collect();
        jobs.into_iter().map(|job| job.join().expect("it is judged as planted")).sum()
    });
    assert!(wrong > sample(1000, 4000), "{wrong}");
}
