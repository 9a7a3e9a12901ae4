//! The file `job` in the directory of a recording. It contains the key from which the fingerprints of handles are computed.
//!
//! Every run that records into the directory gets the key of the first run.

use anyhow::{Context, Result, bail, ensure};
use cupeer_console::startup::effective_user;
use cupeer_console::variables::nonempty_variable;
use cupeer_facts::part::file as reduced;
use cupeer_record::launcher;
use cupeer_record::plain::{self, SymbolicLinks};
use cupeer_spec::env;
use cupeer_spec::record::faults::{self, RELEASE};
use cupeer_spec::record::{SUFFIX, armed, begun, job, live};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

/// Name of the subdirectory for vLLM's cache in the directory of a job: later runs must not reuse results that faults changed.
pub const VLLM_CACHE: &str = "vllm-cache";
/// Largest size of a file `job` that is read, in bytes: each run that takes part adds a line.
const MOST_BYTES: u64 = 1 << 20;

/// Returns the key of the job in a directory. If the directory has no job, starts one there, unless other files are in it.
pub fn join_or_start_job(directory: &Path, shared: bool) -> Result<String> {
    let shown = directory.display();
    let file = directory.join(job::FILE);
    for _ in 0..2 {
        match read_job_file(&file) {
            Ok(text) => {
                if !shared {
                    check_owner(&file, directory)?;
                }
                let failed = || format!("'{}' is not the file of a job", file.display());
                return read_key(&text).with_context(failed);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("failed to read '{}'", file.display())),
        }
        let mut entries = fs::read_dir(directory).with_context(|| format!("failed to read '{shown}'"))?.flatten();
        ensure!(
            entries.all(|entry| is_recording_file(&entry.file_name())),
            "'{shown}' holds files that are not a recording's; name a new or empty directory"
        );
        write_key(directory, &file, shared)
            .with_context(|| format!("failed to write into the recording's directory '{shown}'"))?;
    }
    bail!("'{}' disappeared while being created", file.display())
}

/// Returns true if the directory of a recording may contain a file of this name.
pub fn is_recording_file(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let (job, host) = ([RELEASE, job::HANG, job::MEMORY_SAMPLES], [live::PREFIX, faults::PREFIX, armed::PREFIX]);
    let begins = job.iter().chain(&host).chain(&[".", begun::FOLDER]).any(|prefix| name.starts_with(prefix));
    begins
        || [job::FILE, VLLM_CACHE].contains(&&*name)
        || [SUFFIX, reduced::SUFFIX].iter().any(|suffix| name.ends_with(suffix))
}

fn read_key(text: &str) -> Result<String> {
    let first = text.lines().next().unwrap_or_default();
    ensure!(
        first == job::FIRST_LINE,
        "it begins with '{}' instead of '{}'",
        first.chars().take(40).collect::<String>(),
        job::FIRST_LINE
    );
    let key = job::find_key_digits(text.as_bytes()).context("it has no key")?;
    ensure!(job::parse_key(key).is_some(), "its key is not 32 hexadecimal digits");
    Ok(String::from_utf8_lossy(key).into_owned())
}

/// Reads a file `job`, which any user may have put there.
pub fn read_job_file(file: &Path) -> io::Result<String> {
    plain::read(file, SymbolicLinks::Refused, MOST_BYTES).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Refuses a job that another user began: the owner of the key knows the handles behind the fingerprints. The owner of the
/// directory may begin it too, because containers often run as another user than the one that created the directory.
pub fn check_owner(file: &Path, directory: &Path) -> Result<()> {
    let (uid, owner) = (file.symlink_metadata()?.uid(), directory.metadata()?.uid());
    ensure!(
        [effective_user(), 0, owner].contains(&uid),
        "'{}' belongs to user {uid}, but the directory to user {owner}; use another directory, or --share \
         group if several users record together",
        file.display()
    );
    Ok(())
}

/// Writes a key, unless another run was faster. The file is written under a temporary name first, so that it appears
/// complete.
fn write_key(directory: &Path, file: &Path, shared: bool) -> Result<()> {
    let key = inherited_or_new_key()?;
    let mut new = tempfile::Builder::new().prefix(".job-").tempfile_in(directory)?;
    if shared {
        new.as_file().set_permissions(fs::Permissions::from_mode(0o660))?;
    }
    let run = launcher::own_line().map(|line| line + "\n").unwrap_or_default();
    new.write_all(format!("{}\n{}={key}\n{run}", job::FIRST_LINE, job::KEY).as_bytes())?;
    match new.persist_noclobber(file) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
            // The file system has no hard links.
            error.file.persist(file)?;
        }
        _ => {}
    }
    Ok(())
}

/// Returns the key that a surrounding `cupeer run` passed in the environment, or a new random key.
pub fn inherited_or_new_key() -> Result<String> {
    let outer = nonempty_variable(env::JOB).and_then(|key| key.into_string().ok());
    if let Some(key) = outer.filter(|key| job::parse_key(key.as_bytes()).is_some()) {
        return Ok(key);
    }
    let key: [u8; 16] = random_bytes().context("failed to make the key of the job")?;
    Ok(key.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns random bytes of the system.
pub fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Creates a temporary directory that only this user can read. Dropping the returned value removes the directory.
pub fn create_temporary_directory(prefix: &str) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(prefix).permissions(fs::Permissions::from_mode(0o700)).tempdir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_come_get_the_key_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("r");
        fs::create_dir(&directory).unwrap();
        let first = join_or_start_job(&directory, false).unwrap();
        assert_eq!(join_or_start_job(&directory, false).unwrap(), first);
        fs::write(directory.join(job::FILE), "something else\n").unwrap();
        assert!(format!("{:#}", join_or_start_job(&directory, false).unwrap_err()).contains("something else"));
    }

    #[test]
    fn files_of_a_job_do_not_make_a_directory_foreign() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "live-0123abcd",
            "faults-0123abcd-00000000",
            "armed-0123abcd-1000",
            "release-gate",
            ".job-7",
            "1-2-3.cupeer",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join(VLLM_CACHE)).unwrap();
        assert!(join_or_start_job(folder.path(), false).is_ok());
    }
}
