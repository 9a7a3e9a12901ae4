//! Interpreters that begin and end, and programs that are killed or interrupted while frames of Python are read.

use super::{interpreters, program, recorded};
use crate::support::{compile_c, done, names, plain, rounds, sim_dir, temp_dir, wait_for, with};
use cupeer_record::{Event, Job};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A program that makes calls until it is told otherwise, once it has begun.
fn begun(python: &Path, record: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let run = ["run", "--sim", "--check=off", "--record=ring:1M", "-o", record, "--"];
    let mut command: Command = with(&run);
    command.arg(python).arg(program("python_on.py")).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    assert_eq!(line, "begun\n", "{}", python.display());
    (child, lines)
}

/// The process that makes the calls: the command's child.
fn inner(child: &Child) -> i32 {
    let path = format!("/proc/{0}/task/{0}/children", child.id());
    let children = std::fs::read_to_string(path).expect("its children");
    children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("a child")
}

/// Returns the number of calls in a recording of a process that continues.
fn calls(record: &Path) -> usize {
    let job = Job::open(record).expect("a recording");
    let events = job.processes.iter().filter_map(|process| process.events().ok()).flatten();
    events.filter(|event| matches!(event, Event::Call(_))).count()
}

#[test]
fn killed_processes_leave_complete_frames() {
    let python = &interpreters()[0];
    let mut looked = 0;
    for round in 0..rounds(6) {
        let folder = temp_dir();
        let record = folder.path().join("record");
        let (mut child, _) = begun(python, &record.display().to_string());
        wait_for("a recording", || record.exists() && names(&record).iter().any(|name| name.ends_with(".cupeer")));
        std::thread::sleep(Duration::from_micros(u64::from(round * 2711 % 40_000)));
        // On a slow machine the others may come before the first call.
        if round == 0 {
            wait_for("calls", || calls(&record) > 10);
        }
        // SAFETY: a child of a child that still runs.
        unsafe { libc::kill(inner(&child), libc::SIGKILL) };
        child.wait().expect("its end");
        let job = Job::open(&record).expect("a recording");
        // Nothing, where it was about to make its record.
        let Some(process) = job.processes.first() else { continue };
        assert_eq!(process.problem, None);
        // Each stack ends with those of the two threads, or was never written.
        let all = recorded(&record, "cuIpcGetMemHandle");
        let ends = ["<module>", "_bootstrap"];
        let is_whole = |frames: &&Vec<(String, u32, String)>| {
            frames.last().is_some_and(|(_, _, name)| ends.contains(&name.as_str()))
        };
        let whole = all.iter().filter(is_whole).count();
        assert!(all.len() < 10 || whole + 2 >= all.len(), "{whole} of {}", all.len());
        looked += all.len();
    }
    assert!(looked > 0);
}

#[test]
fn signals_change_nothing() {
    for python in interpreters() {
        let folder = temp_dir();
        let record = folder.path().join("record").display().to_string();
        let (mut child, mut lines) = begun(&python, &record);
        let process = inner(&child);
        for round in 0..rounds(100) {
            // SAFETY: a child of a child, which makes calls until the other signal comes.
            assert_eq!(unsafe { libc::kill(process, libc::SIGUSR1) }, 0);
            std::thread::sleep(Duration::from_micros(u64::from(round * 977 % 3000)));
        }
        // SAFETY: as before.
        assert_eq!(unsafe { libc::kill(process, libc::SIGUSR2) }, 0);
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        assert_eq!(line, "done\n", "{}", python.display());
        assert!(child.wait().expect("its end").success(), "{}", python.display());
        for frames in recorded(Path::new(&record), "cuIpcGetMemHandle") {
            let functions: Vec<&str> = frames.iter().map(|(_, _, name)| name.as_str()).collect();
            assert_eq!(functions.first(), Some(&"one"), "{}", python.display());
            // Handlers within handlers make stacks longer than what is kept.
            let is_cut = functions.len() == 24;
            let ends = ["<module>", "_bootstrap"];
            assert!(is_cut || ends.contains(functions.last().expect("one")), "{functions:?}");
        }
    }
}

#[test]
fn an_interpreter_may_end_at_any_time() {
    let program = compile_c("programs/embeds.c", &["-O1", "-pthread", "-ldl", "-rdynamic"]);
    let mut had = 0;
    for python in interpreters() {
        let ask = "import sysconfig as s; print(s.get_config_var('LIBDIR') + '/' + s.get_config_var('INSTSONAME'), \
                   s.get_config_var('prefix'))";
        let answer =
            String::from_utf8_lossy(&plain(&python).args(["-c", ask]).output().expect("it runs").stdout).into_owned();
        let words: Vec<&str> = answer.split_whitespace().collect();
        let [library, home] = words[..] else { continue };
        if !library.contains(".so") || !Path::new(library).exists() {
            continue;
        }
        let rounds = rounds(4).to_string();
        let arguments = [library, &rounds, "2"];
        let mut alone = plain(&program);
        alone.args(arguments).env("PYTHONHOME", home).env("LD_LIBRARY_PATH", sim_dir());
        if !alone.output().expect("it runs").status.success() {
            left_out!("{} does not survive its own end", python.display());
            continue;
        }
        had += 1;
        let folder = temp_dir();
        let record = folder.path().join("record");
        let out = record.display().to_string();
        let run = ["run", "--sim", "--check=off", "--record=ring:4M", "-o", &out, "--"];
        let ended = done(with(&run).arg(&program).args(arguments).env("PYTHONHOME", home));
        assert!(ended.status.success(), "{}: {:?} {}", python.display(), ended.status, ended.stderr);
        // Threads without Python have none of its frames, the others have all.
        let all = recorded(&record, "cuIpcGetMemHandle");
        assert!(all.iter().any(Vec::is_empty) && all.iter().any(|frames| frames.len() > 2), "{}", python.display());
    }
    if had == 0 {
        left_out!("no interpreter of this machine is a shared library");
    }
}
