//! **The table**: every function that cupeer intercepts, once.
//!
//! An entry has all facts that the exports, the lookup, the formatter, the simulated driver, the
//! documentation, and the tests need. All of them derive from this macro, and none may list functions again.
//! The table has no behavior.
//!
//! # The form of an entry
//!
//! - The doc comment is the sentence of `cupeer explain`.
//! - `in`, `out`, and `inout` are the direction of an argument. `out[count]` and `in[count]` are arrays with
//!   as many elements as the argument `count` says. `string` is a NUL-terminated text, and `in_struct` a
//!   pointer to a structure. `out_handle[type]` and `in_handle[type]` are shareable handles, whose kind is in
//!   the argument `type`. Only they have the type `*mut c_void`. Another `void *` has the type of its target;
//!   if there can be several, the smallest one, because it is read. If the target is not read, the argument
//!   is `in` with `HostAddress`.
//! - `library` is the library of the real function. `since` is the first version (1000 * major + 10 * minor)
//!   in which `cuGetProcAddress` finds it by its [`crate::function::look_up_name`]: 0 for a function that is
//!   not the driver's.
//! - `simulated` is the evidence for the simulated driver's answers: [`crate::function::Fidelity`].
//! - `effects` are the effects of a success: a verb, an object, and the arguments that name it
//!   ([`crate::effect`]). The groups follow from them, and so do recording, counting, queries, denial,
//!   undoing, and reports.
//!   - `Exports OBJECT(BY) as HANDLE`, `Opens OBJECT(BY) from HANDLE`, `Closes OBJECT(BY)`; with `of WHOSE`
//!     if an argument names the container of the opened object
//!   - `Enables Peer(BY)`, `Disables Peer(BY)`
//!   - `where FLAGS is VALUE` after `Opens` and `Enables`: the argument must have this value
//!   - `Makes OBJECT(BY)`: creates it; with `sized SIZE` for an argument with its size, `of WHOSE` for its
//!     source or its properties, and `at PLACE` for the offset in the source, or the requested address
//!   - `Retains OBJECT(BY)`: adds a reference
//!   - `Ends OBJECT(BY)`; with `sized SIZE` if it ends all objects in a range of this size, and `on
//!     LastReference` if the call releases one reference, and the last release ends the object
//!   - `Grants OBJECT(BY) to WHOM`: sets the access of the devices in the array; with `sized SIZE` for a
//!     range of this size
//!   - `Gathers Team(BY) of PROPERTIES`: the created object is a multicast object; `Joins Team(BY) of DEVICE`
//!     adds a device
//!   - `Binds OBJECT(BY) sized SIZE to TEAM at OFFSET`; with `from OFFSET` for the offset in the object, and
//!     `of DEVICE` if an argument names the device; `Unbinds Team(BY) sized SIZE of DEVICE at OFFSET`
//!   - `Copies OBJECT(TO) from FROM sized SIZE`; with `on Peers` if its name says that it is between two
//!     devices, and `on Anything` if either address can be host memory
//!   - `Uses Memory(AT) sized SIZE`: uses SIZE elements, each as large as the argument `of VALUE`; with `to
//!     HEIGHT at PITCH`, this many rows; with `from HOST` or `to HOST`, a copy from or to the host; without a
//!     size, the argument is a structure with source, destination, and size
//!   - `UsesEach Memory(TO, FROM) sized SIZES to COUNT`: COUNT copies, with arrays of destinations, sources,
//!     and sizes; or `UsesEach Memory(COPIES) to COUNT`, with an array of structures
//!   - `Launches Function(KERNEL) from PARAMETERS`; with `of EXTRA` for the other form of parameters
//!   - `Records Event(EVENT)`: in a stream
//!   - `Completes Stream(STREAM)`, `Event(EVENT)`, `Context(CONTEXT)`, or `Current()`: returns when that work
//!     is done
//!   - `Follows Event(EVENT) of STREAM`: later work of the stream waits for the event; `Drops Stream(STREAM)`
//!     ends a stream
//!   - `Awaits Value(ADDRESS, VALUE) of STREAM` waits for a value in memory, `Signals Value(ADDRESS, VALUE)
//!     of STREAM` writes one, and `Posts Values(OPERATIONS) of STREAM to COUNT` does several of these; `Runs
//!     Host(FUNCTION) of STREAM` calls a function of the program
//!   - `Finds Function(FOUND) of MODULE`, or `Finds Kernel(FOUND) of LIBRARY`; with `sized ROOM` if it finds
//!     several; `Unloads Module(WHICH)`, or `Library`
//!   - `Instantiates Graph(EXEC) of GRAPH` creates or updates an executable graph; `Replays Graph(EXEC)`
//!     launches it; `Alters Kernel(EXEC, NODE) from PARAMETERS`, or `Copy`, `Fill`, `Any`, or `Child`,
//!     changes a node; and `Discards Graph(EXEC)` ends it, or makes a change that is not tracked
//!   - `Asks Reach(FROM, TO) as ANSWER`, or `Link`, `Device(DEVICE)`, `Memory(WHICH)`, `Pool(WHICH)`,
//!     `Team(WHICH)`: a query. If an argument chooses the attribute, `where ARGUMENT is VALUE` is its value
//!     for access to other devices: `ACCESS_SUPPORTED` for a link, and `MULTICAST_SUPPORTED` for a device,
//!     which reaches others over NVLink without peer access. For `Memory` and `Team`, it is the value for the
//!     granularity with these PROPERTIES
//!   - `LooksUp Function(NAME) as FOUND`
//!   - `Begins Driver(FLAGS)`: initializes the driver in the process
//!
//!   No code looks up an argument by its name, because names differ between versions of a function. An effect
//!   names all arguments that rules and models need. A test lists the arguments that no effect names.
//! - `results` are the documented results of the function's library, SUCCESS first. `seen` are undocumented
//!   failures that real drivers returned: in `tests/conformance`, or in a rule or a cause of `src/rules`. A
//!   fault plan accepts both. A rule that has the documentation as its source accepts only documented ones.
//! - `also` is the same function for the thread's own default stream (`_ptds`, `_ptsz`), or a later version
//!   of it, with its name and the differences. The rest is that of the entry.

/// Passes all entries to the macro `$callback`. Each `also` becomes an entry of its own after its base entry.
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
            $(also: $own_name:ident, since: $own_since:literal, simulated: $own_fidelity:ident,)*
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
            #[doc = $doc]
            fn $own_name $args -> $ret {
                library: $library, since: $own_since, simulated: $own_fidelity,
                effects: $effects,
                results: $results,
            }
        )*
    )* } };
}

mod allocations;
mod contexts;
mod events;
mod graphs;
mod kernels;
mod more;
mod order;
mod queries;
mod runtime;
mod uses;
mod vmm;

/// Hands every entry of the table to the macro `$callback`.
#[macro_export]
macro_rules! intercepted_functions {
    ($callback:path) => {
        $crate::with_vmm_functions! { $callback;

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
            effects: [Enables Peer(peerContext) where Flags is 0],
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

        /// Maps an allocation of another process.
        fn cuIpcOpenMemHandle(
            out pdptr: *mut $crate::abi::CUdeviceptr,
            in handle: $crate::abi::CUipcMemHandle,
            in Flags: $crate::abi::IpcMemFlags,
        ) -> $crate::abi::CUresult {
            library: Cuda, since: 4010, simulated: Recorded,
            effects: [Opens Memory(pdptr) from handle where Flags is 1],
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
            effects: [Opens Memory(pdptr) from handle where Flags is 1],
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

        /// Frees device memory.
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
            also: cuMemFreeAsync_ptsz, since: 11020, simulated: Documented,
        }

        /// Copies between any two addresses.
        fn cuMemcpy(
            in dst: $crate::abi::CUdeviceptr,
            in src: $crate::abi::CUdeviceptr,
            in ByteCount: usize,
        ) -> $crate::abi::CUresult {
            library: Cuda, since: 4000, simulated: Recorded,
            effects: [Copies Memory(dst) from src sized ByteCount on Anything],
            results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
            also: cuMemcpy_ptds, since: 7000, simulated: Documented,
        }

        /// Copies between any two addresses, in stream order.
        fn cuMemcpyAsync(
            in dst: $crate::abi::CUdeviceptr,
            in src: $crate::abi::CUdeviceptr,
            in ByteCount: usize,
            in hStream: $crate::abi::CUstream,
        ) -> $crate::abi::CUresult {
            library: Cuda, since: 4000, simulated: Documented,
            effects: [Copies Memory(dst) from src sized ByteCount on Anything],
            results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
            also: cuMemcpyAsync_ptsz, since: 7000, simulated: Documented,
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
            also: cuMemcpyDtoD_v2_ptds, since: 7000, simulated: Documented,
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
            also: cuMemcpyDtoDAsync_v2_ptsz, since: 7000, simulated: Documented,
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
            also: cuMemcpyPeer_ptds, since: 7000, simulated: Documented,
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
            also: cuMemcpyPeerAsync_ptsz, since: 7000, simulated: Documented,
        }

        /// Destroys an event.
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

        /// Destroys a context that was not attached.
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

        /// Releases one reference to the primary context of a device.
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

        /// Destroys everything in the primary context of a device.
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

            }
    };
}
