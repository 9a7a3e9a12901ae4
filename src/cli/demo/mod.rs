//! `cupeer demo`: shows cupeer at work on a machine without a GPU and without a compiler.
//!
//! In: nothing. Out: the output of other commands, each below the line that a user would type, and a page in the browser. Begin with
//! `STEPS`.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `share`: the program that the steps run.

pub mod share;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use cupeer_console::args::shell_quoted;
use cupeer_console::output;
use cupeer_console::startup::{effective_user, own_command};
use cupeer_console::variables::nonempty_variable;
use cupeer_launch::settings::check_access;
use cupeer_recordings::home;
use cupeer_report::style::Emphasis;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// A sentence about each step, and its command.
const STEPS: &[(&str, &str)] = &[
    (
        "Two processes share memory on two simulated devices. cupeer logs the calls that set up the sharing:",
        "run --sim=nvlink:2 --log text -- cupeer demo-share",
    ),
    ("The report of that run:", "report"),
    (
        "The same program on two devices that cannot reach each other. cupeer logs failed calls, and exits as the program does:",
        "run --sim=none:2 --log text --failed --record off -- cupeer demo-share",
    ),
    ("The meaning of that result:", "explain PEER_ACCESS_UNSUPPORTED"),
    (
        "On devices that can reach each other, cupeer makes one call fail:",
        "run --sim=nvlink:2 --record off --inject cuIpcOpenMemHandle*:error=MAP_FAILED -- cupeer demo-share",
    ),
    (
        "A sweep makes a different call fail in each run, and judges how the program handles it:",
        "sweep --sim=nvlink:2 --codes one -- cupeer demo-share",
    ),
    (
        "The program with a bug: its output is correct and no call fails, but the exporter frees memory that the importer has open:",
        "run --sim=nvlink:2 -- cupeer demo-share early",
    ),
];
/// The name of the page, without `--output`.
const PAGE: &str = "cupeer-demo.html";

#[derive(Args)]
#[command(after_help = "\
Each step prints the command that it runs, which you can copy. The devices are simulated, so you need no GPU. The recordings are in \
the default directory.

Examples:
  cupeer demo
  cupeer demo --no-open -o /tmp/demo.html    # on a machine without a browser")]
pub struct DemoArgs {
    /// Do not open the page in a browser; print its path
    #[arg(long)]
    pub no_open: bool,
    /// Write the page to FILE [default: cupeer-demo.html in the working directory]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

pub fn command(args: &DemoArgs) -> Result<ExitCode> {
    let page = page_path(args.output.as_deref())?;
    for (about, words) in STEPS {
        let end = step(about, words, "")?.status()?;
        match end.code() {
            Some(0) => {}
            Some(status @ 1..125) => drop(output::print(&format!("(exit status {status})\n"))?),
            _ => bail!("the demo stops, because its last command failed: {end}"),
        }
    }
    write_page(&page)?;
    let page = page.canonicalize()?;
    let is_opened = !args.no_open && open(&page);
    output::print(&format!(
        "\n{} {}\nThe recordings are in {}; 'cupeer ls' lists them. Now record your own program: cupeer run -- PROGRAM\n",
        if is_opened { "Opening in the browser:" } else { "Open this page in a browser:" },
        page.display(),
        home::default_directory()?.display()
    ))
}

/// Prints the command of a step as a user types it, and returns it.
fn step(about: &str, words: &str, redirected: &str) -> Result<Command> {
    let typed = std::env::args().next().unwrap_or_default();
    let mut command = own_command()?;
    let own = command.get_program().to_owned();
    let mut line = shell_quoted(&typed);
    for word in words.split(' ') {
        let is_own = word == "cupeer";
        command.arg(if is_own { &own } else { OsStr::new(word) });
        line += &format!(" {}", shell_quoted(if is_own { &typed } else { word }));
    }
    let line = output::stdout_style().emphasize(Emphasis::Heading, &format!("$ {line}{redirected}"));
    output::print_marked(&format!("\n{about}\n{line}\n"))?;
    Ok(command)
}

/// Returns the path of the page. By default, it is in the working directory or, if that is not writable, in the directory for
/// temporary files.
fn page_path(output: Option<&Path>) -> Result<PathBuf> {
    let Some(path) = output else {
        let is_writable = check_access(Path::new("."), libc::W_OK).is_ok();
        let temporary = || std::env::temp_dir().join(format!("{}-{PAGE}", effective_user()));
        return Ok(if is_writable { PAGE.into() } else { temporary() });
    };
    let directory = path.parent().filter(|parent| *parent != "").unwrap_or(Path::new("."));
    check_access(directory, libc::W_OK).with_context(|| format!("failed to write to {}", directory.display()))?;
    Ok(path.to_owned())
}

/// Writes the page of the newest recording.
fn write_page(path: &Path) -> Result<()> {
    let redirected = format!(" >{}", shell_quoted(&path.to_string_lossy()));
    let mut report = step("The page of that run:", "report --format html", &redirected)?;
    let written = report.stderr(Stdio::inherit()).output()?;
    ensure!(written.status.success(), "the demo stops, because its last command failed: {}", written.status);
    output::write_file(path, &written.stdout).with_context(|| format!("failed to write {}", path.display()))
}

/// Starts a browser if there is a display and an opener. Returns true if the opener was started.
fn open(page: &Path) -> bool {
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(|name| nonempty_variable(name).is_some());
    let mut opener = Command::new("xdg-open");
    opener.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C must not end the browser.
    has_display && opener.process_group(0).spawn().is_ok()
}
