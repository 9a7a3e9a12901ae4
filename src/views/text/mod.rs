//! The report as text: a short list of problems, the recording, all problems in full, and tables.
//!
//! It defines the layout on a terminal. The JSON form has the same contents.

pub(crate) mod calls;
pub(crate) mod device_memory;
mod faults;
pub mod findings;
mod head;
pub(crate) mod matrix;
mod memory;
mod pools;
pub(crate) mod processes;
mod summary;
pub mod suppressed;
pub(crate) mod tables;
pub(crate) mod wrong;

use crate::form::{Cleaning, Comparison, FormInput, FormProperties, ReportForm};
use crate::table::{Table, display_width, wrap};
use anyhow::Result;
use cupeer_report::model::Report;
use cupeer_report::style::{Emphasis, Style};
use cupeer_report::verdict::Verdict;
use std::io::{self, Write};
use std::ops::Deref;

pub use crate::form::Options;

/// Largest number of rows of a table, unless all are requested.
const MOST_ROWS: usize = 20;

/// Width in characters that no line exceeds.
const WIDE: usize = 1 << 20;

/// Form `text` of the report.
pub struct TextForm;

impl ReportForm for TextForm {
    fn properties(&self) -> FormProperties {
        let comparison = Some(Comparison {
            title: "text",
            render: |diff, options, out| out.write_all(diff.show(options.width, options.style).as_bytes()),
        });
        let about = FormProperties::new("text", "Tables that fit the terminal");
        FormProperties { takes_annotations: true, cleaning: Cleaning::Marked, comparison, ..about }
    }

    fn render(&self, given: &mut FormInput, out: &mut dyn Write) -> Result<io::Result<()>> {
        let options = given.options;
        Ok(out.write_all(show(given.report()?, &options).as_bytes()))
    }
}

/// Report that is being written as text.
pub(crate) struct TextView<'a> {
    verdict: &'a Verdict<'a>,
    shown: &'a str,
    width: usize,
    most_rows: usize,
    style: Style,
}

impl<'a> Deref for TextView<'a> {
    type Target = Verdict<'a>;

    fn deref(&self) -> &Verdict<'a> {
        self.verdict
    }
}

/// Returns the report as text.
///
/// # Examples
///
/// ```no_run
/// use cupeer_report::{model::Report, style::Style};
/// use cupeer_views::text;
///
/// fn print(report: &Report) {
///     let options = text::Options { shown: "recording", width: 80, all: false, leaks: false, style: Style::Plain };
///     print!("{}", text::show(report, &options));
/// }
/// ```
pub fn show(report: &Report, options: &Options) -> String {
    let &Options { shown, width, all, style, .. } = options;
    let verdict = Verdict::of(report, all);
    let view = TextView { shown, style, ..TextView::new(&verdict, width) };
    if options.leaks {
        return view.head() + &view.leaks() + &view.unnamed_libraries();
    }
    let parts = [
        view.summary(),
        view.head(),
        view.problems(),
        view.faults(),
        view.notes(),
        view.suppressed(),
        view.functions(),
        view.processes(),
        view.marks(),
        view.devices(),
        view.device_memory(),
        view.handles(),
        view.virtual_memory(),
        view.pools(),
        view.matrix(),
        view.peers(),
        view.failures(),
        view.bypassing_libraries(),
        view.unnamed_libraries(),
    ];
    parts.concat()
}

impl<'a> TextView<'a> {
    pub(crate) fn new(verdict: &'a Verdict<'a>, width: usize) -> Self {
        let most = if verdict.lists_all { usize::MAX } else { MOST_ROWS };
        TextView { verdict, shown: "", width, most_rows: most, style: Style::Plain }
    }

    /// Returns a view that does not wrap lines.
    pub(crate) fn without_wrapping(verdict: &'a Verdict<'a>) -> Self {
        TextView::new(verdict, WIDE)
    }

    /// Returns a table of the first rows, under a title.
    fn table_section<R, const N: usize>(
        &self,
        title: &str,
        mut table: Table,
        rows: &[R],
        cells: impl Fn(&R) -> [String; N],
    ) -> String {
        rows.iter().take(self.most_rows).for_each(|row| table.push_row(cells(row)));
        self.titled_table(title, table, rows.len())
    }

    /// Returns a table under a title, with a line that says how many rows are left out.
    fn titled_table(&self, title: &str, table: Table, rows: usize) -> String {
        if table.is_empty() {
            return String::new();
        }
        let table = table.without_empty_columns().render(self.width);
        self.title(title) + &table + &self.omission_line(rows)
    }

    /// Formats the title of a table or a list.
    fn title(&self, title: &str) -> String {
        format!("\n{}\n", self.style.emphasize(Emphasis::Heading, title))
    }

    /// Returns a line with the number of rows that are left out, and the option that shows them.
    fn omission_line(&self, rows: usize) -> String {
        match rows.saturating_sub(self.most_rows) {
            0 => String::new(),
            more => format!("... {} more; --all shows them\n", cupeer_report::moments::number(more as u64)),
        }
    }

    /// Returns the lines about the first few things, and a line with the number of things that are left out.
    fn format_list<T>(&self, things: impl ExactSizeIterator<Item = T>, lines: impl Fn(T) -> String) -> String {
        let more = self.omission_line(things.len());
        things.take(self.most_rows).map(lines).collect::<String>() + &more
    }

    /// Wraps a text: the first line follows `before`, and the others are indented as far. If `before` is only
    /// spaces, the others are indented by two more columns.
    fn wrap_item(&self, before: &str, text: &str) -> String {
        let indent = display_width(before);
        let further = if indent > 0 && before.trim().is_empty() { indent + 2 } else { indent };
        let mut lines = String::new();
        for (i, line) in wrap(text, self.width.saturating_sub(further).max(20)).iter().enumerate() {
            let before = if i == 0 { before.to_owned() } else { " ".repeat(further) };
            lines += format!("{before}{line}").trim_end();
            lines.push('\n');
        }
        lines
    }
}
