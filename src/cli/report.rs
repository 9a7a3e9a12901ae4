//! `cupeer report`: what a record says.
//!
//! What belongs here: the command, from its options to one of the forms. What a record says is the crate
//! `cupeer_report`'s.

use crate::args::{ReportArgs, ReportFormat, word};
use crate::home::{self, Kind};
use crate::opened::Opened;
use crate::output::{self, terminal_width};
use crate::{annotations, suppressions};
use anyhow::{Context, Result, bail};
use cupeer_record::Job;
use cupeer_report::filter::{Asked, Filter};
use cupeer_report::suppress::suggest;
use cupeer_report::{diff, html, junit, sarif, text, trace};
use std::io::{self, BufWriter, ErrorKind::BrokenPipe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How many single failures are kept where not all are asked for.
const MOST_FAILURES: usize = 1000;

pub fn command(args: &ReportArgs) -> Result<ExitCode> {
    let dir = match &args.dir {
        Some(dir) => home::find(dir)?,
        None => newest()?,
    };
    if let Some(other) = &args.diff {
        return compare(args, &dir, &home::find(other)?);
    }
    if args.format == ReportFormat::Trace && !args.suppressions.is_empty() {
        bail!("--suppressions is for the other forms; a trace shows all findings");
    }
    let (Opened { job, symbols, .. }, filter) = &mut open(args, &dir)?;
    if args.format == ReportFormat::Trace {
        let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        return match trace::write(job, filter, symbols, out, warn_of_size) {
            // A reader that went away is no failure.
            Err(error)
                if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == BrokenPipe) =>
            {
                Ok(ExitCode::SUCCESS)
            }
            written => written.map(|()| ExitCode::SUCCESS),
        };
    }
    let most_failures = if args.all { usize::MAX } else { MOST_FAILURES };
    let report = cupeer_report::read(job, filter, most_failures, Some(symbols))?;
    if args.suggest_suppressions {
        return output::print_as_is(&suggest::file(&report));
    }
    match args.format {
        ReportFormat::Json => return output::print_json(&report),
        ReportFormat::Sarif => return output::print_json(&sarif::log(&report)),
        ReportFormat::Junit => return output::print(&junit::document(&report)),
        ReportFormat::Html => {
            return output::print_as_is(&html::document(job, filter, &report, &home::shown(&dir))?);
        }
        ReportFormat::Text | ReportFormat::Trace => {}
    }
    let options = text::Options {
        shown: &home::shown(&dir),
        width: terminal_width(),
        all: args.all,
        leaks: args.leaks,
        style: output::stdout_style(),
    };
    let printed = output::print_marked(&text::show(&report, &options))?;
    if !args.leaks {
        output::printed(annotations::write(&report, io::stdout().lock()))?;
    }
    Ok(printed)
}

fn open(args: &ReportArgs, dir: &Path) -> Result<(Opened, Filter)> {
    let opened = Opened::open(dir)?;
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
    let mut filter = Filter::new(&asked, &opened.job)?;
    filter.suppressions = suppressions::read(&args.suppressions)?;
    args.function.iter().for_each(|set| output::explain_runtime(set));
    Ok((opened, filter))
}

fn compare(args: &ReportArgs, dir: &Path, other: &Path) -> Result<ExitCode> {
    match args.format {
        ReportFormat::Text | ReportFormat::Json => {}
        ReportFormat::Trace => bail!("--diff prints text or JSON; a trace shows one record"),
        format => bail!("--diff prints text or JSON; {} shows one record", word(format)),
    }
    let report = |dir: &Path| {
        let (Opened { job, .. }, filter) = &open(args, dir).with_context(|| dir.display().to_string())?;
        cupeer_report::read(job, filter, 0, None)
    };
    let diff = diff::compare(&report(dir)?, &report(other)?);
    match args.format {
        ReportFormat::Json => output::print_json(&diff),
        _ => output::print_marked(&diff.show(terminal_width(), output::stdout_style())),
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
    let records = home::entries(&home).into_iter().filter(|entry| entry.kind == Kind::Record);
    let mut records = records.map(|entry| entry.path);
    let has_process = |path: &PathBuf| Job::open(path).is_ok_and(|job| !job.processes.is_empty());
    let none = || format!("there is no record in {}; name one: cupeer report DIR", home.display());
    records.find(has_process).with_context(none)
}
