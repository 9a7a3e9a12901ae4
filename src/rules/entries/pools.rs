//! Rules about memory pools and their sharing.

macro_rules! pool_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule PoolHandleType "pool-handle-type" {
    says: "A pool must be exported by the process that made it, as a handle type that it was made with.",
    functions: [cuMemPoolExportToShareableHandle], results: [INVALID_VALUE],
    severity: Error, scope: Process,
    rests_on: Observed("cuMemPoolExportToShareableHandle of a pool that was made without the handle type, of a default pool, of an imported one and of one that is destroyed returns CUDA_ERROR_INVALID_VALUE."),
    cause: "the pool was not made with this handle type, or is no pool of the process's own",
    ruled_out: "the process made the pool with this handle type",
    hint: "Make a pool of your own with handleTypes set in the CUmemPoolProps of cuMemPoolCreate (cudaMemPoolCreate), and allocate from that what you share: a device's default pool has none, and cudaMallocAsync takes from it.",
}
rule PoolPointer "pool-pointer" {
    says: "What is exported of a pool must be the start of an allocation of the process's own, from a pool whose handle was exported before.",
    functions: [cuMemPoolExportPointer], results: [INVALID_VALUE],
    severity: Error, scope: Process,
    rests_on: Documented("cuMemPoolExportPointer", "Constructs shareData_out for sharing a specific allocation from an already shared memory pool."),
    cause: "the pointer is no start of an allocation from a pool that was exported",
    ruled_out: "the pointer's pool was exported before",
    hint: "Call cuMemPoolExportToShareableHandle for the pool before the first cuMemPoolExportPointer of its memory. Memory of cuMemAlloc has legacy handles (cuIpcGetMemHandle).",
}
rule PoolWrongPool "pool-wrong-pool" {
    says: "A pointer of a pool must be imported into the imported form of that pool.",
    functions: [cuMemPoolImportPointer], results: [INVALID_VALUE],
    severity: Error, scope: Processes,
    rests_on: Observed("cuMemPoolImportPointer into another pool than the one that the pointer is of, or into a pool of the process's own, returns CUDA_ERROR_INVALID_VALUE."),
    cause: "the pool is not the one that the pointer is of",
    ruled_out: "the pool is imported, and from the process that exported the pointer",
    hint: "Send with each pointer which pool it is of, and keep one imported pool for each exporter and pool. In the process that made the pool use the pointer itself.",
}
rule PoolImportInUse "pool-import-in-use" {
    says: "An imported pool must be destroyed only when all of its pointers are freed.",
    functions: [cuMemPoolDestroy], results: [INVALID_VALUE],
    severity: Error, scope: Process,
    rests_on: Observed("cuMemPoolDestroy of an imported pool of which pointers are imported returns CUDA_ERROR_INVALID_VALUE; of a pool of the process's own it succeeds."),
    cause: "pointers of the imported pool are not freed",
    ruled_out: "no pointer of the pool is known to be imported",
    hint: "Free what cuMemPoolImportPointer returned (cuMemFree, cuMemFreeAsync and its stream), then destroy the imported pool.",
}
rule PoolFreedWhileOpen "pool-freed-while-open" {
    says: "Memory of a pool must be freed by all who have imported it before its owner frees it.",
    functions: [cuMemFree, cuMemFree_v2, cuMemFreeAsync, cuMemFreeAsync_ptsz],
    severity: Error, scope: Processes,
    rests_on: Documented("cuMemPoolImportPointer", "The imported memory must be freed from all importing processes before being freed in the exporting process."),
    costs: "The free succeeds, and the pool may give the memory out again: importers read and overwrite what is somebody else's.",
    hint: "Let the importers say that they have freed it before the owner frees it, in the order of a stream that waited for them.",
}
rule PoolDestroyedWhileOpen "pool-destroyed-while-open" {
    says: "A pool should be destroyed only when nobody has it imported.",
    functions: [cuMemPoolDestroy],
    severity: Warning, scope: Processes,
    rests_on: Observed("cuMemPoolDestroy of a pool that others have imported succeeds; from then on nothing of it can be allocated, and it cannot be exported."),
    costs: "Importers can get no new memory of the pool; its memory stays until all have freed theirs.",
    hint: "Let the importers destroy their imported pools first.",
}
    } };
}
pub(crate) use pool_rules;
