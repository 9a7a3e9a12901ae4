//! Both sites of what breaks a rule: the call, and what was done earlier to what it is about, each with its line of source.

use super::scenes::{How, report, scene};
use crate::support::{self, cupeer, done, temp_dir};
use serde_json::Value;
use std::path::Path;

/// The role of an object, its function in the program of the scene, and what stands in the line of its call.
type Site = (&'static str, &'static str, &'static str);

/// Scenes, with what their finding is to name beside its call.
const SCENES: [(&str, &[Site]); 12] = [
    ("ipc-closed-twice", &[("opening", "twice", "= open_memory("), ("closing", "twice", "OK(cuIpcCloseMemHandle(p))")]),
    (
        "ipc-open-after-free",
        &[("export", "after_free", "= export(p)"), ("freeing", "after_free", "if (bad) OK(cuMemFree_v2(p))")],
    ),
    (
        "ipc-address-reused",
        &[
            ("export", "address_reused", "put_handle(link, export(p))"),
            ("opening", "keep_open", "= open_memory("),
            ("freeing", "address_reused", "OK(cuMemFree_v2(p))"),
        ],
    ),
    ("context-destroyed", &[("ending", "context_destroyed", "cuDevicePrimaryCtxRelease_v2(")]),
    ("context-destroyed/enable", &[("ending", "context_destroyed_enable", "cuDevicePrimaryCtxRelease_v2(")]),
    ("peer-already-enabled", &[("enabling", "peer_already_enabled", "cuCtxEnablePeerAccess")]),
    ("ipc-freed-while-open", &[("opening", "hold_memory", "= open_memory(")]),
    ("vmm-mapped-twice", &[("mapping", "mapped_twice", "OK(cuMemMap(at, SIZE, 0, first, 0))")]),
    ("vmm-reservation-in-use", &[("mapping", "in_use", "= map(allocation)")]),
    ("vmm-part-of-mapping", &[("mapping", "part_unmapped", "= map(allocation)")]),
    ("vmm-part-of-mapping/access", &[("mapping", "part_accessible", "= map(allocation)")]),
    ("vmm-released-twice", &[("releasing", "released_twice", "OK(cuMemRelease(allocation))")]),
];

/// The scene in which only the call itself tells which of two contexts was destroyed.
const AT_CALL: &str = "context-destroyed/enable";

/// The number of the first line with a text in a function of a source.
fn line_of(source: &str, function: &str, text: &str) -> u64 {
    let begin = source.find(&format!(" {function}(")).unwrap_or_else(|| panic!("no {function}"));
    let at = begin + source[begin..].find(text).unwrap_or_else(|| panic!("no '{text}' in {function}"));
    source[..at].lines().count() as u64 + u64::from(source[..at].ends_with('\n'))
}

/// Returns true if a stack has a line of a file.
fn has(stack: &Value, file: &str, line: u64) -> bool {
    let places = stack.as_array().into_iter().flatten();
    let mut lines = places.flat_map(|place| place["lines"].as_array().into_iter().flatten());
    lines.any(|known| known["line"] == line && known["file"].as_str().is_some_and(|path| path.ends_with(file)))
}

#[test]
fn findings_name_the_other_sites_with_their_lines() {
    for (name, sites) in SCENES {
        let scene = scene(name);
        let file = format!("/{}.c", scene.program);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/rules").join(&file[1..]);
        let source = std::fs::read_to_string(path).unwrap();
        for check in ["--check=notes", "--check=off"].into_iter().take(if name == AT_CALL { 1 } else { 2 }) {
            let folder = temp_dir();
            let record = folder.path().join("record");
            done(&mut scene.under(How::Bad, &[check], &record));
            let report = report(&record);
            let findings = report["findings"].as_array().expect("findings");
            let finding = findings.iter().find(|finding| finding["rule"] == scene.rule.spec().name());
            let finding = finding.unwrap_or_else(|| panic!("{name} {check}: {findings:#?}"));
            let objects = finding["objects"].as_array().expect("objects");
            for (role, function, text) in sites {
                let line = line_of(&source, function, text);
                let is_it = |object: &&Value| object["role"] == *role && has(&object["stack"], &file, line);
                let count = objects.iter().filter(is_it).count();
                assert_eq!(count, 1, "{name} {check}: {role} at {file}:{line}: {finding:#}");
            }
        }
    }
}

/// A record of a scene that was run with these options, and the lines of its source.
fn recorded(name: &str, options: &[&str], record: &Path) -> String {
    let scene = scene(name);
    done(&mut scene.under(How::Bad, &[&["--check=off"], options].concat(), record));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/rules").join(scene.program);
    std::fs::read_to_string(path.with_extension("c")).unwrap()
}

#[test]
fn the_trace_leaks_and_calls_that_never_return_have_lines() {
    let folder = temp_dir();
    let shows = |record: &Path, options: &[&str], line: &str| {
        let text = support::stdout(cupeer().arg("report").arg(record).args(options));
        assert!(text.contains(line), "{options:?}: no {line}: {text}");
    };
    let record = folder.path().join("closed");
    let source = recorded("ipc-closed-twice", &[], &record);
    let line = line_of(&source, "twice", "OK(cuIpcCloseMemHandle(p))");
    shows(&record, &["--format", "trace"], &format!("close.c:{line} in twice"));

    let record = folder.path().join("open");
    let source = recorded("ipc-never-closed", &[], &record);
    let line = line_of(&source, "leave_open", "cuIpcOpenMemHandle_v2");
    shows(&record, &["--leaks"], &format!("lifetime.c:{line} in leave_open"));

    let record = folder.path().join("never");
    let source = recorded("ipc-closed-twice", &["--inject", "cuIpcCloseMemHandle:signal=KILL"], &record);
    let line = line_of(&source, "twice", "OK(cuIpcCloseMemHandle(p))");
    shows(&record, &[], &format!("close.c:{line} in twice"));
    let pending = &report(&record)["processes"];
    let mut pending = pending.as_array().expect("processes").iter().flat_map(|p| p["pending"].as_array()).flatten();
    assert!(pending.any(|call| has(&call["stack"], "/close.c", line)), "{pending:?}");
}

#[test]
fn the_end_of_a_run_names_the_other_sites() {
    let folder = temp_dir();
    let scene = scene("ipc-closed-twice");
    let run = done(&mut scene.under(How::Bad, &[], &folder.path().join("record")));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/rules/close.c");
    let source = std::fs::read_to_string(path).unwrap();
    for (text, begin) in [("OK(cuIpcCloseMemHandle(p))", "closed at"), ("CALL(cuIpcCloseMemHandle", "at")] {
        let line = line_of(&source, "twice", text);
        let wanted = format!("cupeer:     {begin} close.c:{line} in twice\n");
        assert!(run.stderr.contains(&wanted), "no {wanted}: {}", run.stderr);
    }
}
