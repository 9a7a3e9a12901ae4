//! The forms of the report: how each is printed, and what it needs. A form is one arm of [`Form::of`].

use super::most_failures;
use crate::records::annotations;
use crate::start::args::{ReportArgs, ReportFormat};
use crate::start::output::{self, terminal_width};
use anyhow::{Context, Result, bail};
use cupeer_record::Job;
use cupeer_report::diff::Diff;
use cupeer_report::filter::Filter;
use cupeer_report::model::Report;
use cupeer_report::symbols::Symbols;
use cupeer_report::{Keep, html, junit, sarif, text, trace};
use std::io::{self, BufWriter, ErrorKind::BrokenPipe};
use std::process::ExitCode;

pub struct Form {
    pub print: fn(&mut Given) -> Result<ExitCode>,
    /// Prints a comparison of two recordings, unless the form shows one.
    pub compare: Option<fn(&Diff) -> Result<ExitCode>>,
    /// Whether it shows single calls, which reduced data lacks.
    pub needs_calls: bool,
    /// Whether suppressions, and the choice of findings that are errors, change it.
    pub has_verdict: bool,
}

impl Form {
    pub fn of(format: ReportFormat) -> Form {
        let form = |print| Form { print, compare: None, needs_calls: false, has_verdict: true };
        match format {
            ReportFormat::Text => Form {
                compare: Some(|diff| {
                    output::print_marked(&diff.show(terminal_width(), output::stdout_style()))
                }),
                ..form(text)
            },
            ReportFormat::Json => Form {
                compare: Some(output::print_json),
                ..form(|given| output::print_json(given.report(true)?))
            },
            ReportFormat::Sarif => form(|given| output::print_json(&sarif::log(given.report(false)?))),
            ReportFormat::Junit => form(|given| output::print(&junit::document(given.report(false)?))),
            ReportFormat::Html => Form { needs_calls: true, ..form(html) },
            ReportFormat::Trace => Form { needs_calls: true, has_verdict: false, ..form(trace) },
        }
    }
}

/// What a form is printed from.
pub struct Given<'a> {
    pub args: &'a ReportArgs,
    /// What `cupeer report` takes for it.
    pub shown: &'a str,
    /// The recording; none if it is reduced.
    pub calls: Option<(&'a Job, &'a Filter, &'a mut Symbols)>,
    /// The report, as soon as a form needs it.
    pub report: Option<Report>,
}

impl Given<'_> {
    /// The report; with `callers`, it tells calls apart by caller.
    pub fn report(&mut self, callers: bool) -> Result<&Report> {
        if let (None, Some((job, filter, symbols))) = (&self.report, &mut self.calls) {
            let keep = Keep { failures: most_failures(self.args), durations: true, callers };
            self.report = Some(cupeer_report::read(job, filter, keep, Some(symbols))?);
        }
        self.report.as_ref().context("there is no report")
    }

    /// That the calls are not there.
    pub fn lacks_calls(what: &str, shown: &str) -> String {
        format!("{what} needs the calls, and '{shown}' is reduced: they are not there")
    }
}

fn text(given: &mut Given) -> Result<ExitCode> {
    let (args, shown) = (given.args, given.shown);
    let (width, style) = (terminal_width(), output::stdout_style());
    let options = text::Options { shown, width, all: args.all, leaks: args.leaks, style };
    let report = given.report(false)?;
    let printed = output::print_marked(&text::show(report, &options))?;
    if !args.leaks {
        output::printed(annotations::write(report, io::stdout().lock()))?;
    }
    Ok(printed)
}

fn html(given: &mut Given) -> Result<ExitCode> {
    given.report(false)?;
    let (Some(report), Some((job, filter, _))) = (&given.report, &given.calls) else {
        bail!(Given::lacks_calls("this form", given.shown))
    };
    output::print_as_is(&html::document(job, filter, report, given.shown)?)
}

fn trace(given: &mut Given) -> Result<ExitCode> {
    let Some((job, filter, symbols)) = &mut given.calls else {
        bail!(Given::lacks_calls("this form", given.shown))
    };
    let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    // Before it is written: viewers read it into their memory.
    let warn = |events| trace::too_large(events).iter().for_each(|sentence| output::complain(sentence));
    match trace::write(job, filter, symbols, out, warn) {
        // A reader that went away is no failure.
        Err(error) if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == BrokenPipe) => {
            Ok(ExitCode::SUCCESS)
        }
        written => written.map(|()| ExitCode::SUCCESS),
    }
}
