//! One verdict in a pipeline: with `--error-on RULE`, the exit status, all forms of the report, the annotations, and pytest's
//! tests agree on what is an error.

use super::scenes::{How, Scene, cannot, for_each, scenes};
use crate::inject::pytest;
use crate::inject::python::{has, in_tests};
use crate::report::xml;
use crate::support::{self, Done, cupeer, done, temp_dir};
use cupeer_rules::{RULES, Rule};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Any rule that no scene with another rule breaks.
const OTHERS: [&str; 2] = ["peer-flags", "ipc-flags"];

fn is_rule(name: &str) -> bool {
    Rule::of(name).is_some()
}

fn report(record: &Path, options: &[&str]) -> Done {
    done(cupeer().arg("report").arg(record).args(options))
}

/// The rules that each form of the report has as errors; how it ended must be the same for all.
fn errors(record: &Path, choice: &[&str]) -> Vec<(&'static str, Option<i32>, BTreeSet<String>)> {
    let form = |format| report(record, &[&["--format", format], choice].concat());
    let json = |done: &Done| serde_json::from_str::<Value>(&done.stdout).expect("JSON");
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    let of_rules = |names: Vec<String>| names.into_iter().filter(|name| is_rule(name)).collect();

    let object = form("json");
    let findings = json(&object)["findings"].as_array().expect("findings").clone();
    let fail = findings.iter().filter(|finding| finding["fails"] == true);
    let fail: Vec<String> = fail.map(|finding| word(&finding["rule"])).collect();
    let severe = findings.iter().filter(|finding| finding["severity"] == "error");
    let severe: Vec<String> = severe.map(|finding| word(&finding["rule"])).collect();

    let junit = form("junit");
    let root = xml::read(&junit.stdout).expect("XML");
    let cases = root.children.iter().flat_map(|suite| suite.all("testcase"));
    let failed = cases.filter(|case| case.all("failure").next().is_some());
    let failed = failed.map(|case| case.get("name").to_owned()).collect();

    let sarif = form("sarif");
    let results = json(&sarif)["runs"][0]["results"].as_array().expect("results").clone();
    let level = results.iter().filter(|result| result["level"] == "error");
    let level = level.map(|result| word(&result["ruleId"])).collect();

    let text = form("text");
    let named = |line: &str, before: &str| {
        let name = line.strip_prefix(before)?.split([':', ' ']).next()?.to_owned();
        Some(name)
    };
    let shown = text.stdout.lines().filter_map(|line| named(line, "- error ")).collect();
    let html = form("html");
    let cards = html.stdout.split("<article class=\"card finding error").skip(1);
    let cards = cards.filter_map(|card| {
        let (_, head) = card.split_once("<span class=\"severity\">error</span> ")?;
        named(head, "")
    });
    [
        ("json", &object, fail),
        ("severity", &object, severe),
        ("junit", &junit, failed),
        ("sarif", &sarif, level),
        ("text", &text, shown),
        ("html", &html, cards.collect()),
    ]
    .map(|(form, done, names)| (form, done.status.code(), of_rules(names)))
    .into()
}

/// Returns the outputs that disagree about a scene.
fn disagreements(scene: &'static Scene) -> Vec<String> {
    let rule = scene.rule.spec().name();
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut command = scene.under(How::Bad, &["--error-on", rule], &record);
    let ended = done(command.env("GITHUB_ACTIONS", "true"));
    if cannot(&ended) {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    let expected = BTreeSet::from([rule.to_owned()]);
    if ended.status.code() != Some(1) {
        wrong.push(format!("{}: {}", ended.status, ended.stderr));
    }
    let annotated: BTreeSet<String> = ended
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("::error title=cupeer ")?.split([',', ':']).next())
        .filter(|name| is_rule(name))
        .map(str::to_owned)
        .collect();
    if annotated != expected {
        wrong.push(format!("annotations: {annotated:?}: {}", ended.stderr));
    }
    // The choice of the run is in its recording. The report can repeat it, or make another one.
    let other = OTHERS.into_iter().find(|other| *other != rule).expect("one of two");
    for (choice, status, expected) in [
        (&[][..], 0, expected.clone()),
        (&["--error-on", rule], 1, expected),
        (&["--error-on", other], 0, BTreeSet::new()),
    ] {
        for (form, code, rules) in errors(&record, choice) {
            if (code, &rules) != (Some(status), &expected) {
                wrong.push(format!("{form} {choice:?}: {code:?} {rules:?}"));
            }
        }
    }
    wrong
}

#[test]
fn all_outputs_agree_on_what_an_option_makes_an_error() {
    for_each(scenes(), disagreements);
}

#[test]
fn pytest_fails_a_test_by_what_its_peers_break() {
    if !has("pytest") {
        return;
    }
    let folder = temp_dir();
    let plays = folder.path().join("plays.json");
    // One scene for each rule: the others differ in what the program does.
    let mut rules = BTreeSet::new();
    let scenes: Vec<&Scene> = scenes().iter().filter(|scene| rules.insert(scene.rule.spec().name())).collect();
    let rules = rules.into_iter().collect::<Vec<_>>().join(",");
    let all: Vec<Value> = scenes.iter().map(|scene| play(scene)).collect();
    fs::write(&plays, Value::from(all).to_string()).unwrap();
    let options = format!("--cupeer=--sim -o {} --error-on {rules}", folder.path().join("record").display());
    let mut command = pytest::pytest(&["test_peers.py", "-rA", "--tb=short", &options]);
    let ended = in_tests(command.env("PLAYS", &plays));
    let verdicts = |word: &str| -> BTreeSet<String> {
        let line = |line: &str| {
            let name = line.strip_prefix(word)?.split_once("test_peers.py::test_plays[")?.1;
            Some(name.split_once(']')?.0.to_owned())
        };
        ended.stdout.lines().filter_map(line).collect()
    };
    let (failed, passed) = (verdicts("FAILED "), verdicts("PASSED "));
    let mut wrong = Vec::new();
    for scene in scenes {
        let (bad, good) = (format!("{} bad", scene.name), format!("{} good", scene.name));
        let is_skipped = !failed.contains(&bad) && !passed.contains(&bad);
        if !is_skipped && (!failed.contains(&bad) || !passed.contains(&good)) {
            wrong.push(scene.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}\n{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{}{}", ended.stdout, ended.stderr);
    // A failure names the rule and the process.
    let told = "  error ipc-flags: cuIpcOpenMemHandle_v2: Flags must be 1 (is 0) (in process ";
    assert!(ended.stdout.contains(told), "{}", ended.stdout);
}

/// A scene for `python/tests/test_peers.py`.
fn play(scene: &Scene) -> Value {
    let commands = [How::Bad, How::Good].map(|how| scene.alone(how));
    let [bad, good] = commands.map(|command| {
        let words: Vec<_> = [command.get_program()].into_iter().chain(command.get_args()).collect();
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let is_meant = |name: &str| name == "LD_LIBRARY_PATH" || name == "CUPEER_SIM";
        let variables: serde_json::Map<String, Value> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
            .filter(|(name, _)| is_meant(name))
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        json!({ "arguments": words, "variables": variables })
    });
    json!({ "name": scene.name, "bad": bad, "good": good })
}

#[test]
fn junit_has_no_test_case_of_a_rule_that_does_not_apply() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let ended = done(&mut super::scenes::scene("peer-flags").under(How::Good, &[], &record));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let junit = report(&record, &["--format", "junit"]).stdout;
    let root = xml::read(&junit).expect("XML");
    let suite = &root.children[0];
    assert_eq!(suite.get("skipped"), "0", "{junit}");
    let rules: Vec<&str> = suite.all("testcase").map(|case| case.get("name")).filter(|name| is_rule(name)).collect();
    assert!(rules.contains(&"peer-flags") && rules.len() < RULES.len() / 2, "{rules:?}");
    // Nothing ran: that is no success.
    let empty = report(&record, &["--format", "junit", "--function", "cuIpcOpenMemHandle"]).stdout;
    let root = xml::read(&empty).expect("XML");
    let skipped = root.children[0].all("testcase").find(|case| case.get("name") == "calls").expect("a test case");
    let why = skipped.all("skipped").next().expect("it is skipped").get("message").to_owned();
    assert_eq!(why, "no call matches --function cuIpcOpenMemHandle");
    support::stdout(cupeer().arg("report").arg(&record).args(["--error-on", "all"]));
}
