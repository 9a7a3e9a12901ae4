//! The two shared libraries: their files, their version, and the users who could have replaced them.
//!
//! They lie beside the command or in one of [`SEARCH_DIRECTORIES`]; none is a directory that ldconfig looks through, because it would
//! make the simulated driver the system's libcuda.so.1. A command that carries them unpacks them ([`carried`]).
//!
//! What the dynamic loader is led to becomes code in the user's programs. So those files, and the directories around
//! them, must belong to somebody who could have replaced the command itself: the user, root, or the owner of the
//! command. A group may write there if it may write where the command is, as in installations that a group maintains.
//! Nobody else may, except in directories where each user has files of their own, such as /tmp.

mod carried;
mod private;

pub use private::{make_private, private_directory};

use crate::elf::ElfFile;
use anyhow::{Context, Result, bail};
use cupeer_console::startup::effective_user;
use cupeer_spec::version;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub const PRELOAD: &str = "libcupeer.so";
pub const SIM: &str = "libcupeer_sim.so";
/// Directories in which the libraries are searched, relative to the command's directory. pip does not install `lib` with
/// `--target`.
const SEARCH_DIRECTORIES: [&str; 3] = ["", "../lib/cupeer", "../libexec/cupeer"];

/// Version of the command. The libraries must have the same version, because they share settings, pages, and files.
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

fn command_path() -> Result<PathBuf> {
    std::env::current_exe().context("failed to find cupeer's libraries: /proc/self/exe")
}

/// Finds one of the two libraries. Refuses a library that another user may have planted, or that has another version.
pub fn find_library(name: &str) -> Result<PathBuf> {
    let command = command_path()?;
    let beside = command.parent().unwrap_or(Path::new("/"));
    let above = beside.parent().unwrap_or(Path::new("/"));
    let places = SEARCH_DIRECTORIES.map(|place| match place.strip_prefix("../") {
        Some(place) => above.join(place),
        None => beside.to_owned(),
    });
    let mut mismatch = None;
    for library in places.iter().map(|place| place.join(name)).filter(|library| library.is_file()) {
        check_ownership(&library)?;
        let file = ElfFile::open(&library).ok().flatten();
        match file.as_ref().and_then(library_version) {
            Some(version) if version == OWN_VERSION => {
                if !file.is_some_and(|file| file.is_complete()) {
                    bail!("'{}' is cut short; install the package again", library.display());
                }
                tracing::debug!("{name} is {}", library.display());
                return Ok(library);
            }
            version => mismatch = mismatch.or(Some((library, version))),
        }
    }
    if let Some(library) = carried::unpack_library(name)? {
        return Ok(library);
    }
    if let Some((library, version)) = mismatch {
        let version = version
            .map_or("does not say of which version it is".to_owned(), |version| format!("is of cupeer {version}"));
        let library = library.display();
        bail!("'{library}' {version}, and this command is of {OWN_VERSION}; install both from one package");
    }
    let [a, b, c] = places.map(|place| place.display().to_string());
    bail!("{name} is neither in {a} nor in {b} nor in {c}; keep the command and its libraries together")
}

/// Returns the version that a library contains.
fn library_version(library: &ElfFile) -> Option<String> {
    let note = library.find_note(version::OWNER, version::KIND).ok()??;
    version::read_version(&note).map(str::to_owned)
}

/// Refuses a file, directory, or link of the dynamic loader's if another user could have created it or could change it.
pub fn check_ownership(path: &Path) -> Result<()> {
    let around = |path: &Path| path.parent().unwrap_or(Path::new("/")).to_owned();
    let command = command_path()?;
    let mends = CommandOwners { command: command.metadata()?, beside: around(&command).metadata()? };
    let mut paths = vec![path.to_owned()];
    if path.is_symlink() {
        paths.push(path.canonicalize().with_context(|| path.display().to_string())?);
    }
    for path in paths.iter().flat_map(|path| [around(path), path.clone()]) {
        let shown = path.display();
        let found = path.symlink_metadata().with_context(|| format!("failed to inspect '{shown}'"))?;
        if let Some(reason) = mends.reason_for_distrust(&found) {
            bail!(
                "refused to load libraries by way of '{shown}': {reason}, or install cupeer where only you can write"
            );
        }
    }
    Ok(())
}

/// Owners of the command's file and of its directory: users who could replace the command anyway.
struct CommandOwners {
    command: Metadata,
    beside: Metadata,
}

impl CommandOwners {
    /// Returns a sentence about why another user may have planted a file, and how to fix that; `None` if the file is
    /// trusted.
    fn reason_for_distrust(&self, found: &Metadata) -> Option<String> {
        let (owner, group, mode) = (found.uid(), found.gid(), found.mode());
        if ![effective_user(), 0, self.command.uid()].contains(&owner) {
            return Some(format!("it belongs to user {owner}; remove it"));
        }
        // Only the owner of a link can change it; and in a sticky directory, users can replace only their own files.
        if found.is_symlink() || found.is_dir() && mode & libc::S_ISVTX != 0 {
            return None;
        }
        let may_write = |found: &Metadata| found.mode() & libc::S_IWGRP != 0 && found.gid() == group;
        // Many users have a private group with the same number as the user.
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

/// Finds the preload library. If its path has characters that end a path in LD_PRELOAD, copies it to a directory of the
/// user's.
pub fn find_preload() -> Result<PathBuf> {
    let library = find_library(PRELOAD)?;
    if !library.as_os_str().as_bytes().iter().any(|byte| ENDS_A_PATH.contains(byte)) {
        return Ok(library);
    }
    let copy = std::fs::read(&library).map_err(Into::into).and_then(|bytes| carried::store_library(PRELOAD, &bytes));
    copy.with_context(|| {
        let shown = library.display();
        format!("failed to copy '{shown}', whose space or colon ends a path in LD_PRELOAD")
    })
}

/// Characters that end a path in LD_PRELOAD.
const ENDS_A_PATH: &[u8] = b" :";

/// Returns the elements of a value of LD_PRELOAD.
pub fn preload_elements(value: &OsStr) -> impl Iterator<Item = &Path> {
    let elements = value.as_bytes().split(|byte| ENDS_A_PATH.contains(byte)).filter(|element| !element.is_empty());
    elements.map(|element| Path::new(OsStr::from_bytes(element)))
}
