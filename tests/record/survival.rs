//! Events survive the program, at whatever moment it ends.

use super::{Random, in_namespaces, only_file, recording};
use crate::programs::{EITHER, Scene, linked, mark_of, open_job, recorded};
use crate::support;
use cupeer_record::{Call, Job, Outcome, Process};
use cupeer_spec::env;
use cupeer_spec::record::{Header, SLOTS};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The threads of counted.c, and how many marks their calls have.
const THREADS: u64 = 4;
const MARKS: u64 = 20_000;

/// A number in a file that a process is writing to; 0 before it is there.
fn number_at(file: &Path, place: u64) -> u64 {
    let mut bytes = [0; 8];
    let read = File::open(file).and_then(|file| file.read_exact_at(&mut bytes, place));
    read.map_or(0, |()| u64::from_le_bytes(bytes))
}

/// Waits until a running process has made something true.
fn until(child: &mut Child, mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        assert!(child.try_wait().unwrap().is_none(), "the program has ended");
        std::thread::yield_now();
    }
}

/// Kills counted.c once at a moment that `random` chooses, after less than `most` calls of a thread, and looks at what there
/// is.
fn kill_once(
    mut command: Command,
    (mode, most): (&str, u64),
    counters: &Path,
    record: &Path,
    grows: bool,
    random: &mut Random,
) {
    let mut child = command.env(env::RECORD, mode).spawn().unwrap();
    let returned = |thread: u64| number_at(counters, 4096 * thread + 8);
    let calls = random.below(most);
    until(&mut child, || returned(0) >= calls);
    if grows {
        let place = core::mem::offset_of!(Header, next_block) as u64;
        until(&mut child, || only_file(record).is_some());
        let file = only_file(record).unwrap();
        let blocks = number_at(&file, place);
        until(&mut child, || number_at(&file, place) != blocks);
    }
    for _ in 0..random.below(20_000) {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
    if (0..THREADS).all(|thread| returned(thread) == 0) {
        // It may not have come so far as to have a record.
        let _ = Job::open(record);
        return;
    }
    let job = open_job(record);
    assert_eq!(job.processes.len(), 1);
    let process = &job.processes[0];
    assert_eq!((process.header.lost, process.header.ended_by), (0, 0));
    let calls = recorded(process);
    for thread in 0..THREADS {
        let tid = number_at(counters, 4096 * thread);
        let returned = returned(thread);
        let own: Vec<&Call> = calls.iter().filter(|call| u64::from(call.tid) == tid).collect();
        let which = format!("thread {thread} of {}", process.path.display());
        assert!(
            mode != "full" || own.len() as u64 == returned || own.len() as u64 == returned + 1,
            "{which}: {returned} calls have returned, and there are {}",
            own.len()
        );
        let marks: Vec<u64> = own.iter().map(|call| mark_of(call).expect("a mark")).collect();
        assert!(mode != "full" || marks.first().is_none_or(|first| *first == 0), "{which}: {:?}", own.first());
        for (pair, mark) in own.windows(2).zip(marks.windows(2)) {
            // In a ring the last blocks are there.
            let is_gap = mode != "full" && pair[1].seq - pair[0].seq > SLOTS as u64;
            assert!(is_gap || mark[1] == (mark[0] + 1) % MARKS, "{which}: {pair:?}");
        }
        for (i, call) in own.iter().enumerate() {
            let is_last = i + 1 == own.len() && marks[i] == returned % MARKS;
            let is_whole = call.outcome == Outcome::Returned(0) && call.end >= call.start;
            assert!(is_whole || is_last && call.outcome == Outcome::Pending, "{which}: {call:?}");
        }
        let last = marks.last().map_or(0, |last| last + 1);
        let is_end = [returned, returned + 1].map(|end| end % MARKS).contains(&(last % MARKS));
        assert!(is_end, "{which}: {returned} calls have returned, and the last one there has the mark {last}");
    }
}

/// "After SIGKILL at 100 random moments, 30 of them while the file grows, the record holds n or n+1 events a thread,
/// none torn." The program sees its record in `written`; it is read in `read`.
fn kill_often(times: u32, mode: (&str, u64), around: impl Fn(Command) -> Option<Command>, written: &Path, read: &Path) {
    let folder = support::temp_dir();
    let mut random = Random::new();
    for time in 0..support::sample(times.div_ceil(3), times) {
        let counters = folder.path().join(format!("counters-{time}"));
        let scene = Scene::new(linked("counted.c", &[])).arg(&counters).arg(THREADS.to_string());
        let name = format!("record-{time}");
        let Some(command) = around(recording(&scene, &written.join(&name))) else { return };
        // A file that has reached its limit does not grow.
        let grows = time % 10 < 3 && mode.0 != LIMITED.0;
        kill_once(command, mode, &counters, &read.join(&name), grows, &mut random);
    }
}

/// Mode of a recording, and the most calls of a thread before it is killed: enough to overwrite all blocks of a ring.
const FULL: (&str, u64) = ("full", 2500);
const RING: (&str, u64) = ("ring:4M", 60_000);
/// The same with a file that has reached its limit.
const LIMITED: (&str, u64) = ("full:4M", 60_000);

#[test]
fn killed_at_any_moment_in_a_ring() {
    let folder = support::temp_dir();
    kill_often(50, RING, Some, folder.path(), folder.path());
}

#[test]
fn killed_at_any_moment_at_the_limit() {
    let folder = support::temp_dir();
    kill_often(50, LIMITED, Some, folder.path(), folder.path());
}

#[test]
fn killed_at_any_moment() {
    let folder = support::temp_dir();
    kill_often(100, FULL, Some, folder.path(), folder.path());
}

#[test]
fn killed_at_any_moment_on_tmpfs() {
    match tempfile::tempdir_in("/dev/shm") {
        Ok(folder) => kill_often(100, FULL, Some, folder.path(), folder.path()),
        Err(error) => left_out!("/dev/shm: {error}"),
    }
}

#[test]
fn killed_at_any_moment_on_overlayfs() {
    let folder = support::temp_dir();
    let part = |name: &str| folder.path().join(name);
    ["lower", "upper", "work", "merged"].iter().for_each(|name| fs::create_dir(part(name)).unwrap());
    let at = folder.path().display();
    let mount =
        format!("mount -t overlay overlay -o lowerdir={at}/lower,upperdir={at}/upper,workdir={at}/work {at}/merged");
    let within = |command: Command| in_namespaces(&["--user", "--map-root-user", "--mount"], &mount, &command);
    kill_often(100, FULL, within, &part("merged"), &part("upper"));
}

/// The calls of ends.c with a mark.
fn ended(how: &str) -> (std::process::ExitStatus, Vec<Call>) {
    let (status, process, calls) = ended_process(how);
    assert_eq!(process.header.lost, 0);
    (status, calls)
}

/// The same with the process.
fn ended_process(how: &str) -> (std::process::ExitStatus, Process, Vec<Call>) {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let mut command = recording(&Scene::new(linked("ends.c", &[])).arg(how), &record);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    if ["hang", "peer"].contains(&how) {
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "within\n");
        let calls = recorded(&open_job(&record).processes[0]);
        assert_eq!(calls.last().map(|call| call.outcome), Some(Outcome::Pending), "before the end");
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    let mut job = open_job(&record);
    assert_eq!(job.processes.len(), 1);
    let calls = recorded(&job.processes[0]);
    (status, job.processes.remove(0), calls)
}

/// The library of a call is described before the call is forwarded, also where that is the first of the process.
#[test]
fn the_library_of_the_very_first_call_is_known_while_it_hangs() {
    let (_, process, calls) = ended_process("peer");
    let [first] = &calls[..] else { panic!("{calls:#?}") };
    assert_eq!(first.outcome, Outcome::Pending);
    let library = process.library_at(first.caller, first.start).expect("the library of the caller");
    assert!(library.path.contains("/ends-"), "{library:?}");
}

fn with_mark(calls: &[Call], mark: u64) -> &Call {
    let mut found = calls.iter().filter(|call| mark_of(call) == Some(mark));
    let first = found.next().unwrap_or_else(|| panic!("no call with mark {mark}: {calls:#?}"));
    assert!(found.next().is_none(), "more than one call with mark {mark}");
    first
}

/// "An entry visible before the call is forwarded."
#[test]
fn a_call_that_is_the_end_of_the_process_is_there() {
    let (killed, exited) = (|signal| (Some(signal), None), |code| (None, Some(code)));
    for (how, end) in [
        ("hang", killed(libc::SIGKILL)),
        ("kill", killed(libc::SIGKILL)),
        ("abort", killed(libc::SIGABRT)),
        ("_exit", exited(7)),
        ("exit", exited(8)),
    ] {
        let (status, calls) = ended(how);
        assert_eq!((status.signal(), status.code()), end, "{how}");
        assert_eq!(with_mark(&calls, 100).outcome, Outcome::Returned(0), "{how}");
        let last = with_mark(&calls, EITHER);
        assert_eq!(last.outcome, Outcome::Pending, "{how}");
        assert!(!last.details.frames.is_empty(), "{how}: no frames");
        assert_eq!(last.details.frames[0], last.caller, "{how}");
        if how == "exit" {
            assert_eq!(with_mark(&calls, 200).outcome, Outcome::Returned(0), "its handlers' calls");
        }
    }
}

#[test]
fn a_call_that_is_left_in_another_way_says_so() {
    for (how, outcome) in [
        ("exception", Outcome::Unwound),
        ("cancel", Outcome::Unwound),
        ("jump", Outcome::Unwound),
        ("deep", Outcome::Unwound),
        ("nested", Outcome::Returned(0)),
        ("thousands", Outcome::Returned(0)),
    ] {
        let (status, calls) = ended(how);
        assert_eq!(status.code(), Some(0), "{how}: {status}");
        let left = with_mark(&calls, EITHER);
        assert_eq!(left.outcome, outcome, "{how}");
        assert_eq!(with_mark(&calls, 400).outcome, Outcome::Returned(0), "{how}");
        if how == "nested" {
            let inner = with_mark(&calls, 300);
            assert!(inner.start >= left.start && inner.end <= left.end, "{inner:?} in {left:?}");
        }
        if how == "thousands" {
            for mark in 1000..4000 {
                assert_eq!(with_mark(&calls, mark).outcome, Outcome::Returned(0));
            }
            let all = calls.iter().filter(|call| mark_of(call) != Some(EITHER) && mark_of(call) >= Some(1000));
            assert!(all.clone().count() == 3000 && all.clone().all(|call| call.end <= left.end));
        }
    }
}

#[test]
fn calls_that_are_left_by_jumps_have_ended() {
    let (status, calls) = ended("jumps");
    assert_eq!(status.code(), Some(0), "{status}");
    let left: Vec<_> = calls.iter().filter(|call| mark_of(call) == Some(EITHER)).collect();
    assert_eq!(left.len(), 100);
    for pair in left.windows(2) {
        assert_eq!(pair[0].outcome, Outcome::Unwound);
        assert!(pair[0].start <= pair[0].end);
    }
    assert_eq!(left[99].outcome, Outcome::Unwound);
    assert_eq!(with_mark(&calls, 400).outcome, Outcome::Returned(0));
}

/// Not where its frame is below others of the thread, as that of one that was left is: it goes on later.
#[test]
fn a_call_that_waits_on_another_stack_has_not_ended() {
    for how in ["aside", "coroutine"] {
        let (status, calls) = ended(how);
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{how}");
        assert_eq!(with_mark(&calls, EITHER).outcome, Outcome::Pending, "{how}");
        let others = calls.iter().filter(|call| mark_of(call) == Some(300));
        assert!(others.clone().count() == 2 && others.clone().all(|call| call.outcome == Outcome::Returned(0)));
    }
}

#[test]
fn an_exception_of_the_program_goes_through() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let scene = Scene::new(linked("exception.cpp", &["-lstdc++"]));
    assert!(support::done(&mut recording(&scene, &record)).status.success());
    let calls = recorded(&open_job(&record).processes[0]);
    let outcomes: Vec<_> = [100, EITHER, 101].iter().map(|mark| with_mark(&calls, *mark).outcome).collect();
    assert_eq!(outcomes, [Outcome::Returned(0), Outcome::Unwound, Outcome::Returned(0)]);
}
