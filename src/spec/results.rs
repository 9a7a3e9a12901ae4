//! Result codes: number, name, the library's own text, and the documented meaning. This file has the driver's
//! codes, [`nvml`] has NVML's, and [`runtime`] the runtime's.
//!
//! A meaning here applies to every call. The rules have the meanings for single functions.

use crate::group::Library;

/// Declares the codes of a library from one list.
macro_rules! results {
    ($library:ident: $($number:literal $name:ident $full:literal $string:literal $meaning:literal)*) => {
        /// A documented result code, by its name without the library's prefix and `ERROR_`.
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(i32)]
        pub enum Result { $($name = $number,)* }

        impl Result {
            /// Returns the entry of this code.
            pub fn spec(self) -> &'static ResultSpec {
                Library::$library.result(self as i32).unwrap_or(&RESULTS[0])
            }
        }

        /// All codes of the library in ascending order.
        pub static RESULTS: &[ResultSpec] = &[$(ResultSpec {
            library: Library::$library,
            number: $number,
            name: $full,
            string: $string,
            meaning: $meaning,
        }),*];
    };
}

pub mod nvml;
pub mod runtime;

/// Entry of a result code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResultSpec {
    /// Library of the code.
    pub library: Library,
    /// Number of the code.
    pub number: i32,
    /// Name in the library's header, with a NUL behind it.
    name: &'static str,
    /// The library's own text, with a NUL behind it.
    string: &'static str,
    meaning: &'static str,
}

impl ResultSpec {
    /// Returns the name in the library's header. For the driver, `cuGetErrorName` returns it.
    pub fn name(&self) -> &'static str {
        self.name.trim_end_matches('\0')
    }

    /// Returns the name as people type it: without the library's prefix and `ERROR_`.
    pub fn short_name(&self) -> &'static str {
        let name = self.name();
        let name = name.strip_prefix(self.library.name_prefix()).unwrap_or(name);
        name.strip_prefix("ERROR_").unwrap_or(name)
    }

    /// Returns the text of `cuGetErrorString` or `nvmlErrorString`.
    pub fn library_text(&self) -> &'static str {
        self.string.trim_end_matches('\0')
    }

    /// Returns the documented meaning.
    pub fn meaning(&self) -> &'static str {
        self.meaning
    }

    /// Returns the name and the text with their terminating NULs, for C.
    pub fn c_texts(&self) -> (&'static str, &'static str) {
        (self.name, self.string)
    }
}

impl Library {
    /// Returns the prefix of the codes' names.
    fn name_prefix(self) -> &'static str {
        match self {
            Library::Cuda => "CUDA_",
            Library::Nvml => "NVML_",
            Library::Cudart => "cudaError",
        }
    }

    /// Returns the codes that functions of this library return.
    pub fn results(self) -> &'static [ResultSpec] {
        match self {
            Library::Cuda => RESULTS,
            Library::Nvml => nvml::RESULTS,
            Library::Cudart => runtime::RESULTS,
        }
    }

    /// Returns the entry of a number if it is documented.
    pub fn result(self, number: i32) -> Option<&'static ResultSpec> {
        let results = self.results();
        results.binary_search_by_key(&number, |r| r.number).ok().map(|i| &results[i])
    }

    /// Returns the code with this number or name, as a person types it: the name with or without its prefixes, in
    /// upper or lower case.
    pub fn parse_result(self, text: &str) -> Option<&'static ResultSpec> {
        if let Ok(number) = text.parse() {
            return self.result(number);
        }
        // The runtime's name has the driver's number.
        let runtimes = runtime::RESULTS.iter().find(|known| known.name().eq_ignore_ascii_case(text));
        if let Some(known) = runtimes.filter(|_| self != Library::Nvml) {
            return self.result(known.number);
        }
        let upper = text.to_ascii_uppercase();
        let wanted = upper.strip_prefix(self.name_prefix()).unwrap_or(&upper);
        let wanted = wanted.strip_prefix("ERROR_").unwrap_or(wanted);
        self.results().iter().find(|r| r.short_name() == wanted)
    }
}

/// Returns the entry of a driver result if it is documented. For the result of a function in the table, use
/// [`crate::function::FnSpec::result`].
pub fn find_spec(number: i32) -> Option<&'static ResultSpec> {
    Library::Cuda.result(number)
}

/// Returns the result code of the driver with this number or name, as a person types it.
pub fn parse_result_code(text: &str) -> Option<&'static ResultSpec> {
    Library::Cuda.parse_result(text)
}

results! { Cuda:
    0 SUCCESS "CUDA_SUCCESS\0" "no error\0"
        "The API call returned with no errors."
    1 INVALID_VALUE "CUDA_ERROR_INVALID_VALUE\0" "invalid argument\0"
        "One or more of the parameters passed to the API call is not within an acceptable range of values."
    2 OUT_OF_MEMORY "CUDA_ERROR_OUT_OF_MEMORY\0" "out of memory\0"
        "The API call failed because it was unable to allocate enough memory or other resources to perform the requested operation."
    3 NOT_INITIALIZED "CUDA_ERROR_NOT_INITIALIZED\0" "initialization error\0"
        "The CUDA driver has not been initialized with cuInit() or that initialization has failed."
    4 DEINITIALIZED "CUDA_ERROR_DEINITIALIZED\0" "driver shutting down\0"
        "The CUDA driver is in the process of shutting down."
    5 PROFILER_DISABLED "CUDA_ERROR_PROFILER_DISABLED\0" "profiler disabled while using external profiling tool\0"
        "Profiler is not initialized for this run."
    6 PROFILER_NOT_INITIALIZED "CUDA_ERROR_PROFILER_NOT_INITIALIZED\0" "profiler not initialized: call cudaProfilerInitialize()\0"
        "Deprecated: the driver no longer returns it, as of CUDA 5.0."
    7 PROFILER_ALREADY_STARTED "CUDA_ERROR_PROFILER_ALREADY_STARTED\0" "profiler already started\0"
        "Deprecated: the driver no longer returns it, as of CUDA 5.0."
    8 PROFILER_ALREADY_STOPPED "CUDA_ERROR_PROFILER_ALREADY_STOPPED\0" "profiler already stopped\0"
        "Deprecated: the driver no longer returns it, as of CUDA 5.0."
    34 STUB_LIBRARY "CUDA_ERROR_STUB_LIBRARY\0" "CUDA driver is a stub library\0"
        "The CUDA driver that the application has loaded is a stub library."
    36 CALL_REQUIRES_NEWER_DRIVER "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER\0" "API call is not supported in the installed CUDA driver\0"
        "The API call requires a newer CUDA driver than the one currently installed."
    46 DEVICE_UNAVAILABLE "CUDA_ERROR_DEVICE_UNAVAILABLE\0" "CUDA-capable device(s) is/are busy or unavailable\0"
        "Requested CUDA device is unavailable at the current time."
    47 MULTICAST_RESOURCE_FULL "CUDA_ERROR_MULTICAST_RESOURCE_FULL\0" "unrecognized error code\0"
        "The API call failed because of a hardware resource required to bind memory to a multicast object is unavailable."
    100 NO_DEVICE "CUDA_ERROR_NO_DEVICE\0" "no CUDA-capable device is detected\0"
        "No CUDA-capable devices were detected by the installed CUDA driver."
    101 INVALID_DEVICE "CUDA_ERROR_INVALID_DEVICE\0" "invalid device ordinal\0"
        "The device ordinal supplied by the user does not correspond to a valid CUDA device or that the action requested is invalid for the specified device."
    102 DEVICE_NOT_LICENSED "CUDA_ERROR_DEVICE_NOT_LICENSED\0" "device doesn't have valid Grid license\0"
        "The Grid license is not applied."
    200 INVALID_IMAGE "CUDA_ERROR_INVALID_IMAGE\0" "device kernel image is invalid\0"
        "The device kernel image is invalid."
    201 INVALID_CONTEXT "CUDA_ERROR_INVALID_CONTEXT\0" "invalid device context\0"
        "This most frequently indicates that there is no context bound to the current thread."
    202 CONTEXT_ALREADY_CURRENT "CUDA_ERROR_CONTEXT_ALREADY_CURRENT\0" "context already current\0"
        "The context being supplied as a parameter to the API call was already the active context."
    205 MAP_FAILED "CUDA_ERROR_MAP_FAILED\0" "mapping of buffer object failed\0"
        "A map or register operation has failed."
    206 UNMAP_FAILED "CUDA_ERROR_UNMAP_FAILED\0" "unmapping of buffer object failed\0"
        "An unmap or unregister operation has failed."
    207 ARRAY_IS_MAPPED "CUDA_ERROR_ARRAY_IS_MAPPED\0" "array is mapped\0"
        "The specified array is currently mapped and thus cannot be destroyed."
    208 ALREADY_MAPPED "CUDA_ERROR_ALREADY_MAPPED\0" "resource already mapped\0"
        "The resource is already mapped."
    209 NO_BINARY_FOR_GPU "CUDA_ERROR_NO_BINARY_FOR_GPU\0" "no kernel image is available for execution on the device\0"
        "There is no kernel image available that is suitable for the device."
    210 ALREADY_ACQUIRED "CUDA_ERROR_ALREADY_ACQUIRED\0" "resource already acquired\0"
        "A resource has already been acquired."
    211 NOT_MAPPED "CUDA_ERROR_NOT_MAPPED\0" "resource not mapped\0"
        "A resource is not mapped."
    212 NOT_MAPPED_AS_ARRAY "CUDA_ERROR_NOT_MAPPED_AS_ARRAY\0" "resource not mapped as array\0"
        "A mapped resource is not available for access as an array."
    213 NOT_MAPPED_AS_POINTER "CUDA_ERROR_NOT_MAPPED_AS_POINTER\0" "resource not mapped as pointer\0"
        "A mapped resource is not available for access as a pointer."
    214 ECC_UNCORRECTABLE "CUDA_ERROR_ECC_UNCORRECTABLE\0" "uncorrectable ECC error encountered\0"
        "An uncorrectable ECC error was detected during execution."
    215 UNSUPPORTED_LIMIT "CUDA_ERROR_UNSUPPORTED_LIMIT\0" "limit is not supported on this architecture\0"
        "The CUlimit passed to the API call is not supported by the active device."
    216 CONTEXT_ALREADY_IN_USE "CUDA_ERROR_CONTEXT_ALREADY_IN_USE\0" "exclusive-thread device already in use by a different thread\0"
        "The CUcontext passed to the API call can only be bound to a single CPU thread at a time but is already bound to a CPU thread."
    217 PEER_ACCESS_UNSUPPORTED "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED\0" "peer access is not supported between these two devices\0"
        "Peer access is not supported across the given devices."
    218 INVALID_PTX "CUDA_ERROR_INVALID_PTX\0" "a PTX JIT compilation failed\0"
        "A PTX JIT compilation failed."
    219 INVALID_GRAPHICS_CONTEXT "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT\0" "invalid OpenGL or DirectX context\0"
        "An error with OpenGL or DirectX context."
    220 NVLINK_UNCORRECTABLE "CUDA_ERROR_NVLINK_UNCORRECTABLE\0" "uncorrectable NVLink error detected during the execution\0"
        "An uncorrectable NVLink error was detected during the execution."
    221 JIT_COMPILER_NOT_FOUND "CUDA_ERROR_JIT_COMPILER_NOT_FOUND\0" "PTX JIT compiler library not found\0"
        "The PTX JIT compiler library was not found."
    222 UNSUPPORTED_PTX_VERSION "CUDA_ERROR_UNSUPPORTED_PTX_VERSION\0" "the provided PTX was compiled with an unsupported toolchain.\0"
        "The provided PTX was compiled with an unsupported toolchain."
    223 JIT_COMPILATION_DISABLED "CUDA_ERROR_JIT_COMPILATION_DISABLED\0" "PTX JIT compilation was disabled\0"
        "The PTX JIT compilation was disabled."
    224 UNSUPPORTED_EXEC_AFFINITY "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY\0" "the provided execution affinity is not supported\0"
        "The CUexecAffinityType passed to the API call is not supported by the active device."
    225 UNSUPPORTED_DEVSIDE_SYNC "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC\0" "the provided PTX contains unsupported call to cudaDeviceSynchronize\0"
        "The code to be compiled by the PTX JIT contains unsupported call to cudaDeviceSynchronize."
    226 CONTAINED "CUDA_ERROR_CONTAINED\0" "Invalid access of peer GPU memory over nvlink or a hardware error\0"
        "An exception occurred on the device that is now contained by the GPU's error containment capability."
    227 INSUFFICIENT_LOADER_VERSION "CUDA_ERROR_INSUFFICIENT_LOADER_VERSION\0" "Loader version is insufficient for fatbin\0"
        "The Loader version is insufficient for fatbin."
    300 INVALID_SOURCE "CUDA_ERROR_INVALID_SOURCE\0" "device kernel image is invalid\0"
        "The device kernel source is invalid."
    301 FILE_NOT_FOUND "CUDA_ERROR_FILE_NOT_FOUND\0" "file not found\0"
        "The file specified was not found."
    302 SHARED_OBJECT_SYMBOL_NOT_FOUND "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND\0" "shared object symbol not found\0"
        "A link to a shared object failed to resolve."
    303 SHARED_OBJECT_INIT_FAILED "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED\0" "shared object initialization failed\0"
        "Initialization of a shared object failed."
    304 OPERATING_SYSTEM "CUDA_ERROR_OPERATING_SYSTEM\0" "OS call failed or operation not supported on this OS\0"
        "An OS call failed."
    400 INVALID_HANDLE "CUDA_ERROR_INVALID_HANDLE\0" "invalid resource handle\0"
        "A resource handle passed to the API call was not valid."
    401 ILLEGAL_STATE "CUDA_ERROR_ILLEGAL_STATE\0" "the operation cannot be performed in the present state\0"
        "A resource required by the API call is not in a valid state to perform the requested operation."
    402 LOSSY_QUERY "CUDA_ERROR_LOSSY_QUERY\0" "attempted introspection would be semantically lossy\0"
        "An attempt was made to introspect an object in a way that would discard semantically important information."
    500 NOT_FOUND "CUDA_ERROR_NOT_FOUND\0" "named symbol not found\0"
        "A named symbol was not found."
    600 NOT_READY "CUDA_ERROR_NOT_READY\0" "device not ready\0"
        "Asynchronous operations issued previously have not completed yet."
    700 ILLEGAL_ADDRESS "CUDA_ERROR_ILLEGAL_ADDRESS\0" "an illegal memory access was encountered\0"
        "While executing a kernel, the device encountered a load or store instruction on an invalid memory address."
    701 LAUNCH_OUT_OF_RESOURCES "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES\0" "too many resources requested for launch\0"
        "A launch did not occur because it did not have appropriate resources."
    702 LAUNCH_TIMEOUT "CUDA_ERROR_LAUNCH_TIMEOUT\0" "the launch timed out and was terminated\0"
        "The device kernel took too long to execute."
    703 LAUNCH_INCOMPATIBLE_TEXTURING "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING\0" "launch uses incompatible texturing mode\0"
        "A kernel launch that uses an incompatible texturing mode."
    704 PEER_ACCESS_ALREADY_ENABLED "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED\0" "peer access is already enabled\0"
        "A call to cuCtxEnablePeerAccess() is trying to re-enable peer access to a context which has already had peer access to it enabled."
    705 PEER_ACCESS_NOT_ENABLED "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED\0" "peer access has not been enabled\0"
        "CuCtxDisablePeerAccess() is trying to disable peer access which has not been enabled yet via cuCtxEnablePeerAccess()."
    708 PRIMARY_CONTEXT_ACTIVE "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE\0" "cannot set while device is active in this process\0"
        "The primary context for the specified device has already been initialized."
    709 CONTEXT_IS_DESTROYED "CUDA_ERROR_CONTEXT_IS_DESTROYED\0" "context is destroyed\0"
        "The context current to the calling thread has been destroyed using cuCtxDestroy, or is a primary context which has not yet been initialized."
    710 ASSERT "CUDA_ERROR_ASSERT\0" "device-side assert triggered\0"
        "A device-side assert triggered during kernel execution."
    711 TOO_MANY_PEERS "CUDA_ERROR_TOO_MANY_PEERS\0" "peer mapping resources exhausted\0"
        "The hardware resources required to enable peer access have been exhausted for one or more of the devices passed to cuCtxEnablePeerAccess()."
    712 HOST_MEMORY_ALREADY_REGISTERED "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED\0" "part or all of the requested memory range is already mapped\0"
        "The memory range passed to cuMemHostRegister() has already been registered."
    713 HOST_MEMORY_NOT_REGISTERED "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED\0" "pointer does not correspond to a registered memory region\0"
        "The pointer passed to cuMemHostUnregister() does not correspond to any currently registered memory region."
    714 HARDWARE_STACK_ERROR "CUDA_ERROR_HARDWARE_STACK_ERROR\0" "hardware stack error\0"
        "While executing a kernel, the device encountered a stack error."
    715 ILLEGAL_INSTRUCTION "CUDA_ERROR_ILLEGAL_INSTRUCTION\0" "an illegal instruction was encountered\0"
        "While executing a kernel, the device encountered an illegal instruction."
    716 MISALIGNED_ADDRESS "CUDA_ERROR_MISALIGNED_ADDRESS\0" "misaligned address\0"
        "While executing a kernel, the device encountered a load or store instruction on a memory address which is not aligned."
    717 INVALID_ADDRESS_SPACE "CUDA_ERROR_INVALID_ADDRESS_SPACE\0" "operation not supported on global/shared address space\0"
        "While executing a kernel, the device encountered an instruction which can only operate on memory locations in certain address spaces (global, shared, or local), but was supplied a memory address not belonging to an allowed address space."
    718 INVALID_PC "CUDA_ERROR_INVALID_PC\0" "invalid program counter\0"
        "While executing a kernel, the device program counter wrapped its address space."
    719 LAUNCH_FAILED "CUDA_ERROR_LAUNCH_FAILED\0" "unspecified launch failure\0"
        "An exception occurred on the device while executing a kernel."
    720 COOPERATIVE_LAUNCH_TOO_LARGE "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE\0" "too many blocks in cooperative launch\0"
        "The number of blocks launched per grid for a kernel that was launched via either cuLaunchCooperativeKernel or cuLaunchCooperativeKernelMultiDevice exceeds the maximum number of blocks as allowed by cuOccupancyMaxActiveBlocksPerMultiprocessor or cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags times the number of multiprocessors as specified by the device attribute CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT."
    721 TENSOR_MEMORY_LEAK "CUDA_ERROR_TENSOR_MEMORY_LEAK\0" "tensor memory not completely freed\0"
        "An exception occurred on the device while exiting a kernel using tensor memory: the tensor memory was not completely deallocated."
    800 NOT_PERMITTED "CUDA_ERROR_NOT_PERMITTED\0" "operation not permitted\0"
        "The attempted operation is not permitted."
    801 NOT_SUPPORTED "CUDA_ERROR_NOT_SUPPORTED\0" "operation not supported\0"
        "The attempted operation is not supported on the current system or device."
    802 SYSTEM_NOT_READY "CUDA_ERROR_SYSTEM_NOT_READY\0" "system not yet initialized\0"
        "The system is not yet ready to start any CUDA work."
    803 SYSTEM_DRIVER_MISMATCH "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH\0" "system has unsupported display driver / cuda driver combination\0"
        "There is a mismatch between the versions of the display driver and the CUDA driver."
    804 COMPAT_NOT_SUPPORTED_ON_DEVICE "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE\0" "forward compatibility was attempted on non supported HW\0"
        "The system was upgraded to run with forward compatibility but the visible hardware detected by CUDA does not support this configuration."
    805 MPS_CONNECTION_FAILED "CUDA_ERROR_MPS_CONNECTION_FAILED\0" "MPS client failed to connect to the MPS control daemon or the MPS server\0"
        "The MPS client failed to connect to the MPS control daemon or the MPS server."
    806 MPS_RPC_FAILURE "CUDA_ERROR_MPS_RPC_FAILURE\0" "the remote procedural call between the MPS server and the MPS client failed\0"
        "The remote procedural call between the MPS server and the MPS client failed."
    807 MPS_SERVER_NOT_READY "CUDA_ERROR_MPS_SERVER_NOT_READY\0" "MPS server is not ready to accept new MPS client requests\0"
        "The MPS server is not ready to accept new MPS client requests."
    808 MPS_MAX_CLIENTS_REACHED "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED\0" "the hardware resources required to create MPS client have been exhausted\0"
        "The hardware resources required to create MPS client have been exhausted."
    809 MPS_MAX_CONNECTIONS_REACHED "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED\0" "the hardware resources required to support device connections have been exhausted\0"
        "The hardware resources required to support device connections have been exhausted."
    810 MPS_CLIENT_TERMINATED "CUDA_ERROR_MPS_CLIENT_TERMINATED\0" "the MPS client has been terminated by the server\0"
        "The MPS client has been terminated by the server."
    811 CDP_NOT_SUPPORTED "CUDA_ERROR_CDP_NOT_SUPPORTED\0" "is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it\0"
        "The module is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it."
    812 CDP_VERSION_MISMATCH "CUDA_ERROR_CDP_VERSION_MISMATCH\0" "unsupported interaction between different versions of CUDA Dynamic Parallelism\0"
        "A module contains an unsupported interaction between different versions of CUDA Dynamic Parallelism."
    900 STREAM_CAPTURE_UNSUPPORTED "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED\0" "operation not permitted when stream is capturing\0"
        "The operation is not permitted when the stream is capturing."
    901 STREAM_CAPTURE_INVALIDATED "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED\0" "operation failed due to a previous error during capture\0"
        "The current capture sequence on the stream has been invalidated due to a previous error."
    902 STREAM_CAPTURE_MERGE "CUDA_ERROR_STREAM_CAPTURE_MERGE\0" "operation would result in a merge of separate capture sequences\0"
        "The operation would have resulted in a merge of two independent capture sequences."
    903 STREAM_CAPTURE_UNMATCHED "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED\0" "capture was not ended in the same stream as it began\0"
        "The capture was not initiated in this stream."
    904 STREAM_CAPTURE_UNJOINED "CUDA_ERROR_STREAM_CAPTURE_UNJOINED\0" "capturing stream has unjoined work\0"
        "The capture sequence contains a fork that was not joined to the primary stream."
    905 STREAM_CAPTURE_ISOLATION "CUDA_ERROR_STREAM_CAPTURE_ISOLATION\0" "dependency created on uncaptured work in another stream\0"
        "A dependency would have been created which crosses the capture sequence boundary."
    906 STREAM_CAPTURE_IMPLICIT "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT\0" "operation would make the legacy stream depend on a capturing blocking stream\0"
        "A disallowed implicit dependency on a current capture sequence from cudaStreamLegacy."
    907 CAPTURED_EVENT "CUDA_ERROR_CAPTURED_EVENT\0" "operation not permitted on an event last recorded in a capturing stream\0"
        "The operation is not permitted on an event which was last recorded in a capturing stream."
    908 STREAM_CAPTURE_WRONG_THREAD "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD\0" "attempt to terminate a thread-local capture sequence from another thread\0"
        "A stream capture sequence not initiated with the CU_STREAM_CAPTURE_MODE_RELAXED argument to cuStreamBeginCapture was passed to cuStreamEndCapture in a different thread."
    909 TIMEOUT "CUDA_ERROR_TIMEOUT\0" "wait operation timed out\0"
        "The timeout specified for the wait operation has lapsed."
    910 GRAPH_EXEC_UPDATE_FAILURE "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE\0" "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update\0"
        "The graph update was not performed because it included changes which violated constraints specific to instantiated graph update."
    911 EXTERNAL_DEVICE "CUDA_ERROR_EXTERNAL_DEVICE\0" "an async error has occured in external entity outside of CUDA\0"
        "An error has occurred in a device outside of GPU."
    912 INVALID_CLUSTER_SIZE "CUDA_ERROR_INVALID_CLUSTER_SIZE\0" "a kernel launch error has occurred due to cluster misconfiguration\0"
        "A kernel launch error due to cluster misconfiguration."
    913 FUNCTION_NOT_LOADED "CUDA_ERROR_FUNCTION_NOT_LOADED\0" "the function handle is not loaded when calling an API that requires a loaded function\0"
        "A function handle is not loaded when calling an API that requires a loaded function."
    914 INVALID_RESOURCE_TYPE "CUDA_ERROR_INVALID_RESOURCE_TYPE\0" "one or more resources passed in are not valid resource types for the operation\0"
        "One or more resources passed in are not valid resource types for the operation."
    915 INVALID_RESOURCE_CONFIGURATION "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION\0" "one or more resources are insufficient or non-applicable for the operation\0"
        "One or more resources are insufficient or non-applicable for the operation."
    916 KEY_ROTATION "CUDA_ERROR_KEY_ROTATION\0" "an error happened during the key rotation sequence\0"
        "An error happened during the key rotation sequence."
    917 STREAM_DETACHED "CUDA_ERROR_STREAM_DETACHED\0" "API call not permitted since the green context associated with the stream has been destroyed\0"
        "The requested operation is not permitted because the stream is in a detached state."
    918 GRAPH_RECAPTURE_FAILURE "CUDA_ERROR_GRAPH_RECAPTURE_FAILURE\0" "recapturing to the source graph failed and had to be terminated\0"
        "A graph recapture failed and had to be terminated."
    919 FABRIC_NOT_READY "CUDA_ERROR_FABRIC_NOT_READY\0" "GPU fabric is not ready within the probe wait budget; application may retry (see CUDA_FABRIC_INIT_TIMEOUT_MS)\0"
        "The GPU fabric is not ready within the bounded wait while the fabric manager probe is still in progress (or not converging in time)."
    999 UNKNOWN "CUDA_ERROR_UNKNOWN\0" "unknown error\0"
        "An unknown internal error has occurred."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascending_and_unique() {
        for results in [RESULTS, nvml::RESULTS] {
            assert!(results.windows(2).all(|w| w[0].number < w[1].number));
            for (i, r) in results.iter().enumerate() {
                assert!(results[i + 1..].iter().all(|other| other.short_name() != r.short_name()), "{}", r.name());
            }
        }
    }

    #[test]
    fn every_text_ends_in_exactly_one_nul() {
        for r in RESULTS.iter().chain(nvml::RESULTS) {
            for text in <[_; 2]>::from(r.c_texts()) {
                assert_eq!(text.find('\0'), Some(text.len() - 1), "{}", r.name());
            }
        }
    }

    #[test]
    fn people_type_codes_in_many_ways() {
        for text in ["CUDA_ERROR_MAP_FAILED", "MAP_FAILED", "map_failed", "ERROR_MAP_FAILED", "205"] {
            assert_eq!(parse_result_code(text), Some(Result::MAP_FAILED.spec()), "{text}");
        }
        assert_eq!(parse_result_code("cudaErrorMapBufferObjectFailed"), Some(Result::MAP_FAILED.spec()));
        assert_eq!(Library::Nvml.parse_result("cudaErrorUnknown"), None);
        assert_eq!(parse_result_code("success").map(|r| r.number), Some(0));
        for text in ["", "CUDA_", "MAP_FAIL", "203", "-1", "99999999999", "NVML_ERROR_TIMEOUT"] {
            assert_eq!(parse_result_code(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_same_word_is_another_code_in_another_library() {
        for text in ["NOT_SUPPORTED", "ERROR_NOT_SUPPORTED", "NVML_ERROR_NOT_SUPPORTED", "3"] {
            assert_eq!(Library::Nvml.parse_result(text), Some(nvml::Result::NOT_SUPPORTED.spec()), "{text}");
        }
        assert_eq!(parse_result_code("not_supported"), Some(Result::NOT_SUPPORTED.spec()));
        assert_eq!(Library::Nvml.parse_result("CUDA_ERROR_NOT_SUPPORTED"), None);
    }
}
