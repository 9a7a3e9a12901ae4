//! The default directory, for recordings and sweeps without a given path: its path, and the names of its entries.
//! [`crate::kept`] describes and removes its entries.

use crate::script;
use anyhow::{Context, Result, bail, ensure};
use cupeer_console::startup::effective_user;
use cupeer_console::variables::nonempty_variable;
use cupeer_spec::names::find_nearest_name;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Number of numbers that are tried for the name of a new directory.
const MOST_TRIED: u32 = 100_000;
/// Largest number of characters of a program's name in the name of its recording.
const MOST_NAME_CHARS: usize = 64;

/// Returns the path of the default directory, which may not exist yet. For users without a HOME, it is in the directory for
/// temporary files.
pub fn default_directory() -> Result<PathBuf> {
    if let Some(state) = user_directory("XDG_STATE_HOME", ".local/state") {
        return Ok(state.join("cupeer"));
    }
    let outer = std::env::temp_dir().join(format!("cupeer-{}", effective_user()));
    let home = outer.join("records");
    // Other users can create files there, too.
    for directory in [&outer, &home].into_iter().filter(|it| it.symlink_metadata().is_ok()) {
        check_private(directory)?;
    }
    Ok(home)
}

/// Fails if other users can write to a directory.
fn check_private(directory: &Path) -> Result<()> {
    let shown = directory.display();
    let about = directory.symlink_metadata().with_context(|| format!("'{shown}' cannot be read"))?;
    ensure!(about.uid() == effective_user(), "'{shown}' belongs to user {}", about.uid());
    ensure!(about.mode() & 0o022 == 0 || about.is_symlink(), "others can write to '{shown}'");
    Ok(())
}

/// Returns a directory of the user: the value of an environment variable, or a path below HOME. Values that are not absolute
/// paths are ignored, as the XDG specification requires. A HOME that does not exist is ignored, too: system users have
/// /nonexistent.
pub fn user_directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name| nonempty_variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").filter(|home| home.is_dir());
    absolute(variable).or_else(|| Some(home()?.join(below_home)))
}

/// Creates the default directory if it does not exist. Only this user may write to it: cupeer trusts and removes its contents.
fn create_home() -> Result<PathBuf> {
    let home = default_directory()?;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&home);
    made.with_context(|| format!("'{}' cannot be made", home.display()))?;
    check_private(&home.canonicalize().with_context(|| format!("'{}' cannot be read", home.display()))?)?;
    Ok(home)
}

/// Creates the next directory PREFIXPROGRAM-N in the default directory. N is larger than the numbers of all other entries, so the
/// newest entry has the largest number. `make` returns false if the directory exists already.
pub fn create_numbered_directory(
    prefix: &str,
    program: &OsStr,
    make: impl Fn(&Path) -> io::Result<bool>,
) -> Result<PathBuf> {
    let home = create_home()?;
    let stem = format!("{prefix}{}", plain_program_name(program));
    let first = names(&home).filter_map(|name| number_in_name(&name)).max().unwrap_or(0).saturating_add(1);
    for number in (first..).take(MOST_TRIED as usize) {
        let directory = home.join(format!("{stem}-{number}"));
        match make(&directory) {
            Ok(true) => return Ok(directory),
            Ok(false) => {}
            Err(error) => return Err(error).context(format!("'{}' cannot be made", directory.display())),
        }
    }
    bail!("there are too many directories '{}-N'", home.join(stem).display())
}

/// Name of the file in the default directory that contains the name of the last program whose run recorded nothing.
pub const LAST_UNRECORDED: &str = ".last-without-record";

/// Stores that a run of a program recorded nothing, so that reports do not take an earlier recording for that of this run.
pub fn note_unrecorded(program: &OsStr) {
    let note = |home: PathBuf| fs::write(home.join(LAST_UNRECORDED), plain_program_name(program));
    if let Err(error) = default_directory().map_err(io::Error::other).and_then(note) {
        tracing::debug!("failed to note that the run recorded nothing: {error}");
    }
}

/// Returns a notice about a lasting state, or `None` if it was printed in the last 24 hours: then only `-v` prints the notice.
/// `name` is a part of the name of the file whose time says when the notice was last printed.
pub fn notice_once_a_day(name: &str, notice: String) -> Option<String> {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let home = default_directory().and_then(|home| check_private(&home).map(|()| home));
    let Ok(file) = home.map(|home| home.join(format!(".told-{name}"))) else { return Some(notice) };
    let told = fs::symlink_metadata(&file).and_then(|about| about.modified()).ok();
    if told.and_then(|at| at.elapsed().ok()).is_some_and(|age| age < DAY) {
        tracing::debug!("{notice}");
        return None;
    }
    // If the file cannot be written, the next run prints the notice again.
    let _ = fs::write(file, "");
    Some(notice)
}

/// Returns the name of a program as the beginning of a directory name that needs no quotes.
pub fn plain_program_name(program: &OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let plain = |c: char| if c.is_alphanumeric() || "._+-".contains(c) { c } else { '_' };
    let name: String = name.trim_start_matches(['-', '.']).chars().take(MOST_NAME_CHARS).map(plain).collect();
    if name.is_empty() { "program".to_owned() } else { name }
}

/// Returns the names of all entries of the default directory.
pub fn names(home: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Returns the number at the end of a name that cupeer gave, such as 12 for `app-12`; `None` for other names.
pub fn number_in_name(name: &str) -> Option<u64> {
    let (_, digits) = name.rsplit_once('-')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Returns the path that a word on the command line means: an existing path or, if the path does not exist or is a program, a
/// recording in the default directory: with that name, with that number, or the newest recording of that program. A path inside
/// the recording may follow the name or number, such as a run of a sweep.
pub fn find_recording(named: &Path) -> Result<PathBuf> {
    let is_one_word = named.components().count() == 1;
    let newest = || default_directory().ok().and_then(|home| newest_of_program(&home, named));
    if named.symlink_metadata().is_ok() {
        return Ok(newest().filter(|_| script::is_program(named)).unwrap_or_else(|| named.to_owned()));
    }
    let is_name = named.components().all(|part| matches!(part, Component::Normal(_)));
    let Some(home) = default_directory().ok().filter(|_| is_name) else { return Ok(named.to_owned()) };
    let at_home = home.join(named);
    if at_home.symlink_metadata().is_ok() {
        return Ok(at_home);
    }
    let mut parts = named.components();
    let first = parts.next().and_then(|part| part.as_os_str().to_str()).unwrap_or_default();
    let mut of_number: Vec<String> =
        names(&home).filter(|name| number_in_name(name).is_some_and(|number| number.to_string() == first)).collect();
    match &mut of_number[..] {
        [] if is_one_word => newest().with_context(|| {
            let names: Vec<String> = names(&home).filter(|name| number_in_name(name).is_some()).collect();
            let programs = names.iter().filter_map(|name| name.rsplit_once('-')).map(|(program, _)| program);
            let meant = find_nearest_name(first, names.iter().map(String::as_str).chain(programs));
            let hint = meant
                .map_or_else(|| " ('cupeer ls' lists them)".to_owned(), |meant| format!("; did you mean '{meant}'?"));
            format!("there is no '{first}' here, and no recording of that name{hint}")
        }),
        [] => Ok(named.to_owned()),
        [name] => Ok(home.join(&*name).components().chain(parts).collect()),
        several => {
            several.sort();
            bail!("'{first}' may be {}; name one", several.join(" or "))
        }
    }
}

/// Returns the newest recording in the default directory that is named after a program.
fn newest_of_program(home: &Path, program: &Path) -> Option<PathBuf> {
    let stem = plain_program_name(&script::name_of_command(&[program.into()]));
    let of_it = |name: &String| name.rsplit_once('-').is_some_and(|(program, _)| program == stem);
    let name = names(home).filter(of_it).max_by_key(|name| number_in_name(name))?;
    number_in_name(&name).map(|_| home.join(name))
}

/// Returns the argument that a user would type after `cupeer report` for a directory: its name if it is a recording in the
/// default directory, or else its path.
pub fn report_argument(directory: &Path) -> String {
    let at_home = default_directory().ok().and_then(|home| directory.strip_prefix(home).ok().map(Path::to_owned));
    let leads_there =
        |name: &PathBuf| !name.as_os_str().is_empty() && find_recording(name).is_ok_and(|found| found == directory);
    at_home.filter(leads_there).map_or_else(|| relative_path(directory), |name| name.display().to_string())
}

/// Returns the path of a directory: relative if it is below the current directory, or else as given.
pub fn relative_path(directory: &Path) -> String {
    let here = std::env::current_dir().ok();
    let from_here = here.and_then(|here| directory.strip_prefix(here).ok());
    from_here.filter(|path| !path.as_os_str().is_empty()).unwrap_or(directory).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_nobody_has_to_quote() {
        let names =
            ["./app", "/opt/a b$c.py", "-rf", "..", "", "\u{e9}t\u{e9}"].map(|name| plain_program_name(name.as_ref()));
        assert_eq!(names, ["app", "a_b_c.py", "rf", "program", "program", "\u{e9}t\u{e9}"]);
        assert_eq!(plain_program_name("x".repeat(500).as_ref()).len(), MOST_NAME_CHARS);
    }

    #[test]
    fn a_number_stands_at_the_end_of_a_name() {
        let numbers = ["app-12", "a-1-2", "app", "app-", "app-x1", "app-99999999999999999999"].map(number_in_name);
        assert_eq!(numbers, [Some(12), Some(2), None, None, None, None]);
    }
}
