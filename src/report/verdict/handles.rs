//! Handles with problems, in sentences.

use super::{Problem, Verdict};
use crate::base::moments::{bytes, number};
use crate::model::{FailedOpen, Handle, HandleAccess, Open, State};
use crate::words::names::{codes, counted};
use cupeer_rules::{Severity, Tells};

/// Number of importers that are named per handle; of further ones, only the number is given.
const MOST_IMPORTERS: usize = 6;

/// Problem of handles in a bad state: its severity, the fact with which a finding states it in place of the
/// problem, and the words after the number of handles: for one handle, and for more.
type HandleProblem = (Severity, Tells, [&'static str; 2]);

fn handle_problem(state: State) -> Option<HandleProblem> {
    Some(match state {
        State::Exported | State::Closed | State::OpenOnPurpose | State::DamagedOnPurpose | State::Open => {
            return None;
        }
        State::OpenAtExit => (
            Severity::Warning,
            Tells::OpenAtExit,
            ["was open when its opener ended", "were open when their openers ended"],
        ),
        State::Unknown => (
            Severity::Error,
            Tells::Unknown,
            ["could not be opened, and nobody here exported it", "could not be opened, and nobody here exported them"],
        ),
        State::Damaged => {
            (Severity::Error, Tells::Damaged, ["is a copy with damaged bytes", "are copies with damaged bytes"])
        }
        State::ExporterGone => (
            Severity::Error,
            Tells::ExporterGone,
            ["is open although its exporter is gone", "are open although their exporters are gone"],
        ),
        State::FreedWhileOpen => (
            Severity::Error,
            Tells::FreedWhileOpen,
            ["was freed while others had it open", "were freed while others had them open"],
        ),
    })
}

/// Returns how severe the state of a handle is; `None` if the state is no problem.
pub fn state_severity(state: State) -> Option<Severity> {
    handle_problem(state).map(|(severity, ..)| severity)
}

impl<'a> Verdict<'a> {
    /// Returns true if findings state that handles are in this state.
    pub fn is_state_in_findings(&self, state: State) -> bool {
        handle_problem(state)
            .is_some_and(|(_, what, _)| self.report.findings.iter().any(|finding| finding.states_fact(what)))
    }

    /// Returns the problem of each bad state of handles, the worst state first. Handles are in the order of
    /// the report.
    pub(super) fn find_handle_problems(&self) -> impl Iterator<Item = Problem<'a>> {
        let by_state = self.report.handles.chunk_by(|a, b| a.state == b.state);
        by_state.filter_map(|handles| self.problem_of_state(handles.first()?.state, handles))
    }

    fn problem_of_state(&self, state: State, handles: &[Handle]) -> Option<Problem<'a>> {
        let (severity, _, [one, more]) = handle_problem(state)?;
        // If fault plans made all opens of the handle fail, a process outside of the recording may have
        // exported it.
        let is_tried =
            |handle: &&Handle| state != State::Unknown || !handle.failed.iter().all(FailedOpen::is_on_purpose);
        let handles: Vec<&Handle> = handles.iter().filter(is_tried).collect();
        if handles.is_empty() || self.is_state_in_findings(state) {
            return None;
        }
        let (what, size) = (if handles.len() == 1 { one } else { more }, format_total_size(handles.iter().copied()));
        let what = format!("{}{size} {what}", counted(handles.len() as u64, "handle"));
        let problem = match state {
            State::OpenAtExit => Problem { option: "--leaks", ..Problem::new(what, Vec::new()) },
            _ => Problem::new(what, handles.iter().map(|handle| self.describe_handle(handle)).collect()),
        };
        Some(Problem { severity, ..problem })
    }

    fn describe_handle(&self, handle: &Handle) -> String {
        let exporter = match (&handle.exporter, handle.damaged_from) {
            (Some(proc), _) => format!("of {}", self.names.process(proc)),
            (None, Some(original)) => format!("from {original}"),
            (None, None) => "of nobody".to_owned(),
        };
        let freed = match (handle.freed_by, handle.freed_ns) {
            (Some(by), Some(at)) => format!(", ended by {by} at {}", self.at(at)),
            _ => String::new(),
        };
        format!("{} {exporter}{freed}: {}", handle.fingerprint, self.describe_culprits(handle))
    }

    /// Describes the processes that opened a handle, with times, and those that failed to.
    pub fn describe_importers(&self, handle: &Handle) -> String {
        let (mut parts, most) = (self.describe_openings(handle.opens.iter()), self.list_limit(MOST_IMPORTERS));
        for failed in handle.failed.iter().take(most) {
            let injected = match failed.injected {
                0 => String::new(),
                _ if failed.is_on_purpose() => " (INJECTED)".into(),
                some => format!(" ({} INJECTED)", number(some)),
            };
            let who = self.names.process(&failed.proc);
            parts.push(format!("{who} failed: {}{injected}", codes(&failed.codes)));
        }
        if handle.failed.len() > most {
            parts.push(format!("{} more failed", number((handle.failed.len() - most) as u64)));
        }
        if parts.is_empty() { "nobody".into() } else { parts.join("; ") }
    }

    /// Returns the numbers of bytes that each process wrote to the memory and read from it; empty if no
    /// recorded copy or memset used the memory.
    pub fn describe_accesses(&self, handle: &Handle) -> String {
        let range = |[from, to]: &[u64; 2]| match (*from, from % 1024 == 0 && to % 1024 == 0) {
            (0, true) => format!("[0, {})", bytes(*to)),
            (from, true) => format!("[{}, {})", bytes(from), bytes(*to)),
            (from, false) => format!("[{}, {})", number(from), number(*to)),
        };
        let most = self.list_limit(MOST_IMPORTERS);
        let of = |access: &HandleAccess| {
            let kinds = [("wrote", &access.writes), ("read", &access.reads)].into_iter();
            let kinds = kinds.filter(|(_, ranges)| !ranges.is_empty()).map(|(verb, ranges)| {
                let more = if ranges.len() > most { ", ..." } else { "" };
                let ranges: Vec<String> = ranges.iter().take(most).map(range).collect();
                format!("{verb} {}{more}", ranges.join(", "))
            });
            format!("{} {}", self.names.process(&access.proc), kinds.collect::<Vec<_>>().join(" and "))
        };
        let mut parts: Vec<String> = handle.accesses.iter().take(most).map(of).collect();
        parts.extend((handle.accesses.len() > most).then(|| "...".to_owned()));
        parts.join("; ")
    }

    /// Describes the opens that put a handle into its state; all opens if no single one did.
    pub fn describe_culprits(&self, handle: &Handle) -> String {
        let parts = self.describe_openings(handle.opens.iter().filter(|open| open.state == handle.state));
        if parts.is_empty() { self.describe_importers(handle) } else { parts.join("; ") }
    }

    /// Describes the processes that opened a handle, with times.
    fn describe_openings<'o>(&self, opens: impl Iterator<Item = &'o Open>) -> Vec<String> {
        let mut by_proc: Vec<(&str, Vec<&Open>)> = Vec::new();
        for open in opens {
            match by_proc.iter_mut().find(|(proc, _)| *proc == &*open.proc) {
                Some((_, opens)) => opens.push(open),
                None => by_proc.push((&open.proc, vec![open])),
            }
        }
        let most = self.list_limit(MOST_IMPORTERS);
        let mut parts: Vec<String> = by_proc
            .iter()
            .take(most)
            .map(|(proc, opens)| format!("{} {}", self.names.process(proc), self.format_open_time(opens)))
            .collect();
        if by_proc.len() > most {
            parts.push(format!("{} more", number((by_proc.len() - most) as u64)));
        }
        parts
    }

    /// Formats the time in which a process had a handle open: from its first open to its last close.
    fn format_open_time(&self, opens: &[&Open]) -> String {
        let times: u64 = opens.iter().map(|open| open.times + open.earlier).sum();
        let times = if times > 1 { format!(" ({} times)", number(times)) } else { String::new() };
        let (first, last) = (opens[0], opens[opens.len() - 1]);
        let until = match last.closed_ns {
            Some(closed) => format!("{} to {}", self.at(first.opened_ns), self.at(closed)),
            None if last.state == State::Closed => format!("{}, closed", self.at(first.opened_ns)),
            None => format!("since {}", self.at(last.opened_ns)),
        };
        format!("{until}{times}")
    }
}

/// Formats the total size of handles in parentheses; empty if it is unknown.
pub fn format_total_size<'a>(handles: impl Iterator<Item = &'a Handle>) -> String {
    match handles.filter_map(|handle| handle.bytes).fold(0, u64::saturating_add) {
        0 => String::new(),
        size => format!(" ({})", bytes(size)),
    }
}
