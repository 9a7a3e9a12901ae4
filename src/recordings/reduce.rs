//! `cupeer run --reduce`: at the end of a run, one reduced file replaces the files that the processes of this host recorded.
//!
//! Several runs of a host may end at the same time, and their processes may still be running: one run reduces, once all processes
//! have ended. A recorded file is removed only after the reduced file with its data is complete and in its place.

use crate::made;
use anyhow::{Context, Result, bail};
use cupeer_console::output;
use cupeer_facts::part::{JobPart, file};
use cupeer_record::plain::{self, SymbolicLinks};
use cupeer_record::quiet::{self, QuietProcess};
use cupeer_record::{Job, host};
use cupeer_report::names::counted;
use cupeer_report::symbols::Symbols;
use cupeer_spec::record::begun::{self, HostFolder};
use cupeer_spec::record::job;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of failed calls that a reduced file lists one by one, by default: the first ones.
pub const MOST_FAILURES: usize = 1000;
/// Largest number in the names of reduced files of one host, and of files that are set aside: each run may add one.
const MOST_FILES: u32 = 10_000;

/// Number of attempts to find a moment at which no process begins or ends.
const TRIES: u32 = 20;

/// Reduces the recordings of this host in a directory. Returns a sentence about the result for the user; if it failed, the
/// sentence says why, and the recordings are unchanged.
pub fn reduce(directory: &Path) -> String {
    match try_reduce(directory) {
        Ok(sentence) => sentence,
        Err(error) => format!("not reduced, so the recording is as it was: {error:#}"),
    }
}

/// Writes a reduced file, either completely or not at all. Returns its size in bytes.
pub fn write_reduced(reduced: &JobPart, output: &Path, replace: bool) -> Result<u64> {
    let temporary = made::create_temporary(output, ".cupeer-reduce-")?;
    reduced.write(temporary.as_file()).with_context(|| format!("failed to write {}", output.display()))?;
    made::rename_temporary(temporary, output, replace)
}

fn try_reduce(directory: &Path) -> Result<String> {
    let boot = host::boot_id().context("this host has no boot id")?;
    let lock = plain::open_with(&directory.join(job::FILE), SymbolicLinks::Refused, OpenOptions::new().write(true));
    let lock = lock.context("the file 'job' cannot be opened")?;
    if !lock_for_host(&lock, boot) {
        return Ok("another run on this host reduces the recording".into());
    }
    let folder = directory.join(HostFolder(boot).to_string());
    let found = (0..TRIES).find_map(|_| ended_recordings(directory, boot, &folder).transpose());
    let (own, begun) = found.context("processes begin and end all the time; 'cupeer reduce' can do it later")??;
    if own.processes.is_empty() && own.quiet.is_empty() {
        return Ok("nothing to reduce: no process of this host has recorded anything".into());
    }
    let mut symbols = Symbols::of_record(directory, &own.processes);
    let mut reduced = cupeer_facts::reduce(&own, MOST_FAILURES, &mut symbols)?;
    reduced.fold();
    let name = |number: u32| directory.join(format!("{}-{number}{}", host::short_boot_id(boot), file::SUFFIX));
    let free = (1..MOST_FILES).map(name).find(|path| path.symlink_metadata().is_err());
    let path = free.context("there are too many reduced files")?;
    let bytes = write_reduced(&reduced, &path, false)?;
    if directory.metadata().is_ok_and(|about| about.permissions().mode() & 0o020 != 0) {
        // Users of the directory's group record here together, so they may read and write the reduced file.
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
    begun.iter().for_each(|(path, read)| left.extend(remove_aside(path, read)));
    // This removes only an empty folder: processes of another run may have written into it again.
    let _ = fs::remove_dir(&folder);
    left.iter().for_each(|why| output::print_problem(why));
    Ok(format!("{processes} reduced to {} bytes in {}", bytes, path.display()))
}

/// Path and content of a list of begun processes that was renamed, so that processes that begin later write
/// into a new file. It is removed after the reduction.
type SetAsideFile = (PathBuf, Vec<u8>);

/// Returns the recordings of this host, with the files that list begun processes. `None` if a process began or ended
/// while they were read: try again. Fails if a process may still be running.
fn ended_recordings(directory: &Path, boot: [u8; 16], folder: &Path) -> Result<Option<(Job, Vec<SetAsideFile>)>> {
    let begun = set_begun_aside(folder)?;
    let quiet: Vec<QuietProcess> = begun.iter().flat_map(|(_, bytes)| QuietProcess::parse_all(bytes)).collect();
    // This is read before the list of recorded files: a process that has ended by now creates no file after it.
    let had_ended = quiet::count_running(&quiet) == 0;
    let mut own = Job::open(directory)?;
    own.keep_host(boot);
    own.set_quiet(quiet);
    let running =
        own.are_alive().iter().filter(|alive| **alive != Some(false)).count() + quiet::count_running(&own.quiet);
    if running > 0 {
        let running = counted(running as u64, "process");
        bail!("{running} may still run; 'cupeer reduce' can do it later");
    }
    // If a process has begun since, `own` may have only a part of its file.
    let is_over = had_ended && !folder.join(begun::FILE).exists();
    Ok(is_over.then_some((own, begun)))
}

/// Locks the file for this host, so that other runs of the host wait or give up. Each host has its own byte of the file;
/// closing the file unlocks it. Returns true if this run may reduce. If the file system has no locks, the first run that
/// writes the reduced file wins.
fn lock_for_host(file: &File, boot: [u8; 16]) -> bool {
    /// Number of attempts to get the lock, one per tenth of a second: another run reduces millions of calls in this time.
    const ATTEMPTS: u32 = 300;
    let [a, b, c, d, ..] = boot;
    let place = i64::from(u32::from_be_bytes([a, b, c, d]));
    for _ in 0..ATTEMPTS {
        // SAFETY: all zeros are such a lock.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        (lock.l_type, lock.l_whence) = (libc::F_WRLCK as i16, libc::SEEK_SET as i16);
        (lock.l_start, lock.l_len) = (place, 1);
        // SAFETY: the file is open, and the lock is read only.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
            return true;
        }
        let error = io::Error::last_os_error();
        if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) {
            tracing::debug!("the recording cannot be locked: {error}");
            return true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    false
}

/// Sets aside the file that lists begun processes: processes that begin later write into a new file. Returns all files that
/// were set aside, including those of unfinished attempts, with their contents.
fn set_begun_aside(folder: &Path) -> Result<Vec<SetAsideFile>> {
    let name = |number: u32| folder.join(format!("{}-{number}", begun::FILE));
    let free = (1..MOST_FILES).map(name).find(|path| path.symlink_metadata().is_err());
    let free = free.context("too much was set aside")?;
    match fs::rename(folder.join(begun::FILE), &free) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("failed to make {}", free.display()));
        }
        _ => {}
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let aside =
        entries.filter(|path| quiet::is_begun_file(path) && path.file_name().is_some_and(|name| name != begun::FILE));
    let read = |path: PathBuf| {
        let bytes = plain::read(&path, SymbolicLinks::Refused, quiet::MOST_BYTES);
        let bytes = bytes.with_context(|| format!("failed to read {}", path.display()))?;
        Ok((path, bytes))
    };
    aside.map(read).collect()
}

/// Removes a file that was set aside and is in the reduced file. A process that opened it before may have appended lines
/// since: these go into the new file. A process that writes after the removal sees that the file has no name any more, and
/// writes again. A line that is there twice counts once, because its process is still running and nothing is reduced until it
/// ends.
fn remove_aside(path: &Path, read: &[u8]) -> Option<String> {
    let drop = || {
        let file = plain::open(path, SymbolicLinks::Refused)?;
        fs::remove_file(path)?;
        let all = plain::read_rest(&file, quiet::MOST_BYTES)?;
        if let Some(more @ [_, ..]) = all.get(read.len()..) {
            let (new, mode) = (path.with_file_name(begun::FILE), file.metadata()?.permissions().mode());
            // Other processes may append to the new file as soon as it exists.
            let made = match OpenOptions::new().append(true).create_new(true).mode(mode & 0o777).open(&new) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    plain::open_with(&new, SymbolicLinks::Refused, OpenOptions::new().append(true))
                }
                made => made,
            };
            made?.write_all(more)?;
        }
        io::Result::Ok(())
    };
    drop().err().map(|error| format!("{} cannot be removed: {error}", path.display()))
}
