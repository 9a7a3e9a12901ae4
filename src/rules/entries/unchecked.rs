//! Rules that cupeer does not check, with the reasons.

macro_rules! unchecked_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule IpcCloseInFlight "ipc-close-in-flight" {
    says: "Close memory only when no work that uses it is in flight.",
    functions: [cuIpcCloseMemHandle],
    severity: Error, scope: Process, found: Nowhere, tells: [],
    rests_on: Practice("Copies fail, or read what is mapped there next, if another thread or stream is still using the mapping."),
    costs: "Failing copies, or wrong data.",
    hint: "Synchronize the streams that use the memory first.",
    seen: "UCX#4599, UCX#11744",
    unchecked: "which work uses which memory depends on copies and kernels, which cupeer does not see",
}
rule PeerOneWay "peer-one-way" {
    says: "Access must be enabled in each direction that is used.",
    functions: [cuCtxEnablePeerAccess],
    severity: Error, scope: Process, found: Nowhere, tells: [],
    rests_on: Documented("cuCtxEnablePeerAccess", "Note that access granted by this call is unidirectional and that in order to access memory from the current context in peerContext, a separate symmetric call to cuCtxEnablePeerAccess() is required."),
    costs: "Kernels fail with CUDA_ERROR_ILLEGAL_ADDRESS.",
    hint: "Enable access in the other direction, too; the peer matrix of the report shows both.",
    seen: "NCCL#1507, candle#3525",
    unchecked: "many programs need only one direction, and which ones are used depends on kernels, which cupeer does not see",
}
rule PeerNeverEnabled "peer-never-enabled" {
    says: "Devices that can reach each other should have access enabled before memory is copied between them.",
    functions: [cuDeviceCanAccessPeer],
    severity: Warning, scope: Process, found: Nowhere, tells: [],
    rests_on: Practice("Copies between devices work without access, through host memory."),
    costs: "Speed.",
    hint: "Enable access once at the start; the peer matrix of the report shows pairs that could have access and do not.",
    seen: "alpaka#596, cupy#5379",
    unchecked: "some programs copy so rarely that access is not worth it; the report's peer matrix shows pairs with copies and without access",
}
rule PeerData "peer-data" {
    says: "Data written over an enabled link must arrive.",
    functions: [cuCtxEnablePeerAccess],
    severity: Error, scope: Process, found: Nowhere, tells: [],
    rests_on: Practice("With an IOMMU or ACS in the way, drivers advertise peer access, but writes are lost or a kernel hangs; no call fails."),
    costs: "Wrong data, or a hang.",
    hint: "Run NVIDIA's simpleP2P; boot with iommu=pt and disable ACS on the switches.",
    seen: "pytorch#84803, NCCL#631, vllm#51513",
    unchecked: "only a kernel that writes while the owner reads can tell, and cupeer runs no kernels in programs",
}
rule PoolAccess "pool-access" {
    says: "A device must get access to a pool's memory by cuMemPoolSetAccess, not by cuCtxEnablePeerAccess.",
    severity: Error, scope: Process, found: Nowhere, tells: [],
    rests_on: Practice("Memory of cuMemAllocAsync ignores cuCtxEnablePeerAccess."),
    costs: "Kernels on the other device fail.",
    seen: "tensorflow#47480, CUDA.jl#3166, rmm#1753",
    unchecked: "which device uses memory of a pool depends on kernels, which cupeer does not see; the report shows which devices got access to each pool",
}
rule FabricLifetime "fabric-lifetime" {
    says: "Memory must exist until all its fabric handles have been imported: a fabric handle holds no reference.",
    severity: Error, scope: Processes, found: Nowhere, tells: [],
    rests_on: Practice("cuMemRelease right after the export frees the memory under the importer."),
    costs: "The import fails.",
    seen: "mscclpp#764",
    unchecked: "only other processes know which of them hold the memory by a mapping or a descriptor, and no late import of a fabric handle was observed on our machines",
}
rule UseAfterOwnerExited "use-after-owner-exited" {
    says: "Opened memory may be used after its owner exited.",
    severity: Note, scope: Processes, found: Nowhere, tells: [],
    rests_on: Observed("After the owner has exited, copies, kernels, and graphs of the importer read and write the memory as before, and all calls succeed."),
    costs: "Nothing: the memory stays until its last importer closes it.",
    unchecked: "the memory stays as it was, so right programs use it; cupeer reports the use of memory that its owner freed before it exited",
}
    } };
}
