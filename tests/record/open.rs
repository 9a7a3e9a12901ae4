//! The live table: what is open in a job now, also where the processes were killed.

use super::{Random, recording};
use crate::programs::{Scene, linked, open_job};
use crate::support;
use cupeer_record::Job;
use cupeer_spec::record::live::{self, Entry, FIRST, kind};
use cupeer_spec::value::Shareable;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};

/// A process that does not outlive its test, however that ends.
struct Running(Child);

impl std::ops::Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl std::ops::DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process of shared.c that does something.
fn shared(record: &Path, commands: &str) -> Running {
    let words: Vec<&str> = commands.split(' ').collect();
    let mut command = recording(&Scene::new(linked("shared.c", &[])).args(&words), record);
    Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
}

/// Waits for the line that a process prints when it waits.
fn wait_for(child: &mut Child) {
    let mut line = String::new();
    let mut byte = [0];
    while line.as_bytes().last() != Some(&b'\n') {
        let read = std::io::Read::read(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
        assert_eq!(read, 1, "the program has ended");
        line.push(byte[0] as char);
    }
}

fn go_on(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
}

fn run(record: &Path, commands: &str) {
    let status = shared(record, commands).wait().unwrap();
    assert!(status.success() || commands.ends_with("kill"), "{commands}: {status}");
}

/// Returns the open entries: kind, address, count, and whether the object was freed; without the entries that lead from an
/// address to its export.
fn open(record: &Path) -> Vec<(u32, u64, u32, u32)> {
    let mut all: Vec<_> = entries(record)
        .iter()
        .filter(|entry| entry.kind != kind::OWNED)
        .map(|entry| {
            (entry.kind, if entry.kind == kind::PEER { entry.peer } else { entry.address }, entry.count, entry.ended)
        })
        .collect();
    all.sort();
    all
}

fn entries(record: &Path) -> Vec<Entry> {
    let job = open_job(record);
    let [table] = &job.tables[..] else { panic!("{:?}", job.tables) };
    assert_eq!(table.refused, 0);
    table.entries.clone()
}

#[test]
fn open_objects_are_in_the_table_until_they_are_closed() {
    use kind::*;
    for (commands, wanted) in [
        ("export:5", &[(EXPORTED_MEMORY, 5, 0, 0)][..]),
        ("export:5 export:5", &[(EXPORTED_MEMORY, 5, 0, 0)]),
        ("export:5 free:5", &[]),
        ("export:5 free:5 export:5", &[(EXPORTED_MEMORY, 5, 0, 0)]),
        ("export-event:6", &[(EXPORTED_EVENT, 6, 0, 0)]),
        ("export-event:6 destroy:6", &[]),
        ("open:7", &[(OPENED_MEMORY, 7, 1, 0)]),
        ("open:7 open:7 open:7", &[(OPENED_MEMORY, 7, 3, 0)]),
        ("open:7 open:7 close:7", &[(OPENED_MEMORY, 7, 1, 0)]),
        ("open:7 open:7 close:7 close:7", &[]),
        ("open:7 open:8 close:7", &[(OPENED_MEMORY, 8, 1, 0)]),
        ("open-event:9", &[(OPENED_EVENT, 9, 1, 0)]),
        ("open-event:9 destroy:9", &[]),
        ("peer:11", &[(PEER, 11, 1, 0)]),
        ("peer:11 peer:12 unpeer:11", &[(PEER, 12, 1, 0)]),
        ("peer:11 peer:12 destroy-context:12", &[(PEER, 11, 1, 0)]),
        // The current context of the fake driver.
        ("peer:11 peer:12 destroy-context:1", &[]),
        ("open:7 export:5 kill", &[(EXPORTED_MEMORY, 5, 0, 0), (OPENED_MEMORY, 7, 1, 0)]),
        ("close:7 free:5 destroy:6 unpeer:11 reset", &[]),
    ] {
        let folder = support::temp_dir();
        let record = folder.path().join("record");
        run(&record, commands);
        assert_eq!(open(&record), wanted, "{commands}");
    }
}

#[test]
fn exporter_and_importer_know_of_each_other() {
    use kind::*;
    for killed in ["exporter", "importer", "both", "neither"] {
        let folder = support::temp_dir();
        let record = folder.path().join("record");
        let mut exporter = shared(&record, "export:5 wait free:5 wait");
        wait_for(&mut exporter);
        let mut importer = shared(&record, "open:5 wait close:5 wait");
        wait_for(&mut importer);
        let both = [(EXPORTED_MEMORY, 5, 1, 0), (OPENED_MEMORY, 5, 1, 0)];
        assert_eq!(open(&record), both);
        let all = entries(&record);
        let of = |kind: u32| all.iter().find(|entry| entry.kind == kind).unwrap();
        assert_eq!(of(EXPORTED_MEMORY).fingerprint, of(OPENED_MEMORY).fingerprint);
        assert_eq!((of(EXPORTED_MEMORY).pid, of(OPENED_MEMORY).pid), (exporter.id(), importer.id()));
        assert!(all.iter().all(|entry| entry.kind == OWNED || entry.frame_count > 0));
        if matches!(killed, "exporter" | "both") {
            exporter.kill().unwrap();
        }
        if matches!(killed, "importer" | "both") {
            importer.kill().unwrap();
        }
        if killed == "both" {
            exporter.wait().unwrap();
            importer.wait().unwrap();
            assert_eq!(open(&record), both, "what a killed process had is still there to be read");
            continue;
        }
        if killed == "exporter" {
            exporter.wait().unwrap();
            assert_eq!(open(&record), both);
            go_on(&mut importer);
            wait_for(&mut importer);
            assert_eq!(open(&record), [(EXPORTED_MEMORY, 5, 0, 0)]);
        } else {
            if killed == "importer" {
                importer.wait().unwrap();
            }
            go_on(&mut exporter);
            wait_for(&mut exporter);
            if killed == "importer" {
                assert_eq!(open(&record), [(OPENED_MEMORY, 5, 1, 0)], "nobody has it open");
                continue;
            }
            let while_open = live::ended::ENDED | live::ended::WHILE_OPEN;
            let ended = [(EXPORTED_MEMORY, 5, 1, while_open), (OPENED_MEMORY, 5, 1, 0)];
            assert_eq!(open(&record), ended, "freed while it is open elsewhere");
            if killed == "neither" {
                go_on(&mut importer);
                wait_for(&mut importer);
                assert_eq!(open(&record), []);
            }
        }
    }
}

#[test]
fn the_table_grows() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    // Two threads of two processes, many more than the first segment holds. Neither ends before the other is done: what
    // the dead had open would make room.
    let scene = Scene::new(linked("handles.c", &[])).args(&["4000", "4000", "2", "stay"]);
    let start = || {
        let mut command = recording(&scene, &record);
        Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    };
    let mut both = [start(), start()];
    both.iter_mut().for_each(|child| wait_for(child));
    let all = entries(&record);
    both.iter_mut().for_each(|child| go_on(child));
    assert!(both.iter_mut().all(|child| child.wait().unwrap().success()));
    assert!(all.len() == 4 * 4000 && all.len() > 8 * FIRST, "{}", all.len());
    assert!(all.iter().all(|entry| entry.kind == kind::OPENED_MEMORY && entry.count == 1));
}

/// "8 processes hammering it concurrently with random kills: no torn entry, no entry lost of living processes."
#[test]
fn processes_that_are_killed_while_they_write_to_it() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let mut random = Random::new();
    // One that has what must stay.
    let kept: String = (0..300).map(|i| format!("open:{} ", 20_000 + i)).collect();
    let mut quiet = shared(&record, &format!("{kept}wait close:20000 close:20001 wait"));
    wait_for(&mut quiet);
    let mut children: Vec<Running> = Vec::new();
    for round in 0..60 {
        while children.len() < 8 {
            let mut child = shared(&record, &format!("random:{}", random.below(1 << 30)));
            wait_for(&mut child);
            children.push(child);
        }
        let mut child = children.swap_remove(random.below(8) as usize);
        for _ in 0..random.below(100_000) {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if round % 10 == 0 {
            check(&Job::open(&record).unwrap(), quiet.id());
        }
    }
    drop(children);
    let job = Job::open(&record).unwrap();
    // One may have been killed before it had written anything, or before its file had a length.
    let is_begun = |text: &str| ["is empty", "was created, but never written to"].contains(&text);
    assert!(job.problems.iter().all(|problem| is_begun(&problem.text)), "{:?}", job.problems);
    check(&job, quiet.id());
    let pids: Vec<u32> = job.processes.iter().map(|process| process.header.pid).collect();
    assert!(job.tables[0].entries.iter().all(|entry| pids.contains(&entry.pid)));
    go_on(&mut quiet);
    wait_for(&mut quiet);
    // Those that were killed have left what they have left.
    let job = Job::open(&record).unwrap();
    let own = job.tables[0].entries.iter().filter(|entry| entry.pid == quiet.id()).count();
    assert_eq!(own, 298);
}

/// All entries are whole, and those of a process that is left in peace are there.
#[track_caller]
fn check(job: &Job, quiet: u32) {
    let mut own: Vec<u64> = Vec::new();
    for entry in &job.tables[0].entries {
        assert!((1..=6).contains(&entry.kind), "{entry:?}");
        assert!(entry.frame_count as usize <= entry.frames.len() && entry.key != 0, "{entry:?}");
        if entry.kind == kind::OPENED_MEMORY {
            let wanted = if entry.pid == quiet { 20_000..20_300 } else { 70_004..70_064 };
            // One that was killed in the middle of a close has it counted down.
            let counts = if entry.pid == quiet { 1..=1 } else { 0..=1 };
            assert!(wanted.contains(&entry.address) && counts.contains(&entry.count), "{entry:?}");
        }
        if entry.pid == quiet {
            own.push(entry.address);
        }
    }
    own.sort();
    assert_eq!(own, (20_000..20_300).collect::<Vec<_>>());
}

#[test]
fn an_address_may_be_somebody_elses_before_its_close_returns() {
    let driver = support::compile_shared("programs/reuse_driver.c", &["-Wl,-soname,libcuda.so.1"]);
    let program = support::compile_c("programs/reuse.c", &["-ldl"]);
    for check in [&[][..], &["--check=notes"]] {
        let folder = support::temp_dir();
        let record = folder.path().join("record");
        let mut command = support::cupeer();
        command.args(["run", "--record=full", "--out"]).arg(&record).args(check).arg("--driver").arg(&driver);
        assert_eq!(support::done(command.arg("--").arg(&program)).stdout, "done\n");
        let left = entries(&record);
        let of_second = record_of(&record, 2);
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!((left[0].kind, left[0].count, left[0].fingerprint), (kind::OPENED_MEMORY, 1, of_second));
    }
}

/// The fingerprint that a handle of 64 equal bytes has in a record.
fn record_of(record: &Path, byte: u8) -> u64 {
    let job = std::fs::read_to_string(record.join("job")).unwrap();
    let digits = job.lines().find_map(|line| line.strip_prefix("key=")).expect("the key");
    let key: Vec<u8> = (0..16).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("a digit")).collect();
    let key: [u8; 16] = key.try_into().expect("16 bytes");
    // A hash may look like the fingerprint of something else.
    Shareable::ipc_fingerprint(siphasher::sip::SipHasher24::new_with_key(&key).hash(&[byte; 64]))
}
