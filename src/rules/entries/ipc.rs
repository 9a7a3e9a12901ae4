//! Rules about handles of memory and of events.

macro_rules! ipc_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule IpcMemoryKind "ipc-memory-kind" {
    says: "Memory exported with cuIpcGetMemHandle must come from cuMemAlloc or cudaMalloc.",
    functions: [cuIpcGetMemHandle], results: [INVALID_VALUE],
    decided_by: memory_kind,
    reasons: [IpcMemoryKind { address: u64, kind: MemoryKind, handle_types: u64, because: Option<&'a str> }: (in memory_kind)],
    severity: Error, scope: Call, found: InFailures, tells: [],
    rests_on: Documented("cuIpcGetMemHandle", "Takes a pointer to the base of an existing device memory allocation created with cuMemAlloc and exports it for use in another process."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE; programs that exit when the check fails print nothing else.",
    cause: "cuIpcGetMemHandle cannot export this kind of memory",
    ruled_out: "the memory comes from cuMemAlloc",
    hint: "Allocate memory that you share by legacy handles with cudaMalloc or cuMemAlloc. Share memory of cuMemCreate with cuMemExportToShareableHandle, and memory of a pool with cuMemPoolExportToShareableHandle.",
    usual: [("libuct_cuda", "UCX tries to export any memory that it gets, and uses another transport if the export fails"),
            ("libnccl", "NCCL tries one export to find out whether legacy handles work, and continues without them")],
    only_at_the_call: "what the driver says of the pointer",
    seen: "vllm#42609, UCX#7110, sglang#27593, cudarc#521, ompi#6799, tesseract-core#727",
}
rule IpcPointerUnknown "ipc-pointer-unknown" {
    says: "An exported pointer must be in an allocation that the driver knows.",
    functions: [cuIpcGetMemHandle], results: [INVALID_VALUE],
    decided_by: pointer_unknown,
    reasons: [IpcPointerUnknown { address: u64 }: (if address == 0 => "dptr is NULL";
            "{address:#x} is not in any allocation that the driver knows; it was freed, is past the end of an allocation, or came from malloc")],
    severity: Error, scope: Call, found: InFailures, tells: [],
    rests_on: Documented("cuIpcGetMemHandle", "dptr - Base pointer to previously allocated device memory"),
    cause: "the pointer is not in any allocation",
    ruled_out: "the pointer is in an allocation that the driver knows",
    hint: "Check whether this pointer was freed before the call, and whether it is device memory. Host memory from malloc has no handle.",
    only_at_the_call: "what the driver says of the pointer, but where it is NULL",
}
rule IpcReexport "ipc-reexport" {
    says: "Only the process that allocated memory, or created an event, can export it.",
    functions: [cuIpcGetMemHandle, cuIpcGetEventHandle], results: [INVALID_VALUE, INVALID_HANDLE],
    decided_by: reexport,
    reasons: [IpcReexport { address: u64, is_event: bool, owner: Option<Process> }: (if is_event => "event {address:#x} cannot be exported: it was opened with cuIpcOpenEventHandle{}", Clause("; it belongs to ", owner, "");
            "{address:#x} cannot be exported: it was opened with cuIpcOpenMemHandle{}", Clause("; it belongs to ", owner, ""))],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Observed("cuIpcGetMemHandle of memory from cuIpcOpenMemHandle returns CUDA_ERROR_INVALID_VALUE, cuIpcGetEventHandle of an event from cuIpcOpenEventHandle CUDA_ERROR_INVALID_HANDLE."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE or CUDA_ERROR_INVALID_HANDLE.",
    cause: "it belongs to another process and cannot be exported again",
    ruled_out: "it does not belong to another process",
    hint: "Pass on the 64 bytes that the first process exported. Any number of processes can open them.",
}
rule IpcInteriorPointer "ipc-interior-pointer" {
    says: "An exported pointer should be the start of its allocation.",
    functions: [cuIpcGetMemHandle],
    reasons: [IpcInteriorPointer { address: u64, base: u64, bytes: u64 }: ("{address:#x} is {} bytes into the {} allocation at {base:#x}; the handle refers to the whole allocation, so the importer must add {0} bytes", address.wrapping_sub(base), Bytes(bytes))],
    severity: Note, scope: Call, found: InSuccesses, tells: [],
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
    decided_by: event_flags,
    reasons: [IpcEventFlags { event: u64 }: ("event {event:#x} cannot be exported; only an event of this process that was created with both CU_EVENT_INTERPROCESS and CU_EVENT_DISABLE_TIMING can")],
    severity: Error, scope: Call, found: InFailures, tells: [],
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
    decided_by: event_context,
    reasons: [IpcEventContext { event: u64, home: Device, current: Option<Device> }: (if let Some(current) = current => "event {event:#x} is of {home}, but {current} is current; it can be recorded only in a stream of the context in which it was opened";
            "hStream is of another context than event {event:#x}; the event is of {home}; it can be recorded only in a stream of the context in which it was opened")],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Documented("cuEventRecord", "hEvent and hStream must be from the same context otherwise CUDA_ERROR_INVALID_HANDLE is returned."),
    cause: "the event was opened in another context than that of the stream",
    ruled_out: "the event was opened in the context of the stream",
    hint: "Open the event while the device of the stream is current (cudaSetDevice before cudaIpcOpenEventHandle). To make a stream of another device wait for an event, call cuStreamWaitEvent: it takes events of all devices.",
}
rule IpcOneForSeveral "ipc-one-for-several" {
    says: "Each buffer that a process exports must keep its memory until its importers are done.",
    functions_of: USES,
    reasons: [IpcOneForSeveral { owner: Process, handle: Handle, exports: u64, reader: Process, read: (u64, u64) }: ("{owner} exported {handle} {exports} times before any process opened it; {reader} opened it as often, and read {} each time, with no recorded write in between; if these were several buffers, they are one block now", Part(read))],
    severity: Note, scope: Processes, found: InRecordings, tells: [],
    rests_on: Practice("A caching allocator takes the block of a released buffer back, and gives it out again. No driver function is called: addresses that were noted of several buffers can be one block when they are exported."),
    costs: "No call fails: the importer reads one buffer in place of several. Its content is that of the last owner of the block.",
    hint: "Keep a reference to each buffer whose address is noted, until it is exported and for as long as other processes use it. If the process sent one buffer several times on purpose, ignore this.",
    seen: "aiter#3838",
}
rule EventContext "event-context" {
    says: "An event must be recorded in a stream of the context in which the event was created.",
    functions: [cuEventRecord, cuEventRecord_ptsz, cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz],
    results: [INVALID_HANDLE],
    decided_by: other_context,
    reasons: [EventContext { event: u64, current: Device, home: Option<Device> }: (if let Some(home) = home => "event {event:#x} cannot be recorded in a stream of {current}; the event is of {home}, the only other device on which this process has a context";
            "event {event:#x} cannot be recorded in a stream of {current}; the event is of another context")],
    severity: Error, scope: Call, found: AtTheCall, tells: [],
    rests_on: Documented("cuEventRecord", "hEvent and hStream must be from the same context otherwise CUDA_ERROR_INVALID_HANDLE is returned."),
    cause: "the event was created in another context than that of the stream",
    ruled_out: "the event and the stream are not both known to the driver",
    hint: "Create the event while the device of the stream is current (cudaSetDevice before cudaEventCreate; in PyTorch, with torch.cuda.device(stream.device)). To make a stream of another device wait for the event, record it in a stream of its own device, and call cuStreamWaitEvent: it takes events of all devices.",
    only_at_the_call: "whether the event and the stream are there, and the context of the stream",
}
rule IpcFlags "ipc-flags" {
    says: "The Flags of cuIpcOpenMemHandle must be CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, which is 1.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2], results: [INVALID_VALUE],
    decided_by: ipc_flags,
    reasons: [IpcFlags { flags: u32, is_taken: bool }: (if is_taken => "Flags must be 1 (is {flags}); this driver accepted it";
            if flags >= POINTERS => "Flags must be 1 (is {flags}): the handle is probably passed by pointer, and must be passed by value; the driver then takes the pointer for Flags";
            "Flags must be 1 (is {flags})")],
    severity: Error, scope: Arguments, found: InSuccesses, tells: [Unknown],
    rests_on: Documented("cuIpcOpenMemHandle", "Flags - Flags for this operation. Must be specified as CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS"),
    costs: "An even number makes the call fail with CUDA_ERROR_INVALID_VALUE. Current drivers accept odd numbers other than 1.",
    cause: "Flags is not 1",
    ruled_out: "Flags is 1",
    hint: "Pass CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS (cudaIpcMemLazyEnablePeerAccess), even between processes on one device.",
}
rule IpcOpenInExportingProcess "ipc-open-in-exporting-process" {
    says: "A handle must be opened in a different process than the one that exported it.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle], results: [INVALID_CONTEXT],
    decided_by: exported_here,
    reasons: [IpcOpenInExportingProcess { handle: Handle, pid: u32, address: u64, ago: Option<Ago>, is_event: bool }: ("{handle} is opened in the process that exported it ({pid}); only other processes can open a handle; the export{} was of {} {address:#x}", When(ago), if is_event { "event" } else { "memory at" })],
    severity: Error, scope: EarlierCall, found: Afterwards, tells: [],
    rests_on: Documented("cuIpcOpenMemHandle", "Opens an interprocess memory handle exported from another process and returns a device pointer usable in the local process."),
    cause: "this process exported the handle itself",
    ruled_out: "this process has not exported these bytes",
    hint: "In the process that exported the memory, use the pointer itself. If another device of that process needs access, also call cuCtxEnablePeerAccess.",
    seen: "UCX#11226, UCX#11603, pytorch#15974, hip#2880",
}
rule IpcEqualPids "ipc-equal-pids" {
    says: "An exporter and an importer in different pid namespaces must have different pids.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2], results: [INVALID_CONTEXT],
    decided_by: equal_pids,
    reasons: [IpcEqualPids { pid: u32, own_ns: u64, other_ns: Option<u64> }: ("the exporter and this process both have pid {pid}, in two pid namespaces; this process is in {own_ns}, the exporter in {}; the driver compares only pids, so it rejects the handle as one that this process exported itself", Or(other_ns, "another one"))],
    severity: Error, scope: Processes, found: Afterwards, tells: [NotExported],
    rests_on: Observed("Processes of different pid namespaces can share memory as long as their pids are different numbers; with equal pids the opening returns CUDA_ERROR_INVALID_CONTEXT, as in the exporting process."),
    cause: "the exporter, in another pid namespace, has the pid of this process",
    ruled_out: "the pid in the handle is not that of this process",
    hint: "Run both processes in one pid namespace, so that their pids differ: docker run --pid=container:NAME or --pid=host; in Kubernetes, hostPID or shareProcessNamespace. docker run --init does not help: init then has pid 1 in both containers, and the programs have equal pids again.",
    seen: "vllm#55906, UCX#11512, NCCL#360",
}
rule IpcHandleKind "ipc-handle-kind" {
    says: "Memory handles must be opened as memory, event handles as events.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle], results: [INVALID_VALUE, MAP_FAILED],
    decided_by: other_kind,
    reasons: [IpcHandleKind { handle: Handle, is_memory: bool }: (if is_memory => "{handle} is a memory handle (cuIpcGetMemHandle), opened as an event handle";
            "{handle} is an event handle (cuIpcGetEventHandle), opened as a memory handle")],
    severity: Error, scope: CallElsewhere, found: Afterwards, tells: [Unknown],
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
    decided_by: after_free,
    reasons: [IpcOpenAfterFree { handle: Handle, owner: Process, ago: Option<Ago>, is_event: bool, with_context: bool }: (if with_context => "{owner} destroyed or reset the context of {} of {handle}{}, before this call", if is_event { "the event" } else { "the memory" }, When(ago);
            "{owner} {} of {handle}{}, before this call", if is_event { "destroyed the event" } else { "freed the memory" }, When(ago))],
    severity: Error, scope: Processes, found: Afterwards, tells: [FreedBefore],
    rests_on: Observed("After the exporter's cuMemFree, cuIpcOpenMemHandle returns CUDA_ERROR_NOT_PERMITTED, which the documentation does not list, and the driver says \"Failed to allocate physical memory\"."),
    costs: "The call fails; its result and the driver's message point elsewhere.",
    cause: "the exporter had freed or destroyed it",
    ruled_out: "no process under cupeer has freed what these bytes name",
    hint: "Keep the allocation until the importer has opened, used, and closed it: wait for the importer before cudaFree. A handle is not valid for new memory at the same address.",
    seen: "UCX#2738, mscclpp#764",
}
rule IpcExporterGone "ipc-exporter-gone" {
    says: "The exporter must keep running as long as another process opens or uses its memory.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle],
    results: [INVALID_HANDLE, NOT_PERMITTED, INVALID_VALUE, MAP_FAILED],
    decided_by: exporter_gone,
    reasons: [IpcExporterGone { handle: Handle, owner: Process }: ("{owner}, which exported {handle}, has ended")],
    severity: Error, scope: Processes, found: Afterwards, tells: [ExporterEnded],
    rests_on: Observed("After the exporter has exited, cuIpcOpenMemHandle returns CUDA_ERROR_INVALID_HANDLE, and the driver says \"Failed to allocate physical memory\"."),
    costs: "An open fails, because the memory was freed with its process.",
    cause: "the exporter has exited",
    ruled_out: "the exporter runs",
    hint: "Make the exporter wait until its importers have closed their handles. If the exporter crashed, its output may contain the error.",
    only_at_the_call: "whether an exporter that makes no further call still runs",
    seen: "Vox-Fusion#6, vllm#5528, vllm#49238",
}
rule IpcExporterDied "ipc-exporter-died" {
    says: "An exporter should not be killed while another process has its memory open.",
    functions: [cuIpcCloseMemHandle],
    reasons: [IpcExporterDied { handle: Handle, owner: Process }: ("{owner}, which exported {handle}, ended abnormally; this process still had it open")],
    severity: Note, scope: Processes, found: Afterwards, tells: [ExporterEnded],
    rests_on: Observed("After the exporter has exited, reads of the open memory and cuIpcCloseMemHandle still succeed. No call reports to the importer that the exporter exited."),
    costs: "Nothing by itself: the close is right, and succeeds. A process that has the memory open may wait for an exporter that will not answer.",
    hint: "If the exporter crashed, look there first. If it was ended on purpose, ignore this.",
    only_at_the_call: "whether an exporter had been killed before a close",
}
rule IpcSecondContext "ipc-second-context" {
    says: "An importing process must open all handles from one device of an exporter with one context per device.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2], results: [INVALID_HANDLE, ALREADY_MAPPED, INVALID_CONTEXT],
    decided_by: second_context,
    reasons: [IpcSecondContext { context: u64, other: u64, device: Device, owner: Process }: ("this process opens memory of {owner} in two contexts on {device}; only one context per device can open memory of one process; context {other:#x} opened it first, and context {context:#x} is current now")],
    severity: Error, scope: Process, found: Afterwards, tells: [],
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
    decided_by: already_mapped,
    reasons: [IpcAlreadyMapped { handle: Handle, address: Option<u64> }: (if let Some(address) = address => "{handle} is already open in this process, at {address:#x}";
            "the driver reports {handle} as open in this process, but cupeer saw no call that opened it; another thread may be opening it right now, or calls bypass cupeer")],
    severity: Error, scope: Process, found: Afterwards, tells: [],
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
    reasons: [IpcSecondLibrary { handle: Handle, first: &'a str, second: &'a str, count: u32 }: ("{handle} is now open {}, by different libraries; {first} opened it first, {second} this time", Count(u64::from(count), "time"))],
    severity: Note, scope: Process, found: Afterwards, tells: [],
    rests_on: Documented("cuIpcOpenMemHandle", "If the memory handle has already been opened by the current context, the reference count on the handle is incremented by 1 and the existing device pointer is returned."),
    costs: "Both get the same pointer; the memory stays mapped until both have closed it.",
    hint: "If each library closes the handle as often as it opened it, ignore this. Before CUDA 11.2, the second cuIpcOpenMemHandle failed.",
    seen: "quda#1114, mscclpp#165",
}
rule IpcDeviceHidden "ipc-device-hidden" {
    says: "The importer must be allowed to use the exporter's device.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2],
    results: [INVALID_VALUE, INVALID_DEVICE, INVALID_HANDLE, NOT_PERMITTED, MAP_FAILED],
    decided_by: device_hidden,
    reasons: [
        IpcDeviceHidden { to: Device, node: &'a str }: ("the memory is on {to}, but this process has no access to {node}; a device cgroup or the container excludes that GPU"),
        IpcDeviceUnseen { to: Device, sees: (i32, [[u8; 16]; 2]) }: (in device_unseen),
    ],
    severity: Error, scope: CallElsewhere, found: Afterwards, tells: [],
    rests_on: Practice("A container, or a job with a device cgroup, that leaves out the exporter's GPU makes cuIpcOpenMemHandle fail; CUDA_VISIBLE_DEVICES, which only hides it, does not."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE or another code.",
    cause: "this process may not use the exporter's device",
    ruled_out: "this process sees the exporter's device, or may use it",
    hint: "Give every rank all GPUs of the node (srun --gpus-per-node with --gpu-bind=none, docker run --gpus all), and select devices with CUDA_VISIBLE_DEVICES.",
    only_at_the_call: "whether the process may use the device's node",
    seen: "ompi#11949, triton#6872, NCCL#1647",
}
rule IpcDevicesApart "ipc-devices-apart" {
    says: "The importer's device must be able to reach the exporter's.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2],
    results: [PEER_ACCESS_UNSUPPORTED, INVALID_DEVICE, MAP_FAILED, INVALID_VALUE],
    decided_by: devices_apart,
    reasons: [IpcDevicesApart { from: Device, to: Device, is_asked: bool }: (if is_asked => "{from} cannot reach the memory on {to}; cuDeviceCanAccessPeer is 0 for the current device";
            if to.ordinal >= 0 => "{from} cannot reach the memory on {to}";
            "{from} cannot reach the memory on {to}; this process does not see that device, so it cannot ask cuDeviceCanAccessPeer")],
    severity: Error, scope: CallElsewhere, found: Afterwards, tells: [],
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
    decided_by: damaged,
    reasons: [IpcDamagedHandle { handle: Handle, original: Handle, owner: Process, is_opened: bool, cut: Option<u8> }: ("{handle} is a damaged copy of {original}; {owner} exported the original{}{}", Clause("; ", cut.map(Cut), ""), if is_opened { "; the driver opened it anyway" } else { "" })],
    severity: Error, scope: Processes, found: Afterwards, tells: [Unknown, Damaged, NotExported],
    rests_on: Observed("The driver checks some of the 64 bytes. If others are changed, it opens the handle anyway, or returns CUDA_ERROR_INVALID_VALUE."),
    costs: "The call fails, or maps memory other than what was exported.",
    cause: "the bytes were changed on their way",
    ruled_out: "the bytes are unchanged since the export",
    hint: "Send all 64 bytes unchanged. Do not treat the handle as text (strcpy and c_char_p stop at the first NUL), and use a structure of exactly that size.",
    only_at_the_call: "which export the bytes resemble that the driver does not check: to the recording nobody exported them",
    seen: "vllm:vllm/distributed/device_communicators/cuda_wrapper.py",
}
rule IpcUnknownHandle "ipc-unknown-handle" {
    says: "The bytes that are opened must be a handle that a process exported.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle],
    results: [INVALID_VALUE, INVALID_HANDLE, MAP_FAILED, NOT_PERMITTED],
    decided_by: unknown_handle,
    reasons: [IpcUnknownHandle { handle: Handle, flaw: HandleFlaw, is_event: bool }: (in unknown_handle)],
    severity: Error, scope: Processes, found: Afterwards, tells: [Unknown, NotExported],
    rests_on: Practice("Programs have opened handles that were cut or moved on their way, and 64 bytes that no process had filled in, because the export had failed or been skipped."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_HANDLE or CUDA_ERROR_MAP_FAILED.",
    cause: "nobody exported these bytes",
    ruled_out: "a process under cupeer exported these bytes",
    hint: "Check the result of cuIpcGetMemHandle in the exporter, and how the bytes travel. If the exporter does not run under cupeer, start it with the same --out directory.",
    seen: "NCCL#842",
}
rule IpcOffsetNotAdded "ipc-offset-not-added" {
    says: "If the exported pointer was inside its allocation, the importer must add its offset.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2],
    reasons: [IpcOffsetNotAdded { handle: Handle, offset: u64, owner: Process }: ("{handle} of {owner} points {offset} bytes into its allocation; this call returned the start of the allocation, so the importer must add {offset} bytes")],
    severity: Note, scope: Processes, found: Afterwards, tells: [],
    rests_on: Observed("cuIpcGetMemHandle of a pointer inside an allocation returns the handle of the allocation; cuIpcOpenMemHandle returns its start."),
    costs: "Without the offset the importer reads and writes other data, and nothing fails.",
    hint: "If the importer adds the exporter's offset to the pointer that this call returned, ignore this. cupeer cannot see which addresses it uses.",
    seen: "Mooncake#1622, tensorpipe#248, Fuser#3799",
}
rule IpcDeviceOrder "ipc-device-order" {
    says: "Processes should name a device by its UUID, because its number means another device where CUDA_VISIBLE_DEVICES differs.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2],
    reasons: [IpcDeviceOrder { ordinal: i32, here: [u8; 16], there: [u8; 16], owner: Process }: ("device {ordinal} is {} here, and {} in {owner}; that process exported the memory, and this process opened it on its own device {ordinal}, so each access goes from one GPU to the other", gpu(here), gpu(there))],
    severity: Note, scope: Processes, found: Afterwards, tells: [],
    rests_on: Documented("cuIpcOpenMemHandle", "For contexts on different devices cuIpcOpenMemHandle can attempt to enable peer access between the devices as if the user called cuCtxEnablePeerAccess."),
    costs: "Nothing if the importer meant to use another device; otherwise every access goes over the link between two GPUs.",
    hint: "If the importer chose its device by the exporter's number, exchange UUIDs (cuDeviceGetUuid) instead.",
    seen: "Mooncake#3678, tensorpipe#266, UCX#3588, vllm#4233, ray#57927, triton#3647",
}
rule IpcClosedTwice "ipc-closed-twice" {
    says: "An open handle must be closed as often as it was opened, and no more.",
    functions: [cuIpcCloseMemHandle], results: [INVALID_VALUE],
    decided_by: closed_twice,
    reasons: [IpcClosedTwice { address: u64, ago: Option<Ago>, handle: Handle, with_context: bool, by: Option<Site<'a>> }: (if with_context => "{address:#x} ({handle}) is already closed; it was closed when its context was destroyed or reset{}", Past(ago, by);
            if ago.is_some() || by.is_some() => "{address:#x} ({handle}) is already closed; this process closed it as often as it had opened it; the last close was{}", Past(ago, by);
            "{address:#x} ({handle}) is already closed; this process closed it as often as it had opened it")],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Documented("cuIpcCloseMemHandle", "When the reference count reaches 0, this API unmaps the memory."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE; one close too many, while another part of the process has it open, unmaps that part's memory.",
    cause: "this process had already closed it",
    ruled_out: "this process has not closed such an address",
    hint: "Close once per successful cuIpcOpenMemHandle. If several parts of the program use one mapping, count the users, and close after the last one.",
    related: OpeningAndClosing,
    seen: "UCX#4410, UCX#4431, ucx-py#315",
}
rule IpcCloseAddress "ipc-close-address" {
    says: "A pointer passed to cuIpcCloseMemHandle must be one that cuIpcOpenMemHandle returned.",
    functions: [cuIpcCloseMemHandle], results: [INVALID_VALUE],
    decided_by: close_address,
    reasons: [IpcCloseAddress { address: u64, inside: Option<u64>, is_own: bool, elsewhere: Option<Process> }: (if address == 0 => "dptr is NULL";
            if let Some(base) = inside => "{address:#x} is {} bytes past the address that cuIpcOpenMemHandle returned; close {base:#x}", address.wrapping_sub(base);
            if is_own => "{address:#x} was allocated by this process, not opened";
            if let Some(process) = elsewhere => "this process has not opened {address:#x}: {process} has it open; addresses are per process";
            "this process has not opened {address:#x}")],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Documented("cuIpcCloseMemHandle", "dptr - Device pointer returned by cuIpcOpenMemHandle"),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE, and what was opened stays open.",
    cause: "cuIpcOpenMemHandle did not return this pointer",
    ruled_out: "cuIpcOpenMemHandle returned this pointer",
    hint: "Close the pointer that cuIpcOpenMemHandle returned in this process. If this process allocated the memory, free it with cuMemFree.",
}
rule IpcFreeImport "ipc-free-import" {
    says: "Memory of another process must be closed, not freed.",
    functions: [cuMemFree, cuMemFree_v2, cuMemFreeAsync, cuMemFreeAsync_ptsz], results: [INVALID_VALUE],
    decided_by: free_import,
    reasons: [IpcFreeImport { address: u64, owner: Option<Process>, handle: Handle }: ("{address:#x} must be closed, not freed: it was opened with cuIpcOpenMemHandle; its handle is {handle}{}", Clause("; it belongs to ", owner, ""))],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Documented("cuIpcOpenMemHandle", "Memory returned from cuIpcOpenMemHandle must be freed with cuIpcCloseMemHandle."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE, and the memory stays mapped.",
    cause: "the memory belongs to another process",
    ruled_out: "it does not belong to another process",
    hint: "Call cuIpcCloseMemHandle (cudaIpcCloseMemHandle) instead.",
    only_at_the_call: "that free, which is only recorded where rules are checked",
}
    } };
}
