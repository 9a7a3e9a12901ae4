//! Handles and addresses that are given out again, as drivers do: what is known of the object that had one is not said of the next.

use super::scenes::{How, Play, report, success};
use crate::support::{done, temp_dir};
use std::fs;

/// Returns the scenes of the program, and the machines of each.
fn plays() -> Vec<Play> {
    let text = fs::read_to_string("tests/programs/rules/again.c").expect("the program");
    let (_, scenes) = text.split_once("\nSCENES(").expect("its scenes");
    let names = scenes.split("{\"").skip(1).map(|scene| scene.split('"').next().expect("a name").to_owned());
    let machines = |name: &str| {
        let usual = (!name.starts_with("early ")).then_some("nvlink:2");
        usual.into_iter().chain(["nvlink:2,reuse=early"])
    };
    let plays = names.flat_map(|name| {
        let name: &'static str = name.leak();
        machines(name).map(move |machine| Play { program: "again", name, machine })
    });
    plays.collect()
}

#[test]
fn a_right_program_whose_handles_come_back_yields_nothing() {
    let plays = plays();
    assert!(plays.len() > 15, "{plays:?}");
    let mut wrong = Vec::new();
    for play in plays {
        let alone = done(&mut play.alone(How::Good));
        let all_well = alone.stdout.lines().all(|line| line == "done" || line.ends_with(success()));
        if !alone.status.success() || !all_well {
            wrong.push(format!("{play:?}: {}\n{}{}", alone.status, alone.stdout, alone.stderr));
            continue;
        }
        // At the call, and when the recording is read.
        let checked = play.checked(How::Good, &[]);
        let folder = temp_dir();
        let record = folder.path().join("record");
        let unchecked = done(&mut play.under(How::Good, &[], &record));
        for (what, run, report) in
            [("checked", &checked.done, &checked.report), ("read", &unchecked, &report(&record))]
        {
            if run.stdout != alone.stdout || !run.status.success() {
                wrong.push(format!("{play:?}, {what}: {}\n{}{}", run.status, run.stdout, run.stderr));
            }
            if report["findings"] != serde_json::json!([]) {
                wrong.push(format!("{play:?}, {what}: {:#}", report["findings"]));
            }
            if report["leaks"].as_array().is_some_and(|leaks| !leaks.is_empty()) {
                wrong.push(format!("{play:?}, {what}: {:#}", report["leaks"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
