//! `cupeer run` and `cupeer env` with a record: which directory it is, and who takes part.

use crate::programs::{driver, linked, mark_of, open_job, recorded};
use crate::support::{self, Done, cupeer, done, mode, names, temp_dir, wait_for};
use cupeer_spec::env;
use cupeer_spec::record::live::kind;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `cupeer run` in a directory, with the fake driver, and as it is where nobody has switched the record off.
fn run(at: &Path, options: &[&str]) -> Command {
    let mut command = cupeer();
    command.arg("run").args(options).current_dir(at).env_remove(env::RECORD);
    command.env("LD_LIBRARY_PATH", driver()).env("XDG_STATE_HOME", at.join("state"));
    command
}

/// A program that opens what another exported.
fn shared() -> PathBuf {
    linked("shared.c", &[])
}

#[track_caller]
fn ends_well(command: &mut Command) -> Done {
    let done = done(command);
    assert!(done.status.success(), "{command:?}: {}", done.stderr);
    done
}

#[test]
fn programs_without_the_driver_leave_no_directory() {
    let folder = temp_dir();
    for program in [&["true"][..], &["sh", "-c", "true & wait"]] {
        ends_well(run(folder.path(), &[]).args(program));
        ends_well(run(folder.path(), &["-o", "named"]).args(program));
        assert_eq!(names(folder.path()), ["state"]);
    }
    // Nor one that cannot be started.
    assert_eq!(done(run(folder.path(), &[]).arg("./nowhere")).status.code(), Some(127));
    let (here, home) = (names(folder.path()), names(&folder.path().join("state/cupeer")));
    assert!(here == ["state"] && home.iter().all(|name| name.starts_with('.')), "{here:?} {home:?}");
}

#[test]
fn the_record_can_be_switched_off() {
    let folder = temp_dir();
    ends_well(run(folder.path(), &["--record", "off"]).arg(shared()).arg("open:5"));
    ends_well(run(folder.path(), &[]).arg(shared()).arg("open:5").env(env::RECORD, "off"));
    assert_eq!(names(folder.path()), [""; 0]);
    // A named directory is created in any case.
    ends_well(run(folder.path(), &["-o", "here"]).arg(shared()).arg("open:5").env(env::RECORD, "off"));
    assert_eq!(names(folder.path()), ["here"]);
}

#[test]
fn impossible_options_are_refused_before_the_program_starts() {
    let folder = temp_dir();
    fs::create_dir(folder.path().join("foreign")).unwrap();
    fs::write(folder.path().join("foreign/thesis.tex"), "").unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for (options, says) in [
        (&["--record", "ring:1K"][..], "at least"),
        (&["--record", "ring:x"], "ring"),
        (&["--record", "some"], "full"),
        (&["--record", "off", "-o", "x"], "contradict"),
        (&["-o", "foreign"], "not a recording's"),
        (&["-o", "file"], "file"),
        (&["-o", "file/x"], "file/x"),
        (&["-o", "/proc/x"], "/proc/x"),
        (&["-o", "%x"], "must be followed by"),
        (&["-o", "%q{CUPEER_NOT_SET}"], "CUPEER_NOT_SET"),
        (&["-o", ""], "value is required"),
        (&["--share", "world"], "group"),
    ] {
        let refused = done(run(folder.path(), options).args(["touch", "started"]));
        let code = refused.status.code();
        assert!(
            matches!(code, Some(2 | 125)) && refused.stderr.contains(says),
            "{options:?}: {code:?} {}",
            refused.stderr
        );
    }
    assert_eq!(names(folder.path()), ["file", "foreign"]);
}

#[test]
fn names_are_filled_in() {
    let folder = temp_dir();
    for (pattern, wanted) in [("r-%q{WHO}", "r-me"), ("100%%", "100%")] {
        ends_well(run(folder.path(), &["-o", pattern]).arg(shared()).arg("open:5").env("WHO", "me"));
        assert_eq!(open_job(&folder.path().join(wanted)).processes.len(), 1, "{pattern}");
    }
    ends_well(run(folder.path(), &["-o", "%h.%p"]).arg(shared()).arg("open:5"));
    assert_eq!(names(folder.path()).len(), 3);
}

#[test]
fn runs_that_name_one_directory_are_one_job() {
    let folder = temp_dir();
    for command in ["export:5", "open:5", "peer:6"] {
        ends_well(run(folder.path(), &["-o", "job"]).arg(shared()).arg(command));
    }
    let record = folder.path().join("job");
    let job = open_job(&record);
    assert_eq!(job.processes.len(), 3);
    assert!(job.processes.iter().all(|process| process.header.key_check == job.processes[0].header.key_check));
    let text = fs::read_to_string(record.join("job")).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("joined=")).count(), 2, "{text}");
    // A job stays also where a later run adds nothing.
    ends_well(run(folder.path(), &["-o", "job"]).arg("true"));
    assert_eq!(open_job(&record).processes.len(), 3);
}

/// The first run made the directory, records nothing, and ends first: the other one still needs the key and its own line.
#[test]
fn a_run_without_a_record_leaves_the_directory_to_those_that_joined() {
    let folder = temp_dir();
    let at = |name: &str| folder.path().join(name);
    let spawn = |line: &str| {
        let mut command = run(folder.path(), &["-o", "job"]);
        command.args(["sh", "-c", line, "sh"]).arg(shared()).spawn().unwrap()
    };
    let mut first = spawn("touch begun; until [ -e go ]; do sleep 0.01; done");
    wait_for("the first run", || at("begun").exists());
    let mut second = spawn("touch joined; until [ -e ended ]; do sleep 0.01; done; exec \"$1\" open:5");
    wait_for("the second run", || at("joined").exists());
    fs::write(at("go"), "").unwrap();
    assert!(first.wait().unwrap().success());
    let text = fs::read_to_string(at("job/job")).expect("the job's file");
    assert!(text.contains("joined="), "{text}");
    fs::write(at("ended"), "").unwrap();
    assert!(second.wait().unwrap().success());
    assert_eq!(open_job(&at("job")).processes.len(), 1);
}

#[test]
fn the_group_may_take_part() {
    let folder = temp_dir();
    let mut shell = run(folder.path(), &["-o", "ours", "--share", "group"]);
    ends_well(shell.args(["sh", "-c", "umask 077; exec \"$@\"", "sh"]).arg(shared()).arg("open:5"));
    let ours = folder.path().join("ours");
    assert_eq!(mode(&ours), 0o2770);
    for name in names(&ours) {
        assert_eq!(mode(&ours.join(&name)), 0o660, "{name}");
    }
}

/// "The settings of `cupeer env` make the same job."
#[test]
fn settings_for_a_shell_make_the_same_job() {
    let folder = temp_dir();
    let text = support::stdout(
        cupeer().args(["env", "-o", "job", "--format", "sh"]).current_dir(folder.path()).env_remove(env::RECORD),
    );
    for mark in [5, 6] {
        let mut shell = support::plain("sh");
        let line = format!("{text}\nexec {} open:{mark}", shared().display());
        ends_well(shell.arg("-c").arg(line).current_dir("/").env("LD_LIBRARY_PATH", driver()));
    }
    ends_well(run(folder.path(), &["-o", "job"]).arg(shared()).arg("open:7"));
    let job = open_job(&folder.path().join("job"));
    let mut marks: Vec<_> = job.processes.iter().flat_map(recorded).filter_map(|call| mark_of(&call)).collect();
    marks.sort();
    assert_eq!(marks, [5, 6, 7]);
    assert!(job.processes.iter().all(|process| process.header.key_check == job.processes[0].header.key_check));
}

/// Handles of one job have the same fingerprint in all its processes, in the log as in the record.
#[test]
fn fingerprints_agree_between_processes_and_with_the_log() {
    let folder = temp_dir();
    let log = folder.path().join("log");
    for command in ["export:5", "open:5"] {
        let options = ["-o", "job", "--check=off", "--log", "json", "--log-file", log.to_str().unwrap()];
        ends_well(run(folder.path(), &options).arg(shared()).arg(command));
    }
    let job = open_job(&folder.path().join("job"));
    let of = |kind: u32| job.tables[0].entries.iter().find(|entry| entry.kind == kind).unwrap().fingerprint;
    assert_eq!(of(kind::EXPORTED_MEMORY), of(kind::OPENED_MEMORY));
    let text = fs::read_to_string(&log).unwrap();
    let fingerprint = format!("{:016x}", of(kind::OPENED_MEMORY));
    assert_eq!(text.lines().count(), 2);
    assert!(text.lines().all(|line| line.contains(&fingerprint)), "{fingerprint}: {text}");
}
