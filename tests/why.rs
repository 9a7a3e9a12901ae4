//! `cupeer why`: what it says of processes that wait, from outside, recorded or not.

use crate::support::{self, cupeer, done, plain, refused, stdout, temp_dir, wait_for, with};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

// The use of this by `cupeer run --on-hang` and `cupeer top`.
mod on_hang;
// Hangs in a report, in `cupeer top`, and in the exit status.
mod hung;
// Roots of the waits of hanging programs.
mod roots;
// Programs that a busy machine does not let run.
mod starved;

/// A program that waits, until it is dropped.
struct Waits {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Waits {
    /// Starts it, and returns when it has said so many times that it is ready.
    fn start(mut command: Command, times: usize) -> Waits {
        // The started program ends with the test, in any case. SAFETY: prctl takes a signal number here, and may be called
        // between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let mut child = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut waits =
            Waits { stdin: child.stdin.take(), stdout: BufReader::new(child.stdout.take().unwrap()), child };
        for _ in 0..times {
            waits.ready();
        }
        waits
    }

    #[track_caller]
    fn ready(&mut self) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    /// Lets it end, and returns what it said after that it was ready.
    fn end(&mut self) -> String {
        drop(self.stdin.take());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap();
        rest
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with all that it has started: what a fault holds does not end with stdin.
    fn kill(&mut self) {
        // SAFETY: a signal to the group of the child, which has not been waited for.
        unsafe { libc::kill(-(self.pid() as i32), libc::SIGKILL) };
        self.child.wait().unwrap();
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if std::thread::panicking() {
            self.kill();
        }
        let _ = self.child.wait();
    }
}

fn waits_c() -> PathBuf {
    support::compile_c("programs/waits.c", &[])
}

fn of_c(what: &str) -> Command {
    let mut command = plain(waits_c());
    command.arg(what);
    command
}

fn python(interpreter: &Path, what: &str) -> Command {
    let mut command = plain(interpreter);
    command.arg(script()).arg(what);
    command
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/waits.py")
}

/// `waits.py:12`: the line of the script that ends in a comment.
fn line(comment: &str) -> String {
    let text = fs::read_to_string(script()).unwrap();
    let number =
        text.lines().position(|line| line.ends_with(&format!("# {comment}"))).expect("a line with that comment");
    format!("waits.py:{}", number + 1)
}

/// Returns the JSON output, which must match its schema.
#[track_caller]
fn json(what: &[&str]) -> Value {
    let printed: Value = serde_json::from_str(&stdout(with(&["why", "--format", "json"]).args(what))).unwrap();
    assert_eq!(schema(&printed), Vec::<String>::new());
    printed
}

/// Returns the parts of a document that its schema does not allow.
fn schema(document: &Value) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/why.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).expect("it is a schema");
    validator.iter_errors(document).map(|error| error.to_string()).collect()
}

/// Asks until the answer is one that has all of this in it: what was started may not wait yet.
#[track_caller]
fn answer(what: &[&str], parts: &[&str]) -> Value {
    let mut last = Value::Null;
    let is_it = |document: &Value| {
        let answer = document["answer"].as_str().unwrap_or_default();
        parts.iter().all(|part| answer.contains(part))
    };
    let start = std::time::Instant::now();
    while !is_it(&last) {
        assert!(start.elapsed() < support::PATIENCE, "{parts:?} is not in {last:#}");
        last = json(what);
    }
    last
}

/// The functions of the first thread of the process with a pid, the innermost first.
fn functions(document: &Value, pid: u32) -> Vec<String> {
    frames(document, pid).iter().map(|frame| frame["function"].as_str().unwrap_or("?").to_owned()).collect()
}

fn frames(document: &Value, pid: u32) -> Vec<Value> {
    process(document, pid)["threads"][0]["frames"].as_array().unwrap().clone()
}

#[track_caller]
fn process(document: &Value, pid: u32) -> Value {
    let all = document["processes"].as_array().unwrap();
    all.iter().find(|process| process["pid"] == pid).unwrap_or_else(|| panic!("{pid} is not in {document:#}")).clone()
}

fn of_rank(document: &Value, rank: u64) -> Value {
    let all = document["processes"].as_array().unwrap();
    all.iter().find(|process| process["rank"] == rank).expect("the rank").clone()
}

/// `cupeer run` of the script on the simulated driver, recording to `r`.
fn recorded(folder: &Path, options: &[&str], what: &str) -> Command {
    let mut command = cupeer();
    command.args(["run", "-q", "-o", "r", "--sim"]).args(options).arg("--");
    command.args(["python3".as_ref(), script().as_os_str(), what.as_ref()]).current_dir(folder);
    command.env("XDG_STATE_HOME", folder.join("state"));
    command
}

#[test]
fn a_handle_that_is_never_sent_is_owed_by_its_exporter() {
    let folder = temp_dir();
    let _waits = Waits::start(recorded(folder.path(), &[], "recv"), 2);
    let record = folder.path().join("r").display().to_string();
    let at = format!("rank 0 waits in read at {} in rank", line("rank 0 waits"));
    let waits = format!(" ago and nobody opened it; rank 1 waits for it in recv at {} in receive", line("recv"));
    let document = answer(&[&record], &[&at, "; it exported ipc:", &waits]);
    assert_eq!(document["schema"], "cupeer-why/1");
    let (owner, waiting) = (of_rank(&document, 0), of_rank(&document, 1));
    assert_eq!(waiting["waits_for"], Value::from(vec![owner["pid"].clone()]));
    assert_eq!(
        (&waiting["threads"][0]["on"][0]["kind"], &waiting["threads"][0]["syscall"]),
        (&"Unix socket".into(), &"recvfrom".into())
    );
    assert!(owner["owes"][0].as_str().unwrap().starts_with("exported ipc:"), "{owner:#}");
    assert!(owner["proc"].is_string());

    // The time grows, the text says the same, and the pids lead to the record.
    let since = waiting["since_ns"].as_u64();
    wait_for("a longer time", || of_rank(&json(&[&record]), 1)["since_ns"].as_u64() > since || since.is_none());
    let pids: Vec<String> = [owner, waiting].iter().map(|process| process["pid"].to_string()).collect();
    for words in [vec![record.clone()], pids] {
        let text = stdout(with(&["why"]).args(words));
        let first = text.lines().next().unwrap();
        assert!(first.starts_with(&at) && first.ends_with(&waits), "{text}");
        assert!(text.contains("\n  exported ipc:") && text.contains(&format!("  {}", line("recv"))), "{text}");
        assert!(text.lines().any(|line| line.starts_with("    receive ")), "{text}");
    }
}

#[test]
fn an_open_that_hangs_in_the_driver_is_told_with_its_handle_and_its_line() {
    let folder = temp_dir();
    let never = support::compile_shared("programs/never_opens.c", &[]);
    let mut command = recorded(folder.path(), &[], "open");
    command.env("LD_PRELOAD", &never);
    let _waits = Waits::start(command, 2);
    let record = folder.path().join("r").display().to_string();
    let at = format!(" at {} in rank since ", line("open"));
    let document = answer(
        &[&record],
        &["rank 1 is in cuIpcOpenMemHandle_v2 for ipc:", &at, "; rank 0 exported it, and waits in read"],
    );
    let waiting = of_rank(&document, 1);
    let call = &waiting["threads"][0]["call"];
    assert_eq!((&call["function"], &call["injected_by"]), (&"cuIpcOpenMemHandle_v2".into(), &Value::Null));
    assert!(waiting["since_ns"].as_u64().unwrap() > 0);
    let functions = functions(&document, waiting["pid"].as_u64().unwrap() as u32);
    let at = |name: &str| {
        functions
            .iter()
            .position(|function| function == name || function.contains(&format!("::{name}")))
            .unwrap_or_else(|| panic!("{name}: {functions:?}"))
    };
    assert!(at("pause") < at("cuIpcOpenMemHandle_v2") && at("cuIpcOpenMemHandle_v2") < at("rank"));
}

#[test]
fn a_call_that_a_fault_holds_is_told_with_the_fault() {
    let folder = temp_dir();
    let _waits = Waits::start(recorded(folder.path(), &["--inject", "cuIpcOpenMemHandle*:hang=gate"], "open"), 2);
    let record = folder.path().join("r").display().to_string();
    let document = answer(&[&record], &["rank 1 is in cuIpcOpenMemHandle_v2 for ipc:", "held by the fault "]);
    assert!(of_rank(&document, 1)["threads"][0]["call"]["injected_by"].is_string());
}

#[test]
fn a_deadlock_on_a_queue_has_the_lines_of_both_threads() {
    for interpreter in crate::python::interpreters() {
        let waits = Waits::start(python(&interpreter, "queue"), 1);
        let pid = waits.pid().to_string();
        let document = answer(&[&pid], &["wait for each other: ", &line("first"), &line("second"), "(in get)"]);
        let threads = process(&document, waits.pid())["threads"].as_array().unwrap().clone();
        let is_second = |frame: &Value| {
            let number = line("second").rsplit(':').next().unwrap().parse::<u64>().unwrap();
            frame["line"] == number && frame["function"] == "second"
        };
        let second = |thread: &Value| thread["frames"].as_array().unwrap().iter().any(is_second);
        assert!(threads[1..].iter().any(second), "{}: {document:#}", interpreter.display());
        let functions = functions(&document, waits.pid());
        let inner = functions.iter().filter(|name| ["get", "queues", "<module>"].contains(&&***name));
        assert_eq!(inner.collect::<Vec<_>>(), ["get", "queues", "<module>"], "{}", interpreter.display());
    }
}

#[test]
fn running_threads_are_read_while_stopped_or_without_frames_of_c() {
    for interpreter in crate::python::interpreters() {
        let waits = Waits::start(python(&interpreter, "busy"), 1);
        let pid = waits.pid().to_string();
        let document = answer(&[&pid], &["runs at waits.py:"]);
        let languages = |document: &Value| -> Vec<String> {
            frames(document, waits.pid()).iter().map(|frame| frame["language"].as_str().unwrap().to_owned()).collect()
        };
        assert!(languages(&document).contains(&"C".to_owned()), "{document:#}");
        assert_eq!(functions(&document, waits.pid()).iter().filter(|name| *name == "busy").count(), 1);
        wait_for("frames of Python without a stop", || {
            let document = json(&[&pid, "--no-stop"]);
            assert_eq!(process(&document, waits.pid())["stopped_ns"], 0);
            let languages = languages(&document);
            !languages.is_empty() && languages.iter().all(|language| language == "Python")
        });
    }
}

#[test]
fn a_program_that_was_replaced_meanwhile_is_named_by_what_runs() {
    let folder = temp_dir();
    let program = folder.path().join("waits");
    fs::copy(waits_c(), &program).unwrap();
    let mut command = plain(&program);
    command.arg("mutex");
    let waits = Waits::start(command, 1);
    fs::remove_file(&program).unwrap();
    fs::write(&program, "a newer version").unwrap();
    let document = answer(&[&waits.pid().to_string()], &[" in futex at waits.c:"]);
    assert!(functions(&document, waits.pid()).contains(&"waits_for_mutex".to_owned()), "{document:#}");
}

#[test]
fn a_mutex_names_the_thread_that_holds_it() {
    let waits = Waits::start(of_c("mutex"), 1);
    let document = answer(
        &[&waits.pid().to_string()],
        &[
            " waits in read at waits.c:",
            " in stay",
            " waits for the lock that it holds in futex at waits.c:",
            " in waits_for_mutex",
        ],
    );
    let process = process(&document, waits.pid());
    let holder = &process["threads"][0]["holder"];
    assert!(holder.is_number() && *holder != process["pid"] && process["threads"][1]["tid"] == *holder, "{document:#}");
    let functions = functions(&document, waits.pid());
    assert!(
        functions.contains(&"waits_for_mutex".to_owned()) && functions.contains(&"main".to_owned()),
        "{functions:?}"
    );
}

#[test]
fn a_pipe_leads_to_who_could_write_to_it_without_cupeer() {
    let waits = Waits::start(of_c("pipe"), 1);
    let pid = waits.pid().to_string();
    let root = format!("process {pid} waits in read at waits.c:");
    let document = answer(&[&pid], &[&root, " in stay", " waits for it in read at waits.c:", " in waits_for_pipe"]);
    assert_eq!((&document["root"]["kind"], &document["root"]["pids"][0]), (&"waits".into(), &waits.pid().into()));
    assert_eq!(document["record"], Value::Null);
    let child =
        document["processes"].as_array().unwrap().iter().find(|process| process["pid"] != waits.pid()).unwrap().clone();
    assert_eq!((&child["threads"][0]["on"][0]["kind"], &child["waits_for"][0]), (&"pipe".into(), &waits.pid().into()));
}

#[test]
fn frames_are_found_without_optimization_and_without_tables() {
    // The kernel tells two registers of a thread that waits, and these frames are found by a third one.
    for flags in [&["-O0"][..], &["-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-exceptions"]] {
        for (what, own) in [("mutex", "waits_for_mutex"), ("steps", "steps")] {
            let mut command = plain(support::compile_c("programs/waits.c", flags));
            command.arg(what);
            let waits = Waits::start(command, 1);
            let document = answer(&[&waits.pid().to_string()], &[" at waits.c:"]);
            let functions = functions(&document, waits.pid());
            let own = functions.iter().position(|function| function == own);
            let main = functions.iter().position(|function| function == "main");
            assert!(own.zip(main).is_some_and(|(own, main)| own < main), "{flags:?} {what}: {functions:?}");
            assert_eq!(process(&document, waits.pid())["threads"][0]["complete"], true, "{flags:?} {what}");
        }
    }
}

#[test]
fn a_stripped_program_has_its_offsets_and_all_its_frames() {
    let folder = temp_dir();
    let stripped = folder.path().join("stripped");
    let strip = plain("strip").args(["-s", "-o"]).args([&stripped, &waits_c()]).status();
    if !strip.is_ok_and(|status| status.success()) {
        return left_out!("there is no strip");
    }
    let mut command = plain(&stripped);
    command.arg("pipe");
    let waits = Waits::start(command, 1);
    let document = answer(&[&waits.pid().to_string()], &["waits in read at stripped+0x"]);
    let frames = frames(&document, waits.pid());
    let own = frames.iter().filter(|frame| frame["library"].as_str().is_some_and(|path| path.ends_with("/stripped")));
    assert!(own.clone().count() >= 3 && own.clone().all(|frame| frame["function"].is_null()), "{document:#}");
    // From the system call to the start of the program.
    assert_eq!(process(&document, waits.pid())["threads"][0]["complete"], true);
}

#[test]
fn a_process_of_another_pid_namespace_is_read() {
    let mut command = plain("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).arg(waits_c()).arg("mutex");
    let can = plain("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        return left_out!("no pid namespace may be made");
    }
    let waits = Waits::start(command, 1);
    let document = answer(
        &[&waits.pid().to_string()],
        &["(1 in its namespace) waits in read at waits.c:", "its main thread waits for the lock that it holds"],
    );
    let inner =
        document["processes"].as_array().unwrap().iter().find(|process| process["own_pid"] == 1).unwrap().clone();
    assert_ne!(inner["pid"], 1);
}

#[test]
fn each_of_64_processes_is_read() {
    let waits = Waits::start(of_c("crew:64"), 1);
    let pid = waits.pid().to_string();
    let document = answer(
        &[&pid],
        &[
            &format!("process {pid} waits in read at waits.c:"),
            " and 59 more wait for it in poll at waits.c:",
            " in waits_in_poll",
        ],
    );
    let all = document["processes"].as_array().unwrap();
    assert_eq!(all.len(), 64);
    let polls = all.iter().filter(|process| {
        process["threads"][0]["frames"].as_array().unwrap().iter().any(|frame| frame["function"] == "waits_in_poll")
    });
    assert_eq!(polls.count(), 63);
}

/// At any time limit, each thread is shown or counted, and none stays stopped.
#[test]
fn threads_that_no_time_was_left_for_are_counted() {
    let waits = Waits::start(of_c("crowd:150"), 1);
    let pid = waits.pid().to_string();
    for within in ["100ms", "3s"] {
        let document = json(&[&pid, "--within", within]);
        let process = process(&document, waits.pid());
        let count = |thread: &Value| thread["count"].as_u64().unwrap();
        let shown: u64 = process["threads"].as_array().unwrap().iter().map(count).sum();
        let (more, running) = (process["threads_more"].as_u64(), process["running_more"].as_u64());
        assert_eq!(shown + more.unwrap(), 151, "{document:#}");
        assert!(running <= more);
        assert_eq!(process["threads"][0]["tid"], waits.pid());
        let text = stdout(&mut with(&["why", &pid, "--within", within]));
        assert!(text.contains(" waits in read at waits.c:"), "{text}");
        for task in procfs::process::Process::new(waits.pid() as i32).unwrap().tasks().unwrap() {
            let task = task.unwrap();
            wait_for("no thread to stay stopped", || !matches!(task.stat().unwrap().state, 't' | 'T'));
        }
    }
}

#[test]
fn a_process_that_is_killed_while_it_is_read_is_said_to_have_ended() {
    for round in 0..support::rounds(20) {
        let mut waits = Waits::start(of_c("crew:24"), 1);
        let pid = waits.pid().to_string();
        let reading =
            with(&["why", &pid, "--format", "json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // At another time of the reading each round.
        (0..round * 2000).for_each(|_| std::hint::spin_loop());
        waits.child.kill().unwrap();
        let read = reading.wait_with_output().unwrap();
        let words = String::from_utf8_lossy(&read.stderr);
        if !read.status.success() {
            assert_eq!(words, format!("cupeer: there is no process {pid}\n"));
            continue;
        }
        let document: Value = serde_json::from_slice(&read.stdout).unwrap();
        for process in document["processes"].as_array().unwrap() {
            assert!(process["state"] != "refused", "{document:#}");
        }
    }
}

#[test]
fn a_process_that_frees_its_memory_at_its_end_is_not_refused() {
    for _ in 0..5 {
        let mut waits = Waits::start(of_c("large"), 1);
        let pid = waits.pid();
        waits.child.kill().unwrap();
        // Until it is waited for, it is there: first it ends, and then it has ended.
        wait_for("its end", || {
            let is_over = procfs::process::Process::new(pid as i32).unwrap().stat().unwrap().state == 'Z';
            assert_ne!(process(&json(&[&pid.to_string()]), pid)["state"], "refused");
            is_over
        });
    }
}

#[test]
fn many_readings_change_nothing_in_a_busy_program() {
    let alone = Waits::start(of_c("busy:40"), 1).end();
    assert!(alone.ends_with(", 0 calls interrupted\n"), "{alone}");
    let mut waits = Waits::start(of_c("busy:40"), 1);
    let pid = waits.pid().to_string();
    let mut stopped = 0;
    let readings = std::env::var("READINGS").ok().and_then(|text| text.parse().ok()).unwrap_or(150);
    for _ in 0..readings {
        let document: Value = serde_json::from_str(&stdout(&mut with(&["why", &pid, "--format", "json"]))).unwrap();
        stopped += u32::from(process(&document, waits.pid())["stopped_ns"] != 0);
    }
    assert!(stopped > 0, "it was never read while it ran");
    assert_eq!(waits.end(), alone);
}

#[test]
fn unreadable_processes_are_named_with_the_remedy() {
    let waits = Waits::start(of_c("mutex"), 1);
    let nobody = 65534;
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        return left_out!("only root can become another user");
    }
    let folder = temp_dir();
    let mut command = with(&["why", &waits.pid().to_string()]);
    let done = done(command.uid(nobody).gid(nobody).current_dir("/").env("HOME", folder.path()));
    assert!(done.status.success(), "{}", done.stderr);
    let first = done.stdout.lines().next().unwrap().to_owned();
    assert!(first.contains("may not be read: it runs as root; run 'cupeer why' as root"), "{first}");
    assert!(done.stdout.contains("\n  to permit it: run 'cupeer why' as root"), "{}", done.stdout);
}

#[test]
fn missing_processes_are_refused() {
    let folder = temp_dir();
    let missing = folder.path().join("none").display().to_string();
    let words = done(&mut with(&["why", &missing]));
    assert_eq!(words.status.code(), Some(125), "{words:?}");
    refused(&["why", "1", "nothing"], "name one recording, or pids: 'nothing' is not a pid");
    let mut command = with(&["why"]);
    let words = done(command.env("XDG_STATE_HOME", folder.path()));
    assert!(words.stderr.contains("has a process that runs; name a recording, or pids"), "{words:?}");
}

/// Rank 1 waits for a descriptor that rank 0 never had: its export failed.
#[test]
fn an_export_that_failed_is_what_the_others_wait_for() {
    let program = support::compile_c("programs/unsent.c", &["-ldl"]);
    let source = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/unsent.c")).unwrap();
    let line = |comment: &str| {
        let number = source.lines().position(|line| line.contains(comment)).expect("a line with that comment");
        format!("unsent.c:{}", number + 1)
    };
    let failed = format!(
        " ago: cuMemExportToShareableHandle returned CUDA_ERROR_INVALID_VALUE at {} in sender",
        line("/* fails */")
    );
    for (how, times, who) in [("stays", 2, "; it failed to export "), ("ends", 1, "rank 0 exited with status 1, ")] {
        let folder = temp_dir();
        let record = folder.path().join("r").display().to_string();
        let mut command = cupeer();
        command.args(["run", "-q", "--sim", "--record", "full", "-o", &record, "--"]).arg(&program).arg(how);
        let _waits = Waits::start(command, times);
        let document = answer(&[&record], &["rank 1 ", " in recv at ", who, " failed to export ", &failed]);
        let said = document["answer"].as_str().unwrap();
        assert!(said.starts_with("rank "), "{said}");
    }
    // If a later export succeeded, nobody waits for one.
    let folder = temp_dir();
    let record = folder.path().join("r").display().to_string();
    let mut command = cupeer();
    command.args(["run", "-q", "--sim", "--record", "full", "-o", &record, "--"]).arg(&program).arg("sent");
    let _waits = Waits::start(command, 2);
    let said = answer(&[&record], &["rank 1 ", " in recv at "])["answer"].to_string();
    assert!(!said.contains("failed to export"), "{said}");
}

#[test]
fn a_recording_in_which_nothing_runs_is_said_to_be_over() {
    let folder = temp_dir();
    let mut waits = Waits::start(recorded(folder.path(), &[], "recv"), 2);
    waits.end();
    let record = folder.path().join("r").display().to_string();
    assert_eq!(json(&[&record])["answer"], "no process of the job is running");
}
