//! The same scenes without a check: what the record alone tells is what the processes found, and as much is not certain.
//! And what neither may say: that somebody had it open, or has ended, who has not.

use super::scenes::{self, Checked, How, Play, Scene, cannot, for_each, scenes};
use crate::support::{cupeer, done, stdout, temp_dir};
use cupeer_rules::{Rule, Severity};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// Runs a scene without a check, and with these options.
fn recorded(play: &Play, how: How, options: &[&str]) -> Checked {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let done = done(&mut play.under(how, options, &record));
    let text = stdout(cupeer().arg("report").arg(&record));
    Checked { done, report: scenes::report(&record), text }
}

fn certain(checked: &Checked) -> BTreeSet<&str> {
    let is_certain = |finding: &&Value| finding["confidence"] != "inferred" && finding["severity"] != "note";
    checked.findings().iter().filter(is_certain).filter_map(|finding| finding["rule"].as_str()).collect()
}

#[test]
fn ends_of_objects_that_others_hold_are_recorded() {
    let of_lifetimes: Vec<&Scene> = scenes().iter().filter(|scene| scene.program == "lifetime").collect();
    assert!(of_lifetimes.len() > 10);
    for_each(of_lifetimes, |scene| {
        let mut said = Vec::new();
        for options in
            [&["--check=off"][..], &["--check=off", "--record", "ring:1M"], &["--check=off", "--record", "full:1M"]]
        {
            let (bad, good) = (recorded(scene, How::Bad, options), recorded(scene, How::Good, options));
            let rule = scene.rule.spec().name();
            // The duration of an opening is unknown if the importer ended without a record.
            let is_unknown = scene.also.is_some();
            // The lost calls of a ring are unknown, and these rules count all of them.
            let counts_all = [Rule::OpenedAgain, Rule::PilesUp].contains(&scene.rule);
            let is_told = !(counts_all && options.contains(&"ring:1M"));
            if !is_unknown && bad.rules().contains(rule) != is_told {
                said.push(format!("bad, {options:?}: {:?}", bad.rules()));
            }
            // Notes are no mistakes, and whether something grows without end is inferred.
            let is_weak = scene.rule.spec().severity == Severity::Note || scene.rule == Rule::PilesUp;
            let expected: BTreeSet<&str> = [rule].into_iter().filter(|_| !is_unknown && !is_weak).collect();
            if certain(&bad) != expected {
                said.push(format!("bad, {options:?}: {:?}", certain(&bad)));
            }
            let of_rule = |finding: &Value| finding["rule"] == rule && finding["function"] != scene.function;
            if bad.findings().iter().any(of_rule) {
                said.push(format!("bad, {options:?}: not at {}", scene.function));
            }
            if !good.findings().is_empty() || good.text.contains("while others") {
                said.push(format!("good, {options:?}: {:?}\n{}", good.rules(), good.text));
            }
        }
        said
    });
}

/// A play of the same folder that is no scene: one side of it can never be right.
fn play(program: &'static str, name: &'static str) -> Play {
    Play { program, name, machine: "nvlink:2" }
}

#[test]
fn killed_processes_hold_nothing() {
    let play = play("lifetime", "killed");
    for options in [
        &["--check=notes"][..],
        &["--check=off"],
        &["--check=off", "--record", "ring:1M"],
        &["--check=notes", "--record", "ring:1M"],
    ] {
        for how in [How::Bad, How::Good] {
            let recorded = recorded(&play, how, options);
            assert!(recorded.done.status.success(), "{}", recorded.done.stderr);
            // If a process makes no further call, its time of death is unknown afterwards.
            let is_found = how == How::Bad && options[0] != "--check=off";
            let found: Vec<&str> = certain(&recorded).into_iter().collect();
            assert_eq!(found, ["ipc-freed-while-open"][usize::from(!is_found)..], "{how:?} {options:?}");
            let state = recorded.report["handles"][0]["state"].as_str();
            assert!(how == How::Bad || state == Some("open at exit"), "{options:?}: {state:?}");
        }
    }
}

#[test]
fn nobody_has_exited_whom_proc_only_does_not_show() {
    let play = Play { machine: "answers nvlink:2", ..play("apart", "below-proc") };
    for how in [How::Bad, How::Good] {
        let checked = play.checked(how, &[]);
        if cannot(&checked.done) {
            return;
        }
        assert!(checked.done.status.success(), "{}", checked.done.stderr);
        assert_eq!(checked.rules().contains("ipc-exporter-gone"), how == How::Bad, "{}", checked.done.stderr);
    }
}

/// Entries of ended processes in the live table make room for others, and stay as long as nobody needs the room.
#[test]
fn the_table_of_what_is_open_does_not_grow_with_those_who_have_ended() {
    let play = play("lifetime", "generations");
    let folder = temp_dir();
    let record = folder.path().join("record");
    let done = done(&mut play.under(How::Bad, &["--check=notes"], &record));
    assert!(done.status.success(), "{}", done.stderr);
    let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let entries = fs::read_dir(&record).expect("a recording").map(|entry| entry.expect("an entry"));
    let tables: Vec<u64> = entries
        .filter(|entry| name(entry).starts_with(cupeer_spec::record::live::PREFIX))
        .map(|entry| entry.metadata().expect("a table").len())
        .collect();
    // Two thousand exports, with as many entries about their addresses; three segments at most.
    assert!(tables.len() == 1 && tables[0] <= 700_000, "{tables:?}");
    let report = scenes::report(&record);
    let rules: BTreeSet<&str> =
        report["findings"].as_array().unwrap().iter().filter_map(|finding| finding["rule"].as_str()).collect();
    assert_eq!(rules, BTreeSet::from(["ipc-exporter-gone", "ipc-freed-while-open"]), "{}", done.stderr);
}
