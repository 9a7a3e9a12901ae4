//! Records that lack calls: nothing that a missing call could contradict is certain, or worse than a note.

use super::scene::{Actor, Scene, us};
use super::{json_of, of};
use cupeer_record::Outcome;
use cupeer_record::writer;
use cupeer_spec::function::FnId;
use cupeer_spec::results::Result;
use serde_json::{Value, json};

type Lose = fn(&mut Actor);

/// Ways in which a recording loses calls.
const LOSSES: [(&str, Lose); 2] = [
    ("counted", |actor| actor.writer().change_header(|header| header.lost = 1).unwrap()),
    ("full disk", |actor| actor.writer().change_header(|header| header.ended_by = libc::ENOSPC as u32).unwrap()),
];

/// The findings that are worse than a note, or certain.
fn sure(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let sure = findings.filter(|one| one["severity"] != "note" || one["confidence"] == "certain");
    sure.map(|one| format!("{} {}", one["rule"], one["confidence"])).collect()
}

/// An event and memory that an importer opened, and closed in calls that are missing.
fn shared(lose: Option<Lose>) -> Value {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).export_event(120, 0x22, 0xe0).export(130, 0x33, 0x8000);
    importer.open(200, 0x11, 0x9000).open_event(220, 0x22, 0xe1).open(230, 0x33, 0xa000);
    // Opened again under the same handle: which opening this close belongs to depends on what is missing.
    exporter.free(300, 0x7000).destroy(310, 0xe0);
    importer.close(800, 0x9000).close(900, 0xdead);
    if let Some(lose) = lose {
        lose(&mut importer);
    }
    exporter.ends();
    importer.ends();
    json_of(&scene, &[])
}

#[test]
fn nobody_is_blamed_with_certainty_where_calls_are_missing() {
    let whole = sure(&shared(None));
    assert!(whole.contains(&"\"ipc-freed-while-open\" \"certain\"".into()), "{whole:?}");
    assert!(whole.contains(&"\"ipc-event-destroyed-while-open\" \"certain\"".into()), "{whole:?}");
    for (how, lose) in LOSSES {
        let report = shared(Some(lose));
        assert_eq!(sure(&report), [""; 0], "{how}");
        let states: Vec<&Value> = report["handles"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
        assert!(!states.contains(&&json!("freed while open")), "{how}: {states:?}");
        assert!(!states.contains(&&json!("open at exit")), "{how}: {states:?}");
        assert_eq!(report["leaks"], json!([]), "{how}");
    }
}

/// A failure is a fact, and its cause a guess where another call may have changed it.
#[test]
fn causes_of_failures_are_notes_where_calls_are_missing() {
    let report = |lose: Option<Lose>| {
        let scene = Scene::new();
        let mut importer = scene.gone(1);
        importer.open(200, 0x11, 0x9000).close(300, 0x9000);
        let mut again = importer.makes(FnId::cuIpcCloseMemHandle, 400);
        writer::set(&mut again, "dptr", &0x9000u64.to_le_bytes());
        again.outcome = Outcome::Returned(Result::INVALID_VALUE as i32);
        importer.add(&again);
        if let Some(lose) = lose {
            lose(&mut importer);
        }
        importer.ends();
        json_of(&scene, &[])
    };
    assert_eq!(sure(&report(None)), ["\"ipc-closed-twice\" \"certain\""]);
    for (how, lose) in LOSSES {
        let report = report(Some(lose));
        assert_eq!(sure(&report), [""; 0], "{how}");
        let message = report["findings"][0]["message"].as_str().unwrap();
        assert!(message.contains("the recording lacks calls"), "{how}: {message}");
        let failures =
            &report["functions"].as_array().unwrap().iter().find(|one| one["function"] == "cuIpcCloseMemHandle");
        assert_eq!(failures.unwrap()["failures"], json!({"CUDA_ERROR_INVALID_VALUE": 1}), "{how}");
    }
}

/// The entry that a call returned may be missing.
#[test]
fn calls_are_not_said_to_hang_where_their_ends_may_be_missing() {
    let scene = |lose: Option<Lose>| {
        let scene = Scene::new();
        let mut actor = scene.gone(0);
        let call = actor.makes(FnId::cuMemFree_v2, 200);
        actor.export(100, 0x11, 0x7000).hang(&call);
        if let Some(lose) = lose {
            lose(&mut actor);
        }
        actor.ends();
        scene
    };
    let whole = scene(None);
    assert_eq!(json_of(&whole, &[])["processes"][0]["pending"].as_array().unwrap().len(), 1);
    assert!(of(&whole, &[]).contains("has not returned"), "{}", of(&whole, &[]));
    for (how, lose) in LOSSES {
        let lossy = scene(Some(lose));
        let report = json_of(&lossy, &[]);
        assert_eq!(report["processes"][0]["pending"], json!([]), "{how}");
        let problems = report["record"]["problems"].to_string();
        assert!(problems.contains("does not show whether 1 call returned"), "{how}: {problems}");
        assert!(problems.contains("cuMemFree_v2 in thread 1000"), "{how}: {problems}");
        let text = of(&lossy, &[]);
        assert!(!text.contains("has not returned") && text.contains("recording is incomplete"), "{how}: {text}");
    }
}

/// A pointer that was freed in a call that is missing belongs to another pool later.
#[test]
fn pointers_change_pools_where_the_call_that_freed_them_is_missing() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    for (at, pool) in [(100, 0xa0u64), (200, 0xb0)] {
        let mut import = actor.makes(FnId::cuMemPoolImportFromShareableHandle, at);
        writer::set(&mut import, "pool_out", &pool.to_le_bytes());
        actor.add(&import);
        let mut pointer = actor.makes(FnId::cuMemPoolImportPointer, at + 20);
        writer::set(&mut pointer, "ptr_out", &0x9000u64.to_le_bytes());
        writer::set(&mut pointer, "pool", &pool.to_le_bytes());
        pointer.start = us(at + 20);
        actor.add(&pointer);
    }
    actor.free(300, 0x9000).ends();
    let pools = json_of(&scene, &[])["pools"].clone();
    let open: Vec<&Value> = pools.as_array().unwrap().iter().map(|pool| &pool["pointers"]).collect();
    assert_eq!(open, [0, 0], "{pools:#}");
}

/// A process without a record is missing, also where another one that lost calls says so itself.
#[test]
fn losses_known_to_a_run_are_in_the_recording() {
    for told in ["lost=1\nmissing=1\n", "lost=2\nmissing=1\n", "lost=1\n"] {
        let scene = Scene::new();
        let mut actor = scene.gone(0);
        actor.export(100, 0x11, 0x7000);
        if told != "lost=1\n" {
            actor.writer().change_header(|header| header.lost = 1).unwrap();
        }
        actor.fail_to_open(200, (0x55, 0x55), Result::INVALID_VALUE as i32);
        actor.ends();
        let job = scene.dir().join("job");
        let text = std::fs::read_to_string(&job).unwrap();
        std::fs::write(&job, text + told).unwrap();
        // Not compared with reduced files: each host tells of its own.
        let report: Value = serde_json::from_str(&of(&scene, &["--format", "json"])).unwrap();
        let problems = report["record"]["problems"].to_string();
        let what = if told.contains("missing") {
            "says that 1 process recorded nothing"
        } else {
            "could not record everything"
        };
        assert!(problems.contains(what), "{told}: {problems}");
        assert_eq!(sure(&report), [""; 0], "{told}");
    }
}
