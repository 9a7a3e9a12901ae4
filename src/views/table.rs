//! Tables on a terminal: columns as wide as their cells, the last one wrapped at the terminal's edge.

use cupeer_report::style::{Emphasis, Style};
use cupeer_report::terminal::clean;
use std::borrow::Cow;
use textwrap::core::Word;
pub use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter};

/// Number of spaces between two columns.
const GAP: usize = 2;

/// Table with a header. Columns after the first `needed` are omitted if they do not fit.
pub struct Table {
    rows: Vec<Vec<String>>,
    needed: usize,
    least: usize,
    numbers: Vec<usize>,
    below: bool,
    cut: bool,
}

impl Table {
    /// Creates a table whose first `needed` columns are always shown. The last shown column gets at least
    /// `least` characters of the line; optional columns that would take this space are omitted.
    pub fn new(head: &[&str], needed: usize, least: usize) -> Self {
        let head = head.iter().map(|cell| cell.to_string()).collect();
        Table { rows: vec![head], needed, least, numbers: Vec::new(), below: false, cut: false }
    }

    /// Aligns the columns with these indexes, which contain numbers, to the right.
    pub fn with_numbers(self, numbers: &[usize]) -> Self {
        Table { numbers: numbers.to_vec(), ..self }
    }

    /// Puts the last column on lines below the other columns if one of its words does not fit beside them.
    pub fn with_last_below(self) -> Self {
        Table { below: true, ..self }
    }

    /// Cuts the last column off at the edge, so that each row is one line.
    pub fn with_last_cut(self) -> Self {
        Table { cut: true, ..self }
    }

    /// Omits optional columns that are empty in all rows.
    pub fn without_empty_columns(mut self) -> Self {
        let says_nothing = |column: usize| self.rows[1..].iter().all(|row| matches!(&*row[column], "" | "-" | "0"));
        for column in (self.needed..self.rows[0].len()).rev().filter(|column| says_nothing(*column)).collect::<Vec<_>>()
        {
            self.rows.iter_mut().for_each(|row| drop(row.remove(column)));
            self.numbers.retain(|number| *number != column);
            self.numbers.iter_mut().filter(|number| **number > column).for_each(|number| *number -= 1);
        }
        self
    }

    /// Returns true if the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// Adds a row with this fixed number of cells.
    pub fn push_row<const N: usize>(&mut self, cells: [String; N]) {
        self.push_cells(cells.into());
    }

    /// Adds a row with as many cells as the header has.
    pub fn push_cells(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.rows[0].len());
        self.rows.push(cells.iter().map(|cell| clean(cell)).collect());
    }

    /// Returns the table as text for a terminal that is `width` characters wide.
    pub fn render(&self, width: usize) -> String {
        let widths: Vec<usize> = (0..self.rows[0].len())
            .map(|i| self.rows.iter().map(|r| display_width(&r[i])).max().unwrap_or(0))
            .collect();
        let start = |column: usize| widths[..column].iter().map(|w| w + GAP).sum::<usize>();
        // Text without break points keeps its width, even if the column is narrower.
        let longest = |column: usize| {
            self.rows.iter().flat_map(|row| row[column].split(' ')).map(display_width).max().unwrap_or(0)
        };
        let least = |column: usize| self.least.min(widths[column]).max(longest(column));
        let shown = (self.needed + 1..=widths.len())
            .rev()
            .find(|shown| start(shown - 1) + least(shown - 1) <= width)
            .unwrap_or(self.needed);
        let last = shown - 1;
        let room = width.saturating_sub(start(last)).max(8);
        if self.below && longest(last) > room {
            return self.render_below(last, &widths, width);
        }
        let mut text = String::new();
        for row in &self.rows {
            let lines = if self.cut { vec![truncate(&row[last], room)] } else { wrap(&row[last], room) };
            for (i, line) in lines.iter().enumerate() {
                let mut out = self.format_leading_cells(row, last, &widths, i == 0);
                out += &if self.numbers.contains(&last) {
                    self.align_cell(last, line, widths[last])
                } else {
                    line.clone()
                };
                text += out.trim_end();
                text.push('\n');
            }
        }
        text
    }

    /// Returns the table with some words emphasized. Such a word is the whole text of a cell in a middle
    /// column, such as a verdict.
    pub fn render_highlighted(&self, width: usize, marks: &[(&str, Emphasis)], style: Style) -> String {
        let marked = |line: &str| {
            let found = marks.iter().find(|(word, _)| line.contains(&format!("  {word}  ")));
            found.map_or(line.to_owned(), |(word, mark)| style.emphasize_part(*mark, word, line)) + "\n"
        };
        self.render(width).lines().map(marked).collect()
    }

    /// Returns the table with its last column on lines below the other columns.
    fn render_below(&self, last: usize, widths: &[usize], width: usize) -> String {
        let mut text = String::new();
        for row in &self.rows {
            text += self.format_leading_cells(row, last, widths, true).trim_end();
            text.push('\n');
            if !matches!(&*row[last], "" | "-") {
                for line in wrap(&row[last], width.saturating_sub(2 * GAP)) {
                    text += &format!("{:1$}{line}\n", "", 2 * GAP);
                }
            }
        }
        text
    }

    /// Returns the columns before the last one: the cells in the first line of a row, spaces in further
    /// lines.
    fn format_leading_cells(&self, row: &[String], last: usize, widths: &[usize], is_first: bool) -> String {
        let mut out = String::new();
        for (column, (cell, width)) in row[..last].iter().zip(widths).enumerate() {
            out += &self.align_cell(column, if is_first { cell } else { "" }, *width);
            out += &format!("{:GAP$}", "");
        }
        out
    }

    fn align_cell(&self, column: usize, cell: &str, width: usize) -> String {
        let gap = " ".repeat(width.saturating_sub(display_width(cell)));
        if self.numbers.contains(&column) { gap + cell } else { cell.to_owned() + &gap }
    }
}

/// Returns the parts between which a text may be wrapped: its words. A long list without spaces can be
/// wrapped after its commas.
fn split_words<'a>(text: &'a str) -> Box<dyn Iterator<Item = Word<'a>> + 'a> {
    const LONG: usize = 40;
    let items = |word: &'a str| word.split_inclusive(if word.len() > LONG { ',' } else { ' ' });
    Box::new(text.split_inclusive(' ').flat_map(items).map(Word::from))
}

/// Cuts off a text after `width` characters if it is longer.
fn truncate(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let mut shown = String::new();
    for character in text.chars() {
        shown.push(character);
        if display_width(&shown) + 3 > width {
            shown.pop();
            break;
        }
    }
    format!("{}...", shown.trim_end())
}

/// Breaks a text at spaces, and long lists after their commas, into lines of at most `width` columns; a longer word
/// has its own line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let options = Options::new(width).break_words(false).word_splitter(WordSplitter::NoHyphenation);
    let options = options.word_separator(WordSeparator::Custom(split_words));
    textwrap::wrap(text, options).into_iter().map(Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_is_wrapped_and_optional_ones_wait_for_room() {
        let mut table = Table::new(&["NAME", "TEXT", "MORE"], 2, 10);
        table.push_row(["a".into(), "one two three four".into(), "and some more of it".into()]);
        assert_eq!(table.render(24), "NAME  TEXT\na     one two three four\n");
        assert_eq!(table.render(23), "NAME  TEXT\na     one two three\n      four\n");
        assert_eq!(
            table.render(40),
            "NAME  TEXT                MORE\na     one two three four  and some more\n                          of it\n"
        );
    }

    #[test]
    fn a_row_that_is_cut_is_one_line() {
        let mut table = Table::new(&["NAME", "TEXT"], 2, 10).with_last_cut();
        table.push_row(["a".into(), "one two three four".into()]);
        assert_eq!(table.render(24), "NAME  TEXT\na     one two three four\n");
        assert_eq!(table.render(23), "NAME  TEXT\na     one two three...\n");
        assert_eq!(table.render(17), "NAME  TEXT\na     one two...\n");
    }

    #[test]
    fn an_optional_column_of_words_that_do_not_fit_is_left_out() {
        let mut table = Table::new(&["NAME", "PROGRAM"], 1, 10);
        table.push_row(["a".into(), "/opt/a/long/path".into()]);
        assert_eq!(table.render(22), "NAME  PROGRAM\na     /opt/a/long/path\n");
        assert_eq!(table.render(21), "NAME\na\n");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut table = Table::new(&["NAME", "CALLS", "TEXT"], 3, 4).with_numbers(&[1]);
        table.push_row([
            "\u{8a08}\u{7b97}.py".into(),
            "1".into(),
            "\u{5171}\u{6709} \u{5171}\u{6709} e\u{301}t".into(),
        ]);
        table.push_row(["run.py".into(), "10".into(), "a".into()]);
        let expected = "NAME     CALLS  TEXT\n\u{8a08}\u{7b97}.py      1  \u{5171}\u{6709}\n                \u{5171}\u{6709} e\u{301}t\nrun.py      10  a\n";
        assert_eq!(table.render(22), expected);
        assert_eq!(wrap("\u{8a08}\u{7b97} \u{8a08}\u{7b97}", 8), ["\u{8a08}\u{7b97}", "\u{8a08}\u{7b97}"]);
    }

    #[test]
    fn numbers_end_at_their_right_edge() {
        let mut table = Table::new(&["NAME", "CALLS", "MOST"], 3, 10).with_numbers(&[1, 2]);
        table.push_row(["a".into(), "1".into(), "12345".into()]);
        table.push_row(["é".into(), "234567".into(), "1".into()]);
        assert_eq!(table.render(80), "NAME   CALLS   MOST\na          1  12345\né     234567      1\n");
    }

    #[test]
    fn optional_columns_that_say_nothing_are_left_out() {
        let mut table = Table::new(&["NAME", "RANKS", "MORE", "CALLS"], 1, 10).with_numbers(&[3]);
        table.push_row(["a".into(), "-".into(), "0".into(), "1".into()]);
        table.push_row(["b".into(), "-".into(), "".into(), "200".into()]);
        assert_eq!(table.without_empty_columns().render(80), "NAME  CALLS\na         1\nb       200\n");
    }

    #[test]
    fn a_last_column_without_room_stands_below() {
        let mut table = Table::new(&["NAME", "MORE"], 2, 10).with_last_below();
        table.push_row(["abcdefgh".into(), "a_word_that_is_long and".into()]);
        table.push_row(["b".into(), "-".into()]);
        assert_eq!(table.render(20), "NAME\n    MORE\nabcdefgh\n    a_word_that_is_long\n    and\nb\n");
        assert_eq!(table.render(34), "NAME      MORE\nabcdefgh  a_word_that_is_long and\nb         -\n");
    }

    #[test]
    fn a_long_word_stands_alone() {
        assert_eq!(wrap("a abcdefgh b", 4), ["a", "abcdefgh", "b"]);
        assert_eq!(wrap("", 4), [""]);
    }
}
