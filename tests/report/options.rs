//! Filters, options, and what is refused.

use super::scene::{BEGAN_NS, Scene, checked};
use super::text::wrong;
use super::{json_of, of};
use crate::support;
use cupeer_record::writer::About;
use serde_json::{Value, json};

/// The functions of a report with their calls.
fn functions(report: &Value) -> Vec<(String, u64)> {
    let functions = report["functions"].as_array().unwrap();
    let mut all: Vec<(String, u64)> =
        functions.iter().map(|f| (f["function"].as_str().unwrap().into(), f["calls"].as_u64().unwrap())).collect();
    all.sort();
    all
}

fn calls(report: &Value) -> u64 {
    functions(report).iter().map(|(_, calls)| calls).sum()
}

#[test]
fn processes_are_chosen_by_pid_name_or_rank() {
    let scene = wrong();
    let all = json_of(&scene, &[]);
    let proc = all["processes"][3]["proc"].as_str().unwrap();
    for options in [["--process", "1003"], ["--process", proc], ["--rank", "3"]] {
        let report = json_of(&scene, &options);
        assert_eq!(report["processes"].as_array().unwrap().len(), 1, "{options:?}");
        assert_eq!(calls(&report), 12, "{options:?}");
        assert_eq!(report["failures"], json!([]));
        assert_eq!(report["record"]["filters"], json!([options.join(" ")]));
        // Its own handle and the one that it opened: with all that others did with them.
        let handles: Vec<&Value> = report["handles"].as_array().unwrap().iter().map(|h| &h["fingerprint"]).collect();
        assert_eq!(handles, ["ipc:00000000000000a0", "ipc:00000000000000a3"], "{options:?}");
    }
    let report = json_of(&scene, &["--rank", "0,2-3"]);
    assert_eq!(report["processes"].as_array().unwrap().len(), 3);
    assert_eq!(calls(&report), calls(&all) - calls(&json_of(&scene, &["--rank", "1"])));
}

#[test]
fn functions_failures_and_times_are_chosen() {
    let scene = wrong();
    let report = json_of(&scene, &["--function", "@peer,^cuDevice*"]);
    assert_eq!(functions(&report), [("cuCtxEnablePeerAccess".into(), 4)]);
    assert_eq!(report["handles"], json!([]), "no function of IPC was asked for");
    assert_eq!(report["failures"].as_array().unwrap().len(), 1);
    let report = json_of(&scene, &["--function", "cuIpcOpenMemHandle*"]);
    assert_eq!(report["handles"].as_array().unwrap().len(), 6, "the ledger needs the other functions too");
    let report = json_of(&scene, &["--failed"]);
    assert_eq!(functions(&report), [("cuCtxEnablePeerAccess".into(), 1), ("cuIpcOpenMemHandle_v2".into(), 3)]);
    assert_eq!(report["handles"].as_array().unwrap().len(), 2);
    // Both ends are within: two calls of 2.3 and 2.4 ms.
    let report = json_of(&scene, &["--since", "0.0023", "--until", "0.0024"]);
    assert_eq!(calls(&report), 2);
    assert_eq!(report["record"]["ended_ns"], BEGAN_NS + 2_400_000);
    let report = json_of(&scene, &["--since", "2023-11-14T22:13:20.0023Z"]);
    assert_eq!(calls(&report), 4);
}

#[test]
fn filters_that_match_nothing_do_not_look_like_a_record_of_which_nothing_is_wrong() {
    let scene = wrong();
    let events = json_of(&scene, &[])["record"]["events"].as_u64().unwrap();
    for options in [&["--rank", "1", "--failed"][..], &["--function", "cuMemFree", "--rank", "3"]] {
        let report = json_of(&scene, options);
        assert_eq!((calls(&report), &report["record"]["matching"]), (0, &json!(0)), "{options:?}");
        let text = of(&scene, options);
        assert!(
            text.contains(&format!("events     no call matches the filters; there are {events} events\n")),
            "{text}"
        );
        assert!(!text.contains("was broken by "), "{text}");
    }
    let late = of(&scene, &["--until", "0.000050"]);
    assert!(late.contains(&format!("there are {events} events")), "all are counted: {late}");
    let text = of(&scene, &["--function", "cuIpcOpenMemHandle"]);
    assert!(text.contains(&format!("events     27 of {events}\n")), "{text}");
    let text = of(&scene, &["--function", "cuMemFree"]);
    assert!(text.contains(&format!("events     1 of {events}\n")), "{text}");
}

#[test]
fn the_ledger_is_as_it_stood_at_the_end_of_the_time() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).free(300, 0x7000).export(400, 0x12, 0x8000).ends();
    importer.open(150, 0x11, 0x9000).close(200, 0x9000).ends();
    let state = |options: &[&str]| json_of(&scene, options)["handles"][0]["state"].clone();
    assert_eq!(state(&["--until", "0.000120"]), "exported");
    assert_eq!(state(&["--until", "0.000180"]), "open", "its process went on");
    assert_eq!(state(&[]), "closed");
    let late = json_of(&scene, &["--since", "0.000350"]);
    assert_eq!(late["handles"].as_array().unwrap().len(), 1, "the first one has ended before");
}

#[test]
fn processes_that_had_not_begun_are_not_shown_as_running() {
    let scene = Scene::new();
    let mut exporter = scene.gone(0);
    exporter.export(100, 0x11, 0x7000).ends();
    let before = ["--until", "2001-01-01T00:00:00Z"];
    assert_eq!(json_of(&scene, &before)["processes"], json!([]));
    let text = of(&scene, &before);
    assert!(text.contains("processes  0 on 1 host") && !text.contains("running"), "{text}");
    assert_eq!(json_of(&scene, &["--until", "0.000050"])["processes"].as_array().unwrap().len(), 1);
}

#[test]
fn two_records_are_compared_by_what_is_counted() {
    let (scene, other) = (wrong(), Scene::new());
    let (mut exporter, mut importer) = (other.gone(0), other.gone(1));
    exporter.export(100, 0x11, 0x7000).ends();
    importer.enable(150, 0).fail_to_open(200, (0x11, checked(0x11)), 1).open(210, 0x11, 0x9000).close(220, 0x9000);
    importer.ends();
    let path = other.dir().display().to_string();
    let diff = json_of(&scene, &["--diff", &path]);
    assert_eq!(diff["schema"], "cupeer-report-diff/1");
    let function = |name: &str| {
        let functions = diff["functions"].as_array().unwrap();
        functions.iter().find(|function| function["function"] == name).unwrap().clone()
    };
    assert_eq!(function("cuIpcOpenMemHandle_v2")["calls"], json!([27, 2]));
    assert_eq!(function("cuIpcOpenMemHandle_v2")["failed"], json!([3, 1]));
    assert_eq!(function("cuMemFree_v2")["calls"], json!([1, 0]));
    let failures = diff["failures"].as_array().unwrap();
    let invalid = failures.iter().find(|failure| failure["result"] == "CUDA_ERROR_INVALID_VALUE").unwrap();
    assert_eq!((&invalid["count"], &invalid["differs"]), (&json!([1, 1]), &json!(false)));
    let handles = diff["handles"].as_array().unwrap();
    let closed = handles.iter().find(|row| row["kind"] == "memory" && row["state"] == "closed").unwrap();
    assert_eq!((&closed["count"], &closed["bytes"]), (&json!([2, 1]), &json!([4 << 20, 2 << 20])));

    let text = of(&scene, &["--diff", &path]);
    assert!(text.contains("cuIpcOpenMemHandle_v2  27 -> 2  3 -> 1"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80 || line.contains('/')), "{text}");
    let same = of(&scene, &["--diff", &scene.dir().display().to_string()]);
    assert!(same.ends_with("Nothing differs in calls, failures, findings, faults and handles.\n"), "{same}");
}

#[test]
fn a_report_is_written_to_a_file() {
    let scene = wrong();
    let folder = support::temp_dir();
    let file = folder.path().join("report");
    for form in ["text", "json", "html", "trace", "sarif", "junit"] {
        let report = |options: &[&str]| {
            let mut command = support::cupeer();
            command.arg("report").arg(scene.dir()).args(["--format", form]).args(options);
            support::stdout(command.env_remove("COLUMNS"))
        };
        let printed = report(&[]);
        assert_eq!(report(&["-o", file.to_str().unwrap()]), "", "{form}");
        assert!(!printed.is_empty() && std::fs::read_to_string(&file).unwrap() == printed, "{form}");
    }
    let mut command = support::cupeer();
    let ended = support::done(command.arg("report").arg(scene.dir()).args(["-o", "/no/such/folder/x"]));
    let reason = "cupeer: failed to write '/no/such/folder/x': No such file or directory (os error 2)\n";
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(125), reason));
}

#[test]
fn mistakes_in_the_command_line_are_one_sentence() {
    let scene = wrong();
    let empty = support::temp_dir();
    let dir = scene.dir().display().to_string();
    let nothing = empty.path().display().to_string();
    let refused = |arguments: &[&str], expected: &str| {
        let output = support::cupeer()
            .current_dir(&empty)
            .env("XDG_STATE_HOME", empty.path())
            .arg("report")
            .args(arguments)
            .output()
            .expect("it runs");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.starts_with("cupeer: ") && stderr.contains(expected), "{arguments:?}: {stderr}");
        assert!(stderr.matches("No such file").count() <= 1, "{stderr}");
        assert!(output.stdout.is_empty());
    };
    refused(&[], &format!("there is no recording in {nothing}/cupeer; name one: cupeer report DIR"));
    refused(&["r"], "there is no 'r' here, and no recording of that name ('cupeer ls' lists them)");
    std::fs::write(empty.path().join("x.c"), "int main;").unwrap();
    refused(
        &["x.c"],
        "'x.c' is a file, and not a packed recording; name a directory that 'cupeer run' has recorded to",
    );
    refused(&[&nothing], "holds no recording");
    refused(&["/nonexistent"], "/nonexistent cannot be read: No such file or directory (os error 2)\n");
    refused(&[&dir, "--process", "77"], "no process of the recording is called '77'");
    refused(&[&dir, "--rank", "9"], "no process of the recording has a rank in '9'; it has ranks 0-3");
    refused(&[&dir, "--rank", "3-1"], "--rank: '3-1' is not a list of ranks such as 0,2-5");
    refused(
        &[&dir, "--function", "cuIpcOpenMemHandel"],
        "--function 'cuIpcOpenMemHandel', column 1: no function is named",
    );
    refused(&[&dir, "--since", "soon"], "'soon' is neither seconds since the recording began nor a time");
    refused(&[&dir, "--since", "2", "--until", "1"], "--since is after --until");
    refused(&[&dir, "--diff", &dir, "--format", "trace"], "--diff prints text or JSON");
    refused(&[&dir, "--diff", &nothing], "holds no recording");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let scene = Scene::new();
    let mut actor = scene.process(About::default());
    for i in 0..20_000 {
        actor.ask(100 + 20 * i, 1);
    }
    actor.ends();
    let script = "set -o pipefail; \"$0\" report \"$1\" --format trace | head -c 100";
    let mut command = support::plain("bash");
    command.args(["-c", script]).arg(support::install().join("bin/cupeer")).arg(scene.dir());
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
}
