//! A form of the report: its name, its needs, and how it is rendered. The command knows only this trait, and finds the
//! forms in [`super::FORMS`].

use crate::asked::filter::Filter;
use crate::asked::keep::Keep;
use crate::base::style::Style;
use crate::merged::whole;
use crate::model::Report;
use crate::views::diff::Diff;
use anyhow::{Context, Result};
use cupeer_record::Job;
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
    /// True if suppressions, and the choice of findings that are errors, change it.
    pub has_verdict: bool,
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
    /// Report; `None` until a form needs the report of the recording.
    pub report: Option<Report>,
    /// Number of single failures in the report.
    pub failures: usize,
    /// Function that receives a warning before the form is written.
    pub warn: fn(&str),
}

impl<'a> Given<'a> {
    /// Returns the report; with `callers`, it tells calls apart by caller.
    ///
    /// # Errors
    ///
    /// The recording cannot be read.
    pub fn report(&mut self, callers: bool) -> Result<&Report> {
        if let (None, Some((job, filter, symbols))) = (&self.report, &mut self.calls) {
            let keep = Keep { failures: self.failures, durations: true, callers };
            self.report = Some(whole::read(job, filter, keep, Some(symbols))?);
        }
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
