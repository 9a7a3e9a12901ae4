//! The head of the page: the worst problem with its place and its fix, all other problems, and notes.

use super::Page;
use super::finding::{in_code, is_short, message_of, place};
use cupeer_report::endings::is_crash;
use cupeer_report::model::{FailureGroup, Finding, Hang, Place, Process};
use cupeer_report::moments::duration;
use cupeer_report::names::{clean, result};
use cupeer_report::verdict::{About, DIED, HUNG, LAUNCHED, Line, Problem, Verdict, whose};
use cupeer_rules::Tells;
use maud::{Markup, html};
use std::collections::HashMap;

/// Largest number of findings in a list, and of items of one problem.
const MOST: usize = 300;
/// Number of findings from which the list of problems includes them.
const MOST_LISTED: usize = 4;
/// Largest number of hanging processes that are listed with their calls.
const MOST_DOING: usize = 32;

impl<'r> Page<'r> {
    /// Returns the worst problem, followed by the other lines of the headline with links.
    pub fn summary(&self) -> Markup {
        let mut lines = self.headline.iter().filter(|line| !matches!(line.about, About::More));
        html! {
            section #digest aria-label="Summary" {
                @for command in self.brief.commands().iter().take(MOST_LISTED) { p.command { code { (command) } } }
                @match (self.first_finding(), lines.next()) {
                    (Some(finding), _) => (self.finding(finding, true)),
                    (None, Some(line)) => (self.lead(line)),
                    (None, None) => (self.nothing_wrong()),
                }
                // The findings have cards below. If there are very many, the list is shorter.
                @let has_card = |about| matches!(about, About::Finding(finding) if finding.severity != "note");
                @let is_long = self.verdict.told.len() > MOST_LISTED;
                ol.others {
                    @if self.headline.is_empty() && self.first_finding().is_some() { @for line in self.verdict.seen() { li.note { (line) } } }
                    @for line in lines.filter(|line| is_long || !has_card(line.about)) {
                        li class=(class_of(line.about)) {
                            a href={ "#" (self.target(line.about)) } { (line.text) }
                        }
                    }
                }
            }
        }
    }

    /// Returns the finding to show first: that of the headline or, without problems, a leak.
    fn first_finding(&self) -> Option<&'r Finding> {
        match self.headline.first().map(|line| line.about) {
            Some(About::Finding(finding)) => Some(finding),
            Some(_) => None,
            None => self.verdict.noted.iter().copied().find(|finding| finding.tells(Tells::OpenAtExit)),
        }
    }

    /// Returns the summary of a recording without problems.
    fn nothing_wrong(&self) -> Markup {
        let has_failed = self.report.processes.iter().any(|process| self.state(process).class() != "");
        let (class, word) = match () {
            () if self.report.record.events == 0 => ("note", "no calls"),
            () if !self.report.faults.is_empty() => {
                (if has_failed { "warning" } else { "note" }, "fault plan")
            }
            () if !self.verdict.noted.is_empty() => ("note", "note"),
            () => ("note", "no rule broken"),
        };
        let injected: Vec<_> = self.report.failure_groups.iter().filter(|group| group.injected).collect();
        html! {
            article class={ "card lead " (class) } {
                p.kicker { span.severity { (word) } }
                @for line in self.verdict.seen() {
                    @let (message, rest) = line.split_once(". ").unwrap_or((&line, ""));
                    @if line.starts_with("Not checked") { p.hint { (line) } } @else { p.message { (message) } p { (rest) } }
                }
                @if self.report.record.events == 0 {
                    p { @if let [one] = &self.report.processes[..] { (self.link(&one.proc)) ": " } "without a recorded call, no place is known" }
                    (next_step("`cupeer doctor -- PROGRAM` looks for the reason."))
                }
                @for group in injected.iter().take(MOST_LISTED) {
                    p.place {
                        (group.function) " → " (result(&group.result)) (whose(true, group.injected_by.as_deref(), false)) " at " (place(&group.caller)) ", " (self.who_failed(group))
                    }
                }
                @if has_failed && !injected.is_empty() { (next_step("Check what the program does after this call. A fault plan made the call fail, not the driver.")) }
            }
        }
    }

    /// Names the processes in which the failures of a group happened.
    fn who_failed(&self, group: &FailureGroup) -> String {
        match &group.procs[..] {
            [one] if group.procs_more == 0 => self.brief.called_process(one),
            _ => self.brief.group_procs(group),
        }
    }

    /// Returns the worst problem, for a problem that is not a finding.
    fn lead(&self, line: &Line) -> Markup {
        let hung = self.verdict.hung.as_ref().filter(|hung| hung.in_short == line.text);
        let word = match line.about {
            _ if hung.is_some() => "hung",
            About::Death(process) if is_crash(process.exit) => "crashed",
            About::Death(_) => "killed",
            about => class_of(about),
        };
        let hang = self.report.lasting_hangs().next().filter(|_| hung.is_some());
        let (kicker, message) = match (hang, line.about) {
            (Some(hang), _) => (self.how_long(hang), clean(&hang.answer)),
            (None, About::Death(process)) => {
                // The line with the place shows the rest of the text.
                let (message, _) = line.text.split_once("; ").unwrap_or((&line.text, ""));
                (self.further_names(process), message.to_owned())
            }
            (None, _) => (String::new(), line.text.clone()),
        };
        html! {
            article class={ "card lead " (class_of(line.about)) } {
                p.kicker { span.severity { (word) } " " (kicker) }
                (message_of(&message))
                @match (hang, line.about) {
                    (Some(hang), _) => (self.where_hung(hang)),
                    (None, About::Death(process)) => (self.where_died(process)),
                    (None, _) => (self.where_failed(line)),
                }
            }
        }
    }

    /// Describes how long a job hung, and how the hang ended.
    fn how_long(&self, hang: &Hang) -> String {
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
        let host =
            if self.report.record.hosts.len() > 1 { format!(" on {}", process.host) } else { String::new() };
        format!("process {}{host}", process.pid)
    }

    fn where_hung(&self, hang: &Hang) -> Markup {
        let who = self.brief.names.processes(hang.roots.iter().map(String::as_str));
        let (who, wait) = match hang.roots.as_slice() {
            [one] => (self.brief.called_process(one), "waits"),
            _ => (who, "wait"),
        };
        html! {
            @match &hang.place {
                Some(at) => (self.place_of(at, "", &who)),
                None if hang.roots.is_empty() => p { "The place is not known." },
                None => p { (who) ": the line of source is not known" },
            }
            (next_step(&match hang.file.is_empty() {
                _ if hang.roots.is_empty() => HUNG.hint.to_owned(),
                true => format!("Look at what {who} {wait} for there."),
                false => format!("Look at what {who} {wait} for there: {} has all stacks. Of a job that still hangs, `cupeer why` shows them.", hang.file),
            }))
            (self.hanging_calls())
        }
    }

    /// Names the call in which a process died, or its last call.
    fn where_died(&self, process: &Process) -> Markup {
        let who = self.brief.called_process(&process.proc);
        let act = self.brief.last_act(process);
        let act = act.trim_start_matches("; ");
        let last = process.last_call.as_ref().and_then(|call| call.caller.as_ref());
        let is_crash = is_crash(process.exit);
        html! {
            @match (process.pending.first(), last) {
                (Some(call), _) => (self.place_of(&call.caller, "called from ", &who)),
                (None, Some(at)) => (self.place_of(at, &format!("{act}, from "), &who)),
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
    fn where_failed(&self, line: &Line) -> Markup {
        let first = self.verdict.others.iter().find(|problem| problem.in_short == line.text);
        let Some(first) = first.and_then(|problem| problem.incidents.first()) else { return html! {} };
        let who = first.process.map(|process| self.brief.called_process(&process.proc));
        html! {
            @match (first.stack.first(), who) {
                (Some(at), who) => (self.place_of(at, "", &who.unwrap_or_default())),
                (None, Some(who)) => p { "first in " (who) "; the place is not known" },
                (None, None) => {},
            }
            (next_step(first.kind.hint))
        }
    }

    /// Lists the calls in which processes waited when the job hung.
    fn hanging_calls(&self) -> Markup {
        let Some(hang) = self.report.lasting_hangs().next() else { return html! {} };
        let doing = &hang.doing;
        html! {
            @if !doing.is_empty() {
                dl.facts {
                    @for (proc, what) in doing.iter().take(MOST_DOING) { dt { (self.link(proc)) } dd { (what) } }
                }
                @if doing.len() > MOST_DOING { p.hint { (doing.len() - MOST_DOING) " more processes are in the file with the stacks" } }
            }
        }
    }

    /// Describes the recording.
    pub fn record(&self) -> Markup {
        html! {
            dl {
                @for line in self.brief.head().lines() {
                    @let (name, value) = line.split_once(' ').unwrap_or((line, ""));
                    div { dt { (name) } dd { (value.trim()) } }
                }
            }
        }
    }

    /// Returns the link target of a line of the headline.
    fn target(&self, about: About) -> String {
        match about {
            About::Death(process) => self.process_id(&process.proc),
            About::Finding(finding) => self.finding_id(finding),
            About::Problem(_) | About::Rest | About::More => "wrong".into(),
        }
    }

    /// Returns the id of a process's row.
    pub fn process_id(&self, proc: &str) -> String {
        self.places.get(proc).map_or_else(|| "processes".into(), |place| format!("p{place}"))
    }

    /// Names a process, with a link to its row.
    pub fn link(&self, proc: &str) -> Markup {
        html! { a href={ "#" (self.process_id(proc)) } { (self.brief.called_process(proc)) } }
    }

    /// Returns all problems except the first one: a hang, processes that ended abnormally, findings, and
    /// other problems. Notes follow.
    pub fn wrong(&self) -> Markup {
        let Verdict { hung, died, told, noted, others, .. } = self.verdict;
        let lead = self.first_finding();
        let without_lead = |all: &[&'r Finding]| -> Vec<&'r Finding> {
            all.iter()
                .copied()
                .filter(|finding| !lead.is_some_and(|lead| std::ptr::eq(lead, *finding)))
                .collect()
        };
        let (mut told, noted) = (without_lead(told), without_lead(noted));
        // List findings that follow from the end of a process after the other findings.
        told.sort_by_key(|finding| self.ended_before(finding).is_some());
        // If a problem has a single item, the headline already has all of it.
        let many = hung.iter().chain(died).filter(|problem| problem.items.len() > 1);
        let is_said = |problem: &Problem| self.headline.iter().any(|line| line.text == problem.in_short);
        let others = others.iter().filter(|problem| problem.items.len() > 1 || !is_said(problem));
        html! {
            section #wrong {
                @for problem in many { (self.problem(problem, "error")) }
                @for finding in told.iter().take(MOST) { (self.finding(finding, false)) }
                (left_out(told.len()))
                @for problem in others { (self.problem(problem, problem.severity.word())) }
                @let clues: Vec<String> = self.verdict.clues().filter(|clue| self.headline.iter().all(|line| line.text != *clue)).collect();
                @if !clues.is_empty() {
                    article.card.note { ul { @for clue in clues { li { (clue) } } } }
                }
                @if let Some(outside) = self.verdict.outside() { p { (outside) } }
                (self.lines(&self.whole.faults()))
                @if !noted.is_empty() {
                    details.notes open[self.headline.is_empty()] {
                        summary { h3 { "Notes (informational) (" (noted.len()) ")" } }
                        @for finding in noted.iter().take(MOST) { (self.finding(finding, false)) }
                        (left_out(noted.len()))
                    }
                }
            }
        }
    }

    fn problem(&self, problem: &Problem, class: &str) -> Markup {
        let mut processes = problem.processes();
        let has_each = problem.processes().count() == problem.items.len();
        html! {
            article class={ "card " (class) } {
                h3 { (problem.what) }
                // The name alone says too little about a program without calls.
                @if problem.kind.is_none() && problem.what.contains(LAUNCHED) {
                    @let commands = self.brief.commands();
                    p { (if commands.len() > 1 { "started as one of" } else { "started as" }) @for command in commands.iter().take(MOST_LISTED) { " " code { (command) } br; } }
                }
                ul {
                    @for item in problem.items.iter().take(MOST) {
                        li { (lines(item)) @if has_each { @if let Some(process) = processes.next() { " " (self.link(&process.proc)) } } }
                    }
                }
                (left_out(problem.items.len()))
            }
        }
    }

    /// Returns the id of a finding's card.
    pub fn finding_id(&self, finding: &Finding) -> String {
        let place = self.report.findings.iter().position(|other| std::ptr::eq(other, finding));
        format!("f{}", place.unwrap_or(0))
    }

    /// Returns a place, and below it the folded stack if there is more to show.
    pub fn place_in(&self, place: &Place, stack: &[Place]) -> Markup {
        html! {
            @if is_short(stack) { (place.long()) } @else { details { summary { (place.long()) } (self.stack(stack)) } }
        }
    }

    /// Returns a stack as in the text form, the caller first.
    pub fn stack(&self, stack: &[Place]) -> Markup {
        html! {
            ol.stack { @for place in self.brief.without_start(stack) { @for line in place.lines() { li { (line) } } } }
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
    html! { p.fix { span { "Next" } " " (in_code(hint)) } }
}

fn class_of(about: About) -> &'static str {
    match about {
        About::Death(_) => "error",
        About::Finding(finding) => finding.severity,
        About::Problem(severity) => severity.word(),
        About::Rest | About::More => "note",
    }
}

/// Returns a text of several lines. The lines after the first are its details.
fn lines(text: &str) -> Markup {
    let mut all = text.lines();
    let first = all.next().unwrap_or_default();
    let others: Vec<&str> = all.collect();
    html! { (first) @if !others.is_empty() { ol.stack { @for line in others { li { (line) } } } } }
}

/// Returns a line with the number of list items that are not shown.
fn left_out(all: usize) -> Markup {
    let more = all.saturating_sub(MOST);
    html! { @if more > 0 { p.hint { (more) " more are left out; cupeer report --all shows them" } } }
}
