//! Calls that did not return, and failures that no finding explains, in sentences.

use super::incidents::{UNEXPLAINED, UNRETURNED};
use super::{Incident, Problem, Verdict};
use crate::base::moments::{duration, number};
use crate::model::{ExitKind, Failure, FailureGroup, Finding, Pending, Place, Process, RuntimeCall};
use crate::words::names::{clean, short_result_name};
use crate::words::places::format_stack;
use cupeer_rules::Rule;
use cupeer_symbols::is_libc_or_loader;

/// Largest number of stack frames that are listed below a call.
const MOST_FRAMES: usize = 3;

impl<'a> Verdict<'a> {
    /// Returns the problem of calls that should have returned and have not, the oldest call first.
    pub(super) fn find_unreturned_calls(&self) -> Option<Problem<'a>> {
        let is_on_its_own = |call: &&Pending| call.injected_by.is_none();
        let of = |process: &'a Process| process.pending.iter().filter(is_on_its_own).map(move |call| (process, call));
        // Leave out dead processes: the sentence about the death of a process names its calls.
        let mut calls: Vec<_> = self.surviving_processes().flat_map(of).collect();
        calls.sort_by_key(|(_, call)| call.since_ns);
        let incident = |(process, call): (&'a Process, &'a Pending)| Incident {
            process: Some(process),
            function: Some(&call.function),
            stack: &call.stack,
            ..Incident::new(&UNRETURNED, self.describe_unreturned(process, call))
        };
        let have = if calls.len() == 1 { "has" } else { "have" };
        let incidents = calls.into_iter().map(incident).collect();
        Problem::from_incidents(&UNRETURNED, "call", &format!("{have} not returned"), incidents)
    }

    /// Returns a sentence: a process is or was in a call.
    pub fn describe_unreturned(&self, process: &Process, call: &Pending) -> String {
        let (who, function) = (self.names.process(&process.proc), clean(&call.function));
        let how = match process.exit.kind {
            ExitKind::Running => format!("has been in {function} for {},", duration(call.age_ns)),
            ExitKind::Unseen => format!("was last in {function},"),
            _ => format!("ended in {function},"),
        };
        format!("{who} {how} {}", self.describe_call_site(call))
    }

    /// Returns when and where a call was made: `called at 0.001 by thread 17 from train+0x10a`.
    pub fn describe_call_site(&self, call: &Pending) -> String {
        let (at, runtime) = (self.at(call.since_ns), describe_runtime_call(call.runtime.as_ref()));
        format!("called at {at} by thread {} from {}{runtime}", call.tid, clean(&call.caller.long()))
    }

    /// Returns the problem of failed calls that no finding explains and that were expected to succeed.
    pub(super) fn find_unexplained_failures(&self) -> Option<Problem<'a>> {
        let is_new = |group: &&FailureGroup| !group.usual && !group.is_on_purpose() && !self.is_explained(group);
        let groups: Vec<&FailureGroup> = self.report.failure_groups.iter().filter(is_new).collect();
        let first = groups.first()?;
        let other = if self.main_findings.is_empty() { "call" } else { "other call" };
        let incident = |group: &&'a FailureGroup| Incident {
            function: Some(&group.function),
            result: Some(&group.result),
            stack: std::slice::from_ref(&group.caller),
            count: group.count,
            ..Incident::new(&UNEXPLAINED, self.describe_group(group))
        };
        let incidents = groups.iter().map(incident).collect();
        let problem = Problem::from_incidents(&UNEXPLAINED, other, "failed", incidents)?;
        let in_short = format!(
            "{}, {}{} = {} in {}",
            problem.what,
            if groups.len() > 1 { "first " } else { "" },
            clean(&first.function),
            short_result_name(&first.result),
            self.names.processes(first.procs.iter().map(|proc| &**proc))
        );
        let items = groups.iter().map(|group| self.describe_group_with_stack(group)).collect();
        Some(Problem { items, in_short, option: "--failed", ..problem })
    }

    /// Describes failures that have one caller, with the stacks of the calls.
    fn describe_group_with_stack(&self, group: &FailureGroup) -> String {
        let is_one = |failure: &&Failure| {
            (&failure.function, &failure.result, &failure.caller) == (&group.function, &group.result, &group.caller)
        };
        let first = self.report.failures.iter().find(is_one);
        let stack = first.map_or(&[][..], |failure| self.without_start_frames(&failure.stack));
        let lines = match stack.first().is_some_and(|first| first.python.is_some()) {
            true => format_stack(stack).into_iter().take(1 + MOST_FRAMES).collect(),
            false => format_stack(&stack[..stack.len().min(1 + MOST_FRAMES)]),
        };
        let above = lines.iter().skip(1).map(|line| format!("\n{}", clean(line)));
        self.describe_group(group) + &above.collect::<String>()
    }

    /// Returns true if findings explain all failures of the group.
    fn is_explained(&self, group: &FailureGroup) -> bool {
        let of_group = |finding: &&Finding| {
            (&finding.function, finding.result.as_ref()) == (&group.function, Some(&group.result))
                && [&group.caller, group.caller.calling_place()].contains(&&finding.caller)
        };
        // Each failure has one explanation. The finding that ranks differ is not an explanation, and can
        // exist in addition.
        let explains = |finding: &&Finding| *finding.rule != *Rule::RanksDiffer.spec().name();
        let counts = self.report.findings.iter().filter(of_group).filter(explains).map(|finding| finding.count);
        let explained: u64 = counts.sum();
        explained >= group.count
    }

    /// Names the processes in which the failures of a group happened.
    pub fn name_group_processes(&self, group: &FailureGroup) -> String {
        let procs = self.names.processes(group.procs.iter().map(|proc| &**proc));
        match group.procs_more {
            0 => procs,
            more => format!("{procs} and {more} more"),
        }
    }

    /// Describes a group of calls that failed in the same way.
    pub fn describe_group(&self, group: &FailureGroup) -> String {
        let procs = self.name_group_processes(group);
        let when = if group.count == 1 {
            format!("at {}", self.at(group.first_ns))
        } else {
            format!("from {} to {}", self.at(group.first_ns), self.at(group.last_ns))
        };
        let usual = match group.expected {
            Some(why) => format!(" ({})", clean(why)),
            None if group.usual && !group.injected => " (expected)".into(),
            None => String::new(),
        };
        // If the group has few calls, print the stack of each call.
        let stacks = match group.stacks {
            0 => String::new(),
            stacks if stacks == group.count => String::new(),
            stacks => format!(", stacks of {} of {} calls", number(stacks), number(group.count)),
        };
        let whose = format_fault_cause(group.injected, group.injected_by.as_deref(), group.follows_fault);
        format!(
            "{} {} = {}{usual}{whose}: {procs}, {when}, called from {}{}{stacks}",
            number(group.count),
            clean(&group.function),
            group.result,
            clean(&group.caller.long()),
            describe_runtime_call(group.runtime.as_ref())
        )
    }

    /// Returns a stack without the functions of libc and the loader that started the thread, unless all
    /// frames are requested.
    pub fn without_start_frames<'s>(&self, stack: &'s [Place]) -> &'s [Place] {
        let is_start = |place: &Place| place.library.as_deref().is_some_and(is_libc_or_loader);
        if self.lists_all {
            return stack;
        }
        // If the outermost frame is the program's `_start`, which called libc, leave this frame out.
        let inner = match stack {
            [inner @ .., _] if inner.last().is_some_and(is_start) => inner,
            _ => stack,
        };
        inner.iter().rposition(|place| !is_start(place)).map_or(stack, |last| &inner[..=last])
    }
}

/// Describes the runtime call that made a driver call, and its result: `, in cudaIpcOpenMemHandle, which
/// returned cudaErrorMapBufferObjectFailed`.
pub fn describe_runtime_call(call: Option<&RuntimeCall>) -> String {
    match call {
        Some(RuntimeCall { function, result: Some(result) }) => {
            format!(", in {function}, which returned {result}")
        }
        Some(RuntimeCall { function, result: None }) => format!(", in {function}"),
        None => String::new(),
    }
}

/// Names the fault plan that caused a failure: ` (INJECTED by inject/1)`.
pub fn format_fault_cause(injected: bool, by: Option<&str>, follows_fault: bool) -> String {
    match by {
        Some(rule) => format!(" (INJECTED by {})", clean(rule)),
        None if injected => " (INJECTED)".into(),
        None if follows_fault => " (of what a fault plan had CHANGED)".into(),
        None => String::new(),
    }
}
