//! Memory in a recording: the counted kinds, the allocations that are calls, and the free memory of a device when one failed.

use crate::programs::{open_job, program, recorded};
use crate::support::{cupeer, done, temp_dir};
use cupeer_record::{Call, CountedMemory, DeviceMemoryState, Job, Process};
use cupeer_spec::record::counted::CountedRow;
use std::path::{Path, PathBuf};

fn memory() -> PathBuf {
    program("memory.c", &["-ldl", "-lpthread"])
}

/// Runs a scene of memory.c without a recording and with one, which must make no difference. Returns the processes of the recording.
fn run(scene: &str, mode: &str, check: impl FnOnce(&Job)) {
    let (folder, program) = (temp_dir(), memory());
    let record = folder.path().join("record");
    let mut without = cupeer();
    without.args(["run", "-q", "--sim", "--check=off", "--record=off", "--"]).arg(&program).arg(scene);
    let mut with = cupeer();
    with.args(["run", "-q", "--sim=nvlink:2", &format!("--record={mode}"), "--out"]).arg(&record);
    let (without, with) = (done(&mut without), done(with.arg("--").arg(&program).arg(scene)));
    assert_eq!((with.status.code(), &with.stdout), (without.status.code(), &without.stdout), "{scene}: {with:?}");
    check(&open_job(&record));
}

/// The counted memory of a process, by the bytes of one allocation, which differ by place in most scenes.
fn rows(process: &Process) -> Vec<(u64, u64, u64, u64)> {
    let CountedMemory { rows, unfollowed, .. } = process.counted_memory();
    assert_eq!(unfollowed, 0);
    let mut all: Vec<_> = rows
        .iter()
        .map(|row| {
            let CountedRow { address, device, live_bytes, live, peak_bytes, made } = *row;
            assert_eq!(device, Some(0));
            let library = process.library_at(address, u64::MAX).expect("its library is known");
            assert!(library.path.contains("memory"), "{library:?}");
            (live_bytes, live, peak_bytes, made)
        })
        .collect();
    all.sort_unstable();
    all
}

fn only(job: &Job) -> &Process {
    assert_eq!(job.processes.len(), 1);
    &job.processes[0]
}

/// The names of the recorded calls about memory.
fn calls(process: &Process) -> Vec<Call> {
    let is_of_memory = |call: &Call| {
        call.function
            .is_some_and(|id| id.spec().allocated_memory().is_some() || id.spec().freed_memory_argument().is_some())
    };
    recorded(process).into_iter().filter(is_of_memory).collect()
}

fn names(calls: &[Call]) -> Vec<&str> {
    calls.iter().filter_map(|call| Some(call.function?.spec().name())).collect()
}

#[test]
fn a_large_allocation_and_its_free_are_calls() {
    for mode in ["full", "ring:1M"] {
        run("large", mode, |job| {
            let process = only(job);
            let calls = calls(process);
            assert_eq!(names(&calls), ["cuMemAlloc_v2", "cuMemAlloc_v2", "cuMemFree_v2"]);
            assert!(calls.iter().all(|call| !call.details.frames.is_empty()), "{calls:?}");
            assert_eq!(calls[0].details.devices.0, Some(0));
            assert_eq!(calls[1].argument_by_name("dptr"), calls[2].argument_by_name("dptr"));
            // One byte less is counted.
            assert_eq!(rows(process), [((1 << 20) - 1, 1, (1 << 20) - 1, 1)]);
        });
    }
}

#[test]
fn small_allocations_are_counted_by_place() {
    for mode in ["full", "ring:1M"] {
        run("small", mode, |job| {
            let process = only(job);
            assert_eq!(names(&calls(process)), [""; 0]);
            // The compiler keeps one call of cuMemAlloc in the function of the small ones.
            assert_eq!(rows(process), [(3000, 3, 10_000, 110)]);
        });
    }
}

#[test]
fn threads_that_free_what_others_made_are_counted_exactly() {
    run("threads", "full", |job| {
        let (bytes, count, peak, made) = rows(only(job))[0];
        assert_eq!((bytes, count, made), (8 * 500 * 1024, 8 * 500, 8 * 750));
        assert_eq!(peak, bytes, "no thread makes any before all have freed theirs");
    });
}

#[test]
fn a_child_counts_anew() {
    run("apart", "full", |job| {
        let mut all: Vec<_> = job.processes.iter().map(rows).collect();
        all.sort();
        assert_eq!(all, [[(3000, 3, 3000, 3)], [(5000, 5, 5000, 5)]]);
    });
    run("fork", "full", |job| {
        let mut all: Vec<_> = job.processes.iter().map(|process| rows(process).len()).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1], "no allocation of the child has succeeded");
        let parent = job.processes.iter().find(|process| !rows(process).is_empty());
        assert_eq!(rows(parent.unwrap()).iter().map(|row| row.3).sum::<u64>(), 2);
    });
}

#[test]
fn memory_ends_with_its_context() {
    run("context", "full", |job| {
        assert_eq!(rows(only(job)), [(1000, 1, 61_000, 21)]);
    });
}

#[test]
fn a_killed_process_has_counted_all() {
    for mode in ["full", "ring:1M"] {
        run("killed", mode, |job| assert_eq!(rows(only(job)), [(33 * 2048, 33, 33 * 2048, 33)]));
    }
}

#[test]
fn memory_of_pools_is_counted() {
    run("async", "full", |job| {
        let process = only(job);
        assert_eq!(names(&calls(process)), ["cuMemAllocAsync", "cuMemFreeAsync"]);
        assert_eq!(rows(process), [(2 * 4096, 2, 5 * 4096, 5)]);
    });
}

#[test]
fn memory_of_a_process_that_shares_is_counted() {
    run("shared", "full", |job| {
        let process = only(job);
        assert_eq!(names(&calls(process)), ["cuMemFree_v2"], "only the free of what was shared");
        assert_eq!(rows(process), [(7000, 1, 18_000, 3)]);
    });
}

#[test]
fn odd_calls_are_counted_exactly() {
    run("odd", "full", |job| {
        let (all, process) = (rows(only(job)), only(job));
        // Rows of 512 bytes, and what was there before them; managed memory is on no device.
        let live = |all: &[(u64, u64, u64, u64)]| all.iter().map(|row| row.0).sum::<u64>();
        assert_eq!((live(&all), all.iter().map(|row| row.3).sum::<u64>()), (5120 + 100, 3));
        let failed = calls(process).into_iter().filter(|call| !call.succeeded()).count();
        assert_eq!(failed, 5);
    });
}

#[test]
fn a_failure_for_want_of_memory_says_what_was_left() {
    run("exhausted", "full", |job| {
        let all: Vec<Call> = recorded(only(job)).into_iter().filter(|call| !call.succeeded()).collect();
        let left: Vec<DeviceMemoryState> = all.iter().filter_map(|call| call.details.device_memory).collect();
        // The first ones, and then those whose number is a power of two.
        assert!((64..=67).contains(&left.len()), "{}", left.len());
        let first = ["cuMemAlloc_v2", "cuMemCreate", "cuMemAllocAsync"];
        assert_eq!(names(&all)[..3], first);
        assert!(all[..3].iter().all(|call| call.details.device_memory.is_some()));
        for left in left {
            assert_eq!((left.device, left.counted_bytes, left.counted), (0, 2000, 2));
            assert!(left.free > 0 && left.free < left.total, "{left:?}");
        }
    });
}

/// All calls of the program are counted alike where it is only watched for a while.
#[test]
fn a_running_process_is_read_meanwhile() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut command = cupeer();
    command.args(["run", "-q", "--sim", "--out"]).arg(&record).arg("--").arg(memory()).arg("small");
    done(&mut command);
    let again = Process::open(&file(&record)).unwrap();
    assert_eq!(again.counted_memory(), open_job(&record).processes[0].counted_memory());
    let bytes = std::fs::read(file(&record)).unwrap();
    for end in (0..bytes.len()).step_by(997) {
        if let Ok(cut) = Process::from_bytes("cut", bytes[..end].to_vec()) {
            cut.counted_memory();
        }
    }
}

fn file(record: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(record).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.extension().is_some_and(|extension| extension == "cupeer")).unwrap()
}
