//! The driver's functions as a process that holds a device calls them. Each returns a value or a refusal.

use super::request::Refusal;
use cupeer_spec::abi::*;
use cupeer_spec::function::Library;
use cupeer_spec::results;
use libloading::os::unix::Library as Handle;
use std::ffi::{CStr, c_char, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub type Answer<T = ()> = Result<T, Refusal>;

/// The functions of the driver that this process has loaded.
pub struct Cuda(Handle);

fn refusal(call: &str, result: &str) -> Refusal {
    Refusal { call: call.to_owned(), result: result.to_owned(), message: None }
}

fn check(call: &str, result: CUresult) -> Answer {
    match result.0 {
        0 => Ok(()),
        number => {
            let name = results::find_spec(number).map_or(number.to_string(), |spec| spec.name().to_owned());
            Err(refusal(call, &name))
        }
    }
}

/// Defines methods for functions whose arguments are numbers, handles, and references. A function with a
/// result writes it through its first argument.
macro_rules! calls {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)?;)*) => {
        #[allow(non_snake_case)]
        impl Cuda {
            $(calls! { @one $name($($arg: $type),*) $(-> $out)? })*
        }
    };
    (@one $name:ident($($arg:ident: $type:ty),*)) => {
        pub fn $name(&self, $($arg: $type),*) -> Answer {
            let function: unsafe extern "C" fn($($type),*) -> CUresult = self.find(stringify!($name))?;
            // SAFETY: cuda.h declares the function so. The driver checks numbers and handles; references live through the call.
            check(stringify!($name), unsafe { function($($arg),*) })
        }
    };
    (@one $name:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        pub fn $name(&self, $($arg: $type),*) -> Answer<$out> {
            let function: unsafe extern "C" fn(*mut $out, $($type),*) -> CUresult =
                self.find(stringify!($name))?;
            // SAFETY: cuda.h declares the function so. Zeros are a value of each output type below, the output is a variable of
            // that type, the driver checks numbers and handles, and references live through the call.
            unsafe {
                let mut out: $out = std::mem::zeroed();
                check(stringify!($name), function(&mut out, $($arg),*))?;
                Ok(out)
            }
        }
    };
}
calls! {
    fn cuInit(flags: u32);
    fn cuDeviceGetCount() -> i32;
    fn cuDeviceGet(ordinal: i32) -> CUdevice;
    fn cuDeviceGetUuid(device: CUdevice) -> [u8; 16];
    fn cuDeviceTotalMem_v2(device: CUdevice) -> usize;
    fn cuDeviceGetAttribute(attribute: i32, device: CUdevice) -> i32;
    fn cuDeviceCanAccessPeer(device: CUdevice, peer: CUdevice) -> i32;
    fn cuDeviceGetP2PAttribute(attribute: i32, from: CUdevice, to: CUdevice) -> i32;
    fn cuDevicePrimaryCtxRetain(device: CUdevice) -> CUcontext;
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    fn cuCtxSetCurrent(context: CUcontext);
    fn cuCtxSynchronize();
    fn cuCtxEnablePeerAccess(peer: CUcontext, flags: u32);
    fn cuStreamCreate(flags: u32) -> CUstream;
    fn cuStreamSynchronize(stream: CUstream);
    fn cuEventCreate(flags: u32) -> CUevent;
    fn cuEventRecord(event: CUevent, stream: CUstream);
    fn cuEventElapsedTime(start: CUevent, end: CUevent) -> f32;
    fn cuMemAlloc_v2(bytes: usize) -> CUdeviceptr;
    fn cuMemFree_v2(address: CUdeviceptr);
    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemcpyPeerAsync(
        to: CUdeviceptr,
        to_context: CUcontext,
        from: CUdeviceptr,
        from_context: CUcontext,
        bytes: usize,
        stream: CUstream
    );
    fn cuIpcGetMemHandle(address: CUdeviceptr) -> CUipcMemHandle;
    fn cuIpcOpenMemHandle_v2(handle: CUipcMemHandle, flags: u32) -> CUdeviceptr;
    fn cuIpcCloseMemHandle(address: CUdeviceptr);
    fn cuMemAddressReserve(bytes: usize, alignment: usize, address: CUdeviceptr, flags: u64) -> CUdeviceptr;
    fn cuMemAddressFree(address: CUdeviceptr, bytes: usize);
    fn cuMemMap(
        address: CUdeviceptr,
        bytes: usize,
        offset: usize,
        handle: CUmemGenericAllocationHandle,
        flags: u64
    );
    fn cuMemUnmap(address: CUdeviceptr, bytes: usize);
    fn cuMemRelease(handle: CUmemGenericAllocationHandle);
    fn cuMemHostAlloc(bytes: usize, flags: u32) -> *mut c_void;
    fn cuMemCreate(
        bytes: usize,
        properties: &CUmemAllocationProp,
        flags: u64
    ) -> CUmemGenericAllocationHandle;
    fn cuMemImportFromShareableHandle(descriptor: usize, kind: i32) -> CUmemGenericAllocationHandle;
    fn cuMemSetAccess(address: CUdeviceptr, bytes: usize, access: &[CUmemAccessDesc; 1], count: usize);
}

/// Number of the handle type CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
const DESCRIPTOR: i32 = 1;

impl Cuda {
    pub fn load() -> Answer<Cuda> {
        cupeer_nvidia::load(Library::Cuda).map(Cuda).map_err(|reason| refusal("dlopen", &reason))
    }

    fn find<F: Copy>(&self, name: &str) -> Answer<F> {
        // SAFETY: the callers name the type that cuda.h gives the function.
        let symbol = unsafe { self.0.get::<F>(name.as_bytes()) };
        symbol.map(|symbol| *symbol).map_err(|_| refusal(name, "the driver lacks this function"))
    }

    /// Returns the text of a device: `name` is `cuDeviceGetName` or `cuDeviceGetPCIBusId`.
    pub fn device_text(&self, name: &str, device: CUdevice) -> Answer<String> {
        type Get = unsafe extern "C" fn(*mut c_char, i32, CUdevice) -> CUresult;
        let function: Get = self.find(name)?;
        let mut text = [0 as c_char; 256];
        // SAFETY: cuda.h declares both functions so; the length is one less than that of the text.
        check(name, unsafe { function(text.as_mut_ptr(), 255, device) })?;
        // SAFETY: the last byte was not passed to the driver, so the text ends in a NUL.
        Ok(unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned())
    }

    /// Calls `cuDeviceGetP2PAtomicCapabilities`, a function of CUDA 13, for all operations that cuda.h knows.
    pub fn atomic_capabilities(&self, from: CUdevice, to: CUdevice) -> Answer<Vec<u32>> {
        type Get = unsafe extern "C" fn(*mut u32, *const CUatomicOperation, u32, CUdevice, CUdevice) -> CUresult;
        let name = "cuDeviceGetP2PAtomicCapabilities";
        let function: Get = self.find(name)?;
        let operations: Vec<_> =
            CUatomicOperation::VALUES.iter().map(|(number, _)| CUatomicOperation(*number)).collect();
        let mut out = vec![0; operations.len()];
        // SAFETY: cuda.h declares it so; both lists have the length that is said.
        let result = unsafe { function(out.as_mut_ptr(), operations.as_ptr(), operations.len() as u32, from, to) };
        check(name, result)?;
        Ok(out)
    }

    /// Copies words from host memory to a device.
    pub fn upload(&self, to: CUdeviceptr, words: &[u64]) -> Answer {
        let function: unsafe extern "C" fn(CUdeviceptr, *const c_void, usize) -> CUresult =
            self.find("cuMemcpyHtoD_v2")?;
        // SAFETY: cuda.h declares it so; so many bytes are read from the list.
        let result = unsafe { function(to, words.as_ptr().cast(), size_of_val(words)) };
        check("cuMemcpyHtoD_v2", result)
    }

    /// Copies words from a device to host memory.
    pub fn download(&self, words: &mut [u64], from: CUdeviceptr) -> Answer {
        let function: unsafe extern "C" fn(*mut c_void, CUdeviceptr, usize) -> CUresult =
            self.find("cuMemcpyDtoH_v2")?;
        // SAFETY: cuda.h declares it so; so many bytes are written to the list.
        let result = unsafe { function(words.as_mut_ptr().cast(), from, size_of_val(words)) };
        check("cuMemcpyDtoH_v2", result)
    }

    /// Loads a module by `cuModuleLoadDataEx`. On failure, the refusal contains the message of the compiler.
    pub fn load_module(&self, text: &CStr) -> Answer<*mut c_void> {
        /// CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES.
        const OPTIONS: [i32; 2] = [5, 6];
        type Load =
            unsafe extern "C" fn(*mut *mut c_void, *const c_char, u32, *const i32, *mut *mut c_void) -> CUresult;
        let name = "cuModuleLoadDataEx";
        let function: Load = self.find(name)?;
        let mut log = [0u8; 2048];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), 2047 as *mut c_void];
        let mut module = std::ptr::null_mut();
        // SAFETY: cuda.h declares it so. The text ends in a NUL; the values are those of the two options, a place and how many
        // bytes it has, and all of it lives through the call.
        let result = unsafe { function(&mut module, text.as_ptr(), 2, OPTIONS.as_ptr(), values.as_mut_ptr()) };
        check(name, result).map_err(|refusal| {
            let log = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
            Refusal { message: Some(log.trim().to_owned()).filter(|log| !log.is_empty()), ..refusal }
        })?;
        Ok(module)
    }

    pub fn find_kernel(&self, module: *mut c_void, name: &CStr) -> Answer<*mut c_void> {
        type Get = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> CUresult;
        let get: Get = self.find("cuModuleGetFunction")?;
        let mut function = std::ptr::null_mut();
        // SAFETY: cuda.h declares it so; the module is the driver's, and the name ends in a NUL.
        check("cuModuleGetFunction", unsafe { get(&mut function, module, name.as_ptr()) })?;
        Ok(function)
    }

    /// Launches a kernel whose parameters are numbers of 64 bits.
    pub fn launch_kernel(
        &self,
        function: *mut c_void,
        (blocks, threads): (u32, u32),
        stream: CUstream,
        arguments: &[u64],
    ) -> Answer {
        type Launch = unsafe extern "C" fn(
            *mut c_void,
            u32,
            u32,
            u32,
            u32,
            u32,
            u32,
            u32,
            CUstream,
            *mut *mut c_void,
            *mut *mut c_void,
        ) -> CUresult;
        let launch: Launch = self.find("cuLaunchKernel")?;
        let mut parameters: Vec<*mut c_void> =
            arguments.iter().map(|argument| std::ptr::from_ref(argument).cast_mut().cast()).collect();
        let (parameters, extra) = (parameters.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: cuda.h declares it so. The driver reads as many parameters as the function has, which `Agent` checks.
        let result = unsafe { launch(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, extra) };
        check("cuLaunchKernel", result)
    }

    fn allocation_properties(device: CUdevice) -> CUmemAllocationProp {
        CUmemAllocationProp {
            kind: CUmemAllocationType(1),
            requestedHandleTypes: CUmemAllocationHandleType(DESCRIPTOR),
            location: CUmemLocation { kind: CUmemLocationType(CUmemLocation::DEVICE), id: device.0 },
            win32HandleMetaData: std::ptr::null_mut(),
            allocFlags: CUmemAllocationFlags::default(),
        }
    }

    /// Allocates memory that can be exported as a descriptor.
    pub fn create_exportable(&self, device: CUdevice, bytes: usize) -> Answer<CUmemGenericAllocationHandle> {
        self.cuMemCreate(bytes, &Self::allocation_properties(device), 0)
    }

    /// Exports an allocation by `cuMemExportToShareableHandle`: returns a file descriptor for it.
    pub fn export_descriptor(&self, handle: CUmemGenericAllocationHandle) -> Answer<OwnedFd> {
        type Share = unsafe extern "C" fn(*mut c_void, CUmemGenericAllocationHandle, i32, u64) -> CUresult;
        let share: Share = self.find("cuMemExportToShareableHandle")?;
        let mut descriptor = -1i32;
        // SAFETY: cuda.h declares it so, and says that what is written for this type is a descriptor.
        let result = unsafe { share((&raw mut descriptor).cast(), handle, DESCRIPTOR, 0) };
        check("cuMemExportToShareableHandle", result)?;
        if descriptor < 0 {
            return Err(refusal("cuMemExportToShareableHandle", "succeeded without a descriptor"));
        }
        // SAFETY: it is new, and the caller's.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// Imports an allocation from a descriptor.
    pub fn import_descriptor(&self, descriptor: BorrowedFd) -> Answer<CUmemGenericAllocationHandle> {
        self.cuMemImportFromShareableHandle(descriptor.as_raw_fd() as usize, DESCRIPTOR)
    }

    /// Lets a device read and write mapped memory.
    pub fn grant_access(&self, device: CUdevice, address: CUdeviceptr, bytes: usize) -> Answer {
        let (location, flags) = (Self::allocation_properties(device).location, CUmemAccess_flags(3));
        self.cuMemSetAccess(address, bytes, &[CUmemAccessDesc { location, flags }], 1)
    }
}
