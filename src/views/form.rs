//! A form of the report: its name, its needs, and how it is rendered. The command knows only this trait and the list of
//! forms, and builds the report before it renders one.

use crate::diff::Diff;
use anyhow::{Context, Result};
use cupeer_record::Job;
use cupeer_report::filter::Filter;
use cupeer_report::model::Report;
use cupeer_report::style::Style;
use cupeer_symbols::Symbols;
use std::io::{self, Write};

/// Output form of the report, such as text, JSON, or HTML.
pub trait ReportForm: Sync {
    /// Returns the name, the help, and the needs of the form.
    fn properties(&self) -> FormProperties;

    /// Writes the report, and returns the result of writing.
    ///
    /// # Errors
    ///
    /// The recording cannot be read.
    fn render(&self, given: &mut FormInput, out: &mut dyn Write) -> Result<io::Result<()>>;
}

/// Name, help, and needs of a form.
pub struct FormProperties {
    /// Name of the form, as an argument of `--format`.
    pub name: &'static str,
    /// Help for the form, in one line.
    pub help: &'static str,
    /// True if the form shows single calls, which reduced data lacks.
    pub needs_calls: bool,
    /// True if the form shows the verdict, so that suppressions and the choice of findings that count as
    /// errors change it.
    pub has_verdict: bool,
    /// True if the form needs a report in which calls are told apart by caller.
    pub needs_callers: bool,
    /// True if annotations for GitHub Actions may follow the form in the output.
    pub takes_annotations: bool,
    /// Way in which escape sequences, which a terminal obeys, are removed from the form.
    pub cleaning: Cleaning,
    /// Comparison of two recordings; `None` if the form shows only one.
    pub comparison: Option<Comparison>,
}

impl FormProperties {
    /// Returns the properties of most forms: no single calls, no comparison, no annotations.
    pub fn new(name: &'static str, help: &'static str) -> Self {
        FormProperties {
            name,
            help,
            needs_calls: false,
            has_verdict: true,
            needs_callers: false,
            takes_annotations: false,
            cleaning: Cleaning::Lines,
            comparison: None,
        }
    }
}

/// Way in which escape sequences, which a terminal obeys, are removed from a form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cleaning {
    /// The command removes all escape sequences, but keeps line breaks.
    Lines,
    /// The command removes all escape sequences, but keeps line breaks and the marks of [`Style`].
    Marked,
    /// The form removes escape sequences itself, and the command passes on each piece as soon as it is
    /// written.
    Own,
}

/// Comparison of two recordings in a form.
pub struct Comparison {
    /// Name of the form in sentences.
    pub title: &'static str,
    /// Function that writes the comparison.
    pub render: fn(&Diff, &Options, &mut dyn Write) -> io::Result<()>,
}

/// Options of forms for people.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Argument of `cupeer report` for this recording.
    pub shown: &'a str,
    /// Width of the terminal in characters.
    pub width: usize,
    /// True to show all rows of long tables.
    pub all: bool,
    /// True to show only objects that are still open.
    pub leaks: bool,
    /// Form in which headings and severities are marked.
    pub style: Style,
}

/// Data that a form is rendered from.
pub struct FormInput<'a> {
    /// Options of forms for people.
    pub options: Options<'a>,
    /// Recording with its filter and its symbols; `None` for reduced data.
    pub recording: Option<(&'a Job, &'a Filter, &'a mut Symbols)>,
    /// Report; `None` if the form does not show it.
    pub report: Option<Report>,
    /// Function that receives a warning before the form is written.
    pub warn: fn(&str),
}

impl<'a> FormInput<'a> {
    /// Returns the report.
    ///
    /// # Errors
    ///
    /// The command did not build a report.
    pub fn report(&self) -> Result<&Report> {
        self.report.as_ref().context("there is no report")
    }

    /// Returns the recording, for a form that needs the calls.
    ///
    /// # Errors
    ///
    /// The data is reduced.
    pub fn recording(&mut self) -> Result<(&'a Job, &'a Filter, &mut Symbols)> {
        let (job, filter, symbols) =
            self.recording.as_mut().with_context(|| missing_calls_message("this form", self.options.shown))?;
        Ok((job, filter, symbols))
    }
}

/// Returns the sentence that reduced data lacks the calls that a form needs.
pub fn missing_calls_message(what: &str, shown: &str) -> String {
    format!("{what} needs the calls, and '{shown}' is reduced: they are not there")
}
