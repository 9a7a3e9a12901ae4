//! Random lives of shared memory in a process that copies and sets all the time: each use of memory that is gone is found, and
//! nothing else, although addresses come back in many ways.

use super::scenes::report;
use crate::support::{compile_c, cupeer, done, sample, temp_dir};
use cupeer_rules::{Rule, Tells};
use std::collections::{BTreeMap, BTreeSet};

/// By rule and function: how often.
type Uses = BTreeMap<(String, String), u64>;

/// Plays lives from a seed on, on a machine with other options. Returns what was planted, and what was found.
fn play(options: &str, seed: u32, kind: &str, times: u32, threads: u32) -> (Uses, Uses) {
    let program = compile_c("programs/uses.c", &["-ldl", "-pthread"]);
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut command = cupeer();
    command
        .arg("run")
        .arg(format!("--sim=nvlink:2,kernels=skip{options}"))
        .args(["--check=notes", "--out"])
        .arg(&record)
        .arg("--")
        .arg(program);
    let (seed, times, threads) = (seed.to_string(), times.to_string(), threads.to_string());
    let done = done(command.args([&seed, "100", kind, &times, &threads]));
    assert!(done.status.success(), "{kind}, seeds from {seed} on: {}{}", done.stdout, done.stderr);
    let (mut planted, mut found) = (Uses::new(), Uses::new());
    for line in done.stdout.lines().filter_map(|line| line.strip_prefix("planted ")) {
        let (rule, function) = line.split_once(' ').expect("a rule and a function");
        *planted.entry((rule.to_owned(), function.to_owned())).or_default() += 1;
    }
    for row in report(&record)["findings"].as_array().expect("findings") {
        let text = |key: &str| row[key].as_str().expect("a text").to_owned();
        // The same handles are opened all the time, which is wasteful, but not wrong.
        let rule = Rule::of(&text("rule")).expect("a rule");
        if rule.spec().states_fact(Tells::Waste) {
            continue;
        }
        // The use of an address by a kernel is unknown, and so is the memory at the launch of a graph.
        let is_inferred = ["use-in-kernel", "use-in-graph"].contains(&text("rule").as_str());
        assert_eq!(text("confidence"), if is_inferred { "inferred" } else { "certain" }, "{row:#}");
        *found.entry((text("rule"), text("function"))).or_default() += row["count"].as_u64().expect("a number");
    }
    (planted, found)
}

#[test]
fn right_programs_that_copy_while_they_share_yield_nothing() {
    let (planted, found) = play("", 1, "right", sample(50, 500), 1);
    assert_eq!((planted, found), (Uses::new(), Uses::new()));
}

/// Each closes, unmaps and frees what the others get the addresses of.
#[test]
fn right_threads_that_copy_while_they_share_yield_nothing() {
    let (planted, found) = play("", 500, "right", sample(20, 200), 4);
    assert_eq!((planted, found), (Uses::new(), Uses::new()));
}

#[test]
fn planted_uses_of_memory_that_is_gone_are_found() {
    let (planted, found) = play("", 1000, "planted", sample(50, 500), 1);
    assert_eq!(found, planted);
    let functions = planted.keys().map(|(_, function)| function).collect::<BTreeSet<_>>();
    assert!(planted.values().sum::<u64>() > 200 && functions.len() > 15, "{planted:?}");
}

/// The same if the driver refuses graphs at once, and gives out handles again as early as it may.
#[test]
fn planted_uses_are_found_whenever_the_driver_refuses_them_and_reuses_handles() {
    let mut rules = BTreeSet::new();
    for options in [",graphs=check", ",reuse=early", ",graphs=check,reuse=early"] {
        let (planted, found) = play(options, 2000, "planted", sample(60, 250), 1);
        assert_eq!(found, planted, "{options}");
        rules.extend(planted.into_keys().map(|(rule, _)| rule));
        let (planted, found) = play(options, 3000, "right", sample(25, 250), 1);
        assert_eq!((planted, found), (Uses::new(), Uses::new()), "{options}");
    }
    assert!(rules.contains("use-in-graph"), "{rules:?}");
}

/// Returns the findings of a process that goes on with the addresses of closed memory in some way.
fn go_on(way: &str) -> serde_json::Value {
    let program = compile_c("programs/remapped.c", &["-ldl"]);
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut command = cupeer();
    command.args(["run", "--sim=nvlink:2,kernels=skip", "--check=notes", "--out"]).arg(&record).arg("--");
    let done = done(command.arg(program).arg(way));
    assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
    report(&record)["findings"].clone()
}

/// A closed range is not the memory that is there now: mmap reuses its addresses.
#[test]
fn memory_of_the_host_at_closed_addresses_yields_nothing() {
    assert_eq!(go_on("host"), serde_json::json!([]));
}

/// A real driver takes an address that it does not know for one of the host, and crashes.
#[test]
fn a_copy_from_which_the_driver_does_not_come_back_is_found() {
    let program = compile_c("programs/remapped.c", &["-ldl"]);
    for fault in [&[][..], &["--inject", "cuMemcpy:signal=SEGV"]] {
        let folder = temp_dir();
        let record = folder.path().join("record");
        let mut command = cupeer();
        command.args(["run", "--sim=nvlink:2", "--check=notes"]).args(fault).arg("--out").arg(&record).arg("--");
        let done = done(command.arg(&program).arg("copy"));
        assert_eq!(done.status.success(), fault.is_empty(), "{}{}", done.stdout, done.stderr);
        let findings = report(&record)["findings"].clone();
        let row = findings.as_array().and_then(|rows| rows.iter().find(|row| row["rule"] == "use-after-close"));
        let row = row.unwrap_or_else(|| panic!("{findings:#}"));
        assert_eq!((&row["function"], &row["count"]), (&"cuMemcpy".into(), &1.into()), "{findings:#}");
    }
}

/// A right program may pass old addresses for good, of which its kernel uses none.
#[test]
fn a_kernel_that_is_passed_old_addresses_is_soon_left_alone() {
    let findings = go_on("stale");
    let row = &findings[0];
    assert_eq!(
        (&row["rule"], &row["severity"], &row["count"], findings.as_array().map(Vec::len)),
        (&"use-in-kernel".into(), &"note".into(), &100.into(), Some(1)),
        "{findings:#}"
    );
}

/// Templates have names of thousands of characters, which must not push the address, the range, or the hint out of the recording.
#[test]
fn a_long_kernel_name_leaves_the_rest_of_the_finding() {
    let findings = go_on("named");
    let row = &findings[0];
    let [message, hint] = ["message", "hint"].map(|key| row[key].as_str().expect("a text"));
    assert_eq!(row["rule"], "use-in-kernel", "{findings:#}");
    assert!(message.contains("; the memory was at 0x") && message.ends_with("kkk...`"), "{message}");
    assert!(hint.starts_with("Before you close") && hint.ends_with('.'), "{hint}");
}
