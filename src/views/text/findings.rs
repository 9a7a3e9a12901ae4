//! Findings: one paragraph each, and one line per note.

use super::TextView;
use cupeer_report::model::{Finding, Object};
use cupeer_report::names::clean;
use cupeer_report::style::Emphasis;
use cupeer_report::verdict::sentence_with_confidence;
use cupeer_rules::Rule;
use cupeer_spec::record::slot::finding::role;

impl TextView<'_> {
    /// Returns the findings above note, and the explanations of failed calls.
    pub fn findings(&self) -> String {
        self.format_list(self.main_findings.iter(), |finding| self.format_finding(finding))
    }

    pub fn notes(&self) -> String {
        let notes = &self.other_findings;
        if notes.is_empty() {
            return String::new();
        }
        let most = self.list_limit(super::wrong::MOST);
        let note = |(i, finding): (usize, &&Finding)| {
            let (rule, who) = (clean(&finding.rule), self.who_and_how_often(finding) + &self.format_root(finding));
            let text = self.wrap_item(
                "- ",
                &format!("{} {rule}: {who}: {}", finding.severity, clean(&sentence_with_confidence(finding))),
            );
            let caller = self.wrap_item("  ", &format!("at {}", clean(&finding.caller.long())));
            let others = [role::COPYING, role::USING].map(role::word);
            let is_other = |object: &&Object| others.contains(&Some(object.role));
            let other = finding.objects.iter().find(is_other);
            let other =
                other.map(|object| self.wrap_item("  ", &self.describe_object(Rule::of(&finding.rule), object)));
            let is_new = notes[..i].iter().all(|before| before.hint != finding.hint);
            let hint = self.format_hint(finding).filter(|_| is_new).map(|hint| self.wrap_item("  ", &hint));
            let code = self.report.quoted_source_line(&finding.caller).map(|code| format!("  {}\n", clean(&code)));
            text + &caller + &code.unwrap_or_default() + &other.unwrap_or_default() + &hint.unwrap_or_default()
        };
        let text: String = notes.iter().take(most).enumerate().map(note).collect();
        let more = match notes.len().saturating_sub(most) {
            0 => String::new(),
            more => format!("... {more} more; --all shows them\n"),
        };
        self.title("Notes (informational)") + &text + &more
    }

    /// Returns the paragraph about one finding.
    pub fn format_finding(&self, finding: &Finding) -> String {
        let (severity, (head, sentences)) = (finding.severity, self.finding_paragraph(finding));
        let head = self.wrap_item("- ", &format!("{severity} {head}"));
        let sentence = |(sentence, code): &(String, Option<String>)| {
            let code = code.as_ref().map(|code| format!("  {}\n", clean(code)));
            self.wrap_item("  ", sentence) + &code.unwrap_or_default()
        };
        let sentences: String = sentences.iter().map(sentence).collect();
        let stack =
            if self.lists_all && finding.stack.len() > 1 { self.format_stack(&finding.stack) } else { String::new() };
        self.style.emphasize_part(Emphasis::of_severity(severity), severity, &head) + &sentences + &stack
    }
}
