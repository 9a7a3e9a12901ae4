//! Recorded calls that use shared memory, or order such uses. Other calls of these functions are not recorded.

use crate::programs::open_job;
use crate::support::{compile_c, cupeer, done, sim_dir, temp_dir};
use cupeer_record::{Call, Event, Outcome};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::{detail, nodes, used};
use std::path::Path;

/// The calls that are noted of each process, in the order of time; those that opened or exported something come last.
fn noted(how: &str) -> Vec<Vec<Call>> {
    let driver = sim_dir().join("libcuda.so");
    let program = compile_c("programs/order.c", &[driver.to_str().expect("UTF-8")]);
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut command = cupeer();
    command.args(["run", "--sim=nvlink:2", "--out"]).arg(&record).arg("--").arg(program).arg(how);
    let ended = done(&mut command);
    assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
    if !record.is_dir() {
        return Vec::new();
    }
    let of = |process: &cupeer_record::Process| {
        let events = process.events().expect("events");
        let mut all: Vec<Call> =
            events.filter_map(|event| if let Event::Use(call) = event { Some(call) } else { None }).collect();
        all.sort_by_key(|call| call.start);
        all
    };
    open_job(&record).processes.iter().map(of).collect()
}

fn names(calls: &[Call]) -> Vec<&'static str> {
    calls.iter().map(|call| call.function.expect("one of the table").spec().name()).collect()
}

/// The functions of the lines in a part of the program that a number follows.
fn expected(function: &str) -> Vec<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/order.c");
    let source = std::fs::read_to_string(source).expect("it is committed");
    let part = source.split(&format!("static void {function}(")).nth(1).expect("the part");
    let part = part.split("\n}\n").next().expect("its end");
    let lines = part.lines().filter_map(|line| line.trim_end().strip_suffix(" */"));
    let lines = lines.filter_map(|line| line.rsplit_once("/* ").filter(|(_, number)| number.parse::<u32>().is_ok()));
    lines.map(|(line, _)| line[line.find("cu").expect("a call")..].split('(').next().unwrap_or("").into()).collect()
}

#[test]
fn uses_of_shared_memory_and_their_order_are_recorded() {
    let mut processes = noted("both");
    processes.sort_by_key(|calls| std::cmp::Reverse(calls.len()));
    let [owner, importer] = &processes[..] else { panic!("{processes:?}") };
    assert_eq!(names(owner), expected("owner"));
    assert_eq!(names(importer), expected("importer"));
    for call in owner.iter().chain(importer) {
        assert_eq!(call.outcome, Outcome::Returned(0), "nothing is missing: {call:?}");
        assert_eq!(call.details.current.map(|current| current >> 48 & 0xff), Some(1), "device 0: {call:?}");
        assert!(call.start <= call.end);
    }
    let [rows, batch] = [FnId::cuMemcpy2DAsync_v2, FnId::cuMemcpyBatchAsync_v2]
        .map(|function| importer.iter().find(|call| call.function == Some(function)).expect("it"));
    for call in [rows, batch] {
        assert!(call.details.current.is_some_and(|current| current & detail::OF_DEVICES != 0), "{call:?}");
    }
    let start = batch.details.ranges.first().expect("what it reads").0;
    assert_eq!(batch.details.ranges, [(start, 128), (start + 256, 32 | detail::WRITTEN)]);
    // Arguments that do not fit into the slot are recorded anyway.
    let copy = owner.iter().find(|call| call.function == Some(FnId::cuMemcpyHtoDAsync_v2)).expect("it");
    let wait = owner.iter().find(|call| call.function == Some(FnId::cuLaunchHostFunc)).expect("it");
    assert_eq!(copy.argument_number(3), wait.argument_number(0), "the stream");
}

#[test]
fn a_process_that_shares_nothing_notes_nothing() {
    assert!(noted("alone").iter().all(Vec::is_empty));
}

#[test]
fn there_is_a_mark_where_calls_were_not_noted() {
    let [calls] = &noted("often")[..] else { panic!("one process") };
    assert!(calls.len() >= 4096, "{}", calls.len());
    let marks: Vec<(usize, i32)> = calls
        .iter()
        .enumerate()
        .filter_map(|(index, call)| match call.outcome {
            Outcome::Returned(0) => None,
            Outcome::Returned(marks) => Some((index, marks)),
            _ => panic!("{call:?}"),
        })
        .collect();
    assert_eq!(marks[0], (4095, used::LAST));
    // The machine decides how long a pause takes.
    for (at, (_, mark)) in marks[1..].iter().enumerate() {
        assert_eq!(*mark, if at % 2 == 0 { used::RESUMED } else { used::LAST });
    }
}

#[test]
fn launches_of_graphs_have_the_shared_memory_that_these_use() {
    let [calls] = &noted("graphs")[..] else { panic!("one process") };
    let launches: Vec<&Call> = calls.iter().filter(|call| call.function == Some(FnId::cuGraphLaunch)).collect();
    let [fills, takes, calls, captured] = launches[..] else { panic!("{calls:?}") };
    let of = |call: &Call| {
        let (flags, ranges) = nodes::read_nodes(&call.details.nodes)?;
        Some((flags, ranges.map(|it| (it.bytes, it.is_write, it.value)).collect::<Vec<_>>()))
    };
    assert_eq!(of(fills), Some((0, vec![(64, true, Some(7))])));
    assert_eq!(of(takes), Some((nodes::TELLS, vec![(64, false, None)])));
    assert_eq!(of(calls), None, "a function of the host tells of the rest");
    let is_captured = |call: &Call| call.details.current.is_some_and(|it| it & detail::CAPTURED != 0);
    assert!(is_captured(captured) && !is_captured(fills));
}
