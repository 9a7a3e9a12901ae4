//! Records of real programs, on the simulated driver.

use super::json::assert_valid;
use crate::support;
use serde_json::{Value, json};
use std::path::Path;

/// Runs two processes that share memory, on a machine, and reports what they did.
fn share(dir: &Path, machine: &str, options: &[&str]) -> String {
    let program = support::compile_c("../scripts/demo.d/share.c", &["-ldl"]);
    let mut run = support::cupeer();
    run.arg("run").arg(format!("--sim={machine}")).args(["--record", "full", "-o"]).arg(dir).arg("--").arg(program);
    run.output().expect("it runs");
    support::stdout(support::cupeer().arg("report").arg(dir).args(options))
}

fn json_of(text: &str) -> Value {
    let report = serde_json::from_str(text).expect("it is JSON");
    assert_valid(&report);
    report
}

#[test]
fn exports_and_their_importers() {
    let folder = support::temp_dir();
    let report = json_of(&share(&folder.path().join("r"), "nvlink:2", &["--format", "json"]));
    let processes = report["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 2);
    assert!(processes.iter().all(|process| process["exit"]["code"] == 0 && process["pending"] == json!([])));
    assert!(processes.iter().all(|process| process["devices"].as_array().unwrap().len() == 2));
    let handles = report["handles"].as_array().unwrap();
    let memory = handles.iter().find(|handle| handle["kind"] == "memory").unwrap();
    assert_eq!((&memory["state"], &memory["bytes"]), (&json!("closed"), &json!(1 << 20)));
    assert_ne!(memory["exporter"], memory["opens"][0]["proc"]);
    let event = handles.iter().find(|handle| handle["kind"] == "event").unwrap();
    assert_eq!(event["opens"].as_array().unwrap().len(), 1);
    let peers = report["peers"].as_array().unwrap();
    let enabled = peers.iter().find(|peer| peer["enabled"] == true).unwrap();
    assert_eq!((&enabled["from"], &enabled["to"]), (&memory["opens"][0]["device"], &memory["device"]));
    assert_eq!((&enabled["can_access"], &enabled["opened"]), (&json!(true), &json!(1)));
    assert_eq!(report["record"]["lost"], 0);
    assert_eq!(report["record"]["problems"], json!([]));
}

#[test]
fn failures_and_their_callers() {
    let folder = support::temp_dir();
    let report = json_of(&share(&folder.path().join("r"), "none:2", &["--format", "json"]));
    let failures = report["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 1, "{failures:#?}");
    assert_eq!(failures[0]["function"], "cuIpcOpenMemHandle_v2");
    assert_eq!(failures[0]["result"], "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED");
    let caller = failures[0]["caller"]["library"].as_str().unwrap();
    assert!(caller.contains("share"), "{caller}");
    // Its file is still there, and has symbols.
    assert!(failures[0]["caller"]["function"].is_string(), "{:#}", failures[0]["caller"]);
    assert!(failures[0]["stack"].as_array().unwrap().len() > 1);
    let peer = &report["peers"][0];
    assert_eq!((&peer["can_access"], &peer["unmapped_since_failure"]), (&json!(false), &json!(true)));
}

#[test]
fn arrows_of_a_real_record() {
    let folder = support::temp_dir();
    let trace = share(&folder.path().join("r"), "nvlink:2", &["--format", "trace"]);
    let trace: Value = serde_json::from_str(&trace).expect("it is JSON");
    let events = trace["traceEvents"].as_array().unwrap();
    let phases = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!((phases("s"), phases("t")), (2, 2), "one of memory, one of an event");
    assert!(phases("f") >= 1 && phases("X") >= 8);
}

/// An all-reduce of NCCL over two H200, with NCCL_CUMEM_ENABLE=0, as scripts/test-hardware records it.
#[test]
fn an_all_reduce_of_nccl_on_two_gpus() {
    let pack = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nccl-all-reduce.cupeer.tar.gz");
    let of = |form: &str| support::stdout(support::cupeer().arg("report").arg(&pack).args(["--format", form]));
    let report = json_of(&of("json"));
    let ranks: Vec<&Value> = report["processes"].as_array().unwrap().iter().map(|process| &process["rank"]).collect();
    assert_eq!(ranks, [&json!(0), &json!(1)]);
    let opened: Vec<&Value> =
        report["handles"].as_array().unwrap().iter().filter(|handle| handle["opens"] != json!([])).collect();
    assert_eq!(opened.len(), 96);
    for handle in opened {
        assert!(handle["exporter"].is_string() && handle["exporter"] != handle["opens"][0]["proc"], "{handle}");
        // NCCL frees its buffers before the other rank lets go of them.
        assert_eq!(handle["state"], "freed while open");
    }
    let trace: Value = serde_json::from_str(&of("trace")).expect("it is JSON");
    let events = trace["traceEvents"].as_array().unwrap();
    let callers: Vec<&str> = events
        .iter()
        .filter(|event| event["ph"] == "X" && event["name"].as_str().unwrap().starts_with("cuIpcOpen"))
        .map(|event| event["args"]["caller"].as_str().unwrap())
        .collect();
    assert_eq!(callers.len(), 96);
    let is_nccls = |caller: &&str| caller.starts_with("libnccl.so.2+") && !caller.contains("cuda");
    assert!(callers.iter().all(is_nccls), "{callers:?}");
    assert_eq!(events.iter().filter(|event| event["ph"] == "s").count(), 96);
}
