//! The answer in one sentence: which process to look at first, and why the others wait.

use super::document::{Process, State, Thread};
use super::does;
use super::names::Names;
use cupeer_report::names::counted;
use std::cmp::Reverse;

/// Libraries and functions in which processes wait for the device, or for all others.
const COLLECTIVE: [&str; 9] = [
    "libcuda.so",
    "libcudart",
    "libnccl",
    "libgloo",
    "libmpi",
    "libnvshmem",
    "libucp",
    "c10d",
    "distributed_c10d.py",
];

/// What a process waits for, in the order in which it is told of first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Weight {
    /// A call of the driver that has not returned.
    Call,
    /// Another process.
    Peer,
    /// A lock whose holder is known.
    Lock,
    /// The device, or all others.
    Collective,
    /// Something else.
    Other,
    /// A rank that waits for what started it, as for its stdin.
    Launcher,
    Stopped,
    Sleeps,
    Runs,
    Refused,
    /// Its children: launchers do.
    Children,
    Ended,
}

/// The first line; `gone` has a clause for each process that ended after an export that failed.
pub fn sentence(processes: &[Process], names: &Names, gone: &[String]) -> String {
    let mut sorted: Vec<&Process> = processes.iter().collect();
    // A call that does not return is told of first, whoever made it. Then, ranks come before the processes that started them, those
    // to whom something is owed before those that owe something before others, and then the one that has waited longest.
    let has_ranks = processes.iter().any(|process| process.rank.is_some() && is_alive(process));
    sorted.sort_by_key(|process| {
        let waits_for = |is: fn(&Process) -> bool| {
            processes.iter().any(|peer| process.waits_for.contains(&peer.pid) && is(peer))
        };
        let is_owed = waits_for(|peer| !peer.owes.is_empty());
        let owes = !process.owes.is_empty();
        let weight = weight(process, processes);
        let starts_ranks = has_ranks && process.rank.is_none() && weight != Weight::Call;
        (starts_ranks, weight, !is_owed, !owes, Reverse(process.since_ns), process.pid)
    });
    let Some(first) = sorted.first() else { return "no process of the job is running".into() };
    let name = |process: &Process| names.name(process.pid);
    if let Some(cycle) = cycle(processes) {
        let each: Vec<String> =
            cycle.iter().map(|process| format!("{} {}", name(process), process.doing)).collect();
        return format!("{} wait for each other: {}", names.all(&pids(&cycle)), each.join("; "));
    }
    let mut clauses = vec![format!("{} {}", name(first), first.doing)];
    match weight(first, processes) {
        Weight::Refused => {
            clauses.extend(first.hint.clone());
            let others = processes.iter().filter(|process| process.state == State::Refused).count() - 1;
            if others > 0 {
                clauses.push(format!("the same holds for {}", more(others)));
            }
            return clauses.join("; ");
        }
        Weight::Collective => {
            // Whoever is not there is what the others wait for.
            let late: Vec<&Process> = processes.iter().filter(|process| is_late(process, first)).collect();
            if let Some(late_one) = late.first() {
                let more =
                    if late.len() > 1 { format!(", like {}", more(late.len() - 1)) } else { String::new() };
                let waiting = processes
                    .iter()
                    .filter(|process| weight(process, processes) == Weight::Collective)
                    .count();
                let others = if waiting > 1 {
                    format!(" ({} wait there)", counted(waiting as u64, "process"))
                } else {
                    String::new()
                };
                return format!(
                    "{} has not come to where {} waits{more}: it {}; {} {}{others}",
                    name(late_one),
                    name(first),
                    late_one.doing,
                    name(first),
                    first.doing
                );
            }
        }
        Weight::Call => clauses.extend(exporter(first, processes, names)),
        _ => {}
    }
    let peers = || {
        let is_peer = |process: &&Process| first.waits_for.contains(&process.pid) && process.pid != first.pid;
        processes.iter().filter(is_peer)
    };
    match first.owes.first() {
        // What is owed to others says more than what a rank waits for that owes it.
        Some(owed) if peers().all(|peer| peer.rank.is_none()) => clauses.push(format!("it {owed}")),
        _ => {
            clauses.extend(does::peers(first, names));
            for peer in peers().take(2) {
                let what = peer.owes.first().unwrap_or(&peer.doing);
                clauses.push(format!("{} {what}", name(peer)));
            }
            // Who the peer is may be unknown.
            let owes = |process: &&Process| process.pid != first.pid && !process.owes.is_empty();
            let waits_on = first.threads.first().is_some_and(|thread| !thread.on.is_empty());
            if waits_on && peers().all(|peer| peer.rank.is_none() && peer.owes.is_empty()) {
                let other = processes.iter().find(owes).filter(|_| peers().next().is_none());
                let owed = other.map(|other| format!("{} {}", name(other), other.owes[0]));
                clauses.extend(owed.or_else(|| gone.first().cloned()));
            }
        }
    }
    let alike = |process: &&Process| {
        process.pid != first.pid && process.waits_for == first.waits_for && what(process) == what(first)
    };
    match processes.iter().filter(alike).count() {
        0 => {}
        others => {
            clauses.push(format!("{} {} the same", more(others), if others == 1 { "does" } else { "do" }))
        }
    }
    clauses.join("; ")
}

/// `1 more process`, `62 more processes`.
fn more(count: usize) -> String {
    counted(count as u64, "process").replacen(' ', " more ", 1)
}

fn pids(processes: &[&Process]) -> Vec<u32> {
    processes.iter().map(|process| process.pid).collect()
}

/// The call that a process waits in.
fn what(process: &Process) -> Option<(&str, bool)> {
    let thread = process.threads.first()?;
    let call = thread.call.as_ref().map(|call| &*call.function);
    Some((call.or(thread.syscall.as_deref())?, call.is_some()))
}

/// The process that exported what a process tries to open.
fn exporter(process: &Process, processes: &[Process], names: &Names) -> Option<String> {
    let handle = process.threads.first()?.call.as_ref()?.handle.as_ref()?;
    let is_it =
        |other: &&Process| other.pid != process.pid && other.exported.iter().any(|known| known == handle);
    let exporter = processes.iter().find(is_it)?;
    Some(format!("{} exported it, and {}", names.name(exporter.pid), exporter.doing))
}

fn weight(process: &Process, processes: &[Process]) -> Weight {
    let Some(thread) = process.threads.first() else {
        return if process.state == State::Refused { Weight::Refused } else { Weight::Ended };
    };
    let is_peer = |other: &Process| other.pid != process.pid && process.waits_for.contains(&other.pid);
    let waits_for_another = processes.iter().any(is_peer);
    let waits_for_launcher =
        process.rank.is_some() && !processes.iter().any(|other| is_peer(other) && other.rank.is_some());
    match (process.state, thread.syscall.as_deref()) {
        (State::Ended, _) => Weight::Ended,
        (State::Refused, _) => Weight::Refused,
        _ if thread.call.is_some() => Weight::Call,
        (_, Some("wait4" | "waitid")) => Weight::Children,
        (State::Stopped, _) => Weight::Stopped,
        _ if is_collective(thread) && processes.iter().any(|other| is_late(other, process)) => {
            Weight::Collective
        }
        (State::Runs, _) => Weight::Runs,
        (_, Some("nanosleep" | "clock_nanosleep")) => Weight::Sleeps,
        _ if waits_for_another && waits_for_launcher => Weight::Launcher,
        _ if waits_for_another => Weight::Peer,
        _ if thread.holder.is_some() => Weight::Lock,
        _ => Weight::Other,
    }
}

/// Whether a thread waits for the device or for all others.
pub fn is_collective(thread: &Thread) -> bool {
    let is_in = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or_default();
        COLLECTIVE.iter().any(|known| text.contains(known))
    };
    thread.frames.iter().any(|frame| is_in(&frame.library) || is_in(&frame.file) || is_in(&frame.function))
}

/// Whether a process runs the same program as one that waits for all others, and is somewhere else.
fn is_late(process: &Process, waiting: &Process) -> bool {
    let has_ranks = process.rank.is_some() == waiting.rank.is_some();
    process.pid != waiting.pid
        && is_alive(process)
        && has_ranks
        && process.program == waiting.program
        && process.threads.first().is_some_and(|thread| !is_collective(thread) && !is_launcher(thread))
}

fn is_alive(process: &Process) -> bool {
    !matches!(process.state, State::Ended | State::Refused)
}

fn is_launcher(thread: &Thread) -> bool {
    matches!(thread.syscall.as_deref(), Some("wait4" | "waitid"))
}

/// Processes that wait for one another in a circle.
fn cycle(processes: &[Process]) -> Option<Vec<&Process>> {
    let only = |process: &Process| match process.waits_for.as_slice() {
        [peer] if *peer != process.pid && !process.threads.first().is_some_and(is_launcher) => Some(*peer),
        _ => None,
    };
    processes.iter().find_map(|start| {
        let (mut path, mut at) = (vec![start], start);
        while path.len() <= processes.len() {
            let next = only(at)?;
            if next == start.pid {
                return Some(path);
            }
            at = processes.iter().find(|process| process.pid == next)?;
            if path.iter().any(|known| known.pid == at.pid) {
                return None;
            }
            path.push(at);
        }
        None
    })
}

#[cfg(test)]
mod tests;
