//! What is said after a run that made a record by itself: how much was called, what failed, what hangs, what was
//! left open, and where the record is. In a few lines; the rest is the report's.

use super::model::{Report, State};
use super::text::names::{codes, counted};
use std::path::Path;

/// The largest record that is read at the end of a run: a second or two.
const MOST_READ: u64 = 1 << 30;
/// So many lines about one thing.
const MOST_LINES: usize = 4;

/// The lines.
pub fn lines(directory: &Path) -> Vec<String> {
    let shown = shortest(directory);
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let size: u64 = entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum();
    if size > MOST_READ {
        return vec![format!("recorded {} MiB in {shown}; 'cupeer report {shown}' reads it", size >> 20)];
    }
    match super::of(directory) {
        Ok(report) => about(&report, &shown),
        Err(error) => vec![format!("recorded in {shown}, which cannot be read: {error:#}")],
    }
}

/// The directory as a person would type it.
fn shortest(directory: &Path) -> String {
    let here = std::env::current_dir().ok();
    let relative = here.and_then(|here| directory.strip_prefix(here).ok());
    relative.filter(|path| !path.as_os_str().is_empty()).unwrap_or(directory).display().to_string()
}

fn about(report: &Report, shown: &str) -> Vec<String> {
    let calls: u64 = report.functions.iter().map(|function| function.calls).sum();
    let failed: u64 = report.functions.iter().map(|function| function.failed()).sum();
    let processes = counted(report.processes.len() as u64, "process");
    let mut lines = vec![format!(
        "{processes}, {}, {failed} failed; 'cupeer report {shown}' shows them",
        counted(calls, "call")
    )];
    let failing: Vec<_> = report.functions.iter().filter(|function| function.failed() > 0).collect();
    for function in failing.iter().take(MOST_LINES) {
        let calls = counted(function.calls, "call");
        lines.push(format!("  {}, {calls}: {}", function.function, codes(&function.failures)));
    }
    more(&mut lines, failing.len(), "functions that failed");
    let pending: Vec<_> = report
        .processes
        .iter()
        .flat_map(|process| process.pending.iter().map(move |call| (process, call)))
        .collect();
    for (process, call) in pending.iter().take(MOST_LINES) {
        let rank = process.rank.map(|rank| format!("rank {rank}, ")).unwrap_or_default();
        let library = call.caller.library.as_deref().unwrap_or("an unknown place");
        lines.push(format!(
            "  {} did not return: {rank}process {}, called from {library}",
            call.function, process.pid
        ));
    }
    more(&mut lines, pending.len(), "calls that did not return");
    for kind in ["memory", "event"] {
        let of_kind = || report.handles.iter().filter(|handle| handle.kind == kind);
        let opens: Vec<_> = of_kind().flat_map(|handle| &handle.opens).collect();
        let left = opens.iter().filter(|open| open.closed_ns.is_none()).count();
        if left > 0 {
            let opened = counted(opens.len() as u64, &format!("{kind} handle"));
            lines.push(format!("  left open: {left} of {opened} that were opened; --leaks shows where"));
        }
        let freed = of_kind().filter(|handle| handle.state == State::FreedWhileOpen).count() as u64;
        if freed > 0 {
            lines
                .push(format!("  freed while open elsewhere: {}", counted(freed, &format!("{kind} handle"))));
        }
    }
    if report.record.lost > 0 {
        lines.push(format!(
            "  {} lost: the record could not be written",
            counted(report.record.lost, "event")
        ));
    }
    lines
}

/// Says how many were left out.
fn more(lines: &mut Vec<String>, all: usize, what: &str) {
    if all > MOST_LINES {
        lines.push(format!("  and {} more {what}", all - MOST_LINES));
    }
}
