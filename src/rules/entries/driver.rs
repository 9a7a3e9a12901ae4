//! What is noted of the driver, and of calls that fail without a broken rule.

macro_rules! driver_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule DriverUndocumented "driver-undocumented-result" {
    says: "A driver returns what its documentation lists for the call.",
    functions: [cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute, cuDeviceGetP2PAtomicCapabilities, cuCtxEnablePeerAccess,
                cuCtxDisablePeerAccess, cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2,
                cuIpcCloseMemHandle, cuIpcGetEventHandle, cuIpcOpenEventHandle],
    results: [],
    severity: Note, scope: Call,
    rests_on: Practice("Code that handles the documented results alone takes a wrong turn where another one comes."),
    costs: "Nothing by itself: it is the driver's deviation, not the program's.",
    cause: "",
    ruled_out: "",
    hint: "Handle every other result as a failure of the call, not as impossible.",
    usual: [],
    seen: "dask-cuda#639, cuda-api-wrappers#513",
    status: Checked,
}
rule DriverContradicts "driver-contradicts-state" {
    says: "A driver's answer agrees with what it has answered before.",
    functions: [cuCtxEnablePeerAccess, cuIpcCloseMemHandle], results: [],
    severity: Note, scope: Process,
    rests_on: Documented("cuCtxEnablePeerAccess", "Returns CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED if direct access of peerContext from the current context has already been enabled."),
    costs: "Nothing by itself: it is the driver's deviation, or a call that cupeer has not seen.",
    cause: "",
    ruled_out: "",
    hint: "Look whether `cupeer report` names libraries whose calls escape; else tell whoever made this driver.",
    usual: [],
    seen: "",
    status: Checked,
}
rule CallFailed "call-failed" {
    says: "A call that fails is looked at.",
    functions: [cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute, cuDeviceGetP2PAtomicCapabilities, cuCtxEnablePeerAccess,
                cuCtxDisablePeerAccess, cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2,
                cuIpcCloseMemHandle, cuIpcGetEventHandle, cuIpcOpenEventHandle],
    results: [],
    severity: Note, scope: Call,
    rests_on: Practice("No rule is broken as far as can be seen: what is said are the causes that were ruled out, and those that remain."),
    costs: "The call's result.",
    cause: "",
    ruled_out: "",
    hint: "Look at the causes that remain, in their order.",
    usual: [],
    seen: "",
    status: Checked,
}
    } };
}
pub(crate) use driver_rules;
