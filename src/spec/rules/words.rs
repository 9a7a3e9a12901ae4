//! What the driver's own words mean where they mislead.

/// What is said, and what it means.
static MEANINGS: &[(&str, &str)] = &[
    (
        "Failed to allocate physical memory",
        "it says so of memory that is gone with its exporter or was freed, too; nothing is short of memory",
    ),
    (
        "Failed to open/create interprocess memory file",
        "there is no such file because the exporter has exited, or because these bytes are no handle of an event",
    ),
    ("not created from malloc API function", "the malloc API functions are cuMemAlloc and cudaMalloc alone"),
    ("Error opening locally created", "it takes a handle for its own by the pid that stands in it"),
    (
        "User passed invalid device pointer",
        "a pointer that was freed, closed or never was the device's is meant",
    ),
];

/// What words of the driver mean, where people have misread them.
pub fn meaning(words: &str) -> Option<&'static str> {
    MEANINGS.iter().find(|(said, _)| words.contains(said)).map(|(_, meaning)| *meaning)
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
}
