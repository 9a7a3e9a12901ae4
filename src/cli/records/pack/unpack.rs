//! A packed record as a directory again, for as long as somebody reads it.
//!
//! The archive may come from anybody. Nothing is written but plain files with the names that a record has, each once,
//! in a new directory that only we use, and no more than a file of that size can hold.

use super::about::PackDescription;
use super::files;
use super::{FOLDER, SUFFIX};
use anyhow::{Context, Result, anyhow, bail, ensure};
use cupeer_record::plain::{self, SymbolicLinks};
use cupeer_record::{Job, Problem};
use cupeer_report::symbols::PackedSymbols;
use flate2::read::GzDecoder;
use serde_json::Value;
use std::fs;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tar::{Archive, Entry, EntryType};
use tempfile::TempDir;

/// Maximum ratio of unpacked to packed size; zeros do not count, because they take no space. Recordings have less than a tenth of
/// it.
const MOST_RATIO: u64 = 200;
/// Unpacked size in bytes that is always allowed, even if the archive is small.
const ALWAYS_ALLOWED_SIZE: u64 = 64 << 20;
const MOST_FILES: FileLimits = FileLimits { written: 1 << 12, all: 1 << 17 };
/// Unit of writing in bytes: pages of zeros are not written.
const PAGE: usize = 4096;

/// Limits for the number of files in an archive.
#[derive(Clone, Copy)]
struct FileLimits {
    /// Number of files that are written before the rest of the archive is counted. An archive has no index: counting decompresses
    /// all of it, but creating and removing files takes far longer.
    written: usize,
    all: usize,
}

/// A packed recording that was unpacked to a directory. The directory is deleted when the value is dropped.
pub struct UnpackedRecording {
    directory: TempDir,
    file: PathBuf,
    /// Problems that occurred when the recording was packed: the name of a file, and a sentence without a subject.
    problems: Vec<(String, String)>,
}

impl UnpackedRecording {
    pub fn directory_path(&self) -> &Path {
        self.directory.path()
    }

    /// Opens the recording. Its problems name the packed file in place of the directory.
    pub fn open_job(&self) -> Result<Job> {
        let mut job = Job::open(self.directory_path()).with_context(|| self.file.display().to_string())?;
        for problem in &mut job.problems {
            if let Ok(inner) = problem.path.strip_prefix(self.directory_path()) {
                problem.path = self.file.join(inner);
            }
        }
        let packed = self.problems.iter();
        job.problems.extend(
            packed.map(|(name, text)| Problem {
                path: self.file.join(name),
                text: format!("{text} (when it was packed)"),
            }),
        );
        job.dir = self.file.clone();
        Ok(job)
    }
}

/// Returns true if a file is a packed recording, judged by its first bytes or its name.
pub fn is_packed(path: &Path) -> bool {
    let mut magic = [0; 2];
    path.is_file()
        && (path.as_os_str().as_encoded_bytes().ends_with(SUFFIX.as_bytes())
            || plain::open(path, SymbolicLinks::Followed)
                .is_ok_and(|mut file| file.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b]))
}

pub fn unpack_to_temporary(path: &Path) -> Result<UnpackedRecording> {
    let failed = || format!("failed to unpack {}", path.display());
    let directory = cupeer_recordings::job::create_temporary_directory("cupeer-").with_context(failed)?;
    let about = write_files(path, directory.path(), MOST_FILES).with_context(failed)?;
    let problems = about["problems"].as_array().into_iter().flatten().filter_map(|problem| {
        let text = |at| problem.get(at)?.as_str().map(|text: &str| text.replace(char::is_control, "?"));
        Some((text(0)?, text(1)?))
    });
    Ok(UnpackedRecording { directory, file: path.to_owned(), problems: problems.collect() })
}

/// Writes the files of an archive to a directory. Returns the description of the archive, which is its last file.
fn write_files(path: &Path, directory: &Path, most: FileLimits) -> Result<Value> {
    let mut room = plain::open(path, SymbolicLinks::Followed)?
        .metadata()?
        .len()
        .saturating_mul(MOST_RATIO)
        .max(ALWAYS_ALLOWED_SIZE);
    let mut archive = open_archive(path)?;
    let mut about = None;
    // Raw entries: an entry that only extends the header of the next one can have any size, and cupeer writes none.
    for (count, entry) in archive.entries()?.raw(true).enumerate() {
        let mut entry = entry.map_err(damaged_error)?;
        ensure!(about.is_none(), "there is something after its end");
        ensure!(count != most.written || !has_more_files(path, most.all)?, "it has more than {} files", most.all);
        let name = member_path(&entry)?;
        let place = directory.join(&name);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        write_file(&mut entry, &place, &mut room).with_context(|| name.display().to_string())?;
        if name == Path::new(PackDescription::FILE) {
            about = Some(fs::read(&place)?);
        }
    }
    // The rest is read to the end, so that the checksum is compared.
    let mut rest = archive.into_inner();
    std::io::copy(&mut rest.by_ref().take(1 << 20), &mut std::io::sink()).map_err(damaged_error)?;
    let about = about.ok_or_else(|| anyhow!("it is incomplete"))?;
    serde_json::from_slice(&about).map_err(damaged_error)
}

fn open_archive(path: &Path) -> Result<Archive<GzDecoder<BufReader<fs::File>>>> {
    Ok(Archive::new(GzDecoder::new(BufReader::new(plain::open(path, SymbolicLinks::Followed)?))))
}

/// Returns true if an archive has more files than `most`.
fn has_more_files(path: &Path, most: usize) -> Result<bool> {
    for (count, entry) in open_archive(path)?.entries()?.raw(true).enumerate() {
        entry.map_err(damaged_error)?;
        if count >= most {
            return Ok(true);
        }
    }
    Ok(false)
}

fn damaged_error(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("it is damaged, or not a packed recording: {error}")
}

/// Returns the path of an archive's file below its folder: a name that a recording can have, possibly in a folder whose name is a
/// number.
fn member_path(entry: &Entry<impl Read>) -> Result<PathBuf> {
    let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    let foreign = || anyhow!("{path:?} does not belong in a packed recording");
    ensure!(entry.header().entry_type() == EntryType::Regular, foreign());
    let is_own = |name| files::kind_of_file(name).is_some();
    match path.split('/').collect::<Vec<_>>()[..] {
        [FOLDER, name] if is_own(name) || [PackDescription::FILE, PackedSymbols::FILE].contains(&name) => {
            Ok(name.into())
        }
        [FOLDER, folder, name] if is_own(name) && folder.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Path::new(folder).join(name))
        }
        _ => Err(foreign()),
    }
}

/// Writes a file of the archive. Pages of zeros become holes.
fn write_file(entry: &mut Entry<impl Read>, place: &Path, room: &mut u64) -> Result<()> {
    let size = entry.size();
    let mut file = plain::create(place, 0o600)?;
    let mut page = [0; PAGE];
    let mut left = size;
    while left > 0 {
        let bytes = &mut page[..left.min(PAGE as u64) as usize];
        entry.read_exact(bytes).map_err(damaged_error)?;
        left -= bytes.len() as u64;
        if bytes.iter().all(|byte| *byte == 0) {
            file.seek(SeekFrom::Current(bytes.len() as i64))?;
            continue;
        }
        let Some(rest) = room.checked_sub(bytes.len() as u64) else {
            bail!("it unpacks to far more than a file of this size can hold");
        };
        *room = rest;
        file.write_all(bytes).map_err(|error| match error.kind() {
            ErrorKind::StorageFull => anyhow!("{error}; set TMPDIR to another place"),
            _ => error.into(),
        })?;
    }
    file.set_len(size)?;
    Ok(())
}

#[cfg(test)]
mod tests;
