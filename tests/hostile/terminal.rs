//! Text of others reaches the terminal without control sequences.

use super::limited;
use crate::support::{Done, done, temp_dir, with};
use cupeer_record::writer::{self, About, Writer, call};
use cupeer_record::{Details, FaultCounts, Finding, FindingObject, Library, Outcome};
use cupeer_rules::Severity;
use cupeer_spec::function::FnId;
use cupeer_spec::record::live;
use cupeer_spec::record::slot::finding::{self, Confidence};
use std::fs;
use std::path::Path;

/// Clears the screen, in two ways; goes back; shows what follows in the other direction.
const WILD: &str = "\x1b[2J\u{9b}2J\r\x08\u{202e}";

#[track_caller]
fn assert_harmless(ended: &Done, what: &str) {
    let wild = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
    for text in [&ended.stdout, &ended.stderr] {
        assert!(!text.contains(wild), "{what}: {text:?}");
    }
    assert!([Some(0), Some(125), Some(127)].contains(&ended.status.code()), "{what}: {}", ended.stderr);
}

/// A record of which every text is wild.
fn record(directory: &Path) {
    fs::create_dir(directory).unwrap();
    let job = format!("cupeer job 1\nkey=000102030405060708090a0b0c0d0e0f\njoined={WILD}:1\n");
    fs::write(directory.join("job"), job).unwrap();
    for pid in [1000, 1001] {
        let about = About { pid, ..About::default() };
        let mut writer = Writer::create(directory, about).unwrap();
        for name in ["cupeer", "program", "host", "directory", "driver", "trace", WILD] {
            writer.text(name, &format!("{name}{WILD}")).unwrap();
        }
        writer.argument(WILD).unwrap();
        writer.variable("RANK", &format!("{}", pid - 1000)).unwrap();
        writer.variable(WILD, WILD).unwrap();
        writer.function(4000, WILD, 8).unwrap();
        writer.escaped(WILD, &format!("/{WILD}.so")).unwrap();
        writer
            .library(&Library {
                base: 0x10_0000,
                range: 0x10_0000..0x20_0000,
                since: 0,
                build_id: Vec::new(),
                path: format!("/{WILD}/lib{WILD}.so"),
            })
            .unwrap();
        let stream = writer.stream(pid).unwrap();
        let mut one = call(FnId::cuCtxEnablePeerAccess, 2_000_000, 2_000_500);
        one.caller = 0x10_0010;
        one.outcome = Outcome::Returned(101);
        *one.details = Details {
            frames: vec![0x10_0010],
            texts: vec![(0, WILD.into())],
            findings: vec![Finding {
                confidence: Confidence::Certain,
                severity: Severity::Error,
                argument: Some(0),
                rule: format!("rule{WILD}"),
                message: WILD.into(),
                hint: WILD.into(),
                objects: vec![FindingObject {
                    what: finding::FindingObject { pid, role: finding::role::EXPORT, ..Default::default() },
                    frames: vec![0x10_0010],
                }],
            }],
            ..Details::default()
        };
        writer.call(stream, &one).unwrap();
        writer.mark(stream, 3_000_000, WILD.as_bytes()).unwrap();
        writer.finish().unwrap();
    }
    let rule = |text: &str| FaultCounts {
        name: format!("plan/{WILD}"),
        text: text.into(),
        matched: 3,
        fired: 2,
        processes: 1,
    };
    let rules = [rule(WILD), rule(&format!("cuInit:hang={WILD}"))];
    writer::write_fault_counts(directory, (About::default().boot_id, 1), &rules, 1, &[]).unwrap();
    fs::write(directory.join(format!("{WILD}.cupeer")), "nothing").unwrap();
    fs::write(directory.join(format!("{}{WILD}", live::PREFIX)), "nothing").unwrap();
}

#[test]
fn no_text_of_a_record_reaches_a_terminal_as_it_is() {
    let folder = temp_dir();
    // The name of a file cannot have all, but most.
    let directory = folder.path().join(format!("record{WILD}"));
    record(&directory);
    let other = folder.path().join("other");
    record(&other);
    let run = |args: &[&str]| {
        let args: Vec<&str> =
            args.iter().map(|arg| if *arg == "DIR" { directory.to_str().unwrap() } else { arg }).collect();
        let ended = done(limited(&with(&args)).env("COLUMNS", "200"));
        assert_harmless(&ended, &args.join(" "));
        ended
    };
    for format in ["text", "json", "trace"] {
        let ended = run(&["report", "DIR", "--format", format, "--all"]);
        assert!(ended.status.success() && ended.stdout.contains("rule"), "{}{}", ended.stdout, ended.stderr);
    }
    run(&["report", "DIR", "--leaks"]);
    run(&["report", "DIR", "--diff", other.to_str().unwrap()]);
    run(&["report", "DIR", "--diff", other.to_str().unwrap(), "--format", "json"]);
    run(&["release", "DIR"]);
    run(&["release", "DIR", WILD]);
    run(&["explain", WILD]);
    run(&["run", "--sim", "--inject", WILD, "--", "true"]);
    run(&["run", "--sim", "--", WILD]);
    run(&["run", &format!("--sim={WILD}"), "--", "true"]);
    run(&["doctor", "--driver", WILD]);
    let packed = folder.path().join("packed.cupeer.tar.gz");
    run(&["pack", "DIR", "-o", packed.to_str().unwrap()]);
    for format in ["text", "json", "trace"] {
        run(&["report", packed.to_str().unwrap(), "--format", format]);
    }
}

#[test]
fn the_first_line_of_what_is_no_job_is_quoted_harmlessly() {
    let folder = temp_dir();
    fs::write(folder.path().join("job"), WILD).unwrap();
    let mut command = with(&["run", "--sim", "--record", "full", "-o"]);
    let ended = done(command.arg(folder.path()).args(["--", "true"]));
    assert_harmless(&ended, "job");
    assert!(ended.stderr.contains("it begins with"), "{}", ended.stderr);
}

/// Numbers of a damaged record are of any size.
#[test]
fn numbers_of_any_size_are_compared() {
    let folder = temp_dir();
    let directory = folder.path();
    for pid in [1000, 1001] {
        let mut writer = Writer::create(directory, About { pid, ..About::default() }).unwrap();
        writer.change_header(|header| header.lost = u64::MAX).unwrap();
        let stream = writer.stream(pid).unwrap();
        for (i, monotonic) in [1, i64::MAX as u64, 1 << 63, u64::MAX].into_iter().enumerate() {
            let at = 2_000_000 + 1000 * i as u64;
            let mut one = call(FnId::cuCtxEnablePeerAccess, at, at + 500);
            let what = finding::FindingObject {
                pid,
                monotonic,
                bytes: u64::MAX,
                started: u64::MAX,
                role: finding::role::EXPORT,
                ..Default::default()
            };
            one.details.findings = vec![Finding {
                confidence: Confidence::Certain,
                severity: Severity::Error,
                argument: None,
                rule: format!("rule-{i}"),
                message: "".into(),
                hint: "".into(),
                objects: vec![FindingObject { what, frames: vec![u64::MAX, 1] }],
            }];
            writer.call(stream, &one).unwrap();
        }
        writer.finish().unwrap();
    }
    let rule = |text: &str| FaultCounts {
        name: "plan/1".into(),
        text: text.into(),
        matched: u64::MAX,
        fired: u64::MAX,
        processes: u64::MAX,
    };
    for plan in [1, 2] {
        let rules = [rule("cuInit:hang"), rule("cuInit:delay=1ms")];
        writer::write_fault_counts(directory, (About::default().boot_id, plan), &rules, u64::MAX, &[]).unwrap();
    }
    let path = directory.to_str().unwrap();
    for args in [
        &["report", path, "--diff", path][..],
        &["report", path, "--diff", path, "--format", "json"],
        &["report", path, "--all"],
        &["report", path, "--format", "json"],
        &["report", path, "--format", "trace"],
    ] {
        let ended = done(&mut with(args));
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""), "{args:?}");
    }
}
