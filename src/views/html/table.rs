//! Tables with columns to sort and rows to filter.

use cupeer_report::moments::number;
use maud::{Markup, html};

/// Cells with more bytes may be wrapped.
const LONG: usize = 60;

/// A cell: its content, and a number to sort by if the text has another order.
pub struct Cell {
    pub shown: Markup,
    pub order: Option<u64>,
}

/// A cell of text.
pub fn text(text: impl AsRef<str>) -> Cell {
    Cell { shown: html! { (text.as_ref()) }, order: None }
}

/// A cell of markup.
pub fn markup(shown: Markup) -> Cell {
    Cell { shown, order: None }
}

/// A count.
pub fn count(value: u64) -> Cell {
    ordered(number(value), value)
}

/// A text that is sorted by a number.
pub fn ordered(shown: impl AsRef<str>, order: u64) -> Cell {
    Cell { shown: html! { (shown.as_ref()) }, order: Some(order) }
}

/// A text that is sorted by a number, or a missing value.
pub fn known(value: Option<u64>, shown: impl Fn(u64) -> String) -> Cell {
    value.map_or_else(none, |value| ordered(shown(value), value))
}

/// Cell for a missing value.
pub fn none() -> Cell {
    text("-")
}

/// A row: its id, how bad it is, and its cells.
pub struct Row {
    pub id: String,
    pub class: &'static str,
    pub cells: Vec<Cell>,
}

/// A table of at most so many rows; of more, the last line says how many, and how to see them.
pub struct Table<'a> {
    pub id: &'a str,
    /// Description of the table.
    pub label: &'a str,
    /// The columns; those of numbers begin with `#`, which is not shown.
    pub columns: &'a [&'a str],
    pub rows: Vec<Row>,
    /// Number of rows that are not shown.
    pub more: u64,
}

impl<'a> Table<'a> {
    /// Creates a table of the first `most` items. The ids of rows are `prefix` and a number.
    pub fn of<T>(
        (id, label, prefix): (&'a str, &'a str, &str),
        columns: &'a [&'a str],
        most: usize,
        items: impl ExactSizeIterator<Item = T>,
        row: impl Fn(T) -> (&'static str, Vec<Cell>),
    ) -> Self {
        let more = items.len().saturating_sub(most) as u64;
        let rows = items.take(most).enumerate().map(|(place, item)| {
            let (class, cells) = row(item);
            Row { id: format!("{prefix}{place}"), class, cells }
        });
        Table { id, label, columns, rows: rows.collect(), more }
    }

    pub fn show(&self) -> Markup {
        let name = |column: &str| column.trim_start_matches('#').to_owned();
        let is_number = |column: &str| column.starts_with('#').then_some("number");
        let class = |column: &str, cell: &Cell| {
            let is_long = cell.shown.0.len() > LONG && !column.starts_with('#');
            if is_long { Some("long") } else { is_number(column) }
        };
        // Columns that say nothing in any row are left out; the first one has a row's name.
        let is_empty = |text: &str, i: usize| matches!(text, "" | "-") || (text == "0" && i > 0);
        let says = |i: usize| self.rows.iter().any(|row| !is_empty(&row.cells[i].shown.0, i));
        let shown: Vec<usize> = (0..self.columns.len()).filter(|i| says(*i)).collect();
        html! {
            @if !self.rows.is_empty() {
                div.wide {
                    table id=(self.id) aria-label=(self.label) {
                        thead {
                            tr {
                                @for i in &shown {
                                    th scope="col" class=[is_number(self.columns[*i])] { button type="button" { (name(self.columns[*i])) } }
                                }
                            }
                        }
                        tbody {
                            @for row in &self.rows {
                                tr id=(row.id) class=[(!row.class.is_empty()).then_some(row.class)] tabindex="-1" {
                                    @for i in &shown {
                                        td class=[class(self.columns[*i], &row.cells[*i])] data-v=[row.cells[*i].order] { (row.cells[*i].shown) }
                                    }
                                }
                            }
                        }
                    }
                }
                @if self.more > 0 {
                    p.hint { (number(self.more)) " more rows are left out; cupeer report --all shows them" }
                }
            }
        }
    }
}
