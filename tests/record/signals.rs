//! Calls in signal handlers, on every kind of stack; calls that a handler leaves by a jump, or that end with their thread.

use super::recording;
use crate::programs::{Cupeer, Scene, finish, linked, mark_of, open_job, program, recorded};
use crate::support;
use cupeer_record::Outcome;
use cupeer_spec::env;
use std::collections::{BTreeMap, BTreeSet};

/// The marks of timers.c.
const MAIN: u64 = 1 << 20;
const HANDLER: u64 = 1 << 28;

/// Runs timers.c. Each call that it has made must be in its record, once; each that was left, at most once.
fn assert_none_lost(stack: &str, handled: u32, jumps: u32) {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let scene =
        Scene::new(program("timers.c", &[])).args(&[stack, "100", "3", &handled.to_string(), &jumps.to_string()]);
    let (status, stdout, stderr) = finish(recording(&scene, &record));
    assert!(status.success(), "{stack}: {status}: {stdout}{stderr}");
    let (last, left) = stdout.lines().rev().collect::<Vec<_>>().split_first().map(|(a, b)| (*a, b.to_vec())).unwrap();
    let mut numbers = last.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok());
    let (made, in_handlers) = (numbers.next().unwrap(), numbers.next().unwrap());
    let left: BTreeSet<u64> = left.iter().map(|line| line.strip_prefix("left ").unwrap().parse().unwrap()).collect();
    assert_eq!(jumps != 0, !left.is_empty());

    let job = open_job(&record);
    let process = &job.processes[0];
    assert_eq!((process.header.lost, process.header.ended_by), (0, 0), "{stack}");
    let mut times: BTreeMap<u64, u32> = BTreeMap::new();
    for call in recorded(process) {
        let mark = mark_of(&call).unwrap();
        *times.entry(mark).or_default() += 1;
        let has_returned = call.outcome == Outcome::Returned(0);
        assert!(has_returned || left.contains(&mark), "{stack}, {jumps}: {call:?}");
    }
    let all = (MAIN..MAIN + made).chain(HANDLER..HANDLER + in_handlers);
    let is_wrong = |mark: &u64| match times.get(mark) {
        Some(times) => *times != 1,
        None => !left.contains(mark),
    };
    let wrong: Vec<u64> = all.filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{stack}, {jumps}: {made} and {in_handlers} calls, of which not once: {wrong:?}");
    assert!(
        times
            .keys()
            .all(|mark| (MAIN..MAIN + made).contains(mark) || *mark >= HANDLER && *mark < HANDLER + in_handlers)
    );
}

#[test]
fn calls_in_handlers_are_all_there_on_every_stack() {
    for stack in ["own", "below", "above", "context"] {
        assert_none_lost(stack, 1000, 0);
    }
}

#[test]
fn calls_around_one_that_was_left_by_a_jump_are_all_there() {
    for stack in ["own", "below", "above", "context"] {
        assert_none_lost(stack, 1000, 5);
    }
}

/// Without us, recorded, checked, logged, and with a plan; linked and looked up. The driver keeps no account, and is not
/// left in the middle of that.
#[test]
fn a_thread_is_cancelled_at_any_instruction_of_a_call() {
    let plan = "cuDeviceCanAccessPeer:when=3:error=any;cuIpcOpenMemHandle*:delay=1us";
    type Extra<'a> = &'a [(&'a str, &'a str)];
    let ways: [(&str, Cupeer, Extra); 6] = [
        ("without", Cupeer::Absent, &[]),
        ("off", Cupeer::Off, &[]),
        ("recorded", Cupeer::Recording, &[]),
        ("checked", Cupeer::Recording, &[(env::CHECK, "notes")]),
        ("logged", Cupeer::Logging, &[]),
        ("with a plan", Cupeer::Recording, &[(env::INJECT, plan)]),
    ];
    for program in [linked("cancelled.c", &[]), program("cancelled.c", &[])] {
        let scene = Scene::new(program).arg(support::sample("60", "300"));
        for (way, cupeer, variables) in ways {
            let folder = support::temp_dir();
            let mut command = scene.command(cupeer, folder.path());
            command.env_remove("FAKE_DRIVER_LOG").envs(variables.iter().copied());
            let (status, stdout, stderr) = finish(command);
            assert!(status.success() && stdout == "done\n", "{way}: {status}: {stdout}{stderr}");
        }
    }
}
