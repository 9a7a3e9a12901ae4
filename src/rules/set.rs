//! The patterns that select rules: `ipc-flags,ipc-freed-*@libnccl*`.

use crate::rule::{RULES, Rule};
use cupeer_spec::names::{TextError, find_nearest_name, matches_pattern};

/// Set of rules, some of which are selected only for calls of certain libraries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RuleSet(Vec<RulePattern>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct RulePattern {
    rule: String,
    library: Option<String>,
}

/// Checks that a name or a pattern matches a rule that is checked. The error suggests a similar name, or says
/// why the rules that match are not checked.
pub fn check_rule_name(rule: &str) -> Result<(), String> {
    if rule.is_empty() {
        return Err("a rule or a pattern of rules is missing here".into());
    }
    let mut meant = RULES.iter().filter(|known| matches_pattern(rule.as_bytes(), known.name().as_bytes()));
    let Some(first) = meant.next() else {
        let hint = match find_nearest_name(rule, RULES.iter().map(|known| known.name())) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => "'cupeer list rules' lists them all".into(),
        };
        return Err(format!("no rule is named '{rule}'; {hint}"));
    };
    match first.reason_unchecked() {
        Some(why) if meant.all(|known| !known.is_checked()) => Err(format!("'{rule}' is not checked: {why}")),
        _ => Ok(()),
    }
}

/// Returns true if a pattern matches a file. A pattern with a slash is matched against the path, others
/// against the file name.
pub fn matches_file(pattern: &str, path: &[u8]) -> bool {
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    matches_pattern(pattern.as_bytes(), if pattern.contains('/') { path } else { file })
}

impl RuleSet {
    /// Parses a set: names and patterns of rules, separated by commas. Each may be followed by `@LIBRARY` for
    /// calls of that library (the name of its file, or a pattern).
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let mut items = Vec::new();
        let mut column = 1;
        for item in text.split(',') {
            let (rule, library) = match item.split_once('@') {
                Some((rule, library)) => (rule, Some(library)),
                None => (item, None),
            };
            let error = |column, message: String| Err(TextError { column, message });
            if library == Some("") && !rule.is_empty() {
                let message = "the name of a library is missing here, such as libnccl*";
                return error(column + item.len(), message.into());
            }
            check_rule_name(rule).map_err(|message| TextError { column, message })?;
            items.push(RulePattern { rule: rule.into(), library: library.map(Into::into) });
            column += item.len() + 1;
        }
        Ok(RuleSet(items))
    }

    /// Returns true if the set selects no rule.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the set selects the rule for calls of the library with this path.
    pub fn contains(&self, rule: Rule, library: &[u8]) -> bool {
        self.0.iter().any(|item| {
            matches_pattern(item.rule.as_bytes(), rule.spec().name().as_bytes())
                && item.library.as_ref().is_none_or(|wanted| matches_file(wanted, library))
        })
    }

    /// Returns true if the set selects the rule for calls of at least one library.
    pub fn contains_for_any_library(&self, rule: Rule) -> bool {
        self.0.iter().any(|item| matches_pattern(item.rule.as_bytes(), rule.spec().name().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_patterns_and_libraries() {
        let set = RuleSet::parse("ipc-flags,ipc-freed-*@libnccl*").unwrap();
        assert!(set.contains(Rule::IpcFlags, b"/x/a.so") && set.contains(Rule::IpcFlags, b""));
        assert!(set.contains(Rule::IpcFreedWhileOpen, b"/usr/lib/libnccl.so.2"));
        assert!(!set.contains(Rule::IpcFreedWhileOpen, b"/usr/lib/libtorch.so"));
        assert!(
            set.contains_for_any_library(Rule::IpcFreedWhileOpen) && !set.contains_for_any_library(Rule::PeerFlags)
        );
        assert!(!RuleSet::default().contains_for_any_library(Rule::IpcFlags));
        let path = RuleSet::parse("*@/usr/*/libnccl.so.2").unwrap();
        assert!(
            path.contains(Rule::PeerFlags, b"/usr/lib/libnccl.so.2")
                && !path.contains(Rule::PeerFlags, b"/libnccl.so.2")
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_set_or_an_error_with_its_place(text in "[a-z*?@,-]{0,40}|\\PC{0,20}") {
            match RuleSet::parse(&text) {
                Ok(set) => assert!(RULES.iter().any(|rule| set.contains_for_any_library(rule.id)), "{text}: a set of nothing"),
                Err(error) => assert!((1..=text.len() + 1).contains(&error.column), "{text}: {error}"),
            }
        }
    }

    #[test]
    fn mistakes_are_named_with_their_position() {
        let message = |text| RuleSet::parse(text).unwrap_err().to_string();
        assert_eq!(message("ipc-flagz"), "column 1: no rule is named 'ipc-flagz'; did you mean 'ipc-flags'?");
        assert!(message("peer-data").contains("'peer-data' is not checked: "), "{}", message("peer-data"));
        assert!(message("ipc-flags,").starts_with("column 11: a rule"));
        assert!(message("ipc-flags,*@").starts_with("column 13: the name of a library"));
        assert!(message("@libx").starts_with("column 1:"));
    }
}
