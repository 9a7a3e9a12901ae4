//! Processes and devices that findings about jobs name.

use super::scenes::{How, scene};

/// The message and the objects of the finding in the wrong program of a scene.
fn found(name: &str) -> (String, serde_json::Value) {
    let checked = scene(name).outcome_checked(How::Bad);
    let rule = name.split('/').next().expect("a rule");
    let is_it = |finding: &&serde_json::Value| finding["rule"] == rule;
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
    let wanted =
        "rank 1 did not export a file descriptor that this rank waits for; rank 1 exported only 1, the others 2 each";
    assert!(message.starts_with(wanted), "{message}");
}

#[test]
fn other_objects_opened_in_place_of_the_named_one() {
    let (message, objects) = found("ranks-open-another-export");
    assert!(message.starts_with("this process, on device 1 (c09e.."), "{message}");
    assert!(message.contains(" opened memory that was exported on device 0 (c09e.."), "{message}");
    assert_eq!(objects.as_array().map(Vec::len), Some(2), "{objects:#}");
    let (message, objects) = found("ranks-open-another-export/ring");
    assert!(message.starts_with("this process opened what process "), "{message}");
    assert!(message.contains(" (rank 3) exported, and no process opened what process "), "{message}");
    assert!(message.contains(" (rank 2) exported; all others opened"), "{message}");
    assert_eq!((&objects[0]["rank"], &objects[1]["rank"]), (&3.into(), &2.into()), "{objects:#}");
}

#[test]
fn ranks_that_hold_a_context_on_the_device_of_another_are_named() {
    for (name, ranks, share, severity) in [
        ("", "ranks 1, 2, 3 hold", "they share memory only on other devices", "warning"),
        ("/access", "rank 1 holds", "it shares memory only on another device", "warning"),
        // It may be there for rank 0.
        ("/memory", "rank 1 holds", "it exports memory there", "note"),
        (
            "/created",
            "rank 1 holds",
            "it shares memory only on another device; cuMemCreate allocated 4 MiB there",
            "warning",
        ),
        // Either of the two ranks may be the one that is right.
        ("/pair", "rank 1 holds", "it shares memory only on another device", "note"),
    ] {
        let name = format!("ranks-hold-another-device{name}");
        let (message, _) = found(&name);
        assert!(message.starts_with(&format!("{ranks} a context on device 0 (c09e..")), "{message}");
        let rest = format!("), the device of rank 0; each context takes about 500 MiB there, and {share}");
        assert!(message.ends_with(&rest), "{message}");
        let findings = scene(&name).outcome_checked(How::Bad).findings();
        assert_eq!(findings[0]["severity"], severity, "{findings:#?}");
    }
}

#[test]
fn data_that_go_through_host_memory_are_counted_with_both_copies() {
    let (message, objects) = found("copy-through-host");
    assert!(message.starts_with("1 MiB from device 1 (c09e.."), "{message}");
    assert!(message.contains(") to device 0 (c09e.."), "{message}");
    assert!(message.contains(") went through host memory; process "), "{message}");
    assert!(message.contains(" had the memory at one end open for "), "{message}");
    let (copying, opening) = (&objects[0], &objects[1]);
    assert_eq!((&copying["role"], &opening["role"]), (&"copying".into(), &"opening".into()), "{objects:#}");
    assert_ne!(copying["proc"], opening["proc"], "{objects:#}");
    assert!(copying["stack"].to_string().contains("receive"), "{objects:#}");
    let (message, objects) = found("copy-through-host/ones");
    assert!(message.starts_with("1 MiB of 2 MiB from device 1 (c09e.."), "{message}");
    assert_ne!(objects[0]["proc"], objects[1]["proc"], "{objects:#}");
    // One process does both.
    let (message, objects) = found("copy-through-host/fetched");
    assert!(message.starts_with("1 MiB from device 0 (c09e.."), "{message}");
    assert_eq!(objects[0]["proc"], objects[1]["proc"], "{objects:#}");
}

#[test]
fn both_processes_name_a_hidden_device_by_their_own_number() {
    let (message, _) = found("ipc-device-hidden");
    let both = message.split_once("; process ").expect("the exporter").1;
    let (there, here) = both.split_once(", and this process sees ").expect("the importer");
    assert!(there.contains(", which exported it, sees device 0 (c09e.."), "{message}");
    assert!(there.ends_with(" with CUDA_VISIBLE_DEVICES=0"), "{message}");
    assert!(here.starts_with("device 0 (c09e.."), "{message}");
}

#[test]
fn a_leak_names_the_place_where_others_were_closed() {
    let (_, objects) = found("ipc-leak");
    let closing = objects.as_array().and_then(|all| all.iter().find(|object| object["role"] == "closing"));
    let closing = closing.unwrap_or_else(|| panic!("{objects:#}"));
    assert!(closing["library"].is_string() && closing["offset"].is_string(), "{objects:#}");
}
