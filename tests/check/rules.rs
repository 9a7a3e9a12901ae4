//! Every checked rule: the program that breaks it yields it and nothing else, the nearest right one nothing.

use super::scenes::{Checked, How, Scene, cannot, for_each, scenes, success, words};
use crate::support::{self, Done, done, temp_dir};
use cupeer_rules::{Found, RULES, Rule, Tells};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

#[test]
fn every_checked_rule_has_its_programs() {
    let scenes = scenes();
    for rule in RULES.iter().filter(|rule| rule.is_checked()) {
        let of_rule: Vec<&Scene> = scenes.iter().filter(|scene| scene.rule == rule.id).collect();
        assert!(!of_rule.is_empty(), "{} has no line in tests/programs/rules/table.txt", rule.name());
        for scene in &of_rule {
            let functions = || rule.functions().iter().map(|function| function.spec().name());
            assert!(functions().any(|name| name == scene.function), "{}: {}", rule.name(), scene.function);
        }
        let may_succeed = of_rule.iter().any(|scene| scene.results[0] == success());
        match rule.found {
            Found::InFailures | Found::InStates => assert!(!may_succeed, "{}", rule.name()),
            Found::InSuccesses => assert!(may_succeed, "{}", rule.name()),
            _ => {}
        }
    }
    let names: BTreeSet<&str> = scenes.iter().map(|scene| scene.name).collect();
    assert_eq!(names.len(), scenes.len(), "a scene stands twice in the table");
}

#[test]
fn the_programs_find_the_libraries_of_this_build() {
    let folder = temp_dir();
    let (maps, record) = (folder.path().join("maps"), folder.path().join("record"));
    let scene = &scenes()[0];
    assert!(done(scene.alone(How::Good).env("SHOW_MAPS", &maps)).status.success());
    support::assert_loaded_from(&fs::read_to_string(&maps).unwrap(), &support::sim_library());
    assert!(done(scene.under(How::Good, &[], &record).env("SHOW_MAPS", &maps)).status.success());
    let maps = fs::read_to_string(&maps).unwrap();
    support::assert_loaded_from(&maps, &support::sim_library());
    support::assert_loaded_from(&maps, &support::preload_library());
}

/// Without a check: the programs break what they claim to break.
#[test]
fn the_wrong_programs_meet_the_result_of_the_table_and_the_right_ones_success() {
    for_each(scenes(), |scene| {
        let [bad, good] = [How::Bad, How::Good].map(|how| scene.outcome_alone(how));
        let mut said = Vec::new();
        for (done, what) in [(bad, "bad"), (good, "good")] {
            if !done.status.success() && !cannot(done) {
                said.push(format!("{what}: {}\n{}{}", done.status, done.stdout, done.stderr));
            }
        }
        if bad.status.success() && bad.stdout != printed(scene, scene.results[0]) {
            said.push(format!("bad: expected {}, and it printed {:?}", scene.results[0], bad.stdout));
        }
        let calls: Vec<&str> = good.stdout.lines().filter(|line| *line != "done").collect();
        let all_well = calls.iter().all(|line| line.ends_with(&format!(": {}", success())));
        if good.status.success() && (calls.is_empty() || !all_well) {
            said.push(format!("good: it printed {:?}", good.stdout));
        }
        said
    });
}

/// Returns the output of a wrong program whose call returns this.
fn printed(scene: &Scene, result: &str) -> String {
    format!("{}: {result}\ndone\n", scene.function)
}

/// The most bytes of a first line, with five digits for each pid and three for each age. The library cuts at 120.
const LONGEST_FIRST_LINE: usize = 112;

/// The first lines of findings that are too long.
fn too_long(stderr: &str) -> Vec<String> {
    let findings = stderr.lines().filter_map(|line| line.strip_prefix("cupeer: "));
    let findings = findings.filter(|line| ["error ", "warning ", "note "].iter().any(|word| line.starts_with(word)));
    let is_long = |line: &&str| {
        let pids = line.split("process ").skip(1).map(|rest| rest.bytes().take_while(u8::is_ascii_digit).count());
        let more = pids.map(|digits| digits.saturating_sub(5)).sum::<usize>();
        // A slow machine makes ages longer, too: 3.2 ms is usual.
        let ages = line.split(" ago").filter_map(|before| before.rsplit(' ').nth(1));
        let older = ages.filter(|age| age.starts_with(|c: char| c.is_ascii_digit()));
        line.len() - more - older.map(|age| age.len().saturating_sub(3)).sum::<usize>() > LONGEST_FIRST_LINE
    };
    findings.filter(is_long).map(|line| format!("more than {LONGEST_FIRST_LINE} characters: {line}")).collect()
}

fn wrong_about_bad(scene: &Scene, checked: &Checked) -> Vec<String> {
    let mut said = Vec::new();
    let expected: BTreeSet<&str> = scene.also.iter().chain([&scene.rule]).map(|rule| rule.spec().name()).collect();
    let found = checked.rules();
    if found != expected {
        said.push(format!("bad: expected {expected:?}, found {found:?}"));
    }
    // A note in the report is a line, without its hint.
    let is_late = scene.rule.spec().found == Found::InRecordings;
    let message = words(if is_late { &checked.text } else { &checked.done.stderr });
    for finding in checked.findings().iter().filter(|finding| finding["rule"] == scene.rule.spec().name()) {
        if finding["function"] != scene.function {
            said.push(format!("bad: it is found at {}, and not at {}", finding["function"], scene.function));
        }
        let hint = finding["hint"].as_str().unwrap_or_default();
        for wanted in [scene.rule.spec().name(), hint] {
            let is_said = message.contains(&words(wanted)) || is_late && wanted == hint;
            if wanted.is_empty() || !is_said {
                said.push(format!("bad: {wanted:?} is not said: {message}"));
            }
        }
    }
    said
}

/// True for a note about a cost: a right program may have it, except the right one of its scene.
fn is_waste(scene: &Scene, finding: &Value) -> bool {
    let rule = finding["rule"].as_str().and_then(Rule::of);
    let is_other = |rule: Rule| rule != scene.rule && rule.spec().states_fact(Tells::Waste);
    finding["severity"] == "note" && rule.is_some_and(is_other)
}

/// Returns the differences between a program without and with cupeer.
fn wrong(scene: &Scene, how: How, alone: &Done, checked: &Checked) -> Vec<String> {
    let same = (&alone.stdout, alone.status.code()) == (&checked.done.stdout, checked.done.status.code());
    if !same {
        let Done { status, stdout, stderr } = &checked.done;
        return vec![format!("{how:?}: it is another program under cupeer: {status} {stdout:?}\n{stderr}")];
    }
    match how {
        How::Bad => wrong_about_bad(scene, checked),
        How::Good if checked.findings().iter().all(|finding| is_waste(scene, finding)) => Vec::new(),
        How::Good => vec![format!("good: found {:?}: {:#?}", checked.rules(), checked.findings())],
    }
}

#[test]
fn the_wrong_programs_yield_their_rule_and_the_right_ones_nothing() {
    for_each(scenes(), |scene| {
        let played = [How::Bad, How::Good].map(|how| (how, scene.outcome_alone(how)));
        let played = played.into_iter().filter(|(_, alone)| !cannot(alone));
        played
            .flat_map(|(how, alone)| {
                let checked = scene.outcome_checked(how);
                [wrong(scene, how, alone, checked), too_long(&checked.done.stderr)].concat()
            })
            .collect()
    });
}

/// Most scenes need one device, and the table has the number of the others.
#[test]
fn scenes_are_played_on_one_device_unless_the_table_says_that_they_need_more() {
    for_each(scenes(), |scene| {
        if [How::Bad, How::Good].iter().any(|how| cannot(scene.outcome_alone(*how))) {
            return Vec::new();
        }
        let play = scene.play.on_one_device();
        let mut said = Vec::new();
        for how in [How::Bad, How::Good] {
            let alone = done(&mut play.alone(how));
            let is_printed = how == How::Good || alone.stdout == printed(scene, scene.results[0]);
            if !alone.status.success() || !is_printed {
                said.push(format!("{how:?}: {}\n{}{}", alone.status, alone.stdout, alone.stderr));
            } else {
                said.extend(wrong(scene, how, &alone, &play.checked(how, &[])));
            }
        }
        match (scene.devices, said.is_empty()) {
            (1, _) => said,
            (_, false) => Vec::new(),
            (needed, true) => vec![format!("one device is enough, and the table says {needed}")],
        }
    });
}

/// Machines of one driver differ in when it looks at the memory of a graph: the finding does not.
#[test]
fn a_use_breaks_the_same_rule_if_the_driver_refuses_it_at_once() {
    let is_use = |scene: &&Scene| scene.rule.spec().name().starts_with("use-");
    for_each(scenes().iter().filter(is_use), |scene| {
        let play = scene.play.with("graphs=check");
        let mut said = Vec::new();
        for how in [How::Bad, How::Good] {
            let (alone, checked) = (done(&mut play.alone(how)), play.checked(how, &[]));
            let is_known = |result: &&str| alone.stdout == printed(scene, result);
            if !alone.status.success() {
                said.push(format!("{how:?}: {}\n{}{}", alone.status, alone.stdout, alone.stderr));
            } else if how == How::Bad && !scene.results.iter().any(is_known) {
                said.push(format!("bad: expected one of {:?}, and it printed {:?}", scene.results, alone.stdout));
            }
            said.extend(wrong(scene, how, &alone, &checked));
        }
        said
    });
}
