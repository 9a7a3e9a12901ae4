//! The grammar of fault plans as the command lists and explains it, and its page. What plans do is tested elsewhere.

use crate::support::book::page;
use crate::support::{done, stdout, temp_dir, with};
use cupeer_spec::fault::{FaultPlan, KeyKind, keys};
use cupeer_spec::function::alterable_functions;
use serde_json::{Value, json};
use std::fs;

/// A text with single spaces in place of all white space.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_list_has_all_keys_in_their_groups_with_examples() {
    let list = stdout(with(&["list", "faults"]).env("COLUMNS", "100"));
    let mut rest = list.as_str();
    for kind in KeyKind::ALL {
        let head = format!("\n{}\n", kind.words().to_uppercase());
        rest = rest.split_once(&head).unwrap_or_else(|| panic!("{head} in\n{list}")).1;
        let group = rest.split_once("\n\n").unwrap().0;
        for key in keys() {
            let line = group.lines().any(|line| line.split(' ').next() == Some(&key.clause_form()));
            assert_eq!(line, key.kind == kind, "{}", key.name);
            let text = flat(&format!("{} Example: {}", key.doc, key.example_clause()));
            assert_eq!(undivided(group).contains(&undivided(&text)), key.kind == kind, "{text}");
        }
    }
}

/// A text without white space: how its lines are broken means nothing.
fn undivided(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn the_list_says_what_can_be_undone() {
    let list = stdout(with(&["list", "faults"]).env("COLUMNS", "100"));
    for function in alterable_functions() {
        let line = list.lines().find(|line| line.split(' ').next() == Some(function.name()));
        let undone = line.and_then(|line| line.split_whitespace().nth(1)).filter(|word| *word != "-");
        assert_eq!(undone, function.undone_by().map(|(inverse, _)| inverse.spec().name()), "{}", function.name());
    }
}

#[test]
fn the_list_as_json_has_all_that_is_known() {
    let list: Value = serde_json::from_str(&stdout(&mut with(&["list", "faults", "--format", "json"]))).unwrap();
    let listed = list["keys"].as_array().unwrap();
    assert_eq!(listed.len(), keys().count());
    for (json, key) in listed.iter().zip(keys()) {
        assert_eq!(json["key"], key.name);
        assert_eq!(json["meaning"], key.doc);
        assert!(FaultPlan::parse("plan", json["rule"].as_str().unwrap()).is_ok(), "{json}");
    }
    let functions = list["functions"].as_array().unwrap();
    assert_eq!(functions.len(), alterable_functions().count());
    let named = |name: &str| functions.iter().find(|json| json["function"] == name).unwrap();
    assert_eq!(
        *named("cuIpcOpenMemHandle_v2"),
        json!({
            "function": "cuIpcOpenMemHandle_v2",
            "arguments": ["Flags"],
            "outputs": [{"output": "pdptr", "values": ["a number", "zero", "null"]}],
            "undone_by": "cuIpcCloseMemHandle",
        })
    );
}

#[test]
fn explains_every_key() {
    for key in keys() {
        let text = stdout(&mut with(&["explain", key.name]));
        assert!(text.starts_with(&format!("{}, a key of fault plans\n", key.clause_form())), "{text}");
        assert!(flat(&text).contains(&flat(key.doc)) && text.contains(key.rule), "{text}");
    }
}

#[test]
fn the_page_has_all_keys() {
    let page = page("docs/reference/plans.md").text;
    for key in keys() {
        assert!(page.contains(&format!("`{}`", key.clause_form().replace('|', "\\|"))), "{}", key.name);
    }
}

/// The blocks of code of a page, of one language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("\n```{language}\n");
    page.split(&begin).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

#[test]
fn every_command_of_the_page_has_a_plan_that_is_read() {
    let page = page("docs/reference/plans.md").text;
    let commands = blocks(&page, "sh");
    assert!(commands.len() > 12, "{}", commands.len());
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "--inject").expect(command);
        FaultPlan::parse("inject", words[at + 1]).unwrap_or_else(|error| panic!("{command}: {error}"));
        // The options are those of the command. Nothing but them is tried: the program is another one.
        let end = words.iter().position(|word| *word == "--").expect(command);
        let directory = temp_dir();
        let ended = done(with(&words[1..end]).arg("true").current_dir(&directory));
        assert_eq!(ended.status.code(), Some(0), "{command}: {}", ended.stderr);
    }
}

#[test]
fn the_file_on_the_page_is_read_with_what_it_includes() {
    let page = page("docs/reference/plans.md").text;
    let files: Vec<&str> = blocks(&page, "text").into_iter().filter(|block| block.contains("\nplan ")).collect();
    assert_eq!(files.len(), 1);
    let directory = temp_dir();
    fs::write(directory.path().join("slow.plan"), files[0]).unwrap();
    fs::write(directory.path().join("common.plan"), "@open:delay=1ms").unwrap();
    let mut command = with(&["run", "--inject-file", "slow.plan", "sh", "-c", "printf %s \"$CUPEER_INJECT\""]);
    let plan = FaultPlan::parse("x", &done(command.current_dir(&directory)).stdout).unwrap();
    let names: Vec<&str> = plan.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["common/1", "slow/1", "slow/third"]);
}
