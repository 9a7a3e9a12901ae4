//! The activity of a process as a clause without its name: `waits in recv at x.py:12 since 38 s`.

use super::document::{Frame, On, Polls, Process, State, Thread};
use super::ledger::RecordedJob;
use super::names::ProcessNames;
use super::syscall::{AwaitedEvent, libc_name};
use super::times::format_duration;
use cupeer_report::symbols::shorten_name;
use std::collections::{HashMap, HashSet};

/// Shorter times, in nanoseconds, are not printed: a thread that waits in a loop has always begun its last wait a
/// moment ago.
const SHORTEST: u64 = 1_000_000;

/// Maximum width of a function's name, in columns.
const WIDTH: usize = 60;

/// Sets the sentences about what a process does, whom it waits for, and what it owes to others.
pub fn describe_process(process: &mut Process, names: &ProcessNames, ledger: Option<&RecordedJob>) {
    if let (Some(proc), Some(ledger)) = (&process.proc, ledger) {
        process.exported = ledger.exported_fingerprints(proc);
        process.owes = ledger.owed_clauses(proc);
    }
    match process.state {
        State::Ended => process.doing = end_clause(process),
        State::Refused => {}
        _ => {
            let Some(first) = process.threads.first() else { return };
            process.since_ns = first.call.as_ref().map(|call| call.since_ns).or(first.since_ns);
            process.waits_for = awaited_pids(process.pid, first, names);
            process.doing = activity_clause(process, first, names);
        }
    }
}

/// Returns a clause about the end of a process, and the time since then.
fn end_clause(process: &Process) -> String {
    let Some(ended) = &process.ended else { return "ended while it was read".into() };
    let how = match (&ended.signal, ended.status) {
        (Some(signal), _) => format!("was killed by {signal}"),
        (_, Some(status)) => format!("exited with status {status}"),
        _ => "ended".into(),
    };
    how + &ended.ago_ns.map(|ns| format!(", {} ago", format_duration(ns))).unwrap_or_default()
}

/// Returns the pids of the processes that a thread waits for.
fn awaited_pids(pid: u32, thread: &Thread, names: &ProcessNames) -> Vec<u32> {
    let mut all: Vec<u32> = match thread.syscall.as_deref() {
        Some("wait4" | "waitid") => awaited_children(pid, thread, names),
        _ => thread.on.iter().flat_map(|on| on.peers.iter().copied()).collect(),
    };
    all.sort_unstable();
    all.dedup();
    if all.len() > 1 {
        // A descriptor whose other end is in the same process is a means to wake the process.
        all.retain(|peer| *peer != pid);
    }
    all
}

/// Returns the pids of the children that a thread waits for: the one that its call names, or all.
pub fn awaited_children(pid: u32, thread: &Thread, names: &ProcessNames) -> Vec<u32> {
    let all = names.children_of(pid);
    match thread.awaited {
        Some(AwaitedEvent::Child(Some(child))) if all.contains(&(child as u32)) => vec![child as u32],
        _ => all,
    }
}

pub fn activity_clause(process: &Process, thread: &Thread, names: &ProcessNames) -> String {
    let at = place_clause(thread);
    let since =
        process.since_ns.filter(|since| *since >= SHORTEST).map(|since| format!(" since {}", format_duration(since)));
    let since = since.unwrap_or_default();
    if let Some(call) = &thread.call {
        let handle = call.handle.as_ref().map(|handle| format!(" for {handle}")).unwrap_or_default();
        let fault = call.injected_by.as_ref().map(|fault| format!(", held by the fault {fault}"));
        return format!("is in {}{handle}{at}{since}{}", call.function, fault.unwrap_or_default());
    }
    if let Some(polls) = &thread.polls {
        return format!("{}{at}{since}", polling_clause(polls));
    }
    match (thread.state, thread.syscall.as_deref()) {
        (State::Runs, _) => format!("runs{at}"),
        (State::Stopped, _) => format!("is stopped by a signal or a debugger{at}{since}"),
        (_, Some("wait4" | "waitid")) => match awaited_children(process.pid, thread, names).as_slice() {
            [] => format!("waits for a child to end{at}{since}"),
            [child] => format!("waits for its child, {}, to end{at}{since}", names.name(*child)),
            children => format!("waits for {} to end{at}{since}", names.join_names(children)),
        },
        (_, Some(call)) => {
            let holder = thread
                .holder
                .filter(|holder| *holder != thread.tid)
                .and_then(|holder| process.threads.iter().find(|other| other.tid == holder));
            let held =
                holder.map(|holder| format!("; thread {} holds the lock, and {}", holder.tid, brief_activity(holder)));
            match libc_name(call) {
                _ if thread.is_sleeping() => format!("sleeps{at}{since}"),
                word @ ("flock" | "fcntl") if thread.on.iter().any(|on| !on.name.is_empty()) => {
                    format!("waits in {word} for {}{at}{since}", thread.on[0].name)
                }
                "open" | "openat" => match &thread.awaited {
                    Some(AwaitedEvent::Open(path)) => format!("waits in open of {path}{at}{since}"),
                    _ => format!("waits in open{at}{since}"),
                },
                word => format!("waits in {word}{at}{since}{}", held.unwrap_or_default()),
            }
        }
        _ => format!("waits{at}{since}"),
    }
}

/// Returns a clause about memory that a thread reads repeatedly, and the number of times that it had the same value.
fn polling_clause(polls: &Polls) -> String {
    let name = if polls.name.starts_with("/dev/zero") { "shared memory" } else { &polls.name };
    let looks = polls.looks;
    match polls.offset.zip(polls.value) {
        Some((offset, value)) => {
            format!("polls {name}+{offset:#x}, which was {value} at each of {looks} looks,")
        }
        None => format!("sleeps again and again, while nothing changes in {name} at any of {looks} looks,"),
    }
}

/// Returns a clause about another thread of the process.
fn brief_activity(thread: &Thread) -> String {
    let at = place_clause(thread);
    match (thread.state, thread.syscall.as_deref()) {
        (State::Runs, _) => format!("runs{at}"),
        (_, Some(call)) => format!("waits in {}{at}", libc_name(call)),
        _ => format!("waits{at}"),
    }
}

/// Returns the place of a thread, ` at x.py:12`: its most informative frame and, if that is a Python frame, the function that it
/// called.
pub fn place_clause(thread: &Thread) -> String {
    let Some(index) = thread.shown_frame.or_else(|| innermost_own_frame(thread.own_frames())) else {
        return String::new();
    };
    let own = &thread.frames[index];
    let called = thread.frames[..index].iter().rev().find(|frame| frame.language == own.language);
    let inside = match called.filter(|_| own.language == "Python" && own.is_own()) {
        Some(Frame { function: Some(function), .. }) => format!(" (in {function})"),
        _ => String::new(),
    };
    // A frame without a line is described by its function alone, and a comprehension by the function that contains it.
    let mut outer = thread.frames[index..].iter().take_while(|frame| frame.file == own.file);
    let function = outer.find_map(|frame| frame.function.as_deref().filter(|name| !name.starts_with('<')));
    let function = function.filter(|_| own.line.is_some());
    let function = function.map(|name| format!(" in {}", shorten_name(name, WIDTH))).unwrap_or_default();
    format!(" at {}{function}{inside}", own.place_text())
}

/// Returns the index of the innermost frame of the program's own code: a Python frame if there is any; otherwise preferably a
/// frame that is not in a header file.
fn innermost_own_frame(frames: &[Frame]) -> Option<usize> {
    let position = |is: &dyn Fn(&Frame) -> bool| frames.iter().position(is);
    let is_python = |frame: &Frame| frame.language == "Python";
    let python = position(&|frame| is_python(frame) && frame.is_own());
    // If all frames are in libraries, the function that the interpreter called is the most informative.
    let is_start = |frame: &Frame| frame.file.as_deref().is_some_and(|file| file.ends_with("/threading.py"));
    let outer = |is: &dyn Fn(&Frame) -> bool| frames.iter().rposition(is);
    let python = python.or_else(|| outer(&|frame| is_python(frame) && !is_start(frame)));
    let python = python.or_else(|| outer(&is_python));
    let own = python.or_else(|| position(&|frame| frame.is_own() && !frame.is_header()));
    let own = own.or_else(|| position(&Frame::is_own)).or_else(|| position(&Frame::is_in_other_library));
    own.or((!frames.is_empty()).then_some(0))
}

/// Chooses the most informative frame of each thread: not in a helper function that several processes called from different
/// places.
pub fn choose_shown_frames(processes: &mut [Process]) {
    type Function = (Option<String>, Option<String>);
    let name = |frame: &Frame| -> Function { (frame.file.clone(), frame.function.clone()) };
    let outer = |frames: &[Frame], index: usize| {
        let rest =
            frames[index + 1..].iter().position(|frame| frame.language == frames[index].language && frame.is_own());
        rest.map(|more| index + 1 + more)
    };
    let mut callers: HashMap<Function, HashSet<(Function, Option<u32>)>> = HashMap::new();
    for thread in processes.iter().filter_map(|process| process.threads.first()) {
        let frames = thread.own_frames();
        let mut at = innermost_own_frame(frames);
        while let Some(index) = at {
            let next = outer(frames, index);
            if let Some(caller) = next.map(|next| &frames[next]) {
                callers.entry(name(&frames[index])).or_default().insert((name(caller), caller.line));
            }
            at = next;
        }
    }
    for thread in processes.iter_mut().flat_map(|process| &mut process.threads) {
        let frames = thread.own_frames();
        let is_helper = |index: usize| callers.get(&name(&frames[index])).is_some_and(|all| all.len() > 1);
        let mut at = innermost_own_frame(frames);
        while let Some(next) = at.filter(|index| is_helper(*index)).and_then(|index| outer(frames, index)) {
            at = Some(next);
        }
        thread.shown_frame = at;
    }
}

/// Returns a clause about the processes at the other ends of a process's descriptors.
pub fn peers_clause(process: &Process, names: &ProcessNames) -> Option<String> {
    let thread = process.threads.first()?;
    if matches!(thread.syscall.as_deref(), Some("wait4" | "waitid")) {
        return None;
    }
    match process.waits_for.as_slice() {
        _ if matches!(thread.awaited, Some(AwaitedEvent::FileLock(_))) => None,
        [] => thread.on.first().and_then(unknown_peer_clause),
        [peer] if *peer == process.pid => Some("the other end is its own".into()),
        [peer] => Some(format!("its peer is {}", names.name(*peer))),
        peers => Some(format!("its peers are {}", names.join_names(peers))),
    }
}

/// Returns a clause about a descriptor whose peer is unknown.
fn unknown_peer_clause(on: &On) -> Option<String> {
    match (&on.name, &on.unknown) {
        (name, Some(unknown)) if name.is_empty() => Some(format!("{} {}: {unknown}", on.kind, on.fd)),
        (name, Some(unknown)) => Some(format!("{} {} ({name}): {unknown}", on.kind, on.fd)),
        (name, None) if name.is_empty() => None,
        (name, None) => Some(format!("{} {} is {name}", on.kind, on.fd)),
    }
}
