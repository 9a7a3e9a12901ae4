//! Output of `cupeer run --on-hang`, and the hangs that it keeps for the report.

use super::{Waits, line, recorded, schema, waits_c};
use crate::support::{cupeer, names, refused, stdout, temp_dir, wait_for, with};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The files that were kept of hangs, in their order.
pub fn kept(record: &Path) -> Vec<PathBuf> {
    let all = if record.exists() { names(record) } else { Vec::new() };
    all.into_iter().filter(|name| name.starts_with("hang-")).map(|name| record.join(name)).collect()
}

/// The last of so many, when it is whole.
pub fn last(record: &Path, count: usize) -> Value {
    let mut document = Value::Null;
    wait_for("what is kept of a hang", || {
        let files = kept(record);
        let text = files.last().filter(|_| files.len() >= count).and_then(|path| fs::read_to_string(path).ok());
        document = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        document != Value::Null
    });
    document
}

#[test]
fn a_hang_is_printed_kept_and_reported() {
    let folder = temp_dir();
    let mut command = recorded(folder.path(), &["--on-hang", "300ms"], "recv");
    command.stderr(Stdio::piped());
    let mut waits = Waits::start(command, 2);
    let record = folder.path().join("r");
    let at = format!("rank 0 waits in read at {}", line("rank 0 waits"));
    let waiting = format!("; rank 1 waits for it in recv at {} in receive", line("recv"));
    // On a slow machine, there may be one before both ranks wait.
    let mut count = 1;
    let document = loop {
        let document = last(&record, count);
        let answer = document["answer"].as_str().unwrap();
        if answer.starts_with(&at) && answer.ends_with(&waiting) {
            break document;
        }
        count += 1;
    };
    assert_eq!(schema(&document), Vec::<String>::new());
    assert!(document["without_progress_ns"].as_u64().unwrap() >= 300_000_000);
    let answer = document["answer"].as_str().unwrap().to_owned();
    assert!(answer.contains("; it exported ipc:") && answer.contains(" and nobody opened it; "), "{answer}");
    let mut stderr = BufReader::new(waits.child.stderr.take().unwrap());
    let mut printed = String::new();
    let first = format!("cupeer: {answer}\nNo process of the job made progress for ");
    while !printed.split_once(&first).is_some_and(|(_, rest)| rest.contains("cupeer: all stacks are kept in ")) {
        assert_ne!(stderr.read_line(&mut printed).unwrap(), 0, "{printed}");
    }
    waits.kill();

    let report = |words: &[&str]| stdout(with(&["report", "r"]).args(words).current_dir(folder.path()));
    // The ranks end after the launcher.
    let mut text = String::new();
    wait_for("a job that hung", || {
        text = report(&[]);
        text.starts_with("the job hung, without progress ")
    });
    assert!(text.contains("      stacks in hang-"), "{text}");
    // The page begins with it.
    let page = report(&["--format", "html"]);
    let (_, head) = page.split_once("<section id=\"digest\"").unwrap();
    let (_, lead) = head.split_once("<article class=\"card lead error\"><p class=\"kicker\">").unwrap();
    let lead = lead.split_once("</article>").unwrap().0;
    assert!(lead.starts_with("<span class=\"severity\">hung</span>"), "{lead}");
    assert!(lead.contains(" in recv at ") && lead.contains("Next"), "{lead}");
    let report: Value = serde_json::from_str(&report(&["--format", "json"])).unwrap();
    let hang = report["record"]["hangs"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(hang["answer"], answer);
    assert!(kept(&record).iter().any(|path| path.ends_with(hang["file"].as_str().unwrap())));
}

#[test]
fn each_hang_is_told_once() {
    let folder = temp_dir();
    let mut command = cupeer();
    command.args(["run", "--on-hang", "1s", "--error-exitcode", "9", "-o", "r", "--sim", "--"]);
    command.arg(waits_c()).arg("steps");
    let mut waits = Waits::start(
        {
            command.current_dir(folder.path()).stderr(Stdio::piped());
            command
        },
        1,
    );
    let record = folder.path().join("r");
    let hang = |count: usize| {
        let document = last(&record, count);
        assert!(document["answer"].as_str().unwrap().contains("waits in read at waits.c:"), "{document:#}");
    };
    hang(1);
    for number in 2..5 {
        waits.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        waits.ready();
        hang(number);
    }
    // The program does something before each wait, and no wait is reported twice.
    waits.end();
    let mut stderr = String::new();
    waits.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(
        (kept(&record).len(), stderr.matches("No process of the job made progress").count()),
        (4, 4),
        "{stderr}"
    );
    // No process has recorded a call, and the report has them all the same. All are over, so none is a problem.
    assert_eq!(stderr.matches("cupeer: the job makes progress again, after ").count(), 4, "{stderr}");
    assert_eq!(waits.child.wait().unwrap().code(), Some(0), "{stderr}");
    let report = |format| stdout(with(&["report", "r", "--format", format]).current_dir(folder.path()));
    let text = report("text");
    assert_eq!(text.matches("\nstalled    for ").count(), 4, "{text}");
    assert!(!text.contains("the job h") && !report("junit").contains("job-hung"), "{text}");
}

#[test]
fn a_time_and_a_status_are_asked_for_in_their_form() {
    let time = "a time is a number with ms, s, m or h, at least 100ms, such as 60s";
    let status = |status: &str| format!("'{status}' is not an exit status from 1 to 255, such as 60s:exit=3");
    let action = |action: &str| format!("'{action}' is not an action; the only action is exit=N, such as 60s:exit=3");
    for (value, why) in [
        ("60", time.to_owned()),
        (":exit=3", time.to_owned()),
        ("60s:exit=0", status("0")),
        ("60s:exit=300", status("300")),
        ("60s:exit=", status("")),
        ("60s:exit=3:exit=4", status("3:exit=4")),
        ("60s:exit", action("exit")),
        ("60s:quit", action("quit")),
        ("60s:", action("")),
    ] {
        let sentence = format!("invalid value '{value}' for '--on-hang <TIME[:exit=N]>': {why}; see --help");
        refused(&["run", "--on-hang", value, "--", "true"], &sentence);
    }
}

/// Runs a program of C under `--on-hang`.
pub fn on_hang(folder: &Path, options: &[&str], words: &[&str]) -> Waits {
    let mut command = cupeer();
    command.args(["run", "--on-hang", "500ms", "-o", "r", "--sim"]).args(options);
    command.arg("--").args(words).current_dir(folder).stderr(Stdio::piped());
    Waits::start(command, 1)
}

/// Threads that poll, ask the same again, and processes that come and go: none of that is progress.
#[test]
fn polling_is_no_progress() {
    let program = waits_c().display().to_string();
    for (what, options, answer) in [
        ("polls", &[][..], "waits in "),
        ("asks", &[], "waits in read at waits.c:"),
        ("held", &["--inject", "cuDeviceCanAccessPeer:hang"], "is in cuDeviceCanAccessPeer"),
        ("loops", &[], ""),
        // Between two naps, it runs for a moment.
        ("naps", &[], " at waits.c:"),
        ("oversleeps", &[], "sleeps at waits.c:"),
    ] {
        let folder = temp_dir();
        let mut waits = on_hang(folder.path(), options, &[&program, what]);
        let document = last(&folder.path().join("r"), 1);
        assert!(document["answer"].as_str().unwrap().contains(answer), "{what}: {document:#}");
        // Its age alone makes a call a hang, a moment before the time without progress does.
        let without = document["without_progress_ns"].as_u64();
        assert!(without.map_or(what == "held", |time| time >= 500_000_000), "{what}: {document:#}");
        // Nobody waits for the end of a sleep that lasts for days, as for one of some seconds.
        assert!(what != "oversleeps" || without < Some(5_000_000_000), "{document:#}");
        if ["held", "oversleeps"].contains(&what) {
            waits.kill();
        } else {
            waits.end();
        }
    }
}

/// A call that does not return is told of, whatever others do meanwhile.
#[test]
fn a_call_in_flight_is_told_while_others_compute() {
    let program = waits_c().display().to_string();
    let folder = temp_dir();
    // A command in the background has no stdin of its own.
    let words = ["bash", "-c", "exec 3<&0; \"$0\" spins <&3 & \"$0\" held", &program];
    let mut waits = on_hang(folder.path(), &["--inject", "cuDeviceCanAccessPeer:hang"], &words);
    let document = last(&folder.path().join("r"), 1);
    assert!(document["answer"].as_str().unwrap().contains("is in cuDeviceCanAccessPeer"), "{document:#}");
    waits.kill();
}

#[test]
fn programs_that_go_on_do_not_hang() {
    let program = waits_c().display().to_string();
    for what in ["computes", "sleeps", "calls", "stores"] {
        // Temporary files may be in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut waits = on_hang(folder.path(), &[], &[&program, what]);
        assert_eq!(waits.end(), "done\n", "{what}");
        let kept = kept(&folder.path().join("r"));
        assert!(kept.is_empty(), "{what}: {}", fs::read_to_string(&kept[0]).unwrap());
    }
}

#[test]
fn a_program_without_a_driver_does_not_hang() {
    let folder = temp_dir();
    let mut waits = on_hang(folder.path(), &[], &["sh", "-c", "echo ready; sleep 2; echo done"]);
    assert_eq!(waits.end(), "done\n");
    let mut stderr = String::new();
    waits.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(!stderr.contains("made progress"), "{stderr}");
}
