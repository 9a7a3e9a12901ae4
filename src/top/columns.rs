//! Tables of which the less important columns are left out where the terminal is narrow. A row is one line: nothing wraps.

use cupeer_report::terminal::clean;
use cupeer_views::table::display_width;

/// What a piece of text looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Look {
    #[default]
    Plain,
    /// What stands over others.
    Head,
    /// What is wrong.
    Bad,
    /// What may be wrong.
    Doubtful,
    /// What matters less.
    Dim,
    /// The row that keys are about.
    Chosen,
}

/// A line of the screen, piece by piece.
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

    /// The same in a width: what does not fit is cut off.
    pub fn fit(self, width: usize) -> Line {
        if self.width() <= width {
            return self;
        }
        let mut room = width;
        let cut = |(look, text): (Look, String)| {
            let text = cut(&text, room);
            room -= display_width(&text);
            (look, text)
        };
        Line(self.0.into_iter().map(cut).filter(|(_, text)| !text.is_empty()).collect())
    }

    /// The same with one look, as wide as the screen.
    pub fn all(self, look: Look, width: usize) -> Line {
        let text: String = self.0.into_iter().map(|(_, text)| text).collect();
        let text = pad(&text, width, false);
        Line(vec![(look, text)])
    }

    /// Without looks.
    #[cfg(test)]
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// Columns that are as spare as this are shown only where they say something.
pub const EXTRA: u8 = 9;

/// A column of a table.
#[derive(Clone, Copy)]
pub struct Column {
    pub head: &'static str,
    /// Whether it ends at its right edge, as numbers do.
    pub is_number: bool,
    /// The higher, the sooner it is left out; what has 0 stays.
    pub spare: u8,
    /// As narrow as it may be, where its texts may be cut off.
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

/// A cell: its text, and how it looks.
pub type Cell = (Look, String);

/// How wide the columns are that are shown.
pub struct Layout {
    columns: Vec<(usize, Column, usize)>,
    gap: usize,
}

impl Layout {
    /// Chooses the columns for rows in a width. An [`EXTRA`] one that says nothing in any row is left out; others stay, so that
    /// they do not come and go.
    pub fn of(columns: &[Column], rows: &[Vec<Cell>], width: usize) -> Layout {
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
        let needed = |all: &[(usize, Column, usize)]| {
            all.iter().map(need).sum::<usize>() + gap * all.len().saturating_sub(1)
        };
        while needed(&all) > width {
            let last = all.iter().enumerate().filter(|(_, (_, column, _))| column.spare > 0);
            let Some((place, _)) = last.max_by_key(|(_, (_, column, _))| column.spare) else { break };
            all.remove(place);
        }
        // What is left goes to those that were to be cut off, the last one first: it says most.
        let mut left = width.saturating_sub(needed(&all));
        for one in all.iter_mut().rev() {
            let least = need(one);
            let more = (one.2 - least).min(left);
            one.2 = least + more;
            left -= more;
        }
        Layout { columns: all, gap }
    }

    /// The line over the rows.
    pub fn head(&self, sorted_by: &str) -> Line {
        let cell = |column: &Column| {
            let look = if column.head == sorted_by { Look::Chosen } else { Look::Head };
            (look, column.head.to_owned())
        };
        self.line(|_, column| cell(column))
    }

    pub fn row(&self, cells: &[Cell]) -> Line {
        self.line(|i, _| cells[i].clone())
    }

    fn line(&self, cell: impl Fn(usize, &Column) -> Cell) -> Line {
        let mut line = Line::default();
        for (place, (i, column, width)) in self.columns.iter().enumerate() {
            let (look, text) = cell(*i, column);
            let text = clean(&text);
            if place > 0 {
                line.0.push((Look::Plain, " ".repeat(self.gap)));
            }
            let is_last = place + 1 == self.columns.len() && !column.is_number;
            let text = cut(&text, *width);
            let text = if is_last { text } else { pad(&text, *width, column.is_number) };
            line.0.push((look, text));
        }
        line
    }
}

/// As much of a text as fits, with two points for the rest.
pub fn cut(text: &str, width: usize) -> String {
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

fn pad(text: &str, width: usize, is_right: bool) -> String {
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
        let layout = Layout::of(&COLUMNS, &rows, width);
        let lines = std::iter::once(layout.head("PID")).chain(rows.iter().map(|row| layout.row(row)));
        lines.map(|line| line.text()).collect()
    }

    #[test]
    fn what_matters_less_goes_first_and_nothing_is_wider_than_the_screen() {
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
        assert_eq!(line.clone().fit(20), line);
        assert_eq!(line.clone().fit(9).text(), "head an..");
        assert_eq!(line.clone().fit(4).text(), "head");
        assert_eq!(line.all(Look::Chosen, 16).0, [(Look::Chosen, "head and more\u{fffd}  ".to_owned())]);
        assert_eq!((cut("abc", 0), cut("abc", 1), cut("abc", 2)), ("".into(), ".".into(), "..".into()));
    }
}
