//! Copies between devices, of a real program on the simulated driver.

use super::json::assert_valid;
use crate::support;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

fn program() -> PathBuf {
    let search = format!("-L{}", support::sim_dir().display());
    support::compile_c("programs/copied.c", &[&search, "-lcuda"])
}

fn run(program: &Path, record: &Path, options: &[&str]) -> Command {
    let mut run = support::cupeer();
    run.args(["run", "--sim=nvlink:2", "-o"]).arg(record).args(options).arg("--").arg(program);
    run
}

fn report(record: &Path, options: &[&str]) -> String {
    support::stdout(support::cupeer().arg("report").arg(record).args(options).env("COLUMNS", "160"))
}

#[test]
fn each_copy_between_devices_counts_for_its_pair() {
    let folder = support::temp_dir();
    let record = folder.path().join("r");
    for options in [&[][..], &["--check"]] {
        let _ = std::fs::remove_dir_all(&record);
        let done = support::done(&mut run(&program(), &record, options));
        assert!(done.status.success(), "{done:?}");
        let report: Value = serde_json::from_str(&self::report(&record, &["--format", "json"])).unwrap();
        assert_valid(&report);
        let devices = report["processes"].as_array().unwrap().iter().map(|process| &process["devices"]);
        let devices = devices.max_by_key(|devices| devices.as_array().unwrap().len()).unwrap();
        let device = |ordinal: usize| &devices[ordinal]["uuid"];
        let exporter = &report["handles"][0]["exporter"];
        let mut copied: Vec<Value> = Vec::new();
        for peer in report["peers"].as_array().unwrap().iter().filter(|peer| peer["copies"] != 0) {
            let ordinal = |uuid: &Value| (0..2).find(|ordinal| device(*ordinal) == uuid);
            copied.push(json!([
                peer["proc"] == *exporter,
                ordinal(&peer["from"]),
                ordinal(&peer["to"]),
                peer["copies"],
                peer["copied_bytes"]
            ]));
        }
        copied.sort_by_key(Value::to_string);
        let importer = [json!([false, 0, 1, 1, 1 << 11]), json!([false, 1, 0, 1, 1 << 10])];
        let exporter = [json!([true, 0, 1, 4, 0b1000111]), json!([true, 1, 0, 3, 0b111000])];
        assert_eq!(copied, [importer, exporter].concat());
        let text = self::report(&record, &[]);
        assert!(text.contains("COPIED") && text.contains("2.1KiB in 5 calls"), "{text}");
    }
}

#[test]
fn copies_on_one_device_are_not_calls() {
    let folder = support::temp_dir();
    let record = folder.path().join("r");
    let mut run = run(&program(), &record, &["--record=full"]);
    let done = support::done(run.arg("local"));
    assert!(done.status.success(), "{done:?}");
    let job = cupeer_record::Job::open(&record).expect("what it allocates is counted");
    let events = job.processes.iter().flat_map(|process| process.events().unwrap());
    let is_copy = |event: &cupeer_record::Event| match event {
        cupeer_record::Event::Call(call) => call.function.is_some_and(|id| id.spec().uses_memory()),
        _ => false,
    };
    assert_eq!(events.filter(is_copy).count(), 0, "{done:?}");
}

#[test]
fn a_copy_can_be_failed() {
    let folder = support::temp_dir();
    let record = folder.path().join("r");
    let done = support::done(&mut run(&program(), &record, &["--inject", "cuMemcpyPeer:when=2:error=INVALID_CONTEXT"]));
    assert!(done.stdout.contains("cuMemcpyPeer"), "{done:?}");
    assert!(!done.status.success());
}
