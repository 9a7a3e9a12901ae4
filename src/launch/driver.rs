//! The driver of a program: checks a driver library, and keeps the directories that lead the dynamic loader to it.
//!
//! A program asks for `libcuda.so.1` or `libcuda.so`. A directory that holds both names, as links to the
//! wanted library, stands first in LD_LIBRARY_PATH. One directory per library, kept for the next run.

use crate::args::DriverArgs;
use crate::elf::ElfFile;
use crate::libraries;
use anyhow::{Context, Result, ensure};
use cupeer_console::output;
use cupeer_spec::env;
use cupeer_spec::function::Library;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind::{AlreadyExists, NotFound};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Note for a run in which the CUDA runtime called the simulated driver.
pub const NO_RUNTIME: &str = "the CUDA runtime (libcudart, linked or within the program) asked the simulated \
    driver for unnamed functions, which only a real driver has, so it does not run with --sim; programs of the \
    driver API do";

/// Returns the note for a run in which no process loaded a driver.
pub fn no_driver_note(chosen: Option<&ChosenDriver>, program: &[OsString]) -> String {
    let is_sim = |word: &&OsString| word.as_bytes() == b"--sim" || word.as_bytes().starts_with(b"--sim=");
    let hint = match program.iter().skip(1).find(is_sim) {
        _ if chosen.is_some() => String::new(),
        Some(option) => {
            let option = option.to_string_lossy();
            format!(
                "; {option} is an argument of the program here: put it before the program, as in 'cupeer run {option} -- {} ...'",
                program[0].display()
            )
        }
        None => "; where the machine has no driver, --sim simulates one".to_owned(),
    };
    format!("no process loaded the CUDA driver ({}), so there is nothing to report{hint}", Library::Cuda.soname())
}

pub struct ChosenDriver {
    pub library: PathBuf,
    /// Directory that contains the links to the driver.
    pub directory: PathBuf,
    /// Variable with further settings of the driver, and its value.
    pub setting: Option<(&'static str, OsString)>,
    /// File that the driver reads, if any.
    pub file: Option<PathBuf>,
}

/// Reads `--sim` and `--driver`; returns `None` for the machine's own driver.
pub fn choose_driver(args: &DriverArgs) -> Result<Option<ChosenDriver>> {
    if let Some(topology) = &args.sim {
        let topology = topology.as_deref().map(resolve_topology).transpose().context("--sim")?;
        let (setting, file) = topology.map(|(value, file)| ((env::SIM, value), file)).unzip();
        let file = file.flatten();
        let library = libraries::find_library(libraries::SIM)?;
        let directory = make_sim_directory(&library)?;
        return Ok(Some(ChosenDriver { library, directory, setting, file }));
    }
    let Some(path) = &args.driver else { return Ok(None) };
    let library = check_driver(path).with_context(|| format!("--driver '{}'", path.display()))?;
    let directory = make_link_directory(&library)?;
    let setting = Some((env::DRIVER, library.clone().into_os_string()));
    Ok(Some(ChosenDriver { library, directory, setting, file: None }))
}

/// Checks a topology, and makes the path of a topology file absolute, because programs change their working directory.
pub fn resolve_topology(text: &OsStr) -> Result<(OsString, Option<PathBuf>)> {
    let text = text.to_str().context("the topology is not UTF-8")?;
    cupeer_topology::Topology::parse(text).map_err(anyhow::Error::msg)?;
    let Some(path) = cupeer_topology::topology_path(text) else { return Ok((text.into(), None)) };
    let absolute = std::path::absolute(path).with_context(|| format!("'{path}'"))?;
    let mut value = absolute.clone().into_os_string();
    value.push(&text[path.len()..]);
    Ok((value, Some(absolute)))
}

/// Checks that a file can be a driver, and returns its real path.
fn check_driver(path: &Path) -> Result<PathBuf> {
    let library = path.canonicalize()?;
    let elf = ElfFile::open(&library)?.context("not a shared library; a driver is an ELF file")?;
    let arch = std::env::consts::ARCH;
    ensure!(elf.is_native(), "the library is for another machine; a driver is a 64-bit {arch} library");
    ensure!(elf.is_shared_object(), "not a shared library; a driver is one, usually libcuda.so.1");
    ensure!(
        !is_preload_library(&library, &elf),
        "this is cupeer's own preload library, which needs a driver behind it; name that driver"
    );
    ensure!(
        elf.exports_symbol("cuInit")?,
        "the library has no cuInit, so it is not a CUDA driver; a driver is usually libcuda.so.1"
    );
    Ok(library)
}

/// Returns true if an element of LD_PRELOAD is a driver: by its name, if the loader has to search it, or by the contents of the
/// file.
pub fn is_driver(element: &Path) -> bool {
    let soname = Library::Cuda.soname();
    let is_named = |name: &OsStr| name.as_bytes().starts_with(soname.trim_end_matches(".1").as_bytes());
    let says_so = || ElfFile::open(element).ok()??.soname().ok()?.map(|name| name == soname);
    element.file_name().is_some_and(is_named) || (element.is_file() && says_so() == Some(true))
}

/// Returns true if a library is the preload library, under any path.
pub fn is_preload_library(library: &Path, elf: &ElfFile) -> bool {
    let id = |path: &Path| path.metadata().map(|m| (m.dev(), m.ino())).ok();
    let same =
        libraries::find_library(libraries::PRELOAD).is_ok_and(|own| id(&own).is_some() && id(&own) == id(library));
    same || elf.soname().is_ok_and(|name| name.as_deref() == Some(libraries::PRELOAD))
}

/// Returns the directory of links to the simulated driver. It lies beside the driver, so that a container that mounts the
/// driver has the links, too; if that place is not writable, the directory belongs to the user.
fn make_sim_directory(library: &Path) -> Result<PathBuf> {
    let directory = library.with_file_name("cupeer-sim");
    let target = Path::new("..").join(library.file_name().unwrap_or_default());
    let made = match std::fs::DirBuilder::new().mode(0o755).create(&directory) {
        Err(error) if error.kind() != AlreadyExists => Err(error),
        _ => {
            // Libraries in this directory take precedence over the system's libraries.
            if let Err(error) = libraries::check_ownership(&directory) {
                output::print_problem(&format!("{error:#}; using a directory of the user instead"));
                return make_link_directory(library);
            }
            make_links(&directory, &target)
        }
    };
    let Err(error) = made else { return Ok(directory) };
    tracing::debug!("{}: {error}; using a directory of the user", directory.display());
    make_link_directory(library)
}

/// Returns a directory of the user's with links to a library.
fn make_link_directory(library: &Path) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    library.as_os_str().as_bytes().hash(&mut hasher);
    let directory = libraries::private_directory()?.join(format!("driver-{:016x}", hasher.finish()));
    libraries::make_private(&directory)?;
    make_links(&directory, library).with_context(|| format!("failed to link a driver in {}", directory.display()))?;
    Ok(directory)
}

/// Creates the links to a driver in a directory. Several processes may do so at the same time.
fn make_links(directory: &Path, target: &Path) -> std::io::Result<()> {
    let soname = Library::Cuda.soname();
    for name in [soname, soname.trim_end_matches(".1")] {
        let link = directory.join(name);
        match std::fs::read_link(&link) {
            Ok(found) if found == target => continue,
            Err(error) if error.kind() != NotFound => return Err(error),
            _ => {}
        }
        let fresh = directory.join(format!(".{name}.{}", std::process::id()));
        // The file may remain from an earlier process with the same pid.
        let _ = std::fs::remove_file(&fresh);
        symlink(target, &fresh)?;
        std::fs::rename(&fresh, &link)?;
    }
    Ok(())
}
