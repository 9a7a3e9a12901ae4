//! The directory of a job: which one a run records to, and making it.
//!
//! All runs that name one directory are one job. What belongs here: the choice, and the directory; the file `job` in
//! it is [`cupeer_recordings::job`]'s. What does not: what the processes write there, and reading it.

pub use cupeer_recordings::job::{
    create_temporary_directory, inherited_or_new_key, is_recording_file, random_bytes, read_job_file,
};

use crate::args::{Options, Share};
use anyhow::{Context, Result, anyhow, bail};
use cupeer_console::output;
use cupeer_console::variables::nonempty_variable;
use cupeer_record::plain::{self, SymbolicLinks};
use cupeer_record::{StartedProgram, host, launcher};
use cupeer_recordings::home;
use cupeer_recordings::job::{VLLM_CACHE, check_owner, join_or_start_job};
use cupeer_report::names::counted;
use cupeer_spec::env::{self, RecordMode};
use cupeer_spec::placeholders::{AFTER, FileNamePart, parse_file_name};
use cupeer_spec::record::begun::HostFolder;
use cupeer_spec::record::end::{EndSpan, RecordedEnd};
use cupeer_spec::record::faults::{self, RELEASE};
use cupeer_spec::record::{self, Header, MAGIC, SUFFIX, armed, job};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::mem::offset_of;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Default extent of the recording.
const DEFAULT: &str = "auto";
/// Value of `--record` that turns recording off.
pub const OFF: &str = "off";

/// Known ends of processes with the spans of time in which they ended, by pid and start time.
pub type Ends = BTreeMap<(libc::pid_t, u64), (Option<RecordedEnd>, EndSpan)>;

/// The job to which a run records.
pub struct Job {
    pub directory: PathBuf,
    /// Path of the directory as the processes receive it; each process replaces its placeholders.
    pattern: OsString,
    /// Extent of the recording, as given to `--record`.
    pub extent: OsString,
    /// Key for the job's fingerprints, in hexadecimal digits.
    pub key: String,
    /// True if the directory's group may record to the job.
    pub shared: bool,
    is_new: bool,
    /// True if an outer cupeer chose the directory; that cupeer prints the summary.
    is_inherited: bool,
    /// True if the directory is in the default directory, because no option named a directory.
    is_in_default_directory: bool,
    /// Sentence about why the directory lies among temporary files; `None` if it does not.
    fallback_reason: Option<String>,
}

impl Job {
    /// Returns the job that the options request; `None` for no recording. If no option names a directory, the
    /// directory is named after `program`; without a program, nothing is recorded then.
    pub fn choose(options: &Options, program: Option<&OsStr>) -> Result<Option<Job>> {
        if let Some(kept) = &options.record {
            RecordMode::parse(kept).map_err(|why| anyhow!("--record {kept}: {why}"))?;
        }
        let kept = options.record.clone().map(OsString::from).or_else(|| nonempty_variable(env::RECORD));
        if kept.as_deref() == Some(OsStr::new(OFF)) {
            if let (Some(directory), true) = (&options.out, options.record.is_some()) {
                bail!("--out '{}' and --record off contradict each other", directory.display());
            }
            if options.out.is_none() {
                return Ok(None);
            }
        }
        let kept = kept.filter(|kept| kept != OFF).unwrap_or_else(|| DEFAULT.into());
        let shared =
            options.share == Some(Share::Group) || nonempty_variable(env::SHARE).is_some_and(|share| share == "group");
        let named = match (&options.out, nonempty_variable(env::OUT), program) {
            (Some(pattern), _, Some(_)) => expand_placeholders(pattern)?,
            (Some(pattern), _, None) => {
                // Another launcher starts the program, and each process replaces the placeholders by its own values.
                let (has_placeholder, has_variable) = find_placeholders(pattern);
                let expanded = expand_placeholders(pattern)
                    .or_else(|error| if has_variable { Ok(PathBuf::new()) } else { Err(error) })?;
                if has_placeholder {
                    let directory = std::path::absolute(pattern)?;
                    let (key, pattern) = (inherited_or_new_key()?, directory.clone().into_os_string());
                    return Ok(Some(Job::new(directory, pattern, kept, key, shared)));
                }
                expanded
            }
            // The job of an outer cupeer, read in the same way as the preload library does.
            (None, Some(directory), _) => {
                let (key, pattern) = (inherited_or_new_key()?, directory.clone());
                let job = Job::new(directory.into(), pattern, kept, key, shared);
                return Ok(Some(Job { is_inherited: true, ..job }));
            }
            (None, None, Some(program)) => {
                if options.share.is_some() {
                    bail!("--share needs --out DIR: nobody else reaches your own records");
                }
                return Ok(create_in_default_directory(program, &kept));
            }
            (None, None, None) => return Ok(None),
        };
        let directory = std::path::absolute(&named).with_context(|| format!("--out '{}'", named.display()))?;
        let parents = directory.parent().map_or(Ok(()), fs::create_dir_all);
        let is_new = parents
            .and_then(|()| create_directory(&directory, shared))
            .with_context(|| format!("failed to make the recording's directory '{}'", named.display()))?;
        let job = Job::open_directory(directory, kept, shared, is_new)?;
        if !is_new {
            job.note_joined_run();
        }
        Ok(Some(job))
    }

    /// Notes in the job file that another run records to the job, so that no run believes that it is the only one.
    fn note_joined_run(&self) {
        let run = launcher::own_line().map(|line| line + "\n").unwrap_or_default();
        self.append_lines(&format!("{}={}:{}\n{run}", job::JOINED, host_name().display(), std::process::id()));
    }

    /// Adds lines to the job file, which all runs share.
    fn append_lines(&self, lines: &str) {
        // A process that may not write to the job file may still record.
        let _ = self.try_to_append(lines);
    }

    fn try_to_append(&self, lines: &str) -> std::io::Result<()> {
        append_to_job_file(&self.directory, lines)
    }

    /// Returns true if this run created the job, and no other run joined it.
    pub fn is_ours_alone(&self) -> bool {
        let text = read_job_file(&self.directory.join(job::FILE)).unwrap_or_default();
        self.is_new && !text.lines().any(|line| line.starts_with(job::JOINED))
    }

    /// Returns true if an outer cupeer prints the summary.
    pub fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Returns the job of an existing directory.
    fn open_directory(directory: PathBuf, kept: OsString, shared: bool, is_new: bool) -> Result<Job> {
        let key = join_or_start_job(&directory, shared)?;
        let pattern = without_placeholders(&directory);
        Ok(Job { is_new, ..Job::new(directory, pattern, kept, key, shared) })
    }

    fn new(directory: PathBuf, pattern: OsString, kept: OsString, key: String, shared: bool) -> Job {
        let (is_new, is_inherited, is_at_home, displaced) = (false, false, false, None);
        Job {
            directory,
            pattern,
            extent: kept,
            key,
            shared,
            is_new,
            is_inherited,
            is_in_default_directory: is_at_home,
            fallback_reason: displaced,
        }
    }

    /// Returns true if the recording is in the default directory, where cupeer deletes old recordings.
    pub fn is_in_default_directory(&self) -> bool {
        self.is_in_default_directory
    }

    /// Returns a sentence about the place of the directory if it lies among temporary files.
    pub fn fallback_reason(&self) -> Option<&str> {
        self.fallback_reason.as_deref()
    }

    /// Adds to the recordings of processes how and when the processes ended, because only the parent sees the signal that
    /// killed a process. If a process executed several programs, the end goes to the recording of the last one. `program` is
    /// the program of the started process, whose end is noted in the job file if that process has no recording.
    pub fn note_ends(&self, program: &OsStr, started: (libc::pid_t, u64), ends: &Ends) {
        let (Some(boot), Some(namespace)) = (host::boot_id(), host::pid_ns()) else { return };
        // Another host may have a process with the same pid and start time.
        let of_host = format!("{}-{namespace}-", host::short_boot_id(boot));
        let folder = self.directory.join(HostFolder(boot).to_string());
        let files = [&self.directory, &folder].into_iter().flat_map(fs::read_dir).flatten().flatten();
        let mut last = HashMap::<_, (u32, PathBuf)>::new();
        for path in files.map(|file| file.path()) {
            let name = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_suffix(SUFFIX));
            let Some(numbers) = name.and_then(|name| name.strip_prefix(&of_host)) else { continue };
            let mut numbers = numbers.split('-').map(str::parse::<u64>);
            if let (Some(Ok(pid)), Some(Ok(started))) = (numbers.next(), numbers.next()) {
                let image = (numbers.next().and_then(Result::ok).unwrap_or(0) as u32, path);
                let process = last.entry((pid as libc::pid_t, started)).or_default();
                *process = image.max(std::mem::take(process));
            }
        }
        for (process, (end, span)) in ends {
            if let Some((_, path)) = last.get(process) {
                if let Err(error) = write_end(path, *end, *span) {
                    tracing::debug!("{}: its process's end cannot be written: {error}", path.display());
                }
            } else if let Some(end) = end.filter(|_| *process == started) {
                // The process made no call (a shell that starts other programs, for example), or shared nothing in a large
                // job.
                let program = Path::new(program).file_name().unwrap_or(program);
                let program = program.to_string_lossy().into_owned();
                self.append_lines(&(StartedProgram { program, end }.to_line() + "\n"));
            }
        }
    }

    /// Notes in the recording the number of processes of a run that could not record everything, and how many of these have no
    /// recording at all.
    pub fn note_losses(&self, lost: u32, missing: u32) {
        let line = |name, processes| if processes > 0 { format!("{name}={processes}\n") } else { String::new() };
        let lines = line(job::LOST, lost) + &line(job::MISSING, missing);
        if let Err(error) = self.try_to_append(&lines) {
            let which = counted(lost.into(), "process");
            output::print_problem(&format!(
                "cannot note in the recording that {which} could not record everything: {error}"
            ));
        }
    }

    /// Notes the command of a run in the recording, unless the recording belongs to an outer cupeer.
    pub fn note_command(&self, command: &str) {
        if !self.is_inherited {
            self.append_lines(&format!("{}={}\n", job::COMMAND, command.replace(char::is_control, "?")));
        }
    }

    /// Notes in the recording that a process used a driver without the preload library.
    pub fn note_bypass(&self, process: &str, driver: &Path) {
        let driver = driver.to_string_lossy().replace(char::is_control, "?");
        self.append_lines(&format!("{}={process} {driver}\n", job::BYPASSED));
    }

    /// Notes that a run ended with something worth examining: such recordings are kept longer.
    pub fn note_notable(&self) {
        self.append_lines(&format!("{}=1\n", job::NOTABLE));
    }

    /// Returns the variables that make a process record to the job.
    pub fn recording_variables(&self) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![
            (env::OUT, self.pattern.clone()),
            (env::RECORD, self.extent.clone()),
            (env::JOB, self.key.clone().into()),
        ];
        if self.shared {
            variables.push((env::SHARE, "group".into()));
        }
        variables
    }

    pub fn make_vllm_cache(&self) -> Result<PathBuf> {
        let place = self.directory.join(VLLM_CACHE);
        let failed = || format!("failed to make '{}' for vLLM's cache", place.display());
        if place.is_symlink() {
            return Err(anyhow!("it is a link")).with_context(failed);
        }
        create_directory(&place, self.shared).with_context(failed)?;
        if !self.shared {
            check_owner(&place, &self.directory)?;
        }
        Ok(place)
    }

    /// Removes the directory if this run made it, no other run joined it, and no process recorded anything. Returns true if it
    /// is gone.
    pub fn remove_if_empty(&self) -> bool {
        // Other runs of the job still need the key, the job file, and their fault plans.
        if !self.is_ours_alone() {
            return false;
        }
        // The directory is created before anybody knows whether it will be needed. If it contains something, it stays.
        let _ = fs::remove_dir(self.directory.join(VLLM_CACHE));
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        // Counts of faults that matched no driver call were read before.
        let is_beside = |name: &OsStr| {
            [RELEASE, faults::PREFIX, armed::PREFIX, job::MEMORY_SAMPLES]
                .iter()
                .any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
        };
        let is_record = |name: &OsStr| name != job::FILE && !is_beside(name);
        let names: Vec<OsString> = entries.map(|entry| entry.file_name()).collect();
        if names.iter().any(|name| is_record(name)) {
            return false;
        }
        for name in names.iter().filter(|name| **name != job::FILE) {
            let _ = fs::remove_file(self.directory.join(name));
        }
        // If this fails, an empty directory remains, which is harmless.
        let _ = fs::remove_file(self.directory.join(job::FILE));
        fs::remove_dir(&self.directory).is_ok()
    }
}

/// Returns a path as a pattern without placeholders, for processes that replace placeholders.
pub fn without_placeholders(path: &Path) -> OsString {
    let mut pattern = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        pattern.extend(if *byte == b'%' { &b"%%"[..] } else { std::slice::from_ref(byte) });
    }
    OsString::from_vec(pattern)
}

/// Creates a directory in the default directory or, if that is not writable, among temporary files. Nobody requested this
/// recording, so a failure does not stop the program.
fn create_in_default_directory(program: &OsStr, kept: &OsStr) -> Option<Job> {
    let begin = |directory: PathBuf| {
        let job = Job::open_directory(directory.clone(), kept.to_owned(), false, true);
        job.inspect_err(|_| drop(fs::remove_dir(&directory)))
    };
    let why = match home::create_numbered_directory("", program, |directory| create_directory(directory, false))
        .and_then(begin)
    {
        Ok(job) => return Some(Job { is_in_default_directory: true, ..job }),
        Err(why) => why,
    };
    let prefix = format!("cupeer-{}-", home::plain_program_name(program));
    match create_temporary_directory(&prefix).map_err(anyhow::Error::from).and_then(|made| begin(made.keep())) {
        Ok(job) => {
            let shown = job.directory.display();
            let displaced = Some(format!("the recording is in {shown}, because {why:#}"));
            Some(Job { fallback_reason: displaced, ..job })
        }
        Err(error) => {
            cupeer_console::output::print_problem(&format!(
                "not recording: {why:#}, nor can a temporary directory: {error:#}; use --out DIR for another place"
            ));
            None
        }
    }
}

/// Notes in a recording that a launcher received a signal from outside of its run, or itself sends a signal to end the run.
/// The sender is given by its pid and name, which is [`cupeer_report::endings::OURSELVES`] for cupeer itself.
pub fn note_signal(directory: &Path, signal: i32, sender: u32, name: &str) {
    let asked = launcher::ReceivedSignal::received_now(signal as u8, sender, name);
    // A process that may not write to the job file may still record.
    let _ = asked.map(|asked| append_to_job_file(directory, &(asked.to_line() + "\n")));
}

fn append_to_job_file(directory: &Path, lines: &str) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let file = directory.join(job::FILE);
    let file = plain::open_with(&file, SymbolicLinks::Refused, fs::OpenOptions::new().append(true));
    file.and_then(|mut file| file.write_all(lines.as_bytes()))
}

/// Creates a directory; returns true if it did not exist before.
fn create_directory(directory: &Path, shared: bool) -> io::Result<bool> {
    let mode = if shared { 0o2770 } else { 0o700 };
    match fs::DirBuilder::new().mode(mode).create(directory) {
        Ok(()) => {
            if shared {
                // The umask may have removed permissions. Somebody may have replaced the directory by a link.
                let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
                let made = fs::OpenOptions::new().read(true).custom_flags(flags).open(directory)?;
                made.set_permissions(fs::Permissions::from_mode(mode))?;
            }
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Adds to the recording of a process how and when the process ended.
fn write_end(path: &Path, end: Option<RecordedEnd>, span: EndSpan) -> io::Result<()> {
    if span.before == 0 {
        return Ok(());
    }
    let file = plain::open_with(path, SymbolicLinks::Refused, fs::OpenOptions::new().read(true).write(true))?;
    let mut bytes = [0; size_of::<Header>()];
    file.read_exact_at(&mut bytes, 0)?;
    let Some(header) = record::read_plain::<Header>(&bytes).filter(|header| header.magic == MAGIC) else {
        return Ok(());
    };
    let span = header.ended.combine(span);
    file.write_all_at(&[span.after, span.before].map(u64::to_le_bytes).concat(), offset_of!(Header, ended) as u64)?;
    let Some(end) = end else { return Ok(()) };
    let word = end.combine_with_recorded(RecordedEnd::from_word(header.end)).to_word();
    file.write_all_at(&word.to_le_bytes(), offset_of!(Header, end) as u64)
}

/// Returns two flags about a pattern: true if it has any placeholder, and true if it has one for a variable.
fn find_placeholders(pattern: &Path) -> (bool, bool) {
    let pieces = || parse_file_name(pattern.as_os_str().as_bytes());
    let is_variable = |piece: FileNamePart| matches!(piece, FileNamePart::Variable(_));
    (pieces().any(|piece| !matches!(piece, FileNamePart::Text(_))), pieces().any(is_variable))
}

/// Returns the path that results when this process replaces the placeholders of a pattern.
fn expand_placeholders(pattern: &Path) -> Result<PathBuf> {
    let shown = pattern.display();
    let mut out = Vec::new();
    for piece in parse_file_name(pattern.as_os_str().as_bytes()) {
        match piece {
            FileNamePart::Text(text) => out.extend(text),
            FileNamePart::Pid => out.extend(std::process::id().to_string().bytes()),
            FileNamePart::Host => out.extend(host_name().as_bytes()),
            FileNamePart::Variable(name) => {
                let name = OsStr::from_bytes(name);
                let value = std::env::var_os(name)
                    .with_context(|| format!("--out '{shown}': the variable {} is not set", name.display()))?;
                out.extend(value.as_bytes());
            }
            FileNamePart::Stray => bail!("--out '{shown}': {AFTER}"),
        }
    }
    if out.is_empty() {
        bail!("--out '{shown}': the name is empty");
    }
    Ok(PathBuf::from(OsString::from_vec(out)))
}

fn host_name() -> OsString {
    let name = fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    OsString::from_vec(name.trim_ascii_end().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_becomes_nothing_is_refused() {
        assert!(expand_placeholders(Path::new("")).unwrap_err().to_string().ends_with("the name is empty"));
    }

    #[test]
    fn a_directory_goes_where_nothing_was_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let job = |name: &str| {
            let directory = folder.path().join(name);
            assert!(create_directory(&directory, false).unwrap());
            fs::create_dir(directory.join(VLLM_CACHE)).unwrap();
            fs::write(directory.join("release-gate"), "").unwrap();
            Job::open_directory(directory, DEFAULT.into(), false, true).unwrap()
        };
        let nothing = job("nothing");
        assert!(nothing.remove_if_empty() && !nothing.directory.exists());
        let counted = job("counted");
        fs::write(counted.directory.join("faults-0123abcd-00000000"), "").unwrap();
        assert!(counted.remove_if_empty() && !counted.directory.exists());
        let cached = job("cached");
        fs::write(cached.directory.join(VLLM_CACHE).join("p2p.json"), "").unwrap();
        assert!(!cached.remove_if_empty() && cached.directory.join(VLLM_CACHE).exists());
    }
}
