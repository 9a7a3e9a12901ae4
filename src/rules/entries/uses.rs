//! Rules about the use of shared memory: copies, memsets, and launches.

macro_rules! use_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule UseAfterClose "use-after-close" {
    says: "Opened memory must not be used after its last cuIpcCloseMemHandle, or after its context ended.",
    functions_of: USES_AND_FREES, results: [INVALID_VALUE],
    decided_by: used_what_is_gone(Rule::UseAfterClose),
    reasons: [UseAfterClose { name: &'a str, address: u64, range: (u64, u64), handle: Handle, ago: Option<Ago>, by: Option<Site<'a>>, with_context: bool }: ("{name} {address:#x} is in memory that this process closed{}; {}{handle} was open at {}", When(ago), Clause(if with_context { "its context ended in " } else { "the last close was in " }, by, "; "), Range(range))],
    severity: Error, scope: Process, found: AtTheCall, tells: [],
    rests_on: Observed("A copy from or to an address that the driver does not know returns CUDA_ERROR_INVALID_VALUE, and the driver says \"Allocation not found\"."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE; if the driver has mapped other memory there since, it reads or overwrites that. cuMemcpy, cuMemcpyAsync, and batches crash (SIGSEGV): the driver takes an address that it does not know for one of the host.",
    cause: "the address is in memory that this process closed",
    ruled_out: "this process has not closed memory at the address",
    hint: "Close the memory when the last user is done: join the threads that copy before the close. In a cache of mappings, count the users of each, and evict only a mapping that has none.",
    only_at_the_call: "whether the driver had memory there again",
    seen: "mpich#7977, UCX#4599",
}
rule UseAfterUnmap "use-after-unmap" {
    says: "Addresses must not be used after cuMemUnmap of the memory there.",
    functions_of: USES_AND_FREES, results: [INVALID_VALUE],
    decided_by: used_what_is_gone(Rule::UseAfterUnmap),
    reasons: [
        UseAfterUnmap { name: &'a str, address: u64, range: (u64, u64), ago: Option<Ago>, by: Option<Site<'a>> }: ("{name} {address:#x} is in a range that this process unmapped{}; {}the range was {}", When(ago), Clause("cuMemUnmap was called in ", by, "; "), Range(range)),
        UseAfterUnreserve { name: &'a str, address: u64, range: (u64, u64), ago: Option<Ago>, by: Option<Site<'a>> }: ("{name} {address:#x} is in addresses that this process freed{}; {}before that, it unmapped {}", When(ago), Clause("cuMemAddressFree was called in ", by, "; "), Range(range)),
    ],
    severity: Error, scope: Process, found: AtTheCall, tells: [],
    rests_on: Observed("A copy from or to reserved addresses where nothing is mapped returns CUDA_ERROR_INVALID_VALUE."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE; if other memory is mapped there, it reads or overwrites that. cuMemcpy, cuMemcpyAsync, and batches crash (SIGSEGV): the driver takes an address that it does not know for one of the host.",
    cause: "the address is in a range that this process unmapped",
    ruled_out: "this process has not unmapped the address",
    hint: "Map memory there again before the first use (cuMemMap, cuMemSetAccess): after a sleep, every range must be awake before anything uses it. Unmap it when the last user is done: join the threads that use it, and synchronize their streams, before cuMemUnmap.",
    only_at_the_call: "whether the driver had memory there again",
    seen: "video-stitcher#68, vime#56, vllm#28714, vllm#55013",
}
rule UseAfterFree "use-after-free" {
    says: "Exported memory, and memory of an imported pool, must not be used after this process freed it.",
    functions_of: USES_AND_FREES, results: [INVALID_VALUE],
    decided_by: used_what_is_gone(Rule::UseAfterFree),
    reasons: [UseAfterFree { name: &'a str, address: u64, range: (u64, u64), ago: Option<Ago>, by: Option<Site<'a>>, with_context: bool }: ("{name} {address:#x} is in shared memory that this process freed{}; {}the memory was at {}", When(ago), Clause(if with_context { "its context ended in " } else { "the free was in " }, by, "; "), Range(range))],
    severity: Error, scope: Process, found: AtTheCall, tells: [],
    rests_on: Observed("A copy from or to an address that the driver does not know returns CUDA_ERROR_INVALID_VALUE, and the driver says \"Allocation not found\"."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE; if the driver has given out the addresses again, it reads or overwrites other memory. cuMemcpy, cuMemcpyAsync, and batches crash (SIGSEGV): the driver takes an address that it does not know for one of the host.",
    cause: "the address is in shared memory that this process freed",
    ruled_out: "this process has not freed shared memory at the address",
    hint: "Free the memory when the last user is done. Import a pool pointer once, and share it with a reference count: all imports of a pointer have one address, and one free ends them.",
    only_at_the_call: "whether the driver had memory there again",
    seen: "cuda-python#2840",
}
rule UseBeyondEnd "use-beyond-end" {
    says: "A copy or memset must not begin or end behind the opened or mapped memory that it is for.",
    functions_of: USES, results: [INVALID_VALUE],
    decided_by: used_what_is_there(Rule::UseBeyondEnd),
    reasons: [
        UseBeyondEnd { name: &'a str, start: u64, bytes: u64, beyond: u64, range: (u64, u64), handle: Option<Handle>, is_foreign: bool }: (if let Some(handle) = handle => "{name} goes {} beyond memory that this process opened; the call uses {}; {handle} is open at {}", Bytes(beyond), Range((start, bytes)), Range(range);
            "{name} goes {} beyond memory that this process {}; the call uses {}; the mapping is {}, and nothing is mapped behind it", Bytes(beyond), if is_foreign { "imported" } else { "mapped" }, Range((start, bytes)), Range(range)),
        UseBehindEnd { name: &'a str, start: u64, behind: u64, range: (u64, u64), handle: Option<Handle> }: (if let Some(handle) = handle => "{name} is {} behind memory that this process opened; nothing is at {start:#x}; {handle} is open at {}", Bytes(behind), Range(range);
            "{name} is {} behind memory that this process imported; nothing is at {start:#x}; the mapping is {}", Bytes(behind), Range(range)),
    ],
    severity: Error, scope: Process, found: AtTheCall, tells: [],
    rests_on: Observed("A copy that begins in an allocation and ends beyond it returns CUDA_ERROR_INVALID_VALUE, and the driver says \"Copy is larger than memobj size\". If it ends where nothing is mapped, the driver says \"Copy range not fully allocated\"."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE. A kernel that goes as far stops with CUDA_ERROR_ILLEGAL_ADDRESS, or uses other memory.",
    cause: "the range ends or begins behind memory that is opened or mapped",
    ruled_out: "no range is known to go beyond the opened or mapped memory in which it begins, or to begin a short way behind imported memory",
    hint: "Map as much as the call uses. Send the size with the handle, and copy no more. A handle refers to one allocation: if the buffer has several, export each of them, and map them one after the other.",
    only_at_the_call: "where the memory ended, which only the driver says",
    related: MappingUsed,
}
rule UseBeforeMap "use-before-map" {
    says: "Reserved addresses must not be used before memory is mapped there.",
    functions_of: USES, results: [INVALID_VALUE],
    decided_by: used_before_map,
    reasons: [UseBeforeMap { name: &'a str, address: u64, range: (u64, u64) }: ("{name} {address:#x} is in addresses that this process only reserved; nothing is mapped there; the reservation is {}", Range(range))],
    severity: Error, scope: Process, found: AtTheCall, tells: [],
    rests_on: Documented("cuMemAddressReserve", "Reserves a virtual address range based on the given parameters, giving the starting address of the range in ptr."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE. A kernel that uses the addresses stops with CUDA_ERROR_ILLEGAL_ADDRESS. cuMemcpy, cuMemcpyAsync, and batches crash (SIGSEGV): the driver takes an address that it does not know for one of the host.",
    cause: "nothing was ever mapped at the address, which is only reserved",
    ruled_out: "the address is not known to be reserved without memory",
    hint: "Map memory there (cuMemCreate, cuMemMap), and give the device access (cuMemSetAccess), before the first use. A pool that grows must map as far as it hands out addresses.",
    only_at_the_call: "whether the driver had memory there",
}
rule UseWithoutAccess "use-without-access" {
    says: "A device must have access to mapped memory that its copies and memsets use: cuCtxEnablePeerAccess does not give it.",
    functions_of: USES, results: [INVALID_VALUE],
    decided_by: used_what_is_there(Rule::UseWithoutAccess),
    reasons: [
        UseWithoutAccess { name: &'a str, address: u64, device: Device, context: Option<&'a str>, range: (u64, u64), is_granted: bool, home: Option<Device> }: ("{device} has no access to {name} {address:#x}; {}cuMemSetAccess {}; the mapping is {}{}", Clause("", context, " is a context of that device; "), if is_granted { "gave access to another device only" } else { "was not called for it" }, Range(range), Clause(", of memory on ", home, "; cuCtxEnablePeerAccess does not reach virtual memory")),
        UseReadOnly { name: &'a str, address: u64, device: Device, range: (u64, u64) }: ("{device} may not write to {name} {address:#x}; cuMemSetAccess gave it only PROT_READ; the mapping is {}", Range(range)),
    ],
    severity: Error, scope: Process, found: AtTheCall, tells: [],
    rests_on: Documented("cuMemMap", "Please note calling cuMemMap does not make the address accessible, the caller needs to update accessibility of a contiguous mapped VA range by calling cuMemSetAccess."),
    costs: "The call fails with CUDA_ERROR_INVALID_VALUE. A kernel that uses the memory stops with CUDA_ERROR_ILLEGAL_ADDRESS.",
    cause: "the device has no such access to the mapped memory there",
    ruled_out: "the device has access to the mapped memory that is known there",
    hint: "After each cuMemMap, call cuMemSetAccess with a descriptor for each device that uses the memory: the device that copies; of cuMemcpyPeer, the devices of both contexts. A device that writes needs PROT_READWRITE. An importer must do so itself: what the exporter set holds in the exporter only.",
    only_at_the_call: "which devices had access",
    related: MappingUsed,
}
rule UseAfterOwnerFreed "use-after-owner-freed" {
    says: "Opened memory should not be used after its owner freed it.",
    functions_of: USES_AND_GRAPHS,
    reasons: [UseAfterOwnerFreed { name: &'a str, address: u64, range: (u64, u64), handle: Handle, owner: Process, ago: Option<Ago> }: ("{name} {address:#x} is in memory that {owner} freed{}; {handle} is still open in this process at {}, where the old content remains", When(ago), Range(range))],
    severity: Warning, scope: Processes, found: AtTheCall, tells: [],
    rests_on: Observed("After the owner's cuMemFree, the importer goes on reading and writing what the memory held, and the call succeeds."),
    costs: "The call succeeds, and reads or writes memory that its owner no longer has: what the owner writes later is not there.",
    cause: "the owner of the memory freed it",
    ruled_out: "no owner freed memory that is open at the address",
    hint: "Free the memory in the owner after all importers have closed it. Until then, let them tell the owner when they are done.",
    only_at_the_call: "which copies go within a device, which are not recorded otherwise",
}
rule UseInGraph "use-in-graph" {
    says: "A graph should not copy or set memory that this process unmapped, or shared memory that it closed or freed.",
    functions_of: GRAPHS, results: [INVALID_VALUE, GRAPH_EXEC_UPDATE_FAILURE],
    decided_by: graph_refused,
    reasons: [UseInGraph { node: &'a str, address: u64, went: EndKind, range: (u64, u64), ago: Option<Ago>, by: Option<Site<'a>> }: ("{node} is in memory that {}{}; the address is {address:#x}; {}the memory was at {}", went.words(), When(ago), Clause("that was in ", by, "; "), Range(range))],
    severity: Warning, scope: Process, found: AtTheCall, tells: [],
    rests_on: Observed("Some machines instantiate, update, and launch the graph. When it runs, the context ends: the next call that waits returns CUDA_ERROR_ILLEGAL_ADDRESS or CUDA_ERROR_LAUNCH_FAILED, as do all later ones. Other machines refuse the instantiation with CUDA_ERROR_INVALID_VALUE, and the update with CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE; the driver says \"invalid memset range - no allocation found\". Setting the parameters of a node returns CUDA_ERROR_INVALID_VALUE."),
    costs: "The call fails, or the graph runs later. When it runs, its context cannot be used any more, or it reads or overwrites other memory.",
    cause: "a node of the graph is a copy or a memset of memory that is gone",
    ruled_out: "no copy or memset of the graph is in memory that this process unmapped, or in shared memory that it closed or freed",
    hint: "Before you close, unmap, or free memory, destroy the graphs that use it, or update them. If you open the memory again, capture the graph again: the address can change.",
    only_at_the_call: "what the nodes of the graph use",
}
rule UseInKernel "use-in-kernel" {
    says: "A kernel should not be given the address of memory that this process unmapped, or of shared memory that it closed or freed.",
    functions_of: LAUNCHES,
    reasons: [UseInKernel { kernel: &'a str, node: &'a str, parameter: usize, address: u64, went: EndKind, range: (u64, u64), ago: Option<Ago>, by: Option<Site<'a>> }: ("kernel parameter {parameter} is in memory that {}{}; {}the address is {address:#x}; {}the memory was at {}{}", went.words(), When(ago), Clause("it is ", Some(node).filter(|node| !node.is_empty()), " of the graph; "), Clause("that was in ", by, "; "), Range(range), KernelName(kernel))],
    severity: Note, scope: Process, found: AtTheCall, tells: [],
    rests_on: Observed("The launch succeeds. A kernel that reads or writes such an address stops, and the next call returns CUDA_ERROR_ILLEGAL_ADDRESS, as do all later ones of the context. Memory of a pool, and small allocations, stay mapped after their free: the kernel reads their old bytes, and no call fails."),
    costs: "If the kernel uses the address, it stops with CUDA_ERROR_ILLEGAL_ADDRESS, or it reads or overwrites other memory. The process gets no other context on that device.",
    cause: "a parameter of the kernel is an address in memory that is gone",
    ruled_out: "no parameter of the kernel is in memory that this process unmapped, or in shared memory that it closed or freed",
    hint: "Before you close, unmap, or free the memory, wait for the last kernel that uses it: synchronize its stream, or wait for an event. Where you unmapped memory that kernels use again, map it before the launch.",
    only_at_the_call: "what the parameters of the kernel are",
}
rule UseUnwritten "use-unwritten" {
    says: "A process should read the bytes of shared memory that another process wrote.",
    functions_of: USES,
    reasons: [UseUnwritten { reader: Process, read: (u64, u64), size: u64, handle: Handle, owner: Option<Process>, writer: Process, wrote: (u64, u64), before: Ago }: (in unwritten)],
    severity: Note, scope: Processes, found: InRecordings, tells: [],
    rests_on: Practice("An offset in a window, a tensor, or a slot is added to the start of the whole allocation, or the reverse: then the writer and the reader use different bytes of the same memory, and no call fails."),
    costs: "No call fails: the data is in other bytes than those that are read, and it may have overwritten others.",
    hint: "Compare the offsets of both calls: add the start of the window or tensor within its allocation to each offset, in both processes. If a kernel wrote the bytes, or they were filled before the export, ignore this.",
    labels: [used: "wrote"],
    seen: "NCCL#2198",
}
rule CopyThroughHost "copy-through-host" {
    says: "Data should go directly between devices if a process has memory of the other device open.",
    functions: [cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds],
    reasons: [CopyThroughHost { bytes: u64, all: u64, from: Device, to: Device, holder: Process, since: Ago }: ("{}{} from {from} to {to} went through host memory; {holder} had the memory at one end open for {since}, so a direct copy was possible", Bytes(bytes), Clause(" of ", (all > bytes).then_some(Bytes(all)), ""))],
    severity: Note, scope: Processes, found: InRecordings, tells: [],
    rests_on: Practice("Communication libraries use host memory if they do not find the handle of a buffer: for example, because it is in an allocation whose handle another buffer carries. Then the transfer works, but is slower."),
    costs: "Time: each byte crosses PCIe twice and occupies host memory, although the devices can reach each other.",
    hint: "Send the handle of the allocation with every buffer in it, and look for open memory by address range instead of by buffer. If the data must pass through the host, ignore this.",
    seen: "Mooncake#3679",
}
    } };
}
