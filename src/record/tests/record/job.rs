//! Directories: facts in their files about processes and hosts, and their problems.

use super::{call, read};
use cupeer_record::writer::{self, About, Writer};
use cupeer_record::{Device, Error, Job, Library, LiveTable, Process, host};
use cupeer_spec::record::end::RecordedEnd;
use cupeer_spec::record::{BLOCK, ClockMoment, Header, clock, live};
use std::fs;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A record of a process with some calls.
fn record(dir: &Path, about: About) -> std::path::PathBuf {
    let mut writer = Writer::create(dir, about).unwrap();
    let stream = writer.stream(1).unwrap();
    for i in 0..1000 {
        writer.call(stream, &call(2_000_000 + i, i)).unwrap();
    }
    writer.finish().unwrap()
}

fn texts(job: &Job) -> Vec<String> {
    job.problems.iter().map(|problem| problem.text.clone()).collect()
}

#[test]
fn records_of_several_hosts_are_read_together() {
    let dir = tempfile::tempdir().unwrap();
    writer::write_job_file(dir.path()).unwrap();
    record(dir.path(), About::default());
    for host in *b"ab" {
        let inner = dir.path().join(format!("host-{}", host as char));
        fs::create_dir(&inner).unwrap();
        writer::write_job_file(&inner).unwrap();
        record(&inner, About { boot_id: [host; 16], ..About::default() });
        writer::write_live_table(&inner, [host; 16], &[], 3).unwrap();
    }
    let job = Job::open(dir.path()).unwrap();
    assert_eq!(texts(&job), [""; 0]);
    assert_eq!((job.processes.len(), job.tables.len()), (3, 2));
    assert!(job.tables.iter().all(|table| table.refused == 3 && table.entries.is_empty()));
    assert!(job.processes.iter().all(|process| process.events().unwrap().count() == 1000));
    assert!(job.processes.iter().any(|process| process.proc == "61616161-4026531836-1000-100000"));
}

#[test]
fn without_a_record_there_is_no_job() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Job::open(&dir.path().join("none")), Err(Error::Unreadable(..))));
    fs::write(dir.path().join("notes.txt"), "1").unwrap();
    fs::write(dir.path().join("job"), "a file of somebody else").unwrap();
    fs::create_dir(dir.path().join("a.cupeer")).unwrap();
    let error = Job::open(dir.path()).unwrap_err();
    assert!(matches!(error, Error::NoRecord(_)) && error.to_string().ends_with("holds no recording"), "{error}");
    writer::write_job_file(dir.path()).unwrap();
    assert!(Job::open(dir.path()).unwrap().processes.is_empty());
}

#[test]
fn damaged_files_are_problems() {
    let dir = tempfile::tempdir().unwrap();
    let good = fs::read(record(dir.path(), About::default())).unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    write("1.cupeer", b"");
    write("2.cupeer", b"nothing of ours, whatever its name");
    write("3.cupeer", &changed(8, 3));
    write("4.cupeer", &good[..100]);
    write("5.cupeer", &changed(12, 1));
    write("6.cupeer", &[0; BLOCK]);
    write("7.cupeer", &changed(20, 9));
    write("8.cupeer", &changed(8, 0));
    write("live-9", &[7; 5000]);
    write("job", b"cupeer job 2\nkey=00\n");
    let pipe = std::ffi::CString::new(dir.path().join("p.cupeer").to_str().unwrap()).unwrap();
    // SAFETY: the path ends in NUL.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    std::os::unix::fs::symlink("good.cupeer", dir.path().join("q.cupeer")).unwrap();
    let job = Job::open(dir.path()).unwrap();
    assert_eq!(job.processes.len(), 1);
    assert_eq!(
        texts(&job),
        [
            "is empty",
            "is not the recording of a process",
            "was written by a newer cupeer (format 3; this one reads 1 to 2)",
            "is cut off in its first block",
            "has blocks of 131073 bytes instead of 131072",
            "was created, but never written to",
            "counts time by an unknown clock (9)",
            "has no version",
            "was written by a newer cupeer (format 2; this one reads 1)",
            "is not a live table",
            "cannot be read: it is a pipe, not a file",
            "cannot be read: it is a link, not a file",
        ]
    );
}

#[test]
fn a_file_that_is_cut_off_is_read_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = record(dir.path(), About::default());
    let file = fs::File::options().write(true).open(&path).unwrap();
    // In the middle of the window.
    file.set_len(BLOCK as u64 + 64 * 100).unwrap();
    let job = Job::open(dir.path()).unwrap();
    assert_eq!(texts(&job), ["is cut off: events are missing"]);
    assert_eq!(job.processes[0].events().unwrap().count(), 99);
}

#[test]
fn another_key_is_a_problem_and_a_copy_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = record(dir.path(), About::default());
    record(dir.path(), About { pid: 2000, key_check: 5, ..About::default() });
    fs::copy(path, dir.path().join("0.cupeer")).unwrap();
    let job = Job::open(dir.path()).unwrap();
    assert_eq!(job.processes.len(), 2);
    let texts = texts(&job);
    assert!(texts[0].starts_with("is left out: it records the same process as "), "{texts:?}");
    assert!(texts[1].starts_with("holds records of more than one job: 1 of 2 processes"), "{texts:?}");
}

#[test]
fn process_facts_are_read() {
    let mut writer = Writer::in_memory(About::default());
    writer.text("program", "/usr/bin/first").unwrap();
    writer.text("program", "/usr/bin/python3").unwrap();
    writer.text("host", "node1").unwrap();
    writer.argument("python3").unwrap();
    writer.argument("").unwrap();
    for (name, value) in [("RANK", "worker"), ("OMPI_COMM_WORLD_RANK", "4"), ("SLURM_PROCID", "5"), ("A", "b=c")] {
        writer.variable(name, value).unwrap();
    }
    let library = |start, since, path: &str| Library {
        base: start,
        range: start..start + 0x1000,
        since,
        build_id: vec![1, 2, 3],
        path: path.into(),
    };
    let libraries = [library(0x1000, 5, "a"), library(0x1000, 10, "b"), library(0x3000, 20, "c")];
    // Enough to need further blocks.
    for library in libraries.iter().cycle().take(3000) {
        writer.library(library).unwrap();
    }
    let device = Device { ordinal: 1, uuid: [9; 16], pci: "0000:1b:00.0".into(), name: "NVIDIA H200".into() };
    writer.device(&device).unwrap();
    writer.escaped("dlmopen", "/lib/x.so").unwrap();
    // Unknown entries, and malformed ones.
    writer.entry(99, &[b"what?"]).unwrap();
    for tag in 1..8 {
        writer.entry(tag, &[b"x"]).unwrap();
    }

    let process = read(writer.into_bytes());
    assert_eq!((process.host(), process.program(), process.text("driver")), ("node1", "/usr/bin/python3", None));
    assert_eq!(process.rank(), Some(4));
    assert_eq!(process.variable("A"), Some("b=c"));
    assert_eq!(process.arguments, ["python3", "", "x"]);
    assert_eq!(process.libraries.len(), 3000);
    let at = |address, ticks| process.library_at(address, ticks).map(|library| library.path.as_str());
    assert_eq!([at(0x1fff, 9), at(0x1fff, 10), at(0x1fff, 99)], [Some("a"), Some("b"), Some("b")]);
    assert_eq!([at(0x1000, 1), at(0x3000, 1), at(0x2000, 50)], [Some("a"), Some("c"), None]);
    assert_eq!((process.device(1), process.device(0)), (Some(&device), None));
    assert_eq!(process.bypassing_libraries, [("dlmopen".to_string(), "/lib/x.so".to_string())]);
}

#[test]
fn processes_of_one_boot_share_a_clock() {
    let dir = tempfile::tempdir().unwrap();
    let tsc = About { clock: clock::COUNTER, speed: 0.4, ..About::default() };
    record(dir.path(), tsc.clone());
    let later = tsc.moment_at(1 << 45);
    record(dir.path(), About { pid: 2000, first: later, ..tsc.clone() });
    record(dir.path(), About { pid: 3000, clock: clock::MONOTONIC, ..About::default() });
    let away = ClockMoment { ticks: 1 << 50, monotonic: 7, realtime: 8 };
    record(dir.path(), About { boot_id: [1; 16], first: away, ..tsc.clone() });
    let job = Job::open(dir.path()).unwrap();
    let of =
        |pid| job.processes.iter().find(|process| process.header.pid == pid && process.header.boot_id == tsc.boot_id);
    let clocks = [1000, 2000, 3000].map(|pid| job.clock(of(pid).unwrap()));
    assert_eq!(clocks[0], clocks[1]);
    assert!((clocks[0].speed - 0.4).abs() < 1e-9 && clocks[2].speed == 1.0, "{clocks:?}");
    for moment in [tsc.moment_at(0), later, tsc.moment_at(1 << 50)] {
        assert!(clocks[0].monotonic(moment.ticks).abs_diff(moment.monotonic) <= 1 << 10);
        assert!(clocks[0].realtime(moment.ticks).abs_diff(moment.realtime) <= 1 << 10);
    }
    assert_eq!(clocks[2].monotonic(123), 123);
}

#[test]
fn running_processes_are_known_on_their_host() {
    let boot_id = host::boot_id().unwrap();
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let started = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
    let pid_ns = host::pid_ns().unwrap();
    // SAFETY: getuid has no preconditions.
    let uid = unsafe { libc::getuid() };
    let me = About { boot_id, started, pid_ns, uid, pid: std::process::id(), ..About::default() };
    let alive = |about: About| read(Writer::in_memory(about).into_bytes()).is_alive();
    assert_eq!(alive(me.clone()), Some(true));
    assert_eq!(alive(About { started: started + 1, ..me.clone() }), Some(false));
    assert_eq!(alive(About { pid: 1 << 30, ..me.clone() }), Some(false));
    assert_eq!(alive(About { boot_id: [0; 16], ..me.clone() }), None);
    assert_ne!(alive(About { pid_ns: 5, ..me.clone() }), Some(true));

    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), me.clone());
    record(dir.path(), About { image: 1, ..me });
    let job = Job::open(dir.path()).unwrap();
    assert_eq!(job.are_alive(), [Some(false), Some(true)]);
}

#[test]
fn an_end_that_was_written_after_the_record_was_opened_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let path = record(dir.path(), About::default());
    let process = Process::open(&path).unwrap();
    let before = process.end();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let end = RecordedEnd::Returned(3);
    file.write_all_at(&end.to_word().to_le_bytes(), offset_of!(Header, end) as u64).unwrap();
    assert_ne!(before, end);
    assert_eq!(process.end(), end);
}

/// Returns an entry of a table with this key.
fn entry(key: u64) -> live::Entry {
    let (kind, pid) = (live::kind::OPENED_MEMORY, 1000);
    let (fingerprint, checked, address) = (key, key, key);
    let nothing = live::Entry::from_words([0; live::WORDS]);
    live::Entry { key, kind, pid, pid_ns: 1, started: 2, fingerprint, checked, address, count: 1, ..nothing }
}

#[test]
fn a_table_says_what_is_open() {
    let dir = tempfile::tempdir().unwrap();
    for count in [0, 1, live::FIRST as u64, live::FIRST as u64 + 1, 5000] {
        let entries: Vec<_> = (0..count).map(entry).collect();
        let path = writer::write_live_table(dir.path(), [3; 16], &entries, 7).unwrap();
        let table = LiveTable::open(&path).unwrap();
        assert_eq!((table.boot_id, table.refused, table.problem.clone()), ([3; 16], 7, None));
        assert!(table.entries.iter().map(|entry| entry.key).eq(0..count));
        let mut bytes = fs::read(&path).unwrap();
        if count > 1 {
            // This entry is being given up.
            bytes[live::entry_offset(0, 1)] = live::state::CLAIMED as u8;
            let table = LiveTable::from_bytes("live", bytes.clone()).unwrap();
            assert_eq!(table.entries.len() as u64, count - 1);
        }
        // Cut off, and with segments that are not there.
        bytes.truncate(live::entry_offset(0, 1) + 100);
        bytes[32] = 200;
        let table = LiveTable::from_bytes("live", bytes).unwrap();
        assert!(table.problem.is_some() && table.entries.len() as u64 == count.min(1));
    }
}

#[test]
fn the_header_of_a_table_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let good = fs::read(writer::write_live_table(dir.path(), [3; 16], &[], 0).unwrap()).unwrap();
    let error = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        LiveTable::from_bytes("live", bytes).unwrap_err()
    };
    assert_eq!(error(0, 1), "is not a live table");
    assert_eq!(error(8, 6), "was written by a newer cupeer (format 6; this one reads 2 to 5)");
    assert_eq!(error(8, 1), "was written by an older cupeer (format 1; this one reads 2 to 5)");
    assert_eq!(error(12, 4), "has entries of 260 bytes instead of 320");
    assert_eq!(LiveTable::from_bytes("live", good[..20].to_vec()).unwrap_err(), "is cut off in its header");
    const { assert!(size_of::<Header>() > 32) };
}
