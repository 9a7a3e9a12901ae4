//! A hang is an error everywhere: while the job hangs, and after it was killed. One from which the job resumed is none.

use super::on_hang::{last, on_hang};
use super::{Waits, line, recorded, waits_c};
use crate::support::{cupeer, done, stdout, temp_dir, wait_for, with};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

/// Returns the report in a form.
fn report(folder: &Path, format: &str) -> String {
    stdout(with(&["report", "r", "--format", format]).current_dir(folder))
}

fn parsed(folder: &Path, format: &str) -> Value {
    serde_json::from_str(&report(folder, format)).unwrap()
}

/// Waits until a report begins so.
fn first_line(folder: &Path, begin: &str) -> String {
    let mut text = String::new();
    wait_for(begin, || {
        let ended = done(with(&["report", "r"]).current_dir(folder));
        text = ended.stdout;
        text.starts_with(begin)
    });
    text
}

/// Checks all forms of a report on a job that hangs, or hung.
fn is_an_error(folder: &Path, hangs: &str) {
    let begin = format!("the job {hangs}, without progress ");
    let text = first_line(folder, &begin);
    assert!(text.contains("\n- 1 hang without later progress\n"), "{text}");
    assert!(!text.contains("Nothing is wrong") && !text.contains("no handles are open"), "{text}");
    let html = report(folder, "html");
    let card =
        "<article class=\"card lead error\"><p class=\"kicker\"><span class=\"severity\">hung</span> no progress ";
    let markup = html.split("<script").next().unwrap();
    assert!(markup.contains(card) && !markup.contains("no rule broken"), "{markup}");
    let json = parsed(folder, "json");
    let lasting = json["record"]["hangs"].as_array().unwrap().iter().filter(|hang| hang["resumed_ns"].is_null());
    assert_eq!(lasting.count(), 1, "{:#}", json["record"]);
    let sarif = parsed(folder, "sarif");
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&"job-hung".into(), &"error".into()));
    assert!(result["message"]["text"].as_str().unwrap().starts_with(&begin), "{result:#}");
    let junit = report(folder, "junit");
    let case = format!("name=\"job-hung\"><failure type=\"job-hung\" message=\"{begin}");
    assert!(junit.contains(&case), "{junit}");
    let annotated = stdout(with(&["report", "r"]).env("GITHUB_ACTIONS", "true").current_dir(folder));
    assert!(annotated.contains(&format!("::error title=cupeer job-hung::{begin}")), "{annotated}");
}

#[test]
fn a_hang_is_the_first_error_of_all_forms_while_it_lasts_and_after_the_job_was_killed() {
    let folder = temp_dir();
    let mut command = recorded(folder.path(), &["--on-hang", "500ms"], "recv");
    command.stderr(Stdio::piped());
    let mut waits = Waits::start(command, 2);
    is_an_error(folder.path(), "hangs");
    let more = first_line(folder.path(), "the job hangs");
    assert!(more.contains("\nmore: cupeer why r\n"), "{more}");

    let top = |format| stdout(with(&["top", "r", "--once", "--format", format]).current_dir(folder.path()));
    let text = top("text");
    assert!(text.contains("the job has hung for ") && text.contains(" hung: waits in "), "{text}");
    assert!(!text.lines().any(|line| line.ends_with(" runs")), "{text}");
    let document: Value = serde_json::from_str(&top("json")).unwrap();
    let at = format!("waits in read at {} in rank", line("rank 0 waits"));
    let states = document["processes"].as_array().unwrap().iter().map(|process| process["hung"].clone());
    assert!(states.clone().all(|hung| hung.is_string()) && states.clone().any(|hung| hung == *at), "{document:#}");
    assert!(document["jobs"][0]["hung_since_ns"].as_u64() > Some(0), "{document:#}");
    assert!(top("prometheus").contains("\ncupeer_job_hung{record=\"r\"} 1\n"), "{}", top("prometheus"));

    // SAFETY: the process is a child that has not been waited for.
    unsafe { libc::kill(waits.pid() as i32, libc::SIGTERM) };
    let mut stderr = String::new();
    waits.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    waits.child.wait().unwrap();
    assert!(stderr.contains("\ncupeer: the job hung, without progress "), "{stderr}");
    is_an_error(folder.path(), "hung");
    let packed = folder.path().join("r.tar.gz");
    stdout(with(&["pack", "r", "-o"]).arg(&packed).current_dir(folder.path()));
    let text = stdout(with(&["report"]).arg(&packed));
    assert!(text.starts_with("the job hung, without progress ") && !text.contains("stacks in"), "{text}");
}

#[test]
fn a_hang_that_others_ended_is_an_error_of_the_exit_status() {
    let program = waits_c().display().to_string();
    for (option, value, status) in
        [("--error-exitcode", "9", 9), ("--error-on", "error", 1), ("--error-on", "ipc-*", 0)]
    {
        let folder = temp_dir();
        // A command in the background has no stdin of its own.
        let words = ["sh", "-c", "\"$0\" held & wait; exit 0", &program];
        let options = [option, value, "--inject", "cuDeviceCanAccessPeer:hang"];
        let mut waits = on_hang(folder.path(), &options, &words);
        let document = last(&folder.path().join("r"), 1);
        let processes = document["processes"].as_array().unwrap();
        let held = processes.iter().find(|process| process["proc"].is_string()).expect("the one that records");
        // SAFETY: the process waits for what never comes.
        unsafe { libc::kill(held["pid"].as_i64().unwrap() as i32, libc::SIGKILL) };
        let mut stderr = String::new();
        waits.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(waits.child.wait().unwrap().code(), Some(status), "{stderr}");
        let why = format!("cupeer: exits with {status}, because the job hung ({option})");
        assert_eq!(stderr.contains(&why), status > 0, "{stderr}");
        first_line(folder.path(), "the job hung, ");
        let chosen = if option == "--error-on" { value } else { "all" };
        let report = done(with(&["report", "r", "--error-on", chosen]).current_dir(folder.path()));
        assert_eq!(report.status.code(), Some(i32::from(status > 0)), "{}", report.stdout);
    }
}

#[test]
fn a_call_that_returns_after_all_is_no_hang() {
    let folder = temp_dir();
    let program = waits_c().display().to_string();
    let options = ["--error-exitcode", "9", "--inject", "cuDeviceCanAccessPeer:hang"];
    let mut waits = on_hang(folder.path(), &options, &[&program, "held"]);
    last(&folder.path().join("r"), 1);
    first_line(folder.path(), "the job hangs, ");
    stdout(with(&["release", "r", "hang"]).current_dir(folder.path()));
    wait_for("progress", || parsed(folder.path(), "json")["record"]["hangs"][0]["resumed_ns"].is_u64());
    assert!(report(folder.path(), "text").contains("\nstalled    for "));
    waits.end();
}

/// Runs a program that takes no notice of SIGTERM.
fn stubborn(options: &[&str]) -> (tempfile::TempDir, crate::support::Done) {
    let folder = temp_dir();
    let mut command = cupeer();
    command.args(["run", "--on-hang", "500ms:exit=3", "--sim"]).args(options);
    command.arg("--").arg(waits_c()).arg("stubborn").current_dir(folder.path());
    let ended = done(&mut command);
    (folder, ended)
}

#[test]
fn a_job_that_hangs_is_ended_even_if_it_ignores_that() {
    let (folder, ended) = stubborn(&["--error-exitcode", "9", "-o", "r"]);
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("cupeer: exits with 3, because the job hung (--on-hang)"), "{}", ended.stderr);
    let document = last(&folder.path().join("r"), 1);
    let began = document["ended_ns"].as_u64().unwrap();
    assert!(began >= document["time_ns"].as_u64().unwrap(), "{document:#}");
    let processes = document["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 2, "{document:#}");
    for process in processes {
        let path = format!("/proc/{}/exe", process["pid"]);
        let exe = fs::read_link(path).unwrap_or_default();
        assert!(!exe.ends_with(waits_c().file_name().unwrap()), "{process:#}");
    }
    let text = first_line(folder.path(), "the job hung, without progress ");
    // Nothing was recorded, so times have no begin.
    assert!(text.replace("\n    ", " ").contains(", and cupeer ended it: process "), "{text}");
}

#[test]
fn a_job_that_hangs_is_ended_without_a_recording() {
    let (_, ended) = stubborn(&["--record", "off"]);
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("No process of the job made progress for "), "{}", ended.stderr);
}
