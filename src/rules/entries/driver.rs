//! What is noted of the driver, and of calls that fail without a broken rule.

macro_rules! driver_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule DriverUndocumented "driver-undocumented-result" {
    says: "A driver should return only what its documentation lists for the call.",
    functions: [cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute, cuDeviceGetP2PAtomicCapabilities, cuCtxEnablePeerAccess,
                cuCtxDisablePeerAccess, cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2,
                cuIpcCloseMemHandle, cuIpcGetEventHandle, cuIpcOpenEventHandle],
    severity: Note, scope: Call,
    rests_on: Practice("Code that handles only the documented results takes a wrong turn at any other."),
    costs: "Nothing by itself: it is the driver's deviation, not the program's.",
    hint: "Handle every other result as a failure of the call, not as impossible.",
    seen: "dask-cuda#639, cuda-api-wrappers#513",
}
rule DriverContradicts "driver-contradicts-state" {
    says: "A driver's answer should agree with its earlier answers.",
    functions: [cuCtxEnablePeerAccess, cuIpcCloseMemHandle],
    severity: Note, scope: Process,
    rests_on: Documented("cuCtxEnablePeerAccess", "Returns CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED if direct access of peerContext from the current context has already been enabled."),
    costs: "Nothing by itself: the driver deviates, or cupeer has missed a call.",
    hint: "Check whether `cupeer report` names libraries whose calls escape; if not, tell the maker of this driver.",
}
rule CallFailed "call-failed" {
    says: "A call failed although no rule is broken.",
    functions: [cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute, cuDeviceGetP2PAtomicCapabilities, cuCtxEnablePeerAccess,
                cuCtxDisablePeerAccess, cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2,
                cuIpcCloseMemHandle, cuIpcGetEventHandle, cuIpcOpenEventHandle],
    severity: Note, scope: Call,
    rests_on: Practice("As far as can be seen, no rule is broken: the finding lists the causes that were not ruled out, the likeliest first."),
    costs: "The call's result.",
    hint: "Go through the causes in order; `cupeer explain` of the result lists all, with the rules among them.",
}
    } };
}
pub(crate) use driver_rules;
