//! Clues: for each kind, a program that is wrong without breaking a rule, the nearest right one, and that with an exit status of 1.

use crate::support::{self, Done, cupeer, done, temp_dir};
use serde_json::Value;
use std::collections::BTreeSet;

/// A scene of clues.c, the kind of its clue, what the sentence has to say in this order, and the functions of its calls.
type Row = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const SCENES: &[Row] = &[
    (
        "result-ignored",
        "result-ignored",
        &[
            " continued when cuMemAddressReserve had returned CUDA_ERROR_OUT_OF_MEMORY (1 time): it called cuMem",
            " later",
        ],
        &["result_ignored"],
    ),
    (
        "exporter-ended",
        "exporter-ended",
        &[" ended ", " before ", ", which failed and had ipc:", " open"],
        &["exporter_ended"],
    ),
    (
        "read-of-nobody",
        "read-of-nobody",
        &[" read 1MiB from ipc:", " (4MiB) that no recorded copy wrote; ", " wrote other bytes there ", " before"],
        &["read_loaded", "read_of_nobody"],
    ),
    (
        "read-elsewhere",
        "read-elsewhere",
        &[" read 1MiB at offset 2,097,152 of ipc:", ", where no recorded copy wrote; process ", " wrote at offset 0"],
        &["read_elsewhere", "put_there"],
    ),
    (
        "read-first",
        "read-first",
        &[" enqueued a read of 1MiB from ipc:", " before ", "the first recorded write there, by"],
        &["pull", "read_first"],
    ),
    (
        "overwritten",
        "overwritten",
        &[" wrote 1MiB to ipc:", " after process ", " had, and no recorded copy read them in between"],
        &["overwritten"],
    ),
    ("exported-again", "exported-again", &[" exported one address, 0x", ", 3 times as ipc:"], &["exported_again"]),
    (
        "not-opened/twice",
        "not-opened",
        &["no process opened ipc:", ", which process ", " exported; ipc:", " was opened 2 times, first by process "],
        &["opened_twice", "open_two"],
    ),
    (
        "not-opened/two",
        "not-opened",
        &["no process opened ipc:", ", which process ", " exported; ipc:", " was opened 2 times, first by process "],
        &["offer", "take"],
    ),
    (
        "not-opened",
        "not-opened",
        &["no process opened ipc:", ", which process ", " exported; ipc:", " was opened 1 time, first by process "],
        &["not_opened", "sum_up"],
    ),
    (
        "opened-in-other-order",
        "opened-in-other-order",
        &[" opened 3 handles in another order than ", " had exported them: ipc:", " (4MiB), number 3, came first"],
        &["open_three"],
    ),
    (
        "written-by-importer",
        "written-by-importer",
        &[" wrote 1MiB at offset 0 of ipc:", " (4MiB), which process ", " exported"],
        &["put_there"],
    ),
    (
        "unused",
        "unused",
        &[
            "no recorded copy of process ",
            " used ipc:",
            ", which it opened from process ",
            "; 2 used other memory that it opened",
        ],
        &["pull_two"],
    ),
    ("size-differs", "differs", &[" exported 2MiB, and the other 2 processes 4MiB each"], &["part"]),
    (
        "count-differs",
        "differs",
        &[" called cuIpcOpenMemHandle_v2 3 times, and the other 2 processes 4 times each; 1 more like this"],
        &[],
    ),
];

/// A run of a scene: what it printed, and the report in three forms.
struct Played {
    run: Done,
    text: String,
    html: String,
    report: Value,
}

fn play(scene: &str, how: &str) -> Played {
    let program = support::compile_c("programs/clues.c", &["-ldl"]);
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut run = cupeer();
    run.args(["run", "--sim=nvlink:2", "--out"]).arg(&record).arg("--").arg(program).args([scene, how]);
    let run = done(&mut run);
    let report = |format| support::stdout(cupeer().args(["report", "--format", format]).arg(&record));
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let json = serde_json::from_str(&report("json")).expect("JSON");
    Played { run, text: words(report("text")), html: report("html"), report: json }
}

fn kinds(played: &Played) -> BTreeSet<&str> {
    let clues = played.report["clues"].as_array().into_iter().flatten();
    clues.map(|clue| clue["kind"].as_str().expect("a kind")).collect()
}

/// Returns true if a text has these parts in this order.
fn has(mut text: &str, parts: &[&str]) -> bool {
    parts.iter().all(|part| match text.split_once(part) {
        Some((_, rest)) => {
            text = rest;
            true
        }
        None => false,
    })
}

#[test]
fn a_wrong_program_gets_the_clue_and_the_nearest_right_one_does_not() {
    let mut wrong = Vec::new();
    for (scene, kind, says, functions) in SCENES {
        let bad = play(scene, "bad");
        assert_eq!(bad.run.status.code(), Some(1), "{scene}: {}{}", bad.run.stdout, bad.run.stderr);
        if !kinds(&bad).contains(kind) {
            wrong.push(format!("{scene}: {:?}: {}", kinds(&bad), bad.text));
            continue;
        }
        let (head, _) = bad.text.split_once(" recording ").expect("a head");
        let (_, problems) = bad.text.split_once(" Problems ").expect("problems");
        let (_, said) = bad.run.stderr.split_once("no finding explains ").expect("an end that nothing explains");
        let parts = [&["unusual: "], *says].concat();
        for (form, text) in [("head", head), ("problems", problems), ("run", said), ("html", &bad.html)] {
            let lines = functions.iter().all(|function| text.contains(&format!(" in {function}")));
            if !has(text, &parts) || !lines {
                wrong.push(format!("{scene}: {form}: {text}"));
            }
        }
        for how in ["good", "fails"] {
            let other = play(scene, how);
            let status = i32::from(how == "fails");
            assert_eq!(
                other.run.status.code(),
                Some(status),
                "{scene} {how}: {}{}",
                other.run.stdout,
                other.run.stderr
            );
            let found = kinds(&other);
            let texts = [&other.text, &other.html, &other.run.stderr];
            if found.contains(kind) || status == 0 && texts.iter().any(|text| text.contains("unusual: ")) {
                wrong.push(format!("{scene} {how}: {found:?}: {}", other.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
