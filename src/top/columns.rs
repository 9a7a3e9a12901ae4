//! Lines and tables of the screen. In a narrow terminal, a table loses its less important columns. A row never
//! wraps.

use cupeer_report::style::{Emphasis, Style};
use cupeer_report::terminal::clean;
use cupeer_views::table::display_width;

/// Appearance of a piece of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Look {
    #[default]
    Plain,
    /// Heading of a table.
    Head,
    /// Text about a problem.
    Bad,
    /// Text about a possible problem.
    Doubtful,
    /// Less important text.
    Dim,
    /// Row of the process that keys act on.
    Chosen,
}

/// Line of the screen: pieces of text, each with its appearance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line(pub Vec<(Look, String)>);

impl Line {
    pub fn new(look: Look, text: &str) -> Line {
        Line(vec![(look, clean(text))])
    }

    pub fn with(mut self, look: Look, text: &str) -> Line {
        self.0.push((look, clean(text)));
        self
    }

    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| display_width(text)).sum()
    }

    /// Returns the line without what is beyond a width.
    pub fn cut_to_width(self, width: usize) -> Line {
        if self.width() <= width {
            return self;
        }
        let mut room = width;
        let cut = |(look, text): (Look, String)| {
            let text = cut_text(&text, room);
            room -= display_width(&text);
            (look, text)
        };
        Line(self.0.into_iter().map(cut).filter(|(_, text)| !text.is_empty()).collect())
    }

    /// Returns the line with a single appearance, padded to the width of the screen.
    pub fn with_single_look(self, look: Look, width: usize) -> Line {
        let text: String = self.0.into_iter().map(|(_, text)| text).collect();
        let text = pad_text(&text, width, false);
        Line(vec![(look, text)])
    }

    /// Returns the text with the color codes of a style. The chosen row stands out in every style.
    pub fn with_colors(&self, style: Style) -> String {
        let piece = |(look, text): &(Look, String)| match look {
            Look::Plain => text.clone(),
            Look::Head => style.emphasize(Emphasis::Heading, text),
            Look::Bad => style.emphasize(Emphasis::Error, text),
            Look::Doubtful => style.emphasize(Emphasis::Warning, text),
            Look::Dim => style.emphasize(Emphasis::Note, text),
            Look::Chosen => format!("\x1b[7m{text}\x1b[0m"),
        };
        self.0.iter().map(piece).collect()
    }

    /// Returns the text without color codes.
    #[cfg(test)]
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// Smallest `spare` of columns that are shown only if a row has a value in them.
pub const EXTRA: u8 = 9;

/// A column of a table.
#[derive(Clone, Copy)]
pub struct Column {
    pub head: &'static str,
    /// True if the column is aligned to the right, as numbers are.
    pub is_number: bool,
    /// Order in which columns are omitted if the table is too wide: the highest first. A column with 0 is never
    /// omitted.
    pub spare: u8,
    /// Minimum width to which the column's texts may be cut off; `None` if they are never cut off.
    pub least: Option<usize>,
}

impl Column {
    pub const fn number(head: &'static str, spare: u8) -> Column {
        Column { head, is_number: true, spare, least: None }
    }

    pub const fn text(head: &'static str, spare: u8, least: usize) -> Column {
        Column { head, is_number: false, spare, least: Some(least) }
    }
}

/// Cell of a table: its appearance and its text.
pub type Cell = (Look, String);

/// Columns of a table that are shown, each with its index and its width.
pub struct Layout {
    columns: Vec<(usize, Column, usize)>,
    gap: usize,
}

impl Layout {
    /// Chooses the columns of a table that fit a width. An [`EXTRA`] column that is empty in all rows is omitted.
    /// Other empty columns stay, so that the table does not change all the time.
    pub fn fit_width(columns: &[Column], rows: &[Vec<Cell>], width: usize) -> Layout {
        let gap = if width < 100 { 1 } else { 2 };
        let natural = |(i, column): (usize, &Column)| {
            let cells = rows.iter().map(|row| display_width(&row[i].1)).max().unwrap_or(0);
            (i, *column, cells.max(display_width(column.head)))
        };
        let says = |i: usize| rows.iter().any(|row| !matches!(&*row[i].1, "" | "-" | "0"));
        let mut all: Vec<(usize, Column, usize)> = columns.iter().enumerate().map(natural).collect();
        all.retain(|(i, column, _)| column.spare < EXTRA || says(*i));
        let need = |(_, column, natural): &(usize, Column, usize)| {
            column.least.map_or(*natural, |least| least.max(column.head.len()).min(*natural))
        };
        let needed =
            |all: &[(usize, Column, usize)]| all.iter().map(need).sum::<usize>() + gap * all.len().saturating_sub(1);
        while needed(&all) > width {
            let last = all.iter().enumerate().filter(|(_, (_, column, _))| column.spare > 0);
            let Some((place, _)) = last.max_by_key(|(_, (_, column, _))| column.spare) else { break };
            all.remove(place);
        }
        // The remaining width goes to columns that would be cut off, starting with the last one, which is the most
        // informative.
        let mut left = width.saturating_sub(needed(&all));
        for one in all.iter_mut().rev() {
            let least = need(one);
            let more = (one.2 - least).min(left);
            one.2 = least + more;
            left -= more;
        }
        Layout { columns: all, gap }
    }

    /// Returns the line with the headings of the columns.
    pub fn heading_line(&self, sorted_by: Option<&str>) -> Line {
        self.build_line(|_, column| {
            let look = if sorted_by == Some(column.head) { Look::Chosen } else { Look::Head };
            (look, column.head.to_owned())
        })
    }

    pub fn row_line(&self, cells: &[Cell]) -> Line {
        self.build_line(|i, _| cells[i].clone())
    }

    fn build_line(&self, cell: impl Fn(usize, &Column) -> Cell) -> Line {
        let mut line = Line::default();
        for (place, (i, column, width)) in self.columns.iter().enumerate() {
            let (look, text) = cell(*i, column);
            let text = clean(&text);
            if place > 0 {
                line.0.push((Look::Plain, " ".repeat(self.gap)));
            }
            let is_last = place + 1 == self.columns.len() && !column.is_number;
            let text = cut_text(&text, *width);
            let text = if is_last { text } else { pad_text(&text, *width, column.is_number) };
            line.0.push((look, text));
        }
        line
    }
}

/// Cuts a text off at a width, with `..` in place of the rest.
pub fn cut_text(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let points = &".."[..width.min(2)];
    let mut end = 0;
    for (at, c) in text.char_indices() {
        let next = at + c.len_utf8();
        if display_width(&text[..next]) + points.len() > width {
            break;
        }
        end = next;
    }
    format!("{}{points}", &text[..end])
}

fn pad_text(text: &str, width: usize, is_right: bool) -> String {
    let spaces = " ".repeat(width.saturating_sub(display_width(text)));
    if is_right { spaces + text } else { text.to_owned() + &spaces }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::number("PID", 0),
        Column::text("PROGRAM", 1, 4),
        Column::number("CALLS", 2),
        Column::text("STATE", 0, 6),
    ];

    fn shown(width: usize) -> Vec<String> {
        let cell = |text: &str| (Look::Plain, text.to_owned());
        let rows = [
            vec![cell("1"), cell("trainer"), cell("12,345"), cell("3.5s cuIpcOpenMemHandle_v2")],
            vec![cell("31415"), cell("\u{4e16}\u{754c}\u{4e16}\u{754c}"), cell("7"), cell("runs")],
        ];
        let layout = Layout::fit_width(&COLUMNS, &rows, width);
        let lines =
            std::iter::once(layout.heading_line(Some("PID"))).chain(rows.iter().map(|row| layout.row_line(row)));
        lines.map(|line| line.text()).collect()
    }

    #[test]
    fn less_important_columns_go_first_and_nothing_is_wider_than_the_screen() {
        assert_eq!(
            shown(50),
            [
                "  PID PROGRAM   CALLS STATE",
                "    1 trainer  12,345 3.5s cuIpcOpenMemHandle_v2",
                "31415 \u{4e16}\u{754c}\u{4e16}\u{754c}      7 runs"
            ]
        );
        assert_eq!(shown(24)[1], "    1 trainer 3.5s cuI..");
        assert_eq!(shown(12)[1], "    1 3.5s..");
        for width in 12..90 {
            assert!(shown(width).iter().all(|line| display_width(line) <= width), "{width}");
        }
    }

    #[test]
    fn a_line_is_cut_where_the_screen_ends() {
        let line = Line::new(Look::Head, "head").with(Look::Bad, " and more\x1b");
        assert_eq!(line.clone().cut_to_width(20), line);
        assert_eq!(line.clone().cut_to_width(9).text(), "head an..");
        assert_eq!(line.clone().cut_to_width(4).text(), "head");
        assert_eq!(line.with_single_look(Look::Chosen, 16).0, [(Look::Chosen, "head and more\u{fffd}  ".to_owned())]);
        assert_eq!((cut_text("abc", 0), cut_text("abc", 1), cut_text("abc", 2)), ("".into(), ".".into(), "..".into()));
    }
}
