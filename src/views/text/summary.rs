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
            // The first word is a severity, or who died.
            Some(mark) => {
                self.style.mark_in(mark, text.split(" in ").next().unwrap_or(text), &self.hanging(text))
            }
        };
        lines.iter().map(marked).chain(["\n".into()]).collect()
    }

    /// A line; where it has to be wrapped, its other lines are further in.
    fn hanging(&self, line: &str) -> String {
        let mut lines = wrap(line, self.width.saturating_sub(4).max(20)).into_iter();
        let first = lines.next().unwrap_or_default();
        lines.fold(first, |text, line| text + "\n    " + &line) + "\n"
    }

    /// Describes recorded activity that was not checked.
    fn seen(&self) -> String {
        let text: String = self.verdict.seen().iter().map(|text| self.item("", text)).collect();
        if text.is_empty() { text } else { text + "\n" }
    }
}
