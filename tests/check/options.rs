//! The options of `cupeer run --check`: which findings are said, and what else is done about them.

use super::scenes::{How, scene};
use crate::support::{Done, cupeer, done, temp_dir, wait_for};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

fn run(name: &str, how: How, options: &[&str]) -> Done {
    let folder = temp_dir();
    done(&mut scene(name).under(how, options, &folder.path().join("record")))
}

/// The rules that were said on stderr, each with its severity.
fn said(done: &Done) -> Vec<&str> {
    let severities = ["error ", "warning ", "note "];
    let first = |line: &'_ str| severities.iter().any(|severity| line.starts_with(severity));
    let lines = done.stderr.lines().filter_map(|line| line.strip_prefix("cupeer: "));
    lines.filter(|line| first(line)).filter_map(|line| line.split(':').next()).collect()
}

#[test]
fn without_a_check_nothing_is_said_during_the_run_and_the_summary_has_what_the_record_shows() {
    let ended = run("ipc-flags", How::Bad, &["--check=off"]);
    let live = ended.stderr.lines().filter(|line| line.starts_with("cupeer: error "));
    assert_eq!(live.count(), 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("cupeer:   error ipc-flags: cuIpcOpenMemHandle_v2, once"), "{}", ended.stderr);
    let help = done(cupeer().args(["run", "--help"])).stdout;
    let said = "Nothing during the run; the summary and the report still list what the recording shows";
    assert!(help.split_whitespace().collect::<Vec<_>>().join(" ").contains(said), "{help}");
}

#[test]
fn findings_above_note_replace_the_status() {
    for (name, how, options, status) in [
        ("ipc-flags", How::Bad, &["--check"][..], 9),
        ("ipc-flags", How::Good, &["--check"], 0),
        // Also what is not said.
        ("peer-not-enabled", How::Bad, &["--check=errors"], 9),
        ("ipc-flags", How::Bad, &["--check", "--ignore", "ipc-flags"], 0),
        // A note.
        ("peer-already-enabled", How::Bad, &["--check=notes"], 0),
    ] {
        let ended = run(name, how, &[options, &["--error-exitcode", "9"]].concat());
        assert_eq!(ended.status.code(), Some(status), "{name} {how:?} {options:?}\n{}", ended.stderr);
        let without = run(name, how, options);
        assert_eq!(without.status.code(), Some(0), "{name} {how:?} {options:?}\n{}", without.stderr);
    }
}

#[test]
fn the_level_says_what_is_said() {
    for (name, severity, levels) in [
        ("ipc-flags", "error", ["errors", "warnings", "notes"].as_slice()),
        ("peer-not-enabled", "warning", &["warnings", "notes"]),
        ("peer-already-enabled", "note", &["notes"]),
    ] {
        for level in ["errors", "warnings", "notes"] {
            let ended = run(name, How::Bad, &[&format!("--check={level}")]);
            let expected = format!("{severity} {name}");
            let expected = if levels.contains(&level) { vec![expected.as_str()] } else { vec![] };
            assert_eq!(said(&ended), expected, "{name} {level}\n{}", ended.stderr);
        }
    }
    // Without a level: warnings, too.
    assert_eq!(said(&run("peer-not-enabled", How::Bad, &["--check"])), ["warning peer-not-enabled"]);
}

#[test]
fn rules_are_chosen_by_name_pattern_and_library() {
    for (options, is_said) in [
        (&["--ignore", "ipc-flags"][..], false),
        (&["--ignore", "ipc-*"], false),
        (&["--ignore", "peer-*"], true),
        // The program's own file is named open-KEY.
        (&["--ignore", "ipc-flags@open-*"], false),
        (&["--ignore", "ipc-flags@libnccl*"], true),
        (&["--only", "ipc-flags"], true),
        (&["--only", "peer-*"], false),
        (&["--only", "*@libnccl*"], false),
        (&["--only", "*", "--ignore", "ipc-flags"], false),
    ] {
        let ended = run("ipc-flags", How::Bad, &[&["--check"], options].concat());
        let expected: &[&str] = if is_said { &["error ipc-flags"] } else { &[] };
        assert_eq!(said(&ended), expected, "{options:?}\n{}", ended.stderr);
    }
}

#[test]
fn a_rule_ends_the_process_where_that_is_asked_for() {
    let options = ["--check=errors", "--abort-on", "peer-flags", "--error-exitcode", "9"];
    let ended = run("peer-flags", How::Bad, &options);
    assert_eq!((ended.status.signal(), said(&ended)), (Some(libc::SIGABRT), vec!["error peer-flags"]));
    assert!(!ended.stdout.contains("done"), "{}", ended.stdout);
    let others = run("peer-flags", How::Bad, &["--check", "--abort-on", "ipc-*,*@libnccl*"]);
    assert_eq!(others.status.code(), Some(0), "{}", others.stderr);
    // Findings that are not printed abort the process, too.
    let silent = run("peer-not-enabled", How::Bad, &["--check=errors", "--abort-on", "peer-not-*"]);
    assert!(silent.stderr.contains("cupeer: aborting at peer-not-enabled: "), "{}", silent.stderr);
    assert!(!silent.stdout.contains("done"), "{}", silent.stdout);
}

#[test]
fn a_rule_stops_the_process_for_a_debugger() {
    let folder = temp_dir();
    let options = ["--check", "--stop-on", "peer-flags"];
    let mut command = scene("peer-flags").under(How::Bad, &options, &folder.path().join("record"));
    let mut launcher = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(launcher.stderr.take().unwrap()).lines();
    let stopped = lines.find(|line| line.as_ref().unwrap().contains(" is stopped at peer-flags; ")).unwrap().unwrap();
    let pid = stopped.split(' ').nth(2).unwrap().to_owned();
    wait_for("the program to stop", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    });
    // SAFETY: the process is one of this test's, and stopped.
    assert_eq!(unsafe { libc::kill(pid.parse().unwrap(), libc::SIGCONT) }, 0);
    let mut printed = String::new();
    launcher.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    lines.for_each(drop);
    assert_eq!(launcher.wait().unwrap().code(), Some(0));
    assert!(printed.ends_with("\ndone\n"), "{printed}");
}
