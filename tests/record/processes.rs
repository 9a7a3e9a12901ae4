//! Each process has its own file, whatever way it came into being, and leaves nothing else behind.

use super::{in_namespaces, recording, take_environment};
use crate::programs::{EITHER, Scene, linked, mark_of, open_job, program, recorded};
use crate::support;
use cupeer_record::{Job, Outcome, Process};
use std::collections::HashSet;
use std::fs;
use std::path::Path;

fn marks(process: &Process) -> Vec<u64> {
    recorded(process).iter().filter_map(mark_of).collect()
}

/// The job of kin.c, and the directory that it is in.
fn kin(how: &str) -> (tempfile::TempDir, Option<Job>) {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let done = support::done(&mut recording(&Scene::new(linked("kin.c", &[])).arg(how), &record));
    assert!(done.status.success() && done.stderr.is_empty(), "{how}: {} {}", done.stdout, done.stderr);
    let job = record.exists().then(|| open_job(&record));
    (folder, job)
}

fn all_marks(job: &Job) -> Vec<Vec<u64>> {
    let mut all: Vec<_> = job.processes.iter().map(marks).collect();
    all.sort();
    all
}

#[test]
fn processes_without_calls_leave_nothing() {
    let (folder, job) = kin("none");
    assert!(job.is_none() && fs::read_dir(folder.path()).unwrap().count() == 0);
    let (folder, job) = kin("silent");
    assert_eq!(all_marks(&job.unwrap()), [[10]]);
    let mut names: Vec<_> = fs::read_dir(folder.path().join("record"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() == 3 && names[0].ends_with(".cupeer") && names[1] == "job", "{names:?}");
    assert!(names[2].starts_with("live-"), "{names:?}");
}

#[test]
fn processes_that_had_the_same_number_have_a_file_each() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let scene = Scene::new(program("namesakes.c", &[])).arg("5").arg(linked("kin.c", &[])).arg("silent");
    let done = support::done(&mut recording(&scene, &record));
    if done.status.code() == Some(77) {
        return left_out!("this user chooses no process numbers: {}", done.stderr);
    }
    assert!(done.status.success() && done.stderr.is_empty(), "{} {}", done.stdout, done.stderr);
    let job = open_job(&record);
    assert_eq!(all_marks(&job), [[10], [10], [10], [10], [10]]);
    let number: u32 = done.stdout.lines().last().unwrap().parse().unwrap();
    assert!(job.processes.iter().all(|process| process.header.pid == number));
    let text = support::stdout(support::cupeer().arg("report").arg(&record));
    assert!((1..=5).all(|nth| text.contains(&format!("{number}#{nth} "))), "{text}");
    assert!(job.are_alive().iter().all(|alive| *alive == Some(false)));
}

/// "A new file after fork and clone, noticed without a system call a call."
#[test]
fn a_cloned_process_has_its_own_file() {
    let (_folder, job) = kin("clone");
    let job = job.unwrap();
    assert_eq!(all_marks(&job), [[10], [30]]);
    let (parent, child) = match &job.processes[..] {
        [a, b] if b.header.parent == a.header.pid => (a, b),
        [b, a] => (a, b),
        others => panic!("{others:?}"),
    };
    assert_eq!(child.header.parent, parent.header.pid);
    assert_ne!(child.header.pid, parent.header.pid);
    assert_eq!(child.header.key_check, parent.header.key_check);
}

/// "A vfork child counts as its parent."
#[test]
fn a_child_of_vfork_counts_as_its_parent() {
    let (_folder, job) = kin("vfork");
    let job = job.unwrap();
    let [process] = &job.processes[..] else { panic!("{:?}", job.processes) };
    assert_eq!(process.header.lost, 0);
    let mut marks = marks(process);
    marks.sort();
    let wanted: Vec<u64> = [10, 20].into_iter().chain(1000..3000).chain(5000..6000).collect();
    assert_eq!(marks, wanted);
    // No thread wrote into the place of another.
    for call in recorded(process) {
        let is_own = if mark_of(&call) >= Some(5000) { call.tid != process.header.pid } else { true };
        assert!(is_own && call.outcome == Outcome::Returned(0), "{call:?}");
    }
}

/// "The same pid and start gets another file name."
#[test]
fn an_executed_program_has_its_own_file() {
    let (_folder, job) = kin("exec");
    let job = job.unwrap();
    let mut processes: Vec<_> = job.processes.iter().collect();
    processes.sort_by_key(|process| process.header.image);
    let [first, second] = processes[..] else { panic!("{processes:?}") };
    assert_eq!((marks(first), marks(second)), (vec![10], vec![40]));
    assert_eq!((first.header.image, second.header.image), (0, 1));
    assert_eq!((first.header.pid, first.header.started), (second.header.pid, second.header.started));
    assert_eq!(second.proc, format!("{}-1", first.proc));
    assert_eq!(second.arguments[1], "again");
    assert_eq!(job.are_alive(), [Some(false), Some(false)]);
}

#[test]
fn a_fork_within_a_call_ends_it_once() {
    let (_folder, job) = kin("inside");
    assert_eq!(all_marks(&job.unwrap()), [vec![50], vec![EITHER, 50]]);
}

fn shared_memory() -> HashSet<std::ffi::OsString> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.file_name());
    // Other tests have their directories there.
    entries.filter(|name| !name.as_encoded_bytes().starts_with(b".tmp")).collect()
}

/// "64 processes, each forking 10 children, half of them killed, in two pid namespaces: the report holds all of them
/// apart, with no file handle or shared memory left behind."
#[test]
fn processes_of_two_pid_namespaces_are_apart() {
    const PROCESSES: usize = 64;
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let before = shared_memory();
    let scene = Scene::new(linked("brood.c", &[])).arg("10");
    let mut all = String::new();
    for i in 0..PROCESSES / 2 {
        all += &format!("\"$@\" & p{i}=$!; ");
    }
    for i in 0..PROCESSES / 2 {
        all += &format!("wait $p{i} || exit 1; ");
    }
    let half = |record: &Path| {
        let program = recording(&scene, record);
        let mut shell = support::plain("sh");
        shell.args(["-c", &all, "sh"]).arg(program.get_program()).args(program.get_args());
        take_environment(&mut shell, &program);
        shell
    };
    let mut commands = vec![half(&record)];
    let flags = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    match in_namespaces(&flags, "true", &half(&record)) {
        Some(command) => commands.push(command),
        None => commands.push(half(&record)),
    }
    let namespaces = if commands[1].get_program() == "unshare" { 2 } else { 1 };
    let children: Vec<_> = commands.iter_mut().map(|command| command.spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let job = open_job(&record);
    assert_eq!(job.processes.len(), PROCESSES * 11);
    let names: HashSet<_> = job.processes.iter().map(|process| &process.proc).collect();
    assert_eq!(names.len(), PROCESSES * 11);
    let (mut parents, mut children) = (0, 0);
    for process in &job.processes {
        assert_eq!(process.header.lost, 0);
        let marks = marks(process);
        parents += usize::from(marks == [10, 11, 12]);
        children += usize::from(marks == [100, 101, 102, 103, 104]);
    }
    assert_eq!((parents, children), (PROCESSES, PROCESSES * 10));
    let keys: HashSet<_> = job.processes.iter().map(|process| process.header.key_check).collect();
    assert_eq!(keys.len(), 1);
    let found: HashSet<_> = job.processes.iter().map(|process| process.header.pid_ns).collect();
    assert_eq!(found.len(), namespaces);
    let entries = fs::read_dir(&record).unwrap().count();
    assert_eq!(entries, PROCESSES * 11 + 2, "something beside the processes' files, job and the live table");
    assert_eq!(shared_memory(), before);
    assert!(job.are_alive().iter().all(|alive| *alive != Some(true)));
}
