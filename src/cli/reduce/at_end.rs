//! `cupeer run --reduce`: at the end of a run, what the processes of this host have recorded becomes one file, in place of theirs.
//!
//! Several runs of a host may end at once, and their processes may live on: one of them reduces, when all processes have ended.
//! Nothing is removed before the file that has it is whole and in its place.

use super::write;
use crate::output;
use crate::parts::MOST_FAILURES;
use anyhow::{Context, Result, bail};
use cupeer_record::{Job, host, quiet};
use cupeer_report::reduced::file;
use cupeer_report::symbols::Symbols;
use cupeer_report::text::names::counted;
use cupeer_spec::record::begun::{self, Folder};
use cupeer_spec::record::job;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The most files of one host: each run in a directory may make one.
const MOST: u32 = 10_000;

/// Reduces what this host has recorded in a directory, and says so, or why not. A failure leaves the record as it is.
pub fn reduce(directory: &Path) -> String {
    match reduced(directory) {
        Ok(sentence) => sentence,
        Err(error) => format!("not reduced, so the record is as it was: {error:#}"),
    }
}

fn reduced(directory: &Path) -> Result<String> {
    let boot = host::boot_id().context("this host has no boot id")?;
    let lock = File::open(directory.join(job::FILE)).context("the file 'job' cannot be read")?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok("another run on this host reduces the record".into()),
        // As on file systems without locks: whoever writes the file first has it.
        Err(TryLockError::Error(error)) => tracing::debug!("the record cannot be locked: {error}"),
    }
    let mut own = Job::open(directory)?;
    own.keep_boot(boot);
    if own.processes.is_empty() && own.quiet.is_empty() {
        return Ok("nothing to reduce: no process of this host has recorded anything".into());
    }
    let alive = own.alive();
    let running = alive.iter().filter(|alive| **alive != Some(false)).count() + quiet::running(&own.quiet);
    let running = running as u64;
    if running > 0 {
        let running = counted(running, "process");
        bail!("{running} may still run; 'cupeer reduce' can do it later");
    }
    let mut symbols = Symbols::of_record(directory, &own.processes);
    let mut reduced = cupeer_report::reduce(&own, MOST_FAILURES, &mut symbols)?;
    reduced.fold();
    let name = |number: u32| directory.join(format!("{}-{number}{}", host::short(boot), file::SUFFIX));
    let free = (1..MOST).map(name).find(|path| path.symlink_metadata().is_err());
    let path = free.context("there are too many reduced files")?;
    let bytes = write(&reduced, &path, false)?;
    if directory.metadata().is_ok_and(|about| about.permissions().mode() & 0o020 != 0) {
        // The group takes part in the record, and reads it.
        let shared = fs::set_permissions(&path, fs::Permissions::from_mode(0o660));
        shared.with_context(|| format!("failed to share {}", path.display()))?;
    }
    let processes = counted((own.processes.len() + own.quiet.len()) as u64, "process");
    let mut left = Vec::new();
    let tables = own.tables.iter().map(|table| &table.path);
    let all = own.processes.iter().map(|process| &process.path).chain(tables);
    for path in all.chain(own.faults.iter().map(|file| &file.path)) {
        if let Err(error) = fs::remove_file(path) {
            left.push(format!("{} cannot be removed: {error}", path.display()));
        }
    }
    // Only where nothing else is in it: another run's processes may begin.
    let folder = directory.join(Folder(boot).to_string());
    let _ = fs::remove_file(folder.join(begun::FILE));
    let _ = fs::remove_dir(&folder);
    left.iter().for_each(|why| output::complain(why));
    Ok(format!("{processes} reduced to {} bytes in {}", bytes, path.display()))
}
