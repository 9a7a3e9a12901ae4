//! `cupeer report`: what a record says.
//!
//! What belongs here: the command, from its options to one of the forms. What a record says is the crate
//! `cupeer_report`'s.

use crate::args::{ReportArgs, ReportFormat, word};
use crate::home::{self, Entry, Kind};
use crate::opened::Opened;
use crate::output::{self, terminal_width};
use crate::parts::{self, Given, MOST_FAILURES};
use crate::run::gate;
use crate::{annotations, suppressions};
use anyhow::{Context, Result, bail};
use cupeer_record::Job;
use cupeer_report::Keep;
use cupeer_report::filter::{Asked, Filter};
use cupeer_report::model::Report;
use cupeer_report::reduced::Reduced;
use cupeer_report::suppress::suggest;
use cupeer_report::{diff, html, junit, sarif, text, trace};
use cupeer_rules::Chosen;
use std::io::{self, BufWriter, ErrorKind::BrokenPipe};
use std::path::PathBuf;
use std::process::ExitCode;

/// How many paths are named one by one.
const MOST_SHOWN: usize = 4;

pub fn command(args: &ReportArgs) -> Result<ExitCode> {
    let paths = match &args.dir[..] {
        [] => vec![newest()?],
        named => named.iter().map(|path| home::find(path)).collect::<Result<_>>()?,
    };
    if let Some(other) = &args.diff {
        return compare(args, &paths, &[home::find(other)?]);
    }
    let of_findings =
        [("--suppressions", !args.suppressions.is_empty()), ("--error-on", args.error_on.is_some())];
    if let (ReportFormat::Trace, Some((option, _))) =
        (args.format, of_findings.iter().find(|(_, is_given)| *is_given))
    {
        bail!("{option} is for the other forms; a trace shows all findings");
    }
    let shown = if let [path] = &paths[..] { home::shown(path) } else { shown_together(&paths) };
    let mut opened = match parts::open(&paths, most_failures(args), args.all)? {
        Given::Record(opened) => opened,
        Given::Parts(parts) => {
            refuse(args, &shown)?;
            return print(args, &of_parts(args, *parts)?, &shown, None);
        }
    };
    let filter = filter(args, &opened.job)?;
    let Opened { job, symbols, .. } = &mut *opened;
    if args.format == ReportFormat::Trace {
        let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        return match trace::write(job, &filter, symbols, out, warn_of_size) {
            // A reader that went away is no failure.
            Err(error)
                if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == BrokenPipe) =>
            {
                Ok(ExitCode::SUCCESS)
            }
            written => written.map(|()| ExitCode::SUCCESS),
        };
    }
    let callers = args.format == ReportFormat::Json;
    let keep = Keep { failures: most_failures(args), durations: true, callers };
    let report = cupeer_report::read(job, &filter, keep, Some(symbols))?;
    print(args, &report, &shown, Some((job, &filter)))
}

fn most_failures(args: &ReportArgs) -> usize {
    if args.all { usize::MAX } else { MOST_FAILURES }
}

/// Several paths as a person would type them.
fn shown_together(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| home::shown(path)).collect();
    match &shown[..] {
        [first, .., last] if shown.len() > MOST_SHOWN => format!("{first} ... {last}"),
        _ => shown.join(" "),
    }
}

/// What is kept of records answers no question about single calls.
fn refuse(args: &ReportArgs, shown: &str) -> Result<()> {
    let filters = [
        ("--process", args.process.is_some()),
        ("--rank", args.rank.is_some()),
        ("--function", args.function.is_some()),
        ("--failed", args.failed),
        ("--since", args.since.is_some()),
        ("--until", args.until.is_some()),
        ("--since-mark", args.since_mark.is_some()),
        ("--until-mark", args.until_mark.is_some()),
        ("--format trace", args.format == ReportFormat::Trace),
        ("--format html", args.format == ReportFormat::Html),
    ];
    match filters.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => bail!("{option} needs the calls, and '{shown}' is reduced: they are not there"),
        None => Ok(()),
    }
}

fn of_parts(args: &ReportArgs, mut parts: Reduced) -> Result<Report> {
    let suppressions = suppressions::read(&args.suppressions)?;
    parts.suppress(&suppressions);
    let mut filter = parts.filter(suppressions);
    filter.error_on = error_on(args)?;
    Ok(parts.report(&filter))
}

/// Prints a report, of a record or of what is kept of some. The status is 1 if `--error-on` chooses a finding of it.
fn print(
    args: &ReportArgs,
    report: &Report,
    shown: &str,
    record: Option<(&Job, &Filter)>,
) -> Result<ExitCode> {
    let printed = write(args, report, shown, record)?;
    let fails = args.error_on.is_some() && report.findings.iter().any(|finding| finding.fails);
    Ok(if fails { ExitCode::FAILURE } else { printed })
}

fn write(
    args: &ReportArgs,
    report: &Report,
    shown: &str,
    record: Option<(&Job, &Filter)>,
) -> Result<ExitCode> {
    if args.suggest_suppressions {
        return output::print_as_is(&suggest::file(report));
    }
    match (args.format, record) {
        (ReportFormat::Json, _) => return output::print_json(report),
        (ReportFormat::Sarif, _) => return output::print_json(&sarif::log(report)),
        (ReportFormat::Junit, _) => return output::print(&junit::document(report)),
        (ReportFormat::Html, Some((job, filter))) => {
            return output::print_as_is(&html::document(job, filter, report, shown)?);
        }
        (ReportFormat::Html, None) | (ReportFormat::Trace, _) => {
            bail!("this form needs the calls, and '{shown}' is reduced: they are not there")
        }
        (ReportFormat::Text, _) => {}
    }
    let options = text::Options {
        shown,
        width: terminal_width(),
        all: args.all,
        leaks: args.leaks,
        style: output::stdout_style(),
    };
    let printed = output::print_marked(&text::show(report, &options))?;
    if !args.leaks {
        output::printed(annotations::write(report, io::stdout().lock()))?;
    }
    Ok(printed)
}

fn filter(args: &ReportArgs, job: &Job) -> Result<Filter> {
    let asked = Asked {
        process: args.process.as_deref(),
        rank: args.rank.as_deref(),
        function: args.function.as_deref(),
        failed: args.failed,
        since: args.since.as_deref(),
        until: args.until.as_deref(),
        since_mark: args.since_mark.as_deref(),
        until_mark: args.until_mark.as_deref(),
    };
    let mut filter = Filter::new(&asked, job)?;
    filter.suppressions = suppressions::read(&args.suppressions)?;
    filter.error_on = error_on(args)?;
    args.function.iter().for_each(|set| output::explain_runtime(set));
    Ok(filter)
}

fn error_on(args: &ReportArgs) -> Result<Option<Chosen>> {
    args.error_on.as_deref().map(gate::chosen).transpose()
}

fn compare(args: &ReportArgs, paths: &[PathBuf], others: &[PathBuf]) -> Result<ExitCode> {
    let is_json = match args.format {
        ReportFormat::Text => false,
        ReportFormat::Json => true,
        ReportFormat::Trace => bail!("--diff prints text or JSON; a trace shows one record"),
        format @ (ReportFormat::Sarif | ReportFormat::Junit | ReportFormat::Html) => {
            bail!("--diff prints text or JSON; {} shows one record", word(format))
        }
    };
    let report = |paths: &[PathBuf]| {
        let shown = shown_together(paths);
        let report = || match parts::open(paths, 0, args.all)? {
            Given::Record(opened) => {
                let keep = Keep { durations: true, ..Keep::default() };
                cupeer_report::read(&opened.job, &filter(args, &opened.job)?, keep, None)
            }
            Given::Parts(parts) => {
                refuse(args, &shown)?;
                of_parts(args, *parts)
            }
        };
        report().with_context(|| shown.clone())
    };
    let diff = diff::compare(&report(paths)?, &report(others)?);
    if is_json {
        output::print_json(&diff)
    } else {
        output::print_marked(&diff.show(terminal_width(), output::stdout_style()))
    }
}

/// Says that a trace will be large, before it is written: the viewer reads it into its memory.
fn warn_of_size(events: u64) {
    if let Some(sentence) = trace::too_large(events) {
        output::complain(&sentence);
    }
}

/// The newest record at home.
fn newest() -> Result<PathBuf> {
    let home = home::path()?;
    let mut records = home::entries(&home).into_iter().filter(|entry| entry.kind == Kind::Record);
    let has_process = |entry: &Entry| Job::open(&entry.path).is_ok_and(|job| !job.processes.is_empty());
    let none = || format!("there is no record in {}; name one: cupeer report DIR", home.display());
    let found = records.find(has_process).with_context(none)?;
    if let Some(program) = home::unrecorded_since(&home, &found) {
        output::complain(&format!(
            "the last run, of '{program}', recorded nothing; this is the record of an earlier run"
        ));
    }
    Ok(found.path)
}
