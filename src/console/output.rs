//! Output of the command: results on stdout, problems on stderr, one line each.
//!
//! Printing never panics. If stderr is closed, there is nobody to tell. All text is cleaned of terminal control
//! sequences, because the text of recordings, packs, and programs is untrusted.

use crate::startup::effective_user;
use crate::status;
use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, Result, ensure};
use cupeer_report::style::{Emphasis, Style};
use cupeer_report::terminal::{clean, clean_lines, clean_marked, write_json};
use cupeer_spec::trust::{self, FileOwnership};
use cupeer_views::summary::SummaryLine;
use serde::Serialize;
use std::fs::{Metadata, Permissions};
use std::io::{self, BufWriter, ErrorKind::BrokenPipe, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Prints to stdout, for people.
pub fn print(text: &str) -> Result<ExitCode> {
    print_as_is(&clean_lines(text))
}

/// Prints to stdout, for people, with the marks of [`stdout_style`].
pub fn print_marked(text: &str) -> Result<ExitCode> {
    print_as_is(&clean_marked(text))
}

/// Chooses when text is colored.
pub fn choose_color(choice: clap::ColorChoice) {
    let choice = match choice {
        clap::ColorChoice::Auto => ColorChoice::Auto,
        clap::ColorChoice::Always => ColorChoice::Always,
        clap::ColorChoice::Never => ColorChoice::Never,
    };
    choice.write_global();
}

/// Returns the style of stdout: the user's choice or, without a choice, colors on a terminal that supports them
/// if NO_COLOR is not set.
pub fn stdout_style() -> Style {
    style_for(AutoStream::choice(&io::stdout()))
}

fn stderr_style() -> Style {
    style_for(AutoStream::choice(&io::stderr()))
}

fn style_for(choice: ColorChoice) -> Style {
    if choice == ColorChoice::Never { Style::Plain } else { Style::Colored }
}

/// Prints text for programs to stdout.
pub fn print_as_is(text: &str) -> Result<ExitCode> {
    let mut stdout = io::stdout().lock();
    stdout_result(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Prints a value as JSON to stdout, piece by piece, because the value may be large.
pub fn print_json(value: &impl Serialize) -> Result<ExitCode> {
    stream_to_stdout(|out| Ok(write_json(out, value)))
}

/// Prints output for programs to stdout, piece by piece.
pub fn stream_to_stdout(write: impl FnOnce(&mut dyn Write) -> Result<io::Result<()>>) -> Result<ExitCode> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let written = write(&mut out)?;
    stdout_result(written.and_then(|()| out.flush()))
}

/// Returns the exit status after writing to stdout. A pipe that its reader closed is no failure; a full disk is.
pub fn stdout_result(written: io::Result<()>) -> Result<ExitCode> {
    match written {
        Err(error) if error.kind() != BrokenPipe => Err(error).context("failed to write to stdout"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Returns the width of a line in columns: COLUMNS, or the width of the terminal, or 80 if it is unknown. For a
/// file or a pipe, the width is [`UNLIMITED_WIDTH`], so that no line is cut or wrapped for a program that searches the
/// output.
pub fn line_width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse::<usize>().ok());
    let width = columns.or_else(|| (!io::stdout().is_terminal()).then_some(UNLIMITED_WIDTH));
    Some(width.unwrap_or_else(query_terminal_width)).filter(|width| *width >= 40).unwrap_or(80)
}

/// Width in columns that is larger than any line.
pub const UNLIMITED_WIDTH: usize = 1 << 20;

fn query_terminal_width() -> usize {
    // SAFETY: all-zero bytes are a valid winsize, and TIOCGWINSZ writes one to where it is pointed.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size);
        size
    };
    // Without a terminal, the size stays zero.
    size.ws_col.into()
}

/// True if only problems are printed (`--quiet`).
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// If `is_quiet`, prints only problems from now on.
pub fn set_quiet(is_quiet: bool) {
    IS_QUIET.store(is_quiet, Relaxed);
}

pub fn is_quiet() -> bool {
    IS_QUIET.load(Relaxed)
}

/// Prints a problem on stderr, in one line and one write.
pub fn print_problem(sentence: &str) {
    write_to_stderr("cupeer:", &clean(&join_lines(sentence)));
}

/// Prints a note on stderr, unless only problems are printed.
pub fn print_note(sentence: &str) {
    if !is_quiet() {
        print_problem(sentence);
    }
}

/// Prints a line of a summary on stderr. If only problems are printed, omits lines without a problem.
pub fn print_summary_line(line: &SummaryLine) {
    if line.is_about_problem || !is_quiet() {
        let line = SummaryLine { text: clean(&join_lines(&line.text)), ..line.clone() };
        write_to_stderr("cupeer:", &line.format_highlighted(stderr_style()));
    }
}

/// Prints a failure of cupeer on stderr.
pub fn print_failure(sentence: &str) {
    write_to_stderr(&stderr_style().emphasize(Emphasis::Error, "cupeer:"), &clean(&join_lines(sentence)));
}

/// Prints several lines on stderr in one write, with the marks that `text` gives them.
pub fn print_block(text: impl FnOnce(Style) -> String) {
    let _ = io::stderr().write_all(format!("cupeer: {}", clean_marked(&text(stderr_style()))).as_bytes());
}

fn join_lines(sentence: &str) -> String {
    sentence.trim_end().replace('\n', "; ")
}

fn write_to_stderr(who: &str, line: &str) {
    // An error means that stderr is closed; the line is lost then.
    let _ = io::stderr().write_all(format!("{who} {line}\n").as_bytes());
}

/// Prints notes that explain the CUDA runtime's names in a set of functions or in a plan, one for each name.
pub fn explain_runtime_names(text: &str) {
    cupeer_spec::runtime::explain_names_in(text).iter().for_each(|line| print_note(line));
}

/// Failure with an exit status, and possibly with an excerpt of the wrong text.
#[derive(Debug)]
pub struct CommandFailure {
    pub sentence: String,
    /// Lines of the text in which the mistake is.
    pub excerpt: Option<String>,
    pub status: u8,
}

impl std::fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}
impl std::error::Error for CommandFailure {}

/// Prints an error on stderr; returns the exit status.
pub fn print_error(error: &anyhow::Error) -> u8 {
    print_failure(&format!("{error:#}"));
    let Some(failure) = error.downcast_ref::<CommandFailure>() else { return status::CUPEER_FAILED };
    if let Some(lines) = &failure.excerpt {
        let _ = io::stderr().write_all(format!("{}\n", clean_lines(lines)).as_bytes());
    }
    failure.status
}

/// If `verbose`, prints cupeer's decisions on stderr from now on.
pub fn set_verbose(verbose: bool) {
    if verbose {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_writer(|| PrefixedStderr)
            .with_ansi(false)
            .with_level(false)
            .with_target(false)
            .without_time()
            .log_internal_errors(false);
        // Only a second call fails; the setting of the first call stays.
        let _ = subscriber.try_init();
    }
}

/// Writer to stderr that adds the name of the command before each line, and ignores a closed stderr.
struct PrefixedStderr;

impl Write for PrefixedStderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        print_problem(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Refuses an output file that another user may have put into a shared directory, as the preload library does for
/// logs. Returns true if the path is a symbolic link.
pub fn check_output_owner(path: &Path) -> Result<bool> {
    let Ok(there) = path.symlink_metadata() else { return Ok(false) };
    let found = |about: &Metadata| FileOwnership { owner: about.uid(), mode: about.mode(), names: about.nlink() };
    let directory = path.parent().filter(|parent| *parent != "").unwrap_or(Path::new(".")).metadata()?;
    let (may_use, what): (fn(_, _, _) -> _, _) = match there.is_symlink() {
        true => (trust::can_follow_link, "a link"),
        false => (trust::can_append, "a file"),
    };
    let owner = there.uid();
    ensure!(
        may_use(found(&there), found(&directory), effective_user()),
        "it is {what} of user {owner}, in a directory where others can write; name another file"
    );
    Ok(there.is_symlink())
}

/// Returns the path of an output file. A link that exists now is resolved; a link that appears later is not
/// followed.
pub fn resolve_output_path(path: &Path) -> Result<PathBuf> {
    let real = check_output_owner(path)?.then(|| path.canonicalize().ok()).flatten();
    Ok(real.unwrap_or_else(|| path.to_owned()))
}

/// Writes a file that the user named. If a new file can be created beside it, the file is replaced atomically.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let real = resolve_output_path(path)?;
    let there = std::fs::symlink_metadata(&real);
    let mode = there.as_ref().map_or(0o666, |there| there.permissions().mode() & 0o777);
    let directory = real.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = || tempfile::Builder::new().permissions(Permissions::from_mode(mode)).tempfile_in(directory);
    let is_replaced = there.map_or(true, |there| there.is_file());
    let Some(mut file) = is_replaced.then(beside).and_then(io::Result::ok) else {
        return Ok(std::fs::write(&real, bytes)?);
    };
    file.write_all(bytes)?;
    file.persist(&real).map(drop).map_err(|error| error.error.into())
}
