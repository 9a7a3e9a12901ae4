//! The table of keys describes each key as it is parsed.

use super::rule;
use crate::fault::parse::keys::{ARGUMENT, KEYS, KeyKind, ValueParser, keys};
use crate::fault::{CounterScope, FaultPlan, describe_output_values};
use crate::function::{Direction, alterable_functions};

#[test]
fn every_key_is_read_in_its_rule() {
    for key in keys() {
        let read = rule(key.rule);
        let example = key.example_clause();
        assert!(read.text.split(':').skip(1).any(|clause| clause == example), "{}", key.name);
        let is_named = example == key.name || example.starts_with(&format!("{}=", key.name));
        assert_eq!(is_named, key.name != ARGUMENT.name, "{example}");
    }
}

#[test]
fn every_key_is_listed_once_by_its_kind() {
    let all: Vec<&str> = keys().map(|key| key.name).collect();
    assert_eq!(all.len(), KEYS.len() + 1);
    assert!(all.iter().enumerate().all(|(i, name)| !all[..i].contains(name)), "{all:?}");
    let kinds: Vec<KeyKind> = keys().map(|key| key.kind).collect();
    let changes = kinds.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!((changes, kinds.last()), (2, Some(&KeyKind::Happens)));
}

#[test]
fn every_key_says_what_it_is_in_one_sentence() {
    for key in keys() {
        assert!(key.doc.ends_with('.') && !key.doc.contains(". ") && !key.doc.contains('\n'), "{}", key.doc);
        let has_value = !matches!(key.reads, ValueParser::Flag(_));
        assert_eq!(!key.value.is_empty(), has_value, "{}", key.name);
        assert_eq!(key.value.starts_with('['), matches!(key.reads, ValueParser::Optional(_)), "{}", key.name);
    }
}

#[test]
fn the_form_is_what_is_written() {
    let form = |name: &str| keys().find(|key| key.name == name).unwrap().clause_form();
    assert_eq!(["dev", "hang", "force"].map(form), ["dev=NUMBERS", "hang[=LABEL]", "force"]);
}

#[test]
fn words_that_a_form_names_are_those_that_are_read() {
    let form = |name: &str| keys().find(|key| key.name == name).unwrap().value;
    let scopes = CounterScope::ALL.iter().map(|(_, word)| *word).collect::<Vec<_>>().join("|");
    assert_eq!(form("per"), format!("{scopes}[/rule]"));
    for stage in form("stage").split('|') {
        rule(&format!("@open:error=any:stage={stage}"));
    }
}

#[test]
fn outputs_take_what_is_said_of_them() {
    for function in alterable_functions() {
        for arg in function.args().iter().filter(|arg| arg.direction == Direction::Out) {
            let said = describe_output_values(arg);
            for (value, word) in
                [("1", "a number"), ("zero", "zero"), ("null", "zero"), ("flip/3", "flip/BYTE"), ("other", "other")]
            {
                let text = format!("{}:out={}={value}", function.name(), arg.name());
                assert_eq!(FaultPlan::parse("plan", &text).is_ok(), said.contains(word), "{text}");
            }
        }
    }
}
