//! What one run says must agree with itself: pairs of statements that cannot both be true, searched in all scenes.

use super::scenes::{Checked, How, cannot, for_each, scene, scenes, success, words};
use crate::support::{self, cupeer, done, temp_dir};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;

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
        if failed > 0 && text.starts_with("No rule ") {
            found.push(format!("{failed} failed, and no rule was broken"));
        }
    } else {
        found.push(format!("no calls are counted in: {said}"));
    }
    for (name, all) in [("the run", &said), ("the report", &text)] {
        if all.contains("nobody here exported") && all.contains(" exported that") {
            found.push(format!("{name} says that nobody and somebody exported it"));
        }
    }
    found.extend(headline_against_tables(&checked.report, &text));
    if said.contains("no finding explains ") && !text.contains("no finding explains that") {
        found.push(format!("only the run says that nothing explains its end: {said}"));
    }
    found.extend(checked.findings().iter().filter_map(quoted_wrongly));
    found.extend(checked.findings().iter().filter_map(hints_at_what_failed));
    found.extend(told_at_two_times(&checked.report));
    found
}

/// What the first lines of a report deny, and its tables show.
fn headline_against_tables(report: &Value, text: &str) -> Vec<String> {
    let head = text.split(" record ").next().unwrap_or(text);
    let is_well = head.starts_with("No rule ");
    let mut found = Vec::new();
    let mut deny = |is_denied: bool, what: &str| {
        if is_denied {
            found.push(format!("{what}: {head}"));
        }
    };
    let processes = list(&report["processes"]);
    let has_injected = processes.iter().any(|process| process["injected"] != 0);
    let failed = |process: &&Value| {
        let exit = &process["exit"];
        exit["code"].as_u64().is_some_and(|code| code > 0)
            || exit["kind"] == "signal"
            || exit["kind"] == "died"
    };
    let unhappy = processes.iter().filter(failed).count();
    deny(is_well && unhappy > 0 && !has_injected, "a process ended with a failure");
    let groups = list(&report["failure_groups"]);
    deny(is_well && !groups.is_empty() && !head.contains(" failed"), "calls failed");
    let open = |handle: &&Value| handle["state"] == "open" || handle["state"] == "open at exit";
    let is_open = list(&report["handles"]).iter().any(|handle| open(&handle));
    deny(is_well && is_open && !head.contains(" open"), "the table has open handles");
    let is_cause = |finding: &&Value| {
        let rule = finding["rule"].as_str().unwrap_or_default();
        finding["severity"] != "note" && rule != "call-failed" && rule != "driver-undocumented-result"
    };
    let explains = list(&report["findings"]).iter().any(|finding| is_cause(&finding));
    let is_silent = !head.contains("no finding explains") && !explains && !has_injected;
    deny(is_silent && unhappy > 0, "an end is not said to be unexplained");
    for finding in list(&report["findings"]).iter().filter(|finding| finding["rule"] == "call-failed") {
        let (at, is_full) = (finding["time_ns"].as_u64(), finding["result"] == "CUDA_ERROR_OUT_OF_MEMORY");
        let is_kept = |kept: &&Value| {
            kept["given_up_ns"].as_u64() < at
                && kept["until_ns"].as_u64().is_none_or(|until| Some(until) > at)
        };
        let kept = list(&report["allocations"]["kept"]).iter().any(|kept| is_kept(&kept));
        let is_of_memory = finding["function"] == "cuMemCreate";
        deny(is_full && is_of_memory && kept, "no cause is known, and a table shows who keeps memory");
    }
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

/// A process that exits with an error although all that cupeer sees is right; and one whose call fails without a rule.
#[test]
fn what_nothing_explains_is_said_first_with_what_was_looked_at() {
    let program = support::compile_c("programs/headline.c", &["-ldl"]);
    for (how, status, first, summary) in [
        ("status", 3, "1 process exited with an error: exit status 3: ", "exit status 3."),
        ("signal", 128 + 6, " was killed by SIGABRT", "that."),
        ("call", 0, "note call-failed in process ", ""),
        ("nothing", 0, "No rule was broken by ", ""),
    ] {
        let folder = temp_dir();
        let record = folder.path().join("record");
        let mut run = cupeer();
        run.args(["run", "--sim=nvlink:2", "--check=notes", "--out"]).arg(&record).arg("--");
        let ran = done(run.arg(&program).arg(how));
        let code = ran.status.code().or(ran.status.signal().map(|signal| 128 + signal));
        assert_eq!(code, Some(status), "{how}: {}", ran.stderr);
        let said = ran.stderr.lines().find_map(|line| line.split_once("no finding explains "));
        let said = said.map_or("", |(_, rest)| rest);
        assert!(said.starts_with(summary) && said.is_empty() == summary.is_empty(), "{how}: {}", ran.stderr);
        let text = words(&support::stdout(cupeer().arg("report").arg(&record)));
        let json = support::stdout(cupeer().args(["report", "--format", "json"]).arg(&record));
        let report: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(headline_against_tables(&report, &text), Vec::<String>::new(), "{how}");
        let head = text.split(" record ").next().expect("a head");
        assert!(head.contains(first), "{how}: {head}");
        let is_well = first.starts_with("No rule");
        assert_eq!(head.starts_with("No rule "), is_well, "{how}: {head}");
        for said in ["no finding explains that. ", " rules looked at ", " (virtual memory"] {
            assert_eq!(head.contains(said), !is_well, "{how}: {said}: {head}");
        }
        assert!(head.contains(" Not checked: the order of reads and writes, "), "{how}: {head}");
    }
}

/// The program exits with an error, and no rule above a note tells why.
#[test]
fn a_note_about_a_process_that_failed_is_among_the_first_lines() {
    let scene = scene("ipc-opened-at-closed-address");
    for (how, is_told) in [(How::Bad, true), (How::Good, false)] {
        let checked = scene.outcome_checked(how);
        let text = words(&checked.text);
        let head = text.split(" record ").next().expect("a head");
        for said in [head, &words(&checked.done.stderr)] {
            for part in ["; notes about it are below. ", "note ipc-opened-at-closed-address in process "] {
                assert_eq!(said.contains(part), is_told, "{how:?}: {part}: {said}");
            }
        }
    }
}

#[test]
fn tables_that_a_headline_denies_are_found() {
    let head = "No rule was broken by the 5 calls that were recorded. record x";
    let well = json!({"processes": [{"injected": 0, "exit": {"kind": "returned", "code": 0}}]});
    assert_eq!(headline_against_tables(&well, head), Vec::<String>::new());
    let memory = "note call-failed in process 1: no finding explains that. record x";
    for (report, head) in [
        (json!({"processes": [{"injected": 0, "exit": {"kind": "returned", "code": 1}}]}), head),
        (json!({"processes": [{"injected": 0, "exit": {"kind": "signal"}}]}), "rank 1 was killed record x"),
        (json!({"failure_groups": [{}]}), head),
        (json!({"handles": [{"state": "open at exit"}]}), head),
        (
            json!({
                "findings": [{"rule": "call-failed", "severity": "note", "function": "cuMemCreate",
                    "result": "CUDA_ERROR_OUT_OF_MEMORY", "time_ns": 5}],
                "allocations": {"kept": [{"given_up_ns": 4, "until_ns": null}]},
            }),
            memory,
        ),
    ] {
        assert!(!headline_against_tables(&report, head).is_empty(), "{report}: {head}");
    }
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
