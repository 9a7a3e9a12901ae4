//! Expected failures are not problems: answers to probes, and objects of libraries that close late. The same failures of other
//! callers stay problems, in every form of a report, in the lines of a run, and in its status.

use super::scenes::{How, Play, report};
use crate::support::{self, Done, compile_shared, cupeer, done, shown_as_failed, temp_dir};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A program after its run, and what reports say of it.
struct Told {
    done: Done,
    text: String,
    report: Value,
    junit: String,
    sarif: Value,
    /// Number of calls that the timeline of the page shows as failed.
    red: u64,
}

/// Ways to look at a process: while it runs, with all notes, only by its recording, and only by the end of that.
const WAYS: [&[&str]; 4] =
    [&["--check"], &["--check=notes"], &["--check=off"], &["--check=notes", "--record", "ring:1M"]];

/// The status of a run where something was found.
const FOUND: i32 = 9;

/// Plays a scene whose calls a library of this path makes; the program's own without one.
fn play(name: &'static str, how: How, library: Option<&str>, options: &[&str]) -> Told {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let play = Play { program: "expected", name, machine: "nvlink:2" };
    // Without checks, no status depends on findings.
    let status = ["--error-exitcode", "9"].into_iter().filter(|_| options != WAYS[2]);
    let options: Vec<&str> = options.iter().copied().chain(status).collect();
    let mut command = play.under(how, &options, &record);
    if let Some(library) = library {
        let path = folder.path().join(library);
        fs::create_dir_all(path.parent().expect("a folder")).unwrap();
        fs::copy(compile_shared("programs/rules/library.c", &["-DNUMBER=4"]), &path).unwrap();
        command.env("LIBRARY", path);
    }
    let done = done(&mut command);
    let shown = |form: &str| support::stdout(cupeer().arg("report").arg(&record).args(["--format", form]));
    let sarif = serde_json::from_str(&shown("sarif")).expect("SARIF is JSON");
    let red = shown_as_failed(&shown("html"));
    Told { red, text: shown("text"), report: report(&record), junit: shown("junit"), sarif, done }
}

impl Told {
    /// The findings: severity, rule and message.
    fn findings(&self) -> Vec<(&str, &str, &str)> {
        let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned().leak() as &str;
        let all = self.report["findings"].as_array().expect("findings").iter();
        all.map(|one| (text(&one["severity"]), text(&one["rule"]), text(&one["message"]))).collect()
    }

    /// Returns the severities of the findings of a rule.
    fn severities(&self, rule: &str) -> Vec<&str> {
        self.findings().iter().filter(|(_, name, _)| *name == rule).map(|(severity, ..)| *severity).collect()
    }

    /// The lines that the run said about findings.
    fn live(&self) -> Vec<&str> {
        let words = ["cupeer: error ", "cupeer: warning ", "cupeer: note "];
        self.done.stderr.lines().filter(|line| words.iter().any(|word| line.starts_with(word))).collect()
    }

    /// The groups of failures: function, whether it is usual, and what it asks.
    fn groups(&self) -> Vec<(&str, bool, Option<&str>)> {
        let all = self.report["failure_groups"].as_array().expect("groups").iter();
        all.map(|group| {
            let function = group["function"].as_str().expect("a function");
            (function, group["usual"] == true, group["expected"].as_str())
        })
        .collect()
    }

    /// Returns the number of SARIF results above notes.
    fn results(&self) -> usize {
        let results = self.sarif["runs"][0]["results"].as_array().expect("results");
        results.iter().filter(|result| result["level"] != "note").count()
    }

    fn headline(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// All that it said, for a test that fails.
    fn all(&self) -> String {
        format!("{}\n{}\n{}", self.done.stdout, self.done.stderr, self.text)
    }
}

/// Probes: the scene, which of its two programs, the library that calls, and the function that fails.
const PROBES: [(&str, How, Option<&str>, &str); 10] = [
    ("retain", How::Good, None, "cuMemRetainAllocationHandle"),
    ("retain", How::Good, Some("libuct_cuda.so.0"), "cuMemRetainAllocationHandle"),
    ("fabric", How::Good, None, "cuMemCreate"),
    ("fabric", How::Good, Some("libnccl.so.2"), "cuMemCreate"),
    ("fabric/twice", How::Good, None, "cuMemCreate"),
    // These go another way, of which nothing is recorded.
    ("fabric", How::Bad, Some("libuct_cuda.so.0"), "cuMemCreate"),
    ("pointers", How::Good, None, "cuMemPoolImportPointer"),
    ("enable", How::Good, Some("libnccl.so.2"), "cuCtxEnablePeerAccess"),
    ("enable", How::Good, Some("libc10_cuda.so"), "cuCtxEnablePeerAccess"),
    ("enable", How::Good, Some("cupy_backends/cuda/api/runtime.so"), "cuCtxEnablePeerAccess"),
];

#[test]
fn the_answer_to_a_probe_is_counted_at_the_end_and_told_nowhere_else() {
    for (name, how, library, function) in PROBES {
        for options in WAYS {
            let told = play(name, how, library, options);
            let what = format!("{name} {library:?} {options:?}\n{}", told.all());
            assert!(told.done.stdout.contains(&format!("{function}: CUDA_ERROR")), "{what}");
            assert_eq!(told.done.status.code(), Some(0), "{what}");
            assert!(told.findings().is_empty() && told.live().is_empty(), "{what}");
            assert!(told.headline().starts_with("No rule "), "{what}");
            assert!(told.text.contains("\nExpected failures\n"), "{what}");
            assert!(told.done.stderr.contains(" 0 failed"), "{what}");
            assert!(!told.done.stderr.contains(function), "{what}");
            assert_eq!((told.results(), told.junit.contains("<failure"), told.red), (0, false, 0), "{what}");
            let groups = told.groups();
            let is_one =
                |(of, is_usual, why): &(&str, bool, Option<&str>)| *of == function && *is_usual && why.is_some();
            assert!(!groups.is_empty() && groups.iter().all(is_one), "{what}");
        }
    }
}

#[test]
fn the_same_code_that_answers_no_probe_stays_a_failure() {
    // Probes without a follow-up, calls of another thread, and calls at the end of the process.
    for (name, how) in [("fabric", How::Bad), ("fabric/twice", How::Bad), ("fabric/leave", How::Good)] {
        for options in &WAYS[..2] {
            let told = play(name, how, None, options);
            let what = format!("{name} {options:?}\n{}", told.all());
            assert_eq!(told.done.status.code(), Some(FOUND), "{what}");
            assert_eq!(told.severities("vmm-fabric-without-channel"), ["error"], "{what}");
            assert!(!told.live().is_empty(), "{what}");
            assert!(told.headline().starts_with("error vmm-fabric-without-channel"), "{what}");
            assert!(told.junit.contains("<failure") && told.results() == 1, "{what}");
            assert!(told.red > 0, "{what}");
            assert_eq!(told.groups(), [("cuMemCreate", false, None)], "{what}");
        }
        // Without a check, only a call says what the process may read.
        let told = play(name, how, None, WAYS[2]);
        assert!(!told.headline().starts_with("No rule "), "{}", told.all());
    }
    // Another function returns what the probe does.
    for options in WAYS {
        let told = play("retain", How::Bad, None, options);
        assert!(!told.headline().starts_with("No rule "), "{options:?}\n{}", told.all());
        let unexpected: Vec<_> = told.groups().into_iter().filter(|(_, is_usual, _)| !is_usual).collect();
        assert_eq!(unexpected, [("cuMemAddressFree", false, None)], "{}", told.all());
        assert!(told.done.stderr.contains(" 1 failed") && told.red == 1, "{}", told.all());
    }
    // No pointer of the pool was found.
    for options in WAYS {
        let told = play("pointers", How::Bad, None, options);
        assert!(!told.headline().starts_with("No rule "), "{options:?}\n{}", told.all());
        assert!(told.groups().contains(&("cuMemPoolImportPointer", false, None)), "{}", told.all());
    }
    // A program of its own that enables what is enabled hears of it.
    let told = play("enable", How::Good, None, &["--check=notes"]);
    assert_eq!(told.severities("peer-already-enabled"), ["note"], "{}", told.all());
    assert_eq!(told.live().len(), 1, "{}", told.all());
}

/// Findings about libraries that close late, and which of the two programs has them.
const LATE: [(&str, How, &[&str]); 6] = [
    ("late/freed", How::Good, &["ipc-freed-while-open"]),
    ("late/reset", How::Good, &["ipc-context-ended-while-open"]),
    ("late/reused", How::Good, &["ipc-address-reused", "ipc-freed-while-open"]),
    ("late/freed", How::Bad, &["ipc-freed-while-open", "ipc-never-closed"]),
    ("late/pool", How::Good, &["pool-destroyed-while-open", "pool-freed-while-open"]),
    ("late/freed", How::Good, &["ipc-freed-while-open"]),
];

/// Libraries with a cache, and the setting that turns it off.
const CACHES: [(&str, &str); 4] = [
    ("libuct_cuda.so.0", "UCX_CUDA_IPC_CACHE=n"),
    ("libnccl.so.2", "NCCL_LEGACY_CUDA_REGISTER=0"),
    ("libmpi.so.12", "MPIR_CVAR_CH4_IPC_GPU_HANDLE_CACHE=disabled"),
    ("libopen-pal.so.80", "OMPI_MCA_rcache_rgpusm_leave_pinned=0"),
];

#[test]
fn libraries_that_close_late_by_design_are_notes_with_the_setting() {
    for (place, (name, how, rules)) in LATE.into_iter().enumerate() {
        let (library, setting) = CACHES[place % CACHES.len()];
        for options in WAYS {
            let told = play(name, how, Some(library), options);
            let what = format!("{name} {library} {options:?}\n{}", told.all());
            let mut found: Vec<_> = told.findings().iter().map(|(_, rule, _)| *rule).collect();
            found.sort_unstable();
            // The recording has less than the process about facts that only the process knows.
            let is_part = options == WAYS[2] && found.iter().all(|rule| rules.contains(rule));
            assert!(found == rules || is_part, "{what}");
            assert!(told.findings().iter().all(|(severity, ..)| *severity == "note"), "{what}");
            let hints = told.report["findings"].as_array().expect("findings").iter();
            assert!(hints.clone().all(|one| one["hint"].as_str().is_some_and(|hint| hint.contains(setting))), "{what}");
            assert!(told.headline().starts_with("No rule "), "{what}");
            assert_eq!(told.done.status.code(), Some(0), "{what}");
            assert_eq!((told.results(), told.junit.contains("<failure")), (0, false), "{what}");
            let is_loud = options.contains(&"--check=notes");
            assert!(
                told.live().is_empty() || is_loud && told.live().iter().all(|line| line.contains("note")),
                "{what}"
            );
            assert!(!told.done.stderr.contains("while open elsewhere"), "{what}");
        }
    }
}

#[test]
fn the_same_of_anybody_else_stays_as_bad_as_it_is() {
    for (name, how, rules) in LATE {
        for library in [None, Some("libmine.so")] {
            for options in &WAYS[..3] {
                let told = play(name, how, library, options);
                let what = format!("{name} {library:?} {options:?}\n{}", told.all());
                for rule in rules.iter().filter(|rule| **rule != "ipc-never-closed") {
                    let severity = if matches!(*rule, "ipc-address-reused" | "pool-destroyed-while-open") {
                        "warning"
                    } else {
                        "error"
                    };
                    let is_silent = options == &WAYS[2] && how == How::Bad;
                    assert!(is_silent || told.severities(rule) == [severity], "{rule}: {what}");
                }
                let status = if options == &WAYS[2] { 0 } else { FOUND };
                assert_eq!(told.done.status.code(), Some(status), "{what}");
                // The duration of an opening is unknown if the importer ended without a record.
                let is_silent = options == &WAYS[2] && how == How::Bad;
                assert!(is_silent || !told.headline().starts_with("No rule "), "{what}");
            }
        }
    }
}

#[test]
fn libraries_that_share_with_a_cache_are_named() {
    for name in ["late/again", "late/both"] {
        for options in &WAYS[..3] {
            let told = play(name, How::Good, Some("libuct_cuda.so.0"), options);
            let what = format!("{name} {options:?}\n{}", told.all());
            assert_eq!(told.severities("ipc-freed-while-open"), ["error"], "{what}");
            let status = if options == &WAYS[2] { 0 } else { FOUND };
            assert_eq!(told.done.status.code(), Some(status), "{what}");
        }
    }
}

/// A record of which one process has a cache and another one none: a row each.
#[test]
fn a_cache_hides_nobody_else_at_the_same_place() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let library = folder.path().join("libuct_cuda.so.0");
    fs::copy(compile_shared("programs/rules/library.c", &["-DNUMBER=4"]), &library).unwrap();
    let run = |library: Option<&Path>| {
        let play = Play { program: "expected", name: "late/freed", machine: "nvlink:2" };
        let mut command = play.under(How::Good, &["--check"], &record);
        if let Some(library) = library {
            command.env("LIBRARY", library);
        }
        assert!(done(&mut command).status.success());
    };
    run(Some(&library));
    run(None);
    let report = report(&record);
    let findings = report["findings"].as_array().expect("findings");
    let found: Vec<_> = findings.iter().map(|one| (&one["severity"], &one["count"])).collect();
    assert_eq!(found, [(&Value::from("error"), &Value::from(1)), (&Value::from("note"), &Value::from(1))]);
    assert!(!findings[0]["message"].as_str().expect("a message").contains("UCX"), "{findings:#?}");
}
