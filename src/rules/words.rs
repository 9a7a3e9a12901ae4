//! Explanations of the driver's own messages that are misleading, and labels of the objects of findings.

use crate::rule::Rule;
use cupeer_spec::record::slot::finding::role;
use cupeer_spec::texts;

/// What is said, and what it means.
const MEANINGS: &[(&str, &str)] = &[
    (
        "Failed to allocate physical memory",
        "the driver also prints this for memory that was freed, or whose exporter exited; memory is not exhausted",
    ),
    (
        "Failed to open/create interprocess memory file",
        "the exporter has exited, or these bytes are not an event handle",
    ),
    ("not created from malloc API function", "only cuMemAlloc and cudaMalloc qualify"),
    (
        "Error opening locally created",
        "the driver takes a handle for this process's own if the pid in it is the same",
    ),
    (
        "User passed invalid device pointer",
        "the driver prints this for a pointer that was freed or closed, or that was never device memory",
    ),
];

texts!(static SAID = MEANINGS.0);
texts!(static MEANT = MEANINGS.1);

/// What words of the driver mean, where people have misread them.
pub fn meaning(words: &str) -> Option<&'static str> {
    SAID.all().position(|said| words.contains(said)).map(|index| MEANT.get(index))
}

/// Returns the label of an object in a finding, such as `exported`, by the rule and the word of the object's role.
pub fn label(rule: Option<Rule>, word: &str) -> &str {
    let past = role::past(word);
    rule.and_then(|rule| rule.spec().label(past)).unwrap_or(past)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misleading_words_are_known() {
        assert!(
            meaning("a; Failed to allocate physical memory").is_some_and(|text| text.contains("exporter"))
        );
        assert_eq!(meaning("devPtr cannot be NULL"), None);
    }

    #[test]
    fn labels_fit_the_rule() {
        let late = Some(Rule::IpcEventOpenedLate);
        assert_eq!([late, None].map(|rule| label(rule, "freeing")), ["destroyed", "freed"]);
        let reused = Some(Rule::IpcAddressReused);
        assert_eq!([reused, late].map(|rule| label(rule, "export")), ["exported earlier", "exported"]);
        assert_eq!(label(reused, "freeing"), "freed");
        assert_eq!(
            [Some(Rule::IpcLeak), reused].map(|rule| label(rule, "closing")),
            ["others closed", "closed"]
        );
    }
}
