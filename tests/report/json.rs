//! The JSON form: the ledger, the peer matrix, failures, ranks; and its schema.

use super::scene::{BEGAN_NS, CODE, Scene, checked, us};
use super::{json_of, scene};
use cupeer_record::writer::{self, About};
use cupeer_record::{Details, Outcome};
use cupeer_spec::function::FnId;
use cupeer_spec::record::live::kind;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// Checks a report against the published schema, and that the schema knows all that the report has.
#[track_caller]
pub fn assert_valid(report: &Value) {
    static VALIDATOR: OnceLock<jsonschema::Validator> = OnceLock::new();
    let validator = VALIDATOR.get_or_init(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/report.schema.json");
        let text = std::fs::read_to_string(path).expect("there is a schema");
        let mut schema: Value = serde_json::from_str(&text).expect("it is JSON");
        assert!(jsonschema::meta::is_valid(&schema));
        close(&mut schema);
        jsonschema::validator_for(&schema).expect("it is a schema")
    });
    // The alternatives of the root say little of what is wrong.
    let errors: Vec<String> = validator.iter_errors(report).map(|error| format!("{error:?}")).collect();
    assert!(errors.is_empty(), "{:.4000}\n{report:#}", errors.join("\n"));
}

/// Forbids what a schema does not name. Published, it allows it: more may be added.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") {
                object.insert("additionalProperties".into(), false.into());
            }
            object.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// The handle of a fingerprint.
#[track_caller]
pub fn handle(report: &Value, fingerprint: u64) -> &Value {
    let name = format!("ipc:{fingerprint:016x}");
    let handles = report["handles"].as_array().expect("an array");
    handles
        .iter()
        .find(|handle| handle["fingerprint"] == name)
        .unwrap_or_else(|| panic!("no {name}: {handles:#?}"))
}

/// A moment of a scene.
fn at(us: u64) -> Value {
    json!(BEGAN_NS + us * 1000)
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
    assert_eq!(
        (&open["proc"], &open["opened_ns"], &open["closed_ns"]),
        (&json!(procs[1]), &at(200), &at(300))
    );
    assert_eq!(open["device"], "GPU-20202020-2020-2020-2020-202020202020");
    let event = handle(&report, 0x22);
    assert_eq!(
        (&event["kind"], &event["state"], &event["bytes"]),
        (&json!("event"), &json!("closed"), &Value::Null)
    );
    assert_eq!(event["opens"][0]["closed_by"], "cuEventDestroy_v2");
    let peer = &report["peers"][0];
    assert_eq!(peer["from"], open["device"]);
    assert_eq!(peer["to"], memory["device"]);
    assert_eq!(
        (&peer["can_access"], &peer["enabled"], &peer["opened"]),
        (&json!(true), &json!(true), &json!(1))
    );
    assert_eq!(report["processes"][1]["exit"], "gone");
    assert_eq!(report["processes"][1]["rank"], 1);
    assert_eq!(report["leaks"], json!([]));
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
    assert_eq!(
        (&opens[0]["opened_ns"], &opens[0]["closed_ns"], &opens[0]["times"]),
        (&at(200), &at(510), &json!(3))
    );
    assert_eq!(opens[1]["earlier"], 97);
    assert_eq!((&opens[3]["opened_ns"], &opens[3]["closed_ns"]), (&at(2980), &at(2990)));
}

#[test]
fn what_stays_open_is_a_leak_with_the_stack_that_opened_it() {
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
    assert_eq!(
        (&leak["handles"], &leak["bytes"], &leak["procs"]),
        (&json!(2), &json!(4 << 20), &json!([proc]))
    );
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
    assert_eq!(report["processes"][1]["exit"], "running");
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
    assert_eq!(nobody["unknown"]["exporter"], "no process of this record exported it");
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
fn a_rank_that_deviates_is_named() {
    let scene = Scene::new();
    for rank in 0..8 {
        let mut actor = scene.rank(rank);
        for i in 0..if rank == 3 { 40 } else { 48 } {
            actor.close(100 + 20 * i, 0x9000);
        }
        actor.ends();
    }
    let report = json_of(&scene, &[]);
    let ranks = &report["functions"][0]["ranks"];
    assert_eq!((&ranks["least"], &ranks["median"], &ranks["most"]), (&json!(40), &json!(48), &json!(48)));
    assert_eq!(ranks["deviating"], json!([{"rank": 3, "calls": 40, "others": 48, "exact": true}]));
}

#[test]
fn functions_have_their_failures_times_and_what_did_not_end() {
    let scene = Scene::new();
    let mut actor = scene.rank(0);
    for i in 0..99 {
        actor.close(100 + 20 * i, 0x9000);
    }
    let mut long = actor.makes(FnId::cuIpcCloseMemHandle, 5000);
    (long.end, long.outcome, long.injected) = (us(9000), Outcome::Returned(1), true);
    let mut odd = actor.makes(FnId::cuIpcCloseMemHandle, 9100);
    odd.outcome = Outcome::Returned(123_456);
    let mut unwound = actor.makes(FnId::cuIpcCloseMemHandle, 9200);
    unwound.outcome = Outcome::Unwound;
    let hung = actor.makes(FnId::cuIpcCloseMemHandle, 9300);
    actor.add(&long).add(&odd).add(&unwound).hang(&hung).ends();
    let function = &json_of(&scene, &[])["functions"][0];
    assert_eq!((&function["calls"], &function["injected"]), (&json!(103), &json!(1)));
    assert_eq!((&function["pending"], &function["unwound"]), (&json!(1), &json!(1)));
    assert_eq!(function["failures"], json!({"123456": 1, "CUDA_ERROR_INVALID_VALUE": 1}));
    let near = |name: &str, wanted: f64| (function[name].as_f64().unwrap() / wanted - 1.0).abs() <= 0.01;
    assert!(
        near("p50_ns", 10_000.0) && near("p99_ns", 10_000.0) && near("max_ns", 4_000_000.0),
        "{function:#}"
    );
    assert_eq!(function["total_ns"], 100 * 10_000 + 4_000_000);
}

#[test]
fn a_call_that_hangs_is_told_of_with_who_made_it_and_since_when() {
    let scene = Scene::new();
    let (mut hanging, mut other) = (scene.gone(0), scene.gone(1));
    let mut call = hanging.opening(100, (0x11, 0x12), 0);
    writer::set_shape(&mut call, "pdptr", cupeer_spec::record::slot::shape::UNREAD);
    hanging.hang(&call).ends();
    other.ask(2100, 1).ends();
    let report = json_of(&scene, &[]);
    let pending = &report["processes"][0]["pending"][0];
    assert_eq!(pending["function"], "cuIpcOpenMemHandle_v2");
    assert_eq!((&pending["since_ns"], &pending["age_ns"]), (&at(100), &json!(2_010_000)));
    assert_eq!(pending["args"]["handle"], "ipc:0000000000000011");
    assert_eq!(pending["args"]["pdptr"], Value::Null);
    assert_eq!(pending["caller"]["library"], "/opt/app/bin/train");
    assert_eq!(report["processes"][1]["last_call"]["at_ns"], at(2100));
}

#[test]
fn a_call_that_returns_after_many_others_counts_once() {
    let scene = Scene::new();
    let mut actor = scene.rank(0);
    let mut call = actor.makes(FnId::cuCtxEnablePeerAccess, 100);
    let number = actor.begins(&call);
    for i in 0..1000 {
        actor.ask(110 + 20 * i, 1);
    }
    call.end = us(50_000);
    actor.returns(number, &call);
    actor.ends();
    let report = json_of(&scene, &[]);
    let functions = report["functions"].as_array().unwrap();
    let function = functions.iter().find(|f| f["function"] == "cuCtxEnablePeerAccess").unwrap();
    assert_eq!((&function["calls"], &function["pending"]), (&json!(1), &json!(0)));
    assert_eq!(function["total_ns"], 49_900_000);
    assert_eq!(report["processes"][0]["pending"], json!([]));
    assert_eq!(report["record"]["events"], 1001);
}

#[test]
fn failures_stand_in_the_order_of_time_with_their_callers() {
    let scene = Scene::new();
    let (mut a, mut b) = (scene.rank(0), scene.rank(1));
    a.fail_to_open(300, (0x11, 0x12), 1).enable(500, 704);
    let mut call = b.opening(200, (0x11, 0x12), 0);
    call.outcome = Outcome::Returned(201);
    call.details.message = Some(b"no context".to_vec());
    b.add(&call).fail_to_open(400, (0x11, 0x12), 1);
    a.ends();
    b.ends();
    let report = json_of(&scene, &[]);
    let failures = report["failures"].as_array().unwrap();
    let times: Vec<&Value> = failures.iter().map(|failure| &failure["time_ns"]).collect();
    assert_eq!(times, [&at(200), &at(300), &at(400), &at(500)]);
    assert_eq!(failures[0]["result"], "CUDA_ERROR_INVALID_CONTEXT");
    assert_eq!(failures[0]["driver_message"], "no context");
    assert_eq!(failures[0]["caller"]["offset"], format!("{:#x}", 0x100 + FnId::cuIpcOpenMemHandle_v2 as u64));
    assert_eq!(failures[0]["stack"].as_array().unwrap().len(), 3);
    assert_eq!(failures[0]["args"]["Flags"], "CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS");
    let groups = report["failure_groups"].as_array().unwrap();
    assert_eq!((&groups[0]["result"], &groups[0]["count"]), (&json!("CUDA_ERROR_INVALID_VALUE"), &json!(2)));
    assert_eq!(groups[0]["procs"].as_array().unwrap().len(), 2);
    // That access is on already is told of last, and is no reason to worry.
    assert_eq!((&groups[2]["usual"], &groups[0]["usual"]), (&json!(true), &json!(false)));
    let peer = report["peers"].as_array().unwrap().iter().find(|peer| peer["enabled"] == true).unwrap();
    assert_eq!(peer["failed"], json!({"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED": 1}));
}

#[test]
fn of_many_failures_the_first_are_kept() {
    let scene = Scene::new();
    let (mut late, mut early) = (scene.rank(0), scene.rank(1));
    for i in 0..1500 {
        late.fail_to_open(100_000 + 20 * i, (0x11, 0x12), 1);
        early.fail_to_open(100 + 20 * i, (0x11, 0x12), 1);
    }
    late.ends();
    let proc = early.about.proc();
    early.ends();
    let report = json_of(&scene, &[]);
    let failures = report["failures"].as_array().unwrap();
    assert_eq!((failures.len(), &report["failures_more"]), (1000, &json!(2000)));
    assert!(failures.iter().all(|failure| failure["proc"] == proc), "those of the early process come first");
    assert_eq!(report["failure_groups"][0]["count"], 3000);
    assert_eq!(json_of(&scene, &["--all"])["failures"].as_array().unwrap().len(), 3000);
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
fn of_a_ring_the_table_knows_what_is_open() {
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
        importer.entry(kind::OPENED_MEMORY, 200, 0x11, 0x9000),
        importer.entry(kind::PEER, 150, 0, 0xc0),
    ];
    entries[1].ended = 1;
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
    let unknown = "no process of this record exported it, as far as events were kept";
    assert_eq!(handle(&report, 0x12)["unknown"]["exporter"], unknown);
    assert_eq!(report["leaks"][0]["stack"][0]["offset"], "0x111");
    let peer = report["peers"].as_array().unwrap().iter().find(|peer| peer["enabled"] == true).unwrap();
    assert_eq!(peer["to"], "GPU-20202020-2020-2020-2020-202020202020");
}

#[test]
fn hosts_that_were_copied_together_stay_apart() {
    let scene = Scene::new();
    let boot = |name: &[u8; 16]| About { boot_id: *name, ..About::default() };
    for (host, about) in [("alpha", boot(b"boot of an alpha")), ("beta", boot(b"the boot of beta"))] {
        let dir = scene.dir().join(host);
        let mut exporter = scene.process_in(&dir, about.clone()).on(host);
        exporter.export(100, 0x11, 0x7000).ends();
        let mut importer = scene.process_in(&dir, About { pid: 1001, ..about }).on(host);
        importer.open(200, 0x11, 0x9000).ends();
    }
    let report = json_of(&scene, &[]);
    assert_eq!(report["record"]["hosts"], json!(["alpha", "beta"]));
    let handles = report["handles"].as_array().unwrap();
    assert_eq!(handles.len(), 2, "the same fingerprint on two hosts is two handles");
    for handle in handles {
        let host = |proc: &Value| proc.as_str().unwrap()[..8].to_owned();
        assert_eq!(host(&handle["exporter"]), host(&handle["opens"][0]["proc"]));
    }
    let exits: Vec<&Value> = report["processes"].as_array().unwrap().iter().map(|p| &p["exit"]).collect();
    assert_eq!(exits, ["unknown"; 4]);
    assert!(report["processes"][0]["unknown"]["exit"].as_str().unwrap().contains("another host"));
}

#[test]
fn a_function_of_a_newer_version_keeps_its_name() {
    let scene = Scene::new();
    let mut actor = scene.rank(0);
    actor.writer().function(900, "cuFutureShare", 8).unwrap();
    let mut call = actor.makes(FnId::cuIpcCloseMemHandle, 100);
    (call.number, call.outcome, call.details) = (900, Outcome::Returned(1), Details::default());
    actor.add(&call).ends();
    let report = json_of(&scene, &[]);
    assert_eq!(report["functions"][0]["function"], "cuFutureShare");
    assert_eq!(report["failures"][0]["function"], "cuFutureShare");
    assert_eq!(report["failures"][0]["args"], json!({}));
    assert_eq!(report["failures"][0]["caller"]["offset"], format!("{:#x}", call.caller - CODE));
}

#[test]
fn lost_events_escaped_libraries_and_damage_are_told_of() {
    let scene = Scene::new();
    let mut actor = scene.rank(0);
    actor.writer().header(|header| (header.lost, header.ended_by) = (7, 28)).unwrap();
    actor.writer().escaped("RTLD_DEEPBIND", "/opt/lib/deep.so").unwrap();
    actor.ends();
    std::fs::write(scene.dir().join("broken.cupeer"), b"nothing").unwrap();
    let report = json_of(&scene, &[]);
    assert_eq!(report["record"]["lost"], 7);
    let problems = report["record"]["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().any(|text| text.as_str().unwrap().contains("No space left on device")));
    assert_eq!(report["escaped"][0]["library"], "/opt/lib/deep.so");
    assert_eq!(report["escaped"][0]["way"], "RTLD_DEEPBIND");
}

#[test]
fn no_handle_stands_in_a_report() {
    // There are only fingerprints in a record; the address of an allocation is no secret.
    let scene = Scene::new();
    let mut actor = scene.rank(0);
    actor.export(100, 0x1122_3344_5566_7788, 0x7000).ends();
    let text = super::of(&scene, &["--format", "json"]);
    assert!(text.contains("ipc:1122334455667788"));
    let checked = format!("{:016x}", scene::checked(0x1122_3344_5566_7788));
    assert!(!text.contains(&checked), "the second fingerprint is for joining alone");
}
