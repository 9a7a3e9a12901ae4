//! The head of the page: the summary, the recording, and all problems with stacks.

use super::Page;
use cupeer_report::model::{Finding, Place};
use cupeer_report::verdict::{About, Verdict};
use cupeer_rules::{Rule, label};
use maud::{Markup, html};
use std::collections::HashMap;

/// The most findings of a kind of list, and the most items of one thing.
const MOST: usize = 300;
/// How many findings show their stacks at once.
const OPEN: usize = 3;

impl Page<'_> {
    /// The headline, with links; and what the record is.
    pub fn digest(&self) -> Markup {
        let lines = &self.headline;
        html! {
            section #digest class=(lines.first().map_or("", |line| class_of(line.about))) aria-label="Summary" {
                @if lines.is_empty() {
                    @for line in self.verdict.seen() { p { (line) } }
                } @else {
                    ol {
                        @for line in lines {
                            li class=(class_of(line.about)) {
                                @match self.target(line.about) {
                                    Some(id) => a href={ "#" (id) } { (line.text) },
                                    None => code { (line.text) },
                                }
                            }
                        }
                    }
                }
            }
            section #record aria-label="The record" {
                dl {
                    @if let Some(command) = self.command() { div { dt { "command" } dd { (command) } } }
                    @for line in self.brief.head().lines() {
                        @let (name, value) = line.split_once(' ').unwrap_or((line, ""));
                        div { dt { (name) } dd { (value.trim()) } }
                    }
                }
            }
        }
    }

    /// The command line of the process that began first.
    fn command(&self) -> Option<String> {
        let all = self.report.processes.iter().filter(|process| !process.arguments.is_empty());
        let first = all.min_by_key(|process| process.began_ns)?;
        Some(first.started_by.clone().unwrap_or_else(|| first.arguments.join(" ")))
    }

    /// Where a line of the digest leads.
    fn target(&self, about: About) -> Option<String> {
        match about {
            About::Death(process) => Some(self.process_id(&process.proc)),
            About::Finding(finding) => Some(self.finding_id(finding)),
            About::Problem(_) | About::Rest => Some("wrong".into()),
            About::More => None,
        }
    }

    /// The id of the row of a process.
    pub fn process_id(&self, proc: &str) -> String {
        self.places.get(proc).map_or_else(|| "processes".into(), |place| format!("p{place}"))
    }

    /// A process, with a link to its row.
    pub fn link(&self, proc: &str) -> Markup {
        html! { a href={ "#" (self.process_id(proc)) } { (self.brief.called_process(proc)) } }
    }

    /// What is wrong in full: deaths, what rules found, and other things; then notes.
    pub fn wrong(&self) -> Markup {
        let Verdict { hung, died, told, noted, others, .. } = self.verdict;
        html! {
            section #wrong {
                h2 { "Problems" }
                @if hung.is_none() && died.is_none() && told.is_empty() && others.is_empty() { p { "The summary above says what was checked and what was not." } }
                @if let Some(hung) = hung {
                    article class="card error" {
                        h3 { (hung.what) }
                        ul { @for item in hung.items.iter().take(MOST) { li { (lines(item)) } } }
                        (left_out(hung.items.len()))
                    }
                }
                @if let Some(died) = died {
                    article class="card error" {
                        h3 { (died.what) }
                        ul { @for (process, item) in died.processes().zip(&died.items).take(MOST) { li { (item) " " a href={ "#" (self.process_id(&process.proc)) } { "Its row" } } } }
                        (left_out(died.items.len()))
                    }
                }
                @for (place, finding) in told.iter().take(MOST).enumerate() { (self.finding(finding, place < OPEN)) }
                (left_out(told.len()))
                @for problem in others {
                    article.card.thing {
                        h3 { (problem.what) }
                        ul { @for item in problem.items.iter().take(MOST) { li { (lines(item)) } } }
                        (left_out(problem.items.len()))
                    }
                }
                @if !self.report.clues.is_empty() {
                    article.card.thing { ul { @for clue in self.verdict.clues() { li { (clue) } } } }
                }
                @if let Some(outside) = self.verdict.outside() { p { (outside) } }
                @if !noted.is_empty() {
                    details.notes {
                        summary { h3 { "Notes (informational) (" (noted.len()) ")" } }
                        @for finding in noted.iter().take(MOST) { (self.finding(finding, false)) }
                        (left_out(noted.len()))
                    }
                }
            }
        }
    }

    /// The id of the card of a finding.
    pub fn finding_id(&self, finding: &Finding) -> String {
        let place = self.report.findings.iter().position(|other| std::ptr::eq(other, finding));
        format!("f{}", place.unwrap_or(0))
    }

    /// A finding: its sentences, a line each, and the stacks.
    fn finding(&self, finding: &Finding, is_open: bool) -> Markup {
        let (head, sentences) = self.verdict.paragraph(finding);
        let stacks = || finding.objects.iter().filter(|object| !is_short(&object.stack));
        let has_stacks = !is_short(&finding.stack) || stacks().next().is_some();
        html! {
            article class={ "card finding " (finding.severity) } id=(self.finding_id(finding)) tabindex="-1" {
                h3 { span.severity { (finding.severity) } " " (head) }
                @for (sentence, code) in sentences { p { (sentence) } @if let Some(code) = code { pre { (code) } } }
                @if has_stacks {
                    details open[is_open] {
                        summary { "Stacks" }
                        @if !is_short(&finding.stack) { p.who { "the call" } (self.stack(&finding.stack)) }
                        @for object in stacks() { p.who { (label(Rule::of(&finding.rule), object.role)) } (self.stack(&object.stack)) }
                    }
                }
                p.links { (self.link(&finding.proc)) }
            }
        }
    }

    /// A place, behind which its stack is folded where there is more to it.
    pub fn place_in(&self, place: &Place, stack: &[Place]) -> Markup {
        html! {
            @if is_short(stack) { (place.long()) } @else { details { summary { (place.long()) } (self.stack(stack)) } }
        }
    }

    /// A stack as the text has it, the caller first.
    pub fn stack(&self, stack: &[Place]) -> Markup {
        html! {
            ol.stack { @for place in self.brief.without_start(stack) { @for line in place.lines() { li { (line) } } } }
        }
    }

    /// The stacks of single failures, by function, result and caller.
    pub fn stacks_of_failures(&self) -> HashMap<(&str, &str, &Place), &[Place]> {
        let mut stacks: HashMap<(&str, &str, &Place), &[Place]> = HashMap::new();
        for failure in &self.report.failures {
            stacks.entry((&failure.function, &failure.result, &failure.caller)).or_insert(&failure.stack);
        }
        stacks
    }
}

/// Whether a stack says no more than its caller, which stands in a sentence.
pub fn is_short(stack: &[Place]) -> bool {
    stack.iter().flat_map(Place::lines).nth(1).is_none()
}

fn class_of(about: About) -> &'static str {
    match about {
        About::Death(_) => "error",
        About::Finding(finding) => finding.severity,
        About::Problem(severity) => severity.word(),
        About::Rest => "rest",
        About::More => "more",
    }
}

/// A text of several lines, of which those after the first belong to it.
fn lines(text: &str) -> Markup {
    let mut all = text.lines();
    let first = all.next().unwrap_or_default();
    let others: Vec<&str> = all.collect();
    html! { (first) @if !others.is_empty() { ol.stack { @for line in others { li { (line) } } } } }
}

/// How many of a list are not shown.
fn left_out(all: usize) -> Markup {
    let more = all.saturating_sub(MOST);
    html! { @if more > 0 { p.hint { (more) " more are left out; cupeer report --all shows them" } } }
}
