//! Tables with columns to sort and rows to filter.

use cupeer_report::moments::number;
use maud::{Markup, html};

/// Number of bytes from which the text of a cell may be wrapped.
const LONG: usize = 60;

/// Table cell: its content, and a number for sorting if the text sorts in another order.
pub struct Cell {
    pub shown: Markup,
    pub order: Option<u64>,
}

/// Returns a cell with text.
pub fn text_cell(text: impl AsRef<str>) -> Cell {
    Cell { shown: html! { (text.as_ref()) }, order: None }
}

/// Returns a cell with markup.
pub fn markup_cell(shown: Markup) -> Cell {
    Cell { shown, order: None }
}

/// Returns a cell with a count.
pub fn count_cell(value: u64) -> Cell {
    sorted_cell(number(value), value)
}

/// Returns a cell with text that is sorted by a number.
pub fn sorted_cell(shown: impl AsRef<str>, order: u64) -> Cell {
    Cell { shown: html! { (shown.as_ref()) }, order: Some(order) }
}

/// Returns a cell with the text for a value, sorted by the value; an empty cell for a missing value.
pub fn optional_cell(value: Option<u64>, shown: impl Fn(u64) -> String) -> Cell {
    value.map_or_else(empty_cell, |value| sorted_cell(shown(value), value))
}

/// Returns an empty cell for a missing value.
pub fn empty_cell() -> Cell {
    text_cell("-")
}

/// Table row: its id, a style class for its severity, and its cells.
pub struct Row {
    pub id: String,
    pub class: &'static str,
    pub cells: Vec<Cell>,
}

/// Table with a limited number of rows. If rows are left out, the last line says how many, and how to see
/// them.
pub struct Table<'a> {
    pub id: &'a str,
    /// Description of the table.
    pub label: &'a str,
    /// Titles of the columns. The title of a column with numbers begins with `#`, which is not shown.
    pub columns: &'a [&'a str],
    pub rows: Vec<Row>,
    /// Number of rows that are left out.
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

    pub fn render(&self) -> Markup {
        let name = |column: &str| column.trim_start_matches('#').to_owned();
        let is_number = |column: &str| column.starts_with('#').then_some("number");
        let class = |column: &str, cell: &Cell| {
            let is_long = cell.shown.0.len() > LONG && !column.starts_with('#');
            if is_long { Some("long") } else { is_number(column) }
        };
        // Leave out columns that are empty in all rows, except the first one, which names the row.
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
