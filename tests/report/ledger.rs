//! The ledger of handles and the peer matrix.

use super::scene::{Scene, at, checked, us};
use super::{json_of, of};
use crate::support::{compile_text, cupeer, done, plain, sim_dir, stdout, temp_dir};
use cupeer_record::writer::{self, About};
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use cupeer_spec::record::live::{ended, kind};
use cupeer_spec::record::{SLOTS, end};
use serde_json::{Value, json};

/// The handle of a fingerprint.
#[track_caller]
fn handle(report: &Value, fingerprint: u64) -> &Value {
    let name = format!("ipc:{fingerprint:016x}");
    let handles = report["handles"].as_array().expect("an array");
    handles.iter().find(|handle| handle["fingerprint"] == name).unwrap_or_else(|| panic!("no {name}: {handles:#?}"))
}

#[test]
fn two_processes_share_memory_and_an_event() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).export_event(120, 0x22, 0xe0);
    importer.ask(150, 1).enable(160, 0).open(200, 0x11, 0x9000).open_event(220, 0x22, 0xe1);
    importer.close(300, 0x9000).destroy(310, 0xe1);
    exporter.free(400, 0x7000).destroy(410, 0xe0);
    let procs = [exporter.about.proc(), importer.about.proc()];
    exporter.ends();
    importer.ends();

    let report = json_of(&scene, &[]);
    let memory = handle(&report, 0x11);
    assert_eq!(memory["kind"], "memory");
    assert_eq!(memory["state"], "closed");
    assert_eq!((&memory["exporter"], &memory["bytes"]), (&json!(procs[0]), &json!(2 << 20)));
    assert_eq!((&memory["exported_ns"], &memory["freed_ns"]), (&at(100), &at(400)));
    assert_eq!(memory["device"], "GPU-10101010-1010-1010-1010-101010101010");
    let open = &memory["opens"][0];
    assert_eq!((&open["proc"], &open["opened_ns"], &open["closed_ns"]), (&json!(procs[1]), &at(200), &at(300)));
    assert_eq!(open["device"], "GPU-20202020-2020-2020-2020-202020202020");
    let event = handle(&report, 0x22);
    assert_eq!((&event["kind"], &event["state"], &event["bytes"]), (&json!("event"), &json!("closed"), &Value::Null));
    assert_eq!(event["opens"][0]["closed_by"], "cuEventDestroy_v2");
    let peer = &report["peers"][0];
    assert_eq!(peer["from"], open["device"]);
    assert_eq!(peer["to"], memory["device"]);
    assert_eq!((&peer["can_access"], &peer["enabled"], &peer["opened"]), (&json!(true), &json!(true), &json!(1)));
    assert_eq!(report["processes"][1]["exit"], json!({"kind": "returned", "code": 0, "signal": null}));
    assert_eq!(report["processes"][1]["rank"], 1);
    assert_eq!(report["leaks"], json!([]));
    assert_eq!(report["findings"], json!([]));
}

/// Counters of two processors are read a little out of order: an opening ends after the close of what it has returned began.
#[test]
fn a_close_that_begins_before_its_opening_ended_closes_it() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    let mut export = exporter.exporting(100, 0x11, 0x7000);
    export.end = us(500) + 20;
    exporter.add(&export);
    let mut open = importer.opening(200, (0x11, checked(0x11)), 0x9000);
    open.end = us(300) + 20;
    importer.add(&open).close(300, 0x9000).ends();
    exporter.free(500, 0x7000).ends();
    let report = json_of(&scene, &[]);
    let memory = handle(&report, 0x11);
    assert_eq!((&memory["state"], &memory["freed_ns"]), (&json!("closed"), &at(500)));
    assert_eq!(memory["opens"][0]["closed_ns"], at(300));
    assert_eq!(report["findings"], json!([]));
}

#[test]
fn a_handle_that_is_opened_twice_is_closed_by_the_second_closing() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).ends();
    importer.open(200, 0x11, 0x9000).open(210, 0x11, 0x9000).close(300, 0x9000);
    importer.open(400, 0x11, 0x9000).close(500, 0x9000).close(510, 0x9000);
    for i in 0..100 {
        importer.open(1000 + 20 * i, 0x11, 0x9000).close(1010 + 20 * i, 0x9000);
    }
    importer.ends();
    let report = json_of(&scene, &[]);
    let opens = handle(&report, 0x11)["opens"].as_array().unwrap();
    assert_eq!(opens.len(), 4, "the first time, and the last ones");
    assert_eq!((&opens[0]["opened_ns"], &opens[0]["closed_ns"], &opens[0]["times"]), (&at(200), &at(510), &json!(3)));
    assert_eq!(opens[1]["earlier"], 97);
    assert_eq!((&opens[3]["opened_ns"], &opens[3]["closed_ns"]), (&at(2980), &at(2990)));
}

#[test]
fn open_objects_are_leaks_with_the_stack_that_opened_them() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).export(110, 0x12, 0x8000).export(120, 0x13, 0xa000).ends();
    importer.open(200, 0x11, 0x9000).open(300, 0x12, 0xb000).open(310, 0x13, 0xd000).close(400, 0xd000);
    let proc = importer.about.proc();
    importer.ends();
    let report = json_of(&scene, &["--leaks"]);
    assert_eq!(handle(&report, 0x11)["state"], "open at exit");
    assert_eq!(handle(&report, 0x13)["state"], "closed");
    let leaks = report["leaks"].as_array().unwrap();
    assert_eq!(leaks.len(), 1, "one place: {leaks:#?}");
    let leak = &leaks[0];
    assert_eq!((&leak["handles"], &leak["bytes"], &leak["procs"]), (&json!(2), &json!(4 << 20), &json!([proc])));
    // The record ends when its last call has returned, at 410.
    assert_eq!((&leak["oldest_ns"], &leak["youngest_ns"]), (&json!(210_000), &json!(110_000)));
    assert_eq!(leak["stack"][1]["offset"], "0x2000");
    assert_eq!(leak["stack"][1]["library"], "/opt/app/bin/train");
    assert_eq!(leak["stack"][1]["build_id"], "abcd");
}

#[test]
fn the_exporter_may_be_gone_and_the_importer_not() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.running(1));
    exporter.export(100, 0x11, 0x7000).export(110, 0x12, 0x8000).ends();
    importer.open(200, 0x11, 0x9000).open(210, 0x12, 0xa000).close(220, 0xa000).ends();
    let report = json_of(&scene, &[]);
    assert_eq!(handle(&report, 0x11)["state"], "exporter gone");
    assert_eq!(handle(&report, 0x12)["state"], "closed");
    assert_eq!(report["processes"][1]["exit"]["kind"], "running");
    assert_eq!(report["record"]["running"], true);
}

#[test]
fn memory_and_events_that_are_freed_while_others_have_them_open() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).export(110, 0x12, 0x8000).export_event(120, 0x13, 0xe0);
    exporter.free(300, 0x7000).free(310, 0x8000).destroy(320, 0xe0);
    // Exported anew under the same name: what was wrong before stays wrong.
    exporter.export(600, 0x12, 0x8000).ends();
    importer.open(200, 0x11, 0x9000).open(210, 0x12, 0xa000).open_event(220, 0x13, 0xe1);
    importer.close(400, 0x9000).close(410, 0xa000).destroy(420, 0xe1).ends();
    let report = json_of(&scene, &[]);
    for fingerprint in [0x11, 0x12, 0x13] {
        assert_eq!(handle(&report, fingerprint)["state"], "freed while open", "{fingerprint:x}");
    }
    assert_eq!(handle(&report, 0x11)["freed_by"], "cuMemFree_v2");
    assert_eq!(handle(&report, 0x12)["freed_ns"], Value::Null);
}

#[test]
fn openings_of_a_dead_process_are_not_freed_while_open() {
    let scene = Scene::new();
    let (mut exporter, mut importer, mut other) = (scene.gone(0), scene.gone(1), scene.gone(2));
    exporter.export(100, 0x11, 0x7000).export(110, 0x12, 0x8000);
    importer.open(200, 0x11, 0x9000).open(210, 0x12, 0xa000);
    other.open(220, 0x12, 0xb000).close(600, 0xb000);
    // The first importer was last seen long before.
    exporter.free(500, 0x7000).free(510, 0x8000);
    let mut entries = [0x11, 0x12].map(|handle| exporter.entry(kind::EXPORTED_MEMORY, 100, handle, 0x7000));
    entries.iter_mut().for_each(|entry| entry.ended = ended::ENDED | ended::WHILE_OPEN);
    scene.table(&exporter.about, &entries);
    exporter.ends();
    importer.ends();
    other.ends();
    let report = json_of(&scene, &[]);
    assert_eq!(handle(&report, 0x11)["state"], "open at exit", "the recorder's table counts the dead too");
    assert_eq!(handle(&report, 0x12)["state"], "freed while open");
    let text = of(&scene, &[]);
    let found: Vec<&str> = text.lines().filter(|line| line.contains("opened: ")).collect();
    assert_eq!(
        found,
        ["  opened: rank 2, GPU 0 (1010..1010), ipc:0000000000000012, at 0.000220, from"],
        "not rank 1: {text}"
    );
}

#[test]
fn a_release_ends_what_is_there_where_it_was_the_last() {
    for (last, closed_by) in [(false, Value::Null), (true, json!("cuDevicePrimaryCtxRelease_v2"))] {
        let scene = Scene::new();
        let mut importer = scene.gone(1);
        importer.open(200, 0x11, 0x9000);
        let mut release = importer.makes(FnId::cuDevicePrimaryCtxRelease_v2, 300);
        writer::set(&mut release, "dev", &1i32.to_le_bytes());
        (release.details.devices.0, release.details.context) = (last.then_some(1), last.then_some(0xc0));
        importer.add(&release).ends();
        assert_eq!(handle(&json_of(&scene, &[]), 0x11)["opens"][0]["closed_by"], closed_by);
    }
}

#[test]
fn contexts_take_with_them_what_belongs_to_them() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).export(110, 0x12, 0x8000);
    exporter.simple(500, FnId::cuCtxDestroy_v2, "ctx", &0xc0u64.to_le_bytes()).ends();
    importer.open(200, 0x11, 0x9000).open(210, 0x12, 0xa000).close(220, 0xa000).enable(230, 0);
    importer.simple(600, FnId::cuDevicePrimaryCtxReset_v2, "dev", &1i32.to_le_bytes()).ends();
    let report = json_of(&scene, &[]);
    let open = &handle(&report, 0x11)["opens"][0];
    assert_eq!(
        (&open["state"], &open["closed_by"]),
        (&json!("freed while open"), &json!("cuDevicePrimaryCtxReset_v2"))
    );
    assert_eq!(handle(&report, 0x12)["state"], "closed");
    assert_eq!(handle(&report, 0x12)["freed_by"], "cuCtxDestroy_v2");
    let peer = report["peers"].as_array().unwrap().iter().find(|peer| peer["enabled"] == true).unwrap();
    assert_eq!(peer["disabled_ns"], at(600));
}

#[test]
fn a_damaged_handle_is_recognised_and_one_of_nobody_is_not_invented() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).ends();
    importer.fail_to_open(200, (0x99, checked(0x11)), 1).fail_to_open(210, (0x55, 0x56), 400);
    let opened = importer.opening(220, (0x77, checked(0x11)), 0x9000);
    importer.add(&opened).ends();
    let report = json_of(&scene, &[]);
    for fingerprint in [0x99, 0x77] {
        let damaged = handle(&report, fingerprint);
        assert_eq!(damaged["state"], "damaged");
        assert_eq!(damaged["damaged_from"], "ipc:0000000000000011");
    }
    assert_eq!(handle(&report, 0x99)["failed"][0]["codes"], json!({"CUDA_ERROR_INVALID_VALUE": 1}));
    assert_eq!(handle(&report, 0x77)["opens"].as_array().unwrap().len(), 1);
    let nobody = handle(&report, 0x55);
    assert_eq!((&nobody["state"], &nobody["exporter"]), (&json!("unknown"), &Value::Null));
    assert_eq!(nobody["unknown"]["exporter"], "no process of this recording exported it");
}

#[test]
fn an_address_that_is_closed_and_opened_anew_at_the_same_time_stays_apart() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).export(110, 0x12, 0x8000).ends();
    importer.open(200, 0x11, 0x9000);
    // One thread begins to open the second handle; another closes the first meanwhile, and its address is reused.
    let mut slow = importer.opening(300, (0x12, checked(0x12)), 0x9000);
    slow.end = us(400);
    let other = importer.writer().stream(4711).unwrap();
    importer.add(&slow);
    let mut close = importer.makes(FnId::cuIpcCloseMemHandle, 310);
    writer::set(&mut close, "dptr", &0x9000u64.to_le_bytes());
    importer.writer().call(other, &close).unwrap();
    importer.ends();
    let report = json_of(&scene, &[]);
    assert_eq!(handle(&report, 0x11)["opens"][0]["closed_ns"], at(310));
    assert_eq!(handle(&report, 0x12)["opens"][0]["closed_ns"], Value::Null);
}

#[test]
fn pairs_that_failed_over_ipc_and_have_no_mapping_are_named() {
    let scene = Scene::new();
    let (mut exporter, mut fails, mut recovers) = (scene.rank(0), scene.rank(1), scene.rank(3));
    exporter.export(100, 0x11, 0x7000).ends();
    fails.ask(150, 0).fail_to_open(200, (0x11, checked(0x11)), 217).ends();
    recovers.fail_to_open(200, (0x11, checked(0x11)), 217).open(300, 0x11, 0x9000).ends();
    let report = json_of(&scene, &[]);
    let peers = report["peers"].as_array().unwrap();
    let unmapped: Vec<&Value> = peers.iter().map(|peer| &peer["unmapped_since_failure"]).collect();
    assert_eq!(unmapped, [true, false]);
    assert_eq!((&peers[0]["can_access"], &peers[1]["can_access"]), (&json!(false), &Value::Null));
    assert_eq!(peers[0]["open_failed"], json!({"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED": 1}));
}

#[test]
fn the_table_knows_the_open_objects_of_a_ring() {
    let scene = Scene::new();
    let (a, b) = (scene.gone(0).about, scene.gone(1).about);
    let fresh = Scene::new();
    let ring = |about: About, rank: &str| {
        let mut actor = fresh.process(About { ring: Some(8), ..about }).on("alpha");
        actor.writer().variable("RANK", rank).unwrap();
        actor
    };
    let (mut exporter, mut importer) = (ring(a, "0"), ring(b, "1"));
    // Its opening is forgotten, and so is that it closed what it seems to have open.
    importer.open(900, 0x12, 0xa000);
    let mut entries = vec![
        exporter.entry(kind::EXPORTED_MEMORY, 100, 0x11, 0x7000),
        exporter.entry(kind::EXPORTED_EVENT, 110, 0x13, 0xe0),
        exporter.entry(kind::EXPORTED_MEMORY, 120, 0x14, 0xf000),
        importer.entry(kind::OPENED_MEMORY, 200, 0x11, 0x9000),
        importer.entry(kind::PEER, 150, 0, 0xc0),
        exporter.entry(kind::exported_kind(Object::Allocation), 130, 0x15, 0x51),
    ];
    entries[1].ended = ended::ENDED | ended::WHILE_OPEN;
    // An importer holds it as well, so its release by the exporter does no harm.
    entries[5].ended = ended::ENDED | ended::WHILE_OPEN;
    // A memory of what ended when nobody had it open.
    (entries[2].ended, entries[2].count) = (ended::ENDED, 0);
    fresh.table(&importer.about, &entries);
    exporter.ends();
    importer.ends();
    let report = json_of(&fresh, &[]);
    assert_eq!(report["record"]["mode"], "ring");
    let memory = handle(&report, 0x11);
    assert_eq!((&memory["state"], &memory["bytes"]), (&json!("open at exit"), &json!(2 << 20)));
    assert_eq!((&memory["exported_ns"], &memory["opens"][0]["opened_ns"]), (&at(100), &at(200)));
    assert_eq!(handle(&report, 0x12)["opens"][0]["state"], "closed");
    assert_eq!(handle(&report, 0x13)["state"], "freed while open");
    let handles = || report["handles"].as_array().unwrap().iter();
    let allocation = handles().find(|handle| handle["fingerprint"].as_str().unwrap().ends_with("00015")).unwrap();
    assert_eq!(allocation["state"], "exported");
    let names = report["handles"].as_array().unwrap().iter().map(|handle| &handle["fingerprint"]);
    assert!(names.into_iter().all(|name| *name != "ipc:0000000000000014"), "nothing of it is left");
    let unknown = "no process of this recording exported it, as far as events were kept";
    assert_eq!(handle(&report, 0x12)["unknown"]["exporter"], unknown);
    assert_eq!(report["leaks"][0]["stack"][0]["offset"], "0x111");
    let peer = report["peers"].as_array().unwrap().iter().find(|peer| peer["enabled"] == true).unwrap();
    assert_eq!(peer["to"], "GPU-20202020-2020-2020-2020-202020202020");
}

/// A thread that rests keeps what it has done, while what others have done since is overwritten.
#[test]
fn a_close_in_a_ring_with_gaps_may_be_that_of_a_later_opening() {
    for has_gaps in [false, true] {
        let scene = Scene::new();
        let mut exporter = scene.rank(0);
        exporter.export(100, 0x11, 0x7000).free(300, 0x7000).export(350, 0x12, 0x7000);
        let mut importer = scene.process(About { ring: Some(8), pid: 1001, ..About::default() });
        importer.open(200, 0x11, 0x9000);
        let busy = importer.writer().stream(4711).unwrap();
        if has_gaps {
            let mut close = importer.makes(FnId::cuIpcCloseMemHandle, 250);
            writer::set(&mut close, "dptr", &0x9000u64.to_le_bytes());
            let again = importer.opening(360, (0x12, checked(0x12)), 0x9000);
            let asks = importer.makes(FnId::cuDeviceCanAccessPeer, 370);
            importer.writer().call(busy, &close).unwrap();
            importer.writer().call(busy, &again).unwrap();
            for _ in 0..10 * SLOTS {
                importer.writer().call(busy, &asks).unwrap();
            }
        }
        importer.close(500, 0x9000);
        scene.table(&importer.about, &[]);
        importer.ends();
        exporter.ends();
        let report = json_of(&scene, &[]);
        let found = report["findings"].as_array().unwrap().iter();
        let blames = found.filter(|finding| finding["rule"] == "ipc-freed-while-open").count();
        let state = if has_gaps { "closed" } else { "freed while open" };
        assert_eq!((blames, &handle(&report, 0x11)["opens"][0]["state"]), (usize::from(!has_gaps), &json!(state)));
    }
}

#[test]
fn hosts_that_were_copied_together_stay_apart() {
    let scene = Scene::new();
    let boot = |name: &[u8; 16]| About { boot_id: *name, ..About::default() };
    for (host, about) in [("alpha", boot(b"boot of an alpha")), ("beta", boot(b"the boot of beta"))] {
        let dir = scene.dir().join(host);
        let mut exporter = scene.process_in(&dir, about.clone()).on(host);
        exporter.export(100, 0x11, 0x7000);
        let mut importer = scene.process_in(&dir, About { pid: 1001, ..about }).on(host);
        importer.open(200, 0x11, 0x9000);
        for process in [&mut exporter, &mut importer] {
            process.writer().change_header(|header| header.end = end::UNSEEN).unwrap();
            process.ends();
        }
    }
    let report = json_of(&scene, &[]);
    assert_eq!(report["record"]["hosts"], json!(["alpha", "beta"]));
    let handles = report["handles"].as_array().unwrap();
    assert_eq!(handles.len(), 2, "the same fingerprint on two hosts is two handles");
    for handle in handles {
        let host = |proc: &Value| proc.as_str().unwrap()[..8].to_owned();
        assert_eq!(host(&handle["exporter"]), host(&handle["opens"][0]["proc"]));
    }
    let exits: Vec<&Value> = report["processes"].as_array().unwrap().iter().map(|p| &p["exit"]["kind"]).collect();
    assert_eq!(exits, ["unseen"; 4]);
    assert!(report["processes"][0]["unknown"]["exit"].as_str().unwrap().contains("another host"));
}

/// A report keeps little about each handle, and equal findings use the memory of one.
#[test]
fn many_handles_that_cannot_be_opened_take_little_memory() {
    const HANDLES: u64 = 30_000;
    let folder = temp_dir();
    let record = folder.path().join("record");
    let program = compile_text(
        "many_fail",
        "#include <string.h>\ntypedef struct { char bytes[64]; } handle;\nint cuInit(unsigned);\nint cuDevicePrimaryCtxRetain(void **, int);\n\
         int cuCtxSetCurrent(void *);\nint cuIpcOpenMemHandle_v2(void **, handle, unsigned);\nint main(void) {\n  void *context, *memory;\n  \
         if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;\n  handle one;\n  \
         memset(&one, 5, sizeof one);\n  for (long i = 0; i < 30000; i++) {\n    memcpy(&one, &i, 8);\n    \
         if (!cuIpcOpenMemHandle_v2(&memory, one, 1)) return 2;\n  }\n  return 0;\n}\n",
        &["-L", sim_dir().to_str().expect("a path"), "-lcuda"],
    );
    let ended = done(cupeer().args(["run", "-q", "--sim=nvlink:2", "-o"]).arg(&record).arg("--").arg(program));
    assert!(ended.status.success(), "{}", ended.stderr);
    // In kilobytes: it needs 52,000, and needed 105,000 when each handle had findings of its own.
    let mut limited = plain("sh");
    limited.args(["-c", "ulimit -d 78000; exec \"$0\" report \"$1\" --format json"]);
    let text = stdout(limited.arg(cupeer().get_program()).arg(&record));
    let report: Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(report["handles"].as_array().map(Vec::len), Some(HANDLES as usize));
    let findings = report["findings"].as_array().expect("findings");
    let count = |rule: &str| {
        findings.iter().filter(|row| row["rule"] == rule).map(|row| row["count"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!(count("ipc-unknown-handle"), [Some(HANDLES)]);
}
