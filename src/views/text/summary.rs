//! The headline at the start of a report. Without problems: the checked and unchecked calls.

use super::TextView;
use crate::table::wrap;
use cupeer_report::verdict::HeadlineLine;

impl TextView<'_> {
    pub fn summary(&self) -> String {
        let lines = self.headline(self.shown);
        if lines.is_empty() {
            return self.format_coverage();
        }
        let marked = |HeadlineLine { text, about }: &HeadlineLine| match about.emphasis() {
            None => self.wrap_with_indent(text),
            // The first word is the severity, or the process that died.
            Some(mark) => {
                self.style.emphasize_part(mark, text.split(" in ").next().unwrap_or(text), &self.wrap_with_indent(text))
            }
        };
        lines.iter().map(marked).chain(["\n".into()]).collect()
    }

    /// Wraps a line. Its second and later lines are indented.
    fn wrap_with_indent(&self, line: &str) -> String {
        let mut lines = wrap(line, self.width.saturating_sub(4).max(20)).into_iter();
        let first = lines.next().unwrap_or_default();
        lines.fold(first, |text, line| text + "\n    " + &line) + "\n"
    }

    /// Describes the calls that were checked, and those that were not, in a report without problems.
    fn format_coverage(&self) -> String {
        let text: String = self.verdict.describe_coverage().iter().map(|text| self.wrap_item("", text)).collect();
        if text.is_empty() { text } else { text + "\n" }
    }
}
