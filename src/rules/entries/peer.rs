//! Rules about any call, and about peer access.

macro_rules! peer_rules {
    ($next:ident $($rest:ident)* $(; $($before:tt)*)?) => { $next! { $($rest)* ; $($($before)*)?

rule UsedAfterFork "used-after-fork" {
    says: "A forked child must not use the driver if its parent initialized the driver before the fork.",
    functions: [cuInit, cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute, cuDeviceGetP2PAtomicCapabilities,
                cuCtxEnablePeerAccess, cuCtxDisablePeerAccess, cuIpcGetMemHandle, cuIpcOpenMemHandle,
                cuIpcOpenMemHandle_v2, cuIpcCloseMemHandle, cuIpcGetEventHandle, cuIpcOpenEventHandle,
                cuMemAddressReserve, cuMemCreate, cuMemImportFromShareableHandle, cuMemMap,
                cuMemExportToShareableHandle, cuMemGetAllocationGranularity, cuMemRetainAllocationHandle,
                cuDeviceGetDefaultMemPool, cuMemPoolCreate, cuMemPoolSetAccess, cuMemPoolExportToShareableHandle,
                cuMemPoolImportFromShareableHandle, cuMemPoolImportPointer, cuMulticastCreate,
                cuMulticastGetGranularity],
    results: [NOT_INITIALIZED],
    severity: Error, scope: Process,
    rests_on: Observed("In a child forked after cuInit, all calls return CUDA_ERROR_NOT_INITIALIZED, even cuInit."),
    costs: "Every call of the child fails with CUDA_ERROR_NOT_INITIALIZED.",
    cause: "the process was forked from one that had initialized the driver",
    ruled_out: "its parent had not initialized the driver before the fork",
    hint: "Start the child before the first CUDA call, or with spawn (multiprocessing.set_start_method(\"spawn\")) or exec.",
    seen: "pytorch#40403, pytorch#1494",
}
rule NotInitialized "not-initialized" {
    says: "cuInit must be called before any other function of the driver.",
    functions: [cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute, cuDeviceGetP2PAtomicCapabilities, cuCtxEnablePeerAccess,
                cuCtxDisablePeerAccess, cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2,
                cuIpcCloseMemHandle, cuIpcGetEventHandle, cuIpcOpenEventHandle],
    results: [NOT_INITIALIZED],
    severity: Error, scope: Call,
    rests_on: Documented("cuInit", "Initializes the driver API and must be called before any other function from the driver API in the current process."),
    cause: "cuInit was not called, or failed",
    ruled_out: "the driver is initialized",
    hint: "Call cuInit(0) first, and check its result. The CUDA runtime calls it at its first call.",
}
rule DriverShuttingDown "driver-shutting-down" {
    says: "Close what you opened before the driver shuts down.",
    functions: [cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute, cuCtxEnablePeerAccess, cuCtxDisablePeerAccess,
                cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcCloseMemHandle, cuIpcGetEventHandle,
                cuIpcOpenEventHandle],
    results: [DEINITIALIZED],
    severity: Note, scope: Call,
    rests_on: Documented("CUDA_ERROR_DEINITIALIZED", "This indicates that the CUDA driver is in the process of shutting down."),
    costs: "The call does nothing; the driver releases everything itself.",
    cause: "the process is exiting, and the driver shut down before this call",
    ruled_out: "the driver is running",
    hint: "This is harmless at exit: a destructor of a static object ran after the driver's own. Close before main returns, or ignore this result at exit.",
    seen: "ompi#3244, UCX#11275",
}
rule ContextDestroyed "context-destroyed" {
    says: "The current context must not have been destroyed.",
    functions: [cuCtxEnablePeerAccess, cuCtxDisablePeerAccess, cuIpcGetMemHandle, cuIpcOpenMemHandle,
                cuIpcOpenMemHandle_v2, cuIpcCloseMemHandle, cuIpcOpenEventHandle],
    results: [CONTEXT_IS_DESTROYED],
    severity: Error, scope: Call,
    rests_on: Documented("CUDA_ERROR_CONTEXT_IS_DESTROYED", "This error indicates that the context current to the calling thread has been destroyed using cuCtxDestroy, or is a primary context which has not yet been initialized."),
    cause: "the current context was destroyed or reset",
    ruled_out: "the driver answers queries about the current context",
    hint: "Find the thread that destroyed or reset the context. Make a valid context current (cuDevicePrimaryCtxRetain, cuCtxSetCurrent) before the call.",
}
rule NoCurrentContext "no-current-context" {
    says: "The calling thread must have a current context.",
    functions: [cuCtxEnablePeerAccess, cuCtxDisablePeerAccess, cuIpcGetMemHandle, cuIpcOpenMemHandle,
                cuIpcOpenMemHandle_v2, cuIpcCloseMemHandle, cuIpcGetEventHandle, cuIpcOpenEventHandle],
    results: [INVALID_CONTEXT],
    severity: Error, scope: Call,
    rests_on: Documented("CUDA_ERROR_INVALID_CONTEXT", "This most frequently indicates that there is no context bound to the current thread."),
    cause: "no context is current in this thread",
    ruled_out: "a context is current in this thread",
    hint: "Call cuDevicePrimaryCtxRetain and cuCtxSetCurrent (or cudaSetDevice, from CUDA 12 on) in this thread before the call. The current context is per thread.",
    seen: "DALI#4817, UCX#10618, LMCache#5169, cuda-python#1145",
}
rule NullArgument "null-argument" {
    says: "Pointers that a function writes to, or must read, must not be NULL.",
    functions: [cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute, cuDeviceGetP2PAtomicCapabilities, cuIpcGetMemHandle,
                cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcGetEventHandle, cuIpcOpenEventHandle],
    results: [INVALID_VALUE],
    severity: Error, scope: Call,
    rests_on: Documented("CUDA_ERROR_INVALID_VALUE", "This indicates that one or more of the parameters passed to the API call is not within an acceptable range of values."),
    cause: "a pointer argument is NULL",
    ruled_out: "no pointer argument is NULL",
    hint: "Pass the address of a variable. If an event or an allocation is NULL, it was never created: check the result of the call that should have created it.",
}
rule DeviceOutOfRange "device-out-of-range" {
    says: "A device must be a number from 0 to one less than cuDeviceGetCount returns.",
    functions: [cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute, cuDeviceGetP2PAtomicCapabilities],
    results: [INVALID_DEVICE],
    severity: Error, scope: Call,
    rests_on: Documented("CUDA_ERROR_INVALID_DEVICE", "This indicates that the device ordinal supplied by the user does not correspond to a valid CUDA device or that the action requested is invalid for the specified device."),
    cause: "this process does not see one of the devices",
    ruled_out: "this process sees both devices",
    hint: "Exchange UUIDs instead of device numbers. CUDA_VISIBLE_DEVICES renumbers the devices of each process from 0, so an index from nvidia-smi or from another process can mean a different device here.",
    seen: "vllm#4233, tensorpipe#412, Mooncake#3678",
}
rule PeerSameDevice "peer-same-device" {
    says: "The two devices or contexts of a peer call must belong to different devices.",
    functions: [cuDeviceGetP2PAttribute, cuDeviceGetP2PAtomicCapabilities, cuCtxEnablePeerAccess, cuCtxDisablePeerAccess],
    results: [INVALID_DEVICE, PEER_ACCESS_UNSUPPORTED, PEER_ACCESS_NOT_ENABLED, INVALID_CONTEXT],
    severity: Error, scope: Call,
    rests_on: Documented("cuDeviceGetP2PAttribute", "Returns CUDA_ERROR_INVALID_DEVICE if srcDevice or dstDevice are not valid or if they represent the same device."),
    rests_on_at: [
        cuCtxEnablePeerAccess: Observed("cuCtxEnablePeerAccess with the current context as peerContext returns CUDA_ERROR_PEER_ACCESS_UNSUPPORTED; the documentation says CUDA_ERROR_INVALID_CONTEXT."),
        cuCtxDisablePeerAccess: Observed("cuCtxDisablePeerAccess with the current context as peerContext returns CUDA_ERROR_PEER_ACCESS_NOT_ENABLED; the documentation says CUDA_ERROR_INVALID_CONTEXT."),
    ],
    costs: "The call fails; a device needs no access to itself.",
    cause: "both sides are the same device",
    ruled_out: "the two sides are different devices",
    hint: "If a loop over all pairs of devices makes this call, skip the pair of a device with itself. Otherwise, make the context that should get access current first (cudaSetDevice, cuCtxSetCurrent), and pass the context of the other device.",
    seen: "pycuda#71",
}
rule PeerAttributeUnknown "peer-attribute-unknown" {
    says: "attrib must be a CUdevice_P2PAttribute that the driver knows.",
    functions: [cuDeviceGetP2PAttribute], results: [INVALID_VALUE],
    severity: Error, scope: Call,
    rests_on: Documented("cuDeviceGetP2PAttribute", "Returns CUDA_ERROR_INVALID_VALUE if attrib is not valid or if value is a null pointer."),
    cause: "the documentation does not list this attrib",
    ruled_out: "the documentation lists this attrib",
    hint: "Check the order of the arguments: value, attrib, srcDevice, dstDevice. An older driver does not know newer attributes.",
}
rule AtomicOperations "atomic-operations-invalid" {
    says: "count must not be 0, and every operation must be a CUatomicOperation.",
    functions: [cuDeviceGetP2PAtomicCapabilities], results: [INVALID_VALUE],
    severity: Error, scope: Call,
    rests_on: Documented("cuDeviceGetP2PAtomicCapabilities", "Returns CUDA_ERROR_INVALID_VALUE if *capabilities or *operations is NULL, if count is 0, or if any of *operations is not valid."),
    cause: "count is 0, or an operation is invalid",
    ruled_out: "count is not 0, and the operations are those of cuda.h",
    hint: "Pass count operations from CU_ATOMIC_OPERATION_INTEGER_ADD to CU_ATOMIC_OPERATION_FLOAT_MAX.",
}
rule PeerFlags "peer-flags" {
    says: "The Flags of cuCtxEnablePeerAccess must be 0.",
    functions: [cuCtxEnablePeerAccess], results: [INVALID_VALUE],
    severity: Error, scope: Call,
    rests_on: Documented("cuCtxEnablePeerAccess", "Returns CUDA_ERROR_INVALID_VALUE if Flags is not 0."),
    cause: "Flags is not 0",
    ruled_out: "Flags is 0",
    hint: "Pass 0. CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS belongs to cuIpcOpenMemHandle.",
}
rule PeerContextInvalid "peer-context-invalid" {
    says: "peerContext must be a context that has not been destroyed.",
    functions: [cuCtxEnablePeerAccess, cuCtxDisablePeerAccess], results: [INVALID_CONTEXT, CONTEXT_IS_DESTROYED],
    severity: Error, scope: Call,
    rests_on: Observed("cuCtxEnablePeerAccess and cuCtxDisablePeerAccess with a context that was destroyed or reset return CUDA_ERROR_CONTEXT_IS_DESTROYED; the documentation says CUDA_ERROR_INVALID_CONTEXT, for whatever is not a valid context."),
    costs: "The call fails with CUDA_ERROR_INVALID_CONTEXT or CUDA_ERROR_CONTEXT_IS_DESTROYED; drivers crash on a pointer that is not a context at all.",
    cause: "peerContext is not a context, or has been destroyed",
    ruled_out: "peerContext is a valid context",
    hint: "Retain the peer's primary context (cuDevicePrimaryCtxRetain) before you pass it, and keep it. A reset or the last release destroys it.",
}
rule PeerAlreadyEnabled "peer-already-enabled" {
    says: "Enable access to a peer context once.",
    functions: [cuCtxEnablePeerAccess], results: [PEER_ACCESS_ALREADY_ENABLED],
    severity: Note, scope: Process,
    rests_on: Documented("cuCtxEnablePeerAccess", "Returns CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED if direct access of peerContext from the current context has already been enabled."),
    costs: "Nothing: access is enabled. In the CUDA runtime it remains the last error until cudaGetLastError reads it, so a later check of a kernel launch reports it.",
    cause: "access to this context was enabled before",
    ruled_out: "access to this context had not been enabled",
    hint: "Treat this result as success. With the CUDA runtime, also call cudaGetLastError() once to clear it; otherwise, a later check reports it. Libraries such as NCCL, PyTorch, and UCX share a context and each enable access in it, so all of them expect this result.",
    seen: "cutorch#112, llama.cpp#5347, owl#184, CUDA.jl#2457, torchcomms#2399",
}
rule PeerNotEnabled "peer-not-enabled" {
    says: "Access must be disabled in the context and the direction in which it was enabled.",
    functions: [cuCtxDisablePeerAccess], results: [PEER_ACCESS_NOT_ENABLED],
    severity: Warning, scope: Process,
    rests_on: Documented("cuCtxDisablePeerAccess", "Returns CUDA_ERROR_PEER_ACCESS_NOT_ENABLED if direct peer access has not yet been enabled from peerContext to the current context."),
    costs: "The call fails with CUDA_ERROR_PEER_ACCESS_NOT_ENABLED and changes nothing.",
    cause: "access from the current context to peerContext is not enabled",
    ruled_out: "access from the current context to peerContext is enabled",
    hint: "If access was disabled before, remove the second call. Otherwise, make the context that enabled access current. Access belongs to that context, and is one-way.",
    seen: "llama.cpp#10152",
}
rule PeerUnreachable "peer-unreachable" {
    says: "cuDeviceCanAccessPeer must be 1 for the devices between which access is enabled.",
    functions: [cuCtxEnablePeerAccess], results: [PEER_ACCESS_UNSUPPORTED],
    severity: Error, scope: Call,
    rests_on: Documented("cuCtxEnablePeerAccess", "Returns CUDA_ERROR_PEER_ACCESS_UNSUPPORTED if cuDeviceCanAccessPeer() indicates that the CUdevice of the current context cannot directly access memory from the CUdevice of peerContext."),
    costs: "The call fails with CUDA_ERROR_PEER_ACCESS_UNSUPPORTED; copies between the devices go through the host.",
    cause: "the driver says that the device of the current context cannot reach that of peerContext",
    ruled_out: "cuDeviceCanAccessPeer is 1 for the two devices",
    hint: "Call cuDeviceCanAccessPeer in this direction first, and copy through the host if it returns 0. `nvidia-smi topo -p2p r` shows all pairs.",
    seen: "horovod#785, ray#17909, llama.cpp#3230",
}
rule PeerLimit "peer-limit" {
    says: "A device must not have more peers than its hardware allows, counted over all processes.",
    functions: [cuCtxEnablePeerAccess, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2], results: [TOO_MANY_PEERS],
    severity: Error, scope: Processes,
    rests_on: Documented("cuCtxEnablePeerAccess", "Returns CUDA_ERROR_TOO_MANY_PEERS if direct peer access is not possible because hardware resources required for peer access have been exhausted."),
    cause: "the device has reached its limit of peers",
    ruled_out: "the driver does not say so",
    hint: "Enable access only for the pairs that are used, or give each process fewer devices with CUDA_VISIBLE_DEVICES. Without NVSwitch, a device has at most eight peers, and all processes that use it share this limit.",
    seen: "llama.cpp#21883, NCCL#51, pytorch#25019, tensorflow#42039",
}
    } };
}
pub(crate) use peer_rules;
