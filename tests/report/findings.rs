//! Findings of rules: rows over all processes, findings of the report itself, and cases in which it says nothing.

use super::scene::{Actor, CODE, Scene, at, checked, found, us};
use super::{json_of, of};
use crate::support;
use cupeer_record::writer::{self, About};
use cupeer_record::{Call, FindingObject, Library, Outcome};
use cupeer_rules::Severity;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::finding::{self, role};
use cupeer_spec::record::slot::shape;
use cupeer_spec::results::Result;
use serde_json::{Value, json};

/// A call that fails.
fn failing(actor: &Actor, function: FnId, at: u64, result: Result) -> Call {
    let mut call = actor.makes(function, at);
    call.outcome = Outcome::Returned(result as i32);
    call
}

/// The findings of a scene: rule, severity, confidence, function, count.
fn found_in(scene: &Scene, options: &[&str]) -> Vec<String> {
    let report = json_of(scene, options);
    let rows = report["findings"].as_array().expect("an array").iter();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or("?").to_owned();
    rows.map(|row| {
        let keys = ["rule", "severity", "confidence", "function"].map(|key| text(row, key));
        format!("{} {}", keys.join(" "), row["count"])
    })
    .collect()
}

/// An exporter's allocation as the exporter itself has recorded it, in another process's finding.
fn object(owner: &Actor, role: u32, address: u64) -> FindingObject {
    let about = &owner.about;
    let mut what = finding::FindingObject {
        role,
        device: 1,
        pid: about.pid,
        tid: about.pid,
        image: about.image,
        rank: 7,
        pid_ns: about.pid_ns,
        started: about.started,
        address,
        bytes: 2 << 20,
        fingerprint: 0x11,
        // The exporter notes the export when the call has returned.
        monotonic: us(110),
        offset: 0x222,
        ..finding::FindingObject::default()
    };
    what.library[..5].copy_from_slice(b"train");
    FindingObject { what, frames: vec![CODE + 0x222, CODE + 0x333] }
}

#[test]
fn findings_of_one_rule_and_place_are_one_row_over_all_processes() {
    let scene = Scene::new();
    let (mut exporter, mut first, mut second) = (scene.gone(0), scene.gone(1), scene.gone(3));
    let flags = |actor: &Actor, at, message: &str, objects: Vec<FindingObject>| {
        let mut call = failing(actor, FnId::cuIpcOpenMemHandle_v2, at, Result::INVALID_VALUE);
        call.details.message = Some(b"invalid flags".to_vec());
        let mut finding = found("ipc-flags", Severity::Error, message);
        (finding.argument, finding.objects) = (Some(2), objects);
        call.details.findings = vec![finding];
        call
    };
    exporter.export(100, 0x11, 0x7000);
    for i in 0..3 {
        let call = flags(&second, 400 + 20 * i, if i == 0 { "Flags is 4" } else { "" }, Vec::new());
        second.add(&call);
    }
    let call = flags(&first, 500, "Flags is 6", vec![object(&exporter, role::EXPORT, 0x7000)]);
    first.add(&call);
    let call = flags(&second, 300, "", Vec::new());
    second.add(&call);
    let procs = [first.about.proc(), second.about.proc()];
    [exporter, first, second].iter_mut().for_each(Actor::ends);
    let report = json_of(&scene, &["--function", "cuIpcOpenMemHandle_v2"]);
    let [row] = &report["findings"].as_array().unwrap()[..] else { panic!("one row: {report:#}") };
    let expected = json!({
        "rule": "ipc-flags", "severity": "error", "confidence": "certain",
        "function": "cuIpcOpenMemHandle_v2", "argument": "Flags", "result": "CUDA_ERROR_INVALID_VALUE",
        "proc": procs[1], "tid": 1003, "count": 5, "procs": procs, "procs_more": 0, "ranks": [1, 3],
        "time_ns": at(400), "last_ns": at(500), "message": "Flags is 4", "hint": "Do it right.",
        "driver_message": "invalid flags", "source": "cuIpcOpenMemHandle", "objects": [],
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&row[key], value, "{key}");
    }
    assert!(row["sentence"].as_str().unwrap().starts_with("Flags - Flags for this operation."));
    assert_eq!((&row["caller"]["library"], &row["seq"]), (&json!("/opt/app/bin/train"), &json!(0)));
    // For one process, the object is that of its first finding.
    let report = json_of(&scene, &["--rank", "1"]);
    let object = &report["findings"][0]["objects"][0];
    let expected = json!({
        "role": "export", "pid": 1000, "rank": 7, "tid": 1000, "address": "0x7000", "bytes": 2 << 20,
        "device": "GPU-20202020-2020-2020-2020-202020202020", "fingerprint": "ipc:0000000000000011",
        "time_ns": at(100), "library": "train", "offset": "0x222",
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&object[key], value, "{key}");
    }
    assert_eq!(object["stack"][1]["offset"], "0x333");
    assert!(object["proc"].as_str().unwrap().contains("-1000-"));
}

#[test]
fn a_free_while_open_is_found_if_the_process_did_not_see_it() {
    for judged in [false, true] {
        let scene = Scene::new();
        let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
        exporter.export(100, 0x11, 0x7000).export_event(110, 0x12, 0xe0).export(120, 0x13, 0x8000);
        let ends: [(u64, FnId, &str, u64, &str); 3] = [
            (300, FnId::cuMemFree_v2, "dptr", 0x7000, "ipc-freed-while-open"),
            (310, FnId::cuEventDestroy_v2, "hEvent", 0xe0, "ipc-event-destroyed-while-open"),
            (320, FnId::cuCtxDestroy_v2, "ctx", 0xc0, "ipc-context-ended-while-open"),
        ];
        for (at, function, argument, value, rule) in ends {
            let mut call = exporter.makes(function, at);
            writer::set(&mut call, argument, &value.to_le_bytes());
            if judged {
                call.details.findings = vec![found(rule, Severity::Warning, "it said so itself")];
            }
            exporter.add(&call);
        }
        exporter.ends();
        importer.open(200, 0x11, 0x9000).open_event(210, 0x12, 0xe1).open(220, 0x13, 0xa000);
        importer.close(400, 0x9000).destroy(410, 0xe1).close(420, 0xa000).ends();
        let severity = if judged { "warning" } else { "error" };
        let expected =
            ends.map(|(_, function, _, _, rule)| format!("{rule} {severity} certain {} 1", function.spec().name()));
        assert_eq!(found_in(&scene, &[]), expected);
        let report = json_of(&scene, &[]);
        let memory = &report["findings"][0];
        if judged {
            assert_eq!(memory["message"], "it said so itself");
        } else {
            let message = "0x7000 (2 MiB) was freed while open in process 1001 (rank 1); its handle is ipc:0000000000000011; using it is now undefined";
            assert_eq!(memory["message"], message);
            let roles: Vec<_> =
                memory["objects"].as_array().unwrap().iter().map(|o| (&o["role"], &o["rank"], &o["time_ns"])).collect();
            assert_eq!(roles, [(&json!("export"), &json!(0), &at(100)), (&json!("opening"), &json!(1), &at(200))]);
        }
        assert!(!of(&scene, &[]).contains("were freed while others"), "the finding says it");
    }
}

/// A context takes with it what belongs to it, and nothing that was only exported while it was current.
#[test]
fn exports_end_with_the_context_that_they_belong_to() {
    let play = |owner: Option<u64>, ends: &dyn Fn(&Actor) -> cupeer_record::Call| {
        let scene = Scene::new();
        let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
        let mut export = exporter.exporting(100, 0x11, 0x7000);
        export.details.owner = owner.map(|context| (context, 0));
        exporter.add(&export);
        let end = ends(&exporter);
        exporter.add(&end).ends();
        importer.open(200, 0x11, 0x9000).close(400, 0x9000).ends();
        found_in(&scene, &[])
    };
    let destroys = |context: u64| {
        move |exporter: &Actor| {
            let mut call = exporter.makes(FnId::cuCtxDestroy_v2, 300);
            writer::set(&mut call, "ctx", &context.to_le_bytes());
            call
        }
    };
    let released = |context: Option<u64>| {
        move |exporter: &Actor| {
            let mut call = exporter.makes(FnId::cuDevicePrimaryCtxRelease_v2, 300);
            writer::set(&mut call, "dev", &0i32.to_le_bytes());
            (call.details.context, call.details.devices.0) = (context, Some(0));
            call
        }
    };
    let row = |rest: &str, function: &str| vec![format!("ipc-context-ended-while-open error {rest} {function} 1")];
    let [destroy, release] = ["cuCtxDestroy_v2", "cuDevicePrimaryCtxRelease_v2"];
    assert_eq!(play(Some(0xc1), &destroys(0xc1)), row("certain", destroy));
    assert_eq!(play(Some(0xc1), &destroys(0xc0)), [""; 0], "it was only current");
    assert_eq!(play(Some(0xc1), &released(Some(0xc1))), row("certain", release));
    assert_eq!(play(Some(0xc1), &released(Some(0xc0))), [""; 0], "another context of the device");
    // Records of earlier versions do not say to which it belonged, and not which was the primary one.
    assert_eq!(play(None, &destroys(0xc0)), row("inferred", destroy));
    assert_eq!(play(Some(0xc1), &released(None)), row("inferred", release));
}

#[test]
fn closing_in_time_and_openings_of_dead_processes_are_no_findings() {
    let play = |closes: bool| {
        let scene = Scene::new();
        let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
        exporter.export(100, 0x11, 0x7000).free(400, 0x7000).ends();
        importer.open(200, 0x11, 0x9000);
        if closes {
            importer.close(300, 0x9000);
        }
        importer.ends();
        scene
    };
    assert_eq!(found_in(&play(true), &[]), [""; 0]);
    let scene = play(false);
    let left = "ipc-never-closed note certain cuIpcOpenMemHandle_v2 1";
    assert_eq!(found_in(&scene, &[]), [left]);
    let text = of(&scene, &[]);
    assert!(text.contains("apart\nfrom 1 note. 1 of 1 opened handle is open."), "{text}");
    assert!(text.contains("\nNotes (informational)\n") && text.contains("- note ipc-never-closed: "), "{text}");
}

/// As of an event that a driver keeps in the place of the one destroyed before it: the bytes of its handle are the same.
#[test]
fn a_handle_that_is_exported_anew_is_opened_in_time() {
    let play = |exports_late: bool| {
        let scene = Scene::new();
        let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
        for turn in (0..4).map(|turn| 1000 * turn) {
            let (late, event) = (if exports_late && turn == 2000 { 300 } else { 0 }, 0xe0 + turn / 2000);
            exporter.export_event(turn + 100 + late, 0x11, event).destroy(turn + 500, event);
            importer.open_event(turn + 200, 0x11, 0xf0).destroy(turn + 300, 0xf0);
        }
        [exporter, importer].iter_mut().for_each(Actor::ends);
        found_in(&scene, &[])
    };
    assert_eq!(play(false), [""; 0]);
    assert_eq!(play(true), ["ipc-event-opened-after-destroy error certain cuIpcOpenEventHandle 1"]);
}

/// The rule that explains why rank 1 cannot open something.
fn explained(result: Result, opens: FnId, play: impl Fn(&mut Actor)) -> Vec<String> {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    play(&mut exporter);
    let mut call = if opens == FnId::cuIpcOpenEventHandle {
        let mut call = importer.makes(opens, 5_000_000);
        writer::set(&mut call, "handle", &super::scene::handle(0x11, checked(0x11)));
        call
    } else {
        importer.opening(5_000_000, (0x11, checked(0x11)), 0)
    };
    call.outcome = Outcome::Returned(result as i32);
    importer.add(&call).add(&call).ends();
    exporter.ends();
    found_in(&scene, &[])
}

#[test]
fn why_a_handle_could_not_be_opened() {
    let memory = FnId::cuIpcOpenMemHandle_v2;
    let row = |rest: &str, function: FnId| vec![format!("{rest} {} 2", function.spec().name())];
    let gone = explained(Result::INVALID_HANDLE, memory, |exporter| {
        exporter.export(100, 0x11, 0x7000);
    });
    assert_eq!(gone, row("ipc-exporter-gone error stale", memory));
    // It was there a moment before: nobody knows when it went, but that it has ended.
    let there = explained(Result::INVALID_HANDLE, memory, |exporter| {
        exporter.export(100, 0x11, 0x7000).ask(4_900_000, 1);
    });
    assert_eq!(there, row("ipc-exporter-gone error inferred", memory));
    let later = explained(Result::INVALID_HANDLE, memory, |exporter| {
        exporter.export(100, 0x11, 0x7000).ask(5_100_000, 1);
    });
    assert_eq!(later, [""; 0], "it was seen at work afterwards");
    let freed = |exporter: &mut Actor| {
        exporter.export(100, 0x11, 0x7000).free(200, 0x7000);
    };
    let freed_first = row("ipc-open-after-free error certain", memory);
    assert_eq!(explained(Result::NOT_PERMITTED, memory, freed), freed_first);
    let apart = row("ipc-devices-apart error inferred", memory);
    assert_eq!(explained(Result::PEER_ACCESS_UNSUPPORTED, memory, freed), apart, "the free is not why");
    let event = |exporter: &mut Actor| {
        exporter.export_event(100, 0x11, 0xe0);
    };
    let kind = row("ipc-handle-kind error certain", memory);
    assert_eq!(explained(Result::INVALID_VALUE, memory, event), kind);
    let memory_as_event = FnId::cuIpcOpenEventHandle;
    let exported = |exporter: &mut Actor| {
        exporter.export(100, 0x11, 0x7000);
    };
    let kind = row("ipc-handle-kind error certain", memory_as_event);
    assert_eq!(explained(Result::MAP_FAILED, memory_as_event, exported), kind);
    let unknown = row("ipc-unknown-handle error inferred", memory);
    let nothing = |exporter: &mut Actor| {
        exporter.ask(100, 1);
    };
    assert_eq!(explained(Result::INVALID_VALUE, memory, nothing), unknown);
    let lost = |exporter: &mut Actor| exporter.writer().change_header(|header| header.lost = 1).unwrap();
    assert_eq!(explained(Result::INVALID_VALUE, memory, lost), [""; 0], "its export may be lost");
}

#[test]
fn a_handle_of_this_very_process_and_a_damaged_one_that_opens() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    actor.export(100, 0x11, 0x7000);
    actor.fail_to_open(200, (0x11, checked(0x11)), Result::INVALID_CONTEXT as i32);
    let opened = actor.opening(300, (0x77, checked(0x11)), 0x9000);
    actor.add(&opened).close(400, 0x9000).ends();
    let report = json_of(&scene, &[]);
    let rows: Vec<_> =
        report["findings"].as_array().unwrap().iter().map(|row| (&row["rule"], &row["argument"])).collect();
    let handle = json!("handle");
    assert_eq!(rows, [(&json!("ipc-open-in-exporting-process"), &handle), (&json!("ipc-damaged-handle"), &handle)]);
    let message = report["findings"][0]["message"].as_str().unwrap();
    assert!(message.contains("is opened in the process that exported it (1000); only other processes can open a handle; the export 100 us ago was of memory at"), "{message}");
}

#[test]
fn findings_of_a_call_alone_are_found_without_checks() {
    type Arguments = &'static [(&'static str, u32)];
    let cases: [(&str, FnId, Result, Arguments); 6] = [
        ("peer-flags", FnId::cuCtxEnablePeerAccess, Result::INVALID_VALUE, &[("Flags", 3)]),
        ("peer-already-enabled", FnId::cuCtxEnablePeerAccess, Result::PEER_ACCESS_ALREADY_ENABLED, &[]),
        ("device-out-of-range", FnId::cuDeviceCanAccessPeer, Result::INVALID_DEVICE, &[("dev", 0), ("peerDev", 2)]),
        ("not-initialized", FnId::cuDeviceCanAccessPeer, Result::NOT_INITIALIZED, &[]),
        ("ipc-flags", FnId::cuIpcOpenMemHandle_v2, Result::SUCCESS, &[("Flags", 3)]),
        (
            "peer-attribute-unknown",
            FnId::cuDeviceGetP2PAttribute,
            Result::INVALID_VALUE,
            &[("attrib", 99), ("dstDevice", 1)],
        ),
    ];
    for (rule, function, result, arguments) in cases {
        for variable in ["", "CUPEER_CHECK=errors", "CUPEER_IGNORE=peer-*,ipc-*,dev*,not*", "CUPEER_ONLY=call-failed"] {
            for injected in [false, true] {
                let scene = Scene::new();
                let mut actor = scene.gone(0);
                if let Some((name, value)) = variable.split_once('=') {
                    actor.writer().variable(name, value).unwrap();
                }
                let mut call = failing(&actor, function, 100, result);
                for (name, value) in arguments {
                    writer::set(&mut call, name, &value.to_le_bytes());
                }
                call.details.devices = (Some(0), Some(1));
                call.injected = injected;
                actor.add(&call).ends();
                let found = found_in(&scene, &["--function", function.spec().name()]);
                let found: Vec<&str> = found.iter().map(|row| row.split(' ').next().unwrap()).collect();
                let found: Vec<&str> = found.into_iter().filter(|rule| *rule != "ipc-never-closed").collect();
                let expected = if injected || !variable.is_empty() { vec![] } else { vec![rule] };
                assert_eq!(found, expected, "{variable} injected: {injected}");
            }
        }
    }
}

#[test]
fn an_argument_that_is_null_is_named() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    let mut call = failing(&actor, FnId::cuIpcGetMemHandle, 100, Result::INVALID_VALUE);
    writer::set_shape(&mut call, "pHandle", shape::NULL);
    actor.add(&call).ends();
    let row = &json_of(&scene, &[])["findings"][0];
    assert_eq!((&row["argument"], &row["message"]), (&json!("pHandle"), &json!("pHandle is NULL")));
}

#[test]
fn deliberate_actions_of_a_library_are_notes() {
    for (library, severity) in [("/usr/lib/libnccl.so.2", "note"), ("/usr/lib/libother.so", "error")] {
        let scene = Scene::new();
        let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
        let base = 0x7000_0000;
        let range = base..base + 0x1000;
        let path = library.to_owned();
        let mapped = Library { base, range, since: 0, build_id: vec![1], path };
        exporter.writer().library(&mapped).unwrap();
        exporter.export(100, 0x11, 0x7000);
        let mut free = exporter.makes(FnId::cuMemFree_v2, 300);
        writer::set(&mut free, "dptr", &0x7000u64.to_le_bytes());
        free.caller = base + 0x10;
        exporter.add(&free).ends();
        importer.open(200, 0x11, 0x9000).close(400, 0x9000).ends();
        let expected = format!("ipc-freed-while-open {severity} certain cuMemFree_v2 1");
        assert_eq!(found_in(&scene, &[]), [expected]);
        assert_eq!(of(&scene, &[]).contains("was broken by "), severity == "note");
    }
}

#[test]
fn one_rank_that_fails_where_the_others_succeed() {
    let play = |ranks: u32, fails: &[u32], note: bool| {
        let scene = Scene::new();
        for rank in 0..ranks {
            let mut actor = scene.gone(rank);
            let mut call = actor.makes(FnId::cuIpcGetEventHandle, 100 + u64::from(rank));
            if fails.contains(&rank) {
                call.outcome = Outcome::Returned(Result::OUT_OF_MEMORY as i32);
                if note {
                    call.details.findings = vec![found("ipc-memory-kind", Severity::Note, "as it does")];
                }
            }
            actor.add(&call).ends();
        }
        found_in(&scene, &[])
    };
    let differ = "ranks-differ warning inferred cuIpcGetEventHandle";
    assert_eq!(play(4, &[2], false), [format!("{differ} 1")]);
    assert_eq!(play(8, &[2, 3, 5], false), [format!("{differ} 3")]);
    assert_eq!(play(4, &[2, 3], false), [""; 0], "two camps");
    assert_eq!(play(2, &[1], false), [""; 0], "two parts to play");
    assert_eq!(play(4, &[0, 1, 2, 3], false), [""; 0], "they are alike");
    assert_eq!(play(4, &[2], true), ["ipc-memory-kind note certain cuIpcGetEventHandle 1"]);
}

#[test]
fn a_pair_that_went_without_ipc_is_a_note_where_no_rule_says_why() {
    let play = |goes_on: bool, is_known: bool| {
        let scene = Scene::new();
        let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
        exporter.export(100, 0x11, 0x7000).ends();
        let mut call = importer.opening(200, (0x11, checked(0x11)), 0);
        call.outcome = Outcome::Returned(Result::PEER_ACCESS_UNSUPPORTED as i32);
        let rule = if is_known { "ipc-devices-apart" } else { "call-failed" };
        let severity = if is_known { Severity::Error } else { Severity::Note };
        call.details.findings = vec![found(rule, severity, "so it is")];
        importer.add(&call);
        if goes_on {
            importer.ask(300, 1);
        }
        importer.ends();
        let rows = found_in(&scene, &[]);
        rows.iter().map(|row| row.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(play(true, false), ["call-failed", "ipc-fallback"]);
    assert_eq!(play(false, false), ["call-failed"]);
    assert_eq!(play(true, true), ["ipc-devices-apart"]);
}

#[test]
fn an_explanation_gives_way_to_the_rule_that_the_whole_record_shows_broken() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).free(150, 0x7000).ends();
    let mut call = importer.opening(200, (0x11, checked(0x11)), 0);
    call.outcome = Outcome::Returned(Result::NOT_PERMITTED as i32);
    call.details.findings = vec![found("call-failed", Severity::Note, "nobody knows")];
    importer.add(&call).ends();
    assert_eq!(found_in(&scene, &[]), ["ipc-open-after-free error certain cuIpcOpenMemHandle_v2 1"]);
}

#[test]
fn inferences_of_a_process_give_way_to_the_recording() {
    let inferred = |rule| {
        let mut finding = found(rule, Severity::Error, "as far as I know");
        finding.confidence = finding::Confidence::Inferred;
        vec![finding]
    };
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).free(150, 0x7000).export(160, 0x12, 0x8000);
    importer.open(170, 0x12, 0x9000).close(180, 0x9000);
    // It had forgotten that.
    let mut call = importer.opening(200, (0x11, checked(0x11)), 0);
    call.outcome = Outcome::Returned(Result::NOT_PERMITTED as i32);
    call.details.findings = inferred("ipc-unknown-handle");
    importer.add(&call);
    // Nobody knows more about this one.
    let mut call = importer.opening(220, (0x13, checked(0x13)), 0);
    call.outcome = Outcome::Returned(Result::INVALID_VALUE as i32);
    call.details.findings = inferred("ipc-unknown-handle");
    importer.add(&call);
    // The record does not know why this failed, but it knows the export.
    let mut call = importer.opening(230, (0x12, checked(0x12)), 0);
    call.outcome = Outcome::Returned(Result::INVALID_VALUE as i32);
    call.details.findings = inferred("ipc-unknown-handle");
    importer.add(&call).ends();
    // It could not see that the importer had closed.
    let mut free = exporter.makes(FnId::cuMemFree_v2, 240);
    writer::set(&mut free, "dptr", &0x8000u64.to_le_bytes());
    free.details.findings = inferred("ipc-freed-while-open");
    exporter.add(&free).ends();
    assert_eq!(
        found_in(&scene, &[]),
        [
            "ipc-open-after-free error certain cuIpcOpenMemHandle_v2 1",
            "ipc-unknown-handle error inferred cuIpcOpenMemHandle_v2 1",
        ]
    );
    assert!(of(&scene, &[]).contains("as far as I know"));
}

#[test]
fn a_paragraph_each_and_notes_in_a_line() {
    let scene = Scene::new();
    let mut exporter = scene.gone(0);
    exporter.export(100, 0x11, 0x7000);
    for rank in 1..5 {
        let mut actor = scene.gone(rank);
        let mut call = failing(&actor, FnId::cuIpcOpenMemHandle_v2, 200 + u64::from(rank), Result::INVALID_VALUE);
        call.details.message = Some(b"bad \x1b[2Jflags".to_vec());
        let mut finding = found("ipc-flags", Severity::Error, "Flags must be 1 (is 4\r)");
        finding.objects = vec![object(&exporter, role::EXPORT, 0x7000)];
        (finding.argument, finding.confidence) = (Some(2), finding::Confidence::Stale);
        call.details.findings = vec![finding, found("ipc-offset-not-added", Severity::Note, "perhaps")];
        actor.add(&call);
        let mut other = failing(&actor, FnId::cuIpcCloseMemHandle, 300 + u64::from(rank), Result::MAP_FAILED);
        other.details.findings = vec![found("call-failed", Severity::Note, "it failed; ruled out: all")];
        actor.add(&other).enable(400, Result::PEER_ACCESS_ALREADY_ENABLED as i32);
        actor.ends();
    }
    exporter.ends();
    let mut command = support::cupeer();
    command.current_dir(scene.folder()).args(["report", "cupeer-run-1"]).env("COLUMNS", "100");
    let text = support::stdout(&mut command);
    let begin = text.find("Problems").expect("something is");
    let end = text.find("\nFunctions").expect("a table");
    support::assert_golden(&text[begin..end], "findings.txt");
}

#[test]
fn counted_findings_have_the_words_of_their_rule() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    for (i, (rule, message)) in
        [("call-failed", "said once"), ("call-failed", ""), ("ipc-closed-twice", "")].into_iter().enumerate()
    {
        let mut call = failing(&actor, FnId::cuIpcCloseMemHandle, 100 + 20 * i as u64, Result::INVALID_VALUE);
        call.caller = CODE + 0x10 * i as u64;
        call.details.findings = vec![found(rule, Severity::Note, message)];
        if message.is_empty() {
            call.details.findings[0].hint.clear();
        }
        actor.add(&call);
    }
    actor.ends();
    let report = json_of(&scene, &[]);
    let rows = report["findings"].as_array().unwrap();
    let words: Vec<_> = rows.iter().map(|row| row["message"].as_str().unwrap()).collect();
    assert_eq!(words, ["said once", "said once", ""]);
    assert!(rows[2]["hint"].as_str().unwrap().starts_with("Close once per successful cuIpcOpenMemHandle"), "{rows:#?}");
}

#[test]
fn a_rule_that_this_version_does_not_know_keeps_its_name() {
    let scene = Scene::new();
    let mut actor = scene.process(About::default());
    let mut call = failing(&actor, FnId::cuIpcCloseMemHandle, 100, Result::INVALID_VALUE);
    call.details.findings = vec![found("ipc-of-tomorrow", Severity::Error, "who knows")];
    actor.add(&call).ends();
    let row = &json_of(&scene, &[])["findings"][0];
    assert_eq!((&row["rule"], &row["sentence"], &row["ranks"]), (&json!("ipc-of-tomorrow"), &Value::Null, &json!([])));
    assert!(of(&scene, &[]).contains("- error ipc-of-tomorrow: cuIpcCloseMemHandle, once in process 1000\n"));
}

#[test]
fn a_trace_has_what_was_found_at_the_call_and_what_the_report_finds() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).free(300, 0x7000).ends();
    importer.open(200, 0x11, 0x9000).close(400, 0x9000);
    let mut call = failing(&importer, FnId::cuIpcCloseMemHandle, 500, Result::INVALID_VALUE);
    call.details.findings = vec![found("ipc-closed-twice", Severity::Error, "once more")];
    importer.add(&call).ends();
    let trace: Value = serde_json::from_str(&of(&scene, &["--format", "trace"])).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let found: Vec<_> = events
        .iter()
        .filter(|event| event["cat"] == "finding")
        .map(|event| (&event["name"], &event["tid"], &event["ts"]))
        .collect();
    assert_eq!(
        found,
        [
            (&json!("error ipc-closed-twice"), &json!(1001), &json!(500.0)),
            (&json!("error ipc-freed-while-open"), &json!(1000), &json!(300.0)),
        ]
    );
}

#[test]
fn two_records_are_compared_by_rule() {
    let scenes = [1u64, 3].map(|count| {
        let scene = Scene::new();
        let mut actor = scene.gone(0);
        for i in 0..count {
            actor.enable(100 + 20 * i, Result::PEER_ACCESS_ALREADY_ENABLED as i32);
        }
        actor.ends();
        scene
    });
    let diff = json_of(&scenes[0], &["--diff", &scenes[1].dir().display().to_string()]);
    let expected = json!([{"rule": "peer-already-enabled", "severity": "note", "count": [1, 3], "differs": true}]);
    assert_eq!(diff["findings"], expected);
    let text = of(&scenes[0], &["--diff", &scenes[1].dir().display().to_string()]);
    assert!(text.contains("peer-already-enabled  note      1 -> 3"), "{text}");
}
