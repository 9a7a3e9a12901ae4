//! The summary after a run that made its own recording: how many calls it made, which failed or hang, what was left
//! open, and where the recording is. It has a few lines; the report has the details. The command reads the report.

mod findings;

use crate::text::suppressed;
use cupeer_record::Job;
use cupeer_report::endings::{describe_end, describe_kill};
use cupeer_report::limited::ReachedLimits;
use cupeer_report::model::{Codes, Escaped, ExitKind, Function, Open, Pending, Proc, Process, Report, Started, State};
use cupeer_report::moments::number;
use cupeer_report::names::{clean, codes, counted, format_unrecorded_count};
use cupeer_report::style::{Emphasis, Style};
use cupeer_report::verdict::{ASKED_TO_END, FAILED, Problem, Verdict};
use cupeer_spec::effect::Object;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of lines per subject. If there are more, one more line has the number of the others.
const MOST_LINES: usize = 4;

/// Line of the summary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SummaryLine {
    /// Text of the line.
    pub text: String,
    /// Severity of the line: an abnormal end, a finding, or a loss. `None` for counts.
    pub emphasis: Option<Emphasis>,
    /// True if the line is also printed when only problems are wanted.
    pub is_about_problem: bool,
}

impl SummaryLine {
    /// Returns a line about a problem, with its severity.
    pub fn about_problem(mark: Emphasis, text: String) -> SummaryLine {
        SummaryLine { text, emphasis: Some(mark), is_about_problem: mark != Emphasis::Note }
    }

    /// Formats the line for a terminal: the severity, or else the whole line, is highlighted.
    pub fn format_highlighted(&self, style: Style) -> String {
        let word = match self.emphasis {
            Some(Emphasis::Error) => "error ",
            Some(Emphasis::Warning) => "warning ",
            Some(Emphasis::Note) => "note ",
            Some(Emphasis::Heading) | None => return self.text.clone(),
        };
        let mark = self.emphasis.unwrap_or(Emphasis::Note);
        match self.text.trim_start().starts_with(word) {
            true => style.emphasize_part(mark, word.trim_end(), &self.text),
            false => style.emphasize(mark, &self.text),
        }
    }
}

impl From<String> for SummaryLine {
    fn from(text: String) -> SummaryLine {
        SummaryLine { text, emphasis: None, is_about_problem: false }
    }
}

/// Returns the lines about the processes of one run, without findings. Of `all` processes in the recording,
/// `others` belong to other runs.
pub fn run_summary(mut report: Report, all: usize, others: u64, shown: &str, launched: u32) -> Vec<SummaryLine> {
    // Processes without a recording cannot be assigned to a run.
    let quiet = format_unrecorded_count(report.record.count_quiet_processes(), all).filter(|_| others > 0);
    if others > 0 {
        report.record.quiet.clear();
    }
    let verdict = Verdict::of(&report, true);
    let own = format_counts(&report);
    let of_all = quiet.map_or(String::new(), |quiet| format!("; over all runs, {quiet}"));
    let sum = match others {
        0 => format!("{own}; 'cupeer report {shown}' shows them"),
        _ => format!(
            "{own} in this run; 'cupeer report {shown}' shows them and {} of other runs{of_all}",
            counted(others, "process")
        ),
    };
    let mut lines = end_lines(&verdict, sum, launched);
    lines.extend(
        [failing_function_lines(&report), pending_call_lines(&verdict)].into_iter().flatten().map(SummaryLine::from),
    );
    lines.extend(limit_line(report.reached_limits()));
    lines
}

/// Counts the programs that loaded the driver and made no recorded call; `reached` is the number that loaded
/// it. A process may execute such a program before one that makes calls.
pub fn programs_without_call(report: &Report, reached: u32) -> Option<String> {
    let recorded = report.processes.len() as u64 + report.record.count_quiet_processes();
    let others = u64::from(reached).checked_sub(recorded).filter(|others| *others > 0 && recorded > 0)?;
    let times = counted(others, "more time");
    Some(format!("  the driver was loaded {times}, as launchers do, without a call that cupeer records"))
}

fn format_counts(report: &Report) -> String {
    let calls = report.call_count();
    let count = |expected: bool| {
        let groups = report.failure_groups.iter().filter(|group| group.is_expected() == expected);
        groups.map(|group| group.count).fold(0, u64::saturating_add)
    };
    let (failed, more) = match (count(false), count(true)) {
        (failed, 0) => (failed, String::new()),
        (failed, expected) => {
            (failed, format!(", {} (results that programs ask for)", counted(expected, "expected failure")))
        }
    };
    // A process that executed another program has an entry for each program.
    let is_one = |process: &&Process| process.exit.kind != ExitKind::Executed;
    let processes = counted(report.processes.iter().filter(is_one).count() as u64, "process");
    let (last, calls) = (report.kept_prefix(), counted(calls, "recorded call"));
    let quiet = format_unrecorded_count(report.record.count_quiet_processes(), report.processes.len())
        .map_or(String::new(), |quiet| format!("; {quiet}"));
    format!("{processes}, {last}{calls}, {} failed{more}{quiet}", number(failed))
}

/// Returns the lines about a whole recording; `launched` is the pid of the program that determines the exit
/// status of the run.
pub fn recording_summary(report: &Report, shown: &str, launched: u32) -> Vec<SummaryLine> {
    let verdict = Verdict::of(report, true);
    let quiet =
        format_unrecorded_count(report.record.count_quiet_processes(), 0).filter(|_| report.processes.is_empty());
    if let Some(quiet) = quiet {
        return end_lines(&verdict, format!("{quiet} in {shown}; --record full keeps all"), launched);
    }
    let sum = format!("{}; 'cupeer report {shown}' shows them", format_counts(report));
    let mut all = end_lines(&verdict, sum, launched);
    all.extend(unexplained_lines(&verdict, launched));
    all.extend(findings::clue_lines(report));
    all.extend(
        unseen_activity_lines(report).into_iter().map(|text| SummaryLine::about_problem(Emphasis::Warning, text)),
    );
    let (told, kinds) = findings::finding_lines(&verdict);
    all.extend(told);
    // The severities of the omitted kinds of findings are unknown here.
    all.extend(
        omission_line(kinds, "kind", "of finding").map(|text| SummaryLine { is_about_problem: true, ..text.into() }),
    );
    let mut lines = failing_function_lines(report);
    lines.extend(pending_call_lines(&verdict));
    for kind in Object::exportable_words() {
        let of_kind = || report.handles.iter().filter(|handle| handle.kind == kind);
        let opened = of_kind().filter(|handle| !handle.opens.is_empty()).count() as u64;
        let is_open =
            |open: &Open| open.closed_ns.is_none() && !matches!(open.state, State::Closed | State::OpenOnPurpose);
        let left = of_kind().filter(|handle| handle.opens.iter().any(is_open)).count() as u64;
        if left > 0 {
            let (all, was) = (format!("{kind} handle"), if left == 1 { "was" } else { "were" });
            let of = if opened == 1 { String::new() } else { format!("{} of ", number(left)) };
            lines.push(format!("  {of}{} {was} left open; --leaks shows where", counted(opened, &all)));
        }
        let freed = of_kind().filter(|handle| handle.state == State::FreedWhileOpen).count() as u64;
        if freed > 0 && !verdict.is_state_in_findings(State::FreedWhileOpen) {
            let (all, was) = (format!("{kind} handle"), if freed == 1 { "was" } else { "were" });
            lines.push(format!("  {} {was} freed while open elsewhere", counted(freed, &all)));
        }
    }
    lines.extend(findings::note_count_line(&verdict));
    all.extend(lines.into_iter().map(SummaryLine::from));
    all.extend(suppressed_lines(report).into_iter().map(SummaryLine::from));
    all.extend(limit_line(report.reached_limits()));
    if report.record.lost > 0 {
        let lost = counted(report.record.lost, "event");
        all.push(SummaryLine::about_problem(
            Emphasis::Warning,
            format!("  {lost} lost: the recording could not be written"),
        ));
    }
    all
}

/// Returns the line about recordings that reached their limit, with an option that raises it; `None` if no
/// recording did.
fn limit_line(limited: Option<ReachedLimits>) -> Option<SummaryLine> {
    Some(format!("  {}; --record full keeps all calls", limited?.sentence()).into())
}

/// Returns the line about recordings that reached their limit, for a job whose events were not read.
pub fn limit_line_of_job(job: &Job) -> Option<SummaryLine> {
    limit_line(ReachedLimits::of(job.processes.iter().map(cupeer_record::Process::reached_limit)))
}

/// Returns a line with the number of ends of processes, followed by lines about the ends.
fn end_lines(verdict: &Verdict, sum: String, launched: u32) -> Vec<SummaryLine> {
    let living = running_lines(verdict.report).into_iter().map(SummaryLine::from);
    let asked = verdict
        .problem_of_kind(&ASKED_TO_END)
        .map(|problem| SummaryLine::about_problem(Emphasis::Note, problem.in_short.clone()));
    // A process that failed by itself comes before those that ended as a consequence.
    let has_failed = verdict.problem_of_kind(&FAILED).is_some();
    let (after, first) = asked.into_iter().partition::<Vec<_>, _>(|_| has_failed);
    let hung = verdict.hangs.iter().flat_map(|hung| &hung.incidents).take(MOST_LINES);
    let mut lines: Vec<SummaryLine> =
        hung.map(|hang| SummaryLine::about_problem(Emphasis::Error, hang.message.clone())).collect();
    lines.extend(death_lines(verdict));
    lines.extend(first.into_iter().chain([sum.into()]).chain(living).chain(failing_end_lines(verdict, launched)));
    lines.extend(after.into_iter().map(|line| SummaryLine { text: format!("  {}", line.text), ..line }));
    lines
}

/// Describes the processes that are still running, one line each.
fn running_lines(report: &Report) -> Vec<String> {
    let running = report.processes.iter().filter(|process| process.exit.kind == ExitKind::Running);
    let lines = running.map(|process| format!("  {} is still running", name_process(process)));
    first_lines(lines.collect(), "process", "still running")
}

/// Names a process by its rank or pid, and its program.
fn name_process(process: &Process) -> String {
    let rank = process.rank.map(|rank| format!("rank {rank}, ")).unwrap_or_default();
    format!("{rank}process {} ({})", process.pid, clean(process.program_name()))
}

/// Returns how many findings were suppressed, and by which file.
pub fn suppressed_lines(report: &Report) -> Vec<String> {
    suppressed::suppression_lines(report.findings.iter()).iter().map(|line| format!("  {line}")).collect()
}

/// Describes the functions whose calls failed, one line each, without expected failures.
fn failing_function_lines(report: &Report) -> Vec<String> {
    let line = |function: &Function| {
        let (mut wrong, mut injected) = (Codes::new(), 0);
        for group in report.failure_groups.iter().filter(|group| group.function == function.function) {
            injected += if group.injected { group.count } else { 0 };
            if !group.is_expected() {
                *wrong.entry(group.result.clone()).or_insert(0) += group.count;
            }
        }
        let injected = match injected {
            0 => String::new(),
            all if all == wrong.values().sum::<u64>() => ", all injected".into(),
            some => format!(", {} of them injected", number(some)),
        };
        let calls = counted(function.calls, "call");
        let line = || format!("  {}, {calls}: {}{injected}", function.function, codes(&wrong));
        (!wrong.is_empty()).then(line)
    };
    first_lines(report.functions.iter().filter_map(line).collect(), "function", "that failed")
}

/// Describes the calls that have not returned, one line each.
fn pending_call_lines(verdict: &Verdict) -> Vec<String> {
    let line = |(process, call): (&Process, &Pending)| {
        let rank = process.rank.map(|rank| format!("rank {rank}, ")).unwrap_or_default();
        let by = call.injected_by.as_ref().map(|rule| format!(" because of fault {}", clean(rule)));
        let (function, by, pid, library) =
            (&call.function, by.unwrap_or_default(), process.pid, name_calling_library(call));
        format!("  {function} did not return{by}: {rank}process {pid}, called from {library}")
    };
    let calls =
        verdict.surviving_processes().flat_map(|process| process.pending.iter().map(move |call| (process, call)));
    first_lines(calls.map(line).collect(), "call", "that did not return")
}

/// Returns the lines about processes that crashed or were killed.
fn death_lines(verdict: &Verdict) -> Vec<SummaryLine> {
    let line = |process: &Process| {
        let call = process.pending.first();
        let call =
            call.map(|call| format!(" in {}, called from {}", clean(&call.function), name_calling_library(call)));
        format!("{} {}{}", name_process(process), describe_end(process), call.unwrap_or_default())
    };
    let dead = verdict.deaths.iter().flat_map(Problem::processes).map(line).collect();
    let mut lines = first_lines(dead, "process", "that ended abnormally");
    // Processes of several runs without a recording cannot be assigned to this run.
    let record = &verdict.report.record;
    let started = record.started.iter().filter(|_| !record.in_part);
    let killed = |started: &Started| {
        let how = describe_kill(started.exit)?;
        Some(format!("launched program '{}' {how}", clean(&started.program)))
    };
    lines.extend(started.filter_map(killed).take(MOST_LINES));
    lines.into_iter().map(|text| SummaryLine::about_problem(Emphasis::Error, text)).collect()
}

/// Describes the processes that exited with an error, one line per exit status. Leaves out the launched
/// program, whose exit status is that of the run.
fn failing_end_lines(verdict: &Verdict, launched: u32) -> Vec<SummaryLine> {
    let mut by_code: BTreeMap<u8, Vec<&Process>> = BTreeMap::new();
    let failed = verdict.problem_of_kind(&FAILED).into_iter().flat_map(Problem::processes);
    for process in failed.filter(|process| process.pid != launched) {
        by_code.entry(process.exit.code.unwrap_or_default()).or_default().push(process);
    }
    let line = |(code, processes): (u8, Vec<&Process>)| match &processes[..] {
        [only] => format!("  {} exited with status {code}", name_process(only)),
        _ => {
            let names = verdict.names.processes(processes.iter().map(|process| &*process.proc));
            format!("  {} exited with status {code}: {names}", counted(processes.len() as u64, "process"))
        }
    };
    by_code.into_iter().map(|group| SummaryLine::about_problem(Emphasis::Warning, line(group))).collect()
}

/// Returns the lines that no finding explains the ends of processes, and what cupeer checked.
fn unexplained_lines(verdict: &Verdict, launched: u32) -> Vec<SummaryLine> {
    let failed = verdict.problem_of_kind(&FAILED);
    if verdict.explains_ends() || verdict.deaths.is_none() && failed.is_none() {
        return Vec::new();
    }
    let own = failed.into_iter().flat_map(Problem::processes).find(|process| process.pid == launched);
    let what = own.and_then(|own| own.exit.code).map_or("that".into(), |code| format!("exit status {code}"));
    verdict.unexplained_lines(&what).into_iter().map(|line| format!("  {}", line.text).into()).collect()
}

/// Names the library that made a call.
fn name_calling_library(call: &Pending) -> String {
    clean(call.caller.library.as_deref().unwrap_or("an unknown place"))
}

/// Describes activity that cupeer did not see: processes that loaded a driver and made no recorded call, and
/// libraries whose calls bypassed cupeer.
fn unseen_activity_lines(report: &Report) -> Vec<String> {
    let who = |proc: &Proc| {
        let process = report.processes.iter().find(|process| process.proc == *proc);
        let program = process.map_or("", Process::program_name);
        process
            .filter(|_| !program.is_empty())
            .map_or_else(|| "a process".to_owned(), |process| format!("process {} ({})", process.pid, clean(program)))
    };
    let unseen: BTreeMap<&Proc, String> = report.processes_without_calls().collect();
    let line = |(proc, why): (&&Proc, &String)| {
        format!("  libcuda was loaded in {}, but cupeer saw no call that it records: {why}", who(proc))
    };
    let mut lines = first_lines(unseen.iter().map(line).collect(), "process", "with libcuda and no recorded call");
    // A run already printed a line about each process without libcupeer.so.
    let is_told = |escaped: &&Escaped| !unseen.contains_key(&escaped.proc) && !escaped.is_process_without_cupeer();
    let past = report.bypassing_libraries().filter(is_told);
    let past: BTreeSet<String> = past.map(|escaped| format!("  {}", escaped.bypass_sentence())).collect();
    lines.extend(first_lines(past.into_iter().collect(), "library", "whose calls escape cupeer"));
    lines
}

/// Returns the first few lines, and a line with the number of lines that were left out.
fn first_lines(mut lines: Vec<String>, what: &str, clause: &str) -> Vec<String> {
    let more = omission_line(lines.len(), what, clause);
    lines.truncate(MOST_LINES);
    lines.extend(more);
    lines
}

fn omission_line(all: usize, what: &str, clause: &str) -> Option<String> {
    let more = all.checked_sub(MOST_LINES).filter(|more| *more > 0)? as u64;
    Some(format!("  and {} {clause}", counted(more, &format!("more {what}"))))
}

#[cfg(test)]
fn lines(directory: &std::path::Path, shown: &str) -> Vec<SummaryLine> {
    use cupeer_report::{Keep, filter::Filter};
    let job = Job::open(directory).unwrap();
    let report = cupeer_facts::read(&job, &Filter::all(&job), Keep::default(), None).unwrap();
    recording_summary(&report, shown, 0)
}

#[cfg(test)]
mod tests;
