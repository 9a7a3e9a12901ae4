//! `cupeer report`: what a record says.
//!
//! What belongs here: the command, from its options to one of the forms. What a record says is `cupeer_facts`'s, and how a form
//! shows it `cupeer_views`'s.

mod args;

use crate::records::opened::OpenedRecording;
use crate::records::parts;
use anyhow::{Context, Result, bail};
pub use args::ReportArgs;
use cupeer_console::{annotations, output};
use cupeer_facts::part::JobPart;
use cupeer_record::Job;
use cupeer_recordings::kept::{self, Entry, EntryKind};
use cupeer_recordings::reduce::MOST_FAILURES;
use cupeer_recordings::{home, suppressions};
use cupeer_report::Keep;
use cupeer_report::filter::{Filter, Selection};
use cupeer_report::model::Report;
use cupeer_report::style::Style;
use cupeer_report::suppress::suggest;
use cupeer_report::symbols::Symbols;
use cupeer_report::terminal::clean_lines;
use cupeer_report::verdict::is_hang_error;
use cupeer_rules::ErrorChoice;
use cupeer_views::form::{Cleaning, FormInput, Options, missing_calls_message};
use cupeer_views::{FORMS, diff};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Maximum number of paths that are listed one by one; of more, only the first and the last are shown.
const MOST_SHOWN: usize = 4;

pub fn command(args: &ReportArgs) -> Result<ExitCode> {
    let paths = match &args.dir[..] {
        [] => vec![newest_recording()?],
        named => named.iter().map(|path| home::find_recording(path)).collect::<Result<_>>()?,
    };
    if let Some(other) = &args.diff {
        return compare_recordings(args, &paths, &[home::find_recording(other)?]);
    }
    let of_findings = [("--suppressions", !args.suppressions.is_empty()), ("--error-on", args.error_on.is_some())];
    if let Some((option, _)) =
        of_findings.iter().find(|(_, is_given)| *is_given && !args.format.properties().has_verdict)
    {
        bail!("{option} is for the other forms; a {} shows all findings", args.format.properties().name);
    }
    let shown = if let [path] = &paths[..] { home::report_argument(path) } else { format_paths(&paths) };
    match parts::open_input(&paths, failure_limit(args), args.all)? {
        parts::ReportInput::Record(mut opened) => {
            let filter = build_filter(args, &opened.job)?;
            let OpenedRecording { job, symbols, .. } = &mut *opened;
            print_report(args, &shown, Some((job, &filter, symbols)), None)
        }
        parts::ReportInput::Parts(parts) => {
            refuse_call_options(args, &shown)?;
            print_report(args, &shown, None, Some(report_from_parts(args, *parts)?))
        }
    }
}

fn failure_limit(args: &ReportArgs) -> usize {
    if args.all { usize::MAX } else { MOST_FAILURES }
}

/// Returns several paths as a user would type them.
fn format_paths(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| home::report_argument(path)).collect();
    match &shown[..] {
        [first, .., last] if shown.len() > MOST_SHOWN => format!("{first} ... {last}"),
        _ => shown.join(" "),
    }
}

/// Returns an error for options about single calls, because reduced files do not contain the calls.
fn refuse_call_options(args: &ReportArgs, shown: &str) -> Result<()> {
    let filters = [
        ("--process", args.process.is_some()),
        ("--rank", args.rank.is_some()),
        ("--function", args.function.is_some()),
        ("--failed", args.failed),
        ("--since", args.since.is_some()),
        ("--until", args.until.is_some()),
        ("--since-mark", args.since_mark.is_some()),
        ("--until-mark", args.until_mark.is_some()),
        (&format!("--format {}", args.format.properties().name), args.format.properties().needs_calls),
    ];
    match filters.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => bail!(missing_calls_message(option, shown)),
        None => Ok(()),
    }
}

fn report_from_parts(args: &ReportArgs, mut parts: JobPart) -> Result<Report> {
    let suppressions = suppressions::read_suppressions(&args.suppressions)?;
    parts.suppress(&suppressions);
    let mut filter = parts.filter(suppressions);
    filter.error_on = parse_error_on(args)?;
    Ok(parts.report(&filter))
}

/// Prints a report. The exit status is 1 if `--error-on` selects one of its findings or its hang.
fn print_report(
    args: &ReportArgs,
    shown: &str,
    mut calls: Option<(&Job, &Filter, &mut Symbols)>,
    mut report: Option<Report>,
) -> Result<ExitCode> {
    let about = args.format.properties();
    if let Some((job, filter, symbols)) = calls.as_mut().filter(|_| about.has_verdict) {
        let keep =
            Keep { failures: failure_limit(args), durations: true, callers: about.needs_callers, few_names: false };
        let mut read = cupeer_facts::read(job, filter, keep, Some(symbols))?;
        if let Some(mut sources) = symbols.sources().filter(|_| !args.no_source) {
            read.read_source_lines(&mut sources);
        }
        report = Some(read);
    }
    let mut given =
        FormInput { options: print_options(args, shown), recording: calls, report, warn: output::print_problem };
    let printed = match args.suggest_suppressions {
        true => {
            let file = suggest::suppression_file_text(given.report()?);
            write_output(args, Cleaning::Own, |out| Ok(out.write_all(file.as_bytes())))?
        }
        false => write_output(args, about.cleaning, |out| args.format.render(&mut given, out))?,
    };
    if let (false, false, true, Some(report)) =
        (args.suggest_suppressions, args.leaks, about.takes_annotations, &given.report)
    {
        output::stdout_result(annotations::write_annotations(report, io::stdout().lock()))?;
    }
    let chosen = parse_error_on(args)?;
    let hangs_count = chosen.is_some() && is_hang_error(chosen.as_ref());
    let fails = given.report.is_some_and(|report| {
        report.failing().next().is_some() || hangs_count && report.lasting_hangs().next().is_some()
    });
    Ok(if fails && chosen.is_some() { ExitCode::FAILURE } else { printed })
}

fn print_options<'a>(args: &ReportArgs, shown: &'a str) -> Options<'a> {
    // A file has no maximum line width and no colors.
    let (width, style) = match args.output {
        Some(_) => (output::UNLIMITED_WIDTH, Style::Plain),
        None => (output::line_width(), output::stdout_style()),
    };
    Options { shown, width, all: args.all, leaks: args.leaks, style }
}

/// Prints the output of a form without terminal control sequences, or writes it to the file.
fn write_output(
    args: &ReportArgs,
    cleaning: Cleaning,
    write: impl FnOnce(&mut dyn Write) -> Result<io::Result<()>>,
) -> Result<ExitCode> {
    if args.output.is_none() && matches!(cleaning, Cleaning::Own) {
        return output::stream_to_stdout(write);
    }
    let mut text = Vec::new();
    write(&mut text)??;
    let Some(path) = &args.output else {
        let print = if matches!(cleaning, Cleaning::Lines) { output::print } else { output::print_marked };
        return print(&String::from_utf8(text)?);
    };
    if !matches!(cleaning, Cleaning::Own) {
        text = clean_lines(&String::from_utf8(text)?).into_bytes();
    }
    output::write_file(path, &text).with_context(|| format!("failed to write '{}'", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn build_filter(args: &ReportArgs, job: &Job) -> Result<Filter> {
    let selection = Selection {
        process: args.process.as_deref(),
        rank: args.rank.as_deref(),
        function: args.function.as_deref(),
        failed: args.failed,
        since: args.since.as_deref(),
        until: args.until.as_deref(),
        since_mark: args.since_mark.as_deref(),
        until_mark: args.until_mark.as_deref(),
    };
    let mut filter = Filter::new(&selection, job)?;
    filter.suppressions = suppressions::read_suppressions(&args.suppressions)?;
    filter.error_on = parse_error_on(args)?;
    args.function.iter().for_each(|set| output::explain_runtime_names(set));
    Ok(filter)
}

fn parse_error_on(args: &ReportArgs) -> Result<Option<ErrorChoice>> {
    args.error_on.as_deref().map(suppressions::parse_error_on).transpose()
}

fn compare_recordings(args: &ReportArgs, paths: &[PathBuf], others: &[PathBuf]) -> Result<ExitCode> {
    let Some(comparison) = args.format.properties().comparison else {
        let titles = FORMS.iter().filter_map(|form| Some(form.properties().comparison?.title)).collect::<Vec<_>>();
        bail!("--diff prints {}; {} shows one record", titles.join(" or "), args.format.properties().name)
    };
    let report = |paths: &[PathBuf]| {
        let shown = format_paths(paths);
        let report = || match parts::open_input(paths, 0, args.all)? {
            parts::ReportInput::Record(opened) => {
                let keep = Keep { durations: true, ..Keep::default() };
                cupeer_facts::read(&opened.job, &build_filter(args, &opened.job)?, keep, None)
            }
            parts::ReportInput::Parts(parts) => {
                refuse_call_options(args, &shown)?;
                report_from_parts(args, *parts)
            }
        };
        report().with_context(|| shown.clone())
    };
    let diff = diff::compare(&report(paths)?, &report(others)?);
    write_output(args, args.format.properties().cleaning, |out| {
        Ok((comparison.render)(&diff, &print_options(args, ""), out))
    })
}

/// Returns the path of the newest recording in the default directory.
pub fn newest_recording() -> Result<PathBuf> {
    let home = home::default_directory()?;
    let mut records = kept::entries(&home).into_iter().filter(|entry| entry.kind == EntryKind::Record);
    let has_process = |entry: &Entry| Job::open(&entry.path).is_ok_and(|job| !job.processes.is_empty());
    let none = || format!("there is no recording in {}; name one: cupeer report DIR", home.display());
    let found = records.find(has_process).with_context(none)?;
    if let Some(program) = kept::unrecorded_since(&home, &found) {
        output::print_problem(&format!(
            "the last run, of '{program}', recorded nothing; this is the recording of an earlier run"
        ));
    }
    Ok(found.path)
}
