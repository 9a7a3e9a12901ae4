//! Plans that are armed while the job is running: by `cupeer fault`, and by processes for their descendants.

use crate::support::{self, Done, assert_lines, cupeer, done, refused, temp_dir, wait_for, with};
use cupeer_spec::env;
use cupeer_spec::record::armed::{ArmedPlansBoard, PLANS};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use tempfile::TempDir;

const FAILS: &str = "cuDeviceCanAccessPeer:error=INVALID_DEVICE";

/// A job whose first process does what it is told.
struct Job {
    folder: TempDir,
    launcher: Child,
    tells: Option<ChildStdin>,
    says: BufReader<ChildStdout>,
}

impl Job {
    fn start(options: &[&str]) -> Job {
        Job::with(options, &[])
    }

    fn with(options: &[&str], variables: &[(&str, &str)]) -> Job {
        let library = support::sim_dir().join("libcuda.so.1");
        let program = support::compile_c("programs/obeys.c", &[library.to_str().unwrap(), "-ldl"]);
        let folder = temp_dir();
        let mut command = cupeer();
        command.current_dir(folder.path()).args(["run", "--sim", "-o", "r"]).args(options).arg("--").arg(program);
        command.envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut launcher = command.spawn().expect("it runs");
        let says = BufReader::new(launcher.stdout.take().unwrap());
        Job { folder, tells: launcher.stdin.take(), launcher, says }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.tells.as_mut().unwrap(), "{line}").expect("it listens");
    }

    #[track_caller]
    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("UTF-8");
        assert!(line.ends_with('\n'), "it has ended");
        line.trim_end().to_owned()
    }

    /// Returns its answers to some lines.
    #[track_caller]
    fn ask(&mut self, lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (self.tell(line), self.hear()).1).collect()
    }

    fn fault(&self, arguments: &[&str]) -> Done {
        done(with(&[&["fault", "r"], arguments].concat()).current_dir(self.folder.path()))
    }

    fn list(&self) -> Vec<Value> {
        let listed = self.fault(&["--list", "--format", "json"]);
        let list: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{}", listed.stderr));
        list["plans"].as_array().unwrap().iter().filter(|plan| plan["number"] != Value::Null).cloned().collect()
    }

    fn record(&self) -> PathBuf {
        self.folder.path().join("r")
    }

    fn file(&self, begins: &str) -> Option<PathBuf> {
        let names = support::names(&self.record());
        names.into_iter().find(|name| name.starts_with(begins)).map(|name| self.record().join(name))
    }

    fn report(&self) -> Value {
        let text = done(with(&["report", "r", "--format", "json"]).current_dir(self.folder.path())).stdout;
        serde_json::from_str(&text).expect("JSON")
    }

    /// Lets it end, and gives what was said on stderr.
    fn end(&mut self) -> String {
        drop(self.tells.take());
        let status = self.launcher.wait().expect("its end");
        let stderr = std::io::read_to_string(self.launcher.stderr.take().unwrap()).expect("UTF-8");
        assert!(status.success(), "{status} {stderr}");
        stderr
    }
}

#[test]
fn a_plan_reaches_all_processes_of_the_job_and_those_that_start_later() {
    let mut job = Job::start(&["--allow-faults"]);
    assert_eq!(job.ask(&["c", "s1", ">1c", "s2", ">2c"])[2], "0");
    let armed = job.fault(&["--inject", FAILS, "--wait", "1ms"]);
    let lines: Vec<&str> = armed.stdout.lines().collect();
    assert_eq!(lines[0], "plan 1 is armed in 0 of 3 processes", "{}", armed.stderr);
    assert!(
        lines[1..].iter().all(|line| line.ends_with(" has not looked yet; it does at its next call of the driver"))
    );
    assert_eq!(lines.len(), 4);
    let mut all = job.ask(&["c", ">1c", ">2c", "s3", ">3c", "fc"]);
    all.remove(3);
    assert_eq!(all, ["101"; 5]);
    // Each has looked by now, so that nothing has to be waited for but the end of the forked one.
    let second = job.fault(&["--inject", "cuMemsetD8_v2:error=700:force", "--wait", "1ms"]);
    assert!(second.stdout.starts_with("plan 2 is armed in 0 of 4 processes\n"), "{}", second.stdout);
    let listed = job.list();
    let counts: Vec<_> =
        listed.iter().map(|plan| (&plan["number"], &plan["matched"], &plan["fired"], &plan["origin"])).collect();
    let outside = Value::from("cupeer fault");
    assert_eq!(counts, [(&1.into(), &5.into(), &5.into(), &outside), (&2.into(), &0.into(), &0.into(), &outside)]);
    let fired: Vec<_> = listed[0]["processes"].as_array().unwrap().iter().map(|one| &one["fired"]).collect();
    assert_eq!(fired, [&Value::from(1); 5]);
    assert!(listed[0]["armed_ns"].as_u64().unwrap() > 1_600_000_000_000_000_000);
    assert_eq!((&listed[0]["disarmed_ns"], &listed[0]["rule"]), (&Value::Null, &FAILS.into()));

    let released = job.fault(&["--release", "1", "--wait", "1ms"]).stdout;
    assert!(released.starts_with("plan 1 is disarmed in 0 of 4 processes\n"), "{released}");
    assert_eq!(job.ask(&["c", ">1c", ">2c", ">3c"]), ["0"; 4]);
    // A call that would go straight on to the driver is found, too.
    assert_eq!((job.ask(&["l"]), &job.list()[1]["fired"]), (vec!["700".into()], &1.into()));
    let stderr = job.end();
    assert!(
        stderr.contains("cupeer: fault fault-1/1 (cuDeviceCanAccessPeer:error=INVALID_DEVICE): matched 5, fired 5\n")
    );
    let report = job.report();
    let names: Vec<&Value> = report["faults"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["fault-1/1", "fault-2/1"]);
    assert_eq!(report["findings"], Value::Array(Vec::new()), "nobody is to blame");
}

#[test]
fn arming_waits_until_all_processes_have_the_plan() {
    let mut job = Job::start(&["--allow-faults"]);
    job.ask(&["c"]);
    // The process calls while the command waits.
    let mut command = with(&["fault", "r", "--inject", FAILS, "--wait", "10m"]);
    let waits = command.current_dir(job.folder.path()).stdout(Stdio::piped()).spawn().expect("it runs");
    wait_for("a call that fails", || job.ask(&["c"]) == ["101"]);
    let said = waits.wait_with_output().unwrap();
    assert_lines(&String::from_utf8_lossy(&said.stdout), "plan 1 is armed in 1 of 1 process\n");
    // One plan takes the place of all others.
    let replaced =
        job.fault(&["--release", "--inject", "cuDeviceCanAccessPeer:error=NOT_INITIALIZED", "--wait", "1ms"]);
    assert!(replaced.stdout.starts_with("plan 1 is disarmed\nplan 2 is armed in "), "{}", replaced.stdout);
    assert_eq!(job.ask(&["c"]), ["3"]);
    let never = job.fault(&["--inject", "cuIpcGetMemHandle:delay=1ms", "--wait", "1ms"]);
    assert!(never.status.success());
    let stderr = job.end();
    let said = "cupeer: fault fault-3/1 was never reached: no call matched cuIpcGetMemHandle:delay=1ms\n";
    assert!(stderr.contains(said), "{stderr}");
}

#[test]
fn calls_that_are_held_go_on_when_the_plan_is_disarmed() {
    let mut job = Job::start(&["--allow-faults"]);
    job.ask(&["c"]);
    job.fault(&["--inject", "cuDeviceCanAccessPeer:hang=gate:error=INVALID_DEVICE", "--wait", "1ms"]);
    for which in [&["--release"][..], &["--release", "gate"], &["--release", "fault-3"]] {
        job.tell("c");
        wait_for("a call that hangs", || {
            let hangs = done(with(&["release", "r", "--list"]).current_dir(job.folder.path()));
            hangs.stdout.lines().any(|line| line.starts_with("gate") && line.split_whitespace().nth(2) == Some("1"))
        });
        let released = job.fault(which).stdout;
        // A held call looks by itself.
        assert!(
            released.contains(" is disarmed; 1 call hangs under it, and may go on in 1 of 1 process\n"),
            "{released}"
        );
        assert_eq!((job.hear(), job.ask(&["c"])), ("101".into(), vec!["0".into()]));
        job.fault(&["--inject", "cuDeviceCanAccessPeer:hang=gate:error=INVALID_DEVICE", "--wait", "1ms"]);
    }
    job.fault(&["--release", "--wait", "1ms"]);
    job.end();
}

#[test]
fn a_job_must_allow_it() {
    let mut job = Job::start(&[]);
    job.ask(&["c"]);
    let refusal = job.fault(&["--inject", FAILS]);
    let says = "cupeer: no plan was changed in 'r': its processes were started without permission for that; start them with \
                'cupeer run --allow-faults', or with CUPEER_ALLOW_FAULTS=1 in their environment\n";
    assert_eq!((refusal.status.code(), refusal.stderr.as_str()), (Some(125), says));
    // A plan of the program's own is no permission.
    assert_eq!(job.ask(&["acuMemsetD8_v2:delay=1ms"]), ["1"]);
    assert_eq!(job.fault(&["--release"]).stderr, says);
    assert_eq!((job.ask(&["c"]), job.list().len()), (vec!["0".into()], 1));
    job.end();
    let ended = job.fault(&["--inject", FAILS]).stderr;
    assert_eq!(ended, "cupeer: no plan was changed in 'r': all processes of the job have ended\n");

    // Another run of the same job does, and this one is left alone.
    let mut job = Job::start(&[]);
    job.ask(&["c"]);
    let mut other = with(&["run", "--sim", "-o", "r", "--allow-faults", "--", "sh", "-c", "read line"]);
    let mut other = other.current_dir(job.folder.path()).stdin(Stdio::piped()).spawn().expect("it runs");
    wait_for("a job that allows it", || job.file("armed-").is_some());
    wait_for("its permission", || job.fault(&["--inject", FAILS]).status.success());
    let said = job.fault(&["--inject", FAILS, "--wait", "1ms"]).stdout;
    assert!(
        said.contains("; no process that allows it has called the driver yet, and those that do take it over then\n")
    );
    assert!(said.contains(" does not allow it, and is left alone\n"), "{said}");
    assert_eq!(job.ask(&["c"]), ["0"]);
    drop(other.stdin.take());
    other.wait().unwrap();
    job.end();
}

#[test]
fn mistakes_are_said_as_by_run() {
    let mut job = Job::start(&["--allow-faults"]);
    job.ask(&["c"]);
    for plan in ["cuIpcOpenMemHandel:error=any", "cuIpcGetMemHandle:eror=any", "cuInit", ""] {
        let said = job.fault(&["--inject", plan]);
        let run = done(&mut with(&["run", "--sim", "--inject", plan, "--", "true"]));
        assert_eq!((said.status.code(), &said.stderr), (Some(125), &run.stderr), "{plan}");
    }
    let file = job.folder.path().join("plan");
    fs::write(&file, "cuIpcGetMemHandle:error=nothing\n").unwrap();
    let said = job.fault(&["--inject-file", "plan"]);
    assert!(said.stderr.starts_with("cupeer: plan:1:"), "{}", said.stderr);
    for (which, says) in [
        (&["--release"][..], "cupeer: no plan is armed from outside; --list shows all plans\n"),
        (&["--release", "7"], "cupeer: no plan '7' is armed from outside; --list shows all plans\n"),
    ] {
        let said = job.fault(which);
        assert_eq!((said.status.code(), said.stderr.as_str()), (Some(1), says));
    }
    let number = job.ask(&[&format!("a{FAILS}")]).remove(0);
    let said = job.fault(&["--release", &number]);
    assert!(said.stderr.contains(", which alone disarms it"), "{}", said.stderr);
    assert_eq!(job.list().len(), 1);
    job.end();
    let folder = temp_dir();
    let path = folder.path().display().to_string();
    refused(
        &["fault", &path, "--list"],
        &format!("'{path}' holds no recording; name the directory that the run records to"),
    );
    refused(
        &["fault", &path, "--list", "--inject", FAILS],
        "the argument '--list' cannot be used with '--inject <PLAN>'; see --help",
    );
    let recorded = ["run", "--sim", "--record", "off", "--allow-faults", "--", "true"];
    refused(&recorded, "--allow-faults needs a recording, by which 'cupeer fault' finds the processes");
}

#[test]
fn a_plan_of_a_process_reaches_its_descendants_and_nobody_else() {
    for options in [&["--allow-faults"][..], &[]] {
        let is_allowed = !options.is_empty();
        let mut job = Job::start(options);
        job.ask(&["c", "s1", ">1c", "s2", ">2c", ">2s3", ">2>3c"]);
        // Child 2 arms it for itself and its child: not for its parent and its sibling.
        let number = job.ask(&[&format!(">2a{FAILS}")]).remove(0);
        assert_eq!(job.ask(&["c", ">1c"]), ["0"; 2]);
        let existing = if is_allowed { "101" } else { "0" };
        assert_eq!(job.ask(&[">2c", ">2>3c", ">2s4"])[..2], ["101", existing]);
        assert_eq!(job.ask(&[">2>4c", ">2>4fc", ">2fc"]), ["101"; 3]);
        let fired = 4 + usize::from(is_allowed);
        assert_eq!(job.ask(&[&format!(">2n{number}")]), [format!("1 {fired} {fired}")]);
        assert!(job.list()[0]["origin"].as_str().unwrap().starts_with("process "));
        // A forked child disarms it for itself only, and another process does not know it.
        assert_eq!(job.ask(&[&format!(">2fd{number}"), ">2c"])[1], "101");
        assert_eq!(job.ask(&[&format!("d{number}"), ">2c"]), ["0 99 99", "101"]);
        let fired = fired + 2;
        assert_eq!(job.ask(&[&format!(">2d{number}")]), [format!("1 {fired} {fired}")]);
        assert_eq!(job.ask(&[">2c", ">2>3c", ">2>4c"]), ["0"; 3]);
        assert!(job.list().is_empty(), "it leaves nothing behind");
        job.end();
    }
}

#[test]
fn processes_count_together_by_job() {
    let mut job = Job::start(&["--allow-faults"]);
    job.ask(&["c", "s1", ">1c"]);
    job.fault(&["--inject", "cuDeviceCanAccessPeer:per=job:when=3:error=INVALID_DEVICE", "--wait", "1ms"]);
    assert_eq!(job.ask(&["c", ">1c", "c", ">1c"]), ["0", "0", "101", "0"]);
    let number = job.ask(&["acuDeviceCanAccessPeer:per=job:when=2:error=NOT_INITIALIZED"]).remove(0);
    assert_eq!(job.ask(&["c", ">1c", "c"]), ["0", "3", "0"]);
    assert_eq!(job.ask(&[&format!("d{number}")]), ["1 3 1"]);
    job.end();
}

#[test]
fn a_process_that_becomes_another_program_keeps_the_plans() {
    let mut job = Job::start(&["--allow-faults"]);
    job.ask(&["c"]);
    job.fault(&["--inject", FAILS, "--wait", "1ms"]);
    assert_eq!(job.ask(&["c"]), ["101"]);
    let own = job.ask(&["acuMemsetD8_v2:error=any:seed=1"]).remove(0);
    job.tell("e");
    assert_eq!(job.ask(&["c"]), ["101"]);
    assert_eq!(job.ask(&[&format!("n{own}")]), ["1 0 0"]);
    let all = job.fault(&["--inject", "cuIpcGetMemHandle:delay=1ms", "--wait", "1ms"]).stdout;
    assert!(all.starts_with("plan 3 is armed in 0 of 1 process\n"), "{all}");
    job.end();
}

#[test]
fn the_command_line_allows_a_plan_before_the_program_has_called() {
    let mut job = Job::with(&[], &[(env::ALLOW_FAULTS, "1")]);
    job.ask(&["c"]);
    assert!(job.fault(&["--inject", FAILS, "--wait", "1ms"]).status.success());
    assert_eq!(job.ask(&["c"]), ["101"]);
    job.end();
    let folder = temp_dir();
    let text =
        support::stdout(with(&["env", "-o", "r", "--allow-faults", "--format", "sh"]).current_dir(folder.path()));
    assert!(text.contains("CUPEER_ALLOW_FAULTS=1"), "{text}");
}

/// Puts something into a file that processes have mapped.
fn put(file: &Path, at: usize, bytes: &[u8]) {
    fs::OpenOptions::new().write(true).open(file).unwrap().write_all_at(bytes, at as u64).unwrap();
}

#[test]
fn files_are_for_the_owner_alone() {
    let mut job = Job::start(&["--allow-faults"]);
    job.ask(&["c", &format!("a{FAILS}")]);
    job.fault(&["--inject", "cuMemsetD8_v2:delay=1ms", "--wait", "1ms"]);
    for name in support::names(&job.record()).iter().filter(|name| name.starts_with("armed-") || name.contains("-plan"))
    {
        assert_eq!(support::mode(&job.record().join(name)) & 0o777, 0o600, "{name}");
    }
    job.end();
    let mut job = Job::start(&["--allow-faults", "--share", "group"]);
    job.ask(&["c", &format!("a{FAILS}")]);
    job.fault(&["--inject", "cuMemsetD8_v2:delay=1ms", "--wait", "1ms"]);
    assert_eq!(support::mode(&job.file("armed-").unwrap()) & 0o777, 0o600);
    for name in support::names(&job.record()).iter().filter(|name| name.contains("-plan")) {
        assert_eq!(support::mode(&job.record().join(name)) & 0o777, 0o640, "{name}");
    }
    job.end();
    // A board that others can write to is not used, by nobody.
    let mut job = Job::start(&["--allow-faults"]);
    // The process has mapped it already; a child has not.
    job.ask(&["c"]);
    let board = job.file("armed-").expect("a board");
    fs::set_permissions(&board, fs::Permissions::from_mode(0o620)).unwrap();
    let said = job.fault(&["--inject", FAILS]);
    assert!(said.stderr.contains("it belongs to another user, or others can write to it"), "{}", said.stderr);
    assert_eq!(job.ask(&["s1", ">1c"])[1], "0");
    let stderr = job.end();
    let says = "plans that are armed while the job is running cannot be used: their file belongs to another user, or others can \
                write to it";
    assert_eq!(stderr.matches(says).count(), 1, "{stderr}");
}

#[test]
fn damaged_plans_harm_no_process() {
    let mut job = Job::start(&["--allow-faults"]);
    job.ask(&["c"]);
    job.fault(&["--inject", FAILS, "--wait", "1ms"]);
    assert_eq!(job.ask(&["c"]), ["101"]);
    let (board, whole) = (job.file("armed-").unwrap(), job.file("faults-").unwrap());
    let plan = support::names(&job.record()).into_iter().find(|name| name.ends_with("-plan1")).unwrap();
    let good = fs::read(job.record().join(&plan)).unwrap();
    assert!(whole.exists());
    let mut seed = 7u64;
    let mut chance = |end: usize| {
        seed = cupeer_spec::record::live::mix_bits(seed + 1);
        (seed % end as u64) as usize
    };
    for number in 2..2 + u64::from(support::rounds(60)) {
        let mut bad = good.clone();
        bad[offset_of!(cupeer_spec::record::faults::Header, number)..][..8].copy_from_slice(&number.to_ne_bytes());
        match number % 4 {
            0 => bad.truncate(chance(bad.len())),
            1 => (0..8).for_each(|_| bad[chance(128)] = chance(256) as u8),
            2 => (0..4).for_each(|_| bad[4096 + chance(64)] = chance(256) as u8),
            _ => bad[8 * chance(8)..][..4].copy_from_slice(&u32::MAX.to_ne_bytes()),
        }
        let file = job.record().join(plan.replace("-plan1", &format!("-plan{number}")));
        fs::write(&file, bad).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        put(
            &board,
            offset_of!(ArmedPlansBoard, plans) + 8 * (number as usize % (PLANS - 1) + 1),
            &number.to_ne_bytes(),
        );
        put(&board, offset_of!(ArmedPlansBoard, generation), &(number + 1000).to_ne_bytes());
        // The first plan goes on, whatever the others are.
        assert_eq!(job.ask(&["c"]), ["101"], "{number}");
    }
    let listed = job.fault(&["--list"]);
    assert!(listed.status.success(), "{}", listed.stderr);
    let released = job.fault(&["--release", "1", "--wait", "1ms"]);
    assert!(released.status.success(), "{}", released.stderr);
    let stderr = job.end();
    assert_eq!(stderr.matches("which was armed while the job is running, cannot be used").count(), 1, "{stderr}");
}

#[test]
fn a_recording_with_plans_is_packed_reported_and_removed() {
    let mut job = Job::start(&["--allow-faults"]);
    job.ask(&["c"]);
    job.fault(&["--inject", FAILS, "--wait", "1ms"]);
    job.ask(&["c"]);
    job.end();
    let packed = done(with(&["pack", "r"]).current_dir(job.folder.path()));
    assert!(packed.status.success(), "{}", packed.stderr);
    let archive = support::names(job.folder.path()).into_iter().find(|name| name.ends_with(".gz")).expect("it");
    let text = done(with(&["report", &archive, "--format", "json"]).current_dir(job.folder.path())).stdout;
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["faults"][0]["name"], "fault-1/1");
    assert_eq!(report["faults"][0]["fired"], 1);
}
