//! `cupeer clean`: deletes the recordings in the default directory.

use anyhow::Result;
use clap::Args;
use cupeer_console::{output, status};
use cupeer_recordings::home;
use cupeer_recordings::kept::{self, Entry};
use cupeer_report::moments::bytes;
use std::io::{IsTerminal, stdin};
use std::process::ExitCode;

#[derive(Args)]
#[command(after_help = "\
Deletes every recording that 'cupeer ls' lists, except those in progress and those that you renamed so that their names do \
not end in a number. On a terminal, cupeer asks first.

Examples:
  cupeer clean             # all recordings
  cupeer clean --keep 5    # all but the newest five
  cupeer clean --yes       # without asking")]
pub struct CleanArgs {
    /// Keep the newest N recordings
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub keep: usize,
    /// Also delete recordings of other hosts and containers, whose processes may still be running there
    #[arg(long)]
    pub all: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

pub fn command(args: &CleanArgs) -> Result<ExitCode> {
    let home = home::default_directory()?;
    let all = kept::entries(&home).into_iter().filter(|entry| entry.number.is_some());
    let (kept, goes): (Vec<Entry>, Vec<Entry>) =
        all.skip(args.keep).partition(|entry| reason_to_keep(entry, args.all).is_some());
    let mut text = String::new();
    for entry in kept {
        text += &format!("kept {}, {}\n", entry.name, reason_to_keep(&entry, args.all).unwrap_or_default());
    }
    if !goes.is_empty() && !args.yes && stdin().is_terminal() && !confirm_deletion(&goes)? {
        return output::print(&(text + "deleted nothing\n"));
    }
    let (mut removed, mut freed, mut failed) = (0, 0, false);
    for entry in goes {
        match kept::remove_entry(&entry) {
            Ok(is_whole) => {
                let (size, place) = (bytes(entry.bytes), entry.path.display());
                let rest = if is_whole { String::new() } else { format!("; files of others stay in {place}") };
                text += &format!("deleted {}, {size}{rest}\n", entry.name);
                removed += 1;
                freed += entry.bytes;
            }
            Err(error) => {
                failed = true;
                output::print_problem(&format!("failed to delete '{}': {error}", entry.path.display()));
            }
        }
    }
    text += &match removed {
        0 => format!("deleted nothing in {}\n", home.display()),
        1 => String::new(),
        all => format!("deleted {all} recordings, {}\n", bytes(freed)),
    };
    let printed = output::print(&text)?;
    Ok(if failed { ExitCode::from(status::CUPEER_FAILED) } else { printed })
}

/// Asks on the terminal whether to delete these entries. Returns true if the answer is yes.
fn confirm_deletion(goes: &[Entry]) -> Result<bool> {
    let size = bytes(goes.iter().map(|entry| entry.bytes).sum());
    let what = match goes {
        [one] => format!("recording {}", one.name),
        all => format!("{} recordings, {} to {}", all.len(), all[all.len() - 1].name, all[0].name),
    };
    eprint!("Delete {what} ({size})? [y/N] ");
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Returns the reason why an entry is kept; `None` if it is deleted.
fn reason_to_keep(entry: &Entry, all: bool) -> Option<&'static str> {
    match entry.is_running() {
        Some(true) => Some("which is in progress"),
        None if !all => Some("which may be in progress on another host or in a container; --all deletes it"),
        _ => None,
    }
}
