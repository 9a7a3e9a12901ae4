//! Rules about handles of memory and of events.

macro_rules! ipc_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule IpcMemoryKind "ipc-memory-kind" {
    says: "Memory exported with cuIpcGetMemHandle must come from cuMemAlloc or cudaMalloc.",
    functions: [cuIpcGetMemHandle], results: [INVALID_VALUE],
    severity: Error, scope: Call,
    rests_on: Documented("cuIpcGetMemHandle", "Takes a pointer to the base of an existing device memory allocation created with cuMemAlloc and exports it for use in another process."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE; programs that exit when the check fails print nothing else.",
    cause: "cuIpcGetMemHandle cannot export this kind of memory",
    ruled_out: "the memory comes from cuMemAlloc",
    hint: "Allocate memory that you share by legacy handles with cudaMalloc or cuMemAlloc. Share memory of cuMemCreate with cuMemExportToShareableHandle, and memory of a pool with cuMemPoolExportToShareableHandle.",
    usual: [("libuct_cuda", "UCX tries to export any memory that it gets, and uses another transport if the export fails"),
            ("libnccl", "NCCL tries one export to find out whether legacy handles work, and continues without them")],
    seen: "vllm#42609, UCX#7110, sglang#27593, cudarc#521, ompi#6799, tesseract-core#727",
}
rule IpcPointerUnknown "ipc-pointer-unknown" {
    says: "An exported pointer must be in an allocation that the driver knows.",
    functions: [cuIpcGetMemHandle], results: [INVALID_VALUE],
    severity: Error, scope: Call,
    rests_on: Documented("cuIpcGetMemHandle", "dptr - Base pointer to previously allocated device memory"),
    cause: "the pointer is not in any allocation",
    ruled_out: "the pointer is in an allocation that the driver knows",
    hint: "Check whether this pointer was freed before the call, and whether it is device memory. Host memory from malloc has no handle.",
}
rule IpcReexport "ipc-reexport" {
    says: "Only the process that allocated memory, or created an event, can export it.",
    functions: [cuIpcGetMemHandle, cuIpcGetEventHandle], results: [INVALID_VALUE, INVALID_HANDLE],
    severity: Error, scope: Process,
    rests_on: Observed("cuIpcGetMemHandle of memory from cuIpcOpenMemHandle returns CUDA_ERROR_INVALID_VALUE, cuIpcGetEventHandle of an event from cuIpcOpenEventHandle CUDA_ERROR_INVALID_HANDLE."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE or CUDA_ERROR_INVALID_HANDLE.",
    cause: "it belongs to another process and cannot be exported again",
    ruled_out: "it does not belong to another process",
    hint: "Pass on the 64 bytes that the first process exported. Any number of processes can open them.",
}
rule IpcInteriorPointer "ipc-interior-pointer" {
    says: "An exported pointer should be the start of its allocation.",
    functions: [cuIpcGetMemHandle],
    severity: Note, scope: Call,
    rests_on: Documented("cuIpcGetMemHandle", "dptr - Base pointer to previously allocated device memory"),
    costs: "The call succeeds, but the importer gets the start of the allocation: without the offset it reads and writes other data.",
    hint: "If the importer adds the offset, ignore this. Otherwise, export the start of the allocation (see cuMemGetAddressRange), send the offset with the handle, and add it to the pointer that cuIpcOpenMemHandle returns in the importer.",
    usual: [("libuct_cuda", "UCX sends the start of the allocation along, and its importers add the offset"),
            ("libnccl", "NCCL sends the offset along")],
    seen: "Mooncake#1622, tensorpipe#248, Fuser#3799, UCX#11724, cutorch#580, cupy#9436",
}
rule IpcEventFlags "ipc-event-flags" {
    says: "An exported event must be created with CU_EVENT_INTERPROCESS and CU_EVENT_DISABLE_TIMING.",
    functions: [cuIpcGetEventHandle], results: [INVALID_HANDLE],
    severity: Error, scope: Call,
    rests_on: Documented("cuIpcGetEventHandle", "This event must have been created with the CU_EVENT_INTERPROCESS and CU_EVENT_DISABLE_TIMING flags set."),
    cause: "the event was not created for other processes",
    ruled_out: "the driver does not reject the event for its flags",
    hint: "Create the event with cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING). torch.cuda.Event takes interprocess=True.",
    seen: "cuda-python#1145",
}
rule IpcEventContext "ipc-event-context" {
    says: "An opened event must be recorded in a stream of the context in which it was opened.",
    functions: [cuEventRecord, cuEventRecord_ptsz, cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz],
    results: [INVALID_HANDLE],
    severity: Error, scope: Process,
    rests_on: Documented("cuEventRecord", "hEvent and hStream must be from the same context otherwise CUDA_ERROR_INVALID_HANDLE is returned."),
    cause: "the event was opened in another context than that of the stream",
    ruled_out: "the event was opened in the context of the stream",
    hint: "Open the event while the device of the stream is current (cudaSetDevice before cudaIpcOpenEventHandle). To make a stream of another device wait for an event, call cuStreamWaitEvent: it takes events of all devices.",
}
rule IpcFlags "ipc-flags" {
    says: "The Flags of cuIpcOpenMemHandle must be CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, which is 1.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2], results: [INVALID_VALUE],
    severity: Error, scope: Call,
    rests_on: Documented("cuIpcOpenMemHandle", "Flags - Flags for this operation. Must be specified as CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS"),
    costs: "An even number makes the call fail with CUDA_ERROR_INVALID_VALUE. Current drivers accept odd numbers other than 1.",
    cause: "Flags is not 1",
    ruled_out: "Flags is 1",
    hint: "Pass CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS (cudaIpcMemLazyEnablePeerAccess), even between processes on one device.",
}
rule IpcOpenInExportingProcess "ipc-open-in-exporting-process" {
    says: "A handle must be opened in a different process than the one that exported it.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle], results: [INVALID_CONTEXT],
    severity: Error, scope: Process,
    rests_on: Documented("cuIpcOpenMemHandle", "Opens an interprocess memory handle exported from another process and returns a device pointer usable in the local process."),
    cause: "this process exported the handle itself",
    ruled_out: "this process has not exported these bytes",
    hint: "In the process that exported the memory, use the pointer itself. If another device of that process needs access, also call cuCtxEnablePeerAccess.",
    seen: "UCX#11226, UCX#11603, pytorch#15974, hip#2880",
}
rule IpcEqualPids "ipc-equal-pids" {
    says: "An exporter and an importer in different pid namespaces must have different pids.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2], results: [INVALID_CONTEXT],
    severity: Error, scope: Processes,
    rests_on: Observed("Processes of different pid namespaces can share memory as long as their pids are different numbers; with equal pids the opening returns CUDA_ERROR_INVALID_CONTEXT, as in the exporting process."),
    cause: "the exporter, in another pid namespace, has the pid of this process",
    ruled_out: "the pid in the handle is not that of this process",
    hint: "Run both processes in one pid namespace, so that their pids differ: docker run --pid=container:NAME or --pid=host; in Kubernetes, hostPID or shareProcessNamespace. docker run --init does not help: init then has pid 1 in both containers, and the programs have equal pids again.",
    seen: "vllm#55906, UCX#11512, NCCL#360",
}
rule IpcHandleKind "ipc-handle-kind" {
    says: "Memory handles must be opened as memory, event handles as events.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle], results: [INVALID_VALUE, MAP_FAILED],
    severity: Error, scope: Processes,
    rests_on: Observed("cuIpcOpenEventHandle with a memory handle returns CUDA_ERROR_MAP_FAILED, cuIpcOpenMemHandle with an event handle CUDA_ERROR_INVALID_VALUE."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE or CUDA_ERROR_MAP_FAILED.",
    cause: "the handle is of the other kind",
    ruled_out: "nobody under cupeer exported these bytes as the other kind",
    hint: "Check the order in which the exporter writes the handles and the importer reads them. Both kinds are 64 bytes.",
}
rule IpcOpenAfterFree "ipc-open-after-free" {
    says: "A handle must be opened before its exporter frees or destroys what it names.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle],
    results: [NOT_PERMITTED, INVALID_HANDLE, INVALID_VALUE, MAP_FAILED],
    severity: Error, scope: Processes,
    rests_on: Observed("After the exporter's cuMemFree, cuIpcOpenMemHandle returns CUDA_ERROR_NOT_PERMITTED, which the documentation does not list, and the driver says \"Failed to allocate physical memory\"."),
    costs: "The call fails; its result and the driver's message point elsewhere.",
    cause: "the exporter had freed or destroyed it",
    ruled_out: "no process under cupeer has freed what these bytes name",
    hint: "Keep the allocation until the importer has opened, used, and closed it: wait for the importer before cudaFree. A handle is not valid for new memory at the same address.",
    seen: "UCX#2738, mscclpp#764",
}
rule IpcExporterGone "ipc-exporter-gone" {
    says: "The exporter must keep running as long as another process opens or uses its memory.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle, cuIpcCloseMemHandle],
    results: [INVALID_HANDLE, NOT_PERMITTED, INVALID_VALUE, MAP_FAILED],
    only_shows: [cuIpcCloseMemHandle],
    severity: Error, scope: Processes,
    rests_on: Observed("After the exporter has exited, cuIpcOpenMemHandle returns CUDA_ERROR_INVALID_HANDLE, and the driver says \"Failed to allocate physical memory\"."),
    rests_on_at: [
        cuIpcCloseMemHandle: Observed("After the exporter has exited, reads of the open memory and cuIpcCloseMemHandle still succeed. No call reports to the importer that the exporter exited."),
    ],
    costs: "An open fails, because the memory was freed with its process. A process that has it open may wait for an exporter that will not answer.",
    cause: "the exporter has exited",
    ruled_out: "the exporter runs",
    hint: "Make the exporter wait until its importers have closed their handles. If the exporter crashed, its output may contain the error.",
    seen: "Vox-Fusion#6, vllm#5528, vllm#49238",
}
rule IpcSecondContext "ipc-second-context" {
    says: "An importing process must open all handles from one device of an exporter with one context per device.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2], results: [INVALID_HANDLE, ALREADY_MAPPED, INVALID_CONTEXT],
    severity: Error, scope: Process,
    rests_on: Documented("cuIpcOpenMemHandle", "CUipcMemHandles from each CUdevice in a given process may only be opened by one CUcontext per CUdevice per other process."),
    costs: "The call fails with CUDA_ERROR_INVALID_HANDLE.",
    cause: "another context of this device has memory of that exporter open",
    ruled_out: "no other context of this process has memory of that exporter open",
    hint: "Make the device's primary context current before you open handles (cudaSetDevice, cuDevicePrimaryCtxRetain), as the CUDA runtime and most libraries do. Do not open handles in a context from cuCtxCreate.",
    seen: "UCX#3192, UCX#6560, mscclpp#165, quda#1114",
}
rule IpcAlreadyMapped "ipc-already-mapped" {
    says: "All users of a handle in a process should share one mapping.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2], results: [ALREADY_MAPPED],
    severity: Error, scope: Process,
    rests_on: Practice("Drivers before CUDA 11.2 return CUDA_ERROR_ALREADY_MAPPED if a handle is already open. Newer ones count how often it is open, but were observed to return this result when two threads open one handle at the same time."),
    costs: "The call fails with CUDA_ERROR_ALREADY_MAPPED, which the documentation does not list.",
    cause: "this process already has the same memory open, or opens it in two threads at once",
    ruled_out: "this process does not have it open",
    hint: "Let all users in a process share one pointer, and close it when the last one is done. If two threads can open a handle at the same time, take a lock around cuIpcOpenMemHandle.",
    seen: "UCX#3192, UCX#4599, UCX#11216, mscclpp#165, quda#1114",
}
rule IpcSecondLibrary "ipc-second-library" {
    says: "Only one library of a process should have a handle open.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2],
    severity: Note, scope: Process,
    rests_on: Documented("cuIpcOpenMemHandle", "If the memory handle has already been opened by the current context, the reference count on the handle is incremented by 1 and the existing device pointer is returned."),
    costs: "Both get the same pointer; the memory stays mapped until both have closed it.",
    hint: "If each library closes the handle as often as it opened it, ignore this. Before CUDA 11.2, the second cuIpcOpenMemHandle failed.",
    seen: "quda#1114, mscclpp#165",
}
rule IpcDeviceHidden "ipc-device-hidden" {
    says: "The importer must be allowed to use the exporter's device.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2],
    results: [INVALID_VALUE, INVALID_DEVICE, INVALID_HANDLE, NOT_PERMITTED, MAP_FAILED],
    severity: Error, scope: Processes,
    rests_on: Practice("A container, or a job with a device cgroup, that leaves out the exporter's GPU makes cuIpcOpenMemHandle fail; CUDA_VISIBLE_DEVICES, which only hides it, does not."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE or another code.",
    cause: "this process may not use the exporter's device",
    ruled_out: "this process sees the exporter's device, or may use it",
    hint: "Give every rank all GPUs of the node (srun --gpus-per-node with --gpu-bind=none, docker run --gpus all), and select devices with CUDA_VISIBLE_DEVICES.",
    seen: "ompi#11949, triton#6872, NCCL#1647",
}
rule IpcDevicesApart "ipc-devices-apart" {
    says: "The importer's device must be able to reach the exporter's.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2],
    results: [PEER_ACCESS_UNSUPPORTED, INVALID_DEVICE, MAP_FAILED, INVALID_VALUE],
    severity: Error, scope: Processes,
    rests_on: Documented("cuIpcOpenMemHandle", "cuDeviceCanAccessPeer can determine if a mapping is possible."),
    costs: "The call fails, mostly with CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, which the documentation does not list for it.",
    cause: "the current device cannot reach the exporter's device",
    ruled_out: "the current device can reach the exporter's device",
    hint: "Call cuDeviceCanAccessPeer for the two devices before you exchange handles, and use host memory if it returns 0 (for NCCL: NCCL_P2P_DISABLE=1). Or make the exporter's device current first, and then open the handle.",
    seen: "dask-cuda#639, ray_lightning#24, TensorRT-LLM#1498, TensorRT-LLM#16899, vllm#4233",
}
rule IpcDamagedHandle "ipc-damaged-handle" {
    says: "The 64 bytes of a handle must arrive unchanged.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle],
    results: [INVALID_VALUE, INVALID_HANDLE, MAP_FAILED, NOT_PERMITTED],
    severity: Error, scope: Processes,
    rests_on: Observed("The driver checks some of the 64 bytes. If others are changed, it opens the handle anyway, or returns CUDA_ERROR_INVALID_VALUE."),
    costs: "The call fails, or maps memory other than what was exported.",
    cause: "the bytes were changed on their way",
    ruled_out: "the bytes are unchanged since the export",
    hint: "Send all 64 bytes unchanged. Do not treat the handle as text (strcpy and c_char_p stop at the first NUL), and use a structure of exactly that size.",
    seen: "vllm:vllm/distributed/device_communicators/cuda_wrapper.py",
}
rule IpcUnknownHandle "ipc-unknown-handle" {
    says: "The bytes that are opened must be a handle that a process exported.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle],
    results: [INVALID_VALUE, INVALID_HANDLE, MAP_FAILED, NOT_PERMITTED],
    severity: Error, scope: Processes,
    rests_on: Practice("Programs have opened 64 bytes that nobody had filled, because the export had failed or been skipped in the other process."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_HANDLE or CUDA_ERROR_MAP_FAILED.",
    cause: "nobody exported these bytes",
    ruled_out: "a process under cupeer exported these bytes",
    hint: "Check the result of cuIpcGetMemHandle in the exporter, and how the bytes travel. If the exporter does not run under cupeer, start it with the same --out directory.",
    seen: "NCCL#842",
}
rule IpcOffsetNotAdded "ipc-offset-not-added" {
    says: "If the exported pointer was inside its allocation, the importer must add its offset.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2],
    severity: Note, scope: Processes,
    rests_on: Observed("cuIpcGetMemHandle of a pointer inside an allocation returns the handle of the allocation; cuIpcOpenMemHandle returns its start."),
    costs: "Without the offset the importer reads and writes other data, and nothing fails.",
    hint: "If the importer adds the exporter's offset to the pointer that this call returned, ignore this. cupeer cannot see which addresses it uses.",
    seen: "Mooncake#1622, tensorpipe#248, Fuser#3799",
}
rule IpcDeviceOrder "ipc-device-order" {
    says: "Processes should name a device by its UUID, because its number means another device where CUDA_VISIBLE_DEVICES differs.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2],
    severity: Note, scope: Processes,
    rests_on: Documented("cuIpcOpenMemHandle", "For contexts on different devices cuIpcOpenMemHandle can attempt to enable peer access between the devices as if the user called cuCtxEnablePeerAccess."),
    costs: "Nothing if the importer meant to use another device; otherwise every access goes over the link between two GPUs.",
    hint: "If the importer chose its device by the exporter's number, exchange UUIDs (cuDeviceGetUuid) instead.",
    seen: "Mooncake#3678, tensorpipe#266, UCX#3588, vllm#4233, ray#57927, triton#3647",
}
rule IpcClosedTwice "ipc-closed-twice" {
    says: "An open handle must be closed as often as it was opened, and no more.",
    functions: [cuIpcCloseMemHandle], results: [INVALID_VALUE],
    severity: Error, scope: Process,
    rests_on: Documented("cuIpcCloseMemHandle", "When the reference count reaches 0, this API unmaps the memory."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE; one close too many, while another part of the process has it open, unmaps that part's memory.",
    cause: "this process had already closed it",
    ruled_out: "this process has not closed such an address",
    hint: "Close once per successful cuIpcOpenMemHandle. If several parts of the program use one mapping, count the users, and close after the last one.",
    seen: "UCX#4410, UCX#4431, ucx-py#315",
}
rule IpcCloseAddress "ipc-close-address" {
    says: "A pointer passed to cuIpcCloseMemHandle must be one that cuIpcOpenMemHandle returned.",
    functions: [cuIpcCloseMemHandle], results: [INVALID_VALUE],
    severity: Error, scope: Process,
    rests_on: Documented("cuIpcCloseMemHandle", "dptr - Device pointer returned by cuIpcOpenMemHandle"),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE, and what was opened stays open.",
    cause: "cuIpcOpenMemHandle did not return this pointer",
    ruled_out: "cuIpcOpenMemHandle returned this pointer",
    hint: "Close the pointer that cuIpcOpenMemHandle returned in this process. If this process allocated the memory, free it with cuMemFree.",
}
rule IpcFreeImport "ipc-free-import" {
    says: "Memory of another process must be closed, not freed.",
    functions: [cuMemFree, cuMemFree_v2, cuMemFreeAsync, cuMemFreeAsync_ptsz], results: [INVALID_VALUE],
    severity: Error, scope: Process,
    rests_on: Documented("cuIpcOpenMemHandle", "Memory returned from cuIpcOpenMemHandle must be freed with cuIpcCloseMemHandle."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE, and the memory stays mapped.",
    cause: "the memory belongs to another process",
    ruled_out: "it does not belong to another process",
    hint: "Call cuIpcCloseMemHandle (cudaIpcCloseMemHandle) instead.",
}
    } };
}
pub(crate) use ipc_rules;
