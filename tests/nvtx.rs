//! NVTX calls of programs, as marks.

use crate::programs::{linked, program};
use crate::support::{self, cupeer, done, temp_dir};
use serde_json::Value;
use std::process::Command;

fn run(options: &[&str], before: impl FnOnce(&mut Command)) -> (support::Done, Value) {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut command = cupeer();
    command.arg("run").args(["--sim", "--check=off"]).args(options).arg("--out").arg(&record);
    before(&mut command);
    let done = done(command.arg("--").arg(program("nvtx.c", &["-ldl"])));
    if !record.exists() {
        return (done, Value::Null);
    }
    let text = support::stdout(cupeer().arg("report").arg(&record).args(["--format", "json"]));
    (done, serde_json::from_str(&text).expect("JSON"))
}

fn marks(report: &Value) -> Vec<&str> {
    let marks = report["marks"].as_array().expect("an array").iter();
    marks.map(|mark| mark["text"].as_str().expect("a text")).collect()
}

#[test]
fn marks_and_the_begins_and_ends_of_ranges_are_marks() {
    let (done, report) = run(&["--nvtx"], |_| {});
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(done.stdout, "20 functions\npush 0 1\nstart 1 1\npush 0 2 0\npop 3 0 2 0 1 0 -2 -2\n");
    let begins = [
        &["mark", "range", "process range"][..],
        &["attributes"; 3],
        &["registered"; 3],
        &["wide \u{b5}", "wide mark", "wide range", "odd\u{fffd}", "wide registered"],
    ];
    let ends = [
        ["end of registered", "end of wide range", "end of wide registered", "end of attributes", "end of range"],
        ["end of process range", "end of registered", "end of attributes", "end of odd\u{fffd}", ""],
    ];
    let wanted = [&begins.concat()[..], &ends.concat()].concat();
    assert_eq!(marks(&report), wanted[..wanted.len() - 1]);
}

/// The record begins with the first recorded call, and what was marked before is in it.
#[test]
fn marks_before_the_first_call_are_kept() {
    for (count, left_out) in [(6, false), (300, true)] {
        let folder = temp_dir();
        let record = folder.path().join("record");
        let mut command = cupeer();
        command.args(["run", "-q", "--sim=nvlink:4", "--record=full", "--out"]).arg(&record).arg("--");
        assert_eq!(
            support::stdout(command.arg(linked("early.c", &["-ldl"])).arg(count.to_string())),
            format!("{count}\n")
        );
        let report = |options: &[&str]| {
            let text = support::stdout(cupeer().arg("report").arg(&record).args(["--format", "json"]).args(options));
            serde_json::from_str::<Value>(&text).expect("JSON")
        };
        let all = report(&[]);
        let first = if left_out { count - 128 } else { 0 };
        let mut wanted: Vec<String> = (first..count).map(|i| format!("early {i}")).chain(["late".into()]).collect();
        if left_out {
            wanted.insert(0, "... earlier marks are left out".into());
        }
        assert_eq!(marks(&all), wanted);
        let times: Vec<u64> =
            all["marks"].as_array().unwrap().iter().map(|mark| mark["time_ns"].as_u64().unwrap()).collect();
        assert!(times.is_sorted() && times[0] >= all["record"]["began_ns"].as_u64().unwrap(), "{times:?}");
        assert_eq!(all["processes"].as_array().unwrap().len(), 1, "the child has no recording");
        assert_eq!(report(&["--since-mark", &wanted[0]])["record"]["matching"], 1);
        assert_eq!(report(&["--until-mark", &format!("early {}", count - 1)])["record"]["matching"], 0);
    }
}

#[test]
fn without_the_option_nvtx_hears_of_no_tool() {
    let (done, report) = run(&[], |_| {});
    assert_eq!((&*done.stdout, marks(&report).len()), ("no library\n", 0));
}

#[test]
fn another_tool_is_not_pushed_aside() {
    let (done, _) = run(&["--nvtx"], |command| {
        command.env("NVTX_INJECTION64_PATH", "/opt/other.so");
    });
    assert_eq!(done.status.code(), Some(125));
    assert!(
        done.stderr.starts_with("cupeer: --nvtx: NVTX_INJECTION64_PATH already names /opt/other.so; "),
        "{}",
        done.stderr
    );
}
