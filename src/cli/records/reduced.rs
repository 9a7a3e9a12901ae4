//! The reduced files in directories.

use cupeer_facts::part::file;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

/// Returns the reduced files in a directory and its subdirectories, sorted by name.
pub fn reduced_files_in(directory: &Path) -> Vec<PathBuf> {
    let list = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut entries: Vec<(PathBuf, bool)> = entries.map(|entry| (entry.path(), is_directory(&entry))).collect();
        entries.sort_unstable();
        entries
    };
    let all = list(directory).into_iter().flat_map(|(path, is_directory)| match is_directory {
        true => list(&path),
        false => vec![(path, false)],
    });
    all.map(|(path, _)| path).filter(|path| file::has_reduced_name(path) && path.is_file()).collect()
}

/// Returns true if an entry is a directory or a link to one. For most of the thousands of files in a recording, this needs
/// no system call.
fn is_directory(entry: &DirEntry) -> bool {
    let kind = entry.file_type();
    kind.is_ok_and(|kind| kind.is_dir() || kind.is_symlink() && entry.path().is_dir())
}
