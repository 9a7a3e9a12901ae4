//! Where the two shared libraries are: beside the command, or in ../lib.

use anyhow::{Result, bail};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The library that is preloaded.
pub const PRELOAD: &str = "libcupeer.so";
/// The simulated driver.
pub const SIM: &str = "libcupeer_sim.so";

/// Finds one of the libraries.
pub fn find(name: &str) -> Result<PathBuf> {
    let command = std::env::current_exe().map_err(|error| {
        anyhow::anyhow!("failed to find the libraries of cupeer: /proc/self/exe: {error}")
    })?;
    let beside = command.parent().unwrap_or(Path::new("/"));
    let places = [beside.to_owned(), beside.parent().unwrap_or(Path::new("/")).join("lib")];
    for place in &places {
        let library = place.join(name);
        if library.is_file() {
            tracing::debug!("{name} is {}", library.display());
            return Ok(library);
        }
    }
    let [a, b] = places.map(|place| place.display().to_string());
    bail!("{name} is neither in {a} nor in {b}; the command and its libraries belong together")
}

/// Finds the library that is preloaded, and refuses a path that the dynamic loader would cut apart.
pub fn find_preload() -> Result<PathBuf> {
    let library = find(PRELOAD)?;
    if library.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        bail!(
            "failed to preload '{}': the dynamic loader takes a space or colon in LD_PRELOAD for the end of \
             the path; install cupeer where the path has none",
            library.display()
        );
    }
    Ok(library)
}

/// The elements of LD_PRELOAD.
pub fn preloaded(value: &OsStr) -> impl Iterator<Item = &Path> {
    let elements = value.as_bytes().split(|byte| b" :".contains(byte)).filter(|element| !element.is_empty());
    elements.map(|element| Path::new(OsStr::from_bytes(element)))
}
