//! The ends of processes in words. Whether an end is a problem is up to `verdict`.

use crate::model::{Exit, ExitKind, Process};
use crate::words::names::{clean, signal_name};

/// Formats the end of a process for a column of a table.
pub fn ending(exit: Exit) -> String {
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
pub fn how(exit: Exit) -> String {
    match exit {
        Exit { kind: ExitKind::Returned, code: Some(code), immediate: true, .. } => {
            format!("exit status {code} by _exit")
        }
        Exit { kind: ExitKind::Returned, code: Some(code), .. } => format!("exit status {code}"),
        Exit { kind: ExitKind::Returned, .. } => "returned".into(),
        Exit { kind: ExitKind::Signal, signal, .. } => {
            format!("was killed by {}", signal_name(signal.unwrap_or(0).into()))
        }
        Exit { kind: ExitKind::Died, .. } => "was killed or called exit_group".into(),
        Exit { kind: ExitKind::Running, .. } => "runs".into(),
        Exit { kind: ExitKind::Executed, .. } => "became another program".into(),
        Exit { kind: ExitKind::Gone, .. } => "ended in an unknown way".into(),
        Exit { kind: ExitKind::Unseen, .. } => "may still be running, or may have ended".into(),
    }
}

/// Formats the end of a process in words, with the program that it became.
pub fn ended(process: &Process) -> String {
    match (&process.became, process.exit.kind) {
        (None, _) => how(process.exit),
        (Some(program), ExitKind::Executed) => format!("became {}", clean(program)),
        (Some(program), _) => format!("became {}: {}", clean(program), how(process.exit)),
    }
}

/// Formats how a program was killed; `None` if it was not killed.
pub fn killed(exit: Exit) -> Option<String> {
    match exit {
        Exit { kind: ExitKind::Signal | ExitKind::Died, .. } => Some(how(exit)),
        _ => None,
    }
}
