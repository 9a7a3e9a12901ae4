//! The libraries within the command itself, where it was built with them (`build.rs`). They are unpacked for the user when
//! none of this version lie beside the command.
//!
//! What was unpacked is compared with what is carried each time, because it becomes code in the user's programs.

use super::check_ownership;
use super::private_directory;
use anyhow::{Context, Result, bail, ensure};
use cupeer_recordings::home;
use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

include!(concat!(env!("OUT_DIR"), "/carried.rs"));

/// Unpacks a library of the command if that has not been done; returns `None` if the command carries no libraries.
pub fn unpack_library(name: &str) -> Result<Option<PathBuf>> {
    let Some((_, bytes)) = CARRIED.iter().find(|(carried, _)| *carried == name) else { return Ok(None) };
    store_library(name, bytes).with_context(|| format!("failed to unpack {name}, which this command carries")).map(Some)
}

/// Keeps a library with these contents in a directory of the user's, and returns its path.
pub fn store_library(name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let cache =
        home::user_directory("XDG_CACHE_HOME", ".cache").context("neither XDG_CACHE_HOME nor HOME leads anywhere");
    let cached = cache.and_then(|cache| write_if_changed(&cache.join("cupeer"), name, bytes));
    cached.or_else(|error| {
        tracing::debug!("{name} cannot be kept in the user's cache: {error:#}");
        let elsewhere = private_directory().and_then(|directory| write_if_changed(&directory, name, bytes));
        elsewhere.with_context(|| format!("XDG_CACHE_HOME names a directory for it ({error:#})"))
    })
}

/// Returns the path of the library in a directory of the user's, and writes the file if it is missing or has other contents.
/// Several processes may do so at the same time: each renames a complete file into place.
fn write_if_changed(parent: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let directory = parent.join(DIRECTORY);
    let shown = directory.display();
    if directory.as_os_str().as_bytes().iter().any(|byte| b" :;".contains(byte)) {
        bail!("a space, colon or semicolon in '{shown}' ends a path for the dynamic loader");
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    made.with_context(|| format!("failed to make '{shown}'"))?;
    // A directory in which other users may rename files is not safe.
    check_ownership(parent)?;
    check_ownership(&directory)?;
    ensure!(allows_execution(&directory), "'{shown}' is mounted noexec");
    let library = directory.join(name);
    let is_whole = || fs::read(&library).is_ok_and(|found| found == bytes);
    if !is_whole() {
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(&directory)?;
            file.write_all(bytes)?;
            file.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
            file.persist(&library).map(drop).map_err(|error| error.error)
        };
        write().with_context(|| format!("failed to write '{}'", library.display()))?;
        ensure!(is_whole(), "'{}' is not what was written", library.display());
    }
    check_ownership(&library)?;
    tracing::debug!("{name} is {}, unpacked", library.display());
    Ok(library)
}

/// Returns true if the dynamic loader may map files of a directory.
fn allows_execution(directory: &Path) -> bool {
    let Ok(path) = CString::new(directory.as_os_str().as_bytes()) else { return false };
    // SAFETY: all-zero bytes are a valid statvfs, which the call fills; the path ends in NUL.
    let (asked, about) = unsafe {
        let mut about: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut about), about)
    };
    asked != 0 || about.f_flag & libc::ST_NOEXEC == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn place() -> tempfile::TempDir {
        tempfile::TempDir::new().unwrap()
    }

    #[test]
    fn complete_files_stay_and_damaged_ones_are_replaced() {
        let place = place();
        let library = write_if_changed(place.path(), "a.so", b"right").unwrap();
        let first = library.metadata().unwrap().ino();
        assert_eq!(write_if_changed(place.path(), "a.so", b"right").unwrap(), library);
        assert_eq!(library.metadata().unwrap().ino(), first);
        for damaged in [&b"righ"[..], b"wrong", b""] {
            fs::write(&library, damaged).unwrap();
            write_if_changed(place.path(), "a.so", b"right").unwrap();
            assert_eq!(fs::read(&library).unwrap(), b"right");
        }
        let names = fs::read_dir(library.parent().unwrap()).unwrap().count();
        assert_eq!(names, 1, "a file was left behind");
    }

    #[test]
    fn many_at_once_find_whole_files() {
        let place = place();
        let bytes = vec![7; 1 << 20];
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let library = write_if_changed(place.path(), "a.so", &bytes).unwrap();
                    assert!(fs::read(library).unwrap() == bytes);
                });
            }
        });
    }

    #[test]
    fn a_place_that_others_can_write_is_refused() {
        let place = place();
        let parent = place.path().join("cupeer");
        fs::create_dir(&parent).unwrap();
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o777)).unwrap();
        let error = write_if_changed(&parent, "a.so", b"right").unwrap_err().to_string();
        assert!(error.contains("everybody can write there"), "{error}");
        let error = write_if_changed(&place.path().join("a b"), "a.so", b"right").unwrap_err().to_string();
        assert!(error.contains("ends a path"), "{error}");
        let error = write_if_changed(Path::new("/proc/none"), "a.so", b"right").unwrap_err().to_string();
        assert!(error.contains("failed to make"), "{error}");
    }
}
