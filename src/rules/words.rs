//! Explanations of the driver's own messages that are misleading, and labels of the objects of findings.

use crate::rule::Rule;
use cupeer_spec::record::slot::finding::role;

/// Text of an explanation before the meaning of the result, if neither a rule nor the driver gives a cause.
/// The report adds causes that other calls show.
pub const NO_CAUSE: &str = "; the documentation of the result says: ";
/// Text of an explanation before the driver's message, if only the driver gives a cause.
pub const DRIVER_SAYS: &str = "; the driver says: ";

/// Driver messages that mislead: the message, its meaning, and a part of the names of the functions for which
/// the message has this meaning.
const MEANINGS: &[(&str, &str, &str)] = &[
    (
        "Failed to allocate physical memory",
        "the driver also prints this for memory that was freed, or whose exporter exited; memory is not exhausted",
        "cuIpcOpen",
    ),
    (
        "Failed to open/create interprocess memory file",
        "the exporter has exited, or these bytes are not an event handle",
        "",
    ),
    (
        "must be between 0 and",
        "the second number is the number of devices; the last device has a number one less",
        "cuDevice",
    ),
    ("not created from malloc API function", "only cuMemAlloc and cudaMalloc qualify", ""),
    (
        "Error opening locally created",
        "the driver takes a handle for this process's own if the pid in it is the same",
        "",
    ),
    (
        "User passed invalid device pointer",
        "the driver prints this for a pointer that was freed or closed, or that was never device memory",
        "",
    ),
];

/// Returns the meaning of a driver message in a call of a function, if the message is known to mislead.
pub fn message_meaning(function: &str, words: &str) -> Option<&'static str> {
    let (_, meaning, functions) = MEANINGS.iter().find(|(said, ..)| words.contains(said))?;
    function.contains(functions).then_some(*meaning)
}

/// Returns the label of an object in a finding, such as `exported`, by the rule and the word of the object's role.
pub fn object_label(rule: Option<Rule>, word: &str) -> &str {
    let past = role::past_participle(word);
    rule.and_then(|rule| rule.spec().label(past)).unwrap_or(past)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misleading_words_are_known() {
        let said = "a; Failed to allocate physical memory";
        assert!(message_meaning("cuIpcOpenMemHandle_v2", said).is_some_and(|text| text.contains("exporter")));
        let between = "Parameter peerDev must be between 0 and 1";
        assert!(message_meaning("cuDeviceCanAccessPeer", between).is_some_and(|text| text.contains("one less")));
        // For this function, the driver's message is right.
        assert_eq!(message_meaning("cuMemCreate", said), None);
        assert_eq!(message_meaning("cuIpcOpenMemHandle_v2", "devPtr cannot be NULL"), None);
    }

    #[test]
    fn labels_fit_the_rule() {
        let late = Some(Rule::IpcEventOpenedLate);
        assert_eq!([late, None].map(|rule| object_label(rule, "freeing")), ["destroyed", "freed"]);
        let reused = Some(Rule::IpcAddressReused);
        assert_eq!([reused, late].map(|rule| object_label(rule, "export")), ["exported earlier", "exported"]);
        assert_eq!(object_label(reused, "freeing"), "freed");
        assert_eq!(
            [Some(Rule::IpcLeak), reused].map(|rule| object_label(rule, "closing")),
            ["others closed", "closed"]
        );
    }
}
