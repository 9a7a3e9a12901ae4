//! Rules about memory pools and their sharing.

macro_rules! pool_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule PoolHandleType "pool-handle-type" {
    says: "A pool must be exported by the process that created it, as a handle type that it was created with.",
    functions: [cuMemPoolExportToShareableHandle], results: [INVALID_VALUE],
    decided_by: pool_handle_type,
    reasons: [PoolHandleType { wanted: u64, fault: PoolFault }: (in pool_handle_type)],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Observed("cuMemPoolExportToShareableHandle of a pool that was created without the handle type, of a default pool, of an imported pool, and of a destroyed pool returns CUDA_ERROR_INVALID_VALUE."),
    cause: "the pool was not created with this handle type, or not by this process",
    ruled_out: "the process created the pool with this handle type",
    hint: "Create a pool with handleTypes set in the CUmemPoolProps of cuMemPoolCreate (cudaMemPoolCreate), and allocate shared memory from it. The default pool of a device, which cudaMallocAsync uses, has no handle types.",
}
rule PoolPointer "pool-pointer" {
    says: "A pointer exported from a pool must be the start of an allocation of this process, from a pool that was exported before.",
    functions: [cuMemPoolExportPointer], results: [INVALID_VALUE],
    decided_by: pool_pointer,
    reasons: [PoolPointer { address: u64, fault: PointerFault }: (in pool_pointer)],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Documented("cuMemPoolExportPointer", "Constructs shareData_out for sharing a specific allocation from an already shared memory pool."),
    cause: "the pointer is not the start of an allocation from an exported pool",
    ruled_out: "the pointer's pool was exported before",
    hint: "Call cuMemPoolExportToShareableHandle for the pool before the first cuMemPoolExportPointer of its memory. Memory of cuMemAlloc has legacy handles (cuIpcGetMemHandle).",
    only_at_the_call: "what the driver says of the pointer",
}
rule PoolWrongPool "pool-wrong-pool" {
    says: "A pointer of a pool must be imported into the imported form of that pool.",
    functions: [cuMemPoolImportPointer], results: [INVALID_VALUE],
    decided_by: pool_wrong_pool,
    reasons: [
        PoolNotImported { pool: u64, is_destroyed: bool }: (if is_destroyed => "pool {pool:#x} is destroyed";
            "pool {pool:#x} belongs to this process; pointers can only be imported into an imported pool"),
        PoolWrongPool { pool: u64, of_pool: Process, of_pointer: Process }: ("the pointer is not from pool {pool:#x}; {of_pointer} exported the pointer, but {of_pool} exported the pool"),
    ],
    severity: Error, scope: Processes, found: InFailures, tells: [],
    rests_on: Observed("cuMemPoolImportPointer into a pool other than the pointer's, or into a pool of the same process, returns CUDA_ERROR_INVALID_VALUE."),
    cause: "the pointer belongs to a different pool",
    ruled_out: "the pool is imported, and from the process that exported the pointer",
    hint: "Send with each pointer which pool it belongs to, and import it into the imported form of that pool. If several processes export pools, keep the imported ones apart by process and pool.",
    only_at_the_call: "what others have exported, but where the pool is the process's own",
}
rule PoolPointerTwice "pool-pointer-imported-twice" {
    says: "A process should import a pointer of a pool once, and share the import among its threads.",
    functions: [cuMemPoolImportPointer],
    reasons: [PoolPointerTwice { address: u64, handle: Handle }: ("{handle} was already imported here, at the same address; both imports are the one mapping {address:#x}, and the first free ends both")],
    severity: Warning, scope: Process, found: InSuccesses, tells: [],
    rests_on: Observed("cuMemPoolImportPointer of a pointer that the process has already imported returns the same address. One cuMemFreeAsync ends both imports, and a second one returns CUDA_ERROR_INVALID_VALUE."),
    costs: "Both imports are one mapping. After the first free, the other owner's copies and kernels fail, or reach other memory.",
    hint: "Import the pointer once, and count its users: free it when the last one is done. If several threads use it, hold one lock while a thread checks whether the pointer is already imported, imports it, or frees it.",
    related: FirstOpening,
    seen: "cuda-python#2840",
}
rule PoolImportInUse "pool-import-in-use" {
    says: "An imported pool must be destroyed only when all of its pointers are freed.",
    functions: [cuMemPoolDestroy], results: [INVALID_VALUE],
    decided_by: pool_import_in_use,
    reasons: [PoolImportInUse { pool: u64, pointers: u64 }: ("{} of the imported pool {pool:#x} {} not freed", Count(pointers, "pointer"), if pointers == 1 { "is" } else { "are" })],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Observed("cuMemPoolDestroy of an imported pool with imported pointers returns CUDA_ERROR_INVALID_VALUE; of a pool of the same process it succeeds."),
    cause: "pointers of the imported pool are not freed",
    ruled_out: "no pointer of the pool is known to be imported",
    hint: "Free the pointers that cuMemPoolImportPointer returned (cuMemFree, or cuMemFreeAsync and its stream) before you destroy the imported pool.",
}
rule PoolFreedWhileOpen "pool-freed-while-open" {
    says: "All importers must free memory of a pool before its owner frees it.",
    functions: [cuMemFree, cuMemFree_v2, cuMemFreeAsync, cuMemFreeAsync_ptsz],
    reasons: [PoolFreedWhileOpen { address: u64, bytes: u64, handle: Handle, importers: u64, first: Process }: ("{}; using it is now undefined", Freed(address, bytes, handle, Importers(importers, first)))],
    severity: Error, scope: Processes, found: Afterwards, tells: [FreedWhileOpen, ClosedLate],
    rests_on: Documented("cuMemPoolImportPointer", "The imported memory must be freed from all importing processes before being freed in the exporting process."),
    costs: "The free succeeds, and the pool can reuse the memory: importers read and overwrite other data.",
    hint: "Let the importers confirm that they freed the memory before the owner frees it, on a stream that waited for them.",
    only_at_the_call: "whether an importer that makes no further call still runs",
}
rule PoolDestroyedWhileOpen "pool-destroyed-while-open" {
    says: "A pool should be destroyed only when no process has it imported.",
    functions: [cuMemPoolDestroy],
    reasons: [PoolDestroyedWhileOpen { pool: u64, handle: Handle, importers: u64, first: Process }: ("pool {pool:#x} was destroyed while open in {}; memory from it stays valid there, but no process can get new memory from it; its handle is {handle}", Importers(importers, first))],
    severity: Warning, scope: Processes, found: Afterwards, tells: [FreedWhileOpen, ClosedLate],
    rests_on: Observed("cuMemPoolDestroy of a pool that other processes imported succeeds. From then on, nothing can be allocated from it, and it cannot be exported."),
    costs: "Importers cannot get new memory from the pool. Its memory stays until all of them have freed theirs.",
    hint: "Let the importers destroy their imported pools first, and make the exporter wait for them.",
    only_at_the_call: "whether an importer that makes no further call still runs",
}
    } };
}
