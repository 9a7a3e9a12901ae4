//! Causes of failures that no rule decides: practical meanings of a result of a call.

use cupeer_spec::function::FnId::{self, *};
use cupeer_spec::results::Result::{self, *};

/// Possible cause of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cause {
    functions: &'static [FnId],
    results: &'static [Result],
    /// Text of the cause, which continues a sentence after "most likely".
    pub text: &'static str,
    /// True if this is a cause only when no process under cupeer exported the handle.
    pub is_of_unrecorded_exporters: bool,
}

/// Returns the possible causes of a function's result, the most likely first.
pub fn causes(function: FnId, result: i32) -> impl Iterator<Item = &'static Cause> {
    let is_returned = move |cause: &Cause| cause.results.iter().any(|known| *known as i32 == result);
    CAUSES.iter().filter(move |cause| cause.functions.contains(&function) && is_returned(cause))
}

const OPEN: &[FnId] = &[cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2];
const OPEN_ANY: &[FnId] = &[cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle];

const fn cause(functions: &'static [FnId], results: &'static [Result], text: &'static str) -> Cause {
    Cause { functions, results, text, is_of_unrecorded_exporters: false }
}

static CAUSES: &[Cause] = &[
    Cause {
        // If a process under cupeer exported the handle, the platform supports legacy IPC.
        is_of_unrecorded_exporters: true,
        ..cause(
            OPEN_ANY,
            &[INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED],
            "the platform has no legacy IPC (WSL2, Tegra, MIG, a vGPU, gVisor): see CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED",
        )
    },
    Cause {
        is_of_unrecorded_exporters: true,
        ..cause(
            OPEN,
            &[INVALID_VALUE, INVALID_HANDLE, NOT_PERMITTED, MAP_FAILED],
            "the exporter, which does not run under cupeer, has exited or freed the memory",
        )
    },
    cause(
        OPEN,
        &[MAP_FAILED, OUT_OF_MEMORY],
        "there is not enough space for the mapping: in this process's address space (ulimit -v limits it), or in the GPU's BAR1 (nvidia-smi -q -d MEMORY shows how much is free)",
    ),
    cause(
        OPEN,
        &[INVALID_DEVICE, PEER_ACCESS_UNSUPPORTED],
        "the exporter's device has no peer path to this one (PCIe without P2P, an IOMMU in the way)",
    ),
    Cause {
        is_of_unrecorded_exporters: true,
        ..cause(
            OPEN,
            &[INVALID_CONTEXT],
            "the exporter runs in another pid namespace under the same pid, and not under cupeer",
        )
    },
    cause(
        &[cuIpcOpenEventHandle],
        &[MAP_FAILED],
        "the exporter's shared file of events cannot be opened: it has exited, or runs as another user or in another mount namespace",
    ),
    cause(
        &[cuIpcOpenEventHandle],
        &[PEER_ACCESS_UNSUPPORTED],
        "the devices of the two processes cannot reach each other",
    ),
    cause(&[cuIpcGetEventHandle], &[INVALID_HANDLE], "the event is not one of the driver's, or was destroyed"),
    cause(
        &[cuIpcGetEventHandle],
        &[OUT_OF_MEMORY, MAP_FAILED],
        "the process has 4,096 interprocess events, exported or not: the driver allows no more (measured with driver 580)",
    ),
    cause(&[cuIpcGetMemHandle], &[OUT_OF_MEMORY, MAP_FAILED], "the driver has no resources left for exports"),
    cause(
        &[cuIpcGetMemHandle, cuIpcGetEventHandle],
        &[NOT_SUPPORTED, INVALID_VALUE],
        "the platform has no legacy IPC (WSL2, Tegra, MIG, a vGPU): see CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED",
    ),
    cause(
        &[cuIpcCloseMemHandle],
        &[INVALID_HANDLE, MAP_FAILED],
        "the mapping is in use or damaged: the driver could not remove it (see its own log, and dmesg)",
    ),
    cause(
        &[cuIpcGetMemHandle],
        &[INVALID_HANDLE],
        "the allocation has no handle: see its kind with cuPointerGetAttributes",
    ),
    cause(
        &[cuMemGetAllocationPropertiesFromHandle],
        &[INVALID_VALUE],
        "the handle was released, and no mapping of it is left",
    ),
    cause(&[cuMemMap], &[INVALID_VALUE], "the range is not in one reservation (cuMemAddressReserve)"),
    cause(
        &[cuMemAddressFree],
        &[INVALID_VALUE],
        "the range is not a reservation: it was already freed, or its address or size differs",
    ),
    cause(
        &[cuMemAddressReserve],
        &[OUT_OF_MEMORY],
        "no addresses are left (there can be 128 TiB); the report shows RESERVED beside MAPPED",
    ),
    cause(&[cuMemRetainAllocationHandle], &[INVALID_VALUE], "nothing is mapped at this address"),
    cause(&[cuMemSetAccess], &[INVALID_VALUE], "nothing is mapped in a part of the range"),
    cause(
        &[cuCtxEnablePeerAccess],
        &[MAP_FAILED],
        "the device's BAR cannot be mapped: a display on the GPU, a patched driver, or a BAR that is too small (nvidia-smi -q -d MEMORY)",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_found_by_function_and_result() {
        let texts = |function, result: Result| causes(function, result as i32).count();
        assert!(texts(cuIpcOpenMemHandle_v2, INVALID_VALUE) >= 2);
        assert_eq!(texts(cuDeviceCanAccessPeer, INVALID_DEVICE), 0);
        assert!(CAUSES.iter().all(|cause| !cause.text.ends_with('.')));
    }
}
