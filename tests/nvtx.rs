//! What programs tell NVTX, as marks.

use crate::programs::program;
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
fn marks_and_begins_of_ranges_are_marks() {
    let (done, report) = run(&["--nvtx"], |_| {});
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(done.stdout, "11 functions\npush -2\nstart 0\n");
    let attributes = ["attributes"; 3];
    let registered = ["registered"; 3];
    let wanted = [&["mark", "range", "process range"][..], &attributes, &registered].concat();
    assert_eq!(marks(&report), wanted);
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
