//! One run of the program: its environment, and what is seen of it from outside.

use super::interrupt;
use super::plan::Plan;
use super::processes::Processes;
use anyhow::{Context, Result, anyhow};
use cupeer_console::variables::Environment;
use cupeer_launch::args::{CheckArgs, Level, Options};
use cupeer_launch::program::cannot_run;
use cupeer_launch::settings::Settings;
use cupeer_record::plain::{self, Links};
use cupeer_recordings::sweeps::{RECORD, STDERR, STDOUT};
use cupeer_spec::{env, fault};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time in which other processes may end after the program has ended.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum length in bytes of the message that is kept of a run.
const LONGEST: usize = 160;
/// Maximum number of bytes of stderr that are read, from its end: a run may write gigabytes.
const MOST_SAID: u64 = 1 << 20;

#[derive(serde::Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum End {
    Exited(u8),
    Killed(i32),
    /// The program was killed because its time was over.
    TimedOut,
}

/// Observations about a run from outside the program.
#[derive(Clone, Debug)]
pub struct Ran {
    pub end: End,
    /// Hash and length of the program's stdout.
    pub output: (u64, u64),
    /// Last line on stderr that the program does not write without faults.
    pub said: Option<String>,
    pub left_over: usize,
    pub time: Duration,
    /// Directory of the run, with its recording, stdout, and stderr.
    pub directory: PathBuf,
}

impl Ran {
    pub fn record(&self) -> PathBuf {
        self.directory.join(RECORD)
    }

    pub fn stdout(&self) -> PathBuf {
        self.directory.join(STDOUT)
    }
}

#[derive(Clone)]
pub struct Launcher {
    pub plan: Plan,
    pub directory: PathBuf,
    pub timeout: Duration,
    /// Lines that the program writes to stderr without faults.
    pub usual: BTreeSet<String>,
    /// True if the files of all runs are kept.
    pub keeps: bool,
}

pub struct Order<'a> {
    pub name: &'a str,
    pub rules: &'a str,
    pub is_dry: bool,
}

/// Minimum time limit of a run, and the factor between the duration without faults and the limit.
const TIMEOUT: (Duration, u32) = (Duration::from_secs(10), 10);

impl Launcher {
    /// Returns a launcher for runs below a directory, with the time limit of the plan.
    pub fn new(plan: Plan, directory: PathBuf, keeps: bool) -> Launcher {
        let timeout = plan.timeout.unwrap_or(Duration::MAX);
        Launcher { plan, directory, timeout, usual: BTreeSet::new(), keeps }
    }

    /// Sets the time limit from the duration of a run without faults, unless the plan has a limit.
    pub fn limit(&mut self, plain: Duration) {
        self.timeout = self.plan.timeout.unwrap_or((plain * TIMEOUT.1).max(TIMEOUT.0));
    }

    /// Runs the program once. Returns `None` if the sweep was interrupted during the run.
    pub fn run(&self, order: &Order) -> Result<Option<Ran>> {
        let directory = self.directory.join(order.name);
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("failed to clear '{}'", directory.display()));
            }
            _ => fs::DirBuilder::new()
                .mode(0o700)
                .create(&directory)
                .with_context(|| format!("failed to make '{}'", directory.display()))?,
        }
        let environment = self.environment(&directory, order)?;
        let start = Instant::now();
        let program = &self.plan.program[0];
        let mut processes = Processes::start(self.command(&directory, &environment)?)
            .map_err(|error| cannot_run(program.as_ref(), &error))?;
        let status = processes.wait(self.timeout)?;
        let left_over = processes.clear_away(status.map_or(Duration::ZERO, |_| GRACE))?;
        let time = start.elapsed();
        if interrupt::is_set() {
            return Ok(None);
        }
        let output = hash(&directory.join(STDOUT))?;
        let said = self.said(&directory.join(STDERR));
        // If the program was killed because of its time limit, its processes do not count as left over.
        let left_over = if status.is_none() { 0 } else { left_over };
        let end = status.map_or(End::TimedOut, end);
        Ok(Some(Ran { end, output, said, left_over, time, directory }))
    }

    fn environment(&self, directory: &Path, order: &Order) -> Result<Environment> {
        let check =
            CheckArgs { check: self.plan.is_checked.then_some(Level::Warnings), ..CheckArgs::default() };
        let options = Options {
            out: Some(directory.join(RECORD)),
            check,
            driver: self.plan.driver(),
            ..Options::default()
        };
        fault::Plan::parse("sweep", order.rules)
            .map_err(|error| anyhow!("the plan '{}', {error}", order.rules))?;
        let settings = Settings::new(&options, Some(&OsString::from(&self.plan.program[0])))?;
        let mut environment = settings.apply(Environment::inherited())?;
        environment.set(env::INJECT, order.rules);
        environment.set(env::DRY_RUN, if order.is_dry { "1" } else { "0" });
        // An outer cupeer may have set these; its log would look like output of the program.
        for name in [env::FAULTS, env::STATUS, env::LOG, env::LOG_FILE] {
            environment.remove(name);
        }
        Ok(environment)
    }

    fn command(&self, directory: &Path, environment: &Environment) -> Result<Command> {
        let file = |name| {
            let path: PathBuf = directory.join(name);
            plain::create(&path, 0o600).with_context(|| format!("failed to make '{}'", path.display()))
        };
        let program = &self.plan.program;
        let mut command = Command::new(&program[0]);
        command
            .args(&program[1..])
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.plan.directory)
            .stdin(Stdio::null())
            .stdout(file(STDOUT)?)
            .stderr(file(STDERR)?);
        Ok(command)
    }

    /// Returns the last line on stderr that the program does not write without faults. cupeer's own lines do not
    /// count.
    fn said(&self, stderr: &Path) -> Option<String> {
        let mut lines = lines(stderr).into_iter();
        let line = lines.rfind(|line| !self.usual.contains(line))?;
        let end = line.char_indices().nth(LONGEST).map_or(line.len(), |(at, _)| at);
        Some(line[..end].trim().to_owned())
    }
}

/// Returns the lines on stderr that the program itself wrote.
pub fn own_lines(ran: &Ran) -> BTreeSet<String> {
    lines(&ran.directory.join(STDERR)).into_iter().collect()
}

/// Returns the lines of a file without empty ones and without cupeer's: those with its name, and indented ones after
/// them.
fn lines(stderr: &Path) -> Vec<String> {
    let text = last_bytes(stderr).unwrap_or_default();
    let mut is_ours = false;
    let mut lines = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        is_ours = line.starts_with("cupeer: ") || is_ours && line.starts_with("    ");
        if !is_ours && !line.trim().is_empty() {
            lines.push(line.into_owned());
        }
    }
    lines
}

fn last_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = plain::open(path, Links::Refused)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST_SAID)))?;
    let mut bytes = Vec::new();
    file.take(MOST_SAID).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn end(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code as u8),
        (None, Some(signal)) => End::Killed(signal),
        (None, None) => End::Exited(0),
    }
}

/// Returns the hash and the length of a file.
fn hash(path: &Path) -> Result<(u64, u64)> {
    let file = plain::open(path, Links::Refused);
    let mut file = file.with_context(|| format!("failed to read '{}'", path.display()))?;
    let (mut hasher, mut length, mut buffer) = (DefaultHasher::new(), 0, vec![0; 1 << 16]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((hasher.finish(), length));
        }
        hasher.write(&buffer[..read]);
        length += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_stderr_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stderr");
        let said = |count: usize| (0..count).map(|i| format!("line {i:06}\n")).collect::<String>();
        fs::write(&path, said(200_000) + "cupeer: a finding\n    at a place\n\nlast").unwrap();
        let kept = lines(&path);
        assert_eq!(kept.last().map(String::as_str), Some("last"));
        assert_eq!(kept[kept.len() - 2], "line 199999");
        assert!((80_000..100_000).contains(&kept.len()), "{}", kept.len());
        fs::write(&path, said(3)).unwrap();
        assert_eq!(lines(&path), ["line 000000", "line 000001", "line 000002"]);
    }
}
