//! Suppressions: what becomes of findings that somebody knows of, and the file that a record suggests.

use super::scene::{Actor, CODE, Scene, found};
use super::{json_of, of, sarif};
use crate::support;
use cupeer_record::Outcome;
use cupeer_rules::Severity;
use cupeer_spec::function::FnId;
use cupeer_spec::results::Result;
use serde_json::{Value, json};
use std::fs;

/// A call that failed, from a place of the program that another place called, with a finding.
fn broken(actor: &mut Actor, at: u64, (caller, outer): (u64, u64), rule: &str, severity: Severity) {
    let mut call = actor.makes(FnId::cuIpcOpenMemHandle_v2, at);
    call.outcome = Outcome::Returned(Result::INVALID_VALUE as i32);
    call.caller = CODE + caller;
    call.details.frames = vec![CODE + caller, CODE + outer];
    call.details.findings = vec![found(rule, severity, "it is \"so\"; and more")];
    actor.add(&call);
}

/// A record with findings: two errors and a note from one place, an error from another, by way of two others.
fn scene() -> Scene {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    for at in [100, 120] {
        broken(&mut actor, at, (0x10, 0x900), "ipc-flags", Severity::Error);
    }
    broken(&mut actor, 140, (0x20, 0x900), "ipc-flags", Severity::Error);
    broken(&mut actor, 160, (0x20, 0xa00), "ipc-flags", Severity::Error);
    broken(&mut actor, 180, (0x30, 0x900), "ipc-flags", Severity::Note);
    broken(&mut actor, 200, (0x40, 0x900), "ipc-equal-pids", Severity::Warning);
    actor.ends();
    scene
}

/// Writes a file beside a record; gives the options that name it.
fn file(scene: &Scene, text: &str) -> [String; 2] {
    let path = scene.folder().join("known.toml");
    fs::write(&path, text).unwrap();
    ["--suppressions".into(), path.display().to_string()]
}

/// The findings with what suppresses them: rule, severity, place, count, line.
fn rows(report: &Value) -> Vec<String> {
    let row = |row: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let by = row["suppressed_by"]["line"].as_u64().map_or(String::new(), |line| format!(" by line {line}"));
        let place = text(&row["caller"]["offset"]);
        format!("{} {} {place} {}{by}", text(&row["rule"]), text(&row["severity"]), row["count"])
    };
    report["findings"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_file_that_a_record_suggests_means_its_findings_above_note_and_nothing_else() {
    let scene = scene();
    let suggested = of(&scene, &["--suggest-suppressions"]);
    let entries =
        [("0x10", "ipc-flags", "error"), ("0x20", "ipc-flags", "error"), ("0x40", "ipc-equal-pids", "warning")];
    let entries = entries.map(|(at, rule, severity)| {
        format!(
            "# {severity} cuIpcOpenMemHandle_v2: it is \"so\"\n[[suppression]]\nrule = \"{rule}\"\nlibrary = \"train\"\ncaller = \"train+{at}\"\n"
        )
    });
    assert_eq!(suggested, entries.join("\n"));
    let options = file(&scene, &suggested);
    let options = [&*options[0], &*options[1]];
    let report = json_of(&scene, &options);
    assert_eq!(
        rows(&report),
        [
            "ipc-flags error 0x10 2 by line 2",
            "ipc-flags error 0x20 2 by line 8",
            "ipc-equal-pids warning 0x40 1 by line 14",
            "ipc-flags note 0x30 1",
        ]
    );
    let counts: Vec<_> =
        report["suppressions"].as_array().unwrap().iter().map(|row| row["findings"].as_u64()).collect();
    assert_eq!(counts, [Some(2), Some(2), Some(1)]);
    // The remaining findings need no suppression.
    let again = of(&scene, &[&options[..], &["--suggest-suppressions"]].concat());
    assert_eq!(again, "# No finding is more than a note: there is nothing to suppress.\n");
}

#[test]
fn the_text_leaves_them_out_and_says_how_many() {
    let scene = scene();
    let options =
        file(&scene, "[[suppression]]\nrule = 'ipc-*'\n\n[[suppression]]\nrule = 'peer-flags'\nlibrary = 'x'\n");
    let text = of(&scene, &[&options[0], &options[1]]);
    assert!(!text.contains("ipc-flags") && !text.contains("ipc-equal-pids"), "{text}");
    assert!(!text.contains("Problems"), "failures that findings explain are theirs: {text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(" that were recorded, apart from what is suppressed."), "{text}");
    let path = &options[1];
    assert!(words.contains(&format!("Suppressed - 6 findings suppressed by {path}")), "{text}");
    let unmatched = format!("{path}:4: no finding matches this suppression: rule peer-flags, library x");
    assert!(words.replace(" ", "").contains(&unmatched.replace(' ', "")), "{text}");
    // A part of a record says nothing of the rest.
    let part = of(&scene, &[&options[0], &options[1], "--rank", "0"]);
    assert!(part.contains("6 findings suppressed by") && !part.contains("no finding matches"), "{part}");
    // Others stay.
    let options = file(&scene, "[[suppression]]\nrule = 'ipc-equal-pids'\n");
    let text = of(&scene, &[&options[0], &options[1]]);
    assert!(text.contains("- error ipc-flags: ") && !text.contains("ipc-equal-pids"), "{text}");
}

#[test]
fn findings_from_one_place_are_told_apart_by_who_called_it() {
    let scene = scene();
    let entry = "[[suppression]]\nrule = 'ipc-flags'\ncaller = 'train+0xa00'\n";
    let options = file(&scene, entry);
    let report = json_of(&scene, &[&options[0], &options[1]]);
    let found: Vec<String> = rows(&report).into_iter().filter(|row| row.contains("0x20")).collect();
    assert_eq!(found, ["ipc-flags error 0x20 1", "ipc-flags error 0x20 1 by line 1"]);
    assert!(!of(&scene, &[&options[0], &options[1]]).contains("other call failed"), "findings explain all of them");
    for (choice, count) in [("program = 'train'", 5), ("program = 'python*'", 0), ("library = '/opt/*/train'", 5)] {
        let options = file(&scene, &format!("[[suppression]]\nrule = 'ipc-flags'\n{choice}\n"));
        let report = json_of(&scene, &[&options[0], &options[1]]);
        assert_eq!(report["suppressions"][0]["findings"], count, "{choice}");
    }
}

#[test]
fn other_forms_have_them_with_the_entry() {
    let scene = scene();
    let options = file(&scene, "[[suppression]]\nrule = 'ipc-flags'\nreason = 'we know'\n");
    let options = [&*options[0], &*options[1]];
    let report = json_of(&scene, &options);
    let by = json!({ "file": options[1], "line": 1, "reason": "we know" });
    assert_eq!(report["findings"][0]["suppressed_by"], by);
    let run = sarif::run_of(&scene, &options);
    let results = run["results"].as_array().unwrap();
    let of = |rule: &str| {
        results.iter().find(|result| result["ruleId"] == rule).map(|result| result["suppressions"].clone()).unwrap()
    };
    let place =
        json!({ "artifactLocation": { "uri": format!("file://{}", options[1]) }, "region": { "startLine": 1 } });
    let entry = json!([{ "kind": "external", "status": "accepted", "justification": "we know",
        "location": { "physicalLocation": place } }]);
    assert_eq!(of("ipc-flags"), entry);
    assert_eq!(of("ipc-equal-pids"), json!([]), "it is known that nothing suppresses it");
    let document = super::of(&scene, &[&["--format", "junit"], &options[..]].concat());
    let case = format!("name=\"ipc-flags\"><skipped message=\"5 findings suppressed by {}\"></skipped>", options[1]);
    assert!(document.contains(&case), "{document}");
}

#[test]
fn a_comparison_does_not_count_them() {
    let scene = scene();
    let options = file(&scene, "[[suppression]]\nrule = 'ipc-flags'\n");
    let other = Scene::new();
    other.gone(0).ends();
    let diff = json_of(&scene, &["--diff", other.dir().to_str().unwrap(), &options[0], &options[1]]);
    let rules: Vec<&Value> = diff["findings"].as_array().unwrap().iter().map(|row| &row["rule"]).collect();
    assert_eq!(rules, ["ipc-equal-pids"]);
}

#[test]
fn invalid_suppressions_are_refused() {
    let scene = scene();
    let dir = scene.dir();
    let dir = dir.to_str().unwrap();
    let refused = |text: &str, sentence: &str| {
        let options = file(&scene, text);
        let sentence = sentence.replace("FILE", &options[1]);
        support::refused(&["report", dir, &options[0], &options[1]], &sentence);
        support::refused(&["run", "--out", "/proc/no/such", &options[0], &options[1], "true"], &sentence);
    };
    refused(
        "[[suppression]]\nrule = 'ipc-flagz'\n",
        "FILE:2:8: no rule is named 'ipc-flagz'; did you mean 'ipc-flags'?",
    );
    refused("# why\n[[suppression]]\nreason = 'x'\n", "FILE:2:1: this [[suppression]] lacks 'rule'");
    let missing = scene.folder().join("none.toml");
    let missing = missing.to_str().unwrap();
    let sentence = format!("--suppressions '{missing}': No such file or directory (os error 2)");
    support::refused(&["report", dir, "--suppressions", missing], &sentence);
    support::refused(
        &["report", dir, "--suppressions", missing, "--format", "trace"],
        "--suppressions is for the other forms; a trace shows all findings",
    );
    let bytes = scene.folder().join("bytes.toml");
    fs::write(&bytes, b"# x\n\xff").unwrap();
    let bytes = bytes.to_str().unwrap();
    let sentence = format!("--suppressions '{bytes}': line 2 is not UTF-8; these are no suppressions");
    support::refused(&["report", dir, "--suppressions", bytes], &sentence);
}
