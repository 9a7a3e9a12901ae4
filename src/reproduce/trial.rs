//! A run of the C file: compiled against declarations that derive from the table, and recorded and checked by cupeer itself.

use crate::declarations::declare_used;
use anyhow::{Context, Result, bail};
use cupeer_console::interrupt;
use cupeer_console::startup::own_command;
use cupeer_launch::args::DriverArgs;
use cupeer_launch::driver::choose_driver;
use cupeer_record::Job;
use cupeer_report::Keep;
use cupeer_report::filter::Filter;
use cupeer_report::model::Finding;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Interval between two looks at a running program.
const INTERVAL: Duration = Duration::from_millis(5);
/// Shorter time limits than those of the written file: the simulated driver needs milliseconds.
const LIMITS: [(&str, &str); 2] = [(" SECONDS = 60", " SECONDS = 20"), ("HANG_SECONDS = 5", "HANG_SECONDS = 2")];

/// The observations of one run.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Observed {
    /// Rules with a finding, each with the function of the call.
    pub findings: BTreeSet<(String, String)>,
    /// Differences to the recording, without the numbers of the processes and of the lines in the file.
    pub differences: Vec<String>,
}

/// Runs C files in a directory of its own.
pub struct TrialRunner {
    directory: TempDir,
    /// The driver that files are linked to.
    driver: PathBuf,
    /// Simulated machine; `None` for the GPUs of this one.
    pub machine: Option<OsString>,
    pub count: usize,
}

impl TrialRunner {
    /// Returns a runner on a simulated machine, or on the GPUs of this one.
    fn new(topology: Option<OsString>) -> Result<TrialRunner> {
        let sim = DriverArgs { sim: Some(topology.clone()), driver: None };
        let driver = choose_driver(&sim)?.context("the simulated driver is missing")?.directory.join("libcuda.so.1");
        Ok(TrialRunner { directory: tempfile::tempdir()?, driver, machine: topology, count: 0 })
    }

    /// Runs a C file on each of these machines until no answer differs. Returns the runner whose answers differ least, with what it
    /// observed; `None` if the command was interrupted.
    pub fn choose(
        machines: impl IntoIterator<Item = Option<OsString>>,
        text: &str,
    ) -> Result<Option<(TrialRunner, Observed)>> {
        let mut best: Option<(TrialRunner, Observed)> = None;
        for machine in machines {
            let mut runner = TrialRunner::new(machine)?;
            let Some(observed) = runner.run(text)? else { return Ok(None) };
            let differences = observed.differences.len();
            if best.as_ref().is_none_or(|(_, best)| differences < best.differences.len()) {
                best = Some((runner, observed));
            }
            if differences == 0 {
                break;
            }
        }
        Ok(best)
    }

    /// Compiles and runs a C file. Returns `None` if the command was interrupted.
    pub fn run(&mut self, text: &str) -> Result<Option<Observed>> {
        self.count += 1;
        let path = |name: &str| self.directory.path().join(name);
        let (file, program, record) = (path("bug.c"), path("bug"), path("record"));
        let (printed, errors) = (path("printed"), path("errors"));
        let text = LIMITS.iter().fold(text.to_owned(), |text, (long, short)| text.replace(long, short));
        fs::write(path("cuda.h"), declare_used(&text))?;
        fs::write(&file, text)?;
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut compile = Command::new(&compiler);
        compile.arg("-I").arg(self.directory.path()).arg("-o").arg(&program).arg(&file).arg(&self.driver);
        let compiled =
            compile.output().with_context(|| format!("failed to run the C compiler {}", compiler.display()))?;
        if !compiled.status.success() {
            bail!("the C compiler refused the file: {}", String::from_utf8_lossy(&compiled.stderr).trim_end());
        }
        let mut run = own_command()?;
        run.args(["run", "--quiet", "--check=notes", "--out"]).arg(&record);
        if let Some(machine) = &self.machine {
            let mut option = OsString::from("--sim=");
            option.push(machine);
            run.arg(option);
        }
        run.arg("--").arg(program);
        let child =
            run.stdin(Stdio::null()).stdout(fs::File::create(&printed)?).stderr(fs::File::create(&errors)?).spawn()?;
        let is_ended = wait_for_end(child)?;
        if !is_ended {
            return Ok(None);
        }
        let Some(mut observed) = read_printed(&fs::read_to_string(printed)?) else {
            bail!("the C program did not run to its end: {}", fs::read_to_string(errors)?.trim_end());
        };
        if !record.exists() {
            // The program made no call.
            return Ok(Some(observed));
        }
        let job = Job::open(&record)?;
        let report = cupeer_facts::read(&job, &Filter::all(&job), Keep::default(), None)?;
        observed.findings = report.findings.iter().map(finding_key).collect();
        fs::remove_dir_all(&record)?;
        Ok(Some(observed))
    }
}

/// Returns the rule of a finding, and the function of its call.
pub fn finding_key(finding: &Finding) -> (String, String) {
    (finding.rule.to_string(), finding.function.to_string())
}

/// Waits for the end of a child. Ends it, and returns false, if the command was interrupted.
fn wait_for_end(mut child: Child) -> Result<bool> {
    loop {
        if child.try_wait()?.is_some() {
            return Ok(!interrupt::is_interrupted());
        }
        if interrupt::is_interrupted() {
            // SAFETY: sends a signal to a child that nobody has waited for, so that the number is still its own.
            unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Reads what the program printed; `None` if it did not end with its count of differences.
fn read_printed(printed: &str) -> Option<Observed> {
    if !printed.lines().last()?.ends_with(" differences to the recording") {
        return None;
    }
    let lines = printed.lines().filter(|line| line.starts_with("process "));
    let differences = lines.map(|line| match line.split_once(", line ").and_then(|(_, rest)| rest.split_once(": ")) {
        Some((_, call)) => call.to_owned(),
        None => line.to_owned(),
    });
    Some(Observed { differences: differences.collect(), findings: BTreeSet::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_known_without_their_lines() {
        let printed =
            "process 0, line 12: cuInit(0) returned A, not B\nprocess 1: it ended\n2 differences to the recording\n";
        let observed = read_printed(printed).expect("a whole output");
        let expected = ["cuInit(0) returned A, not B", "process 1: it ended"].map(ToOwned::to_owned);
        assert_eq!(observed.differences, expected);
        assert_eq!(read_printed("process 1: it ended\n"), None);
        assert_eq!(read_printed(""), None);
    }

    #[test]
    fn limits_are_those_of_the_file() {
        let begin = include_str!("begin.c");
        assert!(LIMITS.iter().all(|(long, _)| begin.contains(long)), "{begin}");
    }
}
