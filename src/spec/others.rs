//! The driver's functions that cupeer does not intercept: every other name that a driver of CUDA 13.0
//! exports, once.
//!
//! The list has the facts that the simulated driver's exports, its `cuGetProcAddress`, and `cupeer list
//! functions` need. It lacks intercepted functions (the table in `src/spec/functions.rs`), and the debugger's
//! names (`cudbg`), which no program looks up.
//!
//! # The form of the list
//!
//! `VERSION FIDELITY: SYMBOL [= IMPLEMENTATION], ...;`
//!
//! - `VERSION` (1000 * major + 10 * minor) is the first for which `cuGetProcAddress` finds these functions, by their
//!   [`look_up_name`]; 0 where it never does.
//! - `FIDELITY` is one of [`crate::function::Fidelity`]. A name that is not `Unsupported` has a function in
//!   `src/sim/api`: of its own name, or of the one after the `=`.

use crate::function::{Fidelity, look_up_name};

/// Passes the list to the macro `$callback`.
#[macro_export]
macro_rules! driver_functions_beyond {
    ($callback:path) => { $callback! {
    0 Unsupported: cuEGLApiInit, cuMemGetAttribute, cuMemGetAttribute_v2;
    2000 Recorded: cuCtxAttach, cuCtxGetDevice, cuDeviceGet, cuDeviceGetCount, cuDeviceGetName, cuEventCreate,
        cuEventElapsedTime, cuMemFreeHost, cuStreamCreate;
    2000 Documented: cuArrayDestroy, cuCtxCreate = cuCtxCreate_v2, cuCtxPopCurrent = cuCtxPopCurrent_v2,
        cuCtxPushCurrent = cuCtxPushCurrent_v2, cuDeviceComputeCapability, cuDeviceGetProperties,
        cuDeviceTotalMem, cuMemAllocHost, cuMemcpy2D, cuMemcpy2DAsync, cuMemcpy2DUnaligned = cuMemcpy2D,
        cuMemcpy3D, cuMemcpy3DAsync, cuMemcpyDtoD, cuMemcpyDtoH, cuMemcpyDtoHAsync, cuMemcpyHtoD,
        cuMemcpyHtoDAsync, cuMemGetAddressRange, cuMemGetInfo, cuMemsetD16, cuMemsetD2D16, cuMemsetD2D32,
        cuMemsetD2D8, cuMemsetD32, cuMemsetD8;
    2000 Inferred: cuModuleLoad, cuModuleLoadData, cuModuleLoadFatBinary;
    2000 Unsupported: cuArray3DCreate, cuArray3DGetDescriptor, cuArrayCreate, cuArrayGetDescriptor,
        cuFuncSetBlockShape, cuFuncSetSharedSize, cuGLCtxCreate, cuGLInit, cuGLMapBufferObject,
        cuGLRegisterBufferObject, cuGLUnmapBufferObject, cuGLUnregisterBufferObject, cuLaunch, cuLaunchGrid,
        cuLaunchGridAsync, cuMemcpyAtoA, cuMemcpyAtoD, cuMemcpyAtoH, cuMemcpyAtoHAsync, cuMemcpyDtoA,
        cuMemcpyHtoA, cuMemcpyHtoAAsync, cuModuleGetGlobal, cuModuleGetTexRef, cuParamSetf, cuParamSeti,
        cuParamSetSize, cuParamSetTexRef, cuParamSetv, cuTexRefCreate, cuTexRefDestroy, cuTexRefGetAddress,
        cuTexRefGetAddressMode, cuTexRefGetArray, cuTexRefGetFilterMode, cuTexRefGetFlags, cuTexRefGetFormat,
        cuTexRefSetAddress, cuTexRefSetAddressMode, cuTexRefSetArray, cuTexRefSetFilterMode, cuTexRefSetFlags,
        cuTexRefSetFormat;
    2010 Inferred: cuModuleLoadDataEx;
    2020 Recorded: cuDriverGetVersion, cuMemHostAlloc;
    2020 Documented: cuMemHostGetDevicePointer;
    2020 Inferred: cuFuncGetAttribute;
    2020 Unsupported: cuTexRefSetAddress2D;
    2030 Recorded: cuMemHostGetFlags;
    2030 Unsupported: cuGLMapBufferObjectAsync, cuGLSetBufferObjectMapFlags, cuGLUnmapBufferObjectAsync;
    3000 Recorded: cuGetExportTable;
    3000 Documented: cuMemcpyDtoDAsync;
    3000 Inferred: cuFuncSetCacheConfig;
    3000 Unsupported: cuGraphicsGLRegisterBuffer, cuGraphicsGLRegisterImage, cuGraphicsMapResources,
        cuGraphicsResourceGetMappedPointer, cuGraphicsResourceSetMapFlags,
        cuGraphicsSubResourceGetMappedArray, cuGraphicsUnmapResources, cuGraphicsUnregisterResource,
        cuModuleGetSurfRef, cuSurfRefGetArray, cuSurfRefSetArray;
    3010 Recorded: cuCtxGetLimit, cuCtxSetLimit;
    3010 Unsupported: cuGraphicsVDPAURegisterOutputSurface, cuGraphicsVDPAURegisterVideoSurface,
        cuVDPAUCtxCreate, cuVDPAUGetDevice;
    3020 Recorded: cuCtxGetApiVersion, cuCtxGetCacheConfig, cuCtxSetCacheConfig, cuDeviceTotalMem_v2,
        cuMemGetAddressRange_v2, cuMemGetInfo_v2, cuMemHostGetDevicePointer_v2;
    3020 Documented: cuArray3DCreate_v2, cuArray3DGetDescriptor_v2, cuArrayCreate_v2, cuArrayGetDescriptor_v2,
        cuMemAllocHost_v2, cuMemcpyAtoA_v2, cuMemcpyAtoH_v2, cuMemcpyAtoHAsync_v2,
        cuMemcpyHtoA_v2, cuMemcpyHtoAAsync_v2;
    3020 Inferred: cuModuleGetGlobal_v2;
    3020 Unsupported: cuGLCtxCreate_v2, cuGLMapBufferObject_v2, cuGLMapBufferObjectAsync_v2,
        cuGraphicsResourceGetMappedPointer_v2, cuTexRefGetAddress_v2, cuTexRefSetAddress2D_v2,
        cuTexRefSetAddress_v2, cuVDPAUCtxCreate_v2;
    4000 Recorded: cuCtxGetCurrent, cuCtxPopCurrent_v2, cuCtxPushCurrent_v2, cuCtxSetCurrent,
        cuMemHostUnregister, cuPointerGetAttribute;
    4000 Documented: cuMemHostRegister = cuMemHostRegister_v2, cuProfilerInitialize, cuProfilerStart,
        cuProfilerStop;
    4010 Recorded: cuDeviceGetByPCIBusId, cuDeviceGetPCIBusId;
    4010 Unsupported: cuGLGetDevices, cuTexRefSetAddress2D_v3;
    4020 Recorded: cuCtxGetSharedMemConfig;
    4020 Documented: cuCtxSetSharedMemConfig;
    4020 Inferred: cuFuncSetSharedMemConfig;
    5000 Documented: cuMipmappedArrayCreate, cuMipmappedArrayDestroy, cuMipmappedArrayGetLevel;
    5000 Unsupported: cuGraphicsResourceGetMappedMipmappedArray, cuSurfObjectCreate, cuSurfObjectDestroy,
        cuSurfObjectGetResourceDesc, cuTexObjectCreate, cuTexObjectDestroy, cuTexObjectGetResourceDesc,
        cuTexObjectGetResourceViewDesc, cuTexObjectGetTextureDesc, cuTexRefGetMaxAnisotropy,
        cuTexRefGetMipmapFilterMode, cuTexRefGetMipmapLevelBias, cuTexRefGetMipmapLevelClamp,
        cuTexRefGetMipmappedArray, cuTexRefSetMaxAnisotropy, cuTexRefSetMipmapFilterMode,
        cuTexRefSetMipmapLevelBias, cuTexRefSetMipmapLevelClamp, cuTexRefSetMipmappedArray;
    5050 Recorded: cuCtxGetStreamPriorityRange, cuStreamCreateWithPriority, cuStreamGetFlags,
        cuStreamGetPriority;
    5050 Inferred: cuLinkAddData = cuLinkAddData_v2, cuLinkAddFile = cuLinkAddFile_v2, cuLinkComplete,
        cuLinkCreate = cuLinkCreate_v2, cuLinkDestroy;
    6000 Recorded: cuGetErrorName, cuGetErrorString, cuPointerSetAttribute;
    6000 Documented: cuStreamAttachMemAsync;
    6050 Recorded: cuMemHostRegister_v2;
    6050 Inferred: cuLinkAddData_v2, cuLinkAddFile_v2, cuLinkCreate_v2,
        cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxPotentialBlockSize;
    6050 Unsupported: cuGLGetDevices_v2, cuGraphicsResourceSetMapFlags_v2;
    7000 Recorded: cuCtxGetFlags, cuDevicePrimaryCtxGetState,
        cuPointerGetAttributes;
    7000 Documented: cuDevicePrimaryCtxSetFlags = cuDevicePrimaryCtxSetFlags_v2,
        cuMemcpyAtoA_v2_ptds = cuMemcpyAtoA_v2, cuMemcpyAtoH_v2_ptds = cuMemcpyAtoH_v2,
        cuMemcpyAtoHAsync_v2_ptsz = cuMemcpyAtoHAsync_v2, cuMemcpyHtoA_v2_ptds = cuMemcpyHtoA_v2,
        cuMemcpyHtoAAsync_v2_ptsz = cuMemcpyHtoAAsync_v2, cuStreamAttachMemAsync_ptsz = cuStreamAttachMemAsync,
        cuStreamGetFlags_ptsz = cuStreamGetFlags, cuStreamGetPriority_ptsz = cuStreamGetPriority;
    7000 Inferred: cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        cuOccupancyMaxPotentialBlockSizeWithFlags;
    7000 Unsupported: cuEGLStreamConsumerAcquireFrame, cuEGLStreamConsumerConnect,
        cuEGLStreamConsumerDisconnect, cuEGLStreamConsumerReleaseFrame, cuEGLStreamProducerConnect,
        cuEGLStreamProducerDisconnect, cuEGLStreamProducerPresentFrame, cuEGLStreamProducerReturnFrame,
        cuGLMapBufferObject_v2_ptds, cuGLMapBufferObjectAsync_v2_ptsz, cuGraphicsEGLRegisterImage,
        cuGraphicsMapResources_ptsz, cuGraphicsResourceGetMappedEglFrame, cuGraphicsUnmapResources_ptsz;
    8000 Documented: cuMemAdvise, cuMemRangeGetAttribute, cuMemRangeGetAttributes;
    8000 Unsupported: cuEGLStreamConsumerConnectWithFlags, cuTexRefGetBorderColor, cuTexRefSetBorderColor;
    9000 Inferred: cuFuncSetAttribute;
    9000 Unsupported: cuLaunchCooperativeKernelMultiDevice;
    9020 Documented: cuDeviceGetUuid = cuDeviceGetUuid_v2, cuStreamGetCtx,
        cuStreamGetCtx_ptsz = cuStreamGetCtx;
    10000 Recorded: cuDeviceGetLuid, cuStreamIsCapturing;
    10000 Documented: cuGraphCreate, cuGraphDestroy, cuStreamEndCapture,
        cuStreamEndCapture_ptsz = cuStreamEndCapture, cuStreamIsCapturing_ptsz = cuStreamIsCapturing,
        cuGraphAddChildGraphNode, cuGraphAddKernelNode, cuGraphAddMemcpyNode, cuGraphAddMemsetNode,
        cuGraphChildGraphNodeGetGraph, cuGraphGetNodes, cuGraphKernelNodeGetParams, cuGraphMemcpyNodeGetParams,
        cuGraphMemsetNodeGetParams, cuGraphNodeGetType;
    10000 Unsupported: cuDestroyExternalMemory, cuDestroyExternalSemaphore, cuExternalMemoryGetMappedBuffer,
        cuExternalMemoryGetMappedMipmappedArray, cuGraphAddDependencies, cuGraphAddEmptyNode,
        cuGraphAddHostNode, cuGraphClone, cuGraphDestroyNode, cuGraphGetEdges, cuGraphGetRootNodes,
        cuGraphHostNodeGetParams, cuGraphHostNodeSetParams, cuGraphKernelNodeSetParams,
        cuGraphMemcpyNodeSetParams, cuGraphMemsetNodeSetParams, cuGraphNodeFindInClone,
        cuGraphNodeGetDependencies, cuGraphNodeGetDependentNodes, cuGraphRemoveDependencies,
        cuImportExternalMemory, cuImportExternalSemaphore, cuSignalExternalSemaphoresAsync,
        cuSignalExternalSemaphoresAsync_ptsz, cuStreamBeginCapture, cuStreamBeginCapture_ptsz,
        cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync_ptsz;
    10010 Documented: cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz = cuStreamBeginCapture_v2,
        cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz = cuStreamGetCaptureInfo,
        cuThreadExchangeStreamCaptureMode;
    10020 Inferred: cuOccupancyAvailableDynamicSMemPerBlock;
    10020 Unsupported: cuDeviceGetNvSciSyncAttributes, cuGraphExecHostNodeSetParams;
    11000 Recorded: cuDevicePrimaryCtxSetFlags_v2;
    11000 Documented: cuCtxResetPersistingL2Cache, cuStreamCopyAttributes,
        cuStreamCopyAttributes_ptsz = cuStreamCopyAttributes, cuStreamGetAttribute,
        cuStreamGetAttribute_ptsz = cuStreamGetAttribute, cuStreamSetAttribute,
        cuStreamSetAttribute_ptsz = cuStreamSetAttribute;
    11000 Inferred: cuFuncGetModule;
    11000 Unsupported: cuGraphKernelNodeCopyAttributes, cuGraphKernelNodeGetAttribute,
        cuGraphKernelNodeSetAttribute;
    11010 Documented: cuDeviceGetTexture1DLinearMaxWidth, cuGraphUpload,
        cuGraphUpload_ptsz = cuGraphUpload;
    11010 Unsupported: cuArrayGetSparseProperties, cuGraphAddEventRecordNode, cuGraphAddEventWaitNode,
        cuGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeSetEvent, cuGraphEventWaitNodeGetEvent,
        cuGraphEventWaitNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, cuGraphExecEventWaitNodeSetEvent,
        cuMemMapArrayAsync, cuMemMapArrayAsync_ptsz, cuMipmappedArrayGetSparseProperties;
    11020 Recorded: cuDeviceGetMemPool, cuMemPoolGetAttribute;
    11020 Documented: cuDeviceSetMemPool, cuMemPoolSetAttribute,
        cuMemPoolTrimTo;
    11020 Unsupported: cuArrayGetPlane, cuGraphAddExternalSemaphoresSignalNode,
        cuGraphAddExternalSemaphoresWaitNode, cuGraphExecExternalSemaphoresSignalNodeSetParams,
        cuGraphExecExternalSemaphoresWaitNodeSetParams, cuGraphExternalSemaphoresSignalNodeGetParams,
        cuGraphExternalSemaphoresSignalNodeSetParams, cuGraphExternalSemaphoresWaitNodeGetParams,
        cuGraphExternalSemaphoresWaitNodeSetParams;
    11030 Documented: cuFlushGPUDirectRDMAWrites, cuStreamGetCaptureInfo_v2,
        cuStreamGetCaptureInfo_v2_ptsz = cuStreamGetCaptureInfo_v2;
    11030 Unsupported: cuGraphDebugDotPrint, cuGraphReleaseUserObject, cuGraphRetainUserObject,
        cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz, cuUserObjectCreate,
        cuUserObjectRelease, cuUserObjectRetain;
    11040 Recorded: cuDeviceGetExecAffinitySupport, cuDeviceGetUuid_v2;
    11040 Documented: cuCtxGetExecAffinity, cuGraphAddMemAllocNode,
        cuGraphMemAllocNodeGetParams;
    11040 Unsupported: cuDeviceGetGraphMemAttribute, cuGraphAddMemFreeNode, cuDeviceGraphMemTrim, cuDeviceSetGraphMemAttribute,
        cuGraphMemFreeNodeGetParams;
    11060 Unsupported: cuArrayGetMemoryRequirements, cuGraphNodeGetEnabled,
        cuMipmappedArrayGetMemoryRequirements;
    11070 Documented: cuModuleGetLoadingMode;
    11070 Unsupported: cuGraphAddBatchMemOpNode, cuGraphBatchMemOpNodeGetParams, cuGraphBatchMemOpNodeSetParams,
        cuGraphExecBatchMemOpNodeSetParams, cuOccupancyMaxActiveClusters, cuOccupancyMaxPotentialClusterSize;
    12000 Recorded: cuCtxGetId, cuStreamGetId;
    12000 Documented: cuStreamGetId_ptsz = cuStreamGetId, cuGraphAddKernelNode_v2,
        cuGraphKernelNodeGetParams_v2;
    12000 Inferred: cuKernelGetAttribute, cuKernelSetAttribute, cuKernelSetCacheConfig,
        cuLibraryGetGlobal, cuLibraryGetModule, cuLibraryLoadData, cuLibraryLoadFromFile;
    12000 Unsupported: cuGraphExecGetFlags, cuGraphKernelNodeSetParams_v2, cuLibraryGetManaged,
        cuLibraryGetUnifiedFunction, cuTensorMapEncodeIm2col, cuTensorMapEncodeTiled, cuTensorMapReplaceAddress;
    12010 Recorded: cuCtxSetFlags;
    12010 Unsupported: cuCoredumpGetAttribute, cuCoredumpGetAttributeGlobal, cuCoredumpSetAttribute,
        cuCoredumpSetAttributeGlobal;
    12020 Documented: cuMemAdvise_v2;
    12020 Unsupported: cuGraphAddNode, cuGraphNodeSetParams;
    12030 Documented: cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz = cuStreamGetCaptureInfo_v3;
    12030 Inferred: cuFuncGetName, cuKernelGetName;
    12030 Unsupported: cuGraphAddDependencies_v2, cuGraphAddNode_v2, cuGraphConditionalHandleCreate,
        cuGraphGetEdges_v2, cuGraphNodeGetDependencies_v2, cuGraphNodeGetDependentNodes_v2,
        cuGraphRemoveDependencies_v2, cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz,
        cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz;
    12040 Inferred: cuFuncGetParamInfo, cuFuncIsLoaded, cuFuncLoad, cuKernelGetParamInfo, cuLibraryGetKernelCount,
        cuModuleGetFunctionCount;
    12040 Unsupported: cuCtxFromGreenCtx, cuCtxGetDevResource, cuDeviceGetDevResource,
        cuDeviceRegisterAsyncNotification, cuDeviceUnregisterAsyncNotification, cuDevResourceGenerateDesc,
        cuDevSmResourceSplitByCount, cuGreenCtxCreate, cuGreenCtxDestroy,
        cuGreenCtxGetDevResource, cuGreenCtxRecordEvent, cuGreenCtxWaitEvent,
        cuStreamGetGreenCtx;
    12050 Inferred: cuKernelGetLibrary;
    12050 Unsupported: cuCtxRecordEvent, cuCtxWaitEvent, cuGreenCtxStreamCreate, cuStreamGetCtx_v2,
        cuStreamGetCtx_v2_ptsz;
    12060 Unsupported: cuMemBatchDecompressAsync, cuMemBatchDecompressAsync_ptsz;
    12080 Documented: cuEventElapsedTime_v2 = cuEventElapsedTime, cuStreamGetDevice,
        cuStreamGetDevice_ptsz = cuStreamGetDevice;
    12080 Unsupported: cuCheckpointProcessCheckpoint, cuCheckpointProcessGetRestoreThreadId,
        cuCheckpointProcessGetState, cuCheckpointProcessLock, cuCheckpointProcessRestore,
        cuCheckpointProcessUnlock, cuTensorMapEncodeIm2colWide;
    12090 Recorded: cuLogsCurrent, cuLogsDumpToMemory, cuLogsRegisterCallback, cuLogsUnregisterCallback;
    12090 Documented: cuLogsDumpToFile;
    12090 Unsupported: cuGreenCtxGetId;
    13000 Documented: cuCtxGetDevice_v2, cuMemGetDefaultMemPool, cuMemGetMemPool;
    13000 Unsupported: cuDeviceGetHostAtomicCapabilities, cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz, cuMemDiscardBatchAsync,
        cuMemDiscardBatchAsync_ptsz, cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz, cuMemSetMemPool;
    } };
}

/// Driver function that cupeer does not intercept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherFn {
    /// Name under which the driver exports the function.
    pub symbol: &'static str,
    /// Name by which `cuGetProcAddress` finds the function; empty if it does not find it.
    pub lookup: &'static str,
    /// First driver version in which `cuGetProcAddress` finds the function; 0 if it never does.
    pub since: u32,
    /// Evidence for the simulated driver's answers.
    pub simulated: Fidelity,
}

impl OtherFn {
    /// Returns true if the function's stream 0 is the calling thread's own. Only a lookup with
    /// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM finds it.
    pub fn is_per_thread(&self) -> bool {
        self.symbol.ends_with("_ptds") || self.symbol.ends_with("_ptsz")
    }
}

macro_rules! derive_others {
    ($($since:literal $fidelity:ident: $($symbol:ident $(= $same:ident)?),+;)+) => {
        /// List of the functions as data, in the order of the list.
        pub static OTHERS: &[OtherFn] = &[$($(OtherFn {
            symbol: stringify!($symbol),
            lookup: look_up_name(stringify!($symbol), $since),
            since: $since,
            simulated: Fidelity::$fidelity,
        },)+)+];
    };
}
driver_functions_beyond!(derive_others);

/// Returns the list sorted by name, without regard to case.
pub fn sorted_by_name() -> Vec<OtherFn> {
    let mut others = OTHERS.to_vec();
    others.sort_by_key(|f| f.symbol.to_ascii_lowercase());
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::FUNCTIONS;
    use std::collections::HashSet;

    #[test]
    fn a_symbol_is_listed_once_and_a_name_and_version_lead_to_one() {
        let mut symbols: HashSet<&str> = FUNCTIONS.iter().map(|f| f.name()).collect();
        let mut found = HashSet::new();
        for f in OTHERS {
            assert!(symbols.insert(f.symbol), "{}", f.symbol);
            let is_new = found.insert((f.lookup, f.since, f.is_per_thread()));
            assert!(is_new || f.lookup.is_empty(), "{}", f.symbol);
            assert!(f.since <= 13000, "{} is newer than the driver", f.symbol);
        }
    }

    #[test]
    fn a_name_is_looked_up_without_its_version_and_form() {
        for (symbol, since, wanted) in [
            ("cuInit", 2000, "cuInit"),
            ("cuMemcpy2D_v2", 3020, "cuMemcpy2D"),
            ("cuMemcpy2D_v2_ptds", 7000, "cuMemcpy2D"),
            ("cuMemFreeAsync_ptsz", 11020, "cuMemFreeAsync"),
            ("cuMemGetAttribute_v2", 0, ""),
        ] {
            assert_eq!(look_up_name(symbol, since), wanted, "{symbol}");
        }
    }
    #[test]
    fn all_functions_whose_waits_are_known_are_there_once() {
        let mut names: Vec<&str> = crate::waits::TABLE.iter().flat_map(|(names, _)| names.split_whitespace()).collect();
        let symbols = OTHERS.iter().map(|f| f.symbol).chain(FUNCTIONS.iter().map(|f| f.name()));
        let known: HashSet<&str> = symbols.filter_map(|symbol| symbol.split("_v").next()).collect();
        names.iter().for_each(|name| assert!(known.contains(name), "{name}"));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
