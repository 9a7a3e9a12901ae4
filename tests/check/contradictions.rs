//! Consistency of one run: pairs of statements that cannot both be true are searched in all scenes.

use super::scenes::{Checked, How, cannot, for_each, scene, scenes, success, words};
use crate::support::{self, cupeer, done, temp_dir};
use cupeer_rules::reason::Ago;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
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
        let codes = list(&checked.report["functions"]).iter().flat_map(|function| numbers(&function["failures"]));
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
    found.extend(ages_without_times(&checked.report));
    found.extend(ends_that_tables_lack(&checked.report));
    found.extend(states_that_findings_deny(&checked.report));
    found.extend(counts_of_processes(&checked.report, &said, &text));
    found.extend(column_of_failures(&checked.report, &checked.text));
    found.extend(certainty_that_is_lost(&checked.report, &said, &text));
    found
}

/// Statements in the first lines of a report that its tables contradict.
fn headline_against_tables(report: &Value, text: &str) -> Vec<String> {
    let head = text.split(" recording ").next().unwrap_or(text);
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
        exit["code"].as_u64().is_some_and(|code| code > 0) || exit["kind"] == "signal" || exit["kind"] == "died"
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
            kept["given_up_ns"].as_u64() < at && kept["until_ns"].as_u64().is_none_or(|until| Some(until) > at)
        };
        let kept = list(&report["allocations"]["kept"]).iter().any(|kept| is_kept(&kept));
        let is_of_memory = finding["function"] == "cuMemCreate";
        deny(is_full && is_of_memory && kept, "no cause is known, and a table shows who keeps memory");
    }
    found
}

/// Returns the number of failed calls and of expected failures, from the summary.
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
    let is_one =
        |word: &&str| word.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
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
    let call = |proc: &Value, call: &Value| format!("call {} of thread {} of {proc}", call["seq"], call["tid"]);
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
    let is_told_twice = |(call, times): &(String, BTreeMap<u64, &str>)| times.len() > 1 && is_once(call, times);
    times.into_iter().filter(is_told_twice).map(|(call, times)| format!("{call}: {times:?}")).collect()
}

/// Ages in sentences, such as `freed 253 us ago`, that no pair of recorded times has.
fn ages_without_times(report: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for finding in list(&report["findings"]) {
        let (message, at) = (finding["message"].as_str().unwrap_or_default(), finding["time_ns"].as_u64());
        let Some((before, _)) = message.split_once(" ago") else { continue };
        let mut words = before.rsplitn(3, ' ');
        let (unit, number) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let objects = list(&finding["objects"]);
        let is_about = |handle: &&Value| objects.iter().any(|object| object["fingerprint"] == handle["fingerprint"]);
        let handles: Vec<&Value> = list(&report["handles"]).iter().filter(is_about).collect();
        let of_handles = handles.iter().map(|handle| &handle["freed_ns"]);
        let times = objects.iter().map(|object| &object["time_ns"]).chain(of_handles);
        let ages = times.filter_map(|time| at?.checked_sub(time.as_u64()?));
        let says_so = |ns: u64| Ago(ns).to_string() == format!("{number} {unit}");
        if !ages.into_iter().any(says_so) {
            found.push(format!("no time is {number} {unit} before {at:?}: {message}: {objects:?}"));
        }
    }
    found
}

/// Closes and frees of findings that have other times than the tables.
fn ends_that_tables_lack(report: &Value) -> Vec<String> {
    let objects = list(&report["findings"]).iter().flat_map(|finding| list(&finding["objects"]));
    let mut found = Vec::new();
    for object in objects.filter(|object| !object["time_ns"].is_null()) {
        let mut handles = list(&report["handles"]).iter();
        let Some(handle) = handles.find(|handle| handle["fingerprint"] == object["fingerprint"]) else {
            continue;
        };
        let own = list(&handle["opens"]).iter().filter(|open| open["proc"] == object["proc"]);
        let closed: Vec<&Value> = own.map(|open| &open["closed_ns"]).collect();
        let has = match object["role"].as_str() {
            Some("closing") => closed.is_empty() || closed.contains(&&object["time_ns"]),
            Some("freeing") => {
                let freed = &handle["freed_ns"];
                freed.is_null() || *freed == object["time_ns"] || closed.contains(&&object["time_ns"])
            }
            _ => true,
        };
        if !has {
            found.push(format!("a finding and the table have two times of one end: {object} {handle}"));
        }
    }
    found
}

/// States of handles that other places deny.
fn states_that_findings_deny(report: &Value) -> Vec<String> {
    let handle =
        |fingerprint: &Value| list(&report["handles"]).iter().find(|handle| handle["fingerprint"] == *fingerprint);
    let freed = list(&report["findings"]).iter().filter(|finding| finding["rule"] == "ipc-freed-while-open");
    let mut found = Vec::new();
    for object in freed.flat_map(|finding| list(&finding["objects"])) {
        let state = handle(&object["fingerprint"]).map_or(&Value::Null, |handle| &handle["state"]);
        if !state.is_null() && state != "freed while open" {
            found.push(format!("freed while open by a finding, and {state} in the table"));
        }
    }
    let is_exported = |handle: &&Value| handle["state"] == "exported" && !handle["freed_ns"].is_null();
    found.extend(list(&report["handles"]).iter().filter(is_exported).map(|it| format!("exported and freed: {it}")));
    found
}

/// Compares the number of processes in the run, the report, and the tables.
fn counts_of_processes(report: &Value, said: &str, text: &str) -> Option<String> {
    let number = |text: &str| text.rsplit(' ').next()?.replace(',', "").parse::<usize>().ok();
    let of_run = said.match_indices(" process").find_map(|(at, word)| {
        let rest = said[at + word.len()..].trim_start_matches("es").strip_prefix(", ")?;
        let is_sum = rest.split(", ").next()?.ends_with("call") || rest.split(", ").next()?.ends_with("calls");
        number(&said[..at]).filter(|_| is_sum)
    })?;
    let (_, after) = text.split_once(" processes ")?;
    let of_text: usize = after.split(' ').next()?.replace(',', "").parse().ok()?;
    let processes = list(&report["processes"]).iter();
    let of_table = processes.filter(|process| process["exit"]["kind"] != "executed").count();
    let is_same = of_run == of_table && of_text == of_table;
    (!is_same).then(|| format!("{of_run} processes in the run, {of_text} in the text, {of_table} in the table"))
}

/// Functions whose failures were all expected, and that the table of functions calls failed.
fn column_of_failures(report: &Value, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for function in list(&report["functions"]) {
        let name = function["function"].as_str().unwrap_or_default();
        let of_function = |group: &&Value| group["function"] == *name;
        let groups: Vec<&Value> = list(&report["failure_groups"]).iter().filter(of_function).collect();
        let is_expected = |group: &&Value| group["usual"] == true && group["injected"] == false;
        let row = text.lines().find(|line| line.starts_with(name) && line[name.len()..].starts_with(' '));
        let says_so = row.is_some_and(|row| row.contains(" expected"));
        if row.is_some() && says_so != groups.iter().any(is_expected) {
            found.push(format!("expected failures in one place only: {row:?} {groups:?}"));
        }
    }
    found
}

/// Findings that are only probable in one form, and a fact in another one.
fn certainty_that_is_lost(report: &Value, said: &str, text: &str) -> Vec<String> {
    let is_guess = |finding: &&Value| {
        let is_cause = ["call-failed", "driver-undocumented-result"].iter().any(|name| finding["rule"] == *name);
        finding["confidence"] == "inferred" && !is_cause
    };
    let guesses = list(&report["findings"]).iter().filter(is_guess);
    let messages: BTreeSet<&str> = guesses.filter_map(|finding| finding["message"].as_str()).collect();
    let mut found = Vec::new();
    for (form, all) in [("run", said), ("report", text)] {
        for message in messages.iter().filter(|message| !message.is_empty()) {
            let message = words(&message[..message.find("; ").unwrap_or(message.len())]);
            let sure = all.match_indices(&message).filter(|(at, _)| !all[..*at].ends_with("probably, ")).count();
            if sure > 0 {
                found.push(format!("{form}: {sure} times without 'probably': {message}"));
            }
        }
    }
    found
}

/// A process that exits with an error although all that cupeer sees is right; and one whose call fails without a rule.
#[test]
fn unexplained_failures_come_first_with_the_checks_that_were_made() {
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
        let head = text.split(" recording ").next().expect("a head");
        assert!(head.contains(first), "{how}: {head}");
        let is_well = first.starts_with("No rule");
        assert_eq!(head.starts_with("No rule "), is_well, "{how}: {head}");
        for said in ["no finding explains that. ", " rules looked at ", " (virtual memory"] {
            assert_eq!(head.contains(said), !is_well, "{how}: {said}: {head}");
        }
        assert!(head.contains(" Not checked: the order of reads and writes by kernels, "), "{how}: {head}");
    }
}

/// The program exits with an error, and no rule above a note tells why.
#[test]
fn a_note_about_a_process_that_failed_is_among_the_first_lines() {
    let scene = scene("ipc-opened-at-closed-address");
    for (how, is_told) in [(How::Bad, true), (How::Good, false)] {
        let checked = scene.outcome_checked(how);
        let text = words(&checked.text);
        let head = text.split(" recording ").next().expect("a head");
        for said in [head, &words(&checked.done.stderr)] {
            for part in ["; notes about it ", "note ipc-opened-at-closed-address in process "] {
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
    assert_eq!(counted("cupeer: 2 processes, 1,105 calls, 1,000 failed, 3 expected failures; 'x'"), Some((1000, 3)));
    assert_eq!(counted("1 process, 4 calls, 0 failed; x"), Some((0, 0)));
    let finding = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let unsupported = r#"{"function":"cuCtxEnablePeerAccess","result":"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
        "sentence":"Returns CUDA_ERROR_INVALID_CONTEXT if it is the current context.","hint":"Try cuCtxEnablePeerAccess."}"#;
    assert!(quoted_wrongly(&finding(unsupported)).is_some() && hints_at_what_failed(&finding(unsupported)).is_some());
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
