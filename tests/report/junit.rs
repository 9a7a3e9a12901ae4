//! JUnit's XML: its form, and what of a record is passed, failed and skipped.

use super::scene::{Scene, found};
use super::text::wrong;
use super::xml::{self, Element};
use super::{of, scene};
use crate::support;
use cupeer_record::Outcome;
use cupeer_record::writer::About;
use cupeer_rules::{Rule, Severity};
use cupeer_spec::function::FnId;
use cupeer_spec::record::end;
use cupeer_spec::results::Result;
use std::fs;
use std::process::Command;

/// Elements, the elements that may be in each, and its attributes, of which this many are required, as in junit-10.xsd.
const ELEMENTS: [(&str, &[&str], &[&str], usize); 8] = [
    ("testsuites", &["testsuite"], &["name", "tests", "failures", "errors", "time"], 0),
    (
        "testsuite",
        &["properties", "testcase"],
        &["name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname"],
        4,
    ),
    ("properties", &["property"], &[], 0),
    ("property", &[], &["name", "value"], 2),
    ("testcase", &["skipped", "failure", "system-out"], &["name", "classname", "time"], 1),
    ("skipped", &[], &["message", "type"], 0),
    ("failure", &[], &["message", "type"], 0),
    ("system-out", &[], &[], 0),
];

fn assert_of_form(element: &Element) {
    let (_, children, attributes, must) =
        ELEMENTS.iter().find(|(name, ..)| *name == element.name).unwrap_or_else(|| panic!("{element:?}"));
    for name in &attributes[..*must] {
        element.get(name);
    }
    for (name, _) in &element.attributes {
        assert!(attributes.contains(&&**name), "{name} of {}", element.name);
    }
    for child in &element.children {
        assert!(children.contains(&&*child.name), "{} in {}", child.name, element.name);
        assert_of_form(child);
    }
}

/// Checks against the official schema where that and a validator are there. The validator: xmllint, or Python's xmlschema.
fn assert_official(document: &str) {
    let Some(schema) = super::official("junit-10.xsd") else { return };
    let folder = support::temp_dir();
    let file = folder.path().join("junit.xml");
    fs::write(&file, document).unwrap();
    let mut xmllint = Command::new("xmllint");
    xmllint.args(["--noout", "--nonet", "--schema"]).arg(&schema).arg(&file);
    let code = "import sys, xmlschema; xmlschema.XMLSchema(sys.argv[1]).validate(sys.argv[2])";
    let mut python = Command::new("python3");
    python.args(["-c", code]).arg(&schema).arg(&file).env("PYTHONPATH", schema.with_file_name("python"));
    let has_module = Command::new("python3")
        .args(["-c", "import xmlschema"])
        .env("PYTHONPATH", schema.with_file_name("python"))
        .output()
        .is_ok_and(|output| output.status.success());
    let done = match (xmllint.output(), has_module) {
        (Ok(done), _) => done,
        (Err(_), true) => python.output().unwrap(),
        (Err(_), false) => {
            left_out!("there is neither xmllint nor Python's xmlschema; scripts/schemas fetches it");
            return;
        }
    };
    assert!(done.status.success(), "{}\n{document}", String::from_utf8_lossy(&done.stderr));
}

/// The test suite of a scene. Its counts are those of its test cases.
#[track_caller]
fn suite(scene: &Scene, options: &[&str]) -> Element {
    let document = of(scene, &[&["--format", "junit"], options].concat());
    let mut root = xml::read(&document).unwrap_or_else(|error| panic!("{error}\n{document}"));
    assert_eq!(root.name, "testsuites");
    assert_of_form(&root);
    assert_official(&document);
    assert_eq!(root.children.len(), 1, "a recording is a suite");
    let suite = root.children.remove(0);
    let with = |name: &str| suite.all("testcase").filter(|case| case.all(name).count() > 0).count();
    for (attribute, count) in [
        ("tests", suite.all("testcase").count()),
        ("failures", with("failure")),
        ("skipped", with("skipped")),
        ("errors", 0),
    ] {
        assert_eq!(suite.get(attribute), count.to_string(), "{attribute}");
    }
    suite
}

/// Returns the outcome of a test case: `passed`, `skipped: WHY` or `failed: MESSAGE`.
#[track_caller]
fn outcome(suite: &Element, name: &str) -> String {
    let mut cases = suite.all("testcase").filter(|case| case.get("name") == name);
    let case = cases.next().unwrap_or_else(|| panic!("no test case {name}"));
    assert!(cases.next().is_none(), "two test cases {name}");
    match case.children.iter().find(|child| child.name != "system-out") {
        None => "passed".into(),
        Some(child) if child.name == "skipped" => format!("skipped: {}", child.get("message")),
        Some(child) => format!("failed: {}", child.get("message")),
    }
}

/// A record of one process under a check, with a finding of a rule.
fn checked(severity: Severity, message: &str, variables: &[(&str, &str)]) -> Scene {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    for (name, value) in [("CUPEER_CHECK", "warnings")].iter().chain(variables) {
        actor.writer().variable(name, value).unwrap();
    }
    let mut call = actor.makes(FnId::cuIpcOpenMemHandle_v2, 100);
    call.outcome = Outcome::Returned(Result::INVALID_VALUE as i32);
    call.details.findings = vec![found("ipc-flags", severity, message)];
    actor.add(&call).ends();
    scene
}

#[test]
fn a_rule_fails_passes_or_was_not_looked_for() {
    let scene = checked(Severity::Error, "Flags must be 1 (is <4> & \"5\"\x1b[2J\x01)", &[]);
    let suite = suite(&scene, &[]);
    let message = "failed: cuIpcOpenMemHandle_v2, once in rank 0: Flags must be 1 (is <4> & \"5\"\u{fffd}[2J\u{fffd})";
    assert_eq!(outcome(&suite, "ipc-flags"), message);
    let failure = suite.all("testcase").find_map(|case| case.all("failure").next()).unwrap();
    assert_eq!(failure.get("type"), "error");
    assert!(failure.text.contains("- error ipc-flags: ") && failure.text.contains("hint: Do it right."), "{failure:?}");
    assert_eq!(outcome(&suite, "ipc-unknown-handle"), "passed", "it was looked for in that call");
    assert_eq!(outcome(&suite, "ipc-damaged-handle"), "passed", "a check looks for it");
    // No test case: no call could break the one, and cupeer does not check the other.
    assert!(!Rule::PeerOneWay.spec().is_checked());
    let names: Vec<&str> = suite.all("testcase").map(|case| case.get("name")).collect();
    assert!(!names.contains(&"peer-flags") && !names.contains(&"peer-one-way"), "{names:?}");
}

#[test]
fn a_note_is_no_failure_and_is_told() {
    let suite = suite(&checked(Severity::Note, "it is 3", &[]), &[]);
    assert_eq!(outcome(&suite, "ipc-flags"), "passed");
    let case = suite.all("testcase").find(|case| case.get("name") == "ipc-flags").unwrap();
    assert!(case.all("system-out").next().unwrap().text.contains("it is 3"));
}

#[test]
fn findings_of_a_newer_version_have_a_test_case() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    let mut call = actor.makes(FnId::cuIpcCloseMemHandle, 100);
    call.details.findings = vec![found("ipc-of-tomorrow", Severity::Warning, "who knows")];
    actor.add(&call).ends();
    let expected = "failed: cuIpcCloseMemHandle, once in rank 0: who knows";
    assert_eq!(outcome(&suite(&scene, &[]), "ipc-of-tomorrow"), expected);
}

#[test]
fn nothing_passes_that_was_not_looked_at() {
    let rule = "ipc-unknown-handle";
    let play = |variables: &[(&str, &str)]| {
        let suite = suite(&checked(Severity::Error, "broken", variables), &[]);
        assert!(outcome(&suite, "ipc-flags").starts_with("failed: "), "a finding is one in any case");
        outcome(&suite, rule)
    };
    assert_eq!(play(&[]), "passed");
    assert_eq!(
        play(&[("CUPEER_IGNORE", "ipc-unknown-*@libnccl*")]),
        "skipped: --ignore ipc-unknown-*@libnccl* leaves it out"
    );
    assert_eq!(play(&[("CUPEER_ONLY", "peer-*")]), "skipped: --only peer-* leaves it out");
    assert_eq!(play(&[("CUPEER_ONLY", "ipc-*")]), "passed");
    // Without a check the record tells some rules, and some only in part.
    let scene = Scene::new();
    scene.gone(0).fail_to_open(100, (0x11, scene::checked(0x11)), 1).ends();
    let mut other = scene.gone(1);
    other.writer().variable("CUPEER_CHECK", "errors").unwrap();
    other.ends();
    let mut unchecked = scene.gone(2);
    unchecked.writer().variable("CUPEER_CHECK", "off").unwrap();
    unchecked.ends();
    let suite_of_three = suite(&scene, &[]);
    let why = "which export the bytes resemble that the driver does not check: to the recording nobody exported them";
    let expected = format!("skipped: not looked for without --check in 2 of 3 processes: only the call tells {why}");
    assert_eq!(outcome(&suite_of_three, "ipc-damaged-handle"), expected);
    assert_eq!(outcome(&suite_of_three, "ipc-flags"), "passed");

    // Answers of a fault plan are not judged.
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    let mut call = actor.makes(FnId::cuIpcCloseMemHandle, 100);
    (call.outcome, call.injected) = (Outcome::Returned(Result::UNKNOWN as i32), true);
    actor.add(&call).ends();
    let suite_of_plan = suite(&scene, &[]);
    assert!(suite_of_plan.all("testcase").all(|case| case.get("name") != "ipc-close-address"));

    // Ways to lose a part of the recording.
    type Spoil = fn(&mut scene::Actor);
    let spoils: [(Spoil, &str); 3] = [
        (
            |actor| actor.writer().change_header(|header| header.lost = 7).unwrap(),
            "the recording is incomplete: 7 events could not be kept",
        ),
        (
            |actor| actor.writer().escaped("RTLD_DEEPBIND", "/opt/deep.so").unwrap(),
            "the calls of /opt/deep.so escape cupeer",
        ),
        (|actor| actor.writer().change_header(|header| header.ended_by = 28).unwrap(), "the recording is incomplete: "),
    ];
    for (spoil, why) in spoils {
        let scene = Scene::new();
        let mut actor = scene.gone(0);
        actor.export(100, 0x11, 0x7000);
        spoil(&mut actor);
        actor.ends();
        let suite = suite(&scene, &[]);
        let passed =
            suite.all("testcase").filter(|case| case.get("classname") == "cupeer.rules" && case.children.is_empty());
        assert_eq!(passed.count(), 0, "{why}");
        assert!(
            outcome(&suite, "ipc-reexport").starts_with(&format!("skipped: {why}")),
            "{}",
            outcome(&suite, "ipc-reexport")
        );
    }
    let scene = Scene::new();
    let mut actor = scene.process(About { ring: Some(8), ..About::default() });
    for i in 0..100_000 {
        actor.ask(100 + 20 * i, 1);
    }
    actor.ends();
    let why = "skipped: a ring keeps only the last events, and older ones are gone";
    assert_eq!(outcome(&suite(&scene, &[]), "device-out-of-range"), why);
}

#[test]
fn a_process_fails_where_it_died_or_returned_a_failure() {
    let scene = Scene::new();
    let ends = |rank, end: end::RecordedEnd| {
        let mut actor = scene.gone(rank);
        actor.writer().change_header(|header| header.end = end.to_word()).unwrap();
        actor.ends();
    };
    ends(0, end::RecordedEnd::Returned(0));
    ends(1, end::RecordedEnd::Returned(3));
    ends(2, end::RecordedEnd::Signal(11));
    ends(3, end::RecordedEnd::Untold);
    scene.running(4).ends();
    let suite = suite(&scene, &[]);
    assert_eq!(outcome(&suite, "rank 0"), "passed");
    assert_eq!(outcome(&suite, "rank 1"), "failed: rank 1 ended with exit status 3");
    assert_eq!(outcome(&suite, "rank 2"), "failed: rank 2 was killed by SIGSEGV");
    assert_eq!(outcome(&suite, "rank 3"), "skipped: how it ended is unknown");
    assert_eq!(outcome(&suite, "rank 4"), "skipped: it is still running");
}

#[test]
fn processes_without_rank_have_the_name_of_their_program() {
    let scene = Scene::new();
    for pid in [5, 6] {
        scene.process(About { pid, ..About::default() }).ends();
    }
    let suite = suite(&scene, &[]);
    assert_eq!(outcome(&suite, "train"), "passed");
    outcome(&suite, "train (2)");
}

#[test]
fn a_record_of_which_everything_is_wrong_is_of_the_form() {
    let suite = suite(&wrong(), &[]);
    assert!(outcome(&suite, "ipc-damaged-handle").starts_with("failed: "));
    assert!(
        outcome(&suite, "rank 3").starts_with("failed: rank 3 was killed or called exit_group in cuIpcOpenEventHandle")
    );
    assert!(suite.get("name") == "cupeer cupeer-run-1" && suite.get("hostname") == "alpha");
    assert_eq!(suite.get("timestamp"), "2023-11-14T22:13:20Z");
}
