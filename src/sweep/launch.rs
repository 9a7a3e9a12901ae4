//! One run of the program: its environment, and what is seen of it from outside.

use super::plan::SweepPlan;
use super::processes::ProcessTree;
use anyhow::{Context, Result, anyhow};
use cupeer_console::interrupt;
use cupeer_console::variables::Environment;
use cupeer_launch::args::{CheckArgs, Level, Options};
use cupeer_launch::program::execution_failure;
use cupeer_launch::settings::LaunchSettings;
use cupeer_record::plain::{self, SymbolicLinks};
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

/// Time that the program's other processes get to end after the program has ended, before they are killed.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum number of characters of a line on stderr that is kept of a run; the rest is cut off.
const LONGEST_MESSAGE: usize = 160;
/// Maximum number of bytes of stderr that are read, from its end: a run may write gigabytes.
const MOST_STDERR: u64 = 1 << 20;

#[derive(serde::Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum RunEnd {
    Exited(u8),
    Killed(i32),
    /// The program was killed because its time was over.
    TimedOut,
}

/// Observations about a run from outside the program.
#[derive(Clone, Debug)]
pub struct RunResult {
    pub end: RunEnd,
    /// Hash and length of the program's stdout.
    pub output: (u64, u64),
    /// Last line on stderr that the program does not write without faults.
    pub stderr_line: Option<String>,
    pub leftover_processes: usize,
    pub time: Duration,
    /// Directory of the run, with its recording, stdout, and stderr.
    pub directory: PathBuf,
}

impl RunResult {
    pub fn recording_path(&self) -> PathBuf {
        self.directory.join(RECORD)
    }

    pub fn stdout_path(&self) -> PathBuf {
        self.directory.join(STDOUT)
    }
}

#[derive(Clone)]
pub struct RunLauncher {
    pub plan: SweepPlan,
    pub directory: PathBuf,
    pub timeout: Duration,
    /// Lines that the program writes to stderr without faults.
    pub usual_stderr: BTreeSet<String>,
    /// True if the files of all runs are kept.
    pub keeps: bool,
}

pub struct RunRequest<'a> {
    pub name: &'a str,
    pub rules: &'a str,
    pub is_dry: bool,
}

/// Minimum time limit of a run, and the factor between the duration without faults and the limit.
const DEFAULT_TIMEOUT: (Duration, u32) = (Duration::from_secs(10), 10);

impl RunLauncher {
    /// Returns a launcher for runs below a directory, with the time limit of the plan.
    pub fn new(plan: SweepPlan, directory: PathBuf, keeps: bool) -> RunLauncher {
        let timeout = plan.timeout.unwrap_or(Duration::MAX);
        RunLauncher { plan, directory, timeout, usual_stderr: BTreeSet::new(), keeps }
    }

    /// Sets the time limit from the duration of a run without faults, unless the plan has a limit.
    pub fn set_time_limit(&mut self, plain: Duration) {
        self.timeout = self.plan.timeout.unwrap_or((plain * DEFAULT_TIMEOUT.1).max(DEFAULT_TIMEOUT.0));
    }

    /// Runs the program once. Returns `None` if the sweep was interrupted during the run.
    pub fn run_program(&self, order: &RunRequest) -> Result<Option<RunResult>> {
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
        let environment = self.run_environment(&directory, order)?;
        let start = Instant::now();
        let program = &self.plan.program[0];
        let mut processes = ProcessTree::start(self.run_command(&directory, &environment)?)
            .map_err(|error| execution_failure(program.as_ref(), &error))?;
        let status = processes.wait_for_command(self.timeout)?;
        let left_over = processes.kill_remaining(status.map_or(Duration::ZERO, |_| GRACE))?;
        let time = start.elapsed();
        if interrupt::is_interrupted() {
            return Ok(None);
        }
        let output = hash_file(&directory.join(STDOUT))?;
        let said = self.unusual_stderr_line(&directory.join(STDERR));
        // If the program was killed because of its time limit, its processes do not count as left over.
        let left_over = if status.is_none() { 0 } else { left_over };
        let end = status.map_or(RunEnd::TimedOut, end_from_status);
        Ok(Some(RunResult { end, output, stderr_line: said, leftover_processes: left_over, time, directory }))
    }

    fn run_environment(&self, directory: &Path, order: &RunRequest) -> Result<Environment> {
        let check = CheckArgs { check: self.plan.is_checked.then_some(Level::Warnings), ..CheckArgs::default() };
        let options =
            Options { out: Some(directory.join(RECORD)), check, driver: self.plan.driver_args(), ..Options::default() };
        fault::FaultPlan::parse("sweep", order.rules)
            .map_err(|error| anyhow!("the plan '{}', {error}", order.rules))?;
        let settings = LaunchSettings::new(&options, Some(&OsString::from(&self.plan.program[0])))?;
        let mut environment = settings.apply_to(Environment::from_process())?;
        environment.set(env::INJECT, order.rules);
        environment.set(env::DRY_RUN, if order.is_dry { "1" } else { "0" });
        // An outer cupeer may have set these; its log would look like output of the program.
        for name in [env::FAULTS, env::STATUS, env::LOG, env::LOG_FILE] {
            environment.remove(name);
        }
        Ok(environment)
    }

    fn run_command(&self, directory: &Path, environment: &Environment) -> Result<Command> {
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
    fn unusual_stderr_line(&self, stderr: &Path) -> Option<String> {
        let mut lines = read_own_lines(stderr).into_iter();
        let line = lines.rfind(|line| !self.usual_stderr.contains(line))?;
        let end = line.char_indices().nth(LONGEST_MESSAGE).map_or(line.len(), |(at, _)| at);
        Some(line[..end].trim().to_owned())
    }
}

/// Returns the lines on stderr that the program itself wrote.
pub fn program_stderr_lines(ran: &RunResult) -> BTreeSet<String> {
    read_own_lines(&ran.directory.join(STDERR)).into_iter().collect()
}

/// Returns the lines of a file without empty ones and without cupeer's: those with its name, and indented ones after
/// them.
fn read_own_lines(stderr: &Path) -> Vec<String> {
    let text = read_last_bytes(stderr).unwrap_or_default();
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

fn read_last_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = plain::open(path, SymbolicLinks::Refused)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST_STDERR)))?;
    let mut bytes = Vec::new();
    file.take(MOST_STDERR).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn end_from_status(status: ExitStatus) -> RunEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => RunEnd::Exited(code as u8),
        (None, Some(signal)) => RunEnd::Killed(signal),
        (None, None) => RunEnd::Exited(0),
    }
}

/// Returns the hash and the length of a file.
fn hash_file(path: &Path) -> Result<(u64, u64)> {
    let file = plain::open(path, SymbolicLinks::Refused);
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
        let kept = read_own_lines(&path);
        assert_eq!(kept.last().map(String::as_str), Some("last"));
        assert_eq!(kept[kept.len() - 2], "line 199999");
        assert!((80_000..100_000).contains(&kept.len()), "{}", kept.len());
        fs::write(&path, said(3)).unwrap();
        assert_eq!(read_own_lines(&path), ["line 000000", "line 000001", "line 000002"]);
    }
}
