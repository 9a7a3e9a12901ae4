//! What a process does, as a clause without its name: `waits in recv at x.py:12 since 38 s`.

use super::document::{Frame, On, Process, State, Thread};
use super::ledger::Ledger;
use super::names::Names;
use super::syscall::word;
use super::times::ago;
use cupeer_report::names::counted;

/// A time shorter than that says nothing: whoever waits in a loop has just waited before.
const SHORTEST: u64 = 1_000_000;

/// Fills in what a process does, for whom it waits, and what it owes.
pub fn complete(process: &mut Process, names: &Names, ledger: Option<&Ledger>) {
    if let (Some(proc), Some(ledger)) = (&process.proc, ledger) {
        process.exported = ledger.exported(proc);
        process.owes = ledger.owes(proc);
    }
    match process.state {
        State::Ended => process.doing = "ended while it was read".into(),
        State::Refused => {}
        _ => {
            let Some(first) = process.threads.first() else { return };
            process.since_ns = first.call.as_ref().map(|call| call.since_ns).or(first.since_ns);
            process.waits_for = waits_for(process.pid, first, names);
            process.doing = doing(process, first, names);
        }
    }
}

/// The processes that a thread waits for.
fn waits_for(pid: u32, thread: &Thread, names: &Names) -> Vec<u32> {
    let mut all: Vec<u32> = match thread.syscall.as_deref() {
        Some("wait4" | "waitid") => names.children(pid),
        _ => thread.on.iter().flat_map(|on| on.peers.iter().copied()).collect(),
    };
    all.sort_unstable();
    all.dedup();
    if all.len() > 1 {
        // A descriptor that leads back to oneself is a way to be woken.
        all.retain(|peer| *peer != pid);
    }
    all
}

fn doing(process: &Process, thread: &Thread, names: &Names) -> String {
    let at = at(thread);
    let since =
        process.since_ns.filter(|since| *since >= SHORTEST).map(|since| format!(" since {}", ago(since)));
    let since = since.unwrap_or_default();
    if let Some(call) = &thread.call {
        let handle = call.handle.as_ref().map(|handle| format!(" for {handle}")).unwrap_or_default();
        let fault = call.injected_by.as_ref().map(|fault| format!(", held by the fault {fault}"));
        return format!("is in {}{handle}{at}{since}{}", call.function, fault.unwrap_or_default());
    }
    match (thread.state, thread.syscall.as_deref()) {
        (State::Runs, _) => format!("runs{at}"),
        (State::Stopped, _) => format!("is stopped by a signal or a debugger{at}{since}"),
        (_, Some("wait4" | "waitid")) => match names.children(process.pid).as_slice() {
            [] => format!("waits for a child to end{at}{since}"),
            [child] => format!("waits for its child, process {child}, to end{at}{since}"),
            children => {
                format!("waits for {} to end{at}{since}", counted(children.len() as u64, "child process"))
            }
        },
        (_, Some(call)) => {
            let holder =
                thread.holder.and_then(|holder| process.threads.iter().find(|other| other.tid == holder));
            let held =
                holder.map(|holder| format!("; thread {} holds the lock, and {}", holder.tid, brief(holder)));
            match word(call) {
                "sleep" => format!("sleeps{at}{since}"),
                word => format!("waits in {word}{at}{since}{}", held.unwrap_or_default()),
            }
        }
        _ => format!("waits{at}{since}"),
    }
}

/// What another thread of the process does.
fn brief(thread: &Thread) -> String {
    let at = at(thread);
    match (thread.state, thread.syscall.as_deref()) {
        (State::Runs, _) => format!("runs{at}"),
        (_, Some(call)) => format!("waits in {}{at}", word(call)),
        _ => format!("waits{at}"),
    }
}

/// ` at x.py:12`: the innermost frame of the program's own, and what that called, where it is Python's.
pub fn at(thread: &Thread) -> String {
    let Some(index) = own(&thread.frames) else { return String::new() };
    let own = &thread.frames[index];
    let called = thread.frames[..index].iter().rev().find(|frame| frame.language == own.language);
    let inside = match called.filter(|_| own.language == "Python") {
        Some(Frame { function: Some(function), .. }) => format!(" (in {function})"),
        _ => String::new(),
    };
    format!(" at {}{inside}", own.place())
}

/// The innermost frame that is the program's own: of Python, where there is any.
fn own(frames: &[Frame]) -> Option<usize> {
    let is_python = |frame: &Frame| frame.language == "Python";
    let python = frames.iter().position(|frame| is_python(frame) && frame.is_own());
    let python = python.or_else(|| frames.iter().position(is_python));
    python.or_else(|| frames.iter().position(Frame::is_own)).or(if frames.is_empty() {
        None
    } else {
        Some(0)
    })
}

/// Who is at the other end, as a clause.
pub fn peers(process: &Process, names: &Names) -> Option<String> {
    let thread = process.threads.first()?;
    if matches!(thread.syscall.as_deref(), Some("wait4" | "waitid")) {
        return None;
    }
    match process.waits_for.as_slice() {
        [] => thread.on.first().and_then(end),
        [peer] if *peer == process.pid => Some("the other end is its own".into()),
        [peer] => Some(format!("its peer is {}", names.name(*peer))),
        peers => Some(format!("its peers are {}", names.all(peers))),
    }
}

/// What is known of a descriptor without a known peer.
fn end(on: &On) -> Option<String> {
    match (&on.name, &on.unknown) {
        (name, Some(unknown)) if name.is_empty() => Some(format!("{} {}: {unknown}", on.kind, on.fd)),
        (name, Some(unknown)) => Some(format!("{} {} ({name}): {unknown}", on.kind, on.fd)),
        (name, None) if name.is_empty() => None,
        (name, None) => Some(format!("{} {} is {name}", on.kind, on.fd)),
    }
}
