//! Functions, ranks, failures, and calls that do not return.

use super::json_of;
use super::scene::{CODE, Scene, at, us};
use cupeer_record::writer;
use cupeer_record::{Details, Outcome};
use cupeer_spec::function::FnId;
use serde_json::{Value, json};

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
    assert!(near("p50_ns", 10_000.0) && near("p99_ns", 10_000.0) && near("max_ns", 4_000_000.0), "{function:#}");
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
fn the_first_of_many_failures_are_kept() {
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
fn a_function_of_a_newer_version_keeps_its_name() {
    let scene = Scene::new();
    let mut actor = scene.rank(0);
    actor.writer().function(900, "cuFutureShare", 8).unwrap();
    let mut call = actor.makes(FnId::cuIpcCloseMemHandle, 100);
    (call.number, call.outcome, call.details) = (900, Outcome::Returned(1), Details::default().into());
    actor.add(&call).ends();
    let report = json_of(&scene, &[]);
    assert_eq!(report["functions"][0]["function"], "cuFutureShare");
    assert_eq!(report["failures"][0]["function"], "cuFutureShare");
    assert_eq!(report["failures"][0]["args"], json!({}));
    assert_eq!(report["failures"][0]["caller"]["offset"], format!("{:#x}", call.caller - CODE));
}
