//! The sentences of findings that say more than their rule: at the call, and in the report of a record that was made without
//! a check.
//!
//! What belongs here: the words, scene by scene of `tests/programs/rules/wordings.c`. Which rules are found where is in
//! [`super::rules`] and [`super::differential`].

use super::differential::contradictions;
use super::scenes::{How, Play, cannot, report, words};
use crate::support::{self, Done, cupeer, done, temp_dir};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Wording of a scene. In sentences, `*` stands for any text up to the next blank, and `{name}` for the value that the program
/// printed as `name=value`.
struct Wording {
    name: &'static str,
    machine: &'static str,
    /// The rule.
    rule: &'static str,
    /// Message of a check, from the severity to the end of the line.
    checked: &'static str,
    /// Sentence of the report on a recording without a check; empty if it finds nothing.
    plain: &'static str,
}

const WORDINGS: &[Wording] = &[
    Wording {
        name: "fork-initialised",
        machine: "nvlink:2",
        rule: "used-after-fork",
        checked: "process {child} cannot use CUDA: its parent {parent} initialized CUDA before the fork",
        plain: "process {child} cannot use CUDA: its parent {parent} initialized CUDA before the fork",
    },
    Wording {
        name: "fork-twice",
        machine: "nvlink:2",
        rule: "used-after-fork",
        checked: "process {child} cannot use CUDA: its parent initialized CUDA before the fork",
        plain: "process {child} cannot use CUDA: its parent initialized CUDA before the fork",
    },
    Wording {
        name: "fork-uninitialised",
        machine: "nvlink:2",
        rule: "not-initialized",
        checked: "this process has not called cuInit, or cuInit failed",
        plain: "this process has not called cuInit, or cuInit failed",
    },
    Wording {
        name: "context-with-openings",
        machine: "nvlink:2",
        rule: "no-current-context",
        checked: "thread {thread} has no current CUDA context: 0x*, its previous context, was destroyed or reset; this also closed the handles that were open in it",
        plain: "thread {thread} has no current CUDA context: 0x*, its previous context, was destroyed or reset; this also closed the handles that were open in it",
    },
    Wording {
        name: "context-without-openings",
        machine: "nvlink:2",
        rule: "no-current-context",
        checked: "thread {thread} has no current CUDA context: 0x*, its previous context, was destroyed or reset",
        plain: "thread {thread} has no current CUDA context: 0x*, its previous context, was destroyed or reset",
    },
    Wording {
        name: "context-popped",
        machine: "nvlink:2",
        rule: "no-current-context",
        checked: "thread {thread} has no current CUDA context: 0x*, its previous context, was destroyed or popped",
        plain: "thread {thread} has no current CUDA context: 0x*, its previous context, was destroyed or popped",
    },
    Wording {
        name: "context-of-other-thread",
        machine: "nvlink:2",
        rule: "no-current-context",
        checked: "thread {thread} has no current CUDA context; another thread of this process had one",
        plain: "thread {thread} has no current CUDA context; another thread of this process had one",
    },
    Wording {
        name: "context-never-set",
        machine: "nvlink:2",
        rule: "no-current-context",
        checked: "thread {thread} has no current CUDA context; the primary context of device 0 exists, but is not current here",
        plain: "thread {thread} has no current CUDA context",
    },
    Wording {
        name: "closed-by-thread",
        machine: "nvlink:2",
        rule: "ipc-closed-twice",
        checked: "0x* (ipc:*) is already closed; this process closed it as often as it had opened it; the last close was * * ago in thread {closer} at wordings*",
        plain: "0x* (ipc:*) is already closed; this process closed it as often as it had opened it; the last close was * * ago in thread {closer} at wordings*",
    },
    Wording {
        name: "closed-with-context",
        machine: "nvlink:2",
        rule: "ipc-closed-twice",
        checked: "0x* (ipc:*) is already closed; it was closed when its context was destroyed or reset * * ago in thread {closer} at wordings*",
        plain: "0x* (ipc:*) is already closed; it was closed when its context was destroyed or reset * * ago in thread {closer} at wordings*",
    },
    Wording {
        name: "cut-8",
        machine: "nvlink:2",
        rule: "ipc-unknown-handle",
        checked: "probably, the handle is 0 after its first {left} bytes: it was cut, by a copy that was too short or stopped at a 0, as strcpy and ctypes' c_char arrays do",
        plain: "probably, no process under cupeer exported ipc:*",
    },
    Wording {
        name: "cut-11",
        machine: "nvlink:2",
        rule: "ipc-unknown-handle",
        checked: "probably, the handle is 0 after its first {left} bytes: it was cut, by a copy that was too short or stopped at a 0, as strcpy and ctypes' c_char arrays do",
        plain: "probably, no process under cupeer exported ipc:*",
    },
    Wording {
        name: "cut-16",
        machine: "nvlink:2",
        rule: "ipc-unknown-handle",
        checked: "probably, the handle is 0 after its first {left} bytes: it was cut, by a copy that was too short or stopped at a 0, as strcpy and ctypes' c_char arrays do",
        plain: "probably, no process under cupeer exported ipc:*",
    },
    Wording {
        name: "cut-24",
        machine: "nvlink:2",
        rule: "ipc-damaged-handle",
        checked: "probably, ipc:* is a damaged copy of ipc:*; process {exporter} exported the original; the handle is 0 after its first {left} bytes: it was cut, by a copy that was too short or stopped at a 0, as strcpy and ctypes' c_char arrays do",
        plain: "",
    },
    Wording {
        name: "shift-back-4",
        machine: "nvlink:2",
        rule: "ipc-unknown-handle",
        checked: "probably, the bytes of ipc:* are those of a handle of process {exporter}, shifted by 4 bytes",
        plain: "probably, no process under cupeer exported ipc:*",
    },
    Wording {
        name: "shift-back-8",
        machine: "nvlink:2",
        rule: "ipc-unknown-handle",
        checked: "probably, the bytes of ipc:* are those of a handle of process {exporter}, shifted by 8 bytes",
        plain: "probably, no process under cupeer exported ipc:*",
    },
    Wording {
        name: "shift-on-4",
        machine: "nvlink:2",
        rule: "ipc-unknown-handle",
        checked: "probably, the bytes of ipc:* are those of a handle of process {exporter}, shifted by 4 bytes",
        plain: "probably, no process under cupeer exported ipc:*",
    },
    Wording {
        name: "shift-on-8",
        machine: "nvlink:2",
        rule: "ipc-unknown-handle",
        checked: "probably, the bytes of ipc:* are those of a handle of process {exporter}, shifted by 8 bytes",
        plain: "probably, no process under cupeer exported ipc:*",
    },
    Wording {
        name: "freed-opened-twice",
        machine: "nvlink:2",
        rule: "ipc-freed-while-open",
        checked: "0x* (4 MiB) was freed while open in process {importer}; its handle is ipc:*; process {importer} opened it 2 times and closed it once; using it is now undefined",
        plain: "0x* (4 MiB) was freed while open in process {importer}; its handle is ipc:*; process {importer} opened it 2 times and closed it once; using it is now undefined",
    },
    Wording {
        name: "close-elsewhere",
        machine: "nvlink:2",
        rule: "ipc-close-address",
        checked: "this process has not opened 0x*: process {importer} has it open; addresses are per process",
        plain: "this process has not opened 0x*",
    },
    Wording {
        name: "reset-with-one",
        machine: "nvlink:2",
        rule: "ipc-context-ended-while-open",
        checked: "cuDevicePrimaryCtxReset_v2 freed 0x*, open in process {importer}; its handle is ipc:*; using it is now undefined",
        plain: "cuDevicePrimaryCtxReset_v2 freed 0x*, open in process {importer}; its handle is ipc:*; using it is now undefined",
    },
    Wording {
        name: "destroy-with-event",
        machine: "nvlink:2",
        rule: "ipc-context-ended-while-open",
        checked: "cuCtxDestroy_v2 destroyed event 0x*, open in process {importer}; its handle is ipc:*; using it is now undefined",
        plain: "cuCtxDestroy_v2 destroyed event 0x*, open in process {importer}; its handle is ipc:*; using it is now undefined",
    },
    Wording {
        name: "interior",
        machine: "nvlink:2",
        rule: "ipc-interior-pointer",
        checked: "0x* is 4096 bytes into the 4 MiB allocation at 0x*; the handle refers to the whole allocation, so the importer must add 4096 bytes",
        plain: "0x* is 4096 bytes into the 4 MiB allocation at 0x*; the handle refers to the whole allocation, so the importer must add 4096 bytes",
    },
    Wording {
        name: "interior",
        machine: "nvlink:2",
        rule: "ipc-offset-not-added",
        checked: "probably, ipc:* of process {exporter} points 4096 bytes into its allocation; this call returned the start of the allocation, so the importer must add 4096 bytes",
        plain: "probably, ipc:* of process {exporter} points 4096 bytes into its allocation; this call returned the start of the allocation, so the importer must add 4096 bytes",
    },
    Wording {
        name: "fails-with-map-failed",
        machine: "answers nvlink:2",
        rule: "call-failed",
        checked: "cuIpcOpenMemHandle_v2 returned CUDA_ERROR_MAP_FAILED; most likely there is not enough space for the mapping: in this process's address space (ulimit -v limits it), or in the GPU's BAR1 (nvidia-smi -q -d MEMORY shows how much is free)",
        plain: "",
    },
    Wording {
        name: "fails-with-unknown",
        machine: "answers nvlink:2",
        rule: "driver-undocumented-result",
        checked: "cuIpcOpenMemHandle_v2 returned CUDA_ERROR_UNKNOWN; its documentation does not list that; the documentation of the result says: An unknown internal error has occurred",
        plain: "",
    },
    Wording {
        name: "hidden-from-one",
        machine: "answers nvlink:4",
        rule: "ipc-device-hidden",
        checked: "probably, this process may not use GPU *, where the memory is; it sees only GPU *",
        plain: "",
    },
    Wording {
        name: "hidden-from-two",
        machine: "answers nvlink:4",
        rule: "ipc-device-hidden",
        checked: "probably, this process may not use GPU *, where the memory is; it sees GPU * and GPU *",
        plain: "",
    },
    Wording {
        name: "hidden-from-three",
        machine: "answers nvlink:4",
        rule: "ipc-device-hidden",
        checked: "probably, this process may not use GPU *, where the memory is; it sees 3 others",
        plain: "",
    },
    Wording {
        name: "address-reused",
        machine: "nvlink:2",
        rule: "ipc-address-reused",
        checked: "freed memory at 0x* (ipc:*) is still open in process {importer}; this call exports new memory at the same address (ipc:*); an importer that caches mappings by address still uses the freed memory",
        plain: "freed memory at 0x* (ipc:*) is still open in process {importer}; this call exports new memory at the same address (ipc:*); an importer that caches mappings by address still uses the freed memory",
    },
];

/// Returns true if a text matches a pattern.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return text == pattern };
    let Some(rest) = text.strip_prefix(before) else { return false };
    let longest = rest.find(' ').unwrap_or(rest.len());
    (0..=longest).filter(|end| rest.is_char_boundary(*end)).any(|end| is_like(&rest[end..], after))
}

/// Findings with their sentences in a line each: their clauses stand in lines of their own, before the hint.
fn whole_sentences(stderr: &str) -> String {
    let (mut text, mut is_sentence) = (String::new(), false);
    for line in stderr.lines() {
        match line.strip_prefix("    ") {
            Some(clause) if is_sentence && !clause.starts_with("hint: ") => text += &format!("; {clause}"),
            _ => {
                is_sentence = line.starts_with("cupeer: ");
                text += &format!("\n{line}");
            }
        }
    }
    text
}

/// A pattern with what the program printed.
fn filled(pattern: &str, stdout: &str) -> String {
    stdout
        .lines()
        .filter_map(|line| line.split_once('='))
        .fold(pattern.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

/// Returns the wordings that differ.
fn wrong(wording: &Wording) -> Vec<String> {
    let &Wording { name, machine, rule, checked, plain } = wording;
    let play = Play { program: "wordings", name, machine };
    let folder = temp_dir();
    let mut said = Vec::new();
    let run = |options: &[&str], record: &str| {
        let ended = done(&mut play.under(How::Bad, options, &folder.path().join(record)));
        assert!(ended.status.success() || cannot(&ended), "{name}: {}{}", ended.stdout, ended.stderr);
        ended
    };
    let at_the_call = run(&["--check=notes"], "checked");
    if cannot(&at_the_call) {
        return said;
    }
    let wanted = filled(checked, &at_the_call.stdout);
    let head = format!(" {rule}: ");
    let told = whole_sentences(&at_the_call.stderr);
    let lines = told.lines().filter(|line| line.starts_with("cupeer: "));
    let sentences: Vec<&str> = lines.filter_map(|line| Some(line.split_once(&head)?.1)).collect();
    if !sentences.first().is_some_and(|sentence| is_like(sentence, &wanted)) {
        said.push(format!("{name}: wanted\n  {wanted}\nin\n{}", at_the_call.stderr));
    }
    let afterwards = run(&["--check=off"], "plain");
    let report = report(&folder.path().join("plain"));
    said.extend(contradictions(&report).into_iter().map(|text| format!("{name}: {text}")));
    let wanted = filled(plain, &afterwards.stdout);
    let rows = report["findings"].as_array().expect("findings").iter().filter(|row| row["rule"] == rule);
    let sentence = |row: &Value| {
        let probably = if row["confidence"] == "inferred" { "probably, " } else { "" };
        format!("{probably}{}", row["message"].as_str().expect("a sentence"))
    };
    let found: Vec<String> = rows.map(sentence).collect();
    let is_right = match found.first() {
        Some(sentence) => is_like(sentence, &wanted),
        None => wanted.is_empty(),
    };
    if !is_right {
        said.push(format!("{name}, without a check: wanted\n  {wanted}\nin {found:#?}"));
    }
    said
}

#[test]
fn findings_say_what_is_known() {
    let wrong: Vec<String> = WORDINGS.iter().flat_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_failure_without_a_rule_names_the_command_that_lists_its_causes() {
    let play = Play { program: "wordings", name: "fails-with-map-failed", machine: "answers nvlink:2" };
    let checked = play.checked(How::Bad, &[]);
    let finding = checked.findings().iter().find(|finding| finding["rule"] == "call-failed").expect("one");
    let hint = finding["hint"].as_str().expect("a hint");
    let command = hint.split('`').nth(1).expect("a command");
    assert_eq!(command, "cupeer explain MAP_FAILED");
    for text in [&checked.done.stderr, &checked.text] {
        assert!(words(text).contains(hint), "{text}");
    }
    let listed = support::stdout(cupeer().args(command.split(' ').skip(1)));
    assert!(words(&listed).contains("there is not enough space for the mapping"), "{listed}");
}

/// Runs the exporter and the importer, each in a run of its own, or in one record.
fn given(taker: &'static str, options: &[&str], records: [&str; 2], folder: &Path) -> [Done; 2] {
    let pipes = ["there", "back"].map(|name| folder.join(name));
    for pipe in &pipes {
        let _ = std::fs::remove_file(pipe);
        assert!(Command::new("mkfifo").arg(pipe).status().expect("mkfifo").success());
    }
    let run = |name, record| {
        let play = Play { program: "wordings", name, machine: "nvlink:2" };
        let mut command = play.under(How::Bad, options, &folder.join(record));
        command.env("THERE", &pipes[0]).env("BACK", &pipes[1]);
        command
    };
    let (mut exporter, mut importer) = (run("give", records[0]), run(taker, records[1]));
    std::thread::scope(|scope| {
        let exported = scope.spawn(move || done(&mut exporter));
        let imported = done(&mut importer);
        [exported.join().expect("it ends"), imported]
    })
}

fn page(record: &Path) -> String {
    support::stdout(cupeer().arg("report").arg(record))
}

const OUTSIDE: &str =
    "1 handle comes from a process outside this recording; start both with the same -o DIR to see all of it";

#[test]
fn a_handle_of_another_record_is_told_in_the_report() {
    let folder = temp_dir();
    let at = |name: &str| folder.path().join(name);
    given("take", &["--record=full"], ["exporter", "importer"], folder.path());
    let (whole, part) = (words(&page(&at("exporter"))), words(&page(&at("importer"))));
    assert!(!whole.contains("outside this recording"), "{whole}");
    assert!(part.contains("was broken by ") && part.contains(OUTSIDE), "{part}");
    // Beside something that is wrong, too.
    given("take-and-close-twice", &["--record=full"], ["exporter-2", "closing"], folder.path());
    let closing = words(&page(&at("closing")));
    assert!(closing.contains("Problems") && closing.contains(OUTSIDE), "{closing}");
    // Not where a filter may have left the exporter out.
    let filtered = support::stdout(cupeer().arg("report").arg(at("importer")).arg("--failed"));
    assert!(!words(&filtered).contains("outside this recording"), "{filtered}");
    // In one record, both are seen.
    given("take", &["--record=full"], ["both", "both"], folder.path());
    let both = words(&page(&at("both")));
    assert!(both.contains("was broken by ") && !both.contains("outside this recording"), "{both}");
}

#[test]
fn a_handle_that_fails_names_the_process_that_is_recorded_elsewhere() {
    let folder = temp_dir();
    let said = |options: &[&str], records| {
        let [_, importer] = given("take-other", options, records, folder.path());
        let wanted = filled(
            "cupeer: error ipc-unknown-handle: probably, ipc:* comes from process {exporter}, which cupeer records elsewhere; start both with -o DIR",
            &importer.stdout,
        );
        (whole_sentences(&importer.stderr).lines().any(|line| is_like(line, &wanted)), importer.stderr)
    };
    let (is_said, text) = said(&["--check"], ["one", "other"]);
    assert!(is_said, "{text}");
    let (is_said, text) = said(&["--check"], ["same", "same"]);
    assert!(!is_said && text.contains("ipc-damaged-handle"), "{text}");
}

#[test]
fn patterns_match_what_they_say() {
    assert!(is_like("in thread 17 from a+0x12, so", "in thread 17 from *+0x*, so"));
    assert!(!is_like("in thread 17 from a b+0x12, so", "in thread 17 from *+0x*, so"));
    assert!(!is_like("in thread 17", "in thread 1"));
    assert_eq!(filled("process {a} of {b}", "a=1\nx\nb=2\n"), "process 1 of 2");
}
