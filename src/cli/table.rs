//! Tables on a terminal: columns as wide as their cells, the last one wrapped at the terminal's edge.

use std::io::IsTerminal;

/// Between two columns.
const GAP: usize = 2;

/// How many columns the terminal has: COLUMNS, what the terminal says, or 80.
pub fn terminal_width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse::<usize>().ok());
    columns.or_else(ask_terminal).filter(|width| *width >= 40).unwrap_or(80)
}

fn ask_terminal() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    // SAFETY: all-zero bytes are a valid winsize, and TIOCGWINSZ writes one to where it is pointed.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size);
        size
    };
    Some(usize::from(size.ws_col))
}

/// A table with a head. Columns after the first `needed` are left out where they do not fit.
pub struct Table {
    rows: Vec<Vec<String>>,
    needed: usize,
    least: usize,
}

impl Table {
    /// A table whose first `needed` columns are always shown; the last one shown has at least `least`
    /// characters in a line, where one of the optional columns is to count as fitting.
    pub fn new(head: &[&str], needed: usize, least: usize) -> Self {
        Table { rows: vec![head.iter().map(|cell| cell.to_string()).collect()], needed, least }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// The table for a terminal of this width.
    pub fn render(&self, width: usize) -> String {
        let widths: Vec<usize> = (0..self.rows[0].len())
            .map(|i| self.rows.iter().map(|r| r[i].len()).max().unwrap_or(0))
            .collect();
        let start = |column: usize| widths[..column].iter().map(|w| w + GAP).sum::<usize>();
        let shown = (self.needed + 1..=widths.len())
            .rev()
            .find(|shown| start(shown - 1) + self.least.min(widths[shown - 1]) <= width)
            .unwrap_or(self.needed);
        let last = shown - 1;
        let room = width.saturating_sub(start(last)).max(8);
        let mut text = String::new();
        for row in &self.rows {
            for (i, line) in wrap(&row[last], room).iter().enumerate() {
                let mut out = String::new();
                for (cell, width) in row[..last].iter().zip(&widths) {
                    let cell = if i == 0 { cell.as_str() } else { "" };
                    out += &format!("{cell:width$}{:GAP$}", "");
                }
                out += line;
                text += out.trim_end();
                text.push('\n');
            }
        }
        text
    }
}

/// Breaks a text at spaces into lines of at most `width` characters; a longer word stands alone.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let line = lines.last().map_or(0, String::len);
        if line > 0 && line + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else if let Some(last) = lines.last_mut() {
            if !last.is_empty() {
                last.push(' ');
            }
            *last += word;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_is_wrapped_and_optional_ones_wait_for_room() {
        let mut table = Table::new(&["NAME", "TEXT", "MORE"], 2, 10);
        table.row(["a".into(), "one two three four".into(), "and some more of it".into()]);
        assert_eq!(table.render(24), "NAME  TEXT\na     one two three four\n");
        assert_eq!(table.render(23), "NAME  TEXT\na     one two three\n      four\n");
        assert_eq!(
            table.render(40),
            "NAME  TEXT                MORE\na     one two three four  and some more\n                          of it\n"
        );
    }

    #[test]
    fn a_long_word_stands_alone() {
        assert_eq!(wrap("a abcdefgh b", 4), ["a", "abcdefgh", "b"]);
        assert_eq!(wrap("", 4), [""]);
    }
}
