//! Rules about virtual memory and its sharing.

macro_rules! vmm_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule VmmHandleReleased "vmm-handle-released" {
    says: "A handle must be mapped or exported before its last release, or while it is mapped.",
    functions: [cuMemMap, cuMemExportToShareableHandle], results: [INVALID_VALUE],
    decided_by: vmm_handle_released,
    reasons: [VmmHandleReleased { handle: u64 }: ("{handle:#x} is no handle any more; this process released it as often as it had obtained it, and no mapping of it is left")],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Observed("If a handle was released as often as it was obtained, and is not mapped, cuMemMap and cuMemExportToShareableHandle end the process with SIGSEGV."),
    costs: "The driver crashes, or takes the allocation that has the same handle now. cupeer reports it before the call.",
    cause: "the handle was released, and no mapping of it is left",
    ruled_out: "the handle was not released, or is still mapped",
    hint: "Map or export the memory first, and then release the handle. If memory is to come back after its release (a deep sleep), create it anew before cuMemMap. The driver gives the number of a released handle out again: a second release elsewhere in the program may have released this one.",
    related: Releasing,
    seen: "vllm#36651",
}
rule VmmHandleType "vmm-handle-type" {
    says: "Memory must be exported as a handle type that it was created with.",
    functions: [cuMemExportToShareableHandle], results: [INVALID_VALUE],
    decided_by: vmm_handle_type,
    reasons: [VmmHandleType { wanted: u64, types: Option<u64> }: (if let Some(types) = types => "handleType is {}, but the allocation has handle types {}", HandleTypes(wanted), HandleTypes(types);
            "an imported allocation cannot be exported again, with any handle type; this call asks for {}", HandleTypes(wanted))],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Documented("cuMemExportToShareableHandle", "The implementation of what this handle is and how it can be transferred is defined by the requested handle type in handleType"),
    cause: "the allocation was not created with this handle type",
    ruled_out: "the allocation was created with this handle type",
    hint: "Set requestedHandleTypes in the CUmemAllocationProp of cuMemCreate to the handle type that you export. If the allocation was imported, pass on the descriptor or fabric handle that this process received instead.",
    seen: "UCX#11548",
}
rule VmmUnreachableDevice "vmm-unreachable-device" {
    says: "Access must be given only to devices that can reach the device where the memory is.",
    functions: [cuMemSetAccess], results: [INVALID_DEVICE, INVALID_VALUE],
    decided_by: vmm_unreachable_device,
    reasons: [
        VmmNoSuchDevice { device: i32, count: i32 }: ("desc names device {device}, but this process sees {}", Devices(count)),
        VmmUnreachableDevice { from: Device, to: Option<Device> }: (if let Some(to) = to => "{from} cannot reach the memory on {to}"; "{from} cannot reach the device where the memory is"),
        VmmSomeUnreachable { count: u64 }: ("one of {} in desc cannot reach the device where the memory is", Count(count, "device")),
    ],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Observed("If a device cannot reach the memory's device, cuMemSetAccess returns CUDA_ERROR_INVALID_DEVICE (invalid device ordinal), or CUDA_ERROR_INVALID_VALUE if the process does not see the device. No device gets access then."),
    costs: "The call fails for all devices in desc. The result names an invalid ordinal, although the ordinal is valid.",
    cause: "a device in desc has no path to the one where the memory is",
    ruled_out: "this process sees all devices in desc, and no path is missing",
    hint: "Call cuDeviceCanAccessPeer for each device first, and leave out those for which it returns 0. Their data must go through host memory.",
    seen: "HAMi#2760, pytorch#174030",
}
rule VmmFabricWithoutChannel "vmm-fabric-without-channel" {
    says: "A process that shares memory by fabric handles must be able to read an IMEX channel.",
    functions: [cuMemCreate], results: [NOT_PERMITTED, NOT_SUPPORTED],
    decided_by: vmm_fabric_without_channel,
    reasons: [VmmFabricWithoutChannel { is_known: bool }: (if is_known => "requestedHandleTypes has FABRIC, but this process cannot open an IMEX channel; there is no /dev/nvidia-caps-imex-channels/channel* that it can open; the device's attribute does not show this";
            "requestedHandleTypes has FABRIC, which fails this way if the process cannot open any /dev/nvidia-caps-imex-channels/channel*")],
    severity: Error, scope: Call, found: InFailures, tells: [],
    rests_on: Documented("cuMemCreate", "Applications that intend to use CU_MEM_HANDLE_TYPE_FABRIC based memory sharing must ensure: (1) nvidia-caps-imex-channels character device is created by the driver and is listed under /proc/devices (2) have at least one IMEX channel file accessible by the user launching the application."),
    costs: "The allocation fails, although CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED may be 1.",
    cause: "FABRIC was requested, and the process has no IMEX channel",
    ruled_out: "FABRIC was not requested, or the process has an IMEX channel",
    hint: "Within one machine, request POSIX_FILE_DESCRIPTOR. Between machines, set IMEX up, create /dev/nvidia-caps-imex-channels/channel0 (mknod, or NVreg_CreateImexChannel0=1), and pass it into containers. If the program can do without fabric handles, let it request another type when this call fails. The device attribute is not sufficient.",
    seen: "mscclpp#467, DeepEP#487, Mooncake#1297",
}
rule VmmDescriptor "vmm-descriptor" {
    says: "A descriptor of exported memory must reach the importer as a descriptor, by SCM_RIGHTS or pidfd_getfd, and be open when it is imported.",
    functions: [cuMemImportFromShareableHandle, cuMemPoolImportFromShareableHandle], results: [UNKNOWN, NOT_SUPPORTED, INVALID_VALUE],
    decided_by: vmm_descriptor,
    reasons: [
        VmmDescriptor { name: &'static str, fd: i32, is_open: Option<bool>, owner: Option<Process>, ptrace: Option<Ptrace> }: (in descriptor),
        VmmDescriptorKind { fd: i32, is_pool: bool, owner: Option<Process> }: (if is_pool => "file descriptor {fd} is a pool{}; cuMemPoolImportFromShareableHandle imports it", Clause(" that ", owner, " exported");
            "file descriptor {fd} is memory of cuMemCreate{}; cuMemImportFromShareableHandle imports it", Clause(" that ", owner, " exported")),
    ],
    severity: Error, scope: Processes, found: InFailures, tells: [NotExported],
    rests_on: Observed("cuMemImportFromShareableHandle and cuMemPoolImportFromShareableHandle of a number that is not a descriptor of exported memory in the calling process return CUDA_ERROR_UNKNOWN. If the number is the descriptor of a pool in place of memory, or of memory in place of a pool, they return CUDA_ERROR_NOT_SUPPORTED."),
    costs: "The import fails with CUDA_ERROR_UNKNOWN or CUDA_ERROR_NOT_SUPPORTED, which the documentation does not list. If the number is the descriptor of a different shared allocation, that allocation is imported.",
    cause: "the number is not an open descriptor of exported memory, or it is the descriptor of another kind of memory",
    ruled_out: "the number is a descriptor that was exported in this job as memory of this kind",
    hint: "Send the descriptor over a Unix socket (sendmsg with SCM_RIGHTS), after which the exporter may close it. Or let the importer get it with pidfd_getfd; the exporter must then keep it open until the import. pidfd_getfd needs the right to trace the exporter: CAP_SYS_PTRACE in the importer, or prctl(PR_SET_PTRACER) in the exporter.",
    seen: "pytorch#165685, pytorch#179220, UCX#11978, flashinfer#4089",
}
rule VmmGranularity "vmm-granularity" {
    says: "Sizes and addresses of virtual memory must be multiples of the granularity.",
    functions: [cuMemAddressReserve, cuMemCreate, cuMemMap], results: [INVALID_VALUE],
    decided_by: vmm_granularity,
    reasons: [VmmGranularity { name: &'a str, value: u64, granularity: u64 }: (if name == "size" => "size is {value}, which is not a multiple of the granularity ({})", Bytes(granularity);
            "{name} is {value:#x}, which is not a multiple of the granularity ({})", Bytes(granularity))],
    severity: Error, scope: Call, found: InFailures, tells: [],
    rests_on: Documented("cuMemMap", "Both ptr, size, and offset must be a multiple of the value given via cuMemGetAllocationGranularity with the CU_MEM_ALLOC_GRANULARITY_MINIMUM flag."),
    cause: "a size or an address is not a multiple of the granularity",
    ruled_out: "sizes and addresses are multiples of the granularity",
    hint: "Round sizes up to a multiple of the granularity that cuMemGetAllocationGranularity returns for the same properties.",
}
rule VmmPartialMapping "vmm-partial-mapping" {
    says: "An allocation must be mapped as a whole: offset 0, and its own size.",
    functions: [cuMemMap], results: [NOT_SUPPORTED],
    decided_by: vmm_partial_mapping,
    reasons: [VmmPartialMapping { offset: u64, size: u64, whole: Option<u64> }: (if offset != 0 => "offset is {offset}, and must be 0";
            "size is {}, but the allocation has {}, and must be mapped as a whole", Bytes(size), Or(whole.map(Bytes), "another size"))],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Documented("cuMemMap", "Offset into the memory represented by handle from which to start mapping. Note: currently must be zero."),
    cause: "the call maps only a part of the allocation",
    ruled_out: "the call maps the whole allocation",
    hint: "Create a separate allocation for each part that you map. An importer must use the size of its exporter, with the same rounding.",
}
rule VmmMappedTwice "vmm-mapped-twice" {
    says: "Memory must be mapped where nothing is mapped.",
    functions: [cuMemMap], results: [INVALID_VALUE],
    decided_by: vmm_mapped_twice,
    reasons: [VmmMappedTwice { start: u64, size: u64, mapped: u64, bytes: u64 }: ("{} at {start:#x} overlap an existing mapping: {} at {mapped:#x}", Bytes(size), Bytes(bytes))],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Documented("cuMemMap", "cuMemMap can only create mappings on VA range reservations that are not currently mapped."),
    cause: "something is mapped at these addresses",
    ruled_out: "nothing is known to be mapped at these addresses",
    hint: "Unmap the existing mapping first (cuMemUnmap). Waking an allocator that is already awake maps twice.",
    related: MappingInRange,
    seen: "vllm#36651",
}
rule VmmReservationInUse "vmm-reservation-in-use" {
    says: "A reservation must be freed only when nothing is mapped in it.",
    functions: [cuMemAddressFree], results: [INVALID_VALUE],
    decided_by: vmm_reservation_in_use,
    reasons: [VmmReservationInUse { start: u64, size: u64, mapped: u64, bytes: u64 }: ("in the {} at {start:#x}, {} are still mapped at {mapped:#x}", Bytes(size), Bytes(bytes))],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Observed("cuMemAddressFree of a range with a mapping returns CUDA_ERROR_INVALID_VALUE, and the driver says \"Address range contains existing mapping\"."),
    costs: "The call fails, and addresses and memory stay in use.",
    cause: "something is still mapped in the range",
    ruled_out: "nothing is known to be mapped in the range",
    hint: "Call cuMemUnmap for every mapping in the reservation before cuMemAddressFree.",
    related: MappingInRange,
    seen: "pytorch#186213",
}
rule VmmPartOfMapping "vmm-part-of-mapping" {
    says: "A mapping must be unmapped, and made accessible, as a whole.",
    functions: [cuMemUnmap, cuMemSetAccess], results: [INVALID_VALUE],
    decided_by: vmm_part_of_mapping,
    reasons: [VmmPartOfMapping { start: u64, size: u64, mapped: u64, bytes: u64 }: ("{} at {start:#x} are only a part of the mapping of {} at {mapped:#x}", Bytes(size), Bytes(bytes))],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Documented("cuMemUnmap", "In other words, cuMemUnmap cannot unmap a sub-range of an address range mapped by cuMemCreate / cuMemMap."),
    cause: "the range cuts a mapping",
    ruled_out: "the range cuts no known mapping",
    hint: "Start and end the range on mapping boundaries. To unmap or share parts separately, allocate and map them separately.",
    related: MappingCut,
    seen: "xla#41075",
}
rule VmmReleasedTwice "vmm-released-twice" {
    says: "A handle must be released exactly as often as it was created, imported, or retained.",
    functions: [cuMemRelease], results: [INVALID_VALUE],
    decided_by: vmm_released_twice,
    reasons: [VmmReleasedTwice { handle: u64, is_imported: bool }: ("{handle:#x} is released once too often; this process had already released it as often as it {} or retained it", if is_imported { "imported" } else { "created" })],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Documented("cuMemRelease", "If handle is not a valid handle the behavior is undefined."),
    costs: "The call returns CUDA_ERROR_INVALID_VALUE if the memory is still mapped. Otherwise the driver crashes, or releases an allocation that has the same handle now.",
    cause: "the handle has been released as often as it was obtained",
    ruled_out: "the handle is not known to have been released so often",
    hint: "Remove this cuMemRelease. Each cuMemCreate, import, or cuMemRetainAllocationHandle allows one release; after that, only the mapping keeps the memory.",
    related: Releasing,
}
rule VmmNoAccess "vmm-no-access" {
    says: "Mapped memory should be made accessible to a device.",
    functions: [cuMemMap],
    reasons: [VmmNoAccess { mappings: u64, bytes: u64, start: u64 }: (if mappings == 1 => "{} mapped at {start:#x} were never accessible to any device: cuMemSetAccess was not called for them", Bytes(bytes);
            "{}, {} in all, the first at {start:#x}, were never accessible to any device: cuMemSetAccess was not called for them", Count(mappings, "mapping"), Bytes(bytes))],
    severity: Note, scope: Process, found: InRecordings, tells: [],
    rests_on: Documented("cuMemMap", "Please note calling cuMemMap does not make the address accessible, the caller needs to update accessibility of a contiguous mapped VA range by calling cuMemSetAccess."),
    costs: "No device can use the memory: copies fail with CUDA_ERROR_INVALID_VALUE, kernels with CUDA_ERROR_ILLEGAL_ADDRESS.",
    hint: "Call cuMemSetAccess after each cuMemMap. A new mapping has no access, even if the addresses had access before.",
    seen: "pytorch#174030",
}
rule VmmAccess "vmm-access" {
    says: "Mapped memory should be made accessible to each device that uses it: cuCtxEnablePeerAccess does not do that.",
    functions: [cuMemMap],
    reasons: [VmmAccess { mappings: u64, bytes: u64, start: u64, from: Device, home: Device }: (if mappings == 1 => "only {home} ever had access to {} mapped at {start:#x}; this process enabled peer access from {from} to that device, but cuCtxEnablePeerAccess has no effect on memory that cuMemMap mapped", Bytes(bytes);
            "only {home} ever had access to {} ({} in all, the first at {start:#x}); this process enabled peer access from {from} to that device, but cuCtxEnablePeerAccess has no effect on memory that cuMemMap mapped", Count(mappings, "mapping"), Bytes(bytes))],
    severity: Note, scope: Process, found: InRecordings, tells: [],
    rests_on: Practice("Memory of cuMemMap is accessible to the devices that cuMemSetAccess named, whatever peer access is enabled. Only kernels show which device uses it, and cupeer does not see them."),
    costs: "Kernels of the other device hang or fault, and no call fails.",
    hint: "List each device that uses the memory in desc of cuMemSetAccess, in one call or in several. If only its own device uses it, ignore this.",
    seen: "xla#41075",
}
rule VmmLeak "vmm-leak" {
    says: "A program should release and unmap what it imports on every path.",
    functions: [cuMemImportFromShareableHandle],
    reasons: [VmmLeak { handles: u64, opened: u64, bytes: u64, freed: u64, growth: Growth<'a> }: ("{handles} of {} imported at this place were never given up (unmapped and released){growth}{}", Count(opened, "allocation"), Kept(bytes, freed))],
    severity: Warning, scope: Process, found: InRecordings, tells: [OpenAtExit],
    rests_on: Documented("cuMemRelease", "The memory allocation will be freed when all outstanding mappings to the memory are unmapped and when all outstanding references to the handle (including it's shareable counterparts) are also released."),
    costs: "Imports pile up while the process runs. Each keeps its memory, which is not returned to the device even after its owner releases it.",
    hint: "Find the path on which the handle is not released (cuMemRelease), or its mapping not unmapped (cuMemUnmap): an early return, an error, or an exception.",
    labels: [closed: "others closed"],
}
    } };
}
