//! The file `job` of a directory, and the key of the fingerprints in it.
//!
//! What belongs here: whose file counts, and that all who come get the key of the first.

use super::VLLM_CACHE;
use anyhow::{Context, Result, bail};
use cupeer_record::plain::{self, Links};
use cupeer_spec::env;
use cupeer_spec::record::faults::{self, RELEASE};
use cupeer_spec::record::{SUFFIX, job, live};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// The largest file `job`: each run that takes part adds a line.
const MOST_BYTES: u64 = 1 << 20;

/// The key of the job in a directory, which is made a job where it is empty.
pub fn take_part(directory: &Path, shared: bool) -> Result<String> {
    let shown = directory.display();
    let file = directory.join(job::FILE);
    for _ in 0..2 {
        match read(&file) {
            Ok(text) => {
                if !shared {
                    check_owner(&file, directory)?;
                }
                return read_key(&text)
                    .with_context(|| format!("'{}' is not the file of a job", file.display()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("failed to read '{}'", file.display())),
        }
        let is_foreign = |name: &OsStr| {
            let name = name.as_bytes();
            !name.starts_with(b".")
                && name != job::FILE.as_bytes()
                && name != VLLM_CACHE.as_bytes()
                && !name.ends_with(SUFFIX.as_bytes())
                && ![live::PREFIX, faults::PREFIX, RELEASE]
                    .iter()
                    .any(|prefix| name.starts_with(prefix.as_bytes()))
        };
        let entries = fs::read_dir(directory).with_context(|| format!("failed to read '{shown}'"))?;
        if entries.flatten().any(|entry| is_foreign(&entry.file_name())) {
            bail!("'{shown}' holds files that are not a record's; name a new or empty directory");
        }
        write_key(directory, &file, shared)
            .with_context(|| format!("failed to write into the record's directory '{shown}'"))?;
    }
    bail!("'{}' disappeared while being created", file.display())
}

fn read_key(text: &str) -> Result<String> {
    let first = text.lines().next().unwrap_or_default();
    if first != job::FIRST_LINE {
        bail!(
            "it begins with '{}' instead of '{}'",
            first.chars().take(40).collect::<String>(),
            job::FIRST_LINE
        );
    }
    let key = job::key_in(text.as_bytes()).context("it has no key")?;
    if job::key(key).is_none() {
        bail!("its key is not 32 hexadecimal digits");
    }
    Ok(String::from_utf8_lossy(key).into_owned())
}

/// The text of a file `job`, which anybody may have put there.
pub fn read(file: &Path) -> io::Result<String> {
    plain::read(file, Links::Refused, MOST_BYTES).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Refuses a job that somebody else has begun: whose key it is, knows the handles behind the fingerprints. Whoever owns
/// the directory decides what is in it, and containers often run as another user than who made it.
pub fn check_owner(file: &Path, directory: &Path) -> Result<()> {
    let (uid, owner) = (file.symlink_metadata()?.uid(), directory.metadata()?.uid());
    // SAFETY: asks for a number; cannot fail.
    if ![unsafe { libc::geteuid() }, 0, owner].contains(&uid) {
        bail!(
            "'{}' belongs to user {uid}, but the directory to user {owner}; use another directory, or --share \
             group if several users record together",
            file.display()
        );
    }
    Ok(())
}

/// Brings a key, unless somebody else is faster: under a name of its own first, so that who finds it finds it
/// whole.
fn write_key(directory: &Path, file: &Path, shared: bool) -> Result<()> {
    let key = own_key()?;
    let mut new = tempfile::Builder::new().prefix(".job-").tempfile_in(directory)?;
    if shared {
        new.as_file().set_permissions(fs::Permissions::from_mode(0o660))?;
    }
    new.write_all(format!("{}\n{}={key}\n", job::FIRST_LINE, job::KEY).as_bytes())?;
    match new.persist_noclobber(file) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
            // A file system without links.
            error.file.persist(file)?;
        }
        _ => {}
    }
    Ok(())
}

/// The key that an outer cupeer drew.
fn key_of_environment() -> Option<String> {
    let key = std::env::var(env::JOB).ok()?;
    job::key(key.as_bytes()).map(|_| key)
}

/// A new key.
fn new_key() -> Result<String> {
    let mut key = [0u8; 16];
    // SAFETY: the buffer has the length that is given.
    let read = unsafe { libc::getrandom(key.as_mut_ptr().cast(), key.len(), 0) };
    if read != key.len() as isize {
        return Err(io::Error::last_os_error()).context("failed to make the key of the job");
    }
    Ok(key.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The key that an outer cupeer drew, or a new one.
pub fn own_key() -> Result<String> {
    key_of_environment().map_or_else(new_key, Ok)
}

#[cfg(test)]
mod tests {
    use super::super::make;
    use super::*;

    #[test]
    fn all_who_come_get_the_key_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("r");
        assert!(make(&directory, false).unwrap());
        assert!(!make(&directory, false).unwrap());
        let first = take_part(&directory, false).unwrap();
        assert_eq!(take_part(&directory, false).unwrap(), first);
        fs::write(directory.join(job::FILE), "something else\n").unwrap();
        assert!(format!("{:#}", take_part(&directory, false).unwrap_err()).contains("something else"));
    }

    #[test]
    fn a_directory_with_other_things_in_it_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "").unwrap();
        assert!(take_part(folder.path(), false).unwrap_err().to_string().contains("not a record's"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_belongs_to_a_job_is_no_other_thing() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["live-0123abcd", "faults-0123abcd-00000000", "release-gate", ".job-7", "1-2-3.cupeer"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join(VLLM_CACHE)).unwrap();
        assert!(take_part(folder.path(), false).is_ok());
    }
}
