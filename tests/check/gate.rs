//! The status of a run by what was found: `--error-exitcode`, `--error-on` and `--suppressions`; and the annotations of it.

use super::scenes::{How, scene};
use crate::support::{self, Done, cupeer, done, temp_dir};
use std::fs;
use std::path::Path;

fn run_into(record: &Path, name: &str, how: How, options: &[&str]) -> Done {
    done(&mut scene(name).under(how, options, record))
}

fn run(name: &str, how: How, options: &[&str]) -> Done {
    run_into(&temp_dir().path().join("record"), name, how, options)
}

/// Returns the reasons for the status.
fn why(done: &Done) -> Vec<&str> {
    done.stderr.lines().filter(|line| line.starts_with("cupeer: exits with")).collect()
}

#[test]
fn chosen_rules_replace_the_status_whatever_their_severity() {
    // The first is a note that only the report finds, the second an error, the third a warning.
    let [leak, error, warning] = ["ipc-never-closed", "ipc-flags", "peer-not-enabled"];
    for (name, options, status) in [
        (leak, &["--error-on", "ipc-never-closed"][..], 1),
        (leak, &["--error-on", "peer-*,ipc-never-*"], 1),
        (leak, &["--error-on", "ipc-never-closed", "--error-exitcode", "7"], 7),
        (leak, &["--error-on", "note"], 1),
        (leak, &["--error-on", "all"], 1),
        (leak, &["--error-on", "warning"], 0),
        (leak, &["--error-on", "peer-*"], 0),
        (leak, &["--error-on", "ipc-never-closed@libnccl*"], 0),
        (leak, &["--error-exitcode", "7"], 0),
        (error, &["--error-on", "peer-*,error"], 1),
        // Only what is chosen counts.
        (error, &["--error-on", "peer-*", "--error-exitcode", "9"], 0),
        (error, &["--error-on", "ipc-flags", "--ignore", "ipc-flags"], 0),
        (warning, &["--error-on", "error"], 0),
        (warning, &["--error-on", "warning"], 1),
        // A place that forgets some handles leaks; one that keeps its first and its last ones does not.
        ("ipc-leak", &["--error-exitcode", "7"], 7),
        ("ipc-leak/marks", &["--error-exitcode", "7"], 7),
        ("vmm-leak", &["--error-exitcode", "7"], 7),
        ("ipc-never-closed/kept", &["--error-exitcode", "7"], 0),
    ] {
        let ended = run(name, How::Bad, options);
        assert_eq!(ended.status.code(), Some(status), "{name} {options:?}\n{}", ended.stderr);
        assert_eq!(why(&ended).len(), usize::from(status != 0), "{}", ended.stderr);
        let right = run(name, How::Good, options);
        assert_eq!(right.status.code(), Some(0), "{name} {options:?}\n{}", right.stderr);
    }
}

#[test]
fn a_status_by_what_is_found_needs_a_record() {
    for option in ["--error-exitcode=9", "--error-on=all"] {
        let refused = done(cupeer().args(["run", "--record", "off", option, "--", "true"]));
        assert_eq!(refused.status.code(), Some(125), "{}", refused.stderr);
        let name = option.split('=').next().expect("a name");
        assert_eq!(
            refused.stderr,
            format!("cupeer: {name} and --record off contradict each other: findings go into the recording\n")
        );
    }
}

#[test]
fn findings_at_the_call_and_in_the_report_count_once() {
    let ended = run("ipc-flags", How::Bad, &["--error-exitcode", "9"]);
    assert_eq!(why(&ended), ["cupeer: exits with 9, because 1 finding is a warning or an error (--error-exitcode)"]);
    let ended = run("ipc-never-closed", How::Bad, &["--error-on", "all"]);
    assert_eq!(why(&ended), ["cupeer: exits with 1, because 1 finding is chosen by --error-on: 1 ipc-never-closed"]);
}

#[test]
fn findings_of_the_report_alone_count() {
    let ended = run("fd-leak", How::Bad, &["--error-on", "fd-leak"]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let ended = run("ranks-differ", How::Bad, &["--error-exitcode", "9"]);
    assert_eq!(ended.status.code(), Some(9), "{}", ended.stderr);
}

#[test]
fn only_findings_of_the_own_run_count_in_a_shared_recording() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let status = |how| {
        let ended = run_into(&record, "ipc-flags", how, &["--error-on", "ipc-flags"]);
        (ended.status.code(), why(&ended).join(""))
    };
    let why = "cupeer: exits with 1, because 1 finding is chosen by --error-on: 1 ipc-flags".to_owned();
    assert_eq!(status(How::Bad), (Some(1), why.clone()));
    assert_eq!(status(How::Good), (Some(0), String::new()), "the earlier run broke it");
    assert_eq!(status(How::Bad), (Some(1), why), "the earlier run's is not counted again");
    // A run within a run.
    let inner = support::install().join("bin/cupeer");
    let outer = [inner.to_str().unwrap(), "run", "--error-on", "ipc-flags", "--error-exitcode", "5", "--"];
    let ended = done(&mut scene("ipc-flags").under_within(How::Bad, &[], &folder.path().join("other"), &outer));
    assert_eq!(ended.status.code(), Some(5), "{}", ended.stderr);
}

#[test]
fn suppressed_findings_do_not_count() {
    let folder = temp_dir();
    let (record, file) = (folder.path().join("record"), folder.path().join("known.toml"));
    let first = run_into(&record, "ipc-flags", How::Bad, &["--error-exitcode", "9"]);
    assert_eq!(first.status.code(), Some(9), "{}", first.stderr);
    let suggested = support::stdout(cupeer().arg("report").arg(&record).arg("--suggest-suppressions"));
    // The program has symbols: the entry stays right where it is built anew.
    assert!(suggested.starts_with("# error cuIpcOpenMemHandle_v2: Flags must be 1"), "{suggested}");
    assert!(
        suggested.contains("\nrule = \"ipc-flags\"\nlibrary = \"open-") && !suggested.contains("+0x"),
        "{suggested}"
    );
    fs::write(&file, format!("{suggested}\n[[suppression]]\nrule = 'peer-flags'\n")).unwrap();
    let shown = file.to_str().unwrap();
    let options = ["-v", "--error-exitcode", "9", "--suppressions", shown];
    let second = run("ipc-flags", How::Bad, &options);
    assert_eq!(second.status.code(), Some(0), "{}", second.stderr);
    let lines: Vec<&str> = second.stderr.lines().collect();
    assert!(lines.contains(&&*format!("cupeer:   1 finding suppressed by {shown}")), "{lines:#?}");
    let line = suggested.lines().count() + 2;
    let unmatched = format!("cupeer: {shown}:{line}: no finding matches this suppression: rule peer-flags");
    assert!(lines.contains(&&*unmatched), "{lines:#?}");
    assert!(!second.stderr.contains("cupeer:   error ipc-flags"), "{lines:#?}");
    // The option does not change messages at the call.
    assert!(second.stderr.contains("cupeer: error ipc-flags: Flags must be 1"), "{lines:#?}");
    // Findings count by default.
    let other = run("peer-already-enabled", How::Bad, &["--error-on", "note", "--suppressions", shown]);
    assert_eq!(other.status.code(), Some(1), "{}", other.stderr);
}

#[test]
fn a_runner_of_github_gets_annotations_on_stderr() {
    let play = |name, value| {
        let folder = temp_dir();
        let record = folder.path().join("record");
        let mut command = scene(name).under(How::Bad, &["--check"], &record);
        let ended = done(command.env("GITHUB_ACTIONS", value));
        assert!(!ended.stdout.contains("::"), "the program's own: {}", ended.stdout);
        let lines: Vec<String> =
            ended.stderr.lines().filter(|line| line.starts_with("::")).map(str::to_owned).collect();
        lines
    };
    let lines = play("ipc-flags", "true");
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(
        line.starts_with("::error title=cupeer ipc-flags,file=")
            && line.contains("/tests/programs/rules/open.c,line=17::cuIpcOpenMemHandle_v2, once in process "),
        "{line}"
    );
    assert!(line.ends_with(": Flags must be 1 (is 0)"), "{line}");
    assert!(play("peer-not-enabled", "true")[0].starts_with("::warning title=cupeer peer-not-enabled,file="));
    assert_eq!(play("ipc-flags", "false"), [""; 0]);
    assert_eq!(play("peer-already-enabled", "true"), [""; 0], "a note");
}

/// A leak has totals, the frees of its owners, and both places.
#[test]
fn a_leak_has_totals_and_both_places() {
    for (name, what) in [
        ("ipc-leak", "handles opened at this place were never closed"),
        ("vmm-leak", "allocations imported at this place were never given up (unmapped and released)"),
    ] {
        let checked = scene(name).outcome_checked(How::Bad);
        let finding = checked.findings().iter().find(|finding| finding["rule"] == name).expect("the finding");
        let message = finding["message"].as_str().expect("a message");
        // One owner frees them after the other process ended, and the other at once.
        let freed = if name == "vmm-leak" { ", 16 MiB of which the owners freed" } else { "" };
        assert_eq!(message, format!("4 of 16 {what}; they keep 16 MiB of other processes' memory{freed}"));
        // In the summary after the run, too.
        assert!(checked.done.stderr.contains(&format!("4 of 16 {what}")), "{}", checked.done.stderr);
        let object = |role: &str| {
            let mut objects = finding["objects"].as_array().expect("objects").iter();
            objects.find(|object| object["role"] == role).unwrap_or_else(|| panic!("{role}: {finding:#}"))
        };
        let program = if name == "ipc-leak" { "lifetime.c" } else { "vmm.c" };
        for role in ["opening", "export"] {
            let place = object(role);
            assert!(place["stack"].to_string().contains(program), "{place:#}");
        }
        assert_ne!(object("opening")["pid"], object("export")["pid"]);
    }
}
