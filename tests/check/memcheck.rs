//! Programs that break rules, under valgrind's memcheck: the library reads nothing that was not written, and
//! writes nothing that is not its own, whatever it records, asks, judges and counts in the table of what is open.

use super::scenes::{How, Scene, cannot, for_each, report, scenes};
use crate::support::{done, sample, temp_dir};
use std::collections::BTreeSet;

const VALGRIND: [&str; 4] = ["valgrind", "--quiet", "--tool=memcheck", "--error-exitcode=99"];

#[test]
fn no_kind_of_scene_makes_memcheck_complain() {
    if std::process::Command::new(VALGRIND[0]).arg("--version").output().is_err() {
        return left_out!("valgrind is not installed");
    }
    let mut programs = BTreeSet::new();
    let mut wanted: Vec<&Scene> = scenes().iter().collect();
    wanted.retain(|scene| !scene.machine.starts_with("answers") && programs.insert(scene.program));
    assert!(wanted.len() >= 5, "{programs:?}");
    let wanted = wanted.into_iter().step_by(sample(4, 1));
    for_each(wanted, |scene| {
        let folder = temp_dir();
        let record = folder.path().join("record");
        let checked = done(&mut scene.under_within(How::Bad, &["--check=notes"], &record, &VALGRIND));
        if cannot(&checked) {
            return Vec::new();
        }
        let mut said = Vec::new();
        // So it reports: lines with its process's number.
        let complains = checked.stderr.lines().any(|line| line.starts_with("=="));
        if complains || !checked.status.success() {
            said.push(format!("{}\n{}", checked.status, checked.stderr));
        }
        let report = report(&record);
        let is_it = |finding: &serde_json::Value| finding["rule"] == scene.rule.spec().name();
        if !report["findings"].as_array().is_some_and(|all| all.iter().any(is_it)) {
            said.push(format!("{} is not found", scene.rule.spec().name()));
        }
        said
    });
}
