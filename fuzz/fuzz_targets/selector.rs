//! Any text is a set of functions, or of rules, or an error that points into the text.
#![no_main]

use cupeer_spec::record::slot::finding::Finding;
use cupeer_rules::{RULES, RuleSet};
use cupeer_spec::selector::FunctionSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = FunctionSet::parse(text) {
        assert!(error.column >= 1 && error.column <= text.len() + 1, "{error}");
    }
    match RuleSet::parse(text) {
        Ok(set) => assert!(RULES.iter().any(|rule| set.contains_for_any_library(rule.id)), "a set of nothing"),
        Err(error) => assert!(error.column >= 1 && error.column <= text.len() + 1, "{error}"),
    }
    // The same bytes as a finding of a record.
    if let Some(finding) = Finding::read(text.as_bytes()) {
        assert!(!finding.rule.is_empty());
    }
});
