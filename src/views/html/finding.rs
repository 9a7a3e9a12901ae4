//! The card of a finding: its sentence, place, and fix; its story; and everything else that is known of it.

use super::Page;
use cupeer_report::endings;
use cupeer_report::model::{Finding, Place, Process};
use cupeer_report::names::clean;
use cupeer_report::verdict::{EndVerdict, sentence_with_confidence};
use cupeer_rules::{Rule, Tells, object_label};
use maud::{Markup, html};

impl Page<'_> {
    /// Returns the card of a finding. The card of the worst finding is larger.
    pub fn finding_card(&self, finding: &Finding, is_lead: bool) -> Markup {
        let (mut head, sentences) = self.verdict.finding_paragraph(finding);
        let ended = self.ended_exporter(finding).filter(|_| !is_lead);
        head.extend(ended.map(|process| {
            let who = self.brief_view.name_process(&process.proc);
            format!(" (follows from the end of {who}: {})", endings::describe_end(process))
        }));
        let (message, hint) = (usize::from(!finding.message.is_empty()), usize::from(!finding.hint.is_empty()));
        let rest = &sentences[message..sentences.len() - hint];
        let lead = if is_lead { " lead" } else { "" };
        html! {
            article class={ "card finding " (finding.severity) (lead) } id=(self.finding_id(finding)) tabindex="-1" {
                h3.kicker { span.severity { (finding.severity) } " " (head) }
                @if message > 0 { (highlight_message(&clean(&sentence_with_confidence(finding)))) }
                (self.place_lines(&finding.caller, "", &self.brief_view.name_finding_processes(finding)))
                // A failure that was caused by the end of a process needs no fix of its own.
                @if hint > 0 { p.fix[ended.is_none()] { @if ended.is_none() { span { "Fix" } " " } (format_backticks(&clean(&finding.hint))) } }
                (self.draw_story(finding))
                details {
                    summary { "Details, documentation, and stacks" }
                    @for (sentence, code) in rest { p { (sentence) } @if let Some(code) = code { pre { (code) } } }
                    (self.rule_explanation(finding))
                    (self.stack_details(finding))
                }
            }
        }
    }

    /// Returns the exporter whose abnormal end caused a finding; `None` if there is none.
    pub fn ended_exporter(&self, finding: &Finding) -> Option<&Process> {
        let named = finding.objects.iter().find_map(|object| object.fingerprint)?;
        let handle = self.report.handles.iter().find(|handle| handle.fingerprint == named)?;
        let process = &self.report.processes[*self.process_indexes.get(&**handle.exporter.as_ref()?)?];
        let is_bad = matches!(self.verdict.judge_end(process), EndVerdict::Died | EndVerdict::Failed(_));
        (finding.states_fact(Tells::ExporterEnded) && is_bad).then_some(process)
    }

    /// Returns the lines of a card with the place, the process, and the source line of a call.
    pub fn place_lines(&self, at: &Place, before: &str, who: &str) -> Markup {
        html! {
            p.place { (before) (format_place(at)) ", " (who) }
            @if let Some(code) = self.report.quoted_source_line(at) { pre { (code) } }
        }
    }

    /// Returns the text that `cupeer explain` prints for the rule.
    fn rule_explanation(&self, finding: &Finding) -> Markup {
        let Some(rule) = Rule::of(&finding.rule) else { return html! {} };
        let page = rule.spec().page();
        html! {
            p { "rule " code { (finding.rule) } ": " (page.says) }
            @if !page.costs.is_empty() { p { "effect: " (page.costs) } }
        }
    }

    fn stack_details(&self, finding: &Finding) -> Markup {
        let objects = finding.objects.iter().filter(|object| !has_one_frame(&object.stack));
        html! {
            @if !has_one_frame(&finding.stack) { p.who { "the call" } (self.stack_list(&finding.stack)) }
            @for object in objects {
                p.who { (object_label(Rule::of(&finding.rule), object.role)) }
                (self.stack_list(&object.stack))
            }
        }
    }
}

/// Returns true if a stack has only one frame, the caller, which the sentence already names.
pub fn has_one_frame(stack: &[Place]) -> bool {
    stack.iter().flat_map(Place::lines).nth(1).is_none()
}

/// Formats a sentence in which the first clause is highlighted as the message.
pub fn highlight_message(text: &str) -> Markup {
    let (message, rest) = text.split_once("; ").unwrap_or((text, ""));
    html! { p.message { (message) } @if !rest.is_empty() { p { (rest) } } }
}

/// Formats a text in which parts between backticks become code.
pub fn format_backticks(text: &str) -> Markup {
    html! { @for (i, part) in text.split('`').enumerate() { @if i % 2 == 1 { code { (part) } } @else { (part) } } }
}

/// Formats a place: the source line if it is known.
pub fn format_place(place: &Place) -> Markup {
    match place.source() {
        Some(line) => html! { code { (line.text()) } },
        None => html! { code { (place.long()) } },
    }
}
