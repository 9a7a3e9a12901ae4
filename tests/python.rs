//! The lines of Python that calls come from, in every interpreter that this machine has: against what Python itself says.

mod report;
mod survival;

use crate::support::{Done, done, plain, temp_dir, with};
use cupeer_record::{Event, Job};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The versions whose frames are read.
const VERSIONS: [&str; 6] = ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"];

/// A frame: file, line, function.
type Frame = (String, u32, String);

/// A program of `tests/programs`.
fn program(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).display().to_string()
}

/// The interpreters of this machine, `python3` first: those on the PATH by their versions, and pyenv's. Each real one once.
pub fn interpreters() -> Vec<PathBuf> {
    // The second one is free-threaded.
    let names = |version| [format!("python{version}"), format!("python{version}t")];
    let named = VERSIONS.iter().flat_map(names).map(PathBuf::from);
    let pyenv = plain("pyenv").arg("root").output().ok().filter(|output| output.status.success());
    let root = pyenv.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let versions = root.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
    let kept = versions.into_iter().flatten().flatten().map(|entry| entry.path().join("bin/python"));
    let debian = ["/usr/bin/python3".into()];
    let mut found = BTreeMap::new();
    for path in [PathBuf::from("python3")].into_iter().chain(debian).chain(named).chain(kept) {
        let ask = "import os, sys; print('%d.%d' % sys.version_info[:2], os.path.realpath(sys.executable), \
                   sys.implementation.name)";
        let Ok(output) = plain(&path).args(["-c", ask]).output() else { continue };
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        let words: Vec<&str> = answer.split_whitespace().collect();
        if let [version, executable, "cpython"] = words[..]
            && VERSIONS.contains(&version)
        {
            let next = found.len();
            found.entry(executable.to_owned()).or_insert((next, path));
        }
    }
    let mut found: Vec<(usize, PathBuf)> = found.into_values().collect();
    found.sort();
    assert!(!found.is_empty(), "there is no python3 of a version that is read");
    found.into_iter().map(|(_, path)| path).collect()
}

/// The frames of Python of all calls of a function in a record, by thread and in the order of their slots; `None` for a call
/// without.
fn recorded(record: &Path, function: &str) -> Vec<Vec<Frame>> {
    let job = Job::open(record).expect("a recording");
    let mut all = Vec::new();
    for process in &job.processes {
        for event in process.events().expect("events") {
            let Event::Call(call) = event else { continue };
            if process.function_name(call.number) != function {
                continue;
            }
            let frame = |line: &cupeer_spec::record::slot::PythonLine| {
                let function = &process.python[&line.function];
                (function.file.clone(), line.line, function.name.clone())
            };
            all.push(call.details.python.iter().map(frame).collect());
        }
    }
    all
}

/// Returns the frames of each call, as the program printed them.
fn printed(stdout: &str) -> Vec<Vec<Frame>> {
    stdout.lines().map(|line| serde_json::from_str(line).expect("a stack")).collect()
}

/// Runs a program with the simulated driver, which has to end well. Gives what it said, and the frames of each export.
#[track_caller]
fn frames_of(add: impl FnOnce(&mut Command)) -> (Done, Vec<Vec<Frame>>) {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut command = with(&["run", "--sim", "--check=off", "-o", &record.display().to_string(), "--"]);
    add(&mut command);
    let ended = done(&mut command);
    assert!(ended.status.success(), "{command:?}: {}", ended.stderr);
    (ended, recorded(&record, "cuIpcGetMemHandle"))
}

#[test]
fn a_call_has_the_lines_that_python_has() {
    for python in interpreters() {
        let (ended, got) = frames_of(|command| {
            command.arg(&python).arg(program("python_frames.py")).env("PYTHONUTF8", "1");
        });
        let expected = printed(&ended.stdout);
        assert!(expected.len() > 80 && got.len() == expected.len(), "{}: {}", python.display(), got.len());
        for (expected, got) in expected.iter().zip(&got) {
            let expected = &expected[..expected.len().min(24)];
            assert_eq!(got, expected, "{}", python.display());
        }
    }
}

#[test]
fn an_interpreter_within_another_has_its_own() {
    for python in interpreters() {
        let (ended, got) = frames_of(|command| {
            command.arg(&python).arg(program("python_within.py"));
        });
        if ended.stdout.starts_with("left out") {
            left_out!("{}: {}", python.display(), ended.stdout);
            continue;
        }
        let inner = |frames: &Vec<Frame>| -> Vec<(u32, String)> {
            frames.iter().map(|(_, line, function)| (*line, function.clone())).collect()
        };
        let expected = vec![(4, "within".to_owned()), (5, "<module>".to_owned())];
        assert_eq!(got.iter().map(inner).collect::<Vec<_>>(), [expected], "{}", python.display());
    }
}

#[test]
fn each_of_many_threads_has_its_lines() {
    let threads = "import ctypes, threading; cuda = ctypes.CDLL('libcuda.so.1'); cuda.cuInit(0)\n\
                   barrier = threading.Barrier(300); threading.stack_size(1 << 18)\n\
                   def call():\n  \
                     barrier.wait(); cuda.cuIpcGetMemHandle((ctypes.c_char * 64)(), ctypes.c_uint64(4)); barrier.wait()\n\
                   all = [threading.Thread(target=call) for _ in range(300)]\n\
                   [thread.start() for thread in all]; [thread.join() for thread in all]";
    let (_, got) = frames_of(|command| {
        command.args(["python3", "-c", threads]);
    });
    assert_eq!(got.len(), 300);
    for frames in got {
        let (file, line, function) = &frames[0];
        assert_eq!((file.as_str(), *line, function.as_str()), ("<string>", 4, "call"));
        assert_eq!(frames.last().expect("a frame").2, "_bootstrap");
    }
}

#[test]
fn frames_of_more_functions_than_are_kept_are_complete() {
    let many = "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); cuda.cuInit(0)\n\
                def call(): cuda.cuIpcGetMemHandle((ctypes.c_char * 64)(), ctypes.c_uint64(4))\n\
                for i in range(9000): exec(f'def of_{i}(): call()\\nof_{i}()')";
    let (_, got) = frames_of(|command| {
        command.args(["python3", "-c", many]).env("PYTHONUTF8", "1");
    });
    assert_eq!(got.len(), 9000);
    let mut cut = 0;
    for (index, frames) in got.iter().enumerate() {
        let names: Vec<&str> = frames.iter().map(|(_, _, function)| function.as_str()).collect();
        let own = format!("of_{index}");
        let expected = ["call", &own, "<module>", "<module>"];
        assert!(expected.starts_with(&names), "{index}: {names:?}");
        cut += usize::from(names.len() < expected.len());
    }
    assert!(cut > 0 && cut < 4500, "{cut}");
}

#[test]
fn nothing_is_said_of_python_where_nobody_wants_it() {
    let (_, got) = frames_of(|command| {
        command.arg("python3").arg(program("python_frames.py")).env("CUPEER_PYTHON", "0");
    });
    assert!(got.len() > 80 && got.iter().all(Vec::is_empty));
}

#[test]
fn a_filter_decides_what_can_be_read() {
    let sealed = crate::programs::program("sealed.c", &[]);
    // No call has the last number.
    for (refused, has_lines) in [(libc::SYS_process_vm_writev, false), (libc::SYS_process_vm_readv, true), (4000, true)]
    {
        let (_, got) = frames_of(|command| {
            command.arg(&sealed).args([&refused.to_string(), "/usr/bin/env", "python3"]);
            command.arg(program("python_frames.py"));
        });
        assert!(got.len() > 80 && got.iter().all(|frames| frames.is_empty() != has_lines), "{refused}");
    }
}
