//! Both sites of what breaks a rule: the call, and what was done earlier to what it is about, each with its line of source.

use super::scenes::{How, report, scenes};
use crate::support::{done, temp_dir};
use serde_json::Value;
use std::path::Path;

/// The role of an object, its function in the program of the scene, and what stands in the line of its call.
type Site = (&'static str, &'static str, &'static str);

/// Scenes, with what their finding is to name beside its call.
const SCENES: [(&str, &[Site]); 7] = [
    (
        "ipc-closed-twice",
        &[("opening", "twice", "= open_memory("), ("closing", "twice", "OK(cuIpcCloseMemHandle(p))")],
    ),
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
];

/// The number of the first line with a text in a function of a source.
fn line_of(source: &str, function: &str, text: &str) -> u64 {
    let begin = source.find(&format!(" {function}(")).unwrap_or_else(|| panic!("no {function}"));
    let at = begin + source[begin..].find(text).unwrap_or_else(|| panic!("no '{text}' in {function}"));
    source[..at].lines().count() as u64 + u64::from(source[..at].ends_with('\n'))
}

/// Whether a stack has a line of a file.
fn has(stack: &Value, file: &str, line: u64) -> bool {
    let places = stack.as_array().into_iter().flatten();
    let mut lines = places.flat_map(|place| place["lines"].as_array().into_iter().flatten());
    lines
        .any(|known| known["line"] == line && known["file"].as_str().is_some_and(|path| path.ends_with(file)))
}

#[test]
fn findings_name_the_other_sites_with_their_lines() {
    for (name, sites) in SCENES {
        let scene = scenes().into_iter().find(|scene| scene.name == name).expect("a scene");
        let file = format!("/{}.c", scene.program);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/rules").join(&file[1..]);
        let source = std::fs::read_to_string(path).unwrap();
        for check in ["--check=notes", "--check=off"] {
            let folder = temp_dir();
            let record = folder.path().join("record");
            done(&mut scene.under(How::Bad, &[check], &record));
            let report = report(&record);
            let findings = report["findings"].as_array().expect("findings");
            let finding = findings.iter().find(|finding| finding["rule"] == scene.rule.spec().name);
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
