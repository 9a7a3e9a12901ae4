//! `cupeer clean`: removes the records at home.

use crate::args::CleanArgs;
use crate::home::{self, Entry};
use crate::output;
use crate::status;
use anyhow::Result;
use cupeer_report::moments::bytes;
use std::process::ExitCode;

pub fn command(args: &CleanArgs) -> Result<ExitCode> {
    let home = home::path()?;
    let all = home::entries(&home).into_iter().filter(|entry| entry.number.is_some());
    let (mut removed, mut freed, mut failed) = (0, 0, false);
    let mut text = String::new();
    for entry in all.skip(args.keep) {
        if let Some(why) = keeps(&entry, args.all) {
            text += &format!("kept {}, {why}\n", entry.name);
            continue;
        }
        match home::remove(&entry) {
            Ok(()) => {
                text += &format!("removed {}, {}\n", entry.name, bytes(entry.bytes));
                removed += 1;
                freed += entry.bytes;
            }
            Err(error) => {
                failed = true;
                output::complain(&format!("failed to remove '{}': {error}", entry.path.display()));
            }
        }
    }
    text += &match removed {
        0 => format!("removed nothing in {}\n", home.display()),
        1 => String::new(),
        all => format!("removed {all} records, {}\n", bytes(freed)),
    };
    let printed = output::print(&text)?;
    Ok(if failed { ExitCode::from(status::OURS) } else { printed })
}

/// Why an entry is kept.
fn keeps(entry: &Entry, all: bool) -> Option<&'static str> {
    match entry.is_running() {
        Some(true) => Some("which is in progress"),
        None if !all => Some("which may be in progress on another host or in a container; --all removes it"),
        _ => None,
    }
}
