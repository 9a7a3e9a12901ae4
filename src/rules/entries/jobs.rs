//! Rules about the effects of processes on each other over time.

macro_rules! job_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule IpcFreedWhileOpen "ipc-freed-while-open" {
    says: "Free exported memory only after all importers have closed it.",
    functions: [cuMemFree, cuMemFree_v2, cuMemFreeAsync, cuMemFreeAsync_ptsz],
    reasons: [IpcFreedWhileOpen { address: u64, bytes: u64, handle: Handle, importers: u64, first: Process, uses: (u64, u64) }: (if let (opened, closed @ 1..) = uses => "{}; {first} opened it {} and closed it {}; using it is now undefined", Freed(address, bytes, handle, Importers(importers, first)), Times(opened), Times(closed);
            "{}; using it is now undefined", Freed(address, bytes, handle, Importers(importers, first)))],
    severity: Error, scope: Processes, found: Afterwards, tells: [FreedWhileOpen, ClosedLate],
    rests_on: Documented("cuIpcOpenMemHandle", "Calling cuMemFree on an exported memory region before calling cuIpcCloseMemHandle in the importing context will result in undefined behavior."),
    costs: "Undefined behavior. Driver 580 keeps the memory until the importers close it, so cudaFree returns nothing to the device, and importers continue to read old data.",
    hint: "Close the handle in the importers first, and make the exporter wait for them (a barrier between close and free).",
    usual: [("libnccl", "NCCL frees its buffers when a communicator is destroyed, without waiting for the other ranks to close them; no rank uses them any more")],
    only_at_the_call: "whether an importer that makes no further call still runs",
    seen: "UCX#10346, DeepEP#497, UCX#3030, ompi#9051, ompi#12849",
}
rule IpcContextEndedWhileOpen "ipc-context-ended-while-open" {
    says: "Destroy, reset, or release a context only after all importers have closed what was exported from it.",
    functions: [cuCtxDestroy, cuCtxDestroy_v2, cuCtxDetach, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2,
                cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2],
    reasons: [IpcContextEndedWhileOpen { what: &'a str, handles: u64, importers: u64, first: Process, address: u64, handle: Handle, kind: Object }: (if handles != 1 => "{what} freed the memory or events behind {}, still open in {}", Count(handles, "handle"), Importers(importers, first);
            "{what} {} {address:#x}, open in {}; its handle is {handle}; using it is now undefined", if kind == Object::Event { "destroyed event" } else { "freed" }, Importers(importers, first))],
    severity: Error, scope: Processes, found: Afterwards, tells: [FreedWhileOpen, ClosedLate],
    rests_on: Documented("cuCtxDestroy", "These resources also include memory allocations by cuMemAlloc(), cuMemAllocHost(), cuMemAllocManaged() and cuMemAllocPitch()."),
    costs: "Undefined behavior, as when memory is freed while other processes have it open.",
    hint: "Close the handles in the importers first, and make the exporter wait for them before it destroys or resets the context. cudaDeviceReset resets the primary context.",
    only_at_the_call: "whether an importer that makes no further call still runs",
    seen: "DeepEP#497",
}
rule IpcEventDestroyedWhileOpen "ipc-event-destroyed-while-open" {
    says: "Destroy an exported event only after all importers have destroyed theirs.",
    functions: [cuEventDestroy, cuEventDestroy_v2],
    reasons: [IpcEventDestroyedWhileOpen { event: u64, handle: Handle, importers: u64, first: Process }: ("event {event:#x} was destroyed while open in {}; its handle is {handle}; using it is now undefined", Importers(importers, first))],
    severity: Error, scope: Processes, found: Afterwards, tells: [FreedWhileOpen],
    rests_on: Documented("cuIpcGetEventHandle", "Performing operations on the imported event after the exported event has been freed with cuEventDestroy will result in undefined behavior."),
    costs: "Undefined behavior if an importer records, waits for, or queries its event afterwards: a wait may never end, or return immediately.",
    hint: "Make the exporter wait until the importers have destroyed their events.",
    only_at_the_call: "whether an importer that makes no further call still runs",
    seen: "pytorch#15937",
}
rule IpcEventUnwaited "ipc-event-unwaited" {
    says: "A process that opens an event should wait for it before it uses the work in front of the event.",
    functions: [cuIpcOpenEventHandle],
    reasons: [IpcEventUnwaited { handle: Handle, owner: Process, recorder: Process, records: u64, user: Option<Process>, after: Option<Ago> }: (if let (Some(user), Some(after)) = (user, after) => "no process waited for {handle}, the event of {owner}; {recorder} recorded it {}, and {user} used memory of {owner} {after} after that without a wait for the event", Times(records);
            "no process waited for {handle}, the event of {owner}; {recorder} recorded it {}", Times(records))],
    severity: Note, scope: Processes, found: InRecordings, tells: [],
    rests_on: Documented("cuStreamWaitEvent", "Makes all future work submitted to hStream wait for all work captured in hEvent."),
    costs: "No call fails: the work of the other process can run before the work that the event stands for is done, and reads old or partial data.",
    hint: "Call cuStreamWaitEvent with the opened event in each stream that uses the memory, before the first use, after the exporter has recorded the event. If the processes are in order otherwise, remove the event.",
    seen: "ros2_cuda_ipc#99",
}
rule IpcEventRecordedAgain "ipc-event-recorded-again" {
    says: "An event should not be recorded again before the other process waited for its last record.",
    functions: [cuEventRecord, cuEventRecord_ptsz, cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz],
    reasons: [IpcEventRecordedAgain { handle: Handle, importer: Process, apart: Ago, late: Ago }: ("{handle} is recorded again {apart} after its last record, for which {importer} had not waited; its next wait returned {late} later, and takes the later record")],
    severity: Note, scope: Processes, found: InRecordings, tells: [],
    rests_on: Documented("cuStreamWaitEvent", "Makes all future work submitted to hStream wait for all work captured in hEvent."),
    costs: "No call fails: a wait takes the last record that was made before the call. It waits for more than it was meant to, and if that work waits for the same process, both hang.",
    hint: "Use one event per message that is under way, or record the event again only after the importer has said that it called cuStreamWaitEvent.",
}
rule IpcEventOpenedLate "ipc-event-opened-after-destroy" {
    says: "Keep an exported event until all importers have opened and destroyed theirs.",
    functions: [cuIpcOpenEventHandle],
    reasons: [IpcEventOpenedLate { handle: Handle, owner: Process, ago: Option<Ago>, with_context: bool }: ("{owner} {} the event{}, before this call; a wait for it may never end, or end too early; its handle is {handle}", if with_context { "ended the context of" } else { "destroyed" }, When(ago))],
    severity: Error, scope: Processes, found: Afterwards, tells: [FreedBefore],
    rests_on: Documented("cuIpcGetEventHandle", "Performing operations on the imported event after the exported event has been freed with cuEventDestroy will result in undefined behavior."),
    costs: "Undefined behavior, although the open may succeed: a wait for the event may never end, or return before the work is done.",
    hint: "Keep the event in the exporter until the importer has opened it, waited for it, and destroyed its own. For example, destroy the event only after the importer reports that it is done.",
    labels: [freed: "destroyed"],
    seen: "LMCache#3236",
}
rule IpcAddressReused "ipc-address-reused" {
    says: "An address should be exported again only after all importers have closed what was exported from it before.",
    functions: [cuIpcGetMemHandle],
    reasons: [IpcAddressReused { address: u64, handle: Handle, before: Handle, importers: u64, first: Process }: ("freed memory at {address:#x} ({before}) is still open in {}; this call exports new memory at the same address ({handle}); an importer that caches mappings by address still uses the freed memory", Importers(importers, first))],
    severity: Warning, scope: Processes, found: Afterwards, tells: [FreedBefore, ClosedLate],
    rests_on: Documented("cuIpcGetMemHandle", "If a region of memory is freed with cuMemFree and a subsequent call to cuMemAlloc returns memory with the same device address, cuIpcGetMemHandle will return a unique handle for the new memory."),
    costs: "Nothing by itself. An importer that recognizes a mapping by the exporter's address continues to use the freed allocation in place of the new one.",
    hint: "Close the handle in the importers before the exporter frees the memory. If importers cache mappings, compare handles or CU_POINTER_ATTRIBUTE_BUFFER_ID, not addresses.",
    labels: [exported: "exported earlier"],
    seen: "UCX#2738",
}
rule IpcOpenedAtClosed "ipc-opened-at-closed-address" {
    says: "After a close, a process should let go of all pointers into the memory.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2],
    reasons: [IpcOpenedAtClosed { handle: Handle, address: u64, before: Handle }: ("an old pointer into {before} now leads to {handle}; {before} was open at {address:#x} until this process closed it, and {handle} was opened there")],
    severity: Note, scope: Process, found: InRecordings, tells: [],
    rests_on: Observed("An address that a close made free is often the next one that cuIpcOpenMemHandle returns. A copy from an old pointer then succeeds, and reads the new memory."),
    costs: "If the program still uses an old pointer, it reads or overwrites other memory, and no call fails.",
    hint: "In a cache of mappings, count the users of each, and evict only a mapping that has none. Look for messages in flight that keep a pointer across the close. If no pointer outlives its close, ignore this.",
    seen: "mpich#7977",
}
rule IpcNeverClosed "ipc-never-closed" {
    says: "A process should close what it opened before it ends.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle],
    reasons: [IpcNeverClosed { handles: u64, bytes: u64 }: ("the process exits without closing {}{}", Count(handles, "handle"), Clause(" (", some(bytes), " of other processes' memory)"))],
    severity: Note, scope: Process, found: InRecordings, tells: [OpenAtExit, ClosedLate],
    rests_on: Documented("cuIpcOpenMemHandle", "Memory returned from cuIpcOpenMemHandle must be freed with cuIpcCloseMemHandle."),
    costs: "Until the process ends, the exporter's memory is not returned to the device, even after cudaFree.",
    hint: "If the process exits soon after the last use, ignore this, because exiting closes the handle. Otherwise, close it after the last use: until then, the exporter's memory is not returned to the device. `cupeer report --leaks` shows where it was opened.",
    seen: "UCX#3030, UCX#5124, ompi#9051, Mooncake#761, torchcomms#917",
}
rule IpcLeak "ipc-leak" {
    says: "A program should close what it opens on every path.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle],
    reasons: [IpcLeak { handles: u64, opened: u64, bytes: u64, freed: u64, growth: Growth<'a> }: ("{handles} of {} opened at this place were never closed{growth}{}", Count(opened, "handle"), Kept(bytes, freed))],
    severity: Warning, scope: Process, found: InRecordings, tells: [OpenAtExit, ClosedLate],
    rests_on: Documented("cuIpcOpenMemHandle", "Memory returned from cuIpcOpenMemHandle must be freed with cuIpcCloseMemHandle."),
    costs: "Open handles pile up while the process runs. Each keeps the exporter's memory, which is not returned to the device even after cudaFree.",
    hint: "Find the path on which the handle is not closed: an early return, an error, or an exception. `cupeer report --leaks` lists the open handles.",
    labels: [closed: "others closed"],
}
rule PilesUp "piles-up" {
    says: "A program that goes on should give up what it makes when that serves nothing any more.",
    functions: [cuMemCreate, cuMemMap, cuMemAddressReserve, cuMemPoolCreate, cuMemPoolImportFromShareableHandle, cuIpcGetMemHandle,
                cuIpcGetEventHandle, cuMemExportToShareableHandle, cuMemImportFromShareableHandle, cuMemPoolExportToShareableHandle],
    reasons: [PilesUp { what: Piled, left: u64, made: u64, bytes: u64, growth: Growth<'a> }: (in piles_up)],
    severity: Warning, scope: Process, found: InRecordings, tells: [],
    rests_on: Documented("cuMemRelease", "The memory allocation will be freed when all outstanding mappings to the memory are unmapped and when all outstanding references to the handle (including it's shareable counterparts) are also released."),
    rests_on_at: [
        cuMemAddressReserve: Practice("A range of addresses stays reserved until cuMemAddressFree. A process has 128 TiB of addresses."),
        cuMemMap: Practice("A mapping keeps its memory until cuMemUnmap."),
        cuMemPoolCreate: Practice("A pool keeps its memory until cuMemPoolDestroy."),
        cuMemPoolImportFromShareableHandle: Practice("An imported pool keeps the exporter's memory until cuMemPoolDestroy."),
        cuIpcGetMemHandle: Practice("Exported memory stays allocated until cuMemFree, even if all importers have closed it."),
        cuIpcGetEventHandle: Observed("A process can have 4,096 interprocess events, exported or not. Then cuEventCreate returns OUT_OF_MEMORY."),
        cuMemExportToShareableHandle: Practice("Each descriptor is a reference to its memory."),
        cuMemImportFromShareableHandle: Practice("Each descriptor is a reference to its memory."),
        cuMemPoolExportToShareableHandle: Practice("Each descriptor is a reference to its memory."),
    ],
    costs: "The objects pile up while the program runs, until the memory, the addresses, the events, or the descriptors are exhausted.",
    hint: "Give up each object after its last use: release, unmap, free, destroy, or close it. Look for an early return, an error, or an exception.",
    seen: "cuda-python#2344, torch_memory_saver#84, rosidl_buffer_backends#9",
}
rule IpcFallback "ipc-fallback" {
    says: "A failure of IPC between two devices should not go unnoticed.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2],
    reasons: [IpcFallback { from: Device, to: Device, failed: u64, code: &'a str }: ("{} of {from} to open memory on {to} failed ({code}), and the program continued without a mapping between these devices; the data may take a slower path", Count(failed, "attempt"))],
    severity: Note, scope: Processes, found: InRecordings, tells: [],
    rests_on: Practice("Libraries log a failed open at a level that is rarely read, and continue over TCP or host memory, ten to six hundred times slower."),
    costs: "Speed: the data takes a slower path.",
    hint: "If this is the fallback that you expect, ignore this. Otherwise, find out why cuIpcOpenMemHandle failed: `cupeer report` lists the failed call with its cause.",
    seen: "vllm#55906, UCX#11548, nixl#1754",
}
rule OpenedAgain "opened-again" {
    says: "A program should keep open what it opens again for each message.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle],
    reasons: [OpenedAgain { handles: u64, opened: u64, within: Option<Ago>, spent: Ago, of: Ago }: (if let Some(within) = within => "the same {} opened {opened} times, each at most {within} after its last close; the calls took {spent} of the {of} that the process ran", Same(handles);
            "{} were opened once each, and closed; the calls took {spent} of the {of} that the process ran", Count(handles, "handle"))],
    severity: Note, scope: Process, found: InRecordings, tells: [Waste],
    rests_on: Observed("The first open of a handle takes about 54 microseconds on an H200, and 0.14 if it is open already. A close of the last reference waits for pending work."),
    costs: "Speed: each open maps the memory anew, and each close waits for pending work.",
    hint: "Keep the mapping open as long as the exporter keeps the buffer: cache it by the bytes of the handle. Tell importers when a buffer is freed.",
    seen: "ros2_cuda_ipc#96",
}
rule ExportedAgain "exported-again" {
    says: "A program should export a buffer once, and not for each message.",
    functions: [cuIpcGetMemHandle, cuIpcGetEventHandle, cuMemExportToShareableHandle],
    reasons: [ExportedAgain { what: Object, objects: u64, exports: u64, opened: u64 }: (in exported_again)],
    severity: Note, scope: Process, found: InRecordings, tells: [Waste],
    rests_on: Practice("The handle of an allocation is the same at each export, and a descriptor refers to the same memory."),
    costs: "Speed: each export, and often each import, is work for every message.",
    hint: "Export a buffer when it is made or registered, and keep its handle or descriptor. Let the importer keep the mapping as long as the exporter keeps the buffer. Then each message says only that there is new data.",
    seen: "UCX#2738, ucx-py#334, ros2_cuda_ipc#96",
}
rule HostAfterFailure "host-after-failed-open" {
    says: "A transport should not stay on the host path after an open that failed for a cause that passes.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2],
    reasons: [HostAfterFailure { exporter: Process, code: &'a str, bytes: Bytes, had_context: bool }: ("this open failed ({code}){}; it was not repeated, and {bytes} went through the host since, of {exporter} or of this process", if had_context { "" } else { " because the thread had no current context" })],
    severity: Note, scope: Processes, found: InRecordings, tells: [Waste],
    rests_on: Practice("Libraries try IPC once, and continue through host memory for the rest of the run."),
    costs: "Speed: the data goes through the host.",
    hint: "Fix the open that failed, or try it again later. If the thread had no context, make the context current (cuCtxSetCurrent, cudaSetDevice) in each thread that opens handles.",
    seen: "UCX#11548, nixl#1754",
}
rule ExchangeDiffers "exchange-differs" {
    says: "In an exchange of handles, each process should open the newest handles of all others.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcOpenEventHandle, cuMemImportFromShareableHandle],
    reasons: [ExchangeDiffers { process: Process, opened: u64, of: u64, lacks: u64, newest: (Handle, Process), older: Option<Handle>, exported: Option<(u64, u64)> }: (in exchange_differs)],
    severity: Note, scope: Processes, found: InRecordings, tells: [Waste],
    rests_on: Practice("A process that lacks a handle, or has an old one, reads other data than the others, or waits."),
    costs: "The process reads stale data, or hangs in the next collective operation.",
    hint: "Check the messages of this exchange: count them, and number the exchanges, so that a handle of an earlier one is refused.",
    seen: "vllm#55906",
}
rule FdLeak "fd-leak" {
    says: "A process should close descriptors of shared memory when it has sent or imported them.",
    functions: [cuMemExportToShareableHandle, cuMemImportFromShareableHandle, cuMemPoolExportToShareableHandle,
                cuMemPoolImportFromShareableHandle],
    reasons: [FdLeak { descriptors: u64, is_export: bool }: ("{descriptors} file descriptors were {} and seem not to be closed; cupeer infers this from their numbers, which are all different: the system would reuse the number of a closed descriptor", if is_export { "exported" } else { "imported" })],
    severity: Note, scope: Process, found: InRecordings, tells: [],
    rests_on: Practice("Each descriptor is a reference to its memory."),
    costs: "Each descriptor keeps its memory, and the process runs out of descriptors (EMFILE).",
    hint: "Close the descriptor after sending it, and in the importer after cuMemImportFromShareableHandle: the imported handle keeps the memory.",
    seen: "UCX#11753",
}
rule DescriptorsExhausted "descriptors-exhausted" {
    says: "A process must not use up its file descriptors.",
    functions: [cuMemExportToShareableHandle, cuMemPoolExportToShareableHandle, cuMemImportFromShareableHandle,
                cuMemPoolImportFromShareableHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcGetEventHandle,
                cuIpcOpenEventHandle],
    results: [OPERATING_SYSTEM, OUT_OF_MEMORY, MAP_FAILED, UNKNOWN],
    decided_by: descriptors_exhausted,
    reasons: [DescriptorsExhausted { limit: u64 }: ("the process can open no more files: it has reached its limit of {limit} (RLIMIT_NOFILE)")],
    severity: Error, scope: Process, found: AtTheCall, tells: [],
    rests_on: Practice("An export creates a file descriptor, and the driver opens files of its own. At the limit of open files (RLIMIT_NOFILE), the system refuses any more."),
    costs: "The call fails, and so does everything else in the process that opens a file or a socket.",
    cause: "the process has reached its limit of open files (RLIMIT_NOFILE)",
    ruled_out: "the process can open more files",
    hint: "Close each descriptor after sending it, and in the importer after importing it. Raise the limit (`ulimit -n`) only if the process needs that many at one time.",
    only_at_the_call: "whether the process had reached its limit of open files",
    seen: "jaxmg#13, video-stitcher#44, NCCL#2376",
}
rule MemoryKept "memory-kept-by-importers" {
    says: "Importers should unmap and close memory when its owner releases it.",
    functions: [cuMemCreate, cuMemAlloc, cuMemAlloc_v2, cuMemAllocPitch, cuMemAllocPitch_v2, cuMemAllocAsync, cuMemAllocAsync_ptsz,
                cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz], results: [OUT_OF_MEMORY],
    decided_by: shown_by_recordings,
    reasons: [MemoryKept { bytes: u64, allocations: u64, owner: Option<Process>, holders: u64, first: Process, unmaps_nothing: bool }: ("{} still kept {} that {} had released, so the call returned CUDA_ERROR_OUT_OF_MEMORY{}; the memory is in {}; the device gets an allocation back only when all its importers have unmapped and released it (cuMemUnmap, cuMemRelease), or closed it (cuIpcCloseMemHandle)", Importers(holders, first), Bytes(bytes), Or(owner, "this process"), Clause("; ", unmaps_nothing.then_some(first), " unmapped nothing"), Count(allocations, "allocation"))],
    severity: Error, scope: Processes, found: InRecordings, tells: [],
    rests_on: Documented("cuMemRelease", "The memory allocation will be freed when all outstanding mappings to the memory are unmapped and when all outstanding references to the handle (including it's shareable counterparts) are also released."),
    costs: "The device runs out of memory that its owner believes to be free.",
    cause: "other processes keep memory that its owner released",
    ruled_out: "no process keeps memory that its owner released",
    hint: "When the owner is done with the memory, let each importer give it up: with cuMemUnmap, cuMemAddressFree, and cuMemRelease after an import, or with cuIpcCloseMemHandle after an opening. Do this when the work is aborted, too.",
    seen: "NCCL#1968",
}
rule MemoryExhausted "memory-exhausted" {
    says: "A device must have enough free memory for what its processes allocate.",
    functions: [cuMemCreate, cuMemAlloc, cuMemAlloc_v2, cuMemAllocPitch, cuMemAllocPitch_v2, cuMemAllocAsync, cuMemAllocAsync_ptsz,
                cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz,
                cuDevicePrimaryCtxRetain, cuCtxCreate_v2, cuCtxCreate_v3, cuCtxCreate_v4, cuMemMap, cuIpcOpenMemHandle,
                cuIpcOpenMemHandle_v2], results: [OUT_OF_MEMORY],
    decided_by: shown_by_recordings,
    reasons: [
        MemoryExhausted { holder: &'a str, wanted: Option<u64>, left: Option<(u64, u64)>, device: Device }: (in memory_exhausted),
        MemoryTooLarge { wanted: u64, total: u64, device: Device }: (in memory_too_large),
        MemoryRefused { wanted: u64, left: (u64, u64), device: Device }: ("the call asked for {}, and no range of free memory was that large: the free memory is fragmented, or a limit applies; {} of {} were free on {device}", Size(wanted), Size(left.0), Size(left.1)),
        MemoryLimited { wanted: u64, used: u64, most: u64, place: &'a str }: ("its pool has {} of at most {} in use, and the call asked for {}; the limit is maxSize of cuMemPoolCreate at {place}", Size(used), Size(most), Size(wanted)),
    ],
    severity: Error, scope: Processes, found: InRecordings, tells: [],
    rests_on: Practice("The memory of a device belongs to all processes that use the device. A call fails if the free memory is smaller than it asks for, whichever process holds the rest."),
    costs: "The call fails. The process that fails is often not the process that holds the memory.",
    cause: "the memory of the device is in use: by this process, by others of the job, or by processes outside of it",
    ruled_out: "the recorded memory does not fill the device",
    hint: "Free what is no longer needed before this call: the table of memory in `cupeer report` lists the holders. Otherwise, ask for less.",
    seen: "verl#6912, cuda-python#2344, vllm#51986",
}
rule AddressesExhausted "vmm-addresses-exhausted" {
    says: "Reserved addresses must be freed when they are no longer needed.",
    functions: [cuMemAddressReserve], results: [OUT_OF_MEMORY],
    decided_by: shown_by_recordings,
    reasons: [AddressesExhausted { wanted: u64, reserved: u64, ranges: u64 }: ("no {} of addresses are left, because the process has reserved {} in {}", Bytes(wanted), Bytes(reserved), Count(ranges, "range"))],
    severity: Error, scope: Process, found: InRecordings, tells: [],
    rests_on: Practice("A process has 128 TiB of addresses on most machines. Unmapping memory does not free its addresses."),
    costs: "The call fails, although the device has memory.",
    cause: "the process has reserved most of its addresses",
    ruled_out: "the process has not reserved enough addresses for that",
    hint: "Call cuMemAddressFree after cuMemUnmap for each range that is no longer needed.",
}
rule RanksWaitForDescriptor "ranks-wait-for-descriptor" {
    says: "Each rank of a job should send the descriptors that the others wait for.",
    functions: [cuMemExportToShareableHandle, cuMemPoolExportToShareableHandle],
    reasons: [
        RanksWaitForDescriptor { waiting: u64, missing: u64, senders: &'a str, least: u64, most: u64 }: (in wait_for_descriptor),
        RanksWaitForFailed { waiting: u64, senders: &'a str, function: &'a str, code: &'a str }: ("{} {} for a file descriptor from {senders}, whose export failed; {function} returned {code} there, and no process imported the last descriptor that was exported here", Count(waiting, "process"), if waiting == 1 { "waits" } else { "wait" }),
    ],
    severity: Warning, scope: Processes, found: InRecordings, tells: [],
    rests_on: Practice("Ranks exchange descriptors over sockets without a timeout. If one of them never sends its own, the others wait in recvmsg forever."),
    costs: "A hang, in ranks that did nothing wrong.",
    hint: "Find out why that rank exported fewer descriptors: `cupeer report` shows its last call, and whether it is still running. Set a timeout on the exchange (SO_RCVTIMEO), and let ranks tell each other about failures.",
    seen: "sglang#36943",
}
rule RanksCrossed "ranks-open-another-export" {
    says: "In an exchange, each process should open the export that is meant for it.",
    functions: [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuMemImportFromShareableHandle, cuMemPoolImportPointer],
    reasons: [
        RanksCrossed { opened: Process, missed: Process }: ("this process opened what {opened} exported, and no process opened what {missed} exported; all others opened the export of the rank that is as far from their own as {missed} is from this one"),
        RanksCrossedDevices { here: Device, there: Device }: ("this process, on {here}, opened memory that was exported on {there}; no process opened the memory exported on {here}, and all others opened memory of their own device"),
    ],
    severity: Warning, scope: Processes, found: InRecordings, tells: [],
    rests_on: Practice("If all processes but one open the export of their own device, or of their own peer, and that one's export stays unopened, an index is wrong."),
    costs: "Two processes use one buffer, and another buffer is not used: wrong data, and traffic over a slower path.",
    hint: "Check the index by which the process chose the handle: the local rank, the device, or the position in the gathered list.",
}
rule RanksHoldDevice "ranks-hold-another-device" {
    says: "A rank should have a context only on its own device.",
    functions: [cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcGetEventHandle, cuIpcOpenEventHandle,
                cuMemExportToShareableHandle, cuMemImportFromShareableHandle, cuMemPoolExportToShareableHandle,
                cuMemPoolImportFromShareableHandle, cuMemPoolExportPointer, cuMemPoolImportPointer],
    reasons: [RanksHoldDevice { count: u64, ranks: &'a str, device: Device, owner: u32, exports: bool, allocated: u64 }: (in hold_device)],
    severity: Warning, scope: Processes, found: InRecordings, tells: [],
    rests_on: Practice("CUDA uses device 0 until a thread selects another device. A call before that creates a context on device 0, which remains there."),
    costs: "Memory: each context takes about 500 MiB of the other rank's device, which runs out of memory first. Work that runs there slows down that rank.",
    hint: "Select the rank's device first, before any other CUDA call and in each thread: cudaSetDevice or torch.cuda.set_device, with the local rank (LOCAL_RANK). With torch.load, pass map_location. If the rank needs that context, ignore this.",
}
rule RanksDiffer "ranks-differ" {
    says: "The ranks of a job should make the same decisions.",
    functions: [cuCtxEnablePeerAccess, cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcGetEventHandle,
                cuIpcOpenEventHandle, cuMemCreate, cuMemSetAccess, cuMemExportToShareableHandle,
                cuMemImportFromShareableHandle],
    reasons: [RanksDiffer { function: &'a str, code: &'a str, failing: u64, others: u64 }: ("the ranks now take different paths: {function} returned {code} in {}, but succeeded in {others} other ranks", Count(failing, "rank"))],
    severity: Warning, scope: Processes, found: InRecordings, tells: [],
    rests_on: Practice("One rank falls back because one of its calls failed, the others do not, and the job hangs or fails in another place."),
    costs: "A hang or a failure elsewhere, in a rank that did nothing wrong.",
    hint: "Fix the failure first: `cupeer report` lists the failed call with its cause. Let ranks tell each other whether they succeeded before they choose how to transfer data.",
    seen: "NCCL#2190, NCCL#842",
}
    } };
}
