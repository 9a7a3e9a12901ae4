//! The problems in full: a line or a few each.

use super::View;
use cupeer_report::style::Mark;
use cupeer_report::verdict::{ABNORMAL, Problem};

/// Largest number of items of one kind that are listed.
pub const MOST: usize = 5;

impl View<'_> {
    /// Lists all problems; empty if there are none.
    pub fn wrong(&self) -> String {
        let hung = self.hung.as_ref().map_or_else(String::new, |hung| self.problem(hung));
        let hung = self.style.mark_in(Mark::Error, "hang", &hung);
        let died = self.died.as_ref().map_or_else(String::new, |died| self.problem(died));
        let died = self.style.mark_in(Mark::Error, ABNORMAL, &died);
        let others: String = self.others.iter().map(|problem| self.problem(problem)).collect();
        let clues: String = self.clues().map(|clue| self.item("- ", &clue)).collect();
        let text = hung + &died + &self.findings() + &others + &clues;
        let outside = self.verdict.outside().map_or_else(String::new, |text| self.item("", &text));
        if text.is_empty() { text } else { self.title("Problems") + &text + &outside }
    }

    /// Lists things of one kind, as [`Problem::of`] does; empty if there are none.
    pub fn things(&self, count: (u64, &str), what: &str, items: Vec<String>) -> String {
        Problem::of(count, what, items).map_or_else(String::new, |problem| self.problem(&problem))
    }

    fn problem(&self, Problem { what, items, .. }: &Problem) -> String {
        let most = self.at_most(MOST);
        let mut text = self.item("- ", what);
        for item in items.iter().take(most) {
            let mut lines = item.lines();
            text += &lines.next().map_or_else(String::new, |line| self.item("  ", line));
            text.extend(lines.map(|line| self.item("      ", line)));
        }
        if items.len() > most {
            text += &format!("  ... {} more\n", items.len() - most);
        }
        text
    }
}
