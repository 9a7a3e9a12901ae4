//! Which process a finding of `ranks-wait-for-descriptor` names.

use super::scenes::{How, scene};

/// The message and the objects of the finding in the wrong program of a scene.
fn found(name: &str) -> (String, serde_json::Value) {
    let checked = scene(name).outcome_checked(How::Bad);
    let is_it = |finding: &&serde_json::Value| finding["rule"] == "ranks-wait-for-descriptor";
    let finding = checked.findings().iter().find(is_it).unwrap_or_else(|| panic!("{}", checked.text));
    (finding["message"].as_str().expect("a message").to_owned(), finding["objects"].clone())
}

#[test]
fn the_rank_whose_export_failed_is_named_with_its_line() {
    let (message, objects) = found("ranks-wait-for-descriptor/failed");
    let wanted = "1 process waits for a file descriptor from rank 1, whose export failed; cuMemExportToShareableHandle returned CUDA_ERROR_INVALID_VALUE there";
    assert!(message.starts_with(wanted), "{message}");
    assert_eq!((&objects[0]["role"], &objects[0]["rank"]), (&"export".into(), &1.into()), "{objects:#}");
    assert!(objects[0]["stack"].to_string().contains("ranks.c"), "{objects:#}");
}

/// Two of four ranks exchange, and the other two made all their exports.
#[test]
fn ranks_of_another_group_are_not_named() {
    let (message, _) = found("ranks-wait-for-descriptor/group");
    let wanted = "1 rank waits for a file descriptor from rank 1, which exported fewer than the others (1 instead of 2)";
    assert!(message.starts_with(wanted), "{message}");
}
