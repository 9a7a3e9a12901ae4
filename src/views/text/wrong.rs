//! The problems in full: a line or a few each.

use super::TextView;
use cupeer_report::style::Emphasis;
use cupeer_report::verdict::{ABNORMAL, Problem};

/// Number of items of one kind that are listed: the first ones, unless all are requested.
pub const MOST: usize = 5;

impl TextView<'_> {
    /// Lists all problems; empty if there are none.
    pub fn problems(&self) -> String {
        let hung = self.hangs.as_ref().map_or_else(String::new, |hung| self.format_problem(hung));
        let hung = self.style.emphasize_part(Emphasis::Error, "hang", &hung);
        let died = self.deaths.as_ref().map_or_else(String::new, |died| self.format_problem(died));
        let died = self.style.emphasize_part(Emphasis::Error, ABNORMAL, &died);
        let others: String = self.other_problems.iter().map(|problem| self.format_problem(problem)).collect();
        let clues: String = self.clue_sentences().map(|clue| self.wrap_item("- ", &clue)).collect();
        let text = hung + &died + &self.findings() + &others + &clues;
        let outside =
            self.verdict.describe_foreign_handles().map_or_else(String::new, |text| self.wrap_item("", &text));
        if text.is_empty() { text } else { self.title("Problems") + &text + &outside }
    }

    /// Lists things of one kind as a problem of their own; empty if there are none.
    pub fn format_things(&self, count: (u64, &str), what: &str, items: Vec<String>) -> String {
        Problem::of(count, what, items).map_or_else(String::new, |problem| self.format_problem(&problem))
    }

    fn format_problem(&self, Problem { what, items, .. }: &Problem) -> String {
        let most = self.list_limit(MOST);
        let mut text = self.wrap_item("- ", what);
        for item in items.iter().take(most) {
            let mut lines = item.lines();
            text += &lines.next().map_or_else(String::new, |line| self.wrap_item("  ", line));
            text.extend(lines.map(|line| self.wrap_item("      ", line)));
        }
        if items.len() > most {
            text += &format!("  ... {} more\n", items.len() - most);
        }
        text
    }
}
