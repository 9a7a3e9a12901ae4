//! The first lines of runs and reports over programs that no rule knows: 30 that do something wrong, and 30 that only look so.
//!
//! The programs were written from public bug reports by somebody who had not seen how cupeer decides. Those in `unknown` check
//! their own results and exit with 1; compiled with `SILENT`, they exit with 0 all the same. Those in `right` exit with 0.

use crate::support::{compile_c, cupeer, done, sim_dir, temp_dir};
use std::fs;
use std::path::Path;

/// Outputs of a run, each in one line: its exit status, its summary, and the first lines of its report.
struct Said {
    status: Option<i32>,
    summary: String,
    head: String,
    page: String,
}

/// Words that acquit a program of more than was checked.
const ACQUITTALS: [&str; 6] =
    ["Nothing is wrong", "o problem", "none failed", "no handles are open", "All is well", "correct"];

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn play(kind: &str, name: &str, flags: &[&str]) -> Said {
    let search = format!("-L{}", sim_dir().display());
    let source = format!("programs/headlines/{kind}/{name}.c");
    let program = compile_c(&source, &[flags, &[&search, "-lcuda", "-Wno-unused-result"]].concat());
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut run = cupeer();
    run.args(["run", "--sim", "--out"]).arg(&record).arg("--").arg(program);
    let ran = done(&mut run);
    let report = |format: &str| {
        let shown = done(cupeer().args(["report", "--format", format]).arg(&record)).stdout;
        assert!(!shown.is_empty() || !record.exists(), "{name}: no {format}");
        shown
    };
    let text = report("text");
    let head = text.split("\nrecording ").next().unwrap_or_default();
    let page = report("html");
    let (_, page) = page.split_once("<section id=\"digest\"").unwrap_or_default();
    // Clues are in the section of problems, which comes next.
    let page = page.split("<section id=\"timeline\"").next().unwrap_or_default();
    Said { status: ran.status.code(), summary: ran.stderr, head: one_line(head), page: one_line(page) }
}

/// The names of the programs of a kind.
fn names(kind: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/headlines").join(kind);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names.len(), 30, "{kind}");
    names
}

fn acquits(text: &str) -> bool {
    ACQUITTALS.iter().any(|words| text.contains(words))
}

#[test]
fn a_program_that_finds_itself_wrong_is_not_acquitted() {
    for name in names("unknown") {
        let said = play("unknown", &name, &[]);
        assert_eq!(said.status, Some(1), "{name}: {}", said.summary);
        for text in [&said.head, &said.page, &said.summary] {
            assert!(!acquits(text), "{name}: {text}");
        }
        let first = said.head.split(" no finding explains ").next().unwrap();
        let is_told = first.contains(" exited with an error: ") || first.starts_with("error ");
        assert!(is_told, "{name}: {}", said.head);
    }
}

#[test]
fn a_wrong_result_that_nobody_checks_is_not_acquitted() {
    for name in names("unknown").into_iter().filter(|name| name != "both-wait-first") {
        let said = play("unknown", &name, &["-DSILENT"]);
        assert_eq!(said.status, Some(0), "{name}: {}", said.summary);
        for text in [&said.head, &said.page, &said.summary] {
            assert!(!acquits(text), "{name}: {text}");
        }
        let is_found = said.head.starts_with("error ") || said.head.starts_with("warning ");
        let is_open = said.head.starts_with("No rule ") && said.head.contains(" Not checked: the order of ");
        assert!(is_found || is_open, "{name}: {}", said.head);
        assert!(is_found != said.page.contains("No rule "), "{name}: {}", said.page);
    }
}

#[test]
fn a_right_program_is_not_suspected() {
    for name in names("right") {
        let said = play("right", &name, &[]);
        assert_eq!(said.status, Some(0), "{name}: {}", said.summary);
        // Nobody can tell whether its parent sent SIGKILL, or the system for want of memory.
        let is_fact = name == "reader-is-killed" && said.head.contains(" was killed by SIGKILL after ");
        // A program that allocates until it gets no more is told so, in a note.
        let went_on = " failed, and the program went on. No rule was broken ";
        let is_note = name == "until-out-of-memory" && said.head.contains(went_on);
        let is_quiet = said.head.is_empty() || said.head.starts_with("No rule ");
        assert!(is_quiet != (is_fact || is_note), "{name}: {}", said.head);
        let is_suspected = |line: &str| line.contains("error ") || line.contains("warning ");
        let lines = || said.summary.lines().filter(|line| line.starts_with("cupeer: "));
        assert!(!lines().any(is_suspected), "{name}: {}", said.summary);
    }
}

/// The programs of `unknown` with what leads to their faults, in the words of a clue.
const CLUES: [(&str, &str); 17] = [
    ("both-wait-first", "times; no recorded copy of another process wrote there"),
    ("copy-arguments-swapped", "wrote 2KiB at offset 0 of "),
    ("flag-barrier-passes", "wrote 4B at offset 0 of "),
    ("half-of-the-tensor", "read bytes 0 to 2,000 of the 4,000 of "),
    ("import-never-used", "; it launched no kernel"),
    ("importer-writes", "wrote 1KiB at offset 0 of "),
    ("keys-and-values-swapped", "opened 2 handles in another order than "),
    ("off-by-one-block", "read bytes 0 to 12,288 of the 16,384 of "),
    ("offset-added-twice", "read bytes 8,192 to 9,216 of the 16,384 of "),
    ("offset-lost", "exported one address, "),
    ("old-generation-read", "no process opened "),
    ("one-address-exported-twice", "exported one address, "),
    ("pool-pointer-sent-twice", " 2 times"),
    ("reader-before-writer", " before the first recorded write there, by "),
    ("signal-erased", ", and no recorded copy read them in between"),
    ("slots-swapped", "wrote 256B at offset "),
    ("tail-lost", "read bytes 0 to 8,192 of the 10,000 of "),
];

#[test]
fn a_clue_leads_to_a_fault_that_no_rule_knows() {
    for (name, clue) in CLUES {
        let said = play("unknown", name, &[]);
        if said.head.contains("access-not-ordered") {
            continue;
        }
        for text in [&said.head, &said.page] {
            let is_clue = |part: &str| part.contains(clue) && part.contains(&format!("{name}.c:"));
            assert!(text.split("unusual: ").skip(1).any(is_clue), "{name}: {text}");
        }
    }
}

#[test]
fn the_first_lines_name_the_rest() {
    for (name, left) in [
        ("handles", "40 of 40 opened handles are open."),
        ("allocations", "40 of 40 allocations made at this place have no mapping any more"),
    ] {
        let said = play("left", name, &[]);
        assert_eq!(said.status, Some(0), "{name}: {}", said.summary);
        assert!(said.head.contains(left) && said.page.contains(left), "{name}: {}", said.head);
        assert!(!acquits(&said.head) && !acquits(&said.summary), "{name}: {}", said.summary);
    }
}
