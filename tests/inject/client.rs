//! Runs `tests/programs/faults.c` under a plan on the simulated driver.

use crate::support;
use cupeer_spec::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Output of the program, in the order of its processes and threads, and its end.
pub struct Ran {
    /// `PROCESS.THREAD` and what it printed.
    pub lines: Vec<(String, Vec<String>)>,
    /// Its end.
    pub done: support::Done,
}

impl Ran {
    /// The results of the first thread of the first process.
    pub fn first(&self) -> Vec<&str> {
        self.lines[0].1.iter().map(String::as_str).collect()
    }

    /// The value of `NAME=VALUE` among what the first one printed, the last one of it.
    pub fn value(&self, name: &str) -> &str {
        let said = self.lines[0].1.iter().rev();
        let mut values = said.filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        values.next().unwrap_or_else(|| panic!("no {name} in {:?}", self.lines[0].1))
    }
}

/// The program.
pub fn program() -> PathBuf {
    support::compile_c("programs/faults.c", &["-ldl"])
}

/// The command that runs it under the library alone, with a plan; without one where that is empty. Its processes count
/// together in `folder`.
pub fn command(folder: &Path, plan: &str, arguments: &[&str]) -> Command {
    let mut command = support::plain(program());
    command.args(arguments).env("LD_PRELOAD", support::preload_library());
    command.env("LD_LIBRARY_PATH", support::sim_dir()).env(env::SIM, "nvlink:2").env(env::FAULTS, folder);
    if !plan.is_empty() {
        command.env(env::INJECT, plan);
    }
    command
}

/// Runs it. `arguments` are HOW PROCESSES THREADS WORD...
#[track_caller]
pub fn run(plan: &str, arguments: &[&str]) -> Ran {
    let folder = support::temp_dir();
    ran(&mut command(folder.path(), plan, arguments))
}

/// Runs a command of it.
#[track_caller]
pub fn ran(command: &mut Command) -> Ran {
    let done = support::done(command);
    let mut lines: Vec<_> = done
        .stdout
        .lines()
        .map(|line| {
            let (name, words) = line.split_once(':').expect("a line of the program");
            (name.to_owned(), words.split_whitespace().map(str::to_owned).collect())
        })
        .collect();
    lines.sort();
    Ran { lines, done }
}
