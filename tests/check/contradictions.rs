//! What one run says must agree with itself: pairs of statements that cannot both be true, searched in all scenes.

use super::scenes::{Checked, How, cannot, for_each, scenes, success, words};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[test]
fn no_scene_says_two_things_of_one() {
    for_each(scenes(), |scene| {
        let of = |how| {
            let checked = scene.outcome_checked(how);
            let found = if cannot(&checked.done) { Vec::new() } else { contradictions(checked) };
            found.into_iter().map(move |text| format!("{how:?}: {text}"))
        };
        of(How::Bad).chain(of(How::Good)).collect()
    });
}

/// The pairs in what a run and its report said.
fn contradictions(checked: &Checked) -> Vec<String> {
    let (said, text) = (words(&checked.done.stderr), words(&checked.text));
    let mut found = Vec::new();
    if checked.report.is_null() {
        return found;
    }
    let counted = counted(&said);
    if let Some((failed, expected)) = counted {
        let codes =
            list(&checked.report["functions"]).iter().flat_map(|function| numbers(&function["failures"]));
        let all: u64 = codes.sum();
        if failed + expected != all {
            found.push(format!("{failed} failed and {expected} expected failures, and {all} in the table"));
        }
        if failed > 0 && text.contains("Nothing is wrong") {
            found.push(format!("{failed} failed, and nothing is wrong"));
        }
    } else {
        found.push(format!("no calls are counted in: {said}"));
    }
    for (name, all) in [("the run", &said), ("the report", &text)] {
        if all.contains("nobody here exported") && all.contains(" exported that") {
            found.push(format!("{name} says that nobody and somebody exported it"));
        }
    }
    found.extend(checked.findings().iter().filter_map(quoted_wrongly));
    found.extend(checked.findings().iter().filter_map(hints_at_what_failed));
    found.extend(told_at_two_times(&checked.report));
    found
}

/// How many calls failed, and how many failures were expected, as the summary says.
fn counted(said: &str) -> Option<(u64, u64)> {
    let number = |text: &str| text.replace(',', "").parse().ok();
    said.match_indices(" failed").find_map(|(at, word)| {
        let (before, failed) = said[..at].rsplit_once(' ')?;
        let after = said[at + word.len()..].strip_prefix(", ").unwrap_or_default();
        let expected = after.split_once(" expected failure").and_then(|(count, _)| number(count));
        let is_it = before.ends_with(" call,") || before.ends_with(" calls,");
        is_it.then_some((number(failed)?, expected.unwrap_or(0)))
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn numbers(value: &Value) -> impl Iterator<Item = u64> {
    value.as_object().into_iter().flat_map(|codes| codes.values().filter_map(Value::as_u64))
}

/// The name of a function without its version.
fn base(function: &str) -> &str {
    function.split('_').next().unwrap_or(function)
}

/// The words of a text that begin so.
fn beginning<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let parts = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_one = |word: &&str| {
        word.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    parts.filter(is_one).collect()
}

/// A sentence that speaks of other results than the call's, or of what another function returns than the one that succeeded.
fn quoted_wrongly(finding: &Value) -> Option<String> {
    let (function, sentence) = (finding["function"].as_str()?, finding["sentence"].as_str()?);
    let results = beginning(sentence, "CUDA_ERROR_");
    let result = finding["result"].as_str()?;
    let is_other = match result == success() {
        true => {
            let functions = beginning(sentence, "cu");
            !results.is_empty() && !functions.is_empty() && !functions.contains(&base(function))
        }
        false => !results.is_empty() && !results.contains(&result),
    };
    is_other.then(|| format!("{} returned {result}, and the rule quotes: {sentence}", function))
}

/// A hint to make the call that has just failed.
fn hints_at_what_failed(finding: &Value) -> Option<String> {
    let (function, hint) = (base(finding["function"].as_str()?), finding["hint"].as_str()?);
    let has_failed = finding["result"].as_str().is_some_and(|result| result != success());
    let asked = ["call ", "Call ", "try ", "Try ", "ask ", "Ask "].iter().any(|verb| {
        hint.match_indices(&format!("{verb}{function}"))
            .any(|(at, all)| !hint[at + all.len()..].starts_with(|c: char| c.is_ascii_alphanumeric()))
    });
    (has_failed && asked).then(|| format!("{function} failed, and the hint is: {hint}"))
}

/// Calls that have several times: those that several tables list, and those that exported or opened a handle once.
fn told_at_two_times(report: &Value) -> Vec<String> {
    let mut times: BTreeMap<String, BTreeMap<u64, &str>> = BTreeMap::new();
    let mut add = |what, call: String, time: &Value| {
        if let Some(time) = time.as_u64() {
            times.entry(call).or_default().insert(time, what);
        }
    };
    let call =
        |proc: &Value, call: &Value| format!("call {} of thread {} of {proc}", call["seq"], call["tid"]);
    for finding in list(&report["findings"]) {
        add("finding", call(&finding["proc"], finding), &finding["time_ns"]);
        for object in list(&finding["objects"]).iter().filter(|object| !object["fingerprint"].is_null()) {
            let call = format!("{} of {} in {}", object["role"], object["fingerprint"], object["proc"]);
            add("object of a finding", call, &object["time_ns"]);
        }
    }
    for failure in list(&report["failures"]) {
        add("failure", call(&failure["proc"], failure), &failure["time_ns"]);
    }
    for process in list(&report["processes"]) {
        for pending in list(&process["pending"]) {
            add("unfinished call", call(&process["proc"], pending), &pending["since_ns"]);
        }
    }
    for handle in list(&report["handles"]) {
        let call = |role: &str, proc: &Value| format!("\"{role}\" of {} in {proc}", handle["fingerprint"]);
        if handle["exports"] == 1 {
            add("handle", call("export", &handle["exporter"]), &handle["exported_ns"]);
        }
        let opens = list(&handle["opens"]);
        for open in opens.iter().filter(|open| open["times"] == 1) {
            let is_other = |other: &&Value| other["proc"] == open["proc"];
            if opens.iter().filter(is_other).count() == 1 {
                add("open handle", call("opening", &open["proc"]), &open["opened_ns"]);
            }
        }
    }
    // A handle that was exported or opened more often has a time for each.
    let is_once = |call: &str, times: &BTreeMap<u64, &str>| {
        !call.starts_with('"') || times.values().any(|what| what.ends_with("handle"))
    };
    let is_told_twice =
        |(call, times): &(String, BTreeMap<u64, &str>)| times.len() > 1 && is_once(call, times);
    times.into_iter().filter(is_told_twice).map(|(call, times)| format!("{call}: {times:?}")).collect()
}

#[test]
fn pairs_are_found() {
    assert_eq!(
        counted("cupeer: 2 processes, 1,105 calls, 1,000 failed, 3 expected failures; 'x'"),
        Some((1000, 3))
    );
    assert_eq!(counted("1 process, 4 calls, 0 failed; x"), Some((0, 0)));
    let finding = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let unsupported = r#"{"function":"cuCtxEnablePeerAccess","result":"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
        "sentence":"Returns CUDA_ERROR_INVALID_CONTEXT if it is the current context.","hint":"Try cuCtxEnablePeerAccess."}"#;
    assert!(
        quoted_wrongly(&finding(unsupported)).is_some()
            && hints_at_what_failed(&finding(unsupported)).is_some()
    );
    let closed = r#"{"function":"cuIpcCloseMemHandle","result":"CUDA_SUCCESS","hint":"Call cuIpcCloseMemHandle.",
        "sentence":"After it has exited, cuIpcOpenMemHandle returns CUDA_ERROR_INVALID_HANDLE."}"#;
    assert!(quoted_wrongly(&finding(closed)).is_some() && hints_at_what_failed(&finding(closed)).is_none());
    let exported = |at: u64| {
        json!({
            "handles": [{"fingerprint": "ipc:1", "exporter": "p", "exports": 1, "exported_ns": 5}],
            "findings": [{"proc": "p", "tid": 1, "seq": 2, "time_ns": 7, "objects":
                [{"role": "export", "fingerprint": "ipc:1", "proc": "p", "time_ns": at}]}],
            "failures": [{"proc": "p", "tid": 1, "seq": 2, "time_ns": at + 2}],
        })
    };
    assert_eq!(told_at_two_times(&exported(5)), Vec::<String>::new());
    assert_eq!(told_at_two_times(&exported(6)).len(), 2);
}
