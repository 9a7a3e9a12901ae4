//! Cases of users, rebuilt: cupeer's message beside that of `CUDA_LOG_FILE=stderr` about the same program.
//!
//! The cases are those that can be rebuilt without a GPU. Each test shows both texts (`--nocapture`); ours has the words
//! that decide the matter, and the driver's has none of them.

mod spaces;

use super::scenes::{How, Play, cannot, words};
use crate::support::{compile_shared, done, temp_dir};
use std::collections::BTreeSet;
use std::fs;

/// Plays a case: `rules` are broken, and ours has `wanted`.
#[track_caller]
fn case(program: &'static str, name: &'static str, machine: &'static str, rules: &[&str], wanted: &[&str]) {
    let play = Play { program, name, machine };
    let folder = temp_dir();
    // One case has a library whose name is known.
    let library = folder.path().join("libnccl.so.2");
    fs::copy(compile_shared("programs/rules/library.c", &["-DNUMBER=3"]), &library).unwrap();
    let variables = [("NCCL_LIBRARY", library.as_path())];
    let alone = done(play.alone(How::Bad).env("CUDA_LOG_FILE", "stderr").envs(variables));
    if cannot(&alone) {
        return;
    }
    assert!(alone.status.success(), "{}", alone.stderr);
    let checked = play.checked(How::Bad, &variables);
    println!("=== {name}, the driver\n{}=== {name}, cupeer\n{}", alone.stderr, checked.done.stderr);
    assert_eq!((&checked.done.stdout, checked.done.status.code()), (&alone.stdout, Some(0)));
    assert_eq!(checked.rules(), rules.iter().copied().collect::<BTreeSet<_>>());
    // The report has facts that a process cannot tell after its end, and those that break no rule.
    let is_late = rules.is_empty() || [["ipc-never-closed"], ["vmm-access"]].iter().any(|late| rules == late);
    let at_the_end = if is_late { checked.text.as_str() } else { "" };
    let (ours, theirs) = (words(&format!("{} {at_the_end}", checked.done.stderr)), words(&alone.stderr));
    for wanted in wanted {
        assert!(ours.contains(wanted), "cupeer does not say {wanted:?}");
        assert!(!theirs.contains(wanted), "the driver says {wanted:?}, too");
    }
}

#[test]
fn a3_memory_of_a_pool_in_a_library_that_shares_by_handles() {
    let wanted =
        ["memory of a pool; it comes from cuMemAllocAsync or cudaMallocAsync", "handle types NONE", "with cudaMalloc"];
    case("cases_alone", "A3", "nvlink:2", &["ipc-memory-kind"], &wanted);
}

#[test]
fn a4_an_export_that_nobody_looked_at() {
    let wanted = ["memory of a pool", "all 64 bytes of the handle are 0", "nobody checked the result"];
    case("cases_shared", "A4", "nvlink:2", &["ipc-memory-kind", "ipc-unknown-handle"], &wanted);
}

#[test]
fn a5_managed_memory() {
    let wanted = ["managed memory; it comes from cuMemAllocManaged", "cannot be shared between processes"];
    case("cases_alone", "A5", "nvlink:2", &["ipc-memory-kind"], &wanted);
}

#[test]
fn a7_a_tensor_inside_a_block_whose_offset_is_lost() {
    let wanted = [
        "1536 bytes into the 4 MiB allocation",
        "send the offset with the handle",
        "returned the start of the allocation",
    ];
    case("cases_shared", "A7", "nvlink:2", &["ipc-interior-pointer", "ipc-offset-not-added"], &wanted);
}

#[test]
fn a8_two_arrays_with_one_handle() {
    let wanted = ["512 bytes into", "the handle refers to the whole allocation"];
    case("cases_alone", "A8", "nvlink:2", &["ipc-interior-pointer"], &wanted);
}

#[test]
fn a10_a_library_that_tries_on_purpose() {
    let wanted = ["note ipc-memory-kind", "NCCL tries one export", "libnccl.so.2"];
    case("cases_alone", "A10", "nvlink:2", &["ipc-memory-kind"], &wanted);
}

#[test]
fn b1_a_rank_that_sends_to_itself() {
    let wanted = ["is opened in the process that exported it", "use the pointer itself"];
    case("cases_alone", "B1", "nvlink:2", &["ipc-open-in-exporting-process"], &wanted);
}

#[test]
fn b3_mapped_already() {
    let wanted = ["is already open in this process", "share one pointer"];
    case("cases_shared", "B3", "answers nvlink:2", &["ipc-already-mapped"], &wanted);
}

#[test]
fn b4_a_helper_thread_that_opens_without_a_context() {
    let wanted = ["the primary context of device 0 exists, but is not current here", "cudaSetDevice"];
    case("cases_shared", "B4-open", "nvlink:2", &["no-current-context"], &wanted);
}

#[test]
fn b4_a_helper_thread_that_closes_without_a_context() {
    let wanted = ["another thread of this process had one", "cudaSetDevice"];
    case("cases_shared", "B4-close", "nvlink:2", &["no-current-context"], &wanted);
}

#[test]
fn b5_the_number_of_another_rank() {
    let wanted = ["CUDA_VISIBLE_DEVICES=1", "this process sees only device 0", "Exchange UUIDs"];
    case("cases_alone", "B5", "nvlink:2", &["device-out-of-range"], &wanted);
}

#[test]
fn b5_the_same_number_and_another_gpu() {
    let wanted = ["this process opened it on its own device 0", "exchange UUIDs"];
    case("cases_shared", "B5-order", "nvlink:2", &["ipc-device-order"], &wanted);
}

#[test]
fn b6_a_gpu_that_the_job_left_out() {
    let wanted = ["has no access to /dev/nvidia99", "--gpu-bind=none"];
    case("apart", "ipc-device-hidden", "answers nvlink:2", &["ipc-device-hidden"], &wanted);
}

#[test]
fn b7_a_handle_that_nobody_filled() {
    let wanted = ["all 64 bytes of the handle are 0", "its export failed or was skipped"];
    case("cases_shared", "B7", "nvlink:2", &["ipc-unknown-handle"], &wanted);
}

#[test]
fn b9_a_client_and_a_server_that_count_devices_differently() {
    let wanted = ["device 0 ", "cannot reach the memory on device 1"];
    case("cases_shared", "B9", "none:2", &["ipc-devices-apart"], &wanted);
}

#[test]
fn c1_freed_before_the_others_closed() {
    let wanted = ["was freed while", "and one more process", "Close the handle in the importers first"];
    case("cases_life", "C1", "nvlink:2", &["ipc-freed-while-open"], &wanted);
}

#[test]
fn c2_never_closed() {
    let wanted = ["exits without closing 8 handles", "32 MiB of other processes' memory"];
    case("cases_life", "C2", "nvlink:2", &["ipc-never-closed"], &wanted);
}

#[test]
fn c3_closed_once_a_piece() {
    let wanted = ["is already closed", "as often as it had opened it"];
    case("cases_life", "C3", "nvlink:2", &["ipc-closed-twice"], &wanted);
}

#[test]
fn c5_closed_after_the_driver() {
    let wanted = ["has already shut down", "This is harmless at exit"];
    case("cases_life", "C5", "answers nvlink:2", &["driver-shutting-down", "ipc-never-closed"], &wanted);
}

/// Actions of the runtime in every exiting process are not blamed on anybody, but others that come too late are reported.
#[test]
fn c10_released_after_the_driver() {
    let play = Play { program: "cases_life", name: "C10", machine: "answers nvlink:2" };
    for (how, rules) in [(How::Good, &[][..]), (How::Bad, &["driver-shutting-down"])] {
        let checked = play.checked(how, &[]);
        let (stderr, text) = (&checked.done.stderr, &checked.text);
        assert_eq!(checked.done.status.code(), Some(0), "{stderr}");
        assert_eq!(checked.rules(), rules.iter().copied().collect(), "{stderr}{text}");
        assert!(!stderr.contains("cuDevicePrimaryCtxRelease"), "{stderr}");
        assert!(text.contains("cuDevicePrimaryCtxRelease = CUDA_ERROR_DEINITIALIZED (expected)"), "{text}");
        let group = |function: &str| {
            let groups = checked.report["failure_groups"].as_array().expect("groups").clone();
            groups.into_iter().find(|group| group["function"] == function)
        };
        assert_eq!(group("cuDevicePrimaryCtxRelease").expect("it is counted")["usual"], true);
        assert_eq!(group("cuIpcOpenMemHandle_v2").is_some_and(|group| group["usual"] == false), how == How::Bad);
    }
}

#[test]
fn c6_an_address_that_comes_back() {
    let wanted = ["was freed while", "open in process"];
    case("cases_life", "C6", "nvlink:2", &["ipc-freed-while-open"], &wanted);
}

#[test]
fn c7_the_producer_ended_first() {
    let wanted = ["has ended", "Make the exporter wait until its importers have closed"];
    case("cases_life", "C7", "nvlink:2", &["ipc-exporter-gone"], &wanted);
}

#[test]
fn c9_a_peer_that_was_started_anew() {
    let wanted = ["has ended", "Make the exporter wait until its importers have closed"];
    case("cases_life", "C9", "nvlink:2", &["ipc-exporter-gone"], &wanted);
}

#[test]
fn d1_two_containers_and_one_pid() {
    let wanted = ["both have pid", "in two pid namespaces", "docker run --init"];
    case("apart", "ipc-equal-pids", "nvlink:2", &["ipc-equal-pids"], &wanted);
}

#[test]
fn e1_one_gpu_for_each_rank() {
    let wanted = ["cannot reach the memory on", "NCCL_P2P_DISABLE=1"];
    case("cases_shared", "E1", "none:2", &["ipc-devices-apart"], &wanted);
}

#[test]
fn e2_more_peers_than_there_is_room_for() {
    let wanted = ["has reached its limit of peers", "enabled 8 of them"];
    case("cases_alone", "E2", "pcie:10", &["peer-limit"], &wanted);
}

#[test]
fn e3_enabled_by_two_parts_of_a_program() {
    let wanted = ["already has access to device 1", "Treat this result as success"];
    case("cases_alone", "E3", "nvlink:2", &["peer-already-enabled"], &wanted);
}

#[test]
fn e4_the_wrong_context_is_current() {
    let wanted = ["is the current context itself", "Otherwise, make the context that should get access current"];
    case("cases_alone", "E4", "nvlink:2", &["peer-same-device"], &wanted);
}

#[test]
fn e12_forked_after_the_driver_was_initialised() {
    let wanted = ["initialized CUDA before the fork", "or with spawn"];
    case("cases_alone", "E12", "nvlink:2", &["used-after-fork"], &wanted);
}
