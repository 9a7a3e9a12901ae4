//! Virtual memory: what each process has, what is kept alive for others, and the access that mappings have.

use super::scene::{Actor, Scene, at, handle};
use super::{json::assert_valid, json_of};
use crate::support;
use cupeer_record::writer;
use cupeer_spec::function::FnId;
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
/// The devices 0 and 1.
const DEVICES: [&str; 2] = ["GPU-10101010-1010-1010-1010-101010101010", "GPU-20202020-2020-2020-2020-202020202020"];
/// A fingerprint of a descriptor.
pub const FD: u64 = 0x2c00_0000_0000_0011;

/// Calls about virtual memory, at times in microseconds.
pub trait VirtualMemory {
    fn call(&mut self, at: u64, function: FnId, arguments: &[(&str, u64)]) -> &mut Self;
    fn create(&mut self, at: u64, handle: u64, size: u64, device: i32) -> &mut Self;
    fn share(&mut self, at: u64, function: FnId, names: (&str, &str), handle: u64, known: u64) -> &mut Self;
    fn allow(&mut self, at: u64, ptr: u64, size: u64, access: (i32, i32)) -> &mut Self;

    fn export_allocation(&mut self, at: u64, handle: u64, fingerprint: u64) -> &mut Self {
        self.share(at, FnId::cuMemExportToShareableHandle, ("shareableHandle", "handle"), handle, fingerprint)
    }

    fn import(&mut self, at: u64, fingerprint: u64, handle: u64) -> &mut Self {
        self.share(at, FnId::cuMemImportFromShareableHandle, ("osHandle", "handle"), handle, fingerprint)
    }

    fn release(&mut self, at: u64, handle: u64) -> &mut Self {
        self.call(at, FnId::cuMemRelease, &[("handle", handle)])
    }

    fn map(&mut self, at: u64, ptr: u64, size: u64, handle: u64) -> &mut Self {
        self.call(at, FnId::cuMemMap, &[("ptr", ptr), ("size", size), ("handle", handle)])
    }

    fn unmap(&mut self, at: u64, ptr: u64, size: u64) -> &mut Self {
        self.call(at, FnId::cuMemUnmap, &[("ptr", ptr), ("size", size)])
    }
}

impl VirtualMemory for Actor {
    fn call(&mut self, at: u64, function: FnId, arguments: &[(&str, u64)]) -> &mut Self {
        let mut call = self.makes(function, at);
        for (name, value) in arguments {
            let stored = function.spec().args().iter().find(|argument| argument.name() == *name).unwrap().stored_size();
            writer::set(&mut call, name, &value.to_le_bytes()[..stored]);
        }
        self.add(&call)
    }

    fn create(&mut self, at: u64, handle: u64, size: u64, device: i32) -> &mut Self {
        let mut call = self.makes(FnId::cuMemCreate, at);
        writer::set(&mut call, "handle", &handle.to_le_bytes());
        writer::set(&mut call, "size", &size.to_le_bytes());
        // Pinned, for a descriptor or a fabric handle, on a device.
        writer::set(&mut call, "prop", &[1, 9, 1, device].map(i32::to_le_bytes).concat());
        self.add(&call)
    }

    fn share(
        &mut self,
        at: u64,
        function: FnId,
        (shared, own): (&str, &str),
        number: u64,
        fingerprint: u64,
    ) -> &mut Self {
        let mut call = self.makes(function, at);
        let stored = function.spec().args().iter().find(|argument| argument.name() == shared).unwrap().stored_size();
        let mut bytes = handle(fingerprint, fingerprint).to_vec();
        bytes.resize(stored, 0);
        writer::set(&mut call, shared, &bytes);
        writer::set(&mut call, own, &number.to_le_bytes());
        self.add(&call)
    }

    fn allow(&mut self, at: u64, ptr: u64, size: u64, (device, flags): (i32, i32)) -> &mut Self {
        let mut call = self.makes(FnId::cuMemSetAccess, at);
        writer::set(&mut call, "ptr", &ptr.to_le_bytes());
        writer::set(&mut call, "size", &size.to_le_bytes());
        writer::set(&mut call, "count", &1u64.to_le_bytes());
        call.details.elements = vec![(2, [1, device, flags].map(i32::to_le_bytes).concat())];
        self.add(&call)
    }
}

/// Returns the output for long lines.
fn wide(scene: &Scene, options: &[&str]) -> String {
    let mut command = support::cupeer();
    support::stdout(command.arg("report").arg(scene.dir()).args(options).env("COLUMNS", "200"))
}

/// The row about a process.
fn row<'a>(report: &'a Value, table: &str, actor: &str) -> &'a Value {
    let rows = report["allocations"][table].as_array().expect("rows");
    rows.iter().find(|row| row["proc"] == actor).unwrap_or_else(|| panic!("no {actor}: {rows:#?}"))
}

#[test]
fn memory_that_was_imported_does_not_end_with_its_exporter() {
    let scene = Scene::new();
    let (mut owner, mut keeper) = (scene.gone(0), scene.running(1));
    owner.create(100, 0xa, MIB, 0).export_allocation(120, 0xa, FD).export(140, 0x11, 0x7000).ends();
    keeper.import(200, FD, 0x1a).open(220, 0x11, 0x9000).ends();
    let report = json_of(&scene, &[]);
    let rows = report["handles"].as_array().unwrap();
    let state = |kind: &str| {
        let row = rows.iter().find(|row| row["kind"] == kind).unwrap();
        (&row["state"], &row["opens"][0]["state"])
    };
    assert_eq!(state("memory"), (&json!("exporter gone"), &json!("exporter gone")));
    assert_eq!(state("allocation"), (&json!("open"), &json!("open")));
    assert!(wide(&scene, &[]).contains("- 1 handle (2MiB) is open although its exporter is gone\n"));
}

#[test]
fn memory_is_kept_alive_by_who_imported_it() {
    let scene = Scene::new();
    let (mut owner, mut keeper) = (scene.gone(0), scene.running(1));
    owner.create(100, 0xa, 2 * GIB, 1).export_allocation(120, 0xa, FD).create(140, 0xb, MIB, 1);
    keeper.import(200, FD, 0x1a).map(220, 0x7000_0000, 2 * GIB, 0x1a).release(240, 0x1a);
    owner.release(300, 0xa).release(320, 0xb);
    let procs = [owner.about.proc(), keeper.about.proc()];
    owner.ends();
    keeper.ends();

    let report = json_of(&scene, &[]);
    let kept = &report["allocations"]["kept"];
    assert_eq!(kept.as_array().unwrap().len(), 1, "{kept:#}");
    let kept = &kept[0];
    assert_eq!((&kept["proc"], &kept["owner"]), (&json!(procs[1]), &json!(procs[0])));
    assert_eq!((&kept["bytes"], &kept["device"]), (&json!(2 * GIB), &json!(DEVICES[1])));
    assert_eq!((&kept["given_up_by"], &kept["given_up_ns"]), (&json!("release"), &at(300)));
    assert_eq!((&kept["until"], &kept["until_ns"]), (&json!("now"), &Value::Null));
    let owned = row(&report, "devices", &procs[0]);
    assert_eq!((&owned["made"], &owned["allocations"], &owned["bytes"]), (&json!(2), &json!(0), &json!(0)));
    assert_eq!(owned["most_bytes"], json!(2 * GIB + MIB));
    assert_eq!((&owned["exported"], &owned["never_imported"]), (&json!(1), &json!(0)));
    let held = row(&report, "devices", &procs[1]);
    assert_eq!((&held["device"], &held["imported_bytes"]), (&json!(DEVICES[1]), &json!(2 * GIB)));
    assert_eq!((&held["mapped_bytes"], &held["bytes"]), (&json!(2 * GIB), &json!(0)));
    let single = &report["allocations"]["largest"][0];
    assert_eq!((&single["kept"], &single["handle"], &single["mapped"]), (&json!(true), &Value::Null, &json!(1)));
    assert_eq!(single["mappings"][0]["address"], "0x70000000");
    // The ledger of handles has what the exporter's cuMemCreate said.
    let handle = &report["handles"][0];
    assert_eq!((&handle["kind"], &handle["fingerprint"]), (&json!("allocation"), &json!("fd:2c00000000000011")));
    assert_eq!((&handle["bytes"], &handle["device"]), (&json!(2 * GIB), &json!(DEVICES[1])));
    assert_eq!((&handle["exporter"], &handle["freed_ns"]), (&json!(procs[0]), &at(300)));
    assert_eq!(handle["state"], "closed", "it is mapped, and no handles are open");
    let text = wide(&scene, &[]);
    let sentence = "- 2GiB of GPU 1 (2020..2020) (1 allocation) is held by rank 1, which imported it from rank 0, \
                    released at 0.000300\n";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn ended_processes_kept_it_until_then_and_orderly_ends_are_silent() {
    let scene = Scene::new();
    let (mut owner, mut late, mut good) = (scene.gone(0), scene.gone(1), scene.gone(2));
    owner.create(100, 0xa, MIB, 0).export_allocation(120, 0xa, FD).export_allocation(130, 0xa, FD + 2);
    late.import(200, FD, 0x1a).import(210, FD, 0x1b).release(220, 0x1a);
    good.import(200, FD + 2, 0x2a).release(400, 0x2a).ask(420, 1);
    owner.release(300, 0xa);
    late.ask(500, 1);
    let procs = [owner.about.proc(), late.about.proc(), good.about.proc()];
    [owner, late, good].iter_mut().for_each(Actor::ends);

    let report = json_of(&scene, &[]);
    let kept = report["allocations"]["kept"].as_array().unwrap();
    let short = |row: &Value| (row["proc"].clone(), row["until"].clone(), row["longest_ns"].clone());
    let mut rows: Vec<_> = kept.iter().map(short).collect();
    rows.sort_by_key(|(_, until, _)| until.to_string());
    assert_eq!(rows[0], (json!(procs[1]), json!("exit"), json!(210_000)));
    assert_eq!(rows[1], (json!(procs[2]), json!("given up"), json!(100_000)));
    let held = row(&report, "devices", &procs[1]);
    assert_eq!((&held["imports"], &held["imported"], &held["imported_bytes"]), (&json!(2), &json!(1), &json!(MIB)));
    let leaks = &report["leaks"];
    assert_eq!(
        (&leaks[0]["kind"], &leaks[0]["times"], &leaks[0]["bytes"]),
        (&json!("allocation"), &json!(1), &json!(MIB))
    );
    let text = wide(&scene, &[]);
    let sentence = "1MiB of GPU 0 (1010..1010) (1 allocation) was held by rank 1, which imported it from rank 0, released at \
                    0.000300, until it ended at 0.000510";
    assert!(text.contains(sentence), "{text}");
    assert!(!text.contains("held by rank 2"), "{text}");
    let all = wide(&scene, &["--all"]);
    assert!(
        all.contains("was held by rank 2, which imported it from rank 0, released at 0.000300, for 100.0us"),
        "{all}"
    );
}

#[test]
fn access_to_mappings_is_access_between_devices() {
    let scene = Scene::new();
    let (mut owner, mut other) = (scene.gone(0), scene.gone(1));
    owner.create(100, 0xa, MIB, 0).export_allocation(120, 0xa, FD).map(140, 0x10_0000, MIB, 0xa);
    owner.allow(160, 0x10_0000, MIB, (0, 3)).allow(180, 0x10_0000, MIB, (1, 3)).unmap(300, 0x10_0000, MIB);
    other.import(200, FD, 0x1a).map(220, 0x20_0000, MIB, 0x1a).allow(240, 0x20_0000, MIB, (1, 1));
    let procs = [owner.about.proc(), other.about.proc()];
    owner.ends();
    other.ends();

    let report = json_of(&scene, &[]);
    let peers = report["peers"].as_array().unwrap();
    assert_eq!(peers.len(), 2, "{peers:#?}");
    for peer in peers {
        assert_eq!((&peer["from"], &peer["to"]), (&json!(DEVICES[1]), &json!(DEVICES[0])));
        assert_eq!((&peer["enabled"], &peer["mappings"]), (&json!(true), &json!(1)));
    }
    let of_process = |proc: &str| peers.iter().find(|peer| peer["proc"] == proc).unwrap();
    let (owner, other) = (of_process(&procs[0]), of_process(&procs[1]));
    assert_eq!((&owner["enabled_ns"], &owner["disabled_ns"]), (&at(180), &at(300)));
    assert_eq!((&other["enabled_ns"], &other["disabled_ns"]), (&at(240), &Value::Null));
    assert_eq!((&owner["mappings_now"], &other["mappings_now"]), (&json!(0), &json!(1)));
    let access = &report["allocations"]["largest"];
    let access = access.as_array().unwrap().iter().find(|row| row["proc"] == procs[1]).unwrap();
    let granted = json!({ "device": DEVICES[1], "flags": "CU_MEM_ACCESS_FLAGS_PROT_READ" });
    assert_eq!(access["mappings"][0]["access"], json!([granted]));
    let text = wide(&scene, &[]);
    assert!(text.contains("rank 1 (mappings), rank 0 (mappings, off again)"), "{text}");
}

#[test]
fn a_job_with_thousands_of_allocations_stays_readable() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    actor.call(50, FnId::cuMemAddressReserve, &[("ptr", 1 << 40), ("size", 64 * GIB)]);
    for i in 0..3000 {
        let (time, handle, ptr) = (100 + 40 * i, 0xa000 + i, (1 << 40) + i * MIB);
        actor.create(time, handle, MIB, (i % 2) as i32).export_allocation(time + 10, handle, FD + 2 * i);
        actor.map(time + 20, ptr, MIB, handle);
    }
    let proc = actor.about.proc();
    actor.ends();
    let report = json_of(&scene, &[]);
    let rows = report["allocations"]["devices"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!((&row["allocations"], &row["bytes"]), (&json!(1500), &json!(1500 * MIB)));
        assert_eq!((&row["never_imported"], &row["mapped_bytes"]), (&json!(1500), &json!(1500 * MIB)));
    }
    let space = row(&report, "spaces", &proc);
    assert_eq!((&space["reserved_bytes"], &space["mapped_bytes"]), (&json!(64 * GIB), &json!(3000 * MIB)));
    assert_eq!(report["allocations"]["largest"].as_array().unwrap().len(), 20);
    assert_eq!(report["allocations"]["largest_more"], 2980);
    let types = ["CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR", "CU_MEM_HANDLE_TYPE_FABRIC"];
    assert_eq!(report["allocations"]["largest"][0]["handle_types"], json!(types));
    let text = wide(&scene, &[]);
    assert!(text.contains("1,500, 1,500 never imported"), "{text}");
    assert!(text.lines().count() < 70, "{text}");
}

#[test]
fn filters_leave_out_what_is_not_asked_for() {
    let scene = Scene::new();
    let (mut first, mut second) = (scene.gone(0), scene.gone(1));
    first.create(100, 0xa, MIB, 0).export_allocation(120, 0xa, FD).export(140, 0x11, 0x7000);
    second.create(100, 0xa, MIB, 1).call(200, FnId::cuMemAddressReserve, &[("ptr", 1 << 40), ("size", MIB)]);
    let proc = second.about.proc();
    first.ends();
    second.ends();
    let report = json_of(&scene, &["--rank", "1"]);
    let allocations = &report["allocations"];
    assert_eq!(allocations["devices"].as_array().unwrap().len(), 1);
    assert_eq!((&allocations["devices"][0]["proc"], &allocations["spaces"][0]["proc"]), (&json!(proc), &json!(proc)));
    let kinds = |options: &[&str]| {
        let report = json_of(&scene, options);
        let handles = report["handles"].as_array().unwrap();
        let kinds: Vec<Value> = handles.iter().map(|handle| handle["kind"].clone()).collect();
        (kinds, report["allocations"]["devices"].as_array().unwrap().len())
    };
    assert_eq!(kinds(&["--function", "@ipc"]), (vec![json!("memory")], 0));
    assert_eq!(kinds(&["--function", "@vmm"]), (vec![json!("allocation")], 2));
    assert_eq!(kinds(&["--failed"]).1, 0);
    // As it was before the second process reserved anything.
    let until = json_of(&scene, &["--until", "0.00015"]);
    assert_eq!(until["allocations"]["spaces"], json!([]));
}

/// The parent shares memory of the second device; the child maps it for the first one, and ends with it.
const KEEPS: &str = r#"
#include "vmm.h"
int main(void) {
    int pair[2];
    char byte = 'x';
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t child = fork();
    if (!child) {
        Allocation h;
        start(0);
        IS(import(&h, receive_descriptor(pair[1])), 0);
        map(h, 3 * GRANULE, 0);
        IS(cuMemRelease(h), 0);
        IS(write(pair[1], &byte, 1), 1);
        IS(read(pair[1], &byte, 1), 1);
        CUdeviceptr more;
        IS(cuMemAddressReserve(&more, GRANULE, 0, 0, 0), 0);
        _exit(0);
    }
    Allocation h;
    int fd;
    start(1);
    IS(create(&h, 1, 3 * GRANULE), 0);
    CUdeviceptr at = map(h, 3 * GRANULE, 1);
    IS(cuMemExportToShareableHandle(&fd, h, 1, 0), 0);
    send_descriptor(pair[0], fd);
    IS(close(fd), 0);
    IS(read(pair[0], &byte, 1), 1);
    IS(cuMemUnmap(at, 3 * GRANULE), 0);
    IS(cuMemRelease(h), 0);
    IS(write(pair[0], &byte, 1), 1);
    int status;
    waitpid(child, &status, 0);
    IS(status, 0);
    return 0;
}
"#;

#[test]
fn a_real_process_keeps_what_another_one_has_released() {
    let program = support::compile_linked("keeps", KEEPS);
    let folder = support::temp_dir();
    let mut run = support::cupeer();
    run.args(["run", "--sim=nvlink:2", "--record", "full", "-o"]).arg(folder.path().join("r"));
    assert!(run.arg("--").arg(program).output().expect("it runs").status.success());
    let show =
        |options: &[&str]| support::stdout(support::cupeer().arg("report").arg(folder.path().join("r")).args(options));
    let report: Value = serde_json::from_str(&show(&["--format", "json"])).expect("it is JSON");
    assert_valid(&report);
    let size = json!(6 * MIB);
    let kept = &report["allocations"]["kept"][0];
    assert_eq!((&kept["bytes"], &kept["given_up_by"], &kept["until"]), (&size, &json!("release"), &json!("exit")));
    let handle = &report["handles"][0];
    assert_eq!((&handle["bytes"], &handle["state"], &handle["exporter"]), (&size, &json!("closed"), &kept["owner"]));
    assert_eq!(handle["device"], kept["device"]);
    let device = |ordinal: u64| {
        let devices = report["processes"][0]["devices"].as_array().unwrap();
        devices.iter().find(|device| device["ordinal"] == ordinal).unwrap()["uuid"].clone()
    };
    assert_eq!(kept["device"], device(1));
    let granted = report["peers"].as_array().unwrap().iter().find(|peer| peer["mappings"] == 1).unwrap();
    assert_eq!((&granted["proc"], &granted["from"], &granted["to"]), (&kept["proc"], &device(0), &device(1)));
    assert!(show(&[]).contains("6MiB of GPU "), "{}", show(&[]));
}
