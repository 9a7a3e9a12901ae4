//! Finds the files that describe a library: its own, and separate files with its debugging information.
//!
//! The files are searched in the same places as gdb does. [`table`] and [`super::lines`] read them, and [`crate::Symbols`]
//! keeps the results.
//!
//! A name that may be wrong is worse than none. A file counts if it has the recorded build id. A file without a build
//! id counts only on the host of the recording, and only if it is older than the recording.

use super::lines::{DebugLines, MOST_BYTES, NoLines};
use super::mapped::Bytes;
use super::symbol::is_libc_or_loader;
use super::table::{self, FunctionTable, UnusableFile};
use object::Object;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// Directory of separate debug files: by build ID in `.build-id`, and by the path of the file that they
/// belong to.
const DEBUG_FILES: &str = "/usr/lib/debug";

/// Rules for finding files and for accepting them.
pub struct FileSearch {
    /// Time before which a file without a build ID must have been changed; `None` if no such file is
    /// accepted.
    pub older_than: Option<SystemTime>,
    /// Directory of separate debug files.
    pub debug: PathBuf,
    /// Number of bytes of debugging information above which the lines of a library are not read, because decompressing
    /// takes long.
    pub most_debug_bytes: u64,
}

/// Symbols and lines of a library whose files were opened.
pub struct OpenedLibrary {
    /// Functions of the library, or the reason why there are none.
    pub table: Result<FunctionTable, UnusableFile>,
    /// Lines of source; `None` if there are none.
    pub lines: Option<DebugLines>,
    /// Missing files: the path of each, and a sentence with the reason.
    pub notes: Vec<(String, String)>,
}

impl FileSearch {
    /// Returns rules that accept files older than the start of the recording. `None` is for a recording of
    /// another host, for which no file without a build ID is accepted.
    pub fn accepting_older_than(older_than: Option<SystemTime>) -> FileSearch {
        FileSearch { older_than, debug: DEBUG_FILES.into(), most_debug_bytes: MOST_BYTES }
    }

    /// Opens the symbols of a library, or of its separate file if it was stripped, and its lines if there are
    /// any. After `until`, reads no further lines.
    pub fn open(&self, build_id: &[u8], path: &Path, until: Instant) -> OpenedLibrary {
        let mut notes = Vec::new();
        let (table, lines) = match self.read_files(build_id, path, until, &mut notes) {
            Ok((table, lines)) => (Ok(table), lines),
            Err(why) => (Err(why), None),
        };
        if let Err(why) = &table
            && *why != UnusableFile::NotAFile
        {
            notes.push((path.display().to_string(), why.to_string()));
        }
        OpenedLibrary { table, lines, notes }
    }

    fn read_files(
        &self,
        build_id: &[u8],
        path: &Path,
        until: Instant,
        notes: &mut Vec<(String, String)>,
    ) -> Result<(FunctionTable, Option<DebugLines>), UnusableFile> {
        let older_than = if build_id.is_empty() { Some(self.older_than.ok_or(UnusableFile::NoBuildId)?) } else { None };
        let own = table::open_checked(path, build_id, older_than);
        let table = own.as_ref().map_err(Clone::clone).and_then(FunctionTable::read);
        if is_libc_or_loader(&path.to_string_lossy()) {
            return Ok((table?, None));
        }
        let lines = own.as_ref().ok().and_then(|file| self.read_lines(path, file, until, notes));
        if matches!(&table, Ok(table) if table.is_whole()) && lines.is_some() || build_id.len() < 2 {
            return Ok((table?, lines));
        }
        let by_link = own.as_ref().map_or_else(|_| Vec::new(), |file| self.debug_link_paths(file, path));
        let separate = [self.path_by_build_id(build_id)].into_iter().chain(by_link).find_map(|path| {
            let file = table::open_checked(&path, build_id, None).ok()?;
            Some((FunctionTable::read(&file).ok()?, file, path))
        });
        let Some((more, file, debug)) = separate else { return Ok((table?, lines)) };
        let lines = lines.or_else(|| self.read_lines(&debug, &file, until, notes));
        match table {
            Ok(mut table) => {
                if !table.is_whole() {
                    table.add_symbols_of(more);
                }
                Ok((table, lines))
            }
            Err(_) => Ok((more, lines)),
        }
    }

    /// Returns the lines of a file. Adds a note with the reason if lines are missing for an unusual reason.
    fn read_lines(
        &self,
        path: &Path,
        file: &Bytes,
        until: Instant,
        notes: &mut Vec<(String, String)>,
    ) -> Option<DebugLines> {
        let why = match DebugLines::read(file, until, self.most_debug_bytes, || self.dwz_file(file, path)) {
            Ok(lines) => return Some(lines),
            Err(NoLines::Stripped) => return None,
            Err(NoLines::TooLarge(bytes)) => {
                format!("has {} MiB of debugging information, more than is read: its lines are unknown", bytes >> 20)
            }
            Err(NoLines::Late) => "its lines are left out: those of others took too long".to_owned(),
            Err(NoLines::Unreadable(error)) => format!("its debugging information cannot be read: {error}"),
        };
        notes.push((path.display().to_string(), why));
        None
    }

    fn path_by_build_id(&self, build_id: &[u8]) -> PathBuf {
        let digits: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let (first, others) = digits.split_at(2.min(digits.len()));
        self.debug.join(".build-id").join(first).join(format!("{others}.debug"))
    }

    /// Returns the candidates for the debug file that a file names (`.gnu_debuglink`).
    fn debug_link_paths(&self, file: &Bytes, path: &Path) -> Vec<PathBuf> {
        let link = with_elf(file, |elf| Some(elf.gnu_debuglink().ok()??.0.to_vec()));
        let name = link.filter(|name| !name.contains(&b'/'));
        let (Some(name), Some(directory)) = (name, path.parent()) else { return Vec::new() };
        let name = OsStr::from_bytes(&name);
        let below = directory.strip_prefix("/").unwrap_or(directory);
        [directory.join(name), directory.join(".debug").join(name), self.debug.join(below).join(name)]
            .into_iter()
            .filter(|candidate| candidate != path)
            .collect()
    }

    /// Returns the file that `dwz` moved shared information to (`.gnu_debugaltlink`).
    fn dwz_file(&self, file: &Bytes, path: &Path) -> Option<Bytes> {
        let link = |elf: &object::File| {
            let (name, build_id) = elf.gnu_debugaltlink().ok()??;
            Some((name.to_vec(), build_id.to_vec()))
        };
        let (name, build_id) = with_elf(file, link).filter(|(_, build_id)| !build_id.is_empty())?;
        // Start from the real path of the file: a directory of build IDs may have links to it.
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let named = real.parent()?.join(OsStr::from_bytes(&name));
        let candidates = [named, self.path_by_build_id(&build_id)];
        candidates.iter().find_map(|candidate| table::open_checked(candidate, &build_id, None).ok())
    }
}

fn with_elf<T>(file: &Bytes, ask: impl FnOnce(&object::File) -> Option<T>) -> Option<T> {
    ask(&object::File::parse(&**file).ok()?)
}
