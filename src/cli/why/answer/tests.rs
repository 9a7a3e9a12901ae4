//! Which process the answer begins with.

use super::*;
use crate::why::document::{Frame, On};

fn process(pid: u32, rank: Option<u32>, syscall: Option<&str>, library: &str, peers: &[u32]) -> Process {
    let frame = Frame {
        language: "C".into(),
        function: Some("f".into()),
        file: None,
        line: None,
        library: Some(library.into()),
        offset: Some("0x1".into()),
    };
    let state = if syscall.is_some() { State::Waits } else { State::Runs };
    let thread = Thread {
        tid: pid,
        name: "t".into(),
        count: 1,
        state,
        since_ns: None,
        syscall: syscall.map(str::to_owned),
        on: Vec::new(),
        holder: None,
        call: None,
        frames: vec![frame],
        complete: true,
    };
    Process {
        pid,
        own_pid: pid,
        rank,
        proc: None,
        program: "/bin/trainer".into(),
        arguments: Vec::new(),
        state,
        doing: syscall.map_or("runs".into(), |call| format!("waits in {call}")),
        since_ns: syscall.map(|_| 1_000_000_000),
        waits_for: peers.to_vec(),
        owes: Vec::new(),
        exported: Vec::new(),
        hint: None,
        stopped_ns: 0,
        threads: vec![thread],
        threads_more: 0,
        running_more: 0,
    }
}

fn answer(processes: &[Process]) -> String {
    sentence(processes, &Names::of(processes, &[]), &[])
}

#[test]
fn a_rank_that_is_not_where_the_others_wait_for_all_is_named_first() {
    let waiting = |rank: u32| process(10 + rank, Some(rank), None, "/usr/lib/libcuda.so.1", &[]);
    let mut late = process(12, Some(2), Some("clock_nanosleep"), "/usr/bin/python3", &[]);
    late.doing = "sleeps at train.py:22".into();
    let expected = "rank 2 has not come to where rank 0 waits: it sleeps at train.py:22; rank 0 runs (3 processes wait there)";
    assert_eq!(answer(&[waiting(0), waiting(1), late, waiting(3)]), expected);
    // Where all are there, nobody is late.
    assert_eq!(answer(&[waiting(0), waiting(1)]), "rank 0 runs; 1 more process does the same");
}

#[test]
fn processes_that_wait_for_each_other_are_named_together() {
    let all = [
        process(10, Some(0), Some("read"), "/lib/x.so", &[11]),
        process(11, Some(1), Some("read"), "/lib/x.so", &[10]),
    ];
    assert_eq!(
        answer(&all),
        "rank 0 and rank 1 wait for each other: rank 0 waits in read; rank 1 waits in read"
    );
}

#[test]
fn a_launcher_that_waits_for_its_children_comes_last() {
    let launcher = process(9, None, Some("wait4"), "/bin/launcher", &[10, 11]);
    let [first, second] = [0, 1].map(|rank| {
        process(10 + rank, Some(rank), Some("read"), "/lib/x.so", if rank == 1 { &[10] } else { &[9] })
    });
    let text = answer(&[launcher, first, second]);
    assert!(text.starts_with("rank 1 waits in read; its peer is rank 0; rank 0 waits in read"), "{text}");
}

#[test]
fn ranks_are_named_before_the_pipe_of_their_launcher() {
    let launcher = process(9, None, Some("read"), "/bin/launcher", &[]);
    let running = |rank: u32| process(10 + rank, Some(rank), None, "/lib/x.so", &[]);
    assert_eq!(answer(&[launcher.clone(), running(0)]), "rank 0 runs");

    let owed = "exported ipc:6f2404c73bc883fc 2 s ago and nobody opened it";
    let mut owner = process(10, Some(0), Some("read"), "/lib/x.so", &[9]);
    owner.owes = vec![owed.into()];
    let expected = format!("rank 0 waits in read; it {owed}");
    assert_eq!(answer(&[launcher.clone(), owner.clone(), running(1)]), expected);

    // The kernel does not tell everybody whose the other end of a socket is.
    let mut waiting = process(11, Some(1), Some("recvfrom"), "/lib/x.so", &[]);
    waiting.threads[0].on = vec![On {
        fd: 3,
        kind: "Unix socket".into(),
        name: String::new(),
        inode: Some(7),
        peers: Vec::new(),
        unknown: Some("it is in another network namespace".into()),
    }];
    let expected =
        format!("rank 1 waits in recvfrom; Unix socket 3: it is in another network namespace; rank 0 {owed}");
    assert_eq!(answer(&[launcher, owner, waiting]), expected);
}

#[test]
fn a_refusal_says_for_how_many_it_holds() {
    let refused = |pid: u32| Process {
        state: State::Refused,
        doing: "may not be read".into(),
        hint: Some("run as root".into()),
        threads: Vec::new(),
        ..process(pid, None, None, "", &[])
    };
    assert_eq!(
        answer(&[refused(5), refused(6)]),
        "process 5 may not be read; run as root; the same holds for 1 more process"
    );
    assert_eq!(answer(&[]), "no process of the job is running");
}

#[test]
fn an_export_that_failed_is_named_where_nobody_alive_owes_anything() {
    let mut waiting = process(11, Some(1), Some("recvmsg"), "/bin/trainer", &[]);
    waiting.threads[0].on.push(On {
        fd: 3,
        kind: "Unix socket".into(),
        name: "socket:[1]".into(),
        inode: None,
        peers: Vec::new(),
        unknown: None,
    });
    let gone = ["rank 0, which is gone (exit status 1), failed to export".to_owned()];
    let of = |processes: &[Process]| sentence(processes, &Names::of(processes, &[]), &gone);
    let expected = format!("rank 1 waits in recvmsg; Unix socket 3 is socket:[1]; {}", gone[0]);
    assert_eq!(of(&[waiting.clone()]), expected);
    // What is owed by a process that runs says more.
    let mut other = process(12, Some(2), Some("recvmsg"), "/bin/trainer", &[]);
    other.owes.push("failed to export 1 s ago".into());
    let said = of(&[waiting.clone(), other]);
    assert!(said.starts_with("rank 2 waits in recvmsg; it failed to export 1 s ago; "), "{said}");
    assert!(!said.contains("is gone"), "{said}");
    // A process that waits for no other process waits for no export.
    waiting.threads[0].on.clear();
    assert_eq!(of(&[waiting]), "rank 1 waits in recvmsg");
}
