//! The default directory, for recordings and sweeps without a given path: its place, the names in it, and their meaning.
//! [`crate::kept`] describes and removes its entries.

use crate::script;
use anyhow::{Context, Result, bail, ensure};
use cupeer_console::startup::user;
use cupeer_console::variables::inherited;
use cupeer_spec::names::nearest;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

const MOST_TRIED: u32 = 100_000;
/// The longest part of a program's name that a record has.
const LONGEST: usize = 64;

/// Returns the path of the directory, which may not exist. For users without a HOME, it is a temporary directory.
pub fn path() -> Result<PathBuf> {
    if let Some(state) = of_user("XDG_STATE_HOME", ".local/state") {
        return Ok(state.join("cupeer"));
    }
    let outer = std::env::temp_dir().join(format!("cupeer-{}", user()));
    let home = outer.join("records");
    // Another user may have created them.
    for directory in [&outer, &home].into_iter().filter(|it| it.symlink_metadata().is_ok()) {
        check(directory)?;
    }
    Ok(home)
}

/// Fails if other users can write to a directory.
fn check(directory: &Path) -> Result<()> {
    let shown = directory.display();
    let about = directory.symlink_metadata().with_context(|| format!("'{shown}' cannot be read"))?;
    ensure!(about.uid() == user(), "'{shown}' belongs to user {}", about.uid());
    ensure!(about.mode() & 0o022 == 0 || about.is_symlink(), "others can write to '{shown}'");
    Ok(())
}

/// A directory of the user's by its variable, or below HOME. Variables that are not absolute paths do not count, as the XDG
/// specification has it; nor does a HOME that is not there: some users have one that is not to be, such as /nonexistent.
pub fn of_user(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name| inherited(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").filter(|home| home.is_dir());
    absolute(variable).or_else(|| Some(home()?.join(below_home)))
}

/// Creates the directory if it does not exist. It belongs to the user alone: cupeer trusts its contents, and removes them.
fn made() -> Result<PathBuf> {
    let home = path()?;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&home);
    made.with_context(|| format!("'{}' cannot be made", home.display()))?;
    check(&home.canonicalize().with_context(|| format!("'{}' cannot be read", home.display()))?)?;
    Ok(home)
}

/// Creates the next directory PREFIXPROGRAM-N. N is larger than that of all others, so the newest has the largest number.
pub fn new_directory(
    prefix: &str,
    program: &OsStr,
    make: impl Fn(&Path) -> io::Result<bool>,
) -> Result<PathBuf> {
    let home = made()?;
    let stem = format!("{prefix}{}", recognisable(program));
    let first = names(&home).filter_map(|name| number(&name)).max().unwrap_or(0).saturating_add(1);
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

/// Name of the file in the default directory that names the program of the last run that recorded nothing.
pub const LAST: &str = ".last-without-record";

/// Notes that a run recorded nothing, so that an earlier recording is not taken for its own.
pub fn note_unrecorded(program: &OsStr) {
    let note = |home: PathBuf| fs::write(home.join(LAST), recognisable(program));
    if let Err(error) = path().map_err(io::Error::other).and_then(note) {
        tracing::debug!("failed to note that the run recorded nothing: {error}");
    }
}

/// Returns a notice about a lasting state, unless it was printed in the last day: then only `-v` prints it. `name` is that of
/// the file that notes the time.
pub fn standing(name: &str, notice: String) -> Option<String> {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let home = path().and_then(|home| check(&home).map(|()| home));
    let Ok(file) = home.map(|home| home.join(format!(".told-{name}"))) else { return Some(notice) };
    let told = fs::symlink_metadata(&file).and_then(|about| about.modified()).ok();
    if told.and_then(|at| at.elapsed().ok()).is_some_and(|age| age < DAY) {
        tracing::debug!("{notice}");
        return None;
    }
    // If this fails, the notice is printed again.
    let _ = fs::write(file, "");
    Some(notice)
}

/// Returns the name of a program as the beginning of a directory name that needs no quotes.
pub fn recognisable(program: &OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let plain = |c: char| if c.is_alphanumeric() || "._+-".contains(c) { c } else { '_' };
    let name: String = name.trim_start_matches(['-', '.']).chars().take(LONGEST).map(plain).collect();
    if name.is_empty() { "program".to_owned() } else { name }
}

pub fn names(home: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// The number at the end of a name that cupeer gave.
pub fn number(name: &str) -> Option<u64> {
    let (_, digits) = name.rsplit_once('-')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Returns the path that a word on the command line means: an existing path or, if there is none or only a program, the
/// recording in the default directory of that name or number, or the newest one of that program. A path inside it may follow,
/// such as a run of a sweep.
pub fn find(named: &Path) -> Result<PathBuf> {
    let is_one_word = named.components().count() == 1;
    let newest = || path().ok().and_then(|home| newest(&home, named));
    if named.symlink_metadata().is_ok() {
        return Ok(newest().filter(|_| script::is_program(named)).unwrap_or_else(|| named.to_owned()));
    }
    let is_name = named.components().all(|part| matches!(part, Component::Normal(_)));
    let Some(home) = path().ok().filter(|_| is_name) else { return Ok(named.to_owned()) };
    let at_home = home.join(named);
    if at_home.symlink_metadata().is_ok() {
        return Ok(at_home);
    }
    let mut parts = named.components();
    let first = parts.next().and_then(|part| part.as_os_str().to_str()).unwrap_or_default();
    let mut of_number: Vec<String> =
        names(&home).filter(|name| number(name).is_some_and(|number| number.to_string() == first)).collect();
    match &mut of_number[..] {
        [] if is_one_word => newest().with_context(|| {
            let names: Vec<String> = names(&home).filter(|name| number(name).is_some()).collect();
            let programs = names.iter().filter_map(|name| name.rsplit_once('-')).map(|(program, _)| program);
            let meant = nearest(first, names.iter().map(String::as_str).chain(programs));
            let hint = meant.map_or_else(
                || " ('cupeer ls' lists them)".to_owned(),
                |meant| format!("; did you mean '{meant}'?"),
            );
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
fn newest(home: &Path, program: &Path) -> Option<PathBuf> {
    let stem = recognisable(&script::name(&[program.into()]));
    let of_it = |name: &String| name.rsplit_once('-').is_some_and(|(program, _)| program == stem);
    let name = names(home).filter(of_it).max_by_key(|name| number(name))?;
    number(&name).map(|_| home.join(name))
}

/// Returns the argument that a user would type after `cupeer report`: the name of a recording in the default directory, or a
/// path.
pub fn shown(directory: &Path) -> String {
    let at_home = path().ok().and_then(|home| directory.strip_prefix(home).ok().map(Path::to_owned));
    let leads_there =
        |name: &PathBuf| !name.as_os_str().is_empty() && find(name).is_ok_and(|found| found == directory);
    at_home.filter(leads_there).map_or_else(|| place(directory), |name| name.display().to_string())
}

/// Returns the path of a directory: from the current directory if it is below, or absolute.
pub fn place(directory: &Path) -> String {
    let here = std::env::current_dir().ok();
    let from_here = here.and_then(|here| directory.strip_prefix(here).ok());
    from_here.filter(|path| !path.as_os_str().is_empty()).unwrap_or(directory).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_nobody_has_to_quote() {
        let names = ["./app", "/opt/a b$c.py", "-rf", "..", "", "\u{e9}t\u{e9}"]
            .map(|name| recognisable(name.as_ref()));
        assert_eq!(names, ["app", "a_b_c.py", "rf", "program", "program", "\u{e9}t\u{e9}"]);
        assert_eq!(recognisable("x".repeat(500).as_ref()).len(), LONGEST);
    }

    #[test]
    fn a_number_stands_at_the_end_of_a_name() {
        let numbers = ["app-12", "a-1-2", "app", "app-", "app-x1", "app-99999999999999999999"].map(number);
        assert_eq!(numbers, [Some(12), Some(2), None, None, None, None]);
    }
}
