//! The scenes of `tests/programs/rules`: what its table says of each, and how one is run, with cupeer and without.

use crate::support::{self, Done, cupeer, done, plain, temp_dir};
use cupeer_rules::Rule;
use cupeer_spec::env;
use cupeer_spec::results::{RESULTS, Result as Code};
use object::{Object, ObjectSymbol};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// The table of the scenes.
const TABLE: &str = include_str!("../programs/rules/table.txt");
/// Exit status of a program that may not create the namespaces that it needs.
const CANNOT: i32 = 77;

/// A program of tests/programs/rules, and what it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Play {
    /// The program.
    pub program: &'static str,
    /// Its first argument.
    pub name: &'static str,
    /// The simulated machine; `answers` before it where the driver is told what to answer.
    pub machine: &'static str,
}

/// A line of the table.
#[derive(Debug)]
pub struct Scene {
    /// The scene: a rule, and after a slash another way to break it.
    pub play: Play,
    /// The rule.
    pub rule: Rule,
    /// Number of devices that it needs.
    pub devices: usize,
    /// The function at which it is broken.
    pub function: &'static str,
    /// Results that the call may return; first, the one of the simulated driver without options.
    pub results: Vec<&'static str>,
    /// Another rule that breaks with it.
    pub also: Option<Rule>,
    /// Outcomes of both programs without cupeer, each run once for all tests.
    alone: [OnceLock<Done>; 2],
    /// The same with the check.
    checked: [OnceLock<Checked>; 2],
}

impl Scene {
    /// Returns the outcome of a program of the scene without cupeer.
    pub fn outcome_alone(&self, how: How) -> &Done {
        self.alone[how as usize].get_or_init(|| done(&mut self.alone(how)))
    }

    /// Returns the outcome of a program of the scene under `cupeer run --check=notes`.
    pub fn outcome_checked(&self, how: How) -> &Checked {
        self.checked[how as usize].get_or_init(|| self.checked(how, &[]))
    }
}

impl Deref for Scene {
    type Target = Play;

    fn deref(&self) -> &Play {
        &self.play
    }
}

/// All scenes.
pub fn scenes() -> &'static [Scene] {
    static ALL: OnceLock<Vec<Scene>> = OnceLock::new();
    let lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    ALL.get_or_init(|| lines.map(parse).collect())
}

/// The scene of a name.
pub fn scene(name: &str) -> &'static Scene {
    scenes().iter().find(|scene| scene.name == name).expect("a line of the table")
}

fn parse(line: &'static str) -> Scene {
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    let [name, program, machine, devices, function, result, also, _] = fields[..] else {
        panic!("eight fields: {line}")
    };
    let rule = |name: &str| Rule::of(name).unwrap_or_else(|| panic!("no rule: {name}"));
    Scene {
        play: Play { program, name, machine },
        rule: rule(name.split('/').next().unwrap_or_default()),
        devices: devices.parse().unwrap_or_else(|_| panic!("no number of devices: {line}")),
        function,
        results: result.split(" or ").map(name_of).collect(),
        also: (!also.is_empty()).then(|| rule(also)),
        alone: Default::default(),
        checked: Default::default(),
    }
}

/// The name in cuda.h of a result that the table has without its `CUDA_`.
fn name_of(short: &str) -> &'static str {
    let mut known = RESULTS.iter().map(|result| result.name());
    let is_meant = |name: &&str| {
        let rest = name.trim_start_matches("CUDA_");
        rest == short || rest.trim_start_matches("ERROR_") == short
    };
    known.find(is_meant).unwrap_or_else(|| panic!("no result: {short}"))
}

/// Choice between the wrong and the right program of a scene.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// It breaks the rule.
    Bad,
    /// It does not.
    Good,
}

/// A program under `cupeer run --check`.
#[derive(Debug)]
pub struct Checked {
    /// Its output and its end.
    pub done: Done,
    /// `cupeer report --format json`.
    pub report: Value,
    /// `cupeer report`.
    pub text: String,
}

impl Checked {
    /// The findings of the report.
    pub fn findings(&self) -> &[Value] {
        self.report["findings"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Their rules.
    pub fn rules(&self) -> BTreeSet<&str> {
        self.findings().iter().filter_map(|finding| finding["rule"].as_str()).collect()
    }
}

impl Play {
    /// The same on a machine with one device.
    pub fn on_one_device(&self) -> Play {
        let (kind, rest) = self.machine.split_once(':').expect("a machine");
        let options = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        Play { machine: format!("{kind}:1{options}").leak(), ..*self }
    }

    /// The same on a machine with another option.
    pub fn with(&self, option: &str) -> Play {
        Play { machine: format!("{},{option}", self.machine).leak(), ..*self }
    }

    /// Its program, compiled, and its arguments.
    fn arguments(&self, how: How) -> (PathBuf, [&'static str; 2]) {
        (program(self.program), [self.name, if how == How::Bad { "bad" } else { "good" }])
    }

    /// The machine alone, and whether the driver is told what to answer.
    fn machine(&self) -> (&'static str, bool) {
        self.machine.strip_prefix("answers ").map_or((self.machine, false), |machine| (machine, true))
    }

    /// The program as it is without cupeer.
    pub fn alone(&self, how: How) -> Command {
        let (program, arguments) = self.arguments(how);
        let (machine, is_told) = self.machine();
        let driver = if is_told { told_driver() } else { support::sim_dir() };
        let mut command = plain(program);
        command.args(arguments).env("LD_LIBRARY_PATH", driver).env(env::SIM, machine);
        command
    }

    /// The program under `cupeer run`.
    pub fn under(&self, how: How, options: &[&str], record: &Path) -> Command {
        self.under_within(how, options, record, &[])
    }

    /// The same within another program, which is given its path and its arguments.
    pub fn under_within(&self, how: How, options: &[&str], record: &Path, outer: &[&str]) -> Command {
        let (program, arguments) = self.arguments(how);
        let mut command = cupeer();
        command.arg("run").args(options).arg("--out").arg(record);
        match self.machine() {
            (machine, true) => command.env("LD_LIBRARY_PATH", told_driver()).env(env::SIM, machine),
            (machine, false) => command.arg(format!("--sim={machine}")),
        };
        command.arg("--").args(outer).arg(program).args(arguments);
        command
    }

    /// Runs the program under `cupeer run --check=notes`, with these variables.
    pub fn checked(&self, how: How, variables: &[(&str, &Path)]) -> Checked {
        let folder = temp_dir();
        let record = folder.path().join("record");
        let done = done(self.under(how, &["--check=notes"], &record).envs(variables.iter().copied()));
        let text = if record.exists() { support::stdout(cupeer().arg("report").arg(&record)) } else { String::new() };
        Checked { done, report: report(&record), text }
    }
}

/// Returns the JSON report on a recording; null if there is no recording.
pub fn report(record: &Path) -> Value {
    if !record.exists() {
        return Value::Null;
    }
    let text = support::stdout(cupeer().arg("report").arg(record).args(["--format", "json"]));
    serde_json::from_str(&text).expect("the report is JSON")
}

/// Returns true if a program could not play its scene, for lack of namespaces.
pub fn cannot(done: &Done) -> bool {
    let is_so = done.status.code() == Some(CANNOT);
    if is_so {
        left_out!("namespaces cannot be made here: {}", done.stderr.trim());
    }
    is_so
}

/// A program of tests/programs/rules.
pub fn program(stem: &str) -> PathBuf {
    let library = |number: u32| {
        let flag = format!("-DNUMBER={number}");
        support::compile_shared("programs/rules/library.c", &[&flag])
    };
    let libraries = [("FIRST", library(1)), ("SECOND", library(2))];
    let flags = libraries.map(|(name, path)| format!("-D{name}_LIBRARY=\"{}\"", path.display()));
    support::compile_c(&format!("programs/rules/{stem}.c"), &[&flags[0], &flags[1], "-ldl"])
}

/// A folder with the simulated driver behind answers.c.
pub fn told_driver() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(make_told_driver).clone()
}

fn make_told_driver() -> PathBuf {
    let mut bytes = fs::read(support::sim_library()).expect("the simulated driver");
    let names: Vec<String> = forwarded(&bytes).iter().map(|name| format!("F({name})")).collect();
    // Made anew with each build of the simulated driver.
    let build = format!("-DBUILD=\"{}\"", support::install().display());
    let flags = [&format!("-DFORWARDED(F)={}", names.join(" ")), &build, "-Wl,-Bsymbolic"];
    let built = support::compile_shared(
        "programs/rules/answers.c",
        &[flags[0], flags[1], flags[2], "-Wl,-soname,libcuda.so.1", "-ldl"],
    );
    // The one behind gets another name, or there would be two drivers.
    let (soname, other) = (b"libcuda.so.1\0", b"libother.so\0\0");
    let places: Vec<usize> = (0..bytes.len() - soname.len()).filter(|at| bytes[*at..].starts_with(soname)).collect();
    assert!(!places.is_empty(), "no soname");
    places.iter().for_each(|at| bytes[*at..at + other.len()].copy_from_slice(other));
    let folder = built.with_extension("d");
    if !folder.exists() {
        let fresh = temp_dir().keep();
        fs::write(fresh.join("libother.so"), bytes).expect("a driver");
        fs::copy(built, fresh.join("libcuda.so.1")).expect("a driver");
        symlink("libcuda.so.1", fresh.join("libcuda.so")).expect("a link");
        if fs::rename(&fresh, &folder).is_err() {
            // Another test was faster.
            fs::remove_dir_all(&fresh).expect("it is ours");
        }
    }
    folder
}

/// Returns the exports of the driver, without those that answers.c defines itself.
fn forwarded(driver: &[u8]) -> Vec<String> {
    let source = include_str!("../programs/rules/answers.c");
    let file = object::File::parse(driver).expect("an ELF file");
    let mut names: Vec<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.is_global())
        .map(|symbol| symbol.name().expect("a name").to_owned())
        .filter(|name| !source.contains(&format!("DEFINE({name},")))
        .collect();
    names.sort();
    names
}

/// Does something for each scene, on a few threads, and fails with all that failed: a sentence each.
pub fn for_each(wanted: impl IntoIterator<Item = &'static Scene>, what: impl Fn(&'static Scene) -> Vec<String> + Sync) {
    let wanted: Vec<&Scene> = wanted.into_iter().collect();
    let next = Mutex::new(wanted.iter());
    let failures = Mutex::new(Vec::new());
    let take = || next.lock().expect("no panic").next();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(scene) = take() {
                    let said = what(scene);
                    let said = said.into_iter().map(|text| format!("{}: {text}", scene.name));
                    failures.lock().expect("no panic").extend(said);
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{} of {} scenes:\n{}", failures.len(), wanted.len(), failures.join("\n"));
}

/// Text with every run of white space as one blank: messages are broken into lines.
pub fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the result of a right call.
pub fn success() -> &'static str {
    Code::SUCCESS.spec().name()
}
