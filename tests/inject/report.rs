//! Reports on fault plans after real runs: the lines at the end, the status, the report, and the end of a hang.

use super::client;
use crate::support::{assert_lines, cupeer, done, refused, temp_dir, wait_for, with};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Fails the first opening of each process, and every closing from the third on.
const PLAN: &str = "cuIpcOpenMemHandle*:when=1:error=MAP_FAILED;cuIpcCloseMemHandle:when=3+:error=MAP_FAILED:force";

/// The command that runs the program in a directory of its own, on the simulated driver.
fn run(folder: &Path, options: &[&str], arguments: &[&str]) -> Command {
    let mut command = cupeer();
    command.current_dir(folder).args(["run", "--sim"]).args(options).arg("--").arg(client::program());
    command.args(arguments);
    command
}

/// The lines about faults that were said at the end.
fn about_faults(stderr: &str) -> Vec<&str> {
    let lines = stderr.lines().filter_map(|line| line.strip_prefix("cupeer: "));
    lines
        .filter(|line| {
            ["fault ", "nothing was denied", "deny-peer", "and "].iter().any(|begin| line.starts_with(begin))
        })
        .collect()
}

#[track_caller]
fn report(folder: &Path) -> Value {
    let done = done(with(&["report", "r", "--format", "json"]).current_dir(folder));
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {}", done.stderr))
}

#[test]
fn a_run_ends_with_what_each_rule_did() {
    let folder = temp_dir();
    let plan = format!("{PLAN};cuMemFree*:delay=1ms");
    let ended = done(&mut run(folder.path(), &["-o", "r", "--inject", &plan], &["turns", "2", "1", "goox"]));
    assert_eq!(ended.stdout, "0.0: 0 205 0 0\n1.0: 0 205 0 0\n");
    let expected = [
        "fault inject/3 was never reached: no call matched cuMemFree*:delay=1ms",
        "fault inject/2 (cuIpcCloseMemHandle:when=3+:error=MAP_FAILED:force): matched 2, never fired (when=3+, counted in each process)",
        "fault inject/1 (cuIpcOpenMemHandle*:when=1:error=MAP_FAILED): matched 4, fired 2",
    ];
    assert_eq!(about_faults(&ended.stderr), expected, "{}", ended.stderr);
    assert!(ended.stderr.contains("cuIpcOpenMemHandle_v2, 4 calls: 2 MAP_FAILED, all injected"), "{}", ended.stderr);
    let report = report(folder.path());
    let counts: Vec<_> =
        report["faults"].as_array().unwrap().iter().map(|row| (&row["matched"], &row["fired"])).collect();
    assert_eq!(counts, [(&4.into(), &2.into()), (&2.into(), &0.into()), (&0.into(), &0.into())]);
    let failures = report["failures"].as_array().unwrap();
    assert!(failures.len() == 2 && failures.iter().all(|row| row["injected_by"] == "inject/1"), "{failures:#?}");
    assert_eq!(report["findings"], Value::Array(Vec::new()));
}

#[test]
fn without_a_record_the_rules_are_counted_as_well() {
    let folder = temp_dir();
    let options = ["--record", "off", "--inject", PLAN];
    let mut command = run(folder.path(), &options, &["turns", "2", "1", "goox"]);
    let temporary = temp_dir();
    let ended = done(command.env("TMPDIR", temporary.path()));
    let lines = about_faults(&ended.stderr);
    assert_eq!(lines.len(), 2, "{}", ended.stderr);
    assert!(lines[1].ends_with("matched 4, fired 2"), "{lines:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is recorded");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "and nothing is left behind");
    // While it runs, nobody else can look into it.
    let mode = "stat -c %a \"$CUPEER_FAULTS\"";
    let mut command = cupeer();
    command.args(["run", "--record", "off", "--inject", PLAN, "sh", "-c", mode]);
    assert_eq!(done(command.env("TMPDIR", temporary.path())).stdout, "700\n");
}

#[test]
fn a_rule_that_did_nothing_can_decide_the_status() {
    let folder = temp_dir();
    let status = |plan: &str, more: &[&str]| {
        let options = [&["--record", "off", "--unused-exitcode", "9", "--inject", plan], more].concat();
        let ended = done(&mut run(folder.path(), &options, &["turns", "1", "1", "goox"]));
        let said = ended.stderr.matches("cupeer: exits with 9, because fault inject/").count();
        assert_eq!(said, usize::from(ended.status.code() == Some(9)), "{}", ended.stderr);
        ended.status.code().unwrap()
    };
    assert_eq!(status("cuIpcOpenMemHandle*:when=1:error=MAP_FAILED", &[]), 0);
    assert_eq!(status(PLAN, &[]), 9, "one of them never fired");
    assert_eq!(status("cuMemFree*:delay=1ms", &[]), 9);
    assert_eq!(status("cuIpcOpenMemHandle*:when=1:error=MAP_FAILED", &["--dry-run"]), 0, "it would have");
    assert_eq!(status("cuIpcOpenMemHandle*:when=7:error=MAP_FAILED", &["--dry-run"]), 9);
    // If no process reached the driver, no rule was reached.
    let ended = done(&mut with(&["run", "--record", "off", "--unused-exitcode", "9", "--inject", PLAN, "true"]));
    assert_eq!(ended.status.code(), Some(9));
    assert_eq!(about_faults(&ended.stderr).len(), 2, "{}", ended.stderr);
    // Also where a directory was there before.
    fs::create_dir(folder.path().join("r")).unwrap();
    let options = ["-o", "r", "--unused-exitcode", "5", "--inject", "cuMemFree*:delay=1ms"];
    let ended = done(&mut run(folder.path(), &options, &["turns", "1", "1", "gox"]));
    assert_eq!(ended.status.code(), Some(5));
    assert_lines(
        &ended.stderr,
        "cupeer: 3 processes, 6 recorded calls, 0 failed; 'cupeer report r' shows them\n\
         cupeer: exits with 5, because fault inject/1 was never reached (--unused-exitcode)\n",
    );
    // A signal stays one.
    let kill = ["sh", "-c", "kill -TERM $$"];
    let ended =
        done(&mut with(&[&["run", "--record", "off", "--unused-exitcode", "9", "--inject", PLAN], &kill[..]].concat()));
    assert_eq!(ended.status.code(), None);
    assert!(!ended.stderr.contains("ends with"), "{}", ended.stderr);
    refused(
        &["run", "--record", "off", "--unused-exitcode", "9", "true"],
        "--unused-exitcode is for fault plans, but there is none; add --inject or --deny-peer",
    );
    refused(
        &["run", "--exec", "--unused-exitcode", "9", "true"],
        "the argument '--exec' cannot be used with '--unused-exitcode <N>'; see --help",
    );
}

#[test]
fn a_run_without_fault_plans_has_no_place_to_count() {
    let folder = temp_dir();
    let mut command = with(&["run", "--record", "off", "sh", "-c", "echo \"[$CUPEER_FAULTS]\""]);
    let ended = done(command.current_dir(folder.path()).env("TMPDIR", folder.path()));
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("[]\n", ""));
}

#[test]
fn a_dry_run_says_what_would_have_been() {
    let folder = temp_dir();
    let options = ["-o", "r", "--dry-run", "--inject", "cuIpcCloseMemHandle:exit=3"];
    let ended = done(&mut run(folder.path(), &options, &["turns", "1", "1", "gox"]));
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "0.0: 0 0 0\n"));
    assert_eq!(
        about_faults(&ended.stderr),
        ["fault inject/1 (cuIpcCloseMemHandle:exit=3): matched 1, would have fired 1"]
    );
    assert_eq!(report(folder.path())["faults"][0]["dry_run"], true);
}

#[test]
fn a_plan_and_the_report_see_the_same_rank() {
    let folder = temp_dir();
    let options = ["-o", "r", "--inject", "cuDeviceCanAccessPeer:rank=2:error=INVALID_DEVICE"];
    let mut command = run(folder.path(), &options, &["turns", "1", "1", "c"]);
    command.env("RANK", "worker").env("OMPI_COMM_WORLD_RANK", "2");
    assert_lines(&done(&mut command).stdout, "0.0: 101\n");
    let report = report(folder.path());
    assert!(report["processes"].as_array().unwrap().iter().all(|process| process["rank"] == 2), "{report:#}");
}

#[test]
fn held_calls_are_listed_and_released() {
    let folder = temp_dir();
    let options = ["-o", "r", "--inject", "cuIpcCloseMemHandle:hang=gate"];
    let mut command = run(folder.path(), &options, &["turns", "1", "1", "gox"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let release = |arguments: &[&str]| done(with(&[&["release", "r"], arguments].concat()).current_dir(folder.path()));
    let record = folder.path().join("r");
    wait_for("a call that hangs", || {
        record.exists()
            && release(&["--list"])
                .stdout
                .lines()
                .nth(1)
                .is_some_and(|line| line == "gate   no              1  inject/1")
    });
    let text = done(with(&["report", "r"]).current_dir(folder.path())).stdout;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("- 1 call has not returned (held by a fault plan)"), "{text}");
    assert!(words.contains("`cupeer release r gate` ends it"), "{text}");

    let other = release(&["door"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(
        other.stderr.contains("no plan of this job has the label 'door'; the only one is gate"),
        "{}",
        other.stderr
    );
    assert!(!record.join("release-door").exists());
    let released = release(&["gate"]).stdout;
    let (first, second) = released.split_once('\n').unwrap();
    assert_eq!(first, "released gate, where 1 call hangs");
    assert!(second.ends_with(" in cuIpcCloseMemHandle (inject/1)\n"), "{second}");
    assert_eq!(release(&["gate"]).stdout, "gate was already released\n");
    let mode = fs::metadata(record.join("release-gate")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    assert_lines(&String::from_utf8_lossy(&ended.stdout), "0.0: 0 0 0\n");
    let listed = release(&["--list"]).stdout;
    assert!(listed.ends_with("gate   yes             0  inject/1\n"), "{listed}");
    // Now nothing will ever hang there.
    fs::remove_file(record.join("release-gate")).unwrap();
    let late = release(&["gate"]);
    let says = "cupeer: released gate, but nothing hangs there: all processes of the recording have ended\n";
    assert_eq!((late.status.code(), late.stderr.as_str(), late.stdout.as_str()), (Some(1), says, ""));
}

#[test]
fn labels_that_cannot_be_released_are_one_sentence() {
    let folder = temp_dir();
    let path = folder.path().display().to_string();
    let missing = folder.path().join("none").display().to_string();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    refused(
        &["release", &missing, "gate"],
        &format!("'{missing}' cannot be read: No such file or directory (os error 2)"),
    );
    let file = file.display().to_string();
    refused(&["release", &file, "gate"], &format!("'{file}' is not a directory; name the one that the run records to"));
    // A record in a directory in it is not its own.
    fs::create_dir(folder.path().join("inner")).unwrap();
    cupeer_record::writer::write_job_file(&folder.path().join("inner")).unwrap();
    refused(
        &["release", &path, "gate"],
        &format!("'{path}' holds no recording; name the directory that the run records to"),
    );
    refused(&["release", &path], "the following required arguments were not provided: <LABEL>; see --help");
    cupeer_record::writer::write_job_file(folder.path()).unwrap();
    for wrong in ["", "a/b", "a b", "ä", &"x".repeat(65)] {
        refused(
            &["release", &path, wrong],
            &format!("'{wrong}' is not a label; a label has 1 to 64 letters, digits, '.', '_' and '-'"),
        );
    }
    let nothing = done(&mut with(&["release", &path, "gate.1_x-Y"]));
    let says = "cupeer: no plan of this job has the label 'gate.1_x-Y'; no known rule lets calls hang\n";
    assert_eq!((nothing.status.code(), nothing.stderr.as_str(), nothing.stdout.as_str()), (Some(1), says, ""));
    assert!(!folder.path().join("release-gate.1_x-Y").exists());
}

#[test]
fn processes_of_one_job_count_together_also_where_some_are_killed() {
    let folder = temp_dir();
    let options = ["-o", "r", "--inject", "cuIpcOpenMemHandle*:when=2:signal=KILL;cuDeviceCanAccessPeer:delay=1us"];
    let ended = done(&mut run(folder.path(), &options, &["crowd", "4", "1", "ccoo"]));
    let expected = [
        "fault inject/1 (cuIpcOpenMemHandle*:when=2:signal=KILL): matched 8, fired 4",
        "fault inject/2 (cuDeviceCanAccessPeer:delay=1us): matched 8, fired 8",
    ];
    assert_eq!(about_faults(&ended.stderr), expected, "{}", ended.stderr);
    let report = report(folder.path());
    let states: Vec<&Value> = report["handles"].as_array().unwrap().iter().map(|handle| &handle["state"]).collect();
    assert!(states.contains(&&"open on purpose".into()) && !states.contains(&&"open at exit".into()), "{states:?}");
    assert_eq!((&report["leaks"], &report["findings"]), (&Value::Array(Vec::new()), &Value::Array(Vec::new())));
}

/// Plans, and calls that follow from what they do.
const BLAMELESS: &[(&str, &str)] = &[
    ("cuIpcOpen*:error=any:seed=1", "ow"),
    ("cuIpcOpen*:stage=after:error=any:seed=2", "ow"),
    ("cuIpcOpen*:stage=undo:error=any:seed=2", "ow"),
    ("cuCtxEnablePeerAccess:stage=after:error=any:seed=4", "ee"),
    ("@peer,^@release:error=any:seed=5", "cra"),
    ("cuIpcGetMemHandle:process=1:out=pHandle=zero", "o"),
    ("cuIpcGetMemHandle:process=1:out=pHandle=flip/25", "o"),
    ("cuIpcGetEventHandle:process=1:out=pHandle=flip/25", "w"),
    ("cuIpcOpenMemHandle*:out=pdptr=null", "ox"),
    ("cuIpcOpenMemHandle*:out=pdptr=4096", "ox"),
    ("cuIpcOpenEventHandle:out=phEvent=null", "wy"),
    ("cuIpcCloseMemHandle:force:error=MAP_FAILED", "ox"),
    ("cuIpcCloseMemHandle:when=1:force:error=MAP_FAILED", "oxx"),
    ("cuIpcCloseMemHandle:when=1:force:stage=after:error=MAP_FAILED", "oxx"),
    ("cuDeviceCanAccessPeer:out=canAccessPeer=0", "ce"),
];

#[test]
fn the_report_blames_nobody_for_what_a_plan_did() {
    for (plan, word) in BLAMELESS {
        let folder = temp_dir();
        let ended = done(&mut run(folder.path(), &["-o", "r", "--inject", plan], &["turns", "1", "1", word]));
        let about = about_faults(&ended.stderr);
        assert!(about.len() == 1 && !about[0].contains("never"), "{plan} has done nothing: {}", ended.stderr);
        let report = report(folder.path());
        let nothing = Value::Array(Vec::new());
        assert_eq!((&report["findings"], &report["leaks"]), (&nothing, &nothing), "{plan}");
        let text = done(with(&["report", "r"]).current_dir(folder.path())).stdout;
        assert!(text.starts_with("No rule ") && text.contains("\nFaults\n"), "{plan}: {text}");
    }
}

#[test]
fn the_report_tells_of_what_the_program_does_beside_a_plan() {
    let folder = temp_dir();
    let options = ["-o", "r", "--inject", "cuDeviceCanAccessPeer:error=INVALID_DEVICE"];
    done(&mut run(folder.path(), &options, &["turns", "1", "1", "coxxo"]));
    let report = report(folder.path());
    let rules: Vec<_> = (0..2).map(|i| &report["findings"][i]["rule"]).collect();
    assert_eq!(rules, ["ipc-closed-twice", "ipc-never-closed"]);
    let text = done(with(&["report", "r"]).current_dir(folder.path())).stdout;
    assert!(text.starts_with("error ipc-closed-twice in process "), "{text}");
}
