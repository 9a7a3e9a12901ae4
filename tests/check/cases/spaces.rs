//! Cases of virtual memory: allocators that sleep, descriptors that are refused, fabric handles without a channel.

use super::case;

/// Words about FABRIC without a channel.
const NO_CHANNEL: [&str; 3] =
    ["cannot open an IMEX channel", "the device's attribute does not show this", "request POSIX_FILE_DESCRIPTOR"];

#[test]
fn a1_an_expandable_segment_in_custom_all_reduce() {
    let wanted = [
        "error ipc-memory-kind: cuIpcGetMemHandle cannot export",
        "which is virtual memory; it comes from cuMemCreate and cuMemMap, with handle types POSIX_FILE_DESCRIPTOR",
        "the cause is PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    ];
    case("cases_spaces", "A1", "nvlink:2", &["ipc-memory-kind"], &wanted);
}

#[test]
fn a6_a_transport_that_falls_back_without_a_word() {
    let wanted = [
        "error vmm-handle-type: handleType is FABRIC, but the allocation has handle types POSIX_FILE_DESCRIPTOR",
        "Set requestedHandleTypes",
    ];
    case("cases_spaces", "A6", "nvlink:2", &["vmm-handle-type"], &wanted);
}

#[test]
fn d3_a_descriptor_that_may_not_be_taken_is_never_imported() {
    case("cases_spaces", "D3", "nvlink:2", &[], &["1, 1 never imported"]);
}

#[test]
fn flashinfer_4089_what_could_not_be_taken_is_imported() {
    let wanted = [
        "error vmm-descriptor: osHandle is -1, which is not a file descriptor",
        "sendmsg with SCM_RIGHTS",
        "CAP_SYS_PTRACE in containers",
    ];
    case("cases_spaces", "flashinfer#4089", "nvlink:2", &["vmm-descriptor"], &wanted);
}

#[test]
fn d4_fabric_handles_that_are_advertised() {
    case("cases_spaces", "D4", "nvlink:2", &["vmm-fabric-without-channel"], &NO_CHANNEL);
}

#[test]
fn deepep_487_both_kinds_of_handles_at_once() {
    case("cases_spaces", "DeepEP#487", "nvlink:2", &["vmm-fabric-without-channel"], &NO_CHANNEL);
}

#[test]
fn mooncake_1297_fabric_handles_on_each_device() {
    case("cases_spaces", "Mooncake#1297", "nvlink:2", &["vmm-fabric-without-channel"], &NO_CHANNEL);
}

#[test]
fn e6_memory_that_only_its_own_device_can_reach() {
    let wanted = [
        "- note vmm-access: cuMemMap, 2 times",
        "only device 0",
        "ever had access to 4 MiB mapped at 0x",
        "this process enabled peer access from device 1",
        "cuCtxEnablePeerAccess has no effect on memory that cuMemMap mapped",
    ];
    case("cases_spaces", "E6", "nvlink:2", &["vmm-access"], &wanted);
}

#[test]
fn e7_a_pool_that_peer_access_does_not_open() {
    // No call says which device uses it, but the report says which one may.
    case("cases_spaces", "E7", "nvlink:2", &[], &["Memory pools", "made - - - destroyed"]);
}

#[test]
fn e8_ranks_whose_devices_do_not_reach_each_other() {
    let wanted = ["error vmm-unreachable-device: ", "cannot reach", "Call cuDeviceCanAccessPeer for each device"];
    case("cases_spaces", "E8", "none:2", &["vmm-unreachable-device"], &wanted);
}

#[test]
fn vllm_36651_what_sleeps_is_put_to_sleep() {
    let wanted = [
        "error vmm-released-twice: 0x",
        "is released once too often; this process had already released it as often as it created or retained it",
    ];
    case("cases_spaces", "vllm#36651-sleep", "nvlink:2", &["vmm-released-twice"], &wanted);
}

#[test]
fn vllm_36651_what_is_awake_is_woken() {
    let wanted = ["error vmm-mapped-twice: 4 MiB at 0x", "Waking an allocator that is already awake maps twice"];
    case("cases_spaces", "vllm#36651-wake", "nvlink:2", &["vmm-mapped-twice"], &wanted);
}

#[test]
fn vllm_45565_the_mapping_that_a_failed_unmapping_left() {
    let wanted = ["error vmm-part-of-mapping: 2 MiB at 0x", "error vmm-mapped-twice: 4 MiB at 0x"];
    case("cases_spaces", "vllm#45565", "nvlink:2", &["vmm-part-of-mapping", "vmm-mapped-twice"], &wanted);
}

#[test]
fn pytorch_186213_addresses_that_are_used_up() {
    let wanted = [
        "note call-failed: cuMemAddressReserve returned CUDA_ERROR_OUT_OF_MEMORY",
        "most likely no addresses are left",
    ];
    case("cases_spaces", "pytorch#186213", "nvlink:2", &["vmm-addresses-exhausted"], &wanted);
}
