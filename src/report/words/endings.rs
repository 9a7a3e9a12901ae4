//! The ends of processes in words. `verdict` decides whether an end is a problem.

use crate::model::{Asked, Exit, ExitKind, Process};
use crate::words::names::{clean, signal_name};

/// Number of SIGKILL.
pub const KILL: u8 = 9;
/// Numbers of the signals that ask a process to end: SIGHUP, SIGINT, SIGQUIT, and SIGTERM. No fault of a program causes them.
const ASKING: [u8; 4] = [1, 2, 3, 15];
/// Numbers of the signals by which a fault of a program ends it: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, and SIGSYS.
const CRASHING: [u8; 7] = [4, 5, 6, 7, 8, 11, 31];

/// Sender of a signal by which cupeer itself ends a run.
pub const OURSELVES: &str = "cupeer";

/// Returns true if a signal asks a process to end.
pub fn is_end_request(signal: u8) -> bool {
    ASKING.contains(&signal)
}

/// Returns true if a process crashed: something in the recording may explain that.
pub fn is_crash(exit: Exit) -> bool {
    exit.signal.is_some_and(|signal| CRASHING.contains(&signal))
}

/// Formats the end of a process for a table cell.
pub fn format_end_short(exit: Exit) -> String {
    match (exit.kind, exit.code, exit.signal) {
        (ExitKind::Returned, Some(code), _) => code.to_string(),
        (ExitKind::Returned, None, _) => "returned".into(),
        (ExitKind::Signal, _, signal) => signal_name(signal.unwrap_or(0).into()),
        (ExitKind::Running, ..) => "running".into(),
        (ExitKind::Died, ..) => "died".into(),
        (ExitKind::Executed, ..) => "exec".into(),
        (ExitKind::Gone, ..) => "gone".into(),
        (ExitKind::Unseen, ..) => "unknown".into(),
    }
}

/// Formats the end of a process in words.
pub fn format_end(exit: Exit) -> String {
    match exit {
        Exit { kind: ExitKind::Returned, code: Some(code), immediate: true, .. } => {
            format!("exit status {code} by _exit")
        }
        Exit { kind: ExitKind::Returned, code: Some(code), .. } => format!("exit status {code}"),
        Exit { kind: ExitKind::Returned, .. } => "returned".into(),
        Exit { kind: ExitKind::Signal, signal, .. } => {
            let verb = if signal.is_some_and(is_end_request) { "ended" } else { "killed" };
            format!("was {verb} by {}", signal_name(signal.unwrap_or(0).into()))
        }
        Exit { kind: ExitKind::Died, .. } => "was killed or called exit_group".into(),
        Exit { kind: ExitKind::Running, .. } => "runs".into(),
        Exit { kind: ExitKind::Executed, .. } => "became another program".into(),
        Exit { kind: ExitKind::Gone, .. } => "ended in an unknown way".into(),
        Exit { kind: ExitKind::Unseen, .. } => "may still be running, or may have ended".into(),
    }
}

/// Describes the end of a process, the program that it executed before its end, and the signal from outside
/// that preceded its end.
pub fn describe_end(process: &Process) -> String {
    let itself = match &process.asked {
        Some(asked) if process.exit.signal == Some(asked.signal) => {
            format!("was ended by {}", name_signal_and_origin(asked))
        }
        // The same signal ended the parent, which therefore could not record how this process ended.
        Some(asked) if process.exit.kind == ExitKind::Died && process.ended_by_ns.is_some() => {
            format!("was ended by {}", name_signal_and_origin(asked))
        }
        Some(asked) if process.exit.kind == ExitKind::Died => {
            format!("ended after {}", name_signal_and_origin(asked))
        }
        Some(asked) => format!("{} after {}", format_end(process.exit), name_signal_and_origin(asked)),
        None => format_end(process.exit),
    };
    match (&process.became, process.exit.kind) {
        (None, _) => itself,
        (Some(program), ExitKind::Executed) => format!("became {}", clean(program)),
        (Some(program), _) => format!("became {}: {itself}", clean(program)),
    }
}

/// Names a signal and its origin: `SIGTERM from outside`, or from cupeer itself.
fn name_signal_and_origin(asked: &Asked) -> String {
    let from = if asked.sender.as_deref() == Some(OURSELVES) { OURSELVES } else { "outside" };
    format!("{} from {from}", signal_name(asked.signal.into()))
}

/// Names the sender of a signal: `timeout, process 100`; `None` if the sender is unknown.
pub fn name_sender(asked: &Asked) -> Option<String> {
    let name = asked.sender.as_deref().filter(|name| *name != OURSELVES).map(clean);
    match (name, asked.pid) {
        (Some(name), Some(pid)) => Some(format!("{name}, process {pid}")),
        (None, Some(pid)) if asked.sender.is_none() => Some(format!("process {pid}")),
        (name, _) => name,
    }
}

/// Formats how a process was killed; `None` if no signal ended it, or only a signal that asks a process to
/// end.
pub fn describe_kill(exit: Exit) -> Option<String> {
    match exit {
        Exit { kind: ExitKind::Signal, signal: Some(signal), .. } if is_end_request(signal) => None,
        Exit { kind: ExitKind::Signal | ExitKind::Died, .. } => Some(format_end(exit)),
        _ => None,
    }
}
