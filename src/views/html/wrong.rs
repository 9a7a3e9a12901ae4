//! The head of the page: the worst problem with its place and its fix, all other problems, and notes.

use super::Page;
use super::finding::{format_backticks, format_place, has_one_frame, highlight_message};
use cupeer_report::endings::is_crash;
use cupeer_report::model::{FailureGroup, Finding, Hang, Place, Process};
use cupeer_report::moments::duration;
use cupeer_report::names::{clean, short_result_name};
use cupeer_report::verdict::{DIED, HUNG, HeadlineLine, LAUNCHED, LineSubject, Problem, Verdict, format_fault_cause};
use cupeer_rules::Tells;
use maud::{Markup, html};
use std::collections::HashMap;

/// Largest number of findings in a list, and of items of one problem.
const MOST: usize = 300;
/// Number of findings above which the summary lists findings in spite of their cards; also the number of
/// commands and of failures that a list has.
const MOST_LISTED: usize = 4;
/// Largest number of hanging processes that are listed with their calls.
const MOST_DOING: usize = 32;

impl<'r> Page<'r> {
    /// Returns the worst problem, followed by the other lines of the headline with links.
    pub fn summary_section(&self) -> Markup {
        let mut lines = self.headline.iter().filter(|line| !matches!(line.about, LineSubject::Commands));
        html! {
            section #digest aria-label="Summary" {
                @for command in self.brief_view.commands().iter().take(MOST_LISTED) { p.command { code { (command) } } }
                @match (self.first_finding(), lines.next()) {
                    (Some(finding), _) => (self.finding_card(finding, true)),
                    (None, Some(line)) => (self.lead_card(line)),
                    (None, None) => (self.no_problem_card()),
                }
                // The findings have cards below. If there are very many, the list is shorter.
                @let has_card = |about| matches!(about, LineSubject::Finding(finding) if finding.severity != "note");
                @let is_long = self.verdict.main_findings.len() > MOST_LISTED;
                ol.others {
                    @if self.headline.is_empty() && self.first_finding().is_some() { @for line in self.verdict.describe_coverage() { li.note { (line) } } }
                    @for line in lines.filter(|line| is_long || !has_card(line.about)) {
                        li class=(subject_class(line.about)) {
                            a href={ "#" (self.link_target(line.about)) } { (line.text) }
                        }
                    }
                }
            }
        }
    }

    /// Returns the finding to show first: that of the headline or, without problems, a leak.
    fn first_finding(&self) -> Option<&'r Finding> {
        match self.headline.first().map(|line| line.about) {
            Some(LineSubject::Finding(finding)) => Some(finding),
            Some(_) => None,
            None => self.verdict.other_findings.iter().copied().find(|finding| finding.states_fact(Tells::OpenAtExit)),
        }
    }

    /// Returns the summary of a recording without problems.
    fn no_problem_card(&self) -> Markup {
        let has_failed = self.report.processes.iter().any(|process| self.process_state(process).style_class() != "");
        let (class, word) = match () {
            () if self.report.record.events == 0 => ("note", "no calls"),
            () if !self.report.faults.is_empty() => (if has_failed { "warning" } else { "note" }, "fault plan"),
            () if !self.verdict.other_findings.is_empty() => ("note", "note"),
            () => ("note", "no rule broken"),
        };
        let injected: Vec<_> = self.report.failure_groups.iter().filter(|group| group.injected).collect();
        html! {
            article class={ "card lead " (class) } {
                p.kicker { span.severity { (word) } }
                @for line in self.verdict.describe_coverage() {
                    @let (message, rest) = line.split_once(". ").unwrap_or((&line, ""));
                    @if line.starts_with("Not checked") { p.hint { (line) } } @else { p.message { (message) } p { (rest) } }
                }
                @if self.report.record.events == 0 {
                    p { @if let [one] = &self.report.processes[..] { (self.process_link(&one.proc)) ": " } "without a recorded call, no place is known" }
                    (next_step("`cupeer doctor -- PROGRAM` looks for the reason."))
                }
                @for group in injected.iter().take(MOST_LISTED) {
                    p.place {
                        (group.function) " → " (short_result_name(&group.result)) (format_fault_cause(true, group.injected_by.as_deref(), false)) " at " (format_place(&group.caller)) ", " (self.name_failed_processes(group))
                    }
                }
                @if has_failed && !injected.is_empty() { (next_step("Check what the program does after this call. A fault plan made the call fail, not the driver.")) }
            }
        }
    }

    /// Names the processes in which the failures of a group happened.
    fn name_failed_processes(&self, group: &FailureGroup) -> String {
        match &group.procs[..] {
            [one] if group.procs_more == 0 => self.brief_view.name_process(one),
            _ => self.brief_view.name_group_processes(group),
        }
    }

    /// Returns the card of the worst problem if that problem is not a finding.
    fn lead_card(&self, line: &HeadlineLine) -> Markup {
        let hung = self.verdict.hangs.as_ref().filter(|hung| hung.in_short == line.text);
        let word = match line.about {
            _ if hung.is_some() => "hung",
            LineSubject::Death(process) if is_crash(process.exit) => "crashed",
            LineSubject::Death(_) => "killed",
            about => subject_class(about),
        };
        let hang = self.report.lasting_hangs().next().filter(|_| hung.is_some());
        let (kicker, message) = match (hang, line.about) {
            (Some(hang), _) => (self.describe_hang_time(hang), clean(&hang.answer)),
            (None, LineSubject::Death(process)) => {
                // The line with the place shows the rest of the text.
                let (message, _) = line.text.split_once("; ").unwrap_or((&line.text, ""));
                (self.further_names(process), message.to_owned())
            }
            (None, _) => (String::new(), line.text.clone()),
        };
        html! {
            article class={ "card lead " (subject_class(line.about)) } {
                p.kicker { span.severity { (word) } " " (kicker) }
                (highlight_message(&message))
                @match (hang, line.about) {
                    (Some(hang), _) => (self.hang_place(hang)),
                    (None, LineSubject::Death(process)) => (self.death_place(process)),
                    (None, _) => (self.failure_place(line)),
                }
            }
        }
    }

    /// Describes how long a job hung, and how the hang ended.
    fn describe_hang_time(&self, hang: &Hang) -> String {
        // A hang can begin before the recording does; the report has no name for such a time.
        let at = |moment| {
            let has_begun = (1..=moment).contains(&self.report.record.began_ns);
            has_begun.then(|| self.verdict.at(moment))
        };
        let ended = hang.ended_ns.and_then(at).map(|at| format!("; cupeer ended the job at {at}"));
        let how = match (hang.without_progress_ns, at(hang.began_ns())) {
            (Some(_), Some(since)) => format!("no progress since {since}"),
            (Some(lasted), None) => format!("no progress for {}", duration(lasted)),
            (None, _) => "a call did not return".to_owned(),
        };
        how + &ended.unwrap_or_default()
    }

    /// Returns further names of a process that crashed: its pid, and its host if there are several.
    fn further_names(&self, process: &Process) -> String {
        let host = if self.report.record.hosts.len() > 1 { format!(" on {}", process.host) } else { String::new() };
        format!("process {}{host}", process.pid)
    }

    fn hang_place(&self, hang: &Hang) -> Markup {
        let who = self.brief_view.names.processes(hang.roots.iter().map(String::as_str));
        let (who, wait) = match hang.roots.as_slice() {
            [one] => (self.brief_view.name_process(one), "waits"),
            _ => (who, "wait"),
        };
        html! {
            @match &hang.place {
                Some(at) => (self.place_lines(at, "", &who)),
                None if hang.roots.is_empty() => p { "The place is not known." },
                None => p { (who) ": the line of source is not known" },
            }
            (next_step(&match hang.file.is_empty() {
                _ if hang.roots.is_empty() => HUNG.hint.to_owned(),
                true => format!("Look at what {who} {wait} for there."),
                false => format!("Look at what {who} {wait} for there: {} has all stacks. Of a job that still hangs, `cupeer why` shows them.", hang.file),
            }))
            (self.list_hanging_calls())
        }
    }

    /// Names the call in which a process died, or its last call.
    fn death_place(&self, process: &Process) -> Markup {
        let who = self.brief_view.name_process(&process.proc);
        let act = self.brief_view.describe_last_call(process);
        let act = act.trim_start_matches("; ");
        let last = process.last_call.as_ref().and_then(|call| call.caller.as_ref());
        let is_crash = is_crash(process.exit);
        html! {
            @match (process.pending.first(), last) {
                (Some(call), _) => (self.place_lines(&call.caller, "called from ", &who)),
                (None, Some(at)) => (self.place_lines(at, &format!("{act}, from "), &who)),
                (None, None) => p { (act) },
            }
            @if process.pending.is_empty() { p { "The place of the " (if is_crash { "crash" } else { "end" }) " is not known; a debugger or a core file shows it." } }
            (next_step(match is_crash {
                true => "Look at the code after that call. A debugger or the core file of the process shows where it crashed.",
                false => DIED.hint,
            }))
        }
    }

    /// Names the call and the process of a problem that is not a finding, if known.
    fn failure_place(&self, line: &HeadlineLine) -> Markup {
        let first = self.verdict.other_problems.iter().find(|problem| problem.in_short == line.text);
        let Some(first) = first.and_then(|problem| problem.incidents.first()) else { return html! {} };
        let who = first.process.map(|process| self.brief_view.name_process(&process.proc));
        html! {
            @match (first.stack.first(), who) {
                (Some(at), who) => (self.place_lines(at, "", &who.unwrap_or_default())),
                (None, Some(who)) => p { "first in " (who) "; the place is not known" },
                (None, None) => {},
            }
            (next_step(first.kind.hint))
        }
    }

    /// Lists the calls in which processes waited when the job hung.
    fn list_hanging_calls(&self) -> Markup {
        let Some(hang) = self.report.lasting_hangs().next() else { return html! {} };
        let doing = &hang.doing;
        html! {
            @if !doing.is_empty() {
                dl.facts {
                    @for (proc, what) in doing.iter().take(MOST_DOING) { dt { (self.process_link(proc)) } dd { (what) } }
                }
                @if doing.len() > MOST_DOING { p.hint { (doing.len() - MOST_DOING) " more processes are in the file with the stacks" } }
            }
        }
    }

    /// Returns the facts about the recording as a list, as the head of the text form has them.
    pub fn recording_facts(&self) -> Markup {
        html! {
            dl {
                @for line in self.brief_view.head().lines() {
                    @let (name, value) = line.split_once(' ').unwrap_or((line, ""));
                    div { dt { (name) } dd { (value.trim()) } }
                }
            }
        }
    }

    /// Returns the link target of a line of the headline.
    fn link_target(&self, about: LineSubject) -> String {
        match about {
            LineSubject::Death(process) => self.process_id(&process.proc),
            LineSubject::Finding(finding) => self.finding_id(finding),
            LineSubject::Problem(_) | LineSubject::Remark | LineSubject::Commands => "wrong".into(),
        }
    }

    /// Returns the id of a process's row.
    pub fn process_id(&self, proc: &str) -> String {
        self.process_indexes.get(proc).map_or_else(|| "processes".into(), |place| format!("p{place}"))
    }

    /// Names a process, with a link to its row.
    pub fn process_link(&self, proc: &str) -> Markup {
        html! { a href={ "#" (self.process_id(proc)) } { (self.brief_view.name_process(proc)) } }
    }

    /// Returns all problems except the first one: a hang, processes that ended abnormally, findings, and
    /// other problems. Notes follow.
    pub fn problem_section(&self) -> Markup {
        let Verdict {
            hangs: hung,
            deaths: died,
            main_findings: told,
            other_findings: noted,
            other_problems: others,
            ..
        } = self.verdict;
        let lead = self.first_finding();
        let without_lead = |all: &[&'r Finding]| -> Vec<&'r Finding> {
            all.iter().copied().filter(|finding| !lead.is_some_and(|lead| std::ptr::eq(lead, *finding))).collect()
        };
        let (mut told, noted) = (without_lead(told), without_lead(noted));
        // List findings that follow from the end of a process after the other findings.
        told.sort_by_key(|finding| self.ended_exporter(finding).is_some());
        // If a problem has a single item, the headline already has all of it.
        let many = hung.iter().chain(died).filter(|problem| problem.items.len() > 1);
        let is_said = |problem: &Problem| self.headline.iter().any(|line| line.text == problem.in_short);
        let others = others.iter().filter(|problem| problem.items.len() > 1 || !is_said(problem));
        html! {
            section #wrong {
                @for problem in many { (self.problem_card(problem, "error")) }
                @for finding in told.iter().take(MOST) { (self.finding_card(finding, false)) }
                (omission_line(told.len()))
                @for problem in others { (self.problem_card(problem, problem.severity.word())) }
                @let clues: Vec<String> = self.verdict.clue_sentences().filter(|clue| self.headline.iter().all(|line| line.text != *clue)).collect();
                @if !clues.is_empty() {
                    article.card.note { ul { @for clue in clues { li { (clue) } } } }
                }
                @if let Some(outside) = self.verdict.describe_foreign_handles() { p { (outside) } }
                (self.text_section(&self.whole_view.faults()))
                @if !noted.is_empty() {
                    details.notes open[self.headline.is_empty()] {
                        summary { h3 { "Notes (informational) (" (noted.len()) ")" } }
                        @for finding in noted.iter().take(MOST) { (self.finding_card(finding, false)) }
                        (omission_line(noted.len()))
                    }
                }
            }
        }
    }

    fn problem_card(&self, problem: &Problem, class: &str) -> Markup {
        let mut processes = problem.processes();
        let has_each = problem.processes().count() == problem.items.len();
        html! {
            article class={ "card " (class) } {
                h3 { (problem.what) }
                // The name alone says too little about a program without calls.
                @if problem.kind.is_none() && problem.what.contains(LAUNCHED) {
                    @let commands = self.brief_view.commands();
                    p { (if commands.len() > 1 { "started as one of" } else { "started as" }) @for command in commands.iter().take(MOST_LISTED) { " " code { (command) } br; } }
                }
                ul {
                    @for item in problem.items.iter().take(MOST) {
                        li { (text_with_details(item)) @if has_each { @if let Some(process) = processes.next() { " " (self.process_link(&process.proc)) } } }
                    }
                }
                (omission_line(problem.items.len()))
            }
        }
    }

    /// Returns the id of a finding's card.
    pub fn finding_id(&self, finding: &Finding) -> String {
        let place = self.report.findings.iter().position(|other| std::ptr::eq(other, finding));
        format!("f{}", place.unwrap_or(0))
    }

    /// Returns a place, and below it the folded stack if there is more to show.
    pub fn place_with_stack(&self, place: &Place, stack: &[Place]) -> Markup {
        html! {
            @if has_one_frame(stack) { (place.long()) } @else { details { summary { (place.long()) } (self.stack_list(stack)) } }
        }
    }

    /// Returns a stack as in the text form, the caller first.
    pub fn stack_list(&self, stack: &[Place]) -> Markup {
        html! {
            ol.stack { @for place in self.brief_view.without_start_frames(stack) { @for line in place.lines() { li { (line) } } } }
        }
    }

    /// Returns the stacks of the failures that are kept one by one, by function, result, and caller.
    pub fn stacks_of_failures(&self) -> HashMap<(&str, &str, &Place), &[Place]> {
        let mut stacks: HashMap<(&str, &str, &Place), &[Place]> = HashMap::new();
        for failure in &self.report.failures {
            stacks.entry((&failure.function, &failure.result, &failure.caller)).or_insert(&failure.stack);
        }
        stacks
    }
}

/// Returns the next step to take if no rule knows a fix.
fn next_step(hint: &str) -> Markup {
    html! { p.fix { span { "Next" } " " (format_backticks(hint)) } }
}

fn subject_class(about: LineSubject) -> &'static str {
    match about {
        LineSubject::Death(_) => "error",
        LineSubject::Finding(finding) => finding.severity,
        LineSubject::Problem(severity) => severity.word(),
        LineSubject::Remark | LineSubject::Commands => "note",
    }
}

/// Returns a text of several lines. The lines after the first are its details.
fn text_with_details(text: &str) -> Markup {
    let mut all = text.lines();
    let first = all.next().unwrap_or_default();
    let others: Vec<&str> = all.collect();
    html! { (first) @if !others.is_empty() { ol.stack { @for line in others { li { (line) } } } } }
}

/// Returns a line with the number of list items that are not shown.
fn omission_line(all: usize) -> Markup {
    let more = all.saturating_sub(MOST);
    html! { @if more > 0 { p.hint { (more) " more are left out; cupeer report --all shows them" } } }
}
