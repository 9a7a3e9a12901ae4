//! **The table**: every function that cupeer intercepts, once.
//!
//! What belongs here: what the exports, the look-up, the formatter, the simulated driver, the
//! documentation and the tests need to know about a function. All of them derive from this macro; none of
//! them may name a function a second time. What does not belong here: behaviour.
//!
//! # The form of an entry
//!
//! - The doc comment is the sentence of `cupeer explain`.
//! - `in`, `out` and `inout` say which way an argument goes. `out[count]` and `in[count]` are arrays with
//!   as many elements as the argument `count` says; `string` is a NUL-terminated text, `in_struct` a pointer to a
//!   structure. `out_handle[type]` and `in_handle[type]` are shareable handles, of the kind that the argument `type` says.
//! - `library` names where the real function lives; `since` is the first version (1000 * major + 10 * minor) for which
//!   `cuGetProcAddress` finds it by its [`crate::function::look_up_name`]: 0 for a function that is not the driver's.
//! - `simulated` says how far the simulated driver's answers are known: [`crate::function::Fidelity`].
//! - `effects` says what a success does, to what, and which arguments name that: [`crate::effect`]. The groups, what is
//!   recorded, counted, asked, denied, undone and reported follow from it.
//!   - `Exports OBJECT(BY) as HANDLE`, `Opens OBJECT(BY) from HANDLE`, `Closes OBJECT(BY)`
//!   - `Enables Peer(BY)`, `Disables Peer(BY)`
//!   - `Makes OBJECT(BY)`, with `sized SIZE` where an argument says how large, and `of WHOSE` what it is made of
//!   - `Retains OBJECT(BY)`: one reference more
//!   - `Ends OBJECT(BY)`, with `sized SIZE` where all in so many bytes from there end, and `on LastReference` where the call
//!     gives up one reference, and only the last one ends it
//!   - `Grants OBJECT(BY) to WHOM`, with `sized SIZE` where it is about so many bytes from there: sets what the devices in
//!     the array may do
//!   - `Gathers Team(BY)`: what was made is a multicast object, which devices join; `Joins Team(BY) of DEVICE`
//!   - `Binds OBJECT(BY) sized SIZE to TEAM at OFFSET`, with `of DEVICE` where an argument names it, and
//!     `Unbinds Team(BY) sized SIZE of DEVICE at OFFSET`
//!   - `Copies OBJECT(TO) from FROM sized SIZE`, with `on Peers` where it is between two devices by its name
//!   - `Uses Memory(AT) sized SIZE`: the bytes from there, each element as large as the argument `of VALUE`; with `to HEIGHT at
//!     PITCH`, so many rows; without a size, the argument is a structure that says where from, where to and how much
//!   - `UsesEach Memory(TO, FROM) sized SIZES to COUNT`: so many copies, of which arrays say where to, where from, and how much;
//!     or `UsesEach Memory(COPIES) to COUNT`, of which an array of structures says that
//!   - `Launches Function(KERNEL) from PARAMETERS`, with `of EXTRA` where they can be passed in another way
//!   - `Records Event(EVENT)`: in a stream
//!   - `Finds Function(FOUND) of MODULE`, or `Finds Kernel(FOUND) of LIBRARY`, with `sized ROOM` where it finds several; `Unloads
//!     Module(WHICH)`, or `Library`
//!   - `Instantiates Graph(EXEC) of GRAPH`: makes or updates what can be launched; `Replays Graph(EXEC)` launches it,
//!     `Alters Kernel(EXEC, NODE) from PARAMETERS`, or `Copy`, or `Fill`, changes a node of it, and `Discards Graph(EXEC)` ends
//!     it, or changes what is not followed
//!   - `Asks Reach(FROM, TO) as ANSWER`, or `Link`, `Device(DEVICE)`, `Memory(WHICH)`, `Pool(WHICH)`, `Team(WHICH)`. Where an argument chooses what is asked, `where
//!     ARGUMENT is VALUE` says for which of its values the answer is whether a device can reach others: of a link
//!     `ACCESS_SUPPORTED`, of a device `MULTICAST_SUPPORTED`, which reaches them over NVLink without peer access
//!   - `LooksUp Function(NAME) as FOUND`
//!   - `Begins Driver(FLAGS)`: initializes the driver in the process
//! - `results` are the documented ones of its library, SUCCESS first. `seen` are failures that the documentation does not
//!   list and real drivers were seen to return: in `tests/conformance`, or as a rule or a cause in `src/rules` has it. A fault
//!   plan takes both; a rule that rests on the documentation only the former.
//! - `also` is the same function for the thread's own default stream (`_ptds`, `_ptsz`): its sentence, its name, and what is
//!   its own. It has the arguments, effects and documented results of the entry.

/// Hands all entries to the macro `$callback`, with what `also` says as an entry of its own behind each.
#[doc(hidden)]
#[macro_export]
macro_rules! with_both_forms {
    ($callback:path; $(
        #[doc = $doc:literal]
        fn $name:ident $args:tt -> $ret:ty {
            library: $library:ident, since: $since:literal, simulated: $fidelity:ident,
            effects: $effects:tt,
            results: $results:tt,
            $(seen: $seen:tt,)?
            $(also: {
                #[doc = $own_doc:literal]
                $own_name:ident, since: $own_since:literal, simulated: $own_fidelity:ident
            },)?
        }
    )*) => { $callback! { $(
        #[doc = $doc]
        fn $name $args -> $ret {
            library: $library, since: $since, simulated: $fidelity,
            effects: $effects,
            results: $results,
            $(seen: $seen,)?
        }
        $(
            #[doc = $own_doc]
            fn $own_name $args -> $ret {
                library: $library, since: $own_since, simulated: $own_fidelity,
                effects: $effects,
                results: $results,
            }
        )?
    )* } };
}

mod contexts;
mod events;
mod graphs;
mod kernels;
mod more;
mod runtime;
mod uses;

/// Hands every entry of the table to the macro `$callback`.
#[macro_export]
macro_rules! intercepted_functions {
    ($callback:path) => { $crate::with_runtime_functions! { $callback;

/// Queries whether contexts on one device can access memory of another device directly.
fn cuDeviceCanAccessPeer(
    out canAccessPeer: *mut i32,
    in dev: $crate::abi::CUdevice,
    in peerDev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4000, simulated: Recorded,
    effects: [Asks Reach(dev, peerDev) as canAccessPeer],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_DEVICE],
    seen: [INVALID_VALUE],
}

/// Queries an attribute of the link between two devices.
fn cuDeviceGetP2PAttribute(
    out value: *mut i32,
    in attrib: $crate::abi::CUdevice_P2PAttribute,
    in srcDevice: $crate::abi::CUdevice,
    in dstDevice: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 8000, simulated: Recorded,
    effects: [Asks Link(srcDevice, dstDevice) as value where attrib is 2],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_DEVICE, INVALID_VALUE],
}

/// Queries which atomic operations the link between two devices supports natively.
fn cuDeviceGetP2PAtomicCapabilities(
    out[count] capabilities: *mut u32,
    in[count] operations: *const $crate::abi::CUatomicOperation,
    in count: u32,
    in srcDevice: $crate::abi::CUdevice,
    in dstDevice: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 13000, simulated: Recorded,
    effects: [Asks Link(srcDevice, dstDevice) as capabilities],
    results: [SUCCESS, INVALID_DEVICE, INVALID_VALUE],
    seen: [NOT_INITIALIZED],
}

/// Lets the current context access all allocations of a peer context, in this direction only.
fn cuCtxEnablePeerAccess(
    in peerContext: $crate::abi::CUcontext,
    in Flags: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4000, simulated: Recorded,
    effects: [Enables Peer(peerContext)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, PEER_ACCESS_ALREADY_ENABLED, TOO_MANY_PEERS,
              INVALID_CONTEXT, PEER_ACCESS_UNSUPPORTED, INVALID_VALUE],
    seen: [CONTEXT_IS_DESTROYED, MAP_FAILED],
}

/// Revokes the access that cuCtxEnablePeerAccess gave.
fn cuCtxDisablePeerAccess(
    in peerContext: $crate::abi::CUcontext,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4000, simulated: Recorded,
    effects: [Disables Peer(peerContext)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, PEER_ACCESS_NOT_ENABLED, INVALID_CONTEXT],
    seen: [CONTEXT_IS_DESTROYED],
}

/// Creates a handle of an allocation, for another process to open.
fn cuIpcGetMemHandle(
    out pHandle: *mut $crate::abi::CUipcMemHandle,
    in dptr: $crate::abi::CUdeviceptr,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4010, simulated: Recorded,
    effects: [Exports Memory(dptr) as pHandle],
    results: [SUCCESS, INVALID_HANDLE, INVALID_CONTEXT, OUT_OF_MEMORY, MAP_FAILED, INVALID_VALUE],
    seen: [NOT_SUPPORTED, CONTEXT_IS_DESTROYED, NOT_INITIALIZED, DEINITIALIZED],
}

/// Maps an allocation of another process (the entry point of CUDA 4.1 to 10.2).
fn cuIpcOpenMemHandle(
    out pdptr: *mut $crate::abi::CUdeviceptr,
    in handle: $crate::abi::CUipcMemHandle,
    in Flags: $crate::abi::IpcMemFlags,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4010, simulated: Recorded,
    effects: [Opens Memory(pdptr) from handle],
    results: [SUCCESS, INVALID_CONTEXT, MAP_FAILED, INVALID_HANDLE, TOO_MANY_PEERS, INVALID_VALUE],
    seen: [PEER_ACCESS_UNSUPPORTED, NOT_PERMITTED, INVALID_DEVICE, OUT_OF_MEMORY, NOT_SUPPORTED, ALREADY_MAPPED,
           CONTEXT_IS_DESTROYED, NOT_INITIALIZED, DEINITIALIZED],
}

/// Maps an allocation of another process.
fn cuIpcOpenMemHandle_v2(
    out pdptr: *mut $crate::abi::CUdeviceptr,
    in handle: $crate::abi::CUipcMemHandle,
    in Flags: $crate::abi::IpcMemFlags,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11000, simulated: Recorded,
    effects: [Opens Memory(pdptr) from handle],
    results: [SUCCESS, INVALID_CONTEXT, MAP_FAILED, INVALID_HANDLE, TOO_MANY_PEERS, INVALID_VALUE],
    seen: [PEER_ACCESS_UNSUPPORTED, NOT_PERMITTED, INVALID_DEVICE, OUT_OF_MEMORY, NOT_SUPPORTED, ALREADY_MAPPED,
           CONTEXT_IS_DESTROYED, NOT_INITIALIZED, DEINITIALIZED],
}

/// Releases one reference to a mapping; the last one unmaps it.
fn cuIpcCloseMemHandle(
    in dptr: $crate::abi::CUdeviceptr,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4010, simulated: Recorded,
    effects: [Closes Memory(dptr)],
    results: [SUCCESS, INVALID_CONTEXT, MAP_FAILED, INVALID_HANDLE, INVALID_VALUE],
    seen: [CONTEXT_IS_DESTROYED, NOT_INITIALIZED, DEINITIALIZED],
}

/// Creates a handle of an event, for another process to open.
fn cuIpcGetEventHandle(
    out pHandle: *mut $crate::abi::CUipcEventHandle,
    in event: $crate::abi::CUevent,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4010, simulated: Recorded,
    effects: [Exports Event(event) as pHandle],
    results: [SUCCESS, INVALID_HANDLE, OUT_OF_MEMORY, MAP_FAILED, INVALID_VALUE],
    seen: [NOT_SUPPORTED, INVALID_CONTEXT, NOT_INITIALIZED, DEINITIALIZED],
}

/// Opens an event of another process; cuEventDestroy closes it.
fn cuIpcOpenEventHandle(
    out phEvent: *mut $crate::abi::CUevent,
    in handle: $crate::abi::CUipcEventHandle,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4010, simulated: Recorded,
    effects: [Opens Event(phEvent) from handle],
    results: [SUCCESS, INVALID_CONTEXT, MAP_FAILED, PEER_ACCESS_UNSUPPORTED, INVALID_HANDLE, INVALID_VALUE],
    seen: [NOT_SUPPORTED, CONTEXT_IS_DESTROYED, NOT_INITIALIZED, DEINITIALIZED],
}

/// Finds a driver function by name and version (the form of CUDA 11.3 to 11.8).
fn cuGetProcAddress(
    string symbol: *const core::ffi::c_char,
    out pfn: *mut $crate::abi::FunctionPointer,
    in cudaVersion: i32,
    in flags: $crate::abi::ProcAddressFlags,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11030, simulated: Recorded,
    effects: [LooksUp Function(symbol) as pfn],
    results: [SUCCESS, INVALID_VALUE, NOT_SUPPORTED],
    seen: [NOT_FOUND],
}

/// Finds a driver function by name and version, or says why there is none.
fn cuGetProcAddress_v2(
    string symbol: *const core::ffi::c_char,
    out pfn: *mut $crate::abi::FunctionPointer,
    in cudaVersion: i32,
    in flags: $crate::abi::ProcAddressFlags,
    out symbolStatus: *mut $crate::abi::CUdriverProcAddressQueryResult,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12000, simulated: Recorded,
    effects: [LooksUp Function(symbol) as pfn],
    results: [SUCCESS, INVALID_VALUE, NOT_SUPPORTED],
}

/// Frees device memory (the entry point of CUDA 2.0 to 3.1, with 32-bit addresses).
fn cuMemFree(
    in dptr: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Documented,
    effects: [Ends Memory(dptr), Ends Pointer(dptr), Closes Pointer(dptr)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
}

/// Frees device memory, even if another process still has it open.
fn cuMemFree_v2(
    in dptr: $crate::abi::CUdeviceptr,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Ends Memory(dptr), Ends Pointer(dptr), Closes Pointer(dptr)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    seen: [CONTEXT_IS_DESTROYED],
}

/// Frees device memory in stream order, including memory that cuMemAlloc gave.
fn cuMemFreeAsync(
    in dptr: $crate::abi::CUdeviceptr,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Ends Memory(dptr), Ends Pointer(dptr), Closes Pointer(dptr)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, NOT_SUPPORTED],
    also: {
        /// Frees device memory in the order of the thread's own default stream.
        cuMemFreeAsync_ptsz, since: 11020, simulated: Documented
    },
}

/// Copies between any two addresses.
fn cuMemcpy(
    in dst: $crate::abi::CUdeviceptr,
    in src: $crate::abi::CUdeviceptr,
    in ByteCount: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4000, simulated: Recorded,
    effects: [Copies Memory(dst) from src sized ByteCount],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: {
        /// Copies between any two addresses, in the order of the thread's own default stream.
        cuMemcpy_ptds, since: 7000, simulated: Documented
    },
}

/// Copies between any two addresses, in stream order.
fn cuMemcpyAsync(
    in dst: $crate::abi::CUdeviceptr,
    in src: $crate::abi::CUdeviceptr,
    in ByteCount: usize,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4000, simulated: Documented,
    effects: [Copies Memory(dst) from src sized ByteCount],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: {
        /// Copies between any two addresses, in stream order; the default one is the thread's own.
        cuMemcpyAsync_ptsz, since: 7000, simulated: Documented
    },
}

/// Copies device memory.
fn cuMemcpyDtoD_v2(
    in dstDevice: $crate::abi::CUdeviceptr,
    in srcDevice: $crate::abi::CUdeviceptr,
    in ByteCount: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Copies Memory(dstDevice) from srcDevice sized ByteCount],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: {
        /// Copies device memory, in the order of the thread's own default stream.
        cuMemcpyDtoD_v2_ptds, since: 7000, simulated: Documented
    },
}

/// Copies device memory, in stream order.
fn cuMemcpyDtoDAsync_v2(
    in dstDevice: $crate::abi::CUdeviceptr,
    in srcDevice: $crate::abi::CUdeviceptr,
    in ByteCount: usize,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Copies Memory(dstDevice) from srcDevice sized ByteCount],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: {
        /// Copies device memory, in stream order; the default one is the thread's own.
        cuMemcpyDtoDAsync_v2_ptsz, since: 7000, simulated: Documented
    },
}

/// Copies device memory between two contexts.
fn cuMemcpyPeer(
    in dstDevice: $crate::abi::CUdeviceptr,
    in dstContext: $crate::abi::CUcontext,
    in srcDevice: $crate::abi::CUdeviceptr,
    in srcContext: $crate::abi::CUcontext,
    in ByteCount: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4000, simulated: Recorded,
    effects: [Copies Memory(dstDevice) from srcDevice sized ByteCount on Peers],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: {
        /// Copies device memory between two contexts, in the order of the thread's own default stream.
        cuMemcpyPeer_ptds, since: 7000, simulated: Documented
    },
}

/// Copies device memory between two contexts, in stream order.
fn cuMemcpyPeerAsync(
    in dstDevice: $crate::abi::CUdeviceptr,
    in dstContext: $crate::abi::CUcontext,
    in srcDevice: $crate::abi::CUdeviceptr,
    in srcContext: $crate::abi::CUcontext,
    in ByteCount: usize,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4000, simulated: Documented,
    effects: [Copies Memory(dstDevice) from srcDevice sized ByteCount on Peers],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: {
        /// Copies device memory between two contexts, in stream order; the default one is the thread's own.
        cuMemcpyPeerAsync_ptsz, since: 7000, simulated: Documented
    },
}

/// Destroys an event (the entry point of CUDA 2.0 to 3.2).
fn cuEventDestroy(
    in hEvent: $crate::abi::CUevent,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Documented,
    effects: [Ends Event(hEvent), Closes Event(hEvent)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE],
}

/// Destroys an event, or closes one that cuIpcOpenEventHandle opened.
fn cuEventDestroy_v2(
    in hEvent: $crate::abi::CUevent,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4000, simulated: Recorded,
    effects: [Ends Event(hEvent), Closes Event(hEvent)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE],
}

/// Destroys a context that was not attached (the entry point of CUDA 2.0 to 3.2).
fn cuCtxDestroy(
    in ctx: $crate::abi::CUcontext,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Documented,
    effects: [Ends Context(ctx)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
}

/// Destroys a context, with everything allocated in it.
fn cuCtxDestroy_v2(
    in ctx: $crate::abi::CUcontext,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4000, simulated: Recorded,
    effects: [Ends Context(ctx)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
}

/// Releases one reference to the current context; the last one destroys it.
fn cuCtxDetach(
    in ctx: $crate::abi::CUcontext,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Recorded,
    effects: [Ends Context(ctx) on LastReference],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT],
}

/// Releases one reference to the primary context of a device (the entry point of CUDA 7.0 to 10.2).
fn cuDevicePrimaryCtxRelease(
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 7000, simulated: Documented,
    effects: [Ends Primary(dev) on LastReference],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_DEVICE, INVALID_CONTEXT],
}

/// Releases one reference to the primary context of a device; the last one resets it.
fn cuDevicePrimaryCtxRelease_v2(
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11000, simulated: Recorded,
    effects: [Ends Primary(dev) on LastReference],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_DEVICE, INVALID_CONTEXT],
}

/// Destroys everything in the primary context of a device (the entry point of CUDA 7.0 to 10.2).
fn cuDevicePrimaryCtxReset(
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 7000, simulated: Documented,
    effects: [Ends Primary(dev)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_DEVICE, PRIMARY_CONTEXT_ACTIVE],
}

/// Destroys everything in the primary context of a device, whatever retains it.
fn cuDevicePrimaryCtxReset_v2(
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11000, simulated: Recorded,
    effects: [Ends Primary(dev)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_DEVICE, PRIMARY_CONTEXT_ACTIVE],
}

/// Reserves a range of addresses, to which memory can be mapped.
fn cuMemAddressReserve(
    out ptr: *mut $crate::abi::CUdeviceptr,
    in size: usize,
    in alignment: usize,
    in addr: $crate::abi::CUdeviceptr,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Makes Reservation(ptr) sized size],
    results: [SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Gives a reserved range of addresses back.
fn cuMemAddressFree(
    in ptr: $crate::abi::CUdeviceptr,
    in size: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Ends Reservation(ptr) sized size],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Allocates physical memory, which is used through a mapping.
fn cuMemCreate(
    out handle: *mut $crate::abi::CUmemGenericAllocationHandle,
    in size: usize,
    in_struct prop: *const $crate::abi::CUmemAllocationProp,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Makes Allocation(handle) sized size],
    results: [SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED,
              NOT_SUPPORTED],
}

/// Releases one reference to an allocation; the memory stays while it is mapped, shared or imported somewhere.
fn cuMemRelease(
    in handle: $crate::abi::CUmemGenericAllocationHandle,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Ends Allocation(handle) on LastReference, Closes Allocation(handle)],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Maps an allocation to reserved addresses. Nobody has access before cuMemSetAccess.
fn cuMemMap(
    in ptr: $crate::abi::CUdeviceptr,
    in size: usize,
    in offset: usize,
    in handle: $crate::abi::CUmemGenericAllocationHandle,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Makes Mapping(ptr) sized size of handle],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, OUT_OF_MEMORY, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED,
              NOT_SUPPORTED, ILLEGAL_STATE],
}

/// Unmaps all mappings in a range of addresses.
fn cuMemUnmap(
    in ptr: $crate::abi::CUdeviceptr,
    in size: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Ends Mapping(ptr) sized size],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Sets what devices may do with the mappings in a range of addresses.
fn cuMemSetAccess(
    in ptr: $crate::abi::CUdeviceptr,
    in size: usize,
    in[count] desc: *const $crate::abi::CUmemAccessDesc,
    in count: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Grants Mapping(ptr) sized size to desc],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_SUPPORTED],
    seen: [NOT_INITIALIZED],
}

/// Queries what a device may do with the mapping at an address.
fn cuMemGetAccess(
    out flags: *mut u64,
    in_struct location: *const $crate::abi::CUmemLocation,
    in ptr: $crate::abi::CUdeviceptr,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Asks Memory(ptr) as flags],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Makes a handle of an allocation, for another process to import: a file descriptor, or a fabric handle.
fn cuMemExportToShareableHandle(
    out_handle[handleType] shareableHandle: *mut core::ffi::c_void,
    in handle: $crate::abi::CUmemGenericAllocationHandle,
    in handleType: $crate::abi::CUmemAllocationHandleType,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Exports Allocation(handle) as shareableHandle],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
    seen: [OPERATING_SYSTEM],
}

/// Imports an allocation of another process.
fn cuMemImportFromShareableHandle(
    out handle: *mut $crate::abi::CUmemGenericAllocationHandle,
    in_handle[shHandleType] osHandle: *mut core::ffi::c_void,
    in shHandleType: $crate::abi::CUmemAllocationHandleType,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Opens Allocation(handle) from osHandle],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
    seen: [UNKNOWN, OPERATING_SYSTEM],
}

/// Gives the handle of the allocation that is mapped at an address, with one reference more.
fn cuMemRetainAllocationHandle(
    out handle: *mut $crate::abi::CUmemGenericAllocationHandle,
    in addr: $crate::abi::CUdeviceptr,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11000, simulated: Recorded,
    effects: [Retains Allocation(handle)],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Queries what an allocation is.
fn cuMemGetAllocationPropertiesFromHandle(
    out prop: *mut $crate::abi::CUmemAllocationProp,
    in handle: $crate::abi::CUmemGenericAllocationHandle,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Asks Memory(handle) as prop],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Queries of what sizes allocations can be.
fn cuMemGetAllocationGranularity(
    out granularity: *mut usize,
    in_struct prop: *const $crate::abi::CUmemAllocationProp,
    in option: $crate::abi::CUmemAllocationGranularity_flags,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Asks Memory(prop) as granularity],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Makes a handle of a range of addresses for other drivers: a dma-buf descriptor.
fn cuMemGetHandleForAddressRange(
    out handle: *mut i32,
    in dptr: $crate::abi::CUdeviceptr,
    in size: usize,
    in handleType: $crate::abi::CUmemRangeHandleType,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11070, simulated: Documented,
    effects: [Asks Memory(dptr) as handle],
    results: [SUCCESS, INVALID_VALUE, NOT_SUPPORTED],
}

/// Queries the pool that a device allocates from unless it is told otherwise.
fn cuDeviceGetDefaultMemPool(
    out pool_out: *mut $crate::abi::CUmemoryPool,
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Asks Pool(dev) as pool_out],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_VALUE, INVALID_DEVICE, NOT_SUPPORTED],
}

/// Makes a memory pool, from which memory is allocated in the order of a stream.
fn cuMemPoolCreate(
    out pool: *mut $crate::abi::CUmemoryPool,
    in_struct poolProps: *const $crate::abi::CUmemPoolProps,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Makes Pool(pool)],
    results: [SUCCESS, NOT_INITIALIZED, INVALID_VALUE, OUT_OF_MEMORY, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Destroys a pool, or gives up one that was imported; what is allocated of a pool stays until it is freed.
fn cuMemPoolDestroy(
    in pool: $crate::abi::CUmemoryPool,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Ends Pool(pool), Closes Pool(pool)],
    results: [SUCCESS, INVALID_VALUE],
    seen: [NOT_INITIALIZED],
}

/// Sets which devices reach the memory of a pool.
fn cuMemPoolSetAccess(
    in pool: $crate::abi::CUmemoryPool,
    in[count] map: *const $crate::abi::CUmemAccessDesc,
    in count: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Grants Pool(pool) to map],
    results: [SUCCESS, NOT_INITIALIZED, INVALID_VALUE, NOT_SUPPORTED],
    seen: [INVALID_DEVICE],
}

/// Queries what a device may do with the memory of a pool.
fn cuMemPoolGetAccess(
    out flags: *mut $crate::abi::CUmemAccess_flags,
    in memPool: $crate::abi::CUmemoryPool,
    in_struct location: *mut $crate::abi::CUmemLocation,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Asks Pool(memPool) as flags],
    results: [SUCCESS, NOT_INITIALIZED, INVALID_VALUE, NOT_SUPPORTED],
}

/// Makes a handle of a pool, for another process to import: a file descriptor, or a fabric handle.
fn cuMemPoolExportToShareableHandle(
    out_handle[handleType] handle_out: *mut core::ffi::c_void,
    in pool: $crate::abi::CUmemoryPool,
    in handleType: $crate::abi::CUmemAllocationHandleType,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Exports Pool(pool) as handle_out],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, OUT_OF_MEMORY],
    seen: [NOT_PERMITTED],
}

/// Imports a pool of another process. Nothing can be allocated of it; its memory is imported by cuMemPoolImportPointer.
fn cuMemPoolImportFromShareableHandle(
    out pool_out: *mut $crate::abi::CUmemoryPool,
    in_handle[handleType] handle: *mut core::ffi::c_void,
    in handleType: $crate::abi::CUmemAllocationHandleType,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Opens Pool(pool_out) from handle],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, OUT_OF_MEMORY],
    seen: [NOT_SUPPORTED, UNKNOWN],
}

/// Names memory of a pool to those that have imported the pool.
fn cuMemPoolExportPointer(
    out shareData_out: *mut $crate::abi::CUmemPoolPtrExportData,
    in ptr: $crate::abi::CUdeviceptr,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Exports Pointer(ptr) as shareData_out],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, OUT_OF_MEMORY],
}

/// Imports memory of a pool that was imported; cuMemFree or cuMemFreeAsync gives it up.
fn cuMemPoolImportPointer(
    out ptr_out: *mut $crate::abi::CUdeviceptr,
    in pool: $crate::abi::CUmemoryPool,
    in_struct shareData: *mut $crate::abi::CUmemPoolPtrExportData,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Opens Pointer(ptr_out) from shareData],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, OUT_OF_MEMORY],
}

/// Allocates memory of a pool in the order of a stream.
fn cuMemAllocFromPoolAsync(
    out dptr: *mut $crate::abi::CUdeviceptr,
    in bytesize: usize,
    in pool: $crate::abi::CUmemoryPool,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Makes Pointer(dptr) sized bytesize of pool],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, INVALID_CONTEXT, NOT_SUPPORTED, OUT_OF_MEMORY],
    also: {
        /// Allocates memory of a pool in the order of the thread's own default stream.
        cuMemAllocFromPoolAsync_ptsz, since: 11020, simulated: Documented
    },
}

/// Makes a multicast object, to which devices are added and memory of theirs is bound; it is an allocation that is exported, mapped and released as others.
fn cuMulticastCreate(
    out mcHandle: *mut $crate::abi::CUmemGenericAllocationHandle,
    in_struct prop: *const $crate::abi::CUmulticastObjectProp,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12010, simulated: Documented,
    effects: [Makes Allocation(mcHandle), Gathers Team(mcHandle)],
    results: [SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED,
              NOT_SUPPORTED],
}

/// Adds a device to a multicast object, for as long as the object lives.
fn cuMulticastAddDevice(
    in mcHandle: $crate::abi::CUmemGenericAllocationHandle,
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12010, simulated: Documented,
    effects: [Joins Team(mcHandle) of dev],
    results: [SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED,
              NOT_SUPPORTED],
}

/// Binds an allocation of a device to a multicast object, once all devices have been added.
fn cuMulticastBindMem(
    in mcHandle: $crate::abi::CUmemGenericAllocationHandle,
    in mcOffset: usize,
    in memHandle: $crate::abi::CUmemGenericAllocationHandle,
    in memOffset: usize,
    in size: usize,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12010, simulated: Documented,
    effects: [Binds Allocation(memHandle) sized size to mcHandle at mcOffset],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED,
              OUT_OF_MEMORY, SYSTEM_NOT_READY, ILLEGAL_STATE, MULTICAST_RESOURCE_FULL],
}

/// Binds an allocation to a multicast object, for a device that is named.
fn cuMulticastBindMem_v2(
    in mcHandle: $crate::abi::CUmemGenericAllocationHandle,
    in dev: $crate::abi::CUdevice,
    in mcOffset: usize,
    in memHandle: $crate::abi::CUmemGenericAllocationHandle,
    in memOffset: usize,
    in size: usize,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 13010, simulated: Documented,
    effects: [Binds Allocation(memHandle) sized size of dev to mcHandle at mcOffset],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED,
              OUT_OF_MEMORY, SYSTEM_NOT_READY, ILLEGAL_STATE, MULTICAST_RESOURCE_FULL],
}

/// Binds what is mapped at an address to a multicast object, once all devices have been added.
fn cuMulticastBindAddr(
    in mcHandle: $crate::abi::CUmemGenericAllocationHandle,
    in mcOffset: usize,
    in memptr: $crate::abi::CUdeviceptr,
    in size: usize,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12010, simulated: Documented,
    effects: [Binds Mapping(memptr) sized size to mcHandle at mcOffset],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED,
              OUT_OF_MEMORY, SYSTEM_NOT_READY, ILLEGAL_STATE, MULTICAST_RESOURCE_FULL],
}

/// Binds what is mapped at an address to a multicast object, for a device that is named.
fn cuMulticastBindAddr_v2(
    in mcHandle: $crate::abi::CUmemGenericAllocationHandle,
    in dev: $crate::abi::CUdevice,
    in mcOffset: usize,
    in memptr: $crate::abi::CUdeviceptr,
    in size: usize,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 13010, simulated: Documented,
    effects: [Binds Mapping(memptr) sized size of dev to mcHandle at mcOffset],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED,
              OUT_OF_MEMORY, SYSTEM_NOT_READY, ILLEGAL_STATE, MULTICAST_RESOURCE_FULL],
}

/// Unbinds what a device has bound to a multicast object at an offset.
fn cuMulticastUnbind(
    in mcHandle: $crate::abi::CUmemGenericAllocationHandle,
    in dev: $crate::abi::CUdevice,
    in mcOffset: usize,
    in size: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12010, simulated: Documented,
    effects: [Unbinds Team(mcHandle) sized size of dev at mcOffset],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Queries of what sizes multicast objects and their parts can be.
fn cuMulticastGetGranularity(
    out granularity: *mut usize,
    in_struct prop: *const $crate::abi::CUmulticastObjectProp,
    in option: $crate::abi::CUmulticastGranularity_flags,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12010, simulated: Documented,
    effects: [Asks Team(prop) as granularity],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Initializes the driver in the calling process.
fn cuInit(
    in Flags: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Recorded,
    effects: [Begins Driver(Flags)],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, SYSTEM_DRIVER_MISMATCH, COMPAT_NOT_SUPPORTED_ON_DEVICE],
    seen: [NOT_INITIALIZED],
}

/// Queries an attribute of a device.
fn cuDeviceGetAttribute(
    out pi: *mut i32,
    in attrib: $crate::abi::CUdevice_attribute,
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Recorded,
    effects: [Asks Device(dev) as pi where attrib is 132],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_DEVICE],
}

/// Queries whether two devices can use one kind of peer access.
fn nvmlDeviceGetP2PStatus(
    in device1: $crate::abi::nvmlDevice_t,
    in device2: $crate::abi::nvmlDevice_t,
    in p2pIndex: $crate::abi::nvmlGpuP2PCapsIndex_t,
    out p2pStatus: *mut $crate::abi::nvmlGpuP2PStatus_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device1, device2) as p2pStatus],
    results: [SUCCESS, INVALID_ARGUMENT, UNKNOWN],
}

/// Queries the common ancestor of two devices: a board, a switch, a CPU.
fn nvmlDeviceGetTopologyCommonAncestor(
    in device1: $crate::abi::nvmlDevice_t,
    in device2: $crate::abi::nvmlDevice_t,
    out pathInfo: *mut $crate::abi::nvmlGpuTopologyLevel_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device1, device2) as pathInfo],
    results: [SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, UNKNOWN],
}

/// Queries whether an NVLink of a device is up.
fn nvmlDeviceGetNvLinkState(
    in device: $crate::abi::nvmlDevice_t,
    in link: u32,
    out isActive: *mut $crate::abi::nvmlEnableState_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as isActive],
    results: [SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, UNKNOWN],
}

/// Queries what an NVLink of a device can do.
fn nvmlDeviceGetNvLinkCapability(
    in device: $crate::abi::nvmlDevice_t,
    in link: u32,
    in capability: $crate::abi::nvmlNvLinkCapability_t,
    out capResult: *mut u32,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as capResult],
    results: [SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, UNKNOWN],
}

/// Queries where the other end of an NVLink is on the PCI bus (the form with a short address).
fn nvmlDeviceGetNvLinkRemotePciInfo(
    in device: $crate::abi::nvmlDevice_t,
    in link: u32,
    out pci: *mut $crate::abi::nvmlPciInfo_v2_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as pci],
    results: [SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, UNKNOWN],
}

/// Queries where the other end of an NVLink is on the PCI bus.
fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    in device: $crate::abi::nvmlDevice_t,
    in link: u32,
    out pci: *mut $crate::abi::nvmlPciInfo_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as pci],
    results: [SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, UNKNOWN],
}

/// Queries what is at the other end of an NVLink: a GPU, a switch.
fn nvmlDeviceGetNvLinkRemoteDeviceType(
    in device: $crate::abi::nvmlDevice_t,
    in link: u32,
    out pNvLinkDeviceType: *mut $crate::abi::nvmlIntNvLinkDeviceType_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as pNvLinkDeviceType],
    results: [SUCCESS, NOT_SUPPORTED, INVALID_ARGUMENT, GPU_IS_LOST, UNKNOWN],
}

/// Queries a device's part in a fabric of several machines (the first form).
fn nvmlDeviceGetGpuFabricInfo(
    in device: $crate::abi::nvmlDevice_t,
    out gpuFabricInfo: *mut $crate::abi::nvmlGpuFabricInfo_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as gpuFabricInfo],
    results: [SUCCESS, NOT_SUPPORTED],
}

/// Queries a device's part in a fabric of several machines.
fn nvmlDeviceGetGpuFabricInfoV(
    in device: $crate::abi::nvmlDevice_t,
    inout gpuFabricInfo: *mut $crate::abi::nvmlGpuFabricInfoV_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as gpuFabricInfo],
    results: [SUCCESS, NOT_SUPPORTED],
}

/// Queries many values of a device at once, including the state of its NVLinks.
fn nvmlDeviceGetFieldValues(
    in device: $crate::abi::nvmlDevice_t,
    in valuesCount: i32,
    inout[valuesCount] values: *mut $crate::abi::nvmlFieldValue_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as values],
    results: [SUCCESS, INVALID_ARGUMENT],
}

    } };
}
