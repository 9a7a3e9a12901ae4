//! The headline at the start of a report. Without problems: the checked and unchecked calls.

use super::View;
use crate::table::wrap;
use cupeer_report::verdict::Line;

impl View<'_> {
    pub fn summary(&self) -> String {
        let lines = self.headline(self.shown);
        if lines.is_empty() {
            return self.seen();
        }
        let marked = |Line { text, about }: &Line| match about.mark() {
            None => self.hanging(text),
            // The first word is the severity, or the process that died.
            Some(mark) => {
                self.style.mark_in(mark, text.split(" in ").next().unwrap_or(text), &self.hanging(text))
            }
        };
        lines.iter().map(marked).chain(["\n".into()]).collect()
    }

    /// Wraps a line. Its second and later lines are indented.
    fn hanging(&self, line: &str) -> String {
        let mut lines = wrap(line, self.width.saturating_sub(4).max(20)).into_iter();
        let first = lines.next().unwrap_or_default();
        lines.fold(first, |text, line| text + "\n    " + &line) + "\n"
    }

    /// Describes the calls that were checked, and those that were not, in a report without problems.
    fn seen(&self) -> String {
        let text: String = self.verdict.seen().iter().map(|text| self.item("", text)).collect();
        if text.is_empty() { text } else { text + "\n" }
    }
}
