//! Directories of the user's own, for what becomes code in programs.

use super::check;
use anyhow::{Context, Result, bail, ensure};
use cupeer_console::startup::user;
use std::io::ErrorKind::AlreadyExists;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A directory of the user's that goes with the session or the machine.
pub fn private_directory() -> Result<PathBuf> {
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute()) {
        let directory = Path::new(&runtime).join("cupeer");
        // No file is stored in a directory in which others may rename it.
        match make_private(&directory).and_then(|()| check(&directory)) {
            Ok(()) => return Ok(directory),
            Err(error) => tracing::debug!("{error:#}"),
        }
    }
    let directory = PathBuf::from(format!("/tmp/cupeer-{}", user()));
    make_private(&directory)?;
    check(&directory)?;
    Ok(directory)
}

/// Makes a directory for the user alone, or checks that it is one: whoever can write it chooses the
/// library that our programs load.
pub fn make_private(directory: &Path) -> Result<()> {
    let shown = directory.display();
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != AlreadyExists => bail!("failed to create {shown}: {error}"),
        _ => {}
    }
    let found = directory.symlink_metadata().with_context(|| format!("failed to inspect {shown}"))?;
    let user = user();
    ensure!(
        found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0,
        "refused to use {shown}: it must be a directory that belongs to user {user} and that nobody else can write to"
    );
    Ok(())
}
