//! Size of a recording: windows of ended threads are reused, and a ring keeps its size.

use super::recording;
use crate::programs::{Scene, linked, mark_of, open_job, recorded};
use crate::support::{self, done, stdout};
use cupeer_record::{Job, Outcome};
use cupeer_spec::env;
use cupeer_spec::record::{BLOCK, live};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn crowd(total: u32, at_once: u32, calls: u32) -> Scene {
    Scene::new(linked("crowd.c", &[])).args(&[total, at_once, calls].map(|n| n.to_string()).each_ref().map(|s| &s[..]))
}

/// The calls of each stretch of a stream that one thread wrote are those of crowd.c.
#[track_caller]
fn assert_all_there(job: &Job, threads: usize, calls: u64) {
    let [process] = &job.processes[..] else { panic!("{:?}", job.processes) };
    assert_eq!(process.header.lost, 0);
    let mut marks: BTreeMap<u64, usize> = BTreeMap::new();
    let mut threads_seen = std::collections::HashSet::new();
    for call in recorded(process) {
        assert_eq!(call.outcome, Outcome::Returned(0));
        *marks.entry(mark_of(&call).unwrap()).or_default() += 1;
        threads_seen.insert(call.tid);
    }
    assert_eq!(marks, (1..=calls).map(|mark| (mark, threads)).collect());
    assert_eq!(threads_seen.len(), threads, "each thread under its own number");
}

#[test]
fn threads_that_come_and_go_share_windows() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    assert_eq!(stdout(&mut recording(&crowd(300, 1, 5), &record)), "done\n");
    let job = open_job(&record);
    assert_all_there(&job, 300, 5);
    let size = std::fs::metadata(&job.processes[0].path).unwrap().len();
    // The begin, a window, and what it has become full of.
    assert!(size <= 8 * BLOCK as u64, "{size}");
}

/// Most processes call a few times: what they leave is as small.
#[test]
fn small_processes_keep_small_files() {
    let folder = support::temp_dir();
    for (calls, most) in [(1, 40), (100, 40), (260, 96), (1500, 200), (5000, 1000)] {
        let record = folder.path().join(calls.to_string());
        assert_eq!(stdout(&mut recording(&crowd(1, 1, calls), &record)), "done\n");
        let job = open_job(&record);
        assert_all_there(&job, 1, u64::from(calls));
        // Size on the disk, in units of 512 bytes.
        let kib = std::fs::metadata(&job.processes[0].path).unwrap().blocks() / 2;
        assert!(kib <= most, "{calls} calls take {kib} KiB");
    }
}

#[test]
fn a_hundred_threads_at_once() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    assert_eq!(stdout(&mut recording(&crowd(300, 100, 600), &record)), "done\n");
    let job = open_job(&record);
    assert_all_there(&job, 300, 600);
    let size = std::fs::metadata(&job.processes[0].path).unwrap().len();
    let needed = 300 * 600 * 64 + 101 * BLOCK as u64;
    assert!(size < 2 * needed, "{size} for {needed}");
}

/// "A ring of 16 MiB under a program that opens and closes a million handles stays 16 MiB, and every handle still
/// open is in its report."
#[test]
fn a_ring_stays_as_large_as_it_is() {
    const SIZE: u64 = 16 << 20;
    const KEPT: u64 = 500;
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let scene =
        Scene::new(linked("handles.c", &[])).args(&[support::sample("100000", "250000"), &KEPT.to_string(), "4"]);
    let shown = stdout(recording(&scene, &record).env(env::RECORD, "ring:16M"));
    assert_eq!(shown, format!("open: {}\n", 4 * KEPT));
    let job = open_job(&record);
    let [process] = &job.processes[..] else { panic!("{:?}", job.processes) };
    assert_eq!(std::fs::metadata(&process.path).unwrap().len(), SIZE);
    assert_eq!((process.header.lost, process.header.ended_by), (0, 0));
    let mut open: Vec<u64> =
        job.tables[0].entries.iter().filter(|e| e.kind == live::kind::OPENED_MEMORY).map(|e| e.address).collect();
    open.sort();
    let wanted: Vec<u64> = (0..4).flat_map(|thread| (0..KEPT).map(move |i| 70000 + 10000 * thread + i)).collect();
    assert_eq!(open, wanted);
    assert!(job.tables[0].entries.iter().all(|entry| entry.frame_count > 0));
    // The last calls are there: of each thread, in its order, without a gap.
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    let calls = recorded(process);
    assert!(calls.len() > 20_000, "{}", calls.len());
    for call in &calls {
        assert_eq!(call.outcome, Outcome::Returned(0), "{call:?}");
        assert!(last.insert(call.stream, call.seq).is_none_or(|before| before < call.seq));
    }
}

#[test]
fn a_ring_that_is_too_small_for_its_threads_says_so() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let done = done(recording(&crowd(200, 100, 2000), &record).env(env::RECORD, "ring:1M"));
    assert!(done.status.success() && done.stdout == "done\n", "{}", done.stderr);
    assert!(
        done.stderr.lines().count() == 1
            && done.stderr.contains(
                " threads: each thread that calls needs 128 KiB of it; calls of the others are lost. Record with ring:"
            ),
        "{}",
        done.stderr
    );
    let job = open_job(&record);
    let process = &job.processes[0];
    assert!(process.header.lost > 0);
    // The number of the remedy is enough, for the threads that there were.
    let report = support::stdout(support::with(&["report", "--format", "json"]).arg(&record));
    let how = "is without the calls of some threads: its ring has room for 7 threads at a time, because each one that calls needs 128 KiB; record with ring:2M or more";
    assert!(report.contains(how) && !report.contains("os error"), "{report}");
    assert_eq!(std::fs::metadata(&process.path).unwrap().len(), 1 << 20);
    let calls = recorded(process);
    assert!(!calls.is_empty() && calls.iter().all(|call| call.outcome == Outcome::Returned(0)));
}

#[test]
fn a_ring_whose_threads_come_and_go_loses_nothing() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let command = &mut recording(&crowd(300, 5, 100), &record);
    assert_eq!(stdout(command.env(env::RECORD, "ring:4M")), "done\n");
    let job = open_job(&record);
    assert_eq!(job.processes[0].header.lost, 0);
    assert!(Path::new(&job.processes[0].path).metadata().unwrap().len() == 4 << 20);
    assert!(recorded(&job.processes[0]).len() > 1000);
}

/// It has left two blocks of one stream: each goes to one thread, and the stream to one of them.
#[test]
fn a_thread_that_ends_within_an_interrupted_call_leaves_its_stream_to_one() {
    const CALLS: u64 = 4000;
    for mode in ["ring:4M", "full"] {
        let folder = support::temp_dir();
        let record = folder.path().join("record");
        let scene = Scene::new(linked("left.c", &["-rdynamic"])).args(&[&CALLS.to_string()]);
        let done = done(recording(&scene, &record).env(env::RECORD, mode));
        assert_eq!((&done.stdout[..], &done.stderr[..]), ("interrupted\ndone\n", ""), "{mode}");
        let job = open_job(&record);
        assert_eq!(job.processes[0].header.lost, 0, "{mode}");
        let mut marks: BTreeMap<u64, u64> = BTreeMap::new();
        let mut numbers = std::collections::HashSet::new();
        for call in recorded(&job.processes[0]).iter().filter(|call| call.outcome == Outcome::Returned(0)) {
            *marks.entry(mark_of(call).unwrap()).or_default() += 1;
            assert!(numbers.insert((call.stream, call.seq)), "{mode}: {call:?}");
        }
        // The first thread has called once before.
        let wanted = (1..=CALLS).map(|mark| (mark, if mark == 1 { 4 } else { 3 }));
        assert_eq!(marks, wanted.collect(), "{mode}");
    }
}
