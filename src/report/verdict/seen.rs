//! The first lines of a report without problems: the calls that broke no rule, and the calls that no rule
//! checked. The absence of problems proves nothing.

use super::{Verdict, looked};
use crate::base::moments::{bytes, number};
use crate::model::{ExitKind, FailureGroup, Handle, Proc, Process, State};
use crate::words::names::{counted, format_unrecorded_count};

impl Verdict<'_> {
    /// Describes the checked and unchecked calls of a recording without problems, one paragraph each.
    pub fn describe_coverage(&self) -> Vec<String> {
        if self.report.record.matching == Some(0) {
            return Vec::new();
        }
        let unseen: Vec<(&Proc, String)> = self.report.processes_without_calls().collect();
        if let Some((_, why)) = unseen.first() {
            let processes = self.names.processes(unseen.iter().map(|(proc, _)| &***proc));
            return vec![format!("libcuda was loaded in {processes}, but cupeer saw no call that it records: {why}.")];
        }
        let record = &self.report.record;
        let quiet = format_unrecorded_count(record.count_quiet_processes(), 0).filter(|_| record.hosts.is_empty());
        if let Some(quiet) = quiet {
            return vec![format!("Nothing is known: {quiet}. --record full keeps all.")];
        }
        let not_checked = format!("Not checked: {}.", looked::describe_unchecked(self.report));
        [Some(self.describe_unbroken()), self.describe_foreign_handles(), Some(not_checked)]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Returns the sentence that the calls broke no rule, with what else is known about the calls.
    fn describe_unbroken(&self) -> String {
        let record = &self.report.record;
        let all = self.report.call_count();
        let (calls, were) = (counted(all, "call"), was_or_were(all));
        let which = match (record.matching, record.dropped) {
            (Some(_), _) => format!("the {calls} shown"),
            (None, true) => format!("the {calls} that {were} kept"),
            (None, false) => format!("the {calls} that {were} recorded"),
        };
        let which = if all == 0 { "the calls".into() } else { which };
        let is_running = self.count_ends(&[ExitKind::Running]) > 0;
        let so_far = if is_running { " so far" } else { "" };
        let notes = self.other_findings.len() as u64;
        let has_suppressed = self.report.findings.iter().any(|finding| finding.suppressed_by.is_some());
        let apart: Vec<String> =
            [(notes > 0).then(|| counted(notes, "note")), has_suppressed.then(|| "what is suppressed".into())]
                .into_iter()
                .flatten()
                .collect();
        let apart = if apart.is_empty() { String::new() } else { format!(", apart from {}", apart.join(" and ")) };
        let mut sentences: Vec<String> =
            self.describe_planned_exits().into_iter().chain(self.describe_survived_failures()).collect();
        let has_all = looked::excluded_rules(self.report).is_empty();
        let rule = if has_all { "No rule" } else { "No rule that was checked" };
        sentences.push(format!("{rule} was broken{so_far} by {which}{apart}"));
        sentences.extend(self.describe_expected_failures());
        sentences.extend(self.describe_leftovers());
        sentences.join(". ") + "."
    }

    /// Describes failed calls that did no harm, as notes explain.
    fn describe_survived_failures(&self) -> Option<String> {
        let groups = self.report.failure_groups.iter().filter(|group| !group.usual && !group.is_on_purpose());
        let count = groups.map(|group| group.count).sum();
        (count > 0).then(|| format!("{} failed, and the program went on", counted(count, "call")))
    }

    /// Describes processes that exited with an error while a fault plan was active. Without a plan, they are
    /// problems.
    fn describe_planned_exits(&self) -> Option<String> {
        let is_own = |process: &&Process| !process.is_stopped_on_purpose() && !self.report.record.in_part;
        let own = self.report.processes.iter().filter(is_own);
        let count = own.filter(|process| process.exit.code.is_some_and(|code| code > 0)).count() as u64;
        (count > 0).then(|| format!("{} exited with an error while a fault plan was active", counted(count, "process")))
    }

    /// Describes failed calls if all of them were expected or injected.
    fn describe_expected_failures(&self) -> Option<String> {
        let groups = &self.report.failure_groups;
        let sum = |is_one: &dyn Fn(&&FailureGroup) -> bool| {
            groups.iter().filter(is_one).map(|group| group.count).fold(0, u64::saturating_add)
        };
        let on_purpose = sum(&|group| group.is_on_purpose());
        let expected = sum(&|group| group.is_expected() && !group.is_on_purpose());
        let parts = [(expected, "as expected"), (on_purpose, "because of a fault plan")];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, why)| format!("{} failed {why}", counted(*count, "call")))
            .collect();
        (!parts.is_empty()).then(|| parts.join(", and "))
    }

    /// Describes stopped calls, open handles, memory that was not released, processes whose end is unknown, and
    /// losses, in sentences without periods.
    fn describe_leftovers(&self) -> Vec<String> {
        let record = &self.report.record;
        let open = self.count_handles(|state| matches!(state, State::Open | State::OpenAtExit));
        let opened = self.report.handles.iter().filter(|handle| !handle.opens.is_empty()).count() as u64;
        let own = self.report.allocations.devices.iter();
        let (kept, size) = own.fold((0u64, 0u64), |(count, size), row| {
            (count.saturating_add(row.allocations), size.saturating_add(row.bytes))
        });
        let freed = self.count_handles(|state| state == State::FreedWhileOpen);
        let unknown = self.count_ends(&[ExitKind::Gone, ExitKind::Unseen]);
        let is_stopped = self.report.processes.iter().any(|process| !process.pending.is_empty());
        let said = [
            is_stopped.then(|| "A fault plan stopped calls, which have not returned".into()),
            (open > 0).then(|| {
                let (opened, are) = (counted(opened, "opened handle"), if open == 1 { "is" } else { "are" });
                format!("{} of {opened} {are} open", number(open))
            }),
            (kept > 0).then(|| {
                let made = counted(kept, "allocation");
                format!("{made} of virtual memory ({}) {} not released", bytes(size), was_or_were(kept))
            }),
            (freed > 0).then(|| {
                let handles = counted(freed, "handle");
                format!("{handles} {} freed while open in another process (see Notes)", was_or_were(freed))
            }),
            (unknown > 0).then(|| format!("It is unknown how {} ended", counted(unknown, "process"))),
            (record.lost > 0).then(|| format!("{} could not be recorded", counted(record.lost, "event"))),
            (!record.problems.is_empty()).then(|| "The recording is incomplete".into()),
            match self.report.reached_limits() {
                Some(limited) => Some(limited.sentence()),
                None if record.dropped => Some("The ring no longer contains older calls and their findings".into()),
                None => None,
            },
            (record.count_quiet_processes() > 0)
                .then(|| "Processes that shared nothing were not recorded, so how they ended is unknown".into()),
        ];
        said.into_iter().flatten().collect()
    }

    /// Returns how many processes ended in one of these ways, without the processes that a fault plan ended.
    fn count_ends(&self, kinds: &[ExitKind]) -> u64 {
        let all = self.report.processes.iter();
        all.filter(|process| kinds.contains(&process.exit.kind) && !process.is_stopped_on_purpose()).count() as u64
    }

    fn count_handles(&self, is_it: impl Fn(State) -> bool) -> u64 {
        let is_one = |handle: &&Handle| is_it(handle.state);
        self.report.handles.iter().filter(is_one).count() as u64
    }
}

fn was_or_were(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}
