//! Results that real drivers were seen to return, although the documentation does not list them.

use super::client;
use crate::support::{cupeer, done, stdout, temp_dir, with};
use cupeer_rules::causes;
use cupeer_spec::fault::FaultPlan;
use cupeer_spec::function::{FUNCTIONS, FnId};
use cupeer_spec::results::RESULTS;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Returns the answers of a real driver by function, from the cases of conformance programs whose names are plain texts.
fn recorded() -> BTreeMap<String, BTreeSet<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let answers = fs::read_to_string(folder.join("h200-580.159.04.jsonl")).expect("recorded answers");
    let results: BTreeMap<String, String> = answers
        .lines()
        .filter_map(|line| {
            let row: Value = serde_json::from_str(line).expect("a row");
            Some((row["case"].as_str()?.to_owned(), row["result"].as_str()?.to_owned()))
        })
        .collect();
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in fs::read_dir(folder).expect("the programs") {
        let path = file.expect("a file").path();
        if path.extension().is_none_or(|kind| kind != "c") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a program");
        for case in text.split("CASE(\"").skip(1) {
            let mut words = case.splitn(2, "\", ");
            let (Some(name), Some(call)) = (words.next(), words.next()) else { continue };
            let function = call.split('(').next().unwrap_or_default();
            if let Some(result) = results.get(name) {
                all.entry(function.to_owned()).or_default().insert(result.clone());
            }
        }
    }
    all
}

#[test]
fn recorded_answers_need_no_force() {
    let recorded = recorded();
    let mut only_seen = 0;
    for id in FnId::all().filter(|id| id.spec().is_alterable()) {
        let spec = id.spec();
        // A name without its version means all versions, which do not all fail in the same ways.
        let versions = FUNCTIONS.iter().filter(|other| other.lookup() == spec.name() && other.name() != spec.name());
        let others: String = versions.map(|other| format!(",^{}", other.name())).collect();
        for result in recorded.get(spec.name()).into_iter().flatten().filter(|result| *result != "CUDA_SUCCESS") {
            let force = if spec.is_release() { ":force" } else { "" };
            let rule = format!("{}{others}:error={result}{force}", spec.name());
            FaultPlan::parse("plan", &rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
            let code = RESULTS.iter().find(|known| known.name() == result).expect(result).number;
            assert!(spec.failures().any(|known| known == code), "{} {result}", spec.name());
            only_seen += usize::from(spec.is_undocumented_result(code));
        }
    }
    assert!(only_seen >= 8, "{only_seen}");
}

#[test]
fn seen_results_have_a_source_and_known_causes() {
    let recorded = recorded();
    for id in FnId::all() {
        let spec = id.spec();
        for code in spec.undocumented_results() {
            let name = spec.result_name(*code).expect("a name");
            let was_recorded = recorded.get(spec.name()).is_some_and(|results| results.contains(name));
            let is_explained = cupeer_rules::RULES.iter().any(|rule| rule.explains(id, *code));
            let is_caused = causes(id, *code).next().is_some();
            // The first version of a function answers as its second.
            let newer = recorded.get(&format!("{}_v2", spec.name())).is_some_and(|results| results.contains(name));
            assert!(was_recorded || newer || is_explained || is_caused, "{} {name}", spec.name());
        }
        for result in RESULTS.iter().filter(|result| causes(id, result.number).next().is_some()) {
            assert!(spec.failures().any(|known| known == result.number), "{} {}", spec.name(), result.name());
        }
    }
}

/// Without `force`, and marked where the fault is named.
#[test]
fn results_of_the_field_are_injected_and_marked() {
    let folder = temp_dir();
    for code in ["PEER_ACCESS_UNSUPPORTED", "NOT_PERMITTED", "INVALID_DEVICE", "MAP_FAILED"] {
        let record = folder.path().join(code);
        let mut run = cupeer();
        run.args(["run", "--sim", "--out"]).arg(&record);
        run.args(["--inject", &format!("cuIpcOpenMemHandle*:error={code}"), "--"]).arg(client::program());
        let ended = done(run.args(["turns", "1", "1", "o"]));
        let is_marked = ended.stderr.contains("its result was seen from real drivers, but is not documented");
        assert!(ended.stderr.contains(&format!("error={code})")), "{}", ended.stderr);
        assert_eq!(is_marked, code != "MAP_FAILED", "{}", ended.stderr);
        let report = |form: &str| stdout(with(&["report", "--format", form]).arg(&record).env("COLUMNS", "200"));
        let marked = format!("error={code} (seen, not documented)");
        assert_eq!(report("text").contains(&marked), is_marked, "{}", report("text"));
        let json: Value = serde_json::from_str(&report("json")).expect("JSON");
        assert_eq!(json["faults"][0]["only_seen"], is_marked);
    }
}
