//! The card of a finding: its sentence, place, and fix; its story; and everything else that is known of it.

use super::Page;
use cupeer_report::endings;
use cupeer_report::model::{Finding, Place, Process};
use cupeer_report::names::clean;
use cupeer_report::verdict::{End, said};
use cupeer_rules::{Rule, Tells, label};
use maud::{Markup, html};

impl Page<'_> {
    /// Returns the card of a finding. The card of the worst finding is larger.
    pub fn finding(&self, finding: &Finding, is_lead: bool) -> Markup {
        let (mut head, sentences) = self.verdict.paragraph(finding);
        let ended = self.ended_before(finding).filter(|_| !is_lead);
        head.extend(ended.map(|process| {
            let who = self.brief.called_process(&process.proc);
            format!(" (follows from the end of {who}: {})", endings::ended(process))
        }));
        let (message, hint) =
            (usize::from(!finding.message.is_empty()), usize::from(!finding.hint.is_empty()));
        let rest = &sentences[message..sentences.len() - hint];
        let lead = if is_lead { " lead" } else { "" };
        html! {
            article class={ "card finding " (finding.severity) (lead) } id=(self.finding_id(finding)) tabindex="-1" {
                h3.kicker { span.severity { (finding.severity) } " " (head) }
                @if message > 0 { (message_of(&clean(&said(finding)))) }
                (self.place_of(&finding.caller, "", &self.brief.who(finding)))
                // A failure that was caused by the end of a process needs no fix of its own.
                @if hint > 0 { p.fix[ended.is_none()] { @if ended.is_none() { span { "Fix" } " " } (in_code(&clean(&finding.hint))) } }
                (self.story(finding))
                details {
                    summary { "Details, documentation, and stacks" }
                    @for (sentence, code) in rest { p { (sentence) } @if let Some(code) = code { pre { (code) } } }
                    (self.explained(finding))
                    (self.stacks(finding))
                }
            }
        }
    }

    /// Returns the exporter whose abnormal end caused a finding; `None` if there is none.
    pub fn ended_before(&self, finding: &Finding) -> Option<&Process> {
        let named = finding.objects.iter().find_map(|object| object.fingerprint)?;
        let handle = self.report.handles.iter().find(|handle| handle.fingerprint == named)?;
        let process = &self.report.processes[*self.places.get(&**handle.exporter.as_ref()?)?];
        let is_bad = matches!(self.verdict.end(process), End::Died | End::Failed(_));
        (finding.tells(Tells::ExporterEnded) && is_bad).then_some(process)
    }

    /// Returns the lines of a card with the place, the process, and the source line of a call.
    pub fn place_of(&self, at: &Place, before: &str, who: &str) -> Markup {
        html! {
            p.place { (before) (place(at)) ", " (who) }
            @if let Some(code) = self.report.source_line(at) { pre { (code) } }
        }
    }

    /// Returns the text that `cupeer explain` prints for the rule.
    fn explained(&self, finding: &Finding) -> Markup {
        let Some(rule) = Rule::of(&finding.rule) else { return html! {} };
        let page = rule.spec().page();
        html! {
            p { "rule " code { (finding.rule) } ": " (page.says) }
            @if !page.costs.is_empty() { p { "effect: " (page.costs) } }
        }
    }

    fn stacks(&self, finding: &Finding) -> Markup {
        let objects = finding.objects.iter().filter(|object| !is_short(&object.stack));
        html! {
            @if !is_short(&finding.stack) { p.who { "the call" } (self.stack(&finding.stack)) }
            @for object in objects {
                p.who { (label(Rule::of(&finding.rule), object.role)) }
                (self.stack(&object.stack))
            }
        }
    }
}

/// Returns true if a stack has only one frame, the caller, which the sentence already names.
pub fn is_short(stack: &[Place]) -> bool {
    stack.iter().flat_map(Place::lines).nth(1).is_none()
}

/// Formats a sentence in which the first clause is highlighted as the message.
pub fn message_of(text: &str) -> Markup {
    let (message, rest) = text.split_once("; ").unwrap_or((text, ""));
    html! { p.message { (message) } @if !rest.is_empty() { p { (rest) } } }
}

/// Formats a text in which parts between backticks become code.
pub fn in_code(text: &str) -> Markup {
    html! { @for (i, part) in text.split('`').enumerate() { @if i % 2 == 1 { code { (part) } } @else { (part) } } }
}

/// Formats a place: the source line if it is known.
pub fn place(place: &Place) -> Markup {
    match place.source() {
        Some(line) => html! { code { (line.text()) } },
        None => html! { code { (place.long()) } },
    }
}
