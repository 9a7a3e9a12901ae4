//! Driver queries: facts that only the driver knows, queried after a call of the program, in the thread that made it.
//!
//! A query never creates a context and never changes anything.

use super::contexts;
use crate::resolve::driver;
use crate::sys::every_call::{DESCRIBED_BY, EVERY_CALL, recording_epoch};
use crate::sys::files::each_name;
use crate::sys::forks::{initialized_before_fork, is_forked, parent_pid_of_fork};
use crate::sys::line::ShortText;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ops::Range;
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_rules::decide::PointerAttributes;
use cupeer_spec::abi::*;
use cupeer_spec::effect::{End, Launchable, Object};
use cupeer_spec::function::{FnId, Group, Library};
use cupeer_spec::record::slot::MOST_ARGS;
use cupeer_spec::record::slot::finding::Confidence;
use cupeer_spec::results::Result;

/// Returns the address of a function of the driver by its name. `place` caches the address: 0 before the first look-up, 1 if the
/// driver lacks the function.
#[inline(always)]
fn find(name: &CStr, place: &AtomicUsize) -> Option<usize> {
    let address = match place.load(Relaxed) {
        0 => driver::look_for(name, place)?,
        known => known,
    };
    (address != 1).then_some(address)
}

/// Declares functions that call the functions of the same names in a library. `$find` returns the address of each. A declared
/// function returns `None` if the library lacks the function.
macro_rules! queries {
    ($find:path; $($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[allow(non_snake_case)]
        pub(super) fn $name($($argument: $type),*) -> Option<core::ffi::c_int> {
            static ADDRESS: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
            let name = const {
                core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes())
            };
            let address = $find(name.ok()?, &ADDRESS)?;
            // SAFETY: the address of the function of this name, which has this type.
            let function = unsafe {
                core::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> core::ffi::c_int>(address)
            };
            // SAFETY: the pointers are to variables of our own, with the size that the function writes.
            Some(unsafe { function($($argument),*) })
        }
    )*};
}
pub(crate) use queries;
queries! {
    find;
    cuCtxGetCurrent(context: *mut *mut c_void);
    cuCtxGetDevice(device: *mut c_int);
    cuCtxGetDevice_v2(device: *mut c_int, context: *mut c_void);
    cuCtxPushCurrent_v2(context: *mut c_void);
    cuCtxPopCurrent_v2(context: *mut *mut c_void);
    cuDevicePrimaryCtxGetState(device: c_int, flags: *mut u32, active: *mut c_int);
    cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int);
    cuDevicePrimaryCtxRelease_v2(device: c_int);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut c_int, ordinal: c_int);
    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int);
    cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int);
    cuDeviceGetPCIBusId(text: *mut c_char, length: c_int, device: c_int);
    cuDeviceGetName(text: *mut c_char, length: c_int, device: c_int);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int);
    cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int);
    cuPointerGetAttributes(count: u32, attributes: *const c_int, data: *const *mut c_void, address: u64);
    cuMemRetainAllocationHandle(handle: *mut u64, address: u64);
    cuMemGetAllocationPropertiesFromHandle(properties: *mut CUmemAllocationProp, handle: u64);
    cuMemRelease(handle: u64);
    cuMemGetAccess(flags: *mut u64, location: *const CUmemLocation, address: u64);
    cuDeviceGetDefaultMemPool(pool: *mut u64, device: c_int);
    cuThreadExchangeStreamCaptureMode(mode: *mut c_int);
    cuFuncGetParamInfo(function: u64, index: usize, offset: *mut usize, size: *mut usize);
    cuKernelGetParamInfo(kernel: u64, index: usize, offset: *mut usize, size: *mut usize);
    cuFuncGetName(name: *mut *const c_char, function: u64);
    cuKernelGetName(name: *mut *const c_char, kernel: u64);
    cuModuleGetFunctionCount(count: *mut u32, module: u64);
    cuLibraryGetKernelCount(count: *mut u32, library: u64);
    cuEventQuery(event: u64);
    cuStreamGetCtx(stream: u64, context: *mut *mut c_void);
    cuStreamGetFlags(stream: u64, flags: *mut u32);
    cuStreamIsCapturing(stream: u64, status: *mut c_int);
    cuGraphGetNodes(graph: u64, nodes: *mut u64, count: *mut usize);
    cuGraphNodeGetType(node: u64, kind: *mut CUgraphNodeType);
    cuGraphMemcpyNodeGetParams(node: u64, parameters: *mut CUDA_MEMCPY3D_v2);
    cuGraphMemsetNodeGetParams(node: u64, parameters: *mut CUDA_MEMSET_NODE_PARAMS);
    cuGraphKernelNodeGetParams(node: u64, parameters: *mut CUDA_KERNEL_NODE_PARAMS);
    cuGraphKernelNodeGetParams_v2(node: u64, parameters: *mut CUDA_KERNEL_NODE_PARAMS);
    cuGraphMemAllocNodeGetParams(node: u64, parameters: *mut CUDA_MEM_ALLOC_NODE_PARAMS);
    cuGraphChildGraphNodeGetGraph(node: u64, graph: *mut u64);
}

pub fn context() -> u64 {
    current_context().1
}

/// Returns the result of the query for the current context, and the context.
#[inline]
pub fn current_context() -> (i32, u64) {
    let mut context = core::ptr::null_mut();
    let result = cuCtxGetCurrent(&mut context).unwrap_or(-1);
    (result, if result == 0 { context as u64 } else { 0 })
}

/// Returns true if the current context was destroyed. Only a query that fails then can show that: call this only if the driver returned
/// that one of two contexts is destroyed.
pub fn is_current_destroyed() -> bool {
    let (mut free, mut total) = (0, 0);
    cuMemGetInfo_v2(&mut free, &mut total) == Some(Result::CONTEXT_IS_DESTROYED as i32)
}

/// Returns the UUID of a device, and its PCI address as a text that ends in NUL, empty if it is not known.
pub fn uuid_and_pci_address(device: i32) -> (Option<[u8; 16]>, [u8; 32]) {
    let (mut uuid, mut pci) = ([0; 16], [0u8; 32]);
    let has_uuid = match cuDeviceGetUuid_v2(&mut uuid, device) {
        None => cuDeviceGetUuid(&mut uuid, device) == Some(0),
        result => result == Some(0),
    };
    cuDeviceGetPCIBusId(pci.as_mut_ptr().cast(), pci.len() as c_int - 1, device);
    (has_uuid.then_some(uuid), pci)
}

/// Returns the number of devices that this process sees.
pub fn device_count() -> Option<i32> {
    let mut count = 0;
    (cuDeviceGetCount(&mut count) == Some(0)).then_some(count)
}

/// Returns the ordinals of the devices that this process sees, at most [`MOST_DEVICES`].
pub(super) fn devices() -> Option<Range<i32>> {
    Some(0..device_count()?.min(MOST_DEVICES))
}

/// Returns true if a device can access a peer; `None` if one is invalid, or the driver returns an error.
pub fn can_access(device: i32, peer: i32) -> Option<bool> {
    let mut can = 0;
    let known = device >= 0 && peer >= 0 && device != peer;
    (known && cuDeviceCanAccessPeer(&mut can, device, peer) == Some(0)).then_some(can != 0)
}

/// Returns true if a device supports multicast; `None` if it is invalid, or the driver returns an error.
pub fn has_multicast(device: i32) -> Option<bool> {
    let mut has = 0;
    let attribute = CUdevice_attribute::MULTICAST_SUPPORTED.0;
    (cuDeviceGetAttribute(&mut has, attribute, device) == Some(0)).then_some(has != 0)
}

/// Returns the pid of the process that initialized the driver before this process was forked from it, and how certain
/// that is; the pid is `None` if it is unknown. Returns `None` if the driver was not initialized before a fork.
pub fn was_initialized_before_fork() -> Option<(Option<u32>, Confidence)> {
    if let Some(parent) = initialized_before_fork(recording_epoch()) {
        return Some(((parent != 0).then_some(parent), Confidence::Certain));
    }
    has_device_of_parent().then(|| (parent_pid_of_fork(), Confidence::Inferred))
}

/// Returns true if this process was forked and has a device open, probably from its parent: NVML opens devices as well.
pub fn has_device_of_parent() -> bool {
    is_forked() && has_device_open()
}

/// Returns true if the process has a device node open, or the file that represents one in the simulated driver.
fn has_device_open() -> bool {
    let mut found = false;
    each_name(c"/proc/self/fd", |name| {
        let path = ShortText::<32>::new(format_args!("/proc/self/fd/{name}\0"));
        let mut target = [0u8; 16];
        let path = path.c_text().unwrap_or_default();
        // SAFETY: the path ends in NUL, and the kernel writes at most that many bytes.
        let length = unsafe { libc::readlink(path.as_ptr(), target.as_mut_ptr().cast(), target.len()) };
        let target = &target[..length.max(0) as usize];
        found = target.starts_with(b"/dev/nvidia") || target.starts_with(b"/memfd:nvidia");
        found
    });
    found
}

/// Returns the values of attributes of an address, by the numbers of the attributes. The driver writes each value in
/// its own width; the other bytes are zero.
pub(super) fn attributes<const N: usize>(wanted: [c_int; N], address: u64) -> Option<[u64; N]> {
    let mut values = [0u64; N];
    let places = values.each_mut().map(|value| core::ptr::from_mut(value).cast::<c_void>());
    let result = cuPointerGetAttributes(N as u32, wanted.as_ptr(), places.as_ptr(), address)?;
    (result == 0).then_some(values)
}

/// Memory type of device memory: `CU_MEMORYTYPE_DEVICE`.
pub(super) const DEVICE_MEMORY: u64 = 2;

/// Returns the properties of a pointer, which may be invalid. `None` if the driver returns an error.
pub fn query_pointer(address: u64) -> Option<PointerAttributes> {
    // CU_POINTER_ATTRIBUTE_ MEMORY_TYPE, IS_MANAGED, IS_LEGACY_CUDA_IPC_CAPABLE, MEMPOOL_HANDLE, CONTEXT and
    // ALLOWED_HANDLE_TYPES.
    let [memory_type, managed, exportable, pool, context, handle_types] = attributes([2, 8, 10, 17, 1, 14], address)?;
    Some(PointerAttributes {
        is_known: memory_type != 0,
        is_device: memory_type == DEVICE_MEMORY,
        is_managed: managed & 0xff != 0,
        is_exportable: exportable & 0xff != 0,
        pool,
        context,
        handle_types,
    })
}

/// Runs driver queries so that they do not end the capture of a stream. The driver considers some queries unsafe
/// during a capture: they would end a capture of this thread or of another one. So the queries run in the relaxed mode
/// of cuda.h, which prohibits only calls that conflict with a capture in any case. Of the queries here, only those
/// about a stream or an event that the driver just refused can be about a captured one. If the driver does not change
/// the mode, as in a host function, runs no query and returns `None`.
pub fn run_in_relaxed_mode<R>(ask: impl FnOnce() -> Option<R>) -> Option<R> {
    /// CU_STREAM_CAPTURE_MODE_RELAXED.
    const RELAXED: c_int = 2;
    let mut mode = RELAXED;
    if cuThreadExchangeStreamCaptureMode(&mut mode) != Some(0) {
        return None;
    }
    let answer = ask();
    cuThreadExchangeStreamCaptureMode(&mut mode);
    answer
}

/// Returns the range of the allocation at an address; `Some(None)` if the driver knows no memory there, and `None` if it returns an error. The
/// query accepts any number: cuda.h says that the attributes of an unknown address are null, and that this is not an error.
pub fn allocation_range_at(address: u64) -> Option<Option<Range<u64>>> {
    // CU_POINTER_ATTRIBUTE_ MEMORY_TYPE, RANGE_START_ADDR and RANGE_SIZE.
    let [memory_type, start, size] = run_in_relaxed_mode(|| attributes([2, 11, 12], address))?;
    Some((memory_type != 0).then(|| start..start.saturating_add(size)))
}

/// Returns the access flags (`CUmemAccess_flags`) that a device has for the memory at an address.
pub fn access_flags(address: u64, device: i32) -> Option<u64> {
    let (location, mut flags) = (CUmemLocation { kind: CUmemLocationType(CUmemLocation::DEVICE), id: device }, 0);
    let result = run_in_relaxed_mode(|| cuMemGetAccess(&mut flags, &location, address))?;
    (result == 0 && location.id >= 0).then_some(flags)
}

/// Location of a parameter of a kernel.
pub enum Parameter {
    /// Offset of the parameter in the parameters of its kernel, and size of the parameter, both in bytes.
    At(usize, usize),
    /// The kernel has no parameter with this index.
    None,
    /// The driver returns an error.
    Unknown,
}

/// Returns the location of a parameter of a kernel. `kind` is the kind of the handle: see `super::kernels`.
pub fn parameter(handle: u64, kind: Launchable, index: usize) -> Parameter {
    let (mut offset, mut size) = (0, 0);
    let result = match kind {
        Launchable::Function => cuFuncGetParamInfo(handle, index, &mut offset, &mut size),
        Launchable::Kernel => cuKernelGetParamInfo(handle, index, &mut offset, &mut size),
    };
    match result {
        Some(0) => Parameter::At(offset, size),
        Some(result) if result == Result::INVALID_VALUE as c_int => Parameter::None,
        _ => Parameter::Unknown,
    }
}

/// Returns the name of a kernel.
pub fn kernel_name(handle: u64, kind: Launchable) -> Option<*const c_char> {
    let mut name = core::ptr::null();
    let result = match kind {
        Launchable::Function => cuFuncGetName(&mut name, handle),
        Launchable::Kernel => cuKernelGetName(&mut name, handle),
    };
    (result == Some(0) && !name.is_null()).then_some(name)
}

/// Returns the number of functions of a module, or of kernels of a library.
pub fn kernel_count(owner: u64, kind: Launchable) -> Option<u32> {
    let mut count = 0;
    let result = match kind {
        Launchable::Function => cuModuleGetFunctionCount(&mut count, owner),
        Launchable::Kernel => cuLibraryGetKernelCount(&mut count, owner),
    };
    (result == Some(0)).then_some(count)
}

/// Returns the device of the current context, or -1. Without a context, makes no query: the driver would log the error.
pub fn device_of_current_context() -> i32 {
    let mut device = -1;
    if context() != 0 && cuCtxGetDevice(&mut device) == Some(0) { device } else { -1 }
}

/// Returns the ordinal of the device of a context that the driver just accepted; -1 if the query fails.
pub fn device_of(context: u64) -> i32 {
    let context = context as *mut c_void;
    let mut device = -1;
    match cuCtxGetDevice_v2(&mut device, context) {
        Some(0) => return device,
        Some(_) => return -1,
        // Drivers before CUDA 13 lack the function.
        None => {}
    }
    if cuCtxPushCurrent_v2(context) != Some(0) {
        return -1;
    }
    let device = self::device_of_current_context();
    let mut popped = core::ptr::null_mut();
    cuCtxPopCurrent_v2(&mut popped);
    device
}

/// Returns the device of a known context; `None` for each other number, because a query about it could crash the driver.
pub fn device_of_known_context(context: u64) -> Option<i32> {
    if let created @ Some(_) = contexts::device_of_created(context) {
        return created;
    }
    devices()?.find(|device| context != 0 && retain_primary_briefly(*device) == Some(context))
}

/// Returns true if the primary context of a device is active.
pub fn is_primary_active(device: i32) -> bool {
    let (mut flags, mut active) = (0, 0);
    cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) == Some(0) && active != 0
}

/// Returns the first device of this process whose primary context is active.
pub fn device_with_active_primary() -> Option<i32> {
    devices()?.find(|device| is_primary_active(*device))
}

/// Returns the devices on which the process has contexts, one bit for each ordinal, if there are several devices and the bits
/// differ from the last result. Only the first, second, fourth, eighth (and so on) call queries the driver: ranks that do the
/// same work all call at the same place.
pub(super) fn changed_devices() -> Option<u64> {
    static RECORD: AtomicU64 = AtomicU64::new(0);
    static CALLS: AtomicU64 = AtomicU64::new(0);
    static LAST: AtomicU64 = AtomicU64::new(0);
    let epoch = recording_epoch();
    if RECORD.swap(epoch, Relaxed) != epoch {
        CALLS.store(0, Relaxed);
        LAST.store(0, Relaxed);
    }
    if !(CALLS.fetch_add(1, Relaxed) + 1).is_power_of_two() {
        return None;
    }
    let all = devices_with_contexts()?;
    (all.count_ones() > 1 && LAST.swap(all, Relaxed) != all).then_some(all)
}

/// Returns the devices on which the process has primary or other contexts, one bit for each ordinal.
pub fn devices_with_contexts() -> Option<u64> {
    let active = devices()?.filter(|device| is_primary_active(*device));
    Some(active.fold(contexts::devices_of_created(), |all, device| all | 1 << device))
}

/// Returns the primary context of a device, if it is active. Retains and releases the context, which changes nothing while it is
/// active.
fn retain_primary_briefly(device: i32) -> Option<u64> {
    let mut context = core::ptr::null_mut();
    if !is_primary_active(device) || cuDevicePrimaryCtxRetain(&mut context, device) != Some(0) {
        return None;
    }
    cuDevicePrimaryCtxRelease_v2(device);
    Some(context as u64)
}

/// Returns the context that a call is about to end; 0 if the call ends none, or the context is not known. Runs before the call,
/// because drivers crash on queries about a context that ended.
pub fn context_to_be_ended(id: FnId, args: &[u8; MOST_ARGS]) -> u64 {
    match id.spec().ended_context() {
        Some(end) if end.object == Object::Primary => {
            let device = numeric_argument(id, args, end.by) as i32;
            contexts::primary_context(device, || retain_primary_briefly(device)).unwrap_or(0)
        }
        Some(end) => numeric_argument(id, args, end.by),
        None => 0,
    }
}

/// Returns true if a call that succeeded ended `context`, which was known before the call.
pub(super) fn has_ended(end: End, device: i32, context: u64) -> bool {
    match end.object {
        _ if !end.is_counted => true,
        // Other references may keep the primary context active.
        Object::Primary => !is_primary_active(device),
        // The last release removes the context from the thread, or leaves it current there as a destroyed context.
        _ => self::context() != context || is_current_destroyed(),
    }
}

/// Properties of an allocation of device memory that the driver returned.
#[derive(Clone, Copy)]
pub(super) struct Allocation {
    /// Start address and size in bytes.
    pub(super) range: (u64, u64),
    /// Context that the allocation belongs to; 0 for none.
    pub(super) context: u64,
    /// Ordinal of the device that the allocation is on.
    pub(super) device: i32,
}

/// Returns the ordinal of the device of device memory, and the context of the memory (0 for memory of a pool). Works also while a
/// stream is captured.
pub fn device_and_context_of_memory(address: u64) -> Option<(i32, u64)> {
    // CU_POINTER_ATTRIBUTE_ MEMORY_TYPE, DEVICE_ORDINAL and CONTEXT.
    let [memory_type, device, context] = run_in_relaxed_mode(|| attributes([2, 9, 1], address))?;
    (memory_type == DEVICE_MEMORY).then_some((device as i32, context))
}

/// Returns the device of the current context, and its free and total memory in bytes. `None` if there is no context.
pub fn free_memory() -> Option<(i32, [u64; 2])> {
    let device = Some(device_of_current_context()).filter(|device| *device >= 0)?;
    let (mut free, mut total) = (0, 0);
    let result = run_in_relaxed_mode(|| cuMemGetInfo_v2(&mut free, &mut total));
    (result == Some(0)).then_some((device, [free as u64, total as u64]))
}

/// Returns the allocation that contains an address. This query works in any context: cuMemGetAddressRange fails for memory of another one.
pub(super) fn allocation(address: u64) -> Option<Allocation> {
    // CU_POINTER_ATTRIBUTE_ RANGE_START_ADDR, RANGE_SIZE, CONTEXT and DEVICE_ORDINAL. For an unknown address, the driver does not
    // write the range.
    let [base, size, context, device] = attributes([11, 12, 1, 9], address)?;
    (size != 0).then_some(Allocation { range: (base, size), context, device: device as i32 })
}

/// Returns the range of the mapping at an address; `None` if there is no mapping, or the mapping is not of device memory.
pub fn mapping(address: u64) -> Option<Range<u64>> {
    // CU_POINTER_ATTRIBUTE_ MAPPING_SIZE, MAPPING_BASE_ADDR and MEMORY_TYPE.
    let [size, start, memory_type] = attributes([18, 19, 2], address)?;
    let is_mapped = memory_type == DEVICE_MEMORY && size != 0;
    is_mapped.then(|| start..start.saturating_add(size))
}

/// Returns the handle of the allocation that is mapped at an address, and its device, which is negative if this process does not see it.
/// Retains and releases the handle, which changes nothing.
pub fn mapped_allocation(address: u64) -> Option<(u64, i32)> {
    let mut handle = 0;
    if cuMemRetainAllocationHandle(&mut handle, address) != Some(0) {
        return None;
    }
    let device = device_of_allocation(handle);
    cuMemRelease(handle);
    Some((handle, device?))
}

/// Returns the device of an allocation of virtual memory; `None` if the allocation is not on a device.
pub(super) fn device_of_allocation(handle: u64) -> Option<i32> {
    let mut properties = MaybeUninit::<CUmemAllocationProp>::zeroed();
    let result = cuMemGetAllocationPropertiesFromHandle(properties.as_mut_ptr(), handle);
    // SAFETY: numbers and a pointer that is not followed, for which zeros are valid.
    let place = unsafe { properties.assume_init() }.location;
    (result == Some(0) && place.kind.0 == CUmemLocation::DEVICE).then_some(place.id)
}

/// Returns the default pool of a device.
pub fn default_pool(device: i32) -> Option<u64> {
    let mut pool = 0;
    (cuDeviceGetDefaultMemPool(&mut pool, device) == Some(0)).then_some(pool)
}

/// Reads 8 bytes at the offset `at` of the stored arguments of a call; 0 if they end before.
pub fn stored_word(args: &[u8; MOST_ARGS], at: usize) -> u64 {
    args.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Returns the size of the allocation that contains an address.
pub fn size_of(address: u64) -> Option<u64> {
    allocation(address).map(|known| known.range.1)
}

/// Reads a numeric argument of a call by the index of the argument.
pub fn numeric_argument(id: FnId, args: &[u8; MOST_ARGS], argument: usize) -> u64 {
    let bytes = args.get(id.spec().argument_byte_range(argument)).filter(|bytes| bytes.len() <= 8).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns the ordinal of a device by its UUID; `None` if this process does not see the device, or its devices are not described
/// yet.
pub fn ordinal(uuid: [u8; 16]) -> Option<i32> {
    (0..MOST_DEVICES).find(|ordinal| uuid != [0; 16] && self::uuid(*ordinal) == uuid)
}

/// UUIDs of the first devices of this process, each in two words, for the live table.
static UUIDS: [[AtomicU64; 2]; MOST_DEVICES as usize] =
    [const { [AtomicU64::new(0), AtomicU64::new(0)] }; MOST_DEVICES as usize];

/// Number of devices of a process whose UUIDs are stored: the first ones.
pub const MOST_DEVICES: i32 = 64;

/// Returns the UUID of a device; zero if it is unknown.
pub fn uuid(ordinal: i32) -> [u8; 16] {
    let Some([low, high]) = usize::try_from(ordinal).ok().and_then(|ordinal| UUIDS.get(ordinal)) else {
        return [0; 16];
    };
    (u128::from(high.load(Relaxed)) << 64 | u128::from(low.load(Relaxed))).to_le_bytes()
}

/// Returns true if the devices of this process were described to the record.
#[inline(always)]
pub fn has_described_devices() -> bool {
    EVERY_CALL.described.load(Relaxed) == recording_epoch()
}

/// Description of the driver, or of a device of this process; its texts end in NUL.
pub enum Description<'a> {
    Driver(i32),
    Device { ordinal: i32, uuid: &'a [u8; 16], pci: &'a [u8], name: &'a [u8] },
}

/// Returns true if the driver accepts queries about devices after a call: the call succeeded, or failed although the driver is
/// initialized.
pub fn accepts_device_queries(id: FnId, result: i32) -> bool {
    let is_suitable = id.spec().library == Library::Cuda && !id.spec().is_in(Group::Lookup);
    let is_uninitialized = || [Result::NOT_INITIALIZED, Result::DEINITIALIZED].iter().any(|off| *off as i32 == result);
    is_suitable && (result == 0 || !is_uninitialized() && !has_described_devices() && current_context().0 == 0)
}

/// Describes the driver and the devices of this process, once, to `tell`. Runs after a call that succeeded, so the driver is
/// initialized.
pub fn describe_devices(tell: fn(Description)) {
    let epoch = recording_epoch();
    if EVERY_CALL.described.load(Acquire) == epoch || EVERY_CALL.described.swap(epoch, Release) == epoch {
        return;
    }
    DESCRIBED_BY.store(std::process::id(), Relaxed);
    let (mut version, mut count) = (0, 0);
    if cuDriverGetVersion(&mut version) == Some(0) {
        tell(Description::Driver(version));
    }
    if cuDeviceGetCount(&mut count) != Some(0) {
        return;
    }
    for ordinal in 0..count.min(1024) {
        let (mut device, mut name) = (0, [0u8; 128]);
        if cuDeviceGet(&mut device, ordinal) != Some(0) {
            continue;
        }
        let (uuid, pci) = uuid_and_pci_address(device);
        let uuid = uuid.unwrap_or_default();
        cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int - 1, device);
        if let Some([low, high]) = UUIDS.get(ordinal as usize) {
            let both = u128::from_le_bytes(uuid);
            low.store(both as u64, Relaxed);
            high.store((both >> 64) as u64, Relaxed);
        }
        tell(Description::Device { ordinal, uuid: &uuid, pci: &pci, name: &name });
    }
}
