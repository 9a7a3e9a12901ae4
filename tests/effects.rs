//! Effects of functions on shared objects: all parts that must know an effect of the table know it: the ledger and the arrows of
//! the report, the live table, denial, plans, and sweeps.
//!
//! Each pair of functions that shares something is played on the simulated driver. The same is done with two functions
//! more, which stand in the table and have an answer, and nothing else: `src/spec/functions/more.rs`.

use crate::support::{self, cupeer, done, temp_dir};
use cupeer_spec::effect::Object;
use cupeer_spec::function::{FUNCTIONS, Fidelity, Library};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A function that exports something, and one that opens it.
struct Pair<'a> {
    export: &'a str,
    open: &'a str,
    object: Object,
}

impl Pair<'_> {
    fn program(&self) -> Vec<PathBuf> {
        let program = support::compile_c("programs/sharing.c", &["-ldl"]);
        vec![program, self.export.into(), self.open.into()]
    }

    #[track_caller]
    fn run(&self, mut command: Command, options: &[&str], argument: &[&str]) -> String {
        command.args(["run", "--sim=nvlink:2"]).args(options).arg("--").args(self.program()).args(argument);
        let done = done(&mut command);
        assert_ne!(done.status.code(), Some(4), "tests/programs/sharing.c: {}", done.stderr);
        done.stdout
    }

    /// Looks at everything that has to know both functions.
    #[track_caller]
    fn is_known(&self, cupeer: &dyn Fn() -> Command) {
        let folder = temp_dir();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let what = format!("{} {}", self.export, self.open);

        assert_eq!(self.run(cupeer(), &["-o", &path("record")], &[]), "0\n0\n", "{what}");
        let report = |format: &str| support::stdout(cupeer().args(["report", &path("record"), "--format", format]));
        let json: Value = serde_json::from_str(&report("json")).unwrap();
        // With a pointer goes the pool in which it lies.
        let in_pool = self.object == Object::Pointer;
        let is_its = |handle: &&Value| handle["kind"] == self.object.word();
        let handles: Vec<&Value> = json["handles"].as_array().unwrap().iter().filter(is_its).collect();
        assert_eq!(handles.len(), 1, "{what}: {handles:#?}");
        let (handle, open) = (handles[0], &handles[0]["opens"][0]);
        assert_eq!((&handle["kind"], &handle["state"]), (&json!(self.object.word()), &json!("closed")), "{what}");
        assert!(handle["exporter"].is_string() && open["closed_by"].is_string(), "{what}: {handle:#}");
        // The driver was asked.
        let bytes = match self.object {
            object if object.is_memory() => json!(1 << 20),
            object if object.is_virtual_memory() => json!(2 << 20),
            _ => Value::Null,
        };
        assert_eq!((&handle["bytes"], open["device"].is_string()), (&bytes, true), "{what}: {handle:#}");
        let trace: Value = serde_json::from_str(&report("trace")).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let points = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
        let openings = if in_pool { 3 } else { 2 };
        let points = [points("s"), points("t"), points("f")];
        assert_eq!(points, [openings; 3], "{what}: an arrow for each opening");

        // Access to virtual memory and pools is denied, not their import.
        if !self.object.needs_granted_access() {
            let denied = self.run(cupeer(), &["-o", &path("denied"), "--deny-peer", "all"], &[]);
            assert_eq!(denied, "217\n", "{what}: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED");
        }
        let plan = format!("{}:when=1:error=INVALID_VALUE:stage=undo", self.open);
        let undone = self.run(cupeer(), &["-o", &path("undone"), "--inject", &plan], &["again"]);
        assert_eq!(undone, "1\nclosed\n", "{what}: what the plan undid was open no more");

        let mut sweep = cupeer();
        sweep.args(["sweep", "--sim=nvlink:2", "--format", "json", "--codes", "one", "-j1", "--timeout", "60s"]);
        sweep.args(["--calls", self.open, "--out", &path("sweep"), "--"]).args(self.program());
        let swept: Value = serde_json::from_str(&done(&mut sweep).stdout).unwrap();
        let runs = swept["runs"].as_array().unwrap().iter();
        let verdicts: Vec<_> = runs.filter(|run| !run["faults"][0]["rule"].as_str().unwrap().contains("+:")).collect();
        let mut sorted: Vec<&str> = verdicts.iter().map(|run| run["verdict"].as_str().unwrap()).collect();
        sorted.sort_unstable();
        assert_eq!(sorted, ["clean", "clean"], "{what}: {swept:#}");
        let left = format!("{} of another process (sharing-", self.object.word());
        let is_seen = |run: &&Value| {
            let seen = run["seen"].as_str().unwrap().split("the system takes back: ").nth(1);
            seen.is_some_and(|seen| seen.split(", ").any(|thing| thing.starts_with(&left)))
        };
        assert!(verdicts.iter().any(is_seen), "{what}: {left} {swept:#}");
    }
}

#[test]
fn all_parts_know_the_functions_that_share() {
    let mut pairs = Vec::new();
    for (export, shared) in FUNCTIONS.iter().filter_map(|f| Some((f, f.exports()?))) {
        for (open, opened) in FUNCTIONS.iter().filter_map(|f| Some((f, f.opens()?))) {
            if opened.object == shared.object {
                pairs.push(Pair { export: export.name(), open: open.name(), object: shared.object });
            }
        }
    }
    assert!(pairs.len() >= 3);
    // The simulated driver cannot run functions that it does not have.
    let is_played = |name: &str| FUNCTIONS.iter().any(|f| f.name() == name && f.simulated != Fidelity::Unsupported);
    for pair in pairs.into_iter().filter(|pair| is_played(pair.export) && is_played(pair.open)) {
        pair.is_known(&cupeer);
    }
}

/// Returns true if a text has a name as a whole word.
fn names(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_word) && !text[at + name.len()..].starts_with(is_word))
}

/// The files under a directory whose code, not that of its tests, names functions of the table.
fn naming(directory: &Path, found: &mut BTreeMap<String, Vec<&'static str>>) {
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() && !path.ends_with("tests") && !path.ends_with("examples") {
            naming(&path, found);
        }
        if path.extension() != Some("rs".as_ref()) || path.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code: Vec<&str> = lines.map(|line| line.split(" // ").next().unwrap_or(line)).collect();
        let code = code.join("\n");
        let named: Vec<&str> = FUNCTIONS.iter().map(|f| f.name()).filter(|name| names(&code, name)).collect();
        if !named.is_empty() {
            let path = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
            found.insert(path.display().to_string(), named);
        }
    }
}

#[test]
fn functions_are_named_outside_of_the_table_only_where_contributors_are_told_why() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeMap::new();
    for directory in ["src/preload", "src/record", "src/report", "src/facts", "src/views"] {
        naming(&root.join(directory), &mut found);
    }
    let page = include_str!("../CONTRIBUTING.md");
    let section = page.split("### Functions that are named outside of the table").nth(1).expect("the section");
    let section = section.split("\n#").next().unwrap_or(section);
    let told = section.lines().filter_map(|line| line.strip_prefix("- `")?.split_once("`: "));
    let told: Vec<&str> = told.map(|(file, _)| file).collect();
    assert_eq!(found.keys().collect::<Vec<_>>(), told, "{found:#?}");
    // Answers of NVML are denied by code of their own.
    let nvml = FUNCTIONS.iter().filter(|f| f.library == Library::Nvml).map(|f| f.name());
    assert_eq!(nvml.collect::<Vec<_>>(), found["src/preload/fault/deny/nvml.rs"]);
}

/// Builds the command and the libraries once more, in a directory of their own, with two functions more: `scripts/test --all` runs
/// it. That takes minutes the first time, and then as long as what has changed.
#[test]
#[ignore = "builds the workspace once more"]
fn functions_that_stand_in_the_table_alone_are_known_to_all() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = root.join("target/more-functions");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--features", "cupeer-sim/more-functions"]).current_dir(root);
    build.args(["--package", "cupeer", "--package", "cupeer-preload", "--package", "cupeer-sim"]);
    build.env("CARGO_TARGET_DIR", &target).env("CARGO_PROFILE_DEV_DEBUG", "0");
    assert!(build.status().expect("cargo").success());
    let cupeer = || {
        let mut command = support::plain(target.join("debug/cupeer"));
        command.env("CUPEER_RECORD", "off");
        command
    };
    let listed: Value =
        serde_json::from_str(&support::stdout(cupeer().args(["list", "functions", "--format", "json"]))).unwrap();
    let groups = |name: &str| {
        let all = listed.as_array().unwrap();
        all.iter().find(|function| function["function"] == name).map(|function| function["groups"].clone())
    };
    assert_eq!(groups("cuCupeerOpen"), Some(json!(["ipc", "ipc-mem", "open"])));
    assert_eq!(groups("cuCupeerExport"), Some(json!(["ipc", "ipc-mem", "export"])));
    let object = Object::Memory;
    for (export, open) in [
        ("cuCupeerExport", "cuCupeerOpen"),
        ("cuCupeerExport", "cuIpcOpenMemHandle_v2"),
        ("cuIpcGetMemHandle", "cuCupeerOpen"),
    ] {
        Pair { export, open, object }.is_known(&cupeer);
    }
}
