//! How processes ended: the summary, the report, its JSON and its page say so, of the process that was started and of its
//! children.

use crate::report::html;
use crate::support::{compile_c, cupeer, done, sim_dir, temp_dir, wait_for, with};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A program that reaches the driver and ends in the way that it is asked for.
pub fn program() -> PathBuf {
    let driver = sim_dir().join("libcuda.so");
    compile_c("programs/endings.c", &["-pthread", "-Wl,--no-as-needed", driver.to_str().unwrap()])
}

/// What is said of a program that ends so.
struct Told {
    /// What the launcher said.
    summary: String,
    /// The text of the report.
    report: String,
    /// What people read of its page.
    page: String,
    /// The kinds, codes and signals of its processes, in the order of their start.
    exits: Vec<Exit>,
}

/// A kind, a code and a signal.
type Exit = (String, Option<u64>, Option<u64>);

fn report(directory: &Path) -> (String, Vec<Exit>) {
    let text = done(with(&["report"]).arg(directory)).stdout;
    let json = done(with(&["report", "--format", "json"]).arg(directory)).stdout;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let exit = |process: &Value| {
        let exit = &process["exit"];
        (exit["kind"].as_str().unwrap().to_owned(), exit["code"].as_u64(), exit["signal"].as_u64())
    };
    (text, json["processes"].as_array().unwrap().iter().map(exit).collect())
}

/// The page of a record, in whose table each process has ended as JSON has it.
#[track_caller]
fn page(record: &Path, exits: &[Exit]) -> String {
    let page = html::page(record, "endings");
    for (place, (kind, code, signal)) in exits.iter().enumerate() {
        let wanted = match (kind.as_str(), code, signal) {
            (RETURNED, Some(code), _) => format!(" exit status {code} "),
            (RETURNED, None, _) => " returned ".to_owned(),
            ("signal", _, Some(_)) => " was killed by SIG".to_owned(),
            ("died", ..) => " ended without returning ".to_owned(),
            ("executed", ..) => " became another program ".to_owned(),
            ("running", ..) => " runs ".to_owned(),
            other => panic!("{other:?}"),
        };
        let row = page.split_once(&format!("<tr id=\"p{place}\"")).expect("its row").1;
        let row = html::read(&format!("<tr{}", row.split("</tr>").next().unwrap()));
        assert!(row.contains(&wanted), "{wanted} is not in: {row}");
    }
    html::read(&page)
}

fn told(words: &[&str], status: Option<i32>) -> Told {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut command = cupeer();
    command
        .args(["run", "--sim", "--record", "full", "-o"])
        .arg(&record)
        .arg("--")
        .arg(program())
        .args(words);
    let ended = done(&mut command);
    assert_eq!(ended.status.code(), status, "{words:?}: {}", ended.stderr);
    let (report, exits) = report(&record);
    let page = page(&record, &exits);
    Told { summary: ended.stderr, report, page, exits }
}

const RETURNED: &str = "returned";
const WELL: &str = "Nothing is wrong: all calls returned, none failed, and no handles are open.";

#[test]
fn what_returns_is_told_with_its_status() {
    for (words, status) in [
        (&["return", "0"][..], 0),
        (&["return", "3"], 3),
        (&["exit", "0"], 0),
        (&["exit", "7"], 7),
        (&["exit", "256"], 0),
        (&["_exit", "0"], 0),
        (&["_exit", "5"], 5),
        (&["_Exit", "6"], 6),
        (&["quick_exit", "4"], 4),
        (&["system-call", "9"], 9),
        (&["last-thread"], 0),
        (&["vfork", "0"], 0),
        (&["exec-other"], 0),
    ] {
        let told = told(words, Some(status));
        let wanted = [(RETURNED.to_owned(), Some(status as u64), None)];
        assert_eq!(told.exits, wanted, "{words:?}");
        if status == 0 {
            assert!(told.report.contains(WELL), "{words:?}: {}", told.report);
            assert!(told.page.contains(WELL), "{words:?}: {}", told.page);
        } else {
            let wanted = format!("Problems\n- 1 process exited with an error\n  exit status {status}: ");
            assert!(told.report.contains(&wanted), "{words:?}: {}", told.report);
            let wanted = format!("Problems 1 process exited with an error exit status {status}: ");
            assert!(told.page.contains(&wanted), "{words:?}: {}", told.page);
        }
        assert!(told.summary.starts_with("cupeer: 1 process, "), "{words:?}: {}", told.summary);
    }
}

/// A text without the breaks of its lines.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_signal_is_told_first_and_by_its_name() {
    for (words, signal, name) in [
        (&["abort"][..], 6, "SIGABRT"),
        (&["signal", "11"], 11, "SIGSEGV"),
        (&["signal", "8"], 8, "SIGFPE"),
        (&["signal", "9"], 9, "SIGKILL"),
        (&["signal", "15"], 15, "SIGTERM"),
        (&["signal", "2"], 2, "SIGINT"),
    ] {
        let told = told(words, None);
        assert_eq!(told.exits, [("signal".to_owned(), None, Some(signal))], "{words:?}");
        let first = told.summary.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("cupeer: process ") && first.ends_with(&format!(" was killed by {name}")),
            "{first}"
        );
        let wrong = told.report.split_once("\nProblems\n").expect("something is wrong").1;
        assert!(wrong.starts_with("- 1 process did not return\n"), "{wrong}");
        assert!(wrong.contains(&format!("was killed by {name}; its last call was")), "{wrong}");
        assert!(told.report.contains("1 killed by a signal") && !told.report.contains("Nothing is wrong"));
        assert!(told.page.contains(&format!(" was killed by {name} after ")), "{}", told.page);
        assert!(told.page.contains("1 killed by a signal") && !told.page.contains("Nothing is wrong"));
    }
}

#[test]
fn children_are_told_of_as_far_as_they_tell_themselves() {
    for (words, exit) in [
        (&["child", "return", "0"][..], (RETURNED, Some(0))),
        (&["child", "exit", "3"], (RETURNED, Some(3))),
        (&["child", "_exit", "5"], (RETURNED, Some(5))),
        (&["child", "quick_exit", "4"], (RETURNED, None)),
        (&["child", "signal", "9"], ("died", None)),
        (&["child", "abort"], ("died", None)),
        (&["child", "system-call", "0"], ("died", None)),
        (&["child", "child", "signal", "11"], ("died", None)),
        (&["child", "child", "exit", "2"], (RETURNED, Some(2))),
    ] {
        let told = told(words, Some(0));
        assert_eq!(told.exits, [(exit.0.to_owned(), exit.1, None)], "{words:?}");
        let is_dead = exit.0 == "died";
        let first = told.summary.lines().next().unwrap_or_default();
        assert_eq!(first.ends_with(" ended without returning"), is_dead, "{words:?}: {}", told.summary);
        let is_well = matches!(exit.1, Some(0) | None) && !is_dead;
        assert_eq!(told.report.contains("Nothing is wrong"), is_well, "{words:?}: {}", told.report);
        assert_eq!(told.page.contains("Nothing is wrong"), is_well, "{words:?}: {}", told.page);
        assert_eq!(
            told.page.contains("ended without returning; its last call was"),
            is_dead,
            "{}",
            told.page
        );
        assert_eq!(
            told.report.contains("ended without returning; its last call was"),
            is_dead,
            "{}",
            told.report
        );
    }
}

/// A shell makes no call, so that it has no file of its own in the record.
#[test]
fn what_was_started_and_made_no_call_is_told_where_it_fails() {
    for (script, status, wanted) in [
        ("\"$0\" return 0; exit 3", Some(3), Some("sh returned 3 (it made no call itself)")),
        ("\"$0\" return 0; kill -9 $$", None, Some("sh was killed by SIGKILL (it made no call itself)")),
        ("\"$0\" return 0; exit 0", Some(0), None),
    ] {
        let folder = temp_dir();
        let record = folder.path().join("record");
        let mut command = cupeer();
        command.args(["run", "--sim", "-o"]).arg(&record).args(["--", "sh", "-c", script]).arg(program());
        let ended = done(&mut command);
        assert_eq!(ended.status.code(), status, "{script}: {}", ended.stderr);
        let (text, exits) = report(&record);
        assert_eq!(exits, [(RETURNED.to_owned(), Some(0), None)], "{script}");
        let text = unwrapped(&text);
        assert_eq!(text.starts_with(WELL), wanted.is_none(), "{text}");
        let wanted = wanted.map(|wanted| format!("1 launched program failed: {wanted}"));
        assert!(wanted.is_none_or(|wanted| text.starts_with(&wanted)), "{text}");
    }
}

#[test]
fn a_program_that_becomes_another_has_both() {
    let told = told(&["exec", "exit", "3"], Some(3));
    let wanted = [("executed".to_owned(), None, None), (RETURNED.to_owned(), Some(3), None)];
    assert_eq!(told.exits, wanted);
}

#[test]
fn who_lives_on_is_running_and_then_told() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut command = cupeer();
    command.args(["run", "--sim", "--record", "full", "-o"]).arg(&record).arg("--").arg(program());
    let word = folder.path().join("end");
    let ended = done(command.args(["child", "live-on"]).arg(&word));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let (text, exits) = report(&record);
    assert_eq!(exits, [("running".to_owned(), None, None)], "{text}");
    assert!(
        ended.stderr.lines().nth(1).is_some_and(|line| line.ends_with(") is still running")),
        "{}",
        ended.stderr
    );
    assert!(text.contains("Nothing is wrong so far: "), "{text}");
    assert!(page(&record, &exits).contains("Nothing is wrong so far: "), "{text}");
    fs::write(&word, "").unwrap();
    wait_for("its end", || report(&record).1 == [(RETURNED.to_owned(), Some(0), None)]);
}

#[test]
fn what_an_exporter_left_open_elsewhere_is_told_with_its_death() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let share = crate::programs::program("rules/ends_while_open.c", &["-ldl"]);
    let mut command = cupeer();
    command.args(["run", "--sim", "--record", "full", "-o"]).arg(&record).arg("--").arg(share);
    let ended = done(&mut command);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let (text, exits) = report(&record);
    assert!(exits.contains(&("died".to_owned(), None, None)), "{exits:?}");
    let text = unwrapped(&text);
    assert!(text.contains("ended without returning; its last call was cuIpcGetMemHandle at"), "{text}");
    assert!(text.contains("; never closed elsewhere: ipc:"), "{text}");
}

#[test]
fn a_run_that_joins_a_record_sums_up_its_own_processes() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let run = |words: &[&str]| {
        let mut command = cupeer();
        command.current_dir(folder.path()).args(["run", "--sim", "-o", "record", "--"]).arg(program());
        done(command.args(words)).stderr
    };
    let first = run(&["return", "0"]);
    assert_eq!(first, "cupeer: 1 process, 1 call, 0 failed; 'cupeer report record' shows them\n");
    let second = run(&["child", "abort"]);
    let (death, counts) = second.split_once('\n').unwrap();
    assert!(death.ends_with(" ended without returning"), "{second}");
    let wanted = "cupeer: 1 process, 1 call, 0 failed in this run; 'cupeer report record' shows them and 1 process of \
                  other runs\n";
    assert_eq!(counts, wanted);
    assert_eq!(report(&record).1.len(), 2);
}

/// Its processes say to the inner one that they reached the driver.
#[test]
fn a_run_in_a_run_is_not_said_to_have_reached_no_driver() {
    let folder = temp_dir();
    let inner = cupeer().get_program().to_owned();
    // Long enough to be looked at from outside.
    let script = "\"$0\" run -- \"$1\" child live-on end; sleep 2.5; : >end";
    let mut command = cupeer();
    command.current_dir(folder.path()).args(["run", "--sim", "-o", "record", "--", "sh", "-c", script]);
    let said = done(command.arg(inner).arg(program())).stderr;
    assert_eq!(said, "cupeer: 1 process, 2 calls, 0 failed; 'cupeer report record' shows them\n");
}
