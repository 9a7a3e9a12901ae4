//! Removes the files that cupeer wrote into a recording or a sweep, recognized by name and content. Files of others stay, with
//! the directories that contain them. Symbolic links are neither followed nor removed.

use crate::job::VLLM_CACHE;
use crate::sweeps;
use cupeer_facts::part;
use cupeer_record::plain::{self, SymbolicLinks};
use cupeer_record::sample;
use cupeer_spec::record::{SUFFIX, armed, begun, faults, job, live};
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// First bytes of all binary files that cupeer writes.
const MAGIC: &[u8] = b"cupeer";
/// First bytes of a file that `cupeer run --on-hang` keeps: the schema of `cupeer why`.
pub const HANG_BEGIN: &str = "{\n  \"schema\": \"cupeer-why/";

/// Removes the directory of a recording. Returns true if nothing is left of it.
pub fn remove_record(directory: &Path) -> io::Result<bool> {
    // The file `job` is removed last: if the removal is interrupted, the rest is still known as a recording of cupeer.
    let is_whole = remove_each(directory, &|path, name| match name {
        job::FILE => Ok(true),
        VLLM_CACHE if is_directory(path) => fs::remove_dir_all(path).or_else(ignore_not_found).map(|()| true),
        _ if is_host_folder(name) && is_directory(path) => remove_host_folder(path),
        _ => remove_file(path, name),
    })?;
    if begins_with_text(&directory.join(job::FILE), job::FIRST_LINE) {
        fs::remove_file(directory.join(job::FILE)).or_else(ignore_not_found)?;
    }
    Ok(is_whole && remove_empty(directory)?)
}

/// Removes the directory of a sweep. Returns true if nothing is left of it.
pub fn remove_sweep(directory: &Path) -> io::Result<bool> {
    let is_whole = remove_each(directory, &|path, name| match name {
        sweeps::FILE => Ok(true),
        _ if is_sweep_run(name) && is_directory(path) => remove_sweep_run(path),
        _ => Ok(false),
    })?;
    // The caller checked that the directory is a sweep.
    fs::remove_file(directory.join(sweeps::FILE)).or_else(ignore_not_found)?;
    Ok(is_whole && remove_empty(directory)?)
}

/// Removes the directory of one run of a sweep. Returns true if nothing is left of it.
fn remove_sweep_run(directory: &Path) -> io::Result<bool> {
    let is_whole = remove_each(directory, &|path, name| match name {
        sweeps::STDOUT | sweeps::STDERR if is_file(path) => {
            fs::remove_file(path).or_else(ignore_not_found).map(|()| true)
        }
        sweeps::RECORD if is_directory(path) => remove_record(path),
        _ => Ok(false),
    })?;
    Ok(is_whole && remove_empty(directory)?)
}

/// Removes the folder of a host in a recording. Returns true if nothing is left of it.
fn remove_host_folder(directory: &Path) -> io::Result<bool> {
    let is_whole = remove_each(directory, &|path, name| match begun::is_begun_file(name) && is_begun_file(path) {
        true => fs::remove_file(path).or_else(ignore_not_found).map(|()| true),
        false => remove_file(path, name),
    })?;
    Ok(is_whole && remove_empty(directory)?)
}

/// Calls `remove` with the path and the name of each entry of a directory. Returns true if each call returned true, which means
/// that the entry is removed, or will be.
fn remove_each(directory: &Path, remove: &dyn Fn(&Path, &str) -> io::Result<bool>) -> io::Result<bool> {
    let entries = match fs::read_dir(directory) {
        Err(error) => return ignore_not_found(error).map(|()| true),
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

/// Removes a file in a recording if cupeer wrote it. Returns true if the file is removed.
fn remove_file(path: &Path, name: &str) -> io::Result<bool> {
    let is_ours = is_file(path)
        && match name {
            _ if name.ends_with(part::file::SUFFIX) => part::file::begins_as_reduced(path),
            _ if name.strip_suffix(SUFFIX).is_some_and(is_process_file) => begins_like_cupeer_file(path),
            _ if name.strip_prefix(live::PREFIX).is_some_and(is_short_boot_id) => begins_like_cupeer_file(path),
            _ if is_hang_file(name) => begins_with_text(path, HANG_BEGIN),
            _ if name.starts_with(job::MEMORY_SAMPLES) => begins_with_text(path, sample::FIRST_LINE),
            _ if [faults::PREFIX, armed::PREFIX].iter().any(|begin| name.starts_with(begin)) => {
                begins_like_cupeer_file(path)
            }
            _ if name.starts_with(faults::RELEASE) => path.metadata().is_ok_and(|about| about.len() == 0),
            _ => is_temporary(name) && begins_like_cupeer_file(path),
        };
    if is_ours {
        fs::remove_file(path).or_else(ignore_not_found)?;
    }
    Ok(is_ours)
}

/// Returns true if a name without its suffix is that of a process's file: BOOT-NAMESPACE-PID-START, and after an exec also
/// the number of the program image.
fn is_process_file(name: &str) -> bool {
    let mut parts = name.split('-');
    let is_of_boot = parts.next().is_some_and(is_short_boot_id);
    let numbers: Vec<&str> = parts.collect();
    is_of_boot && (3..=4).contains(&numbers.len()) && numbers.iter().all(|number| is_number(number))
}

fn is_short_boot_id(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true if a name is that of a hang file: hang-BOOT-LAUNCHER-NUMBER.json.
fn is_hang_file(name: &str) -> bool {
    let word = name.strip_prefix(job::HANG).and_then(|name| name.strip_suffix(job::HANG_SUFFIX));
    let parts: Vec<&str> = word.unwrap_or_default().split('-').collect();
    matches!(parts[..], [boot, launcher, number] if is_short_boot_id(boot) && is_number(launcher) && is_number(number))
}

fn is_host_folder(name: &str) -> bool {
    name.strip_prefix(begun::FOLDER).is_some_and(is_short_boot_id)
}

/// Returns true if a name is that of the directory of one run of a sweep, such as `trial-1`.
fn is_sweep_run(name: &str) -> bool {
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

/// Returns true if a file has the first bytes of cupeer's binary files, or if these bytes are missing or zero: an unfinished
/// file.
fn begins_like_cupeer_file(path: &Path) -> bool {
    let begin = read_beginning(path, MAGIC.len());
    begin.is_some_and(|begin| begin == MAGIC || begin.iter().all(|byte| *byte == 0))
}

fn begins_with_text(path: &Path, first_line: &str) -> bool {
    read_beginning(path, first_line.len()).is_some_and(|begin| begin == first_line.as_bytes())
}

/// Returns true if a file is empty, or its first line is a line of the file `begun`.
fn is_begun_file(path: &Path) -> bool {
    let begin = read_beginning(path, 4096).unwrap_or_default();
    let text = String::from_utf8_lossy(&begin);
    is_file(path) && text.lines().next().is_none_or(|line| begun::BegunLine::parse(line).is_some())
}

fn read_beginning(path: &Path, length: usize) -> Option<Vec<u8>> {
    let mut begin = Vec::new();
    plain::open(path, SymbolicLinks::Refused).ok()?.take(length as u64).read_to_end(&mut begin).ok()?;
    Some(begin)
}

/// Removes a directory if it is empty. Returns true if the directory is removed.
fn remove_empty(directory: &Path) -> io::Result<bool> {
    match fs::remove_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        done => done.or_else(ignore_not_found).map(|()| true),
    }
}

/// Treats a missing file as success: another run may have removed the file.
fn ignore_not_found(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
