//! Directories of the user's own, for what becomes code in programs.

use super::check_ownership;
use anyhow::{Context, Result, bail, ensure};
use cupeer_console::startup::effective_user;
use std::io::ErrorKind::AlreadyExists;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Returns a directory of the user's that lasts until the end of the session or until the machine restarts.
pub fn private_directory() -> Result<PathBuf> {
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute()) {
        let directory = Path::new(&runtime).join("cupeer");
        // No file is stored in a directory in which other users could rename the file.
        match make_private(&directory).and_then(|()| check_ownership(&directory)) {
            Ok(()) => return Ok(directory),
            Err(error) => tracing::debug!("{error:#}"),
        }
    }
    let directory = PathBuf::from(format!("/tmp/cupeer-{}", effective_user()));
    make_private(&directory)?;
    check_ownership(&directory)?;
    Ok(directory)
}

/// Creates a directory that only the user can access, or checks that an existing one is private: whoever can
/// write to it chooses the library that the user's programs load.
pub fn make_private(directory: &Path) -> Result<()> {
    let shown = directory.display();
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != AlreadyExists => bail!("failed to create {shown}: {error}"),
        _ => {}
    }
    let found = directory.symlink_metadata().with_context(|| format!("failed to inspect {shown}"))?;
    let user = effective_user();
    ensure!(
        found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0,
        "refused to use {shown}: it must be a directory that belongs to user {user} and that nobody else can write to"
    );
    Ok(())
}
