//! Calls that find no memory left: the device that they are about, and the processes that keep memory there.

use super::json_of;
use super::memory::{FD, GIB, VirtualMemory};
use super::scene::{Actor, Scene};
use crate::support::{self, cupeer, done, temp_dir};
use cupeer_record::sample::{FIRST_LINE, MemoryHolder, MemorySample};
use cupeer_record::{Call, DeviceMemoryState, Job, Library, Outcome, writer};
use cupeer_spec::function::FnId;
use cupeer_spec::record::job::MEMORY_SAMPLES;
use serde_json::{Value, json};

/// The handle of a pool.
const POOL: u64 = 0xb00;
/// CU_MEM_LOCATION_TYPE_DEVICE and _HOST.
const ON_DEVICE: i32 = 1;
const ON_HOST: i32 = 2;

/// Adds a call that returned CUDA_ERROR_OUT_OF_MEMORY.
fn runs_out(actor: &mut Actor, at: u64, function: FnId, arguments: &[(&str, &[u8])]) {
    let mut call = actor.makes(function, at);
    arguments.iter().for_each(|(name, bytes)| writer::set(&mut call, name, bytes));
    call.outcome = Outcome::Returned(2);
    actor.add(&call);
}

/// The properties of an allocation or a pool.
fn properties(kind: i32, id: i32) -> Vec<u8> {
    [1, 0, kind, id].map(i32::to_le_bytes).concat()
}

fn create_fails(actor: &mut Actor, at: u64, size: u64, (kind, id): (i32, i32)) {
    let wanted = properties(kind, id);
    runs_out(actor, at, FnId::cuMemCreate, &[("size", &size.to_le_bytes()), ("prop", &wanted)]);
}

/// Asks for memory of a pool that was created in some place, or by a call that was not recorded.
fn pool_fails(actor: &mut Actor, at: u64, size: u64, place: Option<(i32, i32)>) {
    if let Some((kind, id)) = place {
        let mut call = actor.makes(FnId::cuMemPoolCreate, at - 20);
        writer::set(&mut call, "pool", &POOL.to_le_bytes());
        writer::set(&mut call, "poolProps", &[properties(kind, id), vec![0; 8]].concat());
        actor.add(&call);
    }
    let arguments: [(&str, &[u8]); 2] = [("bytesize", &size.to_le_bytes()), ("pool", &POOL.to_le_bytes())];
    runs_out(actor, at, FnId::cuMemAllocFromPoolAsync, &arguments);
}

/// Creates, exports, and releases memory on a device, which others import by this fingerprint.
fn gives_away(owner: &mut Actor, handle: u64, size: u64, device: i32) -> u64 {
    let fingerprint = FD + 2 * handle;
    owner.create(100 + handle, handle, size, device).export_allocation(150 + handle, handle, fingerprint);
    owner.release(400 + handle, handle);
    fingerprint
}

/// A process that imports memory, and makes its last call at a time.
fn keeps(scene: &Scene, rank: u32, imports: &[u64], last: u64) {
    let mut keeper = scene.gone(rank);
    for (fingerprint, number) in imports.iter().zip(1..) {
        keeper.import(300 + 20 * number, *fingerprint, 0x1a + number);
    }
    keeper.ask(last, 1).ends();
}

/// The findings about kept memory.
fn found(report: &Value) -> Vec<&Value> {
    let rows = report["findings"].as_array().expect("rows");
    rows.iter().filter(|row| row["rule"] == "memory-kept-by-importers").collect()
}

/// Severity, confidence, and message of the only one.
fn only(report: &Value) -> (&Value, &Value, &str) {
    let found = found(report);
    let [row] = found[..] else { panic!("{report:#}") };
    (&row["severity"], &row["confidence"], row["message"].as_str().expect("a text"))
}

/// Process 1 keeps 10 GiB on device 0 when a call of process 0 fails.
fn kept_on_the_first(fails: impl Fn(&mut Actor)) -> Value {
    let scene = Scene::new();
    let mut owner = scene.running(0);
    let lent = gives_away(&mut owner, 1, 10 * GIB, 0);
    fails(&mut owner);
    owner.ends();
    keeps(&scene, 1, &[lent], 2000);
    json_of(&scene, &[])
}

#[test]
fn memory_that_is_kept_on_another_device_is_not_blamed() {
    let certain = (&json!("error"), &json!("certain"));
    let on = |device| (ON_DEVICE, device);
    let report = kept_on_the_first(|owner| pool_fails(owner, 1000, GIB, Some(on(0))));
    let (severity, sure, message) = only(&report);
    assert_eq!((severity, sure), certain);
    assert!(message.starts_with("process 1001 (rank 1) ") && message.contains(" still kept 10 GiB that"), "{message}");
    let report = kept_on_the_first(|owner| create_fails(owner, 1000, GIB, on(0)));
    assert_eq!((only(&report).0, only(&report).1), certain);
    let report = kept_on_the_first(|owner| pool_fails(owner, 1000, GIB, Some(on(1))));
    assert!(found(&report).is_empty(), "{report:#}");
    let report = kept_on_the_first(|owner| create_fails(owner, 1000, GIB, on(1)));
    assert!(found(&report).is_empty(), "{report:#}");
}

#[test]
fn memory_of_a_device_is_not_blamed_for_a_lack_of_host_memory() {
    let report = kept_on_the_first(|owner| pool_fails(owner, 1000, GIB, Some((ON_HOST, 0))));
    assert!(found(&report).is_empty(), "{report:#}");
    let report = kept_on_the_first(|owner| create_fails(owner, 1000, GIB, (ON_HOST, 0)));
    assert!(found(&report).is_empty(), "{report:#}");
}

/// The driver may have told its pool by a function that cupeer does not record.
#[test]
fn a_call_on_an_unknown_device_has_a_guess() {
    let unknown = (&json!("note"), &json!("inferred"));
    let report = kept_on_the_first(|owner| pool_fails(owner, 1000, GIB, None));
    assert_eq!((only(&report).0, only(&report).1), unknown);
    // The process does not see this device, as far as its recording shows.
    let report = kept_on_the_first(|owner| create_fails(owner, 1000, GIB, (ON_DEVICE, 7)));
    assert_eq!((only(&report).0, only(&report).1), unknown);
    // A line of the program that asks for memory on both devices.
    let report = kept_on_the_first(|owner| {
        pool_fails(owner, 900, GIB, Some((ON_DEVICE, 1)));
        create_fails(owner, 930, GIB, (ON_DEVICE, 1));
        create_fails(owner, 1000, GIB, (ON_DEVICE, 0));
    });
    let (severity, sure, _) = only(&report);
    assert_eq!((severity, sure), (&json!("error"), &json!("certain")));
    assert_eq!(found(&report)[0]["count"], 1);
}

#[test]
fn each_allocation_counts_once_whoever_keeps_it() {
    // Two processes surely kept the first allocation, and nobody knows about the second one.
    let certain = |last_of_third| {
        let scene = Scene::new();
        let mut owner = scene.running(0);
        let lent = [1, 2].map(|handle| gives_away(&mut owner, handle, 2 * GIB, 0));
        create_fails(&mut owner, 1000, 3 * GIB, (ON_DEVICE, 0));
        owner.ends();
        keeps(&scene, 1, &lent[..1], 2000);
        keeps(&scene, 2, &lent[..1], 2000);
        keeps(&scene, 3, &lent[1..], last_of_third);
        let report = json_of(&scene, &[]);
        let (_, sure, message) = only(&report);
        assert!(message.contains(" still kept 4 GiB that this process had released"), "{message}");
        assert!(message.contains("in 2 allocations"), "{message}");
        sure == "certain"
    };
    assert_eq!([2000, 900].map(certain), [true, false]);
    // An unsure one adds nothing to an allocation that another process surely kept.
    let scene = Scene::new();
    let mut owner = scene.running(0);
    let lent = gives_away(&mut owner, 1, 2 * GIB, 0);
    create_fails(&mut owner, 1000, 2 * GIB, (ON_DEVICE, 0));
    owner.ends();
    keeps(&scene, 1, &[lent], 900);
    keeps(&scene, 2, &[lent], 2000);
    let report = json_of(&scene, &[]);
    let (_, sure, message) = only(&report);
    assert!(sure == "certain" && message.contains("in 1 allocation;"), "{message}");
}

#[test]
fn the_process_that_is_named_keeps_most_of_this_owner_on_this_device() {
    let scene = Scene::new();
    let (mut owner, mut other) = (scene.running(0), scene.gone(4));
    let [small, large] = [(1, 1), (2, 2)].map(|(handle, size)| gives_away(&mut owner, handle, size * GIB, 0));
    let elsewhere = gives_away(&mut owner, 3, 8 * GIB, 1);
    let foreign = gives_away(&mut other, 9, 16 * GIB, 0);
    create_fails(&mut owner, 1000, 2 * GIB, (ON_DEVICE, 0));
    owner.ends();
    other.ask(2000, 1).ends();
    keeps(&scene, 1, &[small, elsewhere, foreign], 2000);
    keeps(&scene, 2, &[large], 2000);
    let report = json_of(&scene, &[]);
    let (_, _, message) = only(&report);
    assert!(message.contains("process 1002 (rank 2) and one more process"), "{message}");
    assert!(message.contains(" still kept 3 GiB that"), "{message}");
}

/// Address of the library with PyTorch's caching allocator.
const ALLOCATOR: u64 = 0x77_0000;

/// A call of cuMemAlloc on device 0.
fn allocation(actor: &Actor, at: u64, size: u64) -> Call {
    let mut call = actor.makes(FnId::cuMemAlloc_v2, at);
    writer::set(&mut call, "bytesize", &size.to_le_bytes());
    call.details.devices = (Some(0), None);
    call
}

fn allocates(actor: &mut Actor, at: u64, address: u64, size: u64, caller: u64) {
    let mut call = allocation(actor, at, size);
    writer::set(&mut call, "dptr", &address.to_le_bytes());
    call.details.frames = vec![call.caller, caller];
    actor.add(&call);
}

fn allocation_fails(actor: &mut Actor, at: u64, size: u64, free: u64) {
    let mut call = allocation(actor, at, size);
    call.outcome = Outcome::Returned(2);
    call.details.device_memory =
        Some(DeviceMemoryState { device: 0, free, total: 16 * GIB, counted_bytes: 0, counted: 0 });
    actor.add(&call);
}

/// A trainer has 10 GiB of device 0, and 4 GiB of device 1. Then an engine wants 8 GiB of device 0.
fn trained(library: &str, free: u64) -> Value {
    let scene = Scene::new();
    let (mut engine, mut trainer) = (scene.running(0), scene.gone(1));
    let range = ALLOCATOR..ALLOCATOR + 0x1_0000;
    let library = Library { base: ALLOCATOR, range, since: 0, build_id: vec![0xef], path: library.into() };
    trainer.writer().library(&library).expect("a library");
    allocates(&mut trainer, 100, 0x1_0000_0000, 10 * GIB, ALLOCATOR + 0x20);
    trainer.create(110, 7, 4 * GIB, 1).ask(2000, 1).ends();
    allocation_fails(&mut engine, 1000, 8 * GIB, free);
    engine.ends();
    json_of(&scene, &[])
}

/// The finding about a full device.
fn exhausted(report: &Value) -> &Value {
    let rows = report["findings"].as_array().expect("rows");
    rows.iter().find(|row| row["rule"] == "memory-exhausted").unwrap_or_else(|| panic!("{report:#}"))
}

#[test]
fn a_trainer_is_told_to_empty_its_cache_if_its_allocator_has_one() {
    let report = trained("/py/torch/lib/libc10_cuda.so", 6 * GIB);
    let found = exhausted(&report);
    assert_eq!((&found["severity"], &found["confidence"]), (&json!("error"), &json!("certain")));
    let message = found["message"].as_str().expect("a text");
    assert!(message.starts_with("process 1001 (rank 1) holds 10 GiB in 1 allocation: 10 GiB made at "), "{message}");
    assert!(message.contains("; 6 GiB of 16 GiB were free on "), "{message}");
    assert!(message.ends_with(", and the call asked for 8 GiB"), "{message}");
    assert!(found["hint"].as_str().expect("a text").contains("torch.cuda.empty_cache()"), "{found:#}");
    // Memory of the other device is in no row.
    let rows = report["memory"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| row["bytes"].as_u64()).collect::<Vec<_>>(), [Some(10 * GIB)]);
    assert_eq!(report["memory"][0]["unaccounted"], 0);
    let times = report["memory_over_time"].as_array().expect("rows");
    let of_device = times.iter().find(|row| row["device"] == report["memory"][0]["device"]).expect("a row");
    assert_eq!(of_device["series"][0]["bytes"], json!([10 * GIB, 0]), "it has ended");
    assert_eq!(of_device["failures"][0]["at_ns"], report["memory"][0]["at_ns"]);
    let other = trained("/opt/lib/libother.so", 6 * GIB);
    assert!(!exhausted(&other)["hint"].as_str().expect("a text").contains("torch"), "{other:#}");
}

#[test]
fn memory_without_a_row_is_not_blamed_on_who_has_less() {
    // 15 GiB are in use, of which the recording has 10.
    let report = trained("/opt/lib/libother.so", GIB);
    assert_eq!(
        (&exhausted(&report)["confidence"], &report["memory"][0]["unaccounted"]),
        (&json!("certain"), &json!(5 * GIB))
    );
    // 2 GiB more than the trainer has would have to be free.
    let scene = Scene::new();
    let mut engine = scene.running(0);
    allocates(&mut engine, 100, 0x1_0000_0000, GIB, 0x20);
    allocation_fails(&mut engine, 1000, 8 * GIB, 3 * GIB);
    engine.ends();
    let report = json_of(&scene, &[]);
    let message = exhausted(&report)["message"].as_str().expect("a text");
    assert!(message.starts_with("12 GiB are held by processes outside of this job"), "{message}");
    assert_eq!(exhausted(&report)["confidence"], "inferred");
}

#[test]
fn a_process_outside_of_the_job_is_named_from_the_sample() {
    let scene = Scene::new();
    let mut engine = scene.running(0);
    allocates(&mut engine, 100, 0x1_0000_0000, GIB, 0x20);
    allocation_fails(&mut engine, 1000, 8 * GIB, 3 * GIB);
    engine.ends();
    let device =
        json_of(&scene, &[])["memory"][0]["device"].as_str().expect("a text").replace(['-', 'G', 'P', 'U'], "");
    let job = Job::open(&scene.dir()).expect("a recording");
    let (boot_id, origin) = (job.processes[0].header.boot_id, job.clock(&job.processes[0]).origin.monotonic);
    let holder = |pid: u32, gib: u64, name: &str| MemoryHolder {
        pid,
        process: Some((pid, 77)),
        bytes: Some(gib * GIB),
        name: name.into(),
    };
    let sample = MemorySample {
        boot_id,
        at: origin + 1_000_000_000,
        device: u128::from_str_radix(&device, 16).expect("a UUID").to_be_bytes(),
        total: 16 * GIB,
        used: 13 * GIB,
        free: 3 * GIB,
        holders: Some(vec![holder(4242, 11, "python3"), holder(9, 1, "Xorg")]),
    };
    let text = format!("{FIRST_LINE}\n{}\n", sample.to_line());
    std::fs::write(scene.dir().join(format!("{MEMORY_SAMPLES}x-1")), text).expect("a file");
    let report = json_of(&scene, &[]);
    let message = exhausted(&report)["message"].as_str().expect("a text");
    assert!(message.starts_with("process 4242 (python3), which is not in this job, holds 11 GiB"), "{message}");
    let memory = &report["memory"][0];
    assert_eq!((memory["other_processes"].as_array().map(Vec::len), &memory["unaccounted"]), (Some(2), &json!(0)));
}

#[test]
fn a_context_that_does_not_fit_is_explained_by_the_memory_of_its_device() {
    let fails = |device: i32| {
        let scene = Scene::new();
        let (mut engine, mut trainer) = (scene.running(0), scene.gone(1));
        allocates(&mut trainer, 100, 0x1_0000_0000, 15 * GIB, 0x20);
        trainer.ask(2000, 1).ends();
        runs_out(&mut engine, 1000, FnId::cuDevicePrimaryCtxRetain, &[("dev", &device.to_le_bytes())]);
        engine.ends();
        json_of(&scene, &[])
    };
    let report = fails(0);
    let found = exhausted(&report);
    let message = found["message"].as_str().expect("a text");
    assert!(message.starts_with("process 1001 (rank 1) holds 15 GiB"), "{message}");
    assert_eq!((&found["severity"], &found["confidence"]), (&json!("error"), &json!("inferred")));
    let other = fails(1);
    assert!(other["findings"].as_array().expect("rows").iter().all(|row| row["rule"] != "memory-exhausted"));
}

#[test]
fn a_failure_that_a_fault_plan_made_up_is_not_explained() {
    let scene = Scene::new();
    let mut engine = scene.running(0);
    allocates(&mut engine, 100, 0x1_0000_0000, 15 * GIB, 0x20);
    let mut call = allocation(&engine, 1000, 8 * GIB);
    (call.outcome, call.injected) = (Outcome::Returned(2), true);
    engine.add(&call).ends();
    let report = json_of(&scene, &[]);
    assert!(report["findings"].as_array().expect("rows").iter().all(|row| row["rule"] != "memory-exhausted"));
}

/// The child keeps half of the memory of device 0. Then a pool on the device of the first argument has too little left.
const KEEPS: &str = r#"
#include "vmm.h"
typedef struct { int type, types; Location location; void *windows; size_t most; unsigned char rest[56]; } AllocProps;
int cuMemPoolCreate(void **, const AllocProps *), cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, void *, void *);
int main(int argc, char **argv) {
    int pair[2], fd, device = atoi(argv[argc - 1]);
    char byte = 'x';
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    size_t free, total;
    pid_t child = fork();
    Allocation h;
    start(0);
    IS(cuMemGetInfo_v2(&free, &total), 0);
    size_t size = total / 2 / GRANULE * GRANULE;
    if (!child) {
        IS(close(pair[0]), 0);
        IS(import(&h, receive_descriptor(pair[1])), 0);
        map(h, size, 0);
        IS(write(pair[1], &byte, 1), 1);
        IS(read(pair[1], &byte, 1), 1);
        CUdeviceptr more;
        IS(cuMemAddressReserve(&more, GRANULE, 0, 0, 0), 0);
        _exit(0);
    }
    IS(close(pair[1]), 0);
    IS(create(&h, 0, size), 0);
    IS(cuMemExportToShareableHandle(&fd, h, 1, 0), 0);
    send_descriptor(pair[0], fd);
    IS(close(fd), 0);
    IS(read(pair[0], &byte, 1), 1);
    IS(cuMemRelease(h), 0);
    AllocProps wanted = {.type = 1, .location = {1, device}, .most = GRANULE};
    void *pool;
    CUdeviceptr at;
    IS(cuMemPoolCreate(&pool, &wanted), 0);
    IS(cuMemAllocFromPoolAsync(&at, 2 * GRANULE, pool, NULL), 2);
    IS(write(pair[0], &byte, 1), 1);
    int status;
    waitpid(child, &status, 0);
    IS(status, 0);
    return 0;
}
"#;

#[test]
fn a_pool_with_a_limit_is_not_short_of_memory_that_importers_keep() {
    let program = support::compile_linked("exhausted", KEEPS);
    let report = |device: &str| -> Value {
        let folder = temp_dir();
        let record = folder.path().join("r");
        let mut run = cupeer();
        run.args(["run", "--sim=nvlink:2", "--trace", "@vmm,@pool", "-o"]).arg(&record);
        run.arg("--").arg(&program).arg(device);
        let ran = done(&mut run);
        assert!(ran.stdout.is_empty(), "{}{}", ran.stdout, ran.stderr);
        let text = support::stdout(cupeer().arg("report").arg(&record).args(["--format", "json"]));
        serde_json::from_str(&text).expect("it is JSON")
    };
    for report in [report("0"), report("1")] {
        assert!(found(&report).is_empty(), "{report:#}");
        let findings = report["findings"].as_array().expect("rows");
        let of_pool = |row: &&Value| row["function"] == "cuMemAllocFromPoolAsync" && row["rule"] == "memory-exhausted";
        let message = findings.iter().find(of_pool).and_then(|row| row["message"].as_str()).expect("a finding");
        assert!(message.contains("its pool has 0 bytes of at most 2 MiB in use"), "{message}");
    }
}
