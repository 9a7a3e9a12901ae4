//! SARIF: its form, and what of a record is in it.

use super::scene::{Scene, found};
use super::text::wrong;
use super::{json_of, of, scene};
use crate::support;
use cupeer_record::Outcome;
use cupeer_rules::{RULES, Severity};
use cupeer_spec::function::FnId;
use cupeer_spec::record::end;
use cupeer_spec::results::Result;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// The part of SARIF 2.1.0 that we write, and nothing else.
fn part() -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    let object = |required: &[&str], properties: Value| json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties });
    let array = |items: Value| json!({ "type": "array", "uniqueItems": true, "items": items });
    let message = object(&["text"], json!({ "text": text }));
    let level = json!({ "enum": ["error", "warning", "note"] });
    let physical = object(
        &["artifactLocation"],
        json!({
            "artifactLocation": object(&["uri"], json!({ "uri": { "type": "string", "pattern": "^(file:///)?[A-Za-z0-9%._~/-]+$" } })),
            "region": object(&["startLine"], json!({ "startLine": { "type": "integer", "minimum": 1 } })),
        }),
    );
    let logical = object(
        &["name", "fullyQualifiedName", "kind"],
        json!({ "name": text, "fullyQualifiedName": text, "kind": { "enum": ["function", "module"] } }),
    );
    let location = object(
        &[],
        json!({ "id": { "type": "integer" }, "message": message, "physicalLocation": physical, "logicalLocations": array(logical) }),
    );
    let frame = object(&["location", "module"], json!({ "location": location, "module": { "type": "string" } }));
    let suppression = object(
        &["kind", "status", "location"],
        json!({ "kind": { "const": "external" }, "status": { "const": "accepted" }, "justification": text, "location": location }),
    );
    let result = object(
        &["ruleId", "level", "message", "occurrenceCount", "partialFingerprints", "locations"],
        json!({
            "ruleId": text,
            "ruleIndex": { "type": "integer", "minimum": 0 },
            "level": level,
            "message": message,
            "occurrenceCount": { "type": "integer", "minimum": 1 },
            "partialFingerprints": object(&["cupeer/v1"], json!({ "cupeer/v1": text })),
            "locations": array(location.clone()),
            "relatedLocations": array(location.clone()),
            "stacks": array(object(&["frames"], json!({ "frames": { "type": "array", "items": frame } }))),
            "suppressions": array(suppression),
            "properties": { "type": "object" },
        }),
    );
    let rule = object(
        &["id", "shortDescription", "fullDescription", "help", "defaultConfiguration"],
        json!({
            "id": text, "shortDescription": message, "fullDescription": message, "help": message,
            "helpUri": { "type": "string", "pattern": "^https://" },
            "defaultConfiguration": object(&["level"], json!({ "level": level, "enabled": { "type": "boolean" } })),
        }),
    );
    let driver = object(
        &["name", "version", "rules"],
        json!({ "name": { "const": "cupeer" }, "version": text, "semanticVersion": text, "informationUri": text, "rules": array(rule) }),
    );
    let notifications = json!({ "type": "array", "items": object(&["level", "message"], json!({ "level": level, "message": message })) });
    let invocation = object(
        &["executionSuccessful"],
        json!({
            "executionSuccessful": { "const": true },
            "toolExecutionNotifications": notifications,
            "toolConfigurationNotifications": notifications,
        }),
    );
    let run = object(
        &["tool", "invocations", "results"],
        json!({
            "tool": object(&["driver"], json!({ "driver": driver })),
            "invocations": array(invocation),
            "results": { "type": "array", "items": result },
            "columnKind": { "const": "unicodeCodePoints" },
            "properties": { "type": "object" },
        }),
    );
    object(
        &["$schema", "version", "runs"],
        json!({
            "$schema": { "type": "string" },
            "version": { "const": "2.1.0" },
            "runs": { "type": "array", "minItems": 1, "maxItems": 1, "items": run },
        }),
    )
}

#[track_caller]
fn assert_valid(log: &Value) {
    static VALIDATORS: OnceLock<Vec<jsonschema::Validator>> = OnceLock::new();
    let validators = VALIDATORS.get_or_init(|| {
        let official = super::official("sarif-2.1.0.json");
        let official = official.map(|path| std::fs::read_to_string(path).expect("it is readable"));
        let official = official.map(|text| serde_json::from_str(&text).expect("it is JSON"));
        let schemas = [part()].into_iter().chain(official);
        schemas.map(|schema| jsonschema::validator_for(&schema).expect("it is a schema")).collect()
    });
    for validator in validators {
        let errors: Vec<String> =
            validator.iter_errors(log).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{:.4000}\n{log:#}", errors.join("\n"));
    }
}

/// The run of a scene.
#[track_caller]
pub fn run_of(scene: &Scene, options: &[&str]) -> Value {
    let mut log: Value =
        serde_json::from_str(&of(scene, &[&["--format", "sarif"], options].concat())).expect("it is JSON");
    assert_valid(&log);
    let run = log["runs"][0].take();
    // A rule that has a place is the one there.
    for result in run["results"].as_array().unwrap() {
        if let Some(index) = result["ruleIndex"].as_u64() {
            let rule = &run["tool"]["driver"]["rules"][index as usize];
            assert_eq!(rule["id"], result["ruleId"]);
        }
    }
    run
}

fn results<'a>(run: &'a Value, rule: &str) -> Vec<&'a Value> {
    run["results"].as_array().unwrap().iter().filter(|result| result["ruleId"] == rule).collect()
}

#[test]
fn all_rules_stand_in_the_log() {
    let scene = Scene::new();
    scene.gone(0).ends();
    let run = run_of(&scene, &[]);
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let ids: Vec<&str> = rules.iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    let names: Vec<&str> = RULES.iter().map(|rule| rule.name()).collect();
    assert_eq!(ids[..names.len()], names);
    let own =
        ["job-hung", "process-died", "process-failed", "process-asked-to-end", "call-not-returned", "call-unexplained"];
    assert_eq!(ids[names.len()..], own);
    for (rule, spec) in rules.iter().zip(RULES) {
        assert_eq!(
            rule["defaultConfiguration"],
            json!({ "enabled": spec.is_checked(), "level": spec.severity.word() })
        );
        assert_eq!(rule["shortDescription"]["text"], spec.page().says);
        assert!(rule["help"]["text"].as_str().unwrap().starts_with(spec.hint()), "{rule:#}");
        // The page has it.
        let uri = rule["helpUri"].as_str().unwrap();
        let (page, anchor) = uri.split_once("/blob/main/").unwrap().1.split_once('#').unwrap();
        let page = support::book::page(page).text;
        assert!(page.contains(&format!("\n## {anchor}\n")), "{uri}");
    }
    assert_eq!(run["results"], json!([]));
    assert_eq!(run["tool"]["driver"]["version"], env!("CARGO_PKG_VERSION"));
}

/// A record with one finding, of a process with a number, at an address.
fn one(pid: u32, base: u64, at: u64) -> Scene {
    let scene = Scene::new();
    let mut actor = scene.process(cupeer_record::writer::About { pid, ..Default::default() });
    let library = cupeer_record::Library {
        base,
        range: base..base + 0x1000,
        since: 0,
        build_id: vec![pid as u8],
        path: "/opt/some where/libx.so.1".into(),
    };
    actor.writer().library(&library).unwrap();
    for i in 0..3 {
        let mut call = actor.makes(FnId::cuIpcOpenMemHandle_v2, at + 20 * i);
        call.outcome = Outcome::Returned(Result::INVALID_VALUE as i32);
        call.caller = base + 0x123;
        call.details.frames = vec![call.caller, scene::CODE + 0x456];
        let message = format!("Flags of {:#x} must be 1\x1b[2J", base + 8);
        call.details.findings = vec![found("ipc-flags", Severity::Error, &message)];
        actor.add(&call);
    }
    actor.ends();
    scene
}

#[test]
fn a_finding_is_a_result_with_its_place() {
    let run = run_of(&one(70, 0x1000, 100), &[]);
    let [result] = results(&run, "ipc-flags")[..] else { panic!("one: {run:#}") };
    assert_eq!((&result["level"], &result["occurrenceCount"]), (&json!("error"), &json!(3)));
    let text = "cuIpcOpenMemHandle_v2, 3 times in process 70: Flags of 0x1008 must be 1\u{fffd}[2J.";
    assert_eq!(result["message"]["text"], text);
    let place = json!({
        "physicalLocation": { "artifactLocation": { "uri": "file:///opt/some%20where/libx.so.1" } },
        "logicalLocations": [{ "name": "libx.so.1+0x123", "fullyQualifiedName": "libx.so.1+0x123", "kind": "module" }],
    });
    assert_eq!(result["locations"], json!([place]));
    let frames = result["stacks"][0]["frames"].as_array().unwrap();
    assert_eq!((&frames[0]["location"], &frames[1]["module"]), (&place, &json!("train")));
    assert_eq!(result["properties"]["result"], "CUDA_ERROR_INVALID_VALUE");
    assert_eq!(result.get("suppressions"), None, "nobody asked for any");
}

#[test]
fn fingerprints_stay_the_same_over_runs() {
    let [first, second] =
        [one(70, 0x1000, 100), one(71, 0x7f00_0000, 3000)].map(|scene| run_of(&scene, &[])["results"].take());
    assert_ne!(first[0]["message"], second[0]["message"], "another run");
    let fingerprint = "ipc-flags|cuIpcOpenMemHandle_v2|libx.so.1+0x123";
    assert_eq!(first[0]["partialFingerprints"], json!({ "cupeer/v1": fingerprint }));
    assert_eq!(first[0]["partialFingerprints"], second[0]["partialFingerprints"]);
    // The same holds for incidents.
    let [first, second] = [wrong(), wrong()].map(|scene| {
        let run = run_of(&scene, &[]);
        run["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|result| result["partialFingerprints"].clone())
            .collect::<Vec<_>>()
    });
    assert_eq!(first, second);
}

#[test]
fn incidents_without_a_rule_are_results_too() {
    let scene = Scene::new();
    let mut dead = scene.gone(0);
    let hung = dead.opening(300, (0x11, scene::checked(0x11)), 0);
    dead.hang(&hung).writer().change_header(|header| header.end = end::RecordedEnd::Signal(9).to_word()).unwrap();
    dead.ends();
    let mut failed = scene.gone(1);
    failed.writer().change_header(|header| header.end = end::RecordedEnd::Returned(4).to_word()).unwrap();
    let mut call = failed.makes(FnId::cuIpcCloseMemHandle, 100);
    call.outcome = Outcome::Returned(Result::UNKNOWN as i32);
    failed.add(&call).ends();
    let mut running = scene.running(2);
    let hung = running.makes(FnId::cuIpcGetMemHandle, 200);
    running.hang(&hung).ends();
    let run = run_of(&scene, &[]);
    let of = |id: &str| {
        let [result] = results(&run, id)[..] else { panic!("one {id}: {run:#}") };
        let text = result["message"]["text"].as_str().unwrap().to_owned();
        (
            text,
            result["level"].clone(),
            result["partialFingerprints"]["cupeer/v1"].clone(),
            result["locations"][0].clone(),
        )
    };
    let (text, level, fingerprint, place) = of("process-died");
    assert!(text.starts_with("rank 0 was killed by SIGKILL in cuIpcOpenMemHandle_v2, called at "), "{text}");
    assert_eq!(level, "error");
    assert!(
        fingerprint.as_str().unwrap().starts_with("process-died|rank 0|cuIpcOpenMemHandle_v2|train+0x"),
        "{fingerprint}"
    );
    assert_eq!(place["physicalLocation"]["artifactLocation"]["uri"], "file:///opt/app/bin/train");
    let (text, level, ..) = of("process-failed");
    assert_eq!((text.as_str(), level), ("rank 1 ended with exit status 4.", json!("warning")));
    let (text, level, ..) = of("call-unexplained");
    assert!(
        text.starts_with("1 cuIpcCloseMemHandle = CUDA_ERROR_UNKNOWN: rank 1, at 0.000100, called from train+0x"),
        "{text}"
    );
    assert_eq!(level, "note");
    let (text, level, ..) = of("call-not-returned");
    assert!(text.starts_with("rank 2 has been in cuIpcGetMemHandle for "), "{text}");
    assert_eq!(level, "warning");
    // The text and the results have one order.
    let ids: Vec<&Value> = run["results"].as_array().unwrap().iter().map(|result| &result["ruleId"]).collect();
    assert_eq!(ids, ["process-died", "call-not-returned", "call-unexplained", "process-failed"]);
    let text = super::of(&scene, &[]);
    let problems = text.split_once("\nProblems\n").unwrap().1;
    let heads = ["ended abnormally", "has not returned", "failed", "exited with an error"];
    let places = heads.map(|head| {
        problems.find(&format!("- 1 process {head}\n")).or_else(|| problems.find(&format!("- 1 call {head}\n")))
    });
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {text}");
}

#[test]
fn deliberate_faults_are_no_incidents() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    actor.writer().change_header(|header| header.end = end::RecordedEnd::Returned(4).to_word()).unwrap();
    let mut call = actor.makes(FnId::cuIpcCloseMemHandle, 100);
    (call.outcome, call.injected) = (Outcome::Returned(Result::UNKNOWN as i32), true);
    actor.add(&call).enable(200, Result::PEER_ACCESS_ALREADY_ENABLED as i32).ends();
    let run = run_of(&scene, &[]);
    let ids: BTreeSet<&str> =
        run["results"].as_array().unwrap().iter().map(|result| result["ruleId"].as_str().unwrap()).collect();
    assert_eq!(ids, BTreeSet::from(["peer-already-enabled"]));
}

#[test]
fn results_are_the_findings_of_the_report_and_say_what_was_not_looked_for() {
    let scene = wrong();
    let (report, run) = (json_of(&scene, &[]), run_of(&scene, &[]));
    // The death comes first.
    let (death, results) = run["results"].as_array().unwrap().split_first().unwrap();
    assert_eq!(death["ruleId"], "process-died");
    for (finding, result) in report["findings"].as_array().unwrap().iter().zip(results) {
        assert_eq!((&finding["rule"], &finding["severity"]), (&result["ruleId"], &result["level"]));
        assert_eq!(finding["count"], result["occurrenceCount"]);
        let objects = finding["objects"].as_array().unwrap();
        assert_eq!(result["relatedLocations"].as_array().unwrap().len(), objects.len());
    }
    let told = |key: &str| {
        let notifications = run["invocations"][0][key].as_array().unwrap().iter();
        notifications.map(|one| one["message"]["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let lacks = told("toolExecutionNotifications");
    assert_eq!(lacks, ["the calls of /opt/lib/deep.so escape cupeer: RTLD_DEEPBIND"]);
    let why = "ipc-damaged-handle: not looked for without --check: only the call tells ";
    let left_out = told("toolConfigurationNotifications");
    assert!(left_out.iter().any(|text| text.starts_with(why)), "{left_out:?}");
}

#[test]
fn a_rule_that_this_version_does_not_know_has_no_place() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    let mut call = actor.makes(FnId::cuIpcCloseMemHandle, 100);
    call.details.findings = vec![found("ipc-of-tomorrow", Severity::Error, "")];
    actor.add(&call).ends();
    let run = run_of(&scene, &[]);
    let [result] = results(&run, "ipc-of-tomorrow")[..] else { panic!("one: {run:#}") };
    assert_eq!(
        (result.get("ruleIndex"), &result["message"]["text"]),
        (None, &json!("cuIpcCloseMemHandle, once in rank 0."))
    );
}

#[test]
fn two_records_are_not_compared_in_forms_of_one() {
    let scene = Scene::new();
    scene.gone(0).ends();
    for format in ["sarif", "junit"] {
        let dir = scene.dir();
        let dir = dir.to_str().unwrap();
        let sentence = format!("--diff prints text or JSON; {format} shows one record");
        support::refused(&["report", dir, "--format", format, "--diff", dir], &sentence);
    }
}
