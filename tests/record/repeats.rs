//! Calls that fail in the same way again and again: the record stays small, all of them count, and some have stacks.

use super::{only_file, recording};
use crate::programs::{Scene, linked, open_job, recorded};
use crate::support;
use cupeer_record::{Call, Outcome};
use cupeer_spec::env;
use cupeer_spec::function::FnId;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Number of failures per thread.
const CALLS: u64 = 150_000;
/// Ten million calls may use 50 MB of a recording.
const BYTES_OF_EACH: u64 = 5;

fn scene(calls: u64, mode: &str) -> Scene {
    Scene::new(linked("repeats.c", &[])).arg(calls.to_string()).arg(mode)
}

/// Runs it, and says what it has printed.
fn run(mode: &str, record: &Path, variables: &[(&str, &str)]) -> String {
    let mut command = recording(&scene(CALLS, mode), record);
    command.envs(variables.iter().copied());
    let done = support::done(&mut command);
    assert!(done.status.success(), "{mode}: {done:?}");
    done.stdout
}

/// Returns the number of recorded calls by result.
fn counts(record: &Path) -> BTreeMap<i32, u64> {
    let mut counts = BTreeMap::new();
    for process in &open_job(record).processes {
        assert_eq!(process.header.lost, 0);
        for call in recorded(process) {
            let Outcome::Returned(result) = call.outcome else { panic!("{call:?}") };
            *counts.entry(result).or_default() += call.call_count();
        }
    }
    counts
}

/// The report; its form is that of the schema.
fn report(record: &Path) -> Value {
    let text = support::stdout(support::cupeer().args(["report", "--format", "json"]).arg(record));
    let report: Value = serde_json::from_str(&text).unwrap();
    let schema: Value = serde_json::from_str(&fs::read_to_string("docs/report.schema.json").unwrap()).unwrap();
    let errors: Vec<String> =
        jsonschema::validator_for(&schema).unwrap().iter_errors(&report).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    report
}

#[test]
fn the_record_is_small_and_everything_counts() {
    for (recorded, check) in
        [("full", "off"), ("full", "brief"), ("full", "full"), ("ring:1M", "off"), ("ring:1M", "brief")]
    {
        let folder = support::temp_dir();
        let record = folder.path().join("record");
        run("plain", &record, &[(env::RECORD, recorded), (env::CHECK, check)]);
        let size = fs::metadata(only_file(&record).unwrap()).unwrap().len();
        assert!(recorded != "full" || size < 2 * CALLS * BYTES_OF_EACH, "{recorded} {check}: {size} bytes");
        assert_eq!(counts(&record), BTreeMap::from([(1, 2 * CALLS)]), "{recorded} {check}");
        let report = report(&record);
        let function = &report["functions"][0];
        assert_eq!(function["calls"], 2 * CALLS);
        assert_eq!(function["failures"]["CUDA_ERROR_INVALID_VALUE"], 2 * CALLS);
        let group = &report["failure_groups"][0];
        assert_eq!(group["count"], 2 * CALLS);
        let stacks = group["stacks"].as_u64().unwrap();
        assert!((2..200).contains(&stacks), "{stacks}");
        let events = report["record"]["events"].as_u64().unwrap();
        assert_eq!(events + report["record"]["repeated"].as_u64().unwrap(), 2 * CALLS);
        if check != "off" {
            let findings = report["findings"].as_array().unwrap();
            assert_eq!(findings.iter().map(|one| one["count"].as_u64().unwrap()).sum::<u64>(), 2 * CALLS);
        }
        let text = support::stdout(support::cupeer().args(["report", "--all"]).arg(&record));
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("that only repeat a failure and are counted"), "{text}");
        // A finding has the same from the failures in JSON.
        let told = format!(", stacks of {stacks} of 300,000 calls");
        assert!(check != "off" || text.contains(&told), "{text}");
    }
}

#[test]
fn every_event_of_a_kind_has_a_stack() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    run("between", &record, &[]);
    let calls: Vec<Call> = open_job(&record).processes.iter().flat_map(recorded).collect();
    let failed = calls.iter().filter(|call| !call.succeeded());
    assert!(failed.clone().all(|call| !call.details.frames.is_empty()));
    let own = failed.filter(|call| call.has_own_stack()).count();
    assert!((32..200).contains(&own), "{own}");
    assert_eq!(counts(&record), BTreeMap::from([(0, 2 * (CALLS / 100)), (1, 2 * CALLS)]));
}

#[test]
fn other_failures_are_counted_separately() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    run("changes", &record, &[(env::CHECK, "brief")]);
    assert_eq!(counts(&record), BTreeMap::from([(1, CALLS + CALLS / 2), (2, CALLS / 2)]));
}

#[test]
fn handlers_that_fail_in_between_are_counted() {
    for mode in ["full", "ring:1M"] {
        let folder = support::temp_dir();
        let record = folder.path().join("record");
        let printed = run("signals", &record, &[(env::RECORD, mode)]);
        let by_handler: u64 = printed.trim().parse().unwrap();
        assert_eq!(counts(&record), BTreeMap::from([(0, by_handler), (1, CALLS + by_handler)]), "{mode}");
    }
}

#[test]
fn a_child_counts_for_itself() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    run("fork", &record, &[(env::CHECK, "brief")]);
    let mut calls: Vec<u64> = Vec::new();
    for process in &open_job(&record).processes {
        let all = recorded(process);
        assert!(all.iter().any(Call::has_own_stack));
        calls.push(all.iter().map(Call::call_count).sum());
    }
    calls.sort_unstable();
    assert_eq!(calls, [CALLS / 2, 2 * CALLS]);
}

#[test]
fn killed_processes_have_counted_up_to_the_last_call() {
    for round in 0..support::rounds(6) {
        let folder = support::temp_dir();
        let (record, counters) = (folder.path().join("record"), folder.path().join("counters"));
        let mut command = recording(&scene(0, "forever").arg(&counters), &record);
        command.env(env::RECORD, if round % 2 == 0 { "full" } else { "ring:1M" });
        let mut child = command.spawn().unwrap();
        let returned = |thread: u64| {
            let mut bytes = [0; 8];
            let read = File::open(&counters).and_then(|file| file.read_exact_at(&mut bytes, 4096 * thread));
            read.map_or(0, |()| u64::from_le_bytes(bytes))
        };
        support::wait_for("calls of both threads", || returned(0) > 50_000 && returned(1) > 10_000);
        child.kill().unwrap();
        child.wait().unwrap();
        let job = open_job(&record);
        let mut of: BTreeMap<u32, u64> = BTreeMap::new();
        recorded(&job.processes[0]).iter().for_each(|call| *of.entry(call.tid).or_default() += call.call_count());
        let mut of: Vec<u64> = of.into_values().collect();
        let mut wanted = [returned(0), returned(1)];
        of.sort_unstable();
        wanted.sort_unstable();
        for (had, wanted) in of.iter().zip(wanted) {
            // One that has returned and was not counted by the program, or is in flight.
            assert!((wanted..=wanted + 2).contains(had), "{of:?}, {wanted}");
        }
    }
}

#[test]
fn the_last_release_of_a_context_has_its_stack() {
    let search = format!("-L{}", support::sim_dir().display());
    let program = support::compile_c("programs/releases.c", &[&search, "-lcuda"]);
    for check in ["--check=off", "--check"] {
        let folder = support::temp_dir();
        let record = folder.path().join("record");
        let mut run = support::cupeer();
        run.args(["run", "--sim=nvlink:2", check, "-o"]).arg(&record).arg("--").arg(&program);
        let done = support::done(&mut run);
        assert!(done.status.success(), "{done:?}");
        let calls: Vec<Call> = open_job(&record).processes.iter().flat_map(recorded).collect();
        let releases = calls.iter().filter(|call| call.function == Some(FnId::cuDevicePrimaryCtxRelease_v2));
        let has_stack: Vec<bool> = releases.map(|call| !call.details.frames.is_empty()).collect();
        assert_eq!(has_stack, [false, false, false, true], "{check}");
    }
}
