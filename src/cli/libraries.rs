//! Where the two shared libraries are, beside the command or in ../lib, and who could have put them there.
//!
//! What the dynamic loader is led to becomes code in the user's programs. So those files, and the directories around
//! them, must belong to somebody who could have replaced the command itself: the user, root, or the owner of the
//! command. A group may write there if it may write where the command is, as in installations that a group maintains.
//! Nobody else may, except in directories where each user has files of their own, such as /tmp.

use crate::startup::user;
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub const PRELOAD: &str = "libcupeer.so";
pub const SIM: &str = "libcupeer_sim.so";

fn command() -> Result<PathBuf> {
    std::env::current_exe().context("failed to find cupeer's libraries: /proc/self/exe")
}

/// Finds one of the libraries, and refuses one that somebody may have planted.
pub fn find(name: &str) -> Result<PathBuf> {
    let command = command()?;
    let beside = command.parent().unwrap_or(Path::new("/"));
    let places = [beside.to_owned(), beside.parent().unwrap_or(Path::new("/")).join("lib")];
    for place in &places {
        let library = place.join(name);
        if library.is_file() {
            check(&library)?;
            tracing::debug!("{name} is {}", library.display());
            return Ok(library);
        }
    }
    let [a, b] = places.map(|place| place.display().to_string());
    bail!("{name} is neither in {a} nor in {b}; keep the command and its libraries together")
}

/// Refuses a file, directory or link that the dynamic loader is to be led to, where another user could have made it or
/// could change it.
pub fn check(path: &Path) -> Result<()> {
    let around = |path: &Path| path.parent().unwrap_or(Path::new("/")).to_owned();
    let command = command()?;
    let mends = Mends { command: command.metadata()?, beside: around(&command).metadata()? };
    let mut paths = vec![path.to_owned()];
    if path.is_symlink() {
        paths.push(path.canonicalize().with_context(|| path.display().to_string())?);
    }
    for path in paths.iter().flat_map(|path| [around(path), path.clone()]) {
        let shown = path.display();
        let found = path.symlink_metadata().with_context(|| format!("failed to inspect '{shown}'"))?;
        if let Some(reason) = mends.distrust(&found) {
            bail!(
                "refused to load libraries by way of '{shown}': {reason}, or install cupeer where only you can write"
            );
        }
    }
    Ok(())
}

/// Who could replace the command: the file, and the directory around it.
struct Mends {
    command: Metadata,
    beside: Metadata,
}

impl Mends {
    /// Why somebody else may have planted something, and what mends that.
    fn distrust(&self, found: &Metadata) -> Option<String> {
        let (owner, group, mode) = (found.uid(), found.gid(), found.mode());
        if ![user(), 0, self.command.uid()].contains(&owner) {
            return Some(format!("it belongs to user {owner}; remove it"));
        }
        // Whose a link is decides who can change it; and in some directories everybody keeps his own.
        if found.is_symlink() || found.is_dir() && mode & libc::S_ISVTX != 0 {
            return None;
        }
        let may_write = |found: &Metadata| found.mode() & libc::S_IWGRP != 0 && found.gid() == group;
        // Many users have a group of their own, of the same number.
        let is_harmless = group == 0 || group == owner || may_write(&self.command) || may_write(&self.beside);
        match (mode & libc::S_IWOTH != 0, mode & libc::S_IWGRP != 0 && !is_harmless) {
            (true, _) => Some("everybody can write there; remove that right (chmod o-w)".to_owned()),
            (_, true) => Some(format!(
                "group {group} can write there, but not where the command is; remove that right (chmod g-w)"
            )),
            _ => None,
        }
    }
}

/// Finds the library that is preloaded, and refuses a path that the dynamic loader would cut apart.
pub fn find_preload() -> Result<PathBuf> {
    let library = find(PRELOAD)?;
    ensure!(
        !library.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)),
        "failed to preload '{}': a space or colon ends a path in LD_PRELOAD; install cupeer where the path has none",
        library.display()
    );
    Ok(library)
}

/// The elements of LD_PRELOAD.
pub fn preloaded(value: &OsStr) -> impl Iterator<Item = &Path> {
    let elements = value.as_bytes().split(|byte| b" :".contains(byte)).filter(|element| !element.is_empty());
    elements.map(|element| Path::new(OsStr::from_bytes(element)))
}
