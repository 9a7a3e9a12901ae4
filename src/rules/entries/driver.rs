//! Notes about the driver, and about calls that fail without a broken rule.

macro_rules! driver_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule DriverUndocumented "driver-undocumented-result" {
    says: "A driver should return only what its documentation lists for the call.",
    functions: [cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute, cuDeviceGetP2PAtomicCapabilities, cuCtxEnablePeerAccess,
                cuCtxDisablePeerAccess, cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2,
                cuIpcCloseMemHandle, cuIpcGetEventHandle, cuIpcOpenEventHandle],
    severity: Note, scope: Call, found: Unexplained, tells: [],
    rests_on: Practice("Code that handles only the documented results misbehaves at any other."),
    costs: "Nothing by itself: it is the driver's deviation, not the program's.",
    hint: "Treat any undocumented result as an ordinary failure.",
    only_at_the_call: "which causes the driver rules out",
    seen: "dask-cuda#639, cuda-api-wrappers#513",
}
rule DriverContradicts "driver-contradicts-state" {
    says: "A driver's result should agree with its earlier results.",
    functions: [cuCtxEnablePeerAccess, cuIpcCloseMemHandle],
    reasons: [
        DriverContradictsEnable { from: Device, to: Device }: ("the driver returned CUDA_SUCCESS for access that was already enabled; the access is from {from} to {to}, and the documented result is CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"),
        DriverContradictsClose { address: u64 }: ("the driver returned CUDA_SUCCESS for closing {address:#x} again; it had been closed as often as it was opened"),
    ],
    severity: Note, scope: Process, found: InSuccesses, tells: [],
    rests_on: Documented("cuCtxEnablePeerAccess", "Returns CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED if direct access of peerContext from the current context has already been enabled."),
    rests_on_at: [
        cuIpcCloseMemHandle: Documented("cuIpcCloseMemHandle", "Decrements the reference count of the memory returned by cuIpcOpenMemHandle by 1. When the reference count reaches 0, this API unmaps the memory."),
    ],
    costs: "Nothing by itself: the driver deviates, or cupeer missed a call.",
    hint: "Check whether `cupeer report` lists libraries whose calls bypass cupeer. If not, report the problem to the driver's vendor.",
}
rule CallFailed "call-failed" {
    says: "A call failed although no rule is broken.",
    functions: [cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute, cuDeviceGetP2PAtomicCapabilities, cuCtxEnablePeerAccess,
                cuCtxDisablePeerAccess, cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2,
                cuIpcCloseMemHandle, cuIpcGetEventHandle, cuIpcOpenEventHandle],
    severity: Note, scope: Call, found: Unexplained, tells: [],
    rests_on: Practice("As far as cupeer can see, no rule is broken. The finding lists the causes that cupeer knows and did not rule out, the most likely first; or it has the words of the driver or of its documentation."),
    costs: "The call's result.",
    hint: "If the finding lists causes, check the most likely one first. `cupeer explain RESULT`, such as `cupeer explain MAP_FAILED`, lists all known causes of a result.",
    only_at_the_call: "which causes the driver rules out",
}
    } };
}
