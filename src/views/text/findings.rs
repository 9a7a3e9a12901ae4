//! Findings: one paragraph each, and one line per note.

use super::View;
use cupeer_report::model::{Finding, Object};
use cupeer_report::names::clean;
use cupeer_report::style::Mark;
use cupeer_report::verdict::said;
use cupeer_rules::Rule;
use cupeer_spec::record::slot::finding::role;

impl View<'_> {
    /// Returns the findings above note, and the explanations of failed calls.
    pub fn findings(&self) -> String {
        self.listed(self.told.iter(), |finding| self.finding(finding))
    }

    pub fn notes(&self) -> String {
        let notes = &self.noted;
        if notes.is_empty() {
            return String::new();
        }
        let most = self.at_most(super::wrong::MOST);
        let note = |(i, finding): (usize, &&Finding)| {
            let (rule, who) = (clean(&finding.rule), self.who_and_how_often(finding) + &self.root(finding));
            let text =
                self.item("- ", &format!("{} {rule}: {who}: {}", finding.severity, clean(&said(finding))));
            let caller = self.item("  ", &format!("at {}", clean(&finding.caller.long())));
            let others = [role::COPYING, role::USING].map(role::word);
            let is_other = |object: &&Object| others.contains(&Some(object.role));
            let other = finding.objects.iter().find(is_other);
            let other = other.map(|object| self.item("  ", &self.object(Rule::of(&finding.rule), object)));
            let is_new = notes[..i].iter().all(|before| before.hint != finding.hint);
            let hint = self.hint(finding).filter(|_| is_new).map(|hint| self.item("  ", &hint));
            let code = self.report.source_line(&finding.caller).map(|code| format!("  {}\n", clean(&code)));
            text + &caller
                + &code.unwrap_or_default()
                + &other.unwrap_or_default()
                + &hint.unwrap_or_default()
        };
        let text: String = notes.iter().take(most).enumerate().map(note).collect();
        let more = match notes.len().saturating_sub(most) {
            0 => String::new(),
            more => format!("... {more} more; --all shows them\n"),
        };
        self.title("Notes (informational)") + &text + &more
    }

    /// Returns the paragraph about one finding.
    pub fn finding(&self, finding: &Finding) -> String {
        let (severity, (head, sentences)) = (finding.severity, self.paragraph(finding));
        let head = self.item("- ", &format!("{severity} {head}"));
        let sentence = |(sentence, code): &(String, Option<String>)| {
            let code = code.as_ref().map(|code| format!("  {}\n", clean(code)));
            self.item("  ", sentence) + &code.unwrap_or_default()
        };
        let sentences: String = sentences.iter().map(sentence).collect();
        let stack =
            if self.all && finding.stack.len() > 1 { self.stack(&finding.stack) } else { String::new() };
        self.style.mark_in(Mark::of_severity(severity), severity, &head) + &sentences + &stack
    }
}
