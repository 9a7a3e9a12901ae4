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

/// Form of the report.
pub trait Form: Sync {
    /// Returns its name, its help, and its needs.
    fn about(&self) -> About;

    /// Writes the report, and returns the result of writing.
    ///
    /// # Errors
    ///
    /// The recording cannot be read.
    fn render(&self, given: &mut Given, out: &mut dyn Write) -> Result<io::Result<()>>;
}

/// Name, help, and needs of a form.
pub struct About {
    /// Word after `--format`.
    pub name: &'static str,
    /// Help, in one line.
    pub help: &'static str,
    /// True if it shows single calls, which reduced data lacks.
    pub needs_calls: bool,
    /// True if it shows the report, so that suppressions, and the choice of findings that are errors, change it.
    pub has_verdict: bool,
    /// True if its report tells calls apart by caller.
    pub has_callers: bool,
    /// True if the annotations for GitHub Actions may follow it.
    pub takes_annotations: bool,
    /// Removal of what a terminal obeys.
    pub cleaning: Cleaning,
    /// Comparison of two recordings; `None` if the form shows only one.
    pub comparison: Option<Comparison>,
}

impl About {
    /// Returns what most forms are: without single calls, comparison, and annotations.
    pub fn new(name: &'static str, help: &'static str) -> Self {
        About {
            name,
            help,
            needs_calls: false,
            has_verdict: true,
            has_callers: false,
            takes_annotations: false,
            cleaning: Cleaning::Lines,
            comparison: None,
        }
    }
}

/// Removal of everything that a terminal obeys from a form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cleaning {
    /// The command removes all of it, except for line breaks.
    Lines,
    /// The command also leaves the marks of [`Style`].
    Marked,
    /// The form does it, and the command passes on each piece as it is written.
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
    /// Width of the terminal in columns.
    pub width: usize,
    /// True to show all rows of long tables.
    pub all: bool,
    /// True to show only what is open.
    pub leaks: bool,
    /// Treatment of headings and severities.
    pub style: Style,
}

/// Data that a form is rendered from.
pub struct Given<'a> {
    /// Options for people.
    pub options: Options<'a>,
    /// Recording; `None` if it is reduced.
    pub calls: Option<(&'a Job, &'a Filter, &'a mut Symbols)>,
    /// Report; `None` if the form does not show it.
    pub report: Option<Report>,
    /// Function that receives a warning before the form is written.
    pub warn: fn(&str),
}

impl<'a> Given<'a> {
    /// Returns the report.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn report(&self) -> Result<&Report> {
        self.report.as_ref().context("there is no report")
    }

    /// Returns the recording, for a form that needs the calls.
    ///
    /// # Errors
    ///
    /// The data is reduced.
    pub fn calls(&mut self) -> Result<(&'a Job, &'a Filter, &mut Symbols)> {
        let (job, filter, symbols) =
            self.calls.as_mut().with_context(|| lacks_calls("this form", self.options.shown))?;
        Ok((job, filter, symbols))
    }
}

/// Returns the sentence about reduced data where calls are needed.
pub fn lacks_calls(what: &str, shown: &str) -> String {
    format!("{what} needs the calls, and '{shown}' is reduced: they are not there")
}
