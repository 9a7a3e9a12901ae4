//! Multicast objects: who made them, which devices joined, what is bound, and who waits.

use super::scene::{Actor, Scene, handle};
use super::{json::assert_valid, json_of};
use crate::support::{self, compile_c, sim_dir, temp_dir};
use cupeer_record::writer;
use cupeer_spec::function::FnId;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;
/// A fingerprint of a descriptor.
const FD: u64 = 0x2c00_0000_0000_0017;

fn call(actor: &Actor, at: u64, function: FnId, arguments: &[(&str, u64)]) -> cupeer_record::Call {
    let mut call = actor.makes(function, at);
    for (name, value) in arguments {
        let stored = function.spec().args().iter().find(|argument| argument.name() == *name).unwrap().stored_size();
        let bytes = match stored {
            20 => [handle(*value, *value).to_vec(), vec![0; 4]].concat(),
            _ => value.to_le_bytes()[..stored].to_vec(),
        };
        writer::set(&mut call, name, &bytes);
    }
    call
}

fn binds(actor: &Actor, at: u64, team: u64, memory: u64) -> cupeer_record::Call {
    let arguments =
        [("mcHandle", team), ("mcOffset", 0), ("memHandle", memory), ("memOffset", 0), ("size", 2 * MIB), ("flags", 0)];
    call(actor, at, FnId::cuMulticastBindMem, &arguments)
}

/// Three devices were to join, two did: who binds memory does not come back.
#[test]
fn waits_for_devices_that_nobody_adds_are_reported() {
    let scene = Scene::new();
    let (mut maker, mut other) = (scene.gone(0), scene.gone(1));
    let mut made = maker.makes(FnId::cuMulticastCreate, 100);
    writer::set(&mut made, "mcHandle", &0xa_u64.to_le_bytes());
    let words = [2 * MIB, 1, 0].map(u64::to_le_bytes).concat();
    writer::set(&mut made, "prop", &[3u32.to_le_bytes().to_vec(), words].concat());
    maker.add(&made);
    let export = [("shareableHandle", FD), ("handle", 0xa), ("handleType", 1), ("flags", 0)];
    let export = call(&maker, 110, FnId::cuMemExportToShareableHandle, &export);
    maker.add(&export);
    let import = call(
        &other,
        120,
        FnId::cuMemImportFromShareableHandle,
        &[("osHandle", FD), ("handle", 0x1a), ("shHandleType", 1)],
    );
    other.add(&import);
    for (actor, team, device) in [(&mut maker, 0xa, 0), (&mut other, 0x1a, 1)] {
        let join = call(actor, 130, FnId::cuMulticastAddDevice, &[("mcHandle", team), ("dev", device)]);
        actor.add(&join);
        let bind = binds(actor, 140, team, 0x55);
        actor.hang(&bind);
    }
    let procs = [maker.about.proc(), other.about.proc()];
    maker.ends();
    other.ends();

    let report = json_of(&scene, &[]);
    assert_valid(&report);
    let rows = report["allocations"]["multicast"].as_array().expect("rows");
    assert_eq!(rows.len(), 1, "{rows:#?}");
    let row = &rows[0];
    assert_eq!(
        (&row["made_by"], &row["bytes"], &row["wanted_devices"]),
        (&json!(procs[0]), &json!(2 * MIB), &json!(3))
    );
    assert_eq!(row["handle_types"], json!(["CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"]));
    let devices = row["devices"].as_array().expect("devices");
    assert_eq!(devices.iter().map(|device| &device["proc"]).collect::<Vec<_>>(), procs.each_ref());
    assert_eq!((&row["waiting"], &row["held_by"]), (&json!(procs), &json!(procs)));
    assert_eq!((&row["binds"], &row["bound"]), (&json!(0), &json!([])));
    let findings = report["findings"].as_array().expect("findings");
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!((&findings[0]["rule"], &findings[0]["count"]), (&json!("multicast-incomplete"), &json!(2)));
    let message = findings[0]["message"].as_str().expect("a message");
    assert!(message.ends_with("until 3 devices are added to the multicast object, but only 2 are"), "{message}");
    let mut command = support::cupeer();
    let text = support::stdout(command.arg("report").arg(scene.dir()).env("COLUMNS", "200"));
    assert!(text.contains("\nMulticast objects\n"), "{text}");
    let said = "have not returned from binding memory: 2 of 3 devices were added to the multicast object";
    assert!(text.contains(said), "{text}");
}

/// Runs two processes that share a multicast object, under these options: what they printed, and the report.
fn run(options: &[&str]) -> (String, Value) {
    let driver = sim_dir().join("libcuda.so");
    let program = compile_c("programs/multicast.c", &[driver.to_str().expect("UTF-8")]);
    let folder = temp_dir();
    let record = folder.path().join("r");
    let mut run = support::cupeer();
    run.args(["run", "--sim=nvlink:2", "--record", "full", "-o"]).arg(&record).args(options);
    let printed = support::done(run.arg("--").arg(program).args(["0", "1"])).stdout;
    let report = support::stdout(support::cupeer().arg("report").arg(&record).args(["--format", "json"]));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_valid(&report);
    (printed, report)
}

#[test]
fn an_object_of_two_processes_is_one_row() {
    let (printed, report) = run(&["--check"]);
    assert_eq!(printed, "create=0 add=0,0 again=1 bind=0,0 holds=7,7 unbound=1 write=1\n");
    let rows = report["allocations"]["multicast"].as_array().expect("rows");
    assert_eq!(rows.len(), 1, "{rows:#?}");
    let row = &rows[0];
    assert_eq!((&row["wanted_devices"], &row["binds"], &row["unbinds"]), (&json!(2), &json!(2), &json!(2)));
    assert_eq!((&row["held_by"], &row["waiting"], &row["bound"]), (&json!([]), &json!([]), &json!([])));
    let uuid = |device: &Value| device["device"].as_str().expect("a device").to_owned();
    let mut devices: Vec<String> = row["devices"].as_array().expect("devices").iter().map(uuid).collect();
    devices.sort();
    assert_eq!(devices.len(), 2);
    assert!(devices[0].ends_with("000") && devices[1].ends_with("001"), "{devices:?}");
    // Each process adds its device again, and unbinds again.
    let findings = report["findings"].as_array().expect("findings");
    let rules: BTreeSet<&str> = findings.iter().filter_map(|finding| finding["rule"].as_str()).collect();
    assert_eq!(rules, BTreeSet::from(["call-failed", "multicast-device"]));
}

/// NCCL#1672, torchcomms#3130: a Fabric Manager that stalls, and on some ranks the driver gives up after seconds while
/// others succeed, so that the next collective call hangs. What the program does then can be tried without one.
#[test]
fn a_stalled_fabric_manager_is_tried_with_a_plan() {
    let plan = "cuMulticastBindMem:times=1:per=job:delay=20ms:error=SYSTEM_NOT_READY";
    let (printed, report) = run(&["--inject", plan]);
    let is_one_alone = ["bind=0,802\n", "bind=802,0\n"].iter().any(|bind| printed.ends_with(bind));
    assert!(is_one_alone, "{printed}");
    let row = &report["allocations"]["multicast"][0];
    // The binding of the other process lasts until its end.
    assert_eq!((&row["binds"], &row["unbinds"], &row["wanted_devices"]), (&json!(1), &json!(0), &json!(2)));
    assert_eq!(row["bound"].as_array().map(Vec::len), Some(1));
    assert_eq!(row["bound"][0]["bytes"], json!(2 * MIB));
    assert_eq!(row["devices"].as_array().map(Vec::len), Some(2));
    let hits = report["faults"].as_array().map_or(0, Vec::len);
    assert_eq!(hits, 1, "{report:#}");
}
