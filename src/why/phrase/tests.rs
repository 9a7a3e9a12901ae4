//! The answers of jobs that are described by what each process waits for.

use super::*;
use crate::document::{Ended, Frame, On, State};

/// A process that waits in a system call, at a line of a function, for others by a socket.
fn process(pid: u32, rank: Option<u32>, syscall: &str, at: (&str, u32), peers: &[u32]) -> Process {
    let frame = |function: &str, line: u32| Frame {
        language: "Python".into(),
        function: Some(function.into()),
        file: Some("/x/prog.py".into()),
        line: Some(line),
        library: None,
        offset: None,
    };
    let on = On {
        fd: 3,
        kind: "TCP socket".into(),
        name: String::new(),
        inode: Some(pid.into()),
        peers: peers.to_vec(),
        unknown: None,
        reads: true,
        other_inode: None,
    };
    let about = if peers.is_empty() { AwaitedEvent::Time } else { AwaitedEvent::Descriptors(vec![(3, true)]) };
    let thread = Thread {
        syscall: Some(syscall.into()),
        on: if peers.is_empty() { Vec::new() } else { vec![on] },
        awaited: Some(about),
        frames: vec![frame("receive", 3), frame(at.0, at.1), frame("main", at.1 + 100)],
        ..Thread::waiting(pid)
    };
    let state = State::Waits;
    let program = "/bin/trainer".into();
    Process { rank, program, state, threads: vec![thread], parent: 1, ..Process::with_end_only(pid) }
}

fn answer(mut processes: Vec<Process>) -> (String, Shown) {
    does::choose_shown_frames(&mut processes);
    let names = ProcessNames::of(&processes, &[]);
    processes.iter_mut().for_each(|process| does::describe_process(process, &names, None));
    let (text, root) = super::build_answer(&processes, &names);
    (text, root.unwrap_or_default())
}

#[test]
fn a_chain_is_followed_to_the_process_that_sleeps() {
    let (text, root) = answer(vec![
        process(10, Some(0), "recvfrom", ("reduce", 7), &[11]),
        process(11, Some(1), "recvfrom", ("reduce", 7), &[12]),
        process(12, Some(2), "nanosleep", ("load_batch", 9), &[]),
    ]);
    assert!(text.starts_with("rank 2 sleeps at prog.py:9 in load_batch"), "{text}");
    assert!(
        text.contains("; rank 1 waits for it in recv at prog.py:") && text.contains(", and 0 for that")
            || text.contains("rank 0 for that"),
        "{text}"
    );
    assert_eq!(
        (&*root.kind, root.pids, root.waiting, root.waiting_indirectly),
        ("sleeps", vec![12], vec![11], vec![10])
    );
}

#[test]
fn ranks_that_wait_for_each_other_are_told_by_where_their_stacks_differ() {
    let (text, root) = answer(vec![
        process(10, Some(0), "recvfrom", ("rendezvous", 13), &[11]),
        process(11, Some(1), "recvfrom", ("all_reduce", 17), &[10]),
    ]);
    assert!(text.starts_with("rank 0 is in rendezvous (prog.py:113), rank 1 in all_reduce (prog.py:117)"), "{text}");
    assert_eq!(root.kind, "apart");
}

/// A process in a collective that the driver, or another rank, does not end.
fn collective(pid: u32, syscall: Option<&str>, line: u32) -> Process {
    let mut process = process(pid, None, syscall.unwrap_or_default(), ("train", line), &[]);
    let thread = &mut process.threads[0];
    thread.frames[0].file = Some("/x/site-packages/torch/distributed/distributed_c10d.py".into());
    thread.awaited = None;
    if syscall.is_none() {
        (process.state, thread.state, thread.syscall) = (State::Runs, State::Runs, None);
    }
    process
}

#[test]
fn processes_in_collectives_are_told_by_their_lines() {
    let (text, root) = answer(vec![collective(10, None, 7), collective(11, None, 9)]);
    assert_eq!(root.kind, "apart", "{text}");
    assert!(text.contains("(prog.py:107)") && text.contains("(prog.py:109)"), "{text}");
    let (text, root) = answer(vec![collective(10, None, 7), collective(11, None, 7)]);
    assert_ne!(root.kind, "apart", "{text}");
}

#[test]
fn a_process_that_failed_comes_before_one_that_sleeps() {
    let ended = Ended { status: Some(3), signal: None, ago_ns: Some(3_200_000_000) };
    let (text, root) = answer(vec![
        process(1, None, "read", ("get", 21), &[12]),
        Process { ended: Some(ended), parent: 1, ..Process::with_end_only(11) },
        process(12, None, "nanosleep", ("work", 9), &[]),
    ]);
    assert!(
        text.starts_with(
            "process 11 exited with status 3, 3.2 s ago; its parent, process 1, waits for it in read at prog.py:"
        ),
        "{text}"
    );
    assert_eq!(root.kind, "ended");
}

#[test]
fn unreadable_and_missing_processes_are_named() {
    let refused = |pid: u32| Process {
        state: State::Refused,
        doing: "may not be read".into(),
        hint: Some("run as root".into()),
        ..Process::with_end_only(pid)
    };
    let (text, _) = answer(vec![refused(5), refused(6)]);
    assert!(text.starts_with("process 5 may not be read; run as root; the same holds for "), "{text}");
    assert_eq!(answer(Vec::new()).0, "no process of the job is running");
}

#[test]
fn two_that_nobody_waits_for_are_both_told_of() {
    let (text, root) = answer(vec![
        process(10, None, "nanosleep", ("one", 7), &[]),
        Process { program: "/bin/other".into(), ..process(11, None, "nanosleep", ("two", 9), &[]) },
    ]);
    assert!(text.starts_with("not known: process 10 sleeps at "), "{text}");
    assert_eq!(root.kind, "unknown");
}
