//! Findings about virtual memory and pools: the values that their rules name, at the call and afterwards.

use super::scenes::{How, report, scene};
use crate::support::{done, temp_dir};
use serde_json::Value;

/// Returns the findings about the wrong program of a scene, with and without checks: each message, and its confidence.
fn said(name: &str) -> [(String, String); 2] {
    let scene = scene(name);
    ["--check=notes", "--check=off"].map(|option| {
        let folder = temp_dir();
        let record = folder.path().join("record");
        assert!(done(&mut scene.under(How::Bad, &[option], &record)).status.success());
        let report = report(&record);
        let text = |row: &Value, key: &str| row[key].as_str().expect("a text").to_owned();
        let rows = report["findings"].as_array().expect("findings");
        let row = rows.iter().find(|row| row["rule"] == scene.rule.spec().name()).expect("the finding");
        (text(row, "message"), text(row, "confidence"))
    })
}

fn both(name: &str) -> String {
    // Addresses differ from run to run.
    let [(now, sure), (later, also)] = said(name).map(|(text, sure)| (without_addresses(&text), sure));
    assert_eq!((&now, sure.as_str()), (&later, also.as_str()), "{name}");
    assert_eq!(sure, "certain", "{name}");
    now
}

/// A text with `0x` for each address.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "0x" + part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()))
}

#[test]
fn the_sentences_have_the_values_of_the_process() {
    assert_eq!(
        both("vmm-handle-type"),
        "handleType is POSIX_FILE_DESCRIPTOR, but the allocation has handle types NONE"
    );
    assert_eq!(
        both("vmm-handle-type/imported"),
        "an imported allocation cannot be exported again, with any handle type; this call asks for POSIX_FILE_DESCRIPTOR"
    );
    assert_eq!(both("vmm-unreachable-device/none"), "desc names device 99, but this process sees devices 0 to 1");
    assert_eq!(
        both("vmm-partial-mapping"),
        "size is 2 MiB, but the allocation has 4 MiB, and must be mapped as a whole"
    );
    assert_eq!(both("vmm-partial-mapping/offset"), "offset is 2097152, and must be 0");
    assert!(both("vmm-mapped-twice").contains(" overlap an existing mapping: 4 MiB at 0x"));
    assert!(both("vmm-reservation-in-use").contains(", 4 MiB are still mapped at 0x"));
    assert!(both("vmm-part-of-mapping").starts_with("2 MiB at 0x"));
    assert!(both("vmm-released-twice").ends_with(
        " is released once too often; this process had already released it as often as it created or retained it"
    ));
    assert!(both("vmm-no-access").starts_with("4 MiB mapped at 0x"));
}

#[test]
fn facts_of_a_call_are_inferred_afterwards() {
    let [(now, sure), (later, guessed)] = said("vmm-unreachable-device");
    assert!(
        now.starts_with("device 1 (c09e..") && now.contains(" cannot reach the memory on device 0 (c09e.."),
        "{now}"
    );
    assert_eq!((&now, sure.as_str(), guessed.as_str()), (&later, "certain", "inferred"));
    let [(now, sure), (later, guessed)] = said("vmm-fabric-without-channel");
    assert!(now.contains("cannot open an IMEX channel"), "{now}");
    assert!(later.starts_with("requestedHandleTypes has FABRIC, which fails this way if"), "{later}");
    assert_eq!((sure.as_str(), guessed.as_str()), ("certain", "inferred"));
}

#[test]
fn facts_unknown_to_an_importer_are_not_invented() {
    let [(now, sure), (later, _)] = said("vmm-partial-mapping/imported");
    assert_eq!(now, "size is 2 MiB, but the allocation has another size, and must be mapped as a whole");
    assert_eq!((&now, sure.as_str()), (&later, "certain"));
    let [(now, sure), (later, guessed)] = said("vmm-unreachable-device/several");
    // The driver tells the device of an import.
    assert!(
        now.starts_with("device 1 (c09e..") && now.contains(" cannot reach the memory on device 0 (c09e.."),
        "{now}"
    );
    assert_eq!((&now, sure.as_str(), guessed.as_str()), (&later, "certain", "inferred"));
}

#[test]
fn a_number_in_place_of_a_descriptor_is_traced_to_its_exporter() {
    let [(now, sure), (later, guessed)] = said("vmm-descriptor");
    let number = now.strip_prefix("osHandle is ").and_then(|rest| rest.split_once(',')).expect("a number").0;
    let ending = format!(" exported memory as its own file descriptor {number}, and each process has its own numbers");
    assert!(now.contains(&format!("this process has no file descriptor {number}; process ")), "{now}");
    assert!(now.ends_with(&ending), "{now}");
    assert!(later.starts_with(&format!("osHandle is {number}, which is not a file descriptor of exported memory")));
    assert_eq!((sure.as_str(), guessed.as_str()), ("certain", "inferred"));
    let [(now, sure), _] = said("vmm-descriptor/pool");
    assert!(now.starts_with("handle is ") && now.contains(", and this process has no file descriptor "), "{now}");
    assert!(now.contains("exported memory as its own file descriptor ") && sure == "certain", "{now}");
    let [(now, sure), (later, guessed)] = said("vmm-descriptor/kind");
    assert!(now.contains(" is a pool that process ") && sure == "certain", "{now}");
    assert!(now.ends_with(" exported; cuMemPoolImportFromShareableHandle imports it"), "{now}");
    assert!(later.ends_with(" is a pool; cuMemPoolImportFromShareableHandle imports it"), "{later}");
    assert_eq!(guessed, "inferred");
    let [(now, sure), _] = said("vmm-descriptor/other-kind");
    assert!(now.contains(" is memory of cuMemCreate that process ") && sure == "certain", "{now}");
    let [(now, sure), _] = said("vmm-descriptor/taken");
    assert!(now.contains(" of this process is not exported memory; process ") && sure == "inferred", "{now}");
    assert!(
        said("vmm-descriptor/refused")[0].0.starts_with("osHandle is -1, which is not a file descriptor; the call")
    );
}

#[test]
fn the_sentences_about_multicast_objects_have_the_values_of_the_process() {
    assert_eq!(both("multicast-granularity"), "size is 4198400, which is not a multiple of the granularity (2 MiB)");
    let twice = both("multicast-device");
    assert!(twice.starts_with("this process has added device 0 (c09e.."), "{twice}");
    let more = both("multicast-device/more");
    assert!(
        more.starts_with(
            "the multicast object was created for 1 device, which this process has already added; device 1 ("
        ),
        "{more}"
    );
    let foreign = both("multicast-memory");
    assert!(foreign.starts_with("the memory is on device 1 (c09e.."), "{foreign}");
    assert_eq!(both("multicast-memory/address"), foreign);
    let other = both("multicast-memory/named");
    assert!(
        other.starts_with("memory on device 0 (c09e..") && other.contains(" is bound for device 1 (c09e.."),
        "{other}"
    );
    assert!(both("multicast-handle-type").ends_with(" but the multicast object has handle types"));
    let [(now, sure), (later, guessed)] = said("multicast-unsupported");
    assert!(
        now.starts_with("device 0 (c09e..") && later.starts_with("a device does not support multicast"),
        "{now} {later}"
    );
    assert_eq!((sure.as_str(), guessed.as_str()), ("certain", "inferred"));
}

#[test]
fn the_sentences_about_pools_have_the_values_of_the_process() {
    let but = "handleType is POSIX_FILE_DESCRIPTOR, but the pool ";
    for (scene, what) in [
        ("pool-handle-type", "has handle types NONE"),
        ("pool-handle-type/default", "is the default one of a device; default pools cannot be exported"),
        ("pool-handle-type/imported", "was imported; an import cannot be exported again"),
        ("pool-handle-type/destroyed", "is destroyed"),
    ] {
        assert_eq!(both(scene), format!("{but}{what}"));
    }
    assert!(both("pool-wrong-pool/own").starts_with("pool 0x belongs to this process;"));
    assert_eq!(both("pool-import-in-use"), "1 pointer of the imported pool 0x is not freed");
    let [(now, _), (later, _)] = said("pool-freed-while-open");
    assert!([now, later].iter().all(|said| said.contains(" (4 MiB) was freed while open in process ")));
}
