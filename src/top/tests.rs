//! Tests of the way from a sample to the screen, without files and without a terminal.

use super::assemble::{PreviousSample, build_document};
use super::document::Document;
use super::keys::Key;
use super::memory::{MemoryPiece, MemorySnapshot};
use super::view::{KeyRequest, Page, ViewState};
use super::{draw, pause_after_sample};
use crate::args::Sort;
use cupeer_record::tail::Counts;
use cupeer_record::writer::{About, Writer};
use cupeer_record::{Device, MemoryHolder, MemorySample, Process};
use cupeer_recordings::live::{JobSample, LiveSample, ProcessSample};
use cupeer_report::model::{Exit, ExitKind};
use cupeer_spec::record::live::{self, kind};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn uuid(device: u8) -> [u8; 16] {
    [0xc0, 0x9e, 0xe2, 0, 0x51, 0x30, 0x4d, 0x0e, 0xb0, 0x0d, 0, 0, 0, 0, 0, device]
}

fn process(rank: u32) -> ProcessSample {
    let about = About { pid: 4000 + rank, ..About::default() };
    let header = Process::from_bytes("x", Writer::in_memory(about).into_bytes()).unwrap().header;
    let device = |ordinal: u8| Device {
        ordinal: ordinal.into(),
        uuid: uuid(ordinal),
        pci: format!("0000:1{ordinal}:00.0"),
        name: "NVIDIA H200".into(),
    };
    let calls = 1000 * u64::from(rank);
    ProcessSample {
        proc: format!("proc-{rank}"),
        header,
        program: "/opt/train/bin/trainer".into(),
        rank: Some(rank),
        devices: vec![device(0), device(1)],
        visible_devices: None,
        exit: Exit { kind: ExitKind::Running, code: None, signal: None, immediate: false },
        counts: Counts { calls, failed: 0 },
        recent_counts: Counts { calls: 10, failed: 0 },
        productive_calls: 0,
        is_complete: true,
        unreturned: Vec::new(),
        hang_activity: None,
    }
}

fn entry(kind: u32, of: &ProcessSample, fingerprint: u64, bytes: u64) -> live::Entry {
    let header = &of.header;
    let (pid_ns, pid, started, image) = (header.pid_ns, header.pid, header.started, header.image);
    let (rank, count, address) = (of.rank.unwrap_or(u32::MAX), 1, fingerprint << 32);
    let uuid = uuid((pid % 2) as u8);
    let empty = live::Entry::from_words([0; live::WORDS]);
    live::Entry { kind, pid_ns, pid, started, image, rank, count, address, uuid, fingerprint, bytes, ..empty }
}

/// Ranks, each of which shares memory and holds that of the next one.
fn job(count: u32) -> JobSample {
    let processes: Vec<ProcessSample> = (0..count).map(process).collect();
    let mut entries = Vec::new();
    for (i, process) in processes.iter().enumerate() {
        let (own, next) = (1 + i as u64, 1 + (i as u64 + 1) % u64::from(count));
        entries.push(entry(kind::EXPORTED_MEMORY, process, own, own * MIB));
        entries.push(entry(kind::OPENED_MEMORY, process, next, next * MIB));
    }
    JobSample { name: "trainer-12".into(), path: "/home/user/r".into(), processes, entries, ..JobSample::default() }
}

fn reading(jobs: Vec<JobSample>, at: Instant) -> LiveSample {
    let (time_ns, unseen) = (1_763_710_982_000_000_000, Vec::new());
    LiveSample { time_ns, at, jobs, unseen }
}

/// One that hangs, one that died, and what is not seen.
fn troubled(count: u32) -> Document {
    let at = Instant::now();
    let before = PreviousSample::of(&reading(vec![job(count)], at));
    let mut job = job(count);
    job.processes[2].unreturned = vec![
        ("cuIpcOpenMemHandle_v2".into(), 4002, Some(12_345_000_000)),
        ("cuCtxSynchronize".into(), 4090, Some(90_000)),
    ];
    job.processes[1].exit = Exit { kind: ExitKind::Signal, code: None, signal: Some(9), immediate: false };
    job.processes[3].counts.failed = 3;
    job.processes[3].is_complete = false;
    for (i, process) in job.processes.iter_mut().enumerate() {
        process.recent_counts.calls += 500 * i as u64;
    }
    job.unseen = vec!["the live table is full: 7 exports and openings are not in it".into()];
    build_document(&reading(vec![job], at + Duration::from_secs(2)), &MemorySnapshot::default(), Some(&before))
}

#[test]
fn holders_and_owners_of_memory() {
    let mut job = job(3);
    let [a, b, c] = [0, 1, 2].map(|i| (job.processes[i].header.pid, job.processes[i].proc.clone()));
    // A second opening of the same piece, one of an export that nobody knows, and a second handle of the same memory.
    job.entries.push(entry(kind::OPENED_MEMORY, &job.processes[2], 2, 2 * MIB));
    job.entries.push(entry(kind::OPENED_MEMORY, &job.processes[0], 99, 5 * MIB));
    let again = entry(kind::EXPORTED_MEMORY, &job.processes[0], 77, MIB);
    job.entries.push(live::Entry { address: job.entries[0].address, ..again });
    job.entries.push(entry(kind::PEER, &job.processes[0], 0, 0));
    let document = build_document(&reading(vec![job], Instant::now()), &MemorySnapshot::default(), None);
    let rows = &document.processes;
    assert_eq!([rows[0].shared_bytes, rows[1].shared_bytes, rows[2].shared_bytes], [MIB, 2 * MIB, 3 * MIB]);
    assert_eq!([rows[0].exports, rows[0].peers, rows[0].openings, rows[2].openings], [1, 1, 2, 2]);
    let held = |row: usize| -> Vec<(u32, u64)> {
        rows[row].held_by.iter().map(|hold| (hold.who.as_ref().unwrap().pid, hold.bytes)).collect()
    };
    assert_eq!(held(0), [(c.0, MIB)]);
    assert_eq!(held(1), [(a.0, 2 * MIB), (c.0, 2 * MIB)]);
    assert_eq!(held(2), [(b.0, 3 * MIB)]);
    // Each piece once, however many hold it.
    assert_eq!([rows[1].held_bytes, rows[0].holds_bytes], [2 * MIB, 7 * MIB]);
    assert!(rows[0].holds.iter().any(|hold| hold.who.is_none() && hold.bytes == 5 * MIB));
    assert_eq!(rows[0].calls_per_second, None);
    let device = |i: usize| {
        let device = &document.devices[i];
        (device.exports, device.shared_bytes, device.held_bytes, device.openings, device.holders.len())
    };
    assert_eq!(device(0), (2, 4 * MIB, 9 * MIB, 3, 3));
    assert_eq!(device(1), (1, 2 * MIB, 2 * MIB, 2, 2));
}

/// Three ranks that have memory of device 0, of which NVML knows one by a pid of the host, and another job's process.
fn short_of_memory(has_nvml: bool) -> Document {
    let reading = reading(vec![job(3)], Instant::now());
    let piece = |rank: usize, gib: u64, place: &str, holders: &[&str]| MemoryPiece {
        job: "trainer-12".into(),
        proc: format!("proc-{rank}"),
        device: uuid(0),
        bytes: gib << 30,
        count: 2 * gib,
        place: Some(place.into()),
        holders: holders.iter().map(|proc| (*proc).to_owned()).collect(),
    };
    let pieces = vec![
        piece(0, 2, "prog.c:9 in setup", &[]),
        piece(0, 4, "prog.c:7 in main", &[]),
        piece(1, 3, "prog.c:7 in main", &["proc-2"]),
        piece(2, 1, "prog.c:3 in cache", &[]),
        MemoryPiece { proc: "unknown".into(), ..piece(0, 9, "", &[]) },
    ];
    let header = reading.jobs[0].processes[0].header;
    let holder =
        |pid, process, gib: u64, name: &str| MemoryHolder { pid, process, bytes: Some(gib << 30), name: name.into() };
    let holders = vec![
        holder(70_001, Some((header.pid, header.started)), 7, "trainer"),
        holder(4711, None, 1, ""),
        holder(4712, Some((4712, 5)), 2, "python3"),
    ];
    let sample = |device, total: u64, used: u64, holders| MemorySample {
        boot_id: [0; 16],
        at: 0,
        device: uuid(device),
        total: total << 30,
        used: used << 30,
        free: (total - used) << 30,
        holders,
    };
    let samples = vec![sample(0, 16, 15, Some(holders)), sample(1, 16, 0, None)];
    let memory = MemorySnapshot { pieces, samples: if has_nvml { samples } else { Vec::new() }, unseen: Vec::new() };
    build_document(&reading, &memory, None)
}

#[test]
fn owners_others_the_rest_and_what_is_free_add_up_to_the_device() {
    let document = short_of_memory(true);
    let device = &document.devices[0];
    let owners: Vec<_> = device.owners.iter().map(|owner| (owner.who.rank, owner.bytes >> 30, owner.count)).collect();
    assert_eq!(owners, [(Some(0), 7, 12), (Some(1), 3, 6), (Some(2), 1, 2)]);
    let first = &device.owners[0];
    assert_eq!((first.recorded_bytes >> 30, first.place.as_deref()), (6, Some("prog.c:7 in main")));
    assert_eq!((device.owners[1].kept_bytes >> 30, device.owners[1].kept_by[0].rank), (3, Some(2)));
    let others: Vec<_> = device.others.iter().map(|other| (other.pid, other.bytes.unwrap() >> 30)).collect();
    assert_eq!(others, [(4712, 2), (4711, 1)]);
    let all = super::assemble::sum_saturating(device.owners.iter().map(|owner| owner.bytes)) + (3 << 30);
    assert_eq!(Some(all + device.unaccounted_bytes.unwrap()), device.used_bytes);
    let without = short_of_memory(false);
    let device = &without.devices[0];
    assert_eq!((device.total_bytes, device.unaccounted_bytes, device.owners[0].bytes >> 30), (None, None, 6));
}

#[test]
fn ended_processes_hold_nothing_and_their_memory_may_still_be_held() {
    let document = troubled(4);
    let row = |rank: usize| &document.processes[rank];
    assert_eq!((row(1).openings, row(1).holds_bytes, row(1).held_bytes), (1, 0, 2 * MIB));
    assert_eq!((row(2).held_bytes, &row(2).held_by), (0, &vec![]));
    let job = &document.jobs[0];
    assert_eq!((job.running, job.died, job.ended, job.failed, job.complete), (3, 1, 0, 3, false));
    assert_eq!(document.devices[1].shared_bytes, 4 * MIB, "that of rank 3 alone");
    assert_eq!(document.unseen, ["trainer-12: the live table is full: 7 exports and openings are not in it"]);
}

#[test]
fn calls_a_second_are_those_between_two_looks() {
    let rates: Vec<_> = troubled(4).processes.iter().map(|process| process.calls_per_second).collect();
    assert_eq!(rates, [Some(0.0), Some(250.0), Some(500.0), Some(750.0)]);
    // A process that began after the first sample has no rate yet.
    let at = Instant::now();
    let before = PreviousSample::of(&reading(vec![job(3)], at));
    let document =
        build_document(&reading(vec![job(4)], at + Duration::from_secs(1)), &MemorySnapshot::default(), Some(&before));
    assert_eq!(document.processes[3].calls_per_second, None);
    assert_eq!(document.interval_ns, Some(1_000_000_000));
}

#[test]
fn looking_leaves_the_processor_to_others() {
    let second = Duration::from_secs(1);
    assert_eq!(pause_after_sample(second, Duration::from_millis(5)), second);
    assert_eq!(pause_after_sample(second, second), 10 * second);
}

/// The ranks in the order in which they are shown.
fn order(view: &ViewState, document: &Document) -> Vec<u32> {
    view.rows(document).iter().map(|row| row.who.rank.unwrap()).collect()
}

#[test]
fn rows_are_sorted_by_what_a_key_says() {
    let document = troubled(5);
    let mut view = ViewState::new(Sort::State, false);
    assert_eq!(order(&view, &document), [1, 2, 0, 3, 4]);
    view.handle_key(Key::Char('s'), &document);
    assert_eq!((view.sort, order(&view, &document)), (Sort::Rank, vec![0, 1, 2, 3, 4]));
    view.handle_key(Key::Char('r'), &document);
    assert_eq!(order(&view, &document), [4, 3, 2, 1, 0]);
    for (sort, rows) in [
        (Sort::Calls, [4, 3, 2, 1, 0]),
        (Sort::Failed, [3, 0, 1, 2, 4]),
        (Sort::Shared, [4, 3, 2, 1, 0]),
        (Sort::Holds, [3, 2, 0, 4, 1]),
        (Sort::Held, [4, 3, 1, 0, 2]),
        (Sort::Open, [0, 1, 2, 3, 4]),
        (Sort::Program, [0, 1, 2, 3, 4]),
        (Sort::Pid, [0, 1, 2, 3, 4]),
    ] {
        assert_eq!(order(&ViewState::new(sort, false), &document), rows, "{sort:?}");
    }
    view.handle_key(Key::Char('S'), &document);
    assert_eq!(view.sort, Sort::State);
    view.handle_key(Key::Char('<'), &document);
    assert_eq!(view.sort, Sort::Failed, "around the end");
}

#[test]
fn keys_choose_filter_and_leave() {
    let document = troubled(12);
    let mut view = ViewState::new(Sort::Rank, false);
    let press = |view: &mut ViewState, keys: &[Key]| {
        let asked: Vec<KeyRequest> = keys.iter().map(|key| view.handle_key(*key, &document)).collect();
        asked.last().cloned()
    };
    assert_eq!(view.chosen_process(&document).unwrap().rank, Some(0));
    press(&mut view, &[Key::Down, Key::Down, Key::Up]);
    assert_eq!(view.chosen_process(&document).unwrap().rank, Some(1));
    press(&mut view, &[Key::End]);
    assert_eq!(view.chosen_process(&document).unwrap().rank, Some(11));
    press(&mut view, &[Key::PageUp, Key::Enter]);
    assert!(matches!(&view.page, Page::One(who) if who.rank == Some(1)));
    press(&mut view, &[Key::Down, Key::Esc]);
    assert_eq!((&view.page, view.first), (&Page::All, 0));
    press(&mut view, &[Key::Char('/'), Key::Char('1'), Key::Char('q'), Key::Backspace, Key::Enter]);
    assert_eq!(order(&view, &document), [1], "a rank, not what begins like it");
    press(&mut view, &[Key::Esc, Key::Char('/'), Key::Char('t'), Key::Char('r')]);
    assert_eq!((view.filter.as_str(), order(&view, &document).len()), ("tr", 12));
    press(&mut view, &[Key::Esc, Key::Char('p')]);
    assert!(view.is_paused && view.filter.is_empty());
    press(&mut view, &[Key::Char('?')]);
    assert_eq!(view.page, Page::Help);
    assert_eq!(press(&mut view, &[Key::Ctrl('z')]), Some(KeyRequest::Suspend));
    assert_eq!(press(&mut view, &[Key::Char('q')]), Some(KeyRequest::Quit));
    assert_eq!(press(&mut view, &[Key::Char('/'), Key::Ctrl('c')]), Some(KeyRequest::Quit));
}

fn shown(document: &Document, view: &ViewState, width: usize, height: usize) -> String {
    let lines = draw::draw_screen(document, view, width, height);
    assert_eq!(lines.len(), height);
    for line in &lines {
        assert!(line.width() <= width, "{}", line.text());
    }
    lines.iter().map(|line| line.text().trim_end().to_owned() + "\n").collect()
}

/// Compares with the screen that was seen to be right; with UPDATE_REPORTS it is written anew first.
#[track_caller]
fn assert_screen(got: &str, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("screens").join(name);
    if std::env::var_os("UPDATE_REPORTS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, got).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(got == there, "{name} differs:\n{got}\n=== expected\n{there}");
}

#[test]
fn a_screen_reads_well_at_two_sizes() {
    let (document, view) = (troubled(64), ViewState::new(Sort::State, false));
    assert_screen(&shown(&document, &view, 80, 24), "all-80x24.txt");
    assert_screen(&shown(&document, &view, 200, 50), "all-200x50.txt");
    let mut view = ViewState::new(Sort::State, false);
    view.handle_key(Key::Down, &document);
    view.handle_key(Key::Enter, &document);
    assert_screen(&shown(&document, &view, 80, 24), "one-80x24.txt");
    view.handle_key(Key::Char('?'), &document);
    assert_screen(&shown(&document, &view, 80, 24), "help-80x24.txt");
    let view = ViewState::new(Sort::State, false);
    assert_screen(&shown(&short_of_memory(true), &view, 130, 32), "memory-130x32.txt");
    assert_screen(&shown(&short_of_memory(true), &view, 80, 32), "memory-80x32.txt");
    assert_screen(&shown(&short_of_memory(false), &view, 80, 32), "memory-alone-80x32.txt");
}

#[test]
fn nothing_is_wider_than_the_screen_and_the_chosen_row_is_seen_at_any_size() {
    shown(&short_of_memory(true), &ViewState::new(Sort::State, false), 20, 10);
    let document = troubled(64);
    for (width, height) in [(1, 1), (10, 3), (20, 10), (40, 12), (80, 24), (120, 10), (400, 200)] {
        let mut view = ViewState::new(Sort::Rank, false);
        view.handle_key(Key::End, &document);
        let text = shown(&document, &view, width, height);
        if width >= 80 && height >= 10 {
            assert!(text.lines().any(|line| line.starts_with("  63") || line.starts_with("   63")), "{text}");
        }
        for page in [Page::Help, Page::One(document.processes[2].who.clone())] {
            shown(&document, &ViewState { page, ..view.clone() }, width, height);
        }
    }
}

#[test]
fn an_empty_host_says_so() {
    let text = shown(&Document::default(), &ViewState::new(Sort::State, false), 80, 24);
    assert!(text.starts_with("cupeer top  no job: 0 processes run"), "{text}");
    assert!(text.contains("\nno recording in the default directory is in progress; try 'cupeer top DIR'\n"), "{text}");
}
