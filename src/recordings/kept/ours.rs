//! Removes what cupeer wrote into a record or a sweep, by name and content. What somebody else put there stays, and so do the
//! directories that hold it. No link is followed, and none goes.

use crate::job::VLLM_CACHE;
use crate::sweeps;
use cupeer_facts::part;
use cupeer_record::plain::{self, Links};
use cupeer_record::sample;
use cupeer_spec::record::{SUFFIX, armed, begun, faults, job, live};
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// First bytes of all binary files of cupeer.
const BEGIN: &[u8] = b"cupeer";
/// First bytes of a file that `cupeer run --on-hang` keeps: the schema of `cupeer why`.
pub const HANG: &str = "{\n  \"schema\": \"cupeer-why/";

/// Removes a record. Returns whether nothing is left.
pub fn remove_record(directory: &Path) -> io::Result<bool> {
    // The file that says that it is cupeer's goes last, so that the rest of a removal that was interrupted is known.
    let is_whole = remove_in(directory, &|path, name| match name {
        job::FILE => Ok(true),
        VLLM_CACHE if is_directory(path) => fs::remove_dir_all(path).or_else(missing).map(|()| true),
        _ if is_folder(name) && is_directory(path) => remove_folder(path),
        _ => remove_file(path, name),
    })?;
    if is_text(&directory.join(job::FILE), job::FIRST_LINE) {
        fs::remove_file(directory.join(job::FILE)).or_else(missing)?;
    }
    Ok(is_whole && remove_empty(directory)?)
}

/// Removes a sweep. Returns whether nothing is left.
pub fn remove_sweep(directory: &Path) -> io::Result<bool> {
    let is_whole = remove_in(directory, &|path, name| match name {
        sweeps::FILE => Ok(true),
        _ if is_run(name) && is_directory(path) => remove_run(path),
        _ => Ok(false),
    })?;
    // The caller has looked whether it is one.
    fs::remove_file(directory.join(sweeps::FILE)).or_else(missing)?;
    Ok(is_whole && remove_empty(directory)?)
}

/// The same of the directory of one run of a sweep.
fn remove_run(directory: &Path) -> io::Result<bool> {
    let is_whole = remove_in(directory, &|path, name| match name {
        sweeps::STDOUT | sweeps::STDERR if is_file(path) => {
            fs::remove_file(path).or_else(missing).map(|()| true)
        }
        sweeps::RECORD if is_directory(path) => remove_record(path),
        _ => Ok(false),
    })?;
    Ok(is_whole && remove_empty(directory)?)
}

/// The same of the folder of a host in a record.
fn remove_folder(directory: &Path) -> io::Result<bool> {
    let is_whole = remove_in(directory, &|path, name| match begun::is_named(name) && is_begun(path) {
        true => fs::remove_file(path).or_else(missing).map(|()| true),
        false => remove_file(path, name),
    })?;
    Ok(is_whole && remove_empty(directory)?)
}

/// Removes with `remove` what is in a directory. Returns whether it says of all that it is gone, or goes later.
fn remove_in(directory: &Path, remove: &dyn Fn(&Path, &str) -> io::Result<bool>) -> io::Result<bool> {
    let entries = match fs::read_dir(directory) {
        Err(error) => return missing(error).map(|()| true),
        Ok(entries) => entries,
    };
    let mut is_whole = true;
    for entry in entries.flatten() {
        let name = entry.file_name();
        is_whole &= name.to_str().is_some_and(|name| !name.is_empty())
            && remove(&entry.path(), name.to_str().unwrap_or_default())?;
    }
    Ok(is_whole)
}

/// Removes a file of a record that is cupeer's. Returns whether it is gone.
fn remove_file(path: &Path, name: &str) -> io::Result<bool> {
    let is_ours = is_file(path)
        && match name {
            _ if name.ends_with(part::file::SUFFIX) => part::file::is_written(path),
            _ if name.strip_suffix(SUFFIX).is_some_and(is_process) => begins_as_ours(path),
            _ if name.strip_prefix(live::PREFIX).is_some_and(is_boot) => begins_as_ours(path),
            _ if is_hang(name) => is_text(path, HANG),
            _ if name.starts_with(job::SAMPLES) => is_text(path, sample::FIRST_LINE),
            _ if [faults::PREFIX, armed::PREFIX].iter().any(|begin| name.starts_with(begin)) => {
                begins_as_ours(path)
            }
            _ if name.starts_with(faults::RELEASE) => path.metadata().is_ok_and(|about| about.len() == 0),
            _ => is_temporary(name) && begins_as_ours(path),
        };
    if is_ours {
        fs::remove_file(path).or_else(missing)?;
    }
    Ok(is_ours)
}

/// Returns true if a name without its suffix is that of a process's file: BOOT-NAMESPACE-PID-START, and the number of its
/// image if that is not the first.
fn is_process(name: &str) -> bool {
    let mut parts = name.split('-');
    let is_of_boot = parts.next().is_some_and(is_boot);
    let numbers: Vec<&str> = parts.collect();
    is_of_boot && (3..=4).contains(&numbers.len()) && numbers.iter().all(|number| is_number(number))
}

fn is_boot(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true if a name is that of a hang file: hang-BOOT-LAUNCHER-NUMBER.json.
fn is_hang(name: &str) -> bool {
    let word = name.strip_prefix(job::HANG).and_then(|name| name.strip_suffix(job::HANG_SUFFIX));
    let parts: Vec<&str> = word.unwrap_or_default().split('-').collect();
    matches!(parts[..], [boot, launcher, number] if is_boot(boot) && is_number(launcher) && is_number(number))
}

fn is_folder(name: &str) -> bool {
    name.strip_prefix(begun::FOLDER).is_some_and(is_boot)
}

/// Returns true if a name is that of a run of a sweep.
fn is_run(name: &str) -> bool {
    let number = |word: &str| name.strip_prefix(word)?.strip_prefix('-');
    let trial = number("trial").map(|rest| rest.strip_suffix("-again").unwrap_or(rest));
    number("baseline").or(trial).is_some_and(is_number)
}

/// Returns true if a name is that of an unfinished file: `.WORD-THREAD-TIME`.
fn is_temporary(name: &str) -> bool {
    let parts: Vec<&str> = name.strip_prefix('.').unwrap_or_default().split('-').collect();
    matches!(parts[..], [word, thread, time] if !word.is_empty() && is_number(thread)
        && time.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|about| about.is_dir())
}

fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|about| about.is_file())
}

/// Returns true if a file begins as those of cupeer do. An unfinished one may be empty, or all zeros.
fn begins_as_ours(path: &Path) -> bool {
    let begin = beginning(path, BEGIN.len());
    begin.is_some_and(|begin| begin == BEGIN || begin.iter().all(|byte| *byte == 0))
}

fn is_text(path: &Path, first_line: &str) -> bool {
    beginning(path, first_line.len()).is_some_and(|begin| begin == first_line.as_bytes())
}

/// Returns true if a file is empty, or its first line is one of `begun`.
fn is_begun(path: &Path) -> bool {
    let begin = beginning(path, 4096).unwrap_or_default();
    let text = String::from_utf8_lossy(&begin);
    is_file(path) && text.lines().next().is_none_or(|line| begun::Begun::parse(line).is_some())
}

fn beginning(path: &Path, length: usize) -> Option<Vec<u8>> {
    let mut begin = Vec::new();
    plain::open(path, Links::Refused).ok()?.take(length as u64).read_to_end(&mut begin).ok()?;
    Some(begin)
}

/// Removes a directory. Returns whether it is gone.
fn remove_empty(directory: &Path) -> io::Result<bool> {
    match fs::remove_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        done => done.or_else(missing).map(|()| true),
    }
}

/// Another run may remove the same.
fn missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
