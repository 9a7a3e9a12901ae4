//! Driver queries: facts that only the driver knows, queried after a call of the program, in the thread that made it.
//!
//! A query never creates a context and never changes anything.

use super::contexts;
use crate::resolve::driver;
use crate::sys::every_call::{DESCRIBED_BY, EVERY_CALL, epoch};
use crate::sys::files::each_name;
use crate::sys::forks::{forked_from, initialized_before_fork, is_forked};
use crate::sys::line::Short;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ops::Range;
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_rules::decide::Pointer;
use cupeer_spec::abi::*;
use cupeer_spec::effect::{End, Launchable, Object};
use cupeer_spec::function::{FnId, Group, Library};
use cupeer_spec::record::slot::MOST_ARGS;
use cupeer_spec::record::slot::finding::Confidence;
use cupeer_spec::results::Result;

/// The driver's function of a name, and the place where its address is kept: 0 not looked for, 1 not there.
#[inline(always)]
fn find(name: &CStr, place: &AtomicUsize) -> Option<usize> {
    let address = match place.load(Relaxed) {
        0 => driver::look_for(name, place)?,
        known => known,
    };
    (address != 1).then_some(address)
}

/// Declares a function that calls the driver's of that name, where it has one.
macro_rules! questions {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[allow(non_snake_case)]
        pub(super) fn $name($($argument: $type),*) -> Option<c_int> {
            static ADDRESS: AtomicUsize = AtomicUsize::new(0);
            let name = const { CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) };
            let address = find(name.ok()?, &ADDRESS)?;
            // SAFETY: the address of the driver's function of this name, which has this type.
            let function = unsafe {
                core::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> c_int>(address)
            };
            // SAFETY: the pointers are to variables of our own, of the size that the function writes.
            Some(unsafe { function($($argument),*) })
        }
    )*};
}
questions! {
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
    current().1
}

/// What the driver says about the current context, and the context.
#[inline]
pub fn current() -> (i32, u64) {
    let mut context = core::ptr::null_mut();
    let result = cuCtxGetCurrent(&mut context).unwrap_or(-1);
    (result, if result == 0 { context as u64 } else { 0 })
}

/// Whether the current context has been destroyed. The only questions that tell are those that fail then; for when the
/// driver has said of one of two contexts that it is.
pub fn is_current_destroyed() -> bool {
    let (mut free, mut total) = (0, 0);
    cuMemGetInfo_v2(&mut free, &mut total) == Some(Result::CONTEXT_IS_DESTROYED as i32)
}

/// What names a device: its UUID, and its PCI address as a text that ends in NUL, which is empty where it is not known.
pub fn identity(device: i32) -> (Option<[u8; 16]>, [u8; 32]) {
    let (mut uuid, mut pci) = ([0; 16], [0u8; 32]);
    let has_uuid = match cuDeviceGetUuid_v2(&mut uuid, device) {
        None => cuDeviceGetUuid(&mut uuid, device) == Some(0),
        result => result == Some(0),
    };
    cuDeviceGetPCIBusId(pci.as_mut_ptr().cast(), pci.len() as c_int - 1, device);
    (has_uuid.then_some(uuid), pci)
}

/// How many devices this process sees.
pub fn device_count() -> Option<i32> {
    let mut count = 0;
    (cuDeviceGetCount(&mut count) == Some(0)).then_some(count)
}

/// Whether a device can reach another one; `None` where one is invalid, or the driver does not say.
pub fn can_access(device: i32, peer: i32) -> Option<bool> {
    let mut can = 0;
    let known = device >= 0 && peer >= 0 && device != peer;
    (known && cuDeviceCanAccessPeer(&mut can, device, peer) == Some(0)).then_some(can != 0)
}

/// Whether a device has multicast; `None` where it is invalid, or the driver does not say.
pub fn has_multicast(device: i32) -> Option<bool> {
    let mut has = 0;
    let attribute = CUdevice_attribute::MULTICAST_SUPPORTED.0;
    (cuDeviceGetAttribute(&mut has, attribute, device) == Some(0)).then_some(has != 0)
}

/// Whether this process was forked from one that had initialised the driver: which one, where that is known, and how
/// sure it is.
pub fn was_initialized_before_fork() -> Option<(Option<u32>, Confidence)> {
    if let Some(parent) = initialized_before_fork(epoch()) {
        return Some(((parent != 0).then_some(parent), Confidence::Certain));
    }
    has_device_of_parent().then(|| (forked_from(), Confidence::Inferred))
}

/// Whether this process was forked and has a device open, probably from its parent: NVML opens these as well.
pub fn has_device_of_parent() -> bool {
    is_forked() && has_device_open()
}

/// Whether the process has a device node open, or what stands for these in the simulated driver.
fn has_device_open() -> bool {
    let mut found = false;
    each_name(c"/proc/self/fd", |name| {
        let path = Short::<32>::new(format_args!("/proc/self/fd/{name}\0"));
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

/// Attributes of a pointer. Each is written in its own width, of which the rest stays zero.
pub(super) fn attributes<const N: usize>(wanted: [c_int; N], address: u64) -> Option<[u64; N]> {
    let mut values = [0u64; N];
    let places = values.each_mut().map(|value| core::ptr::from_mut(value).cast::<c_void>());
    let result = cuPointerGetAttributes(N as u32, wanted.as_ptr(), places.as_ptr(), address)?;
    (result == 0).then_some(values)
}

/// CU_MEMORYTYPE_DEVICE.
pub(super) const DEVICE_MEMORY: u64 = 2;

/// Asks about a pointer, which may be none. `None` where the driver does not say.
pub fn pointer(address: u64) -> Option<Pointer> {
    // CU_POINTER_ATTRIBUTE_ MEMORY_TYPE, IS_MANAGED, IS_LEGACY_CUDA_IPC_CAPABLE, MEMPOOL_HANDLE, CONTEXT and
    // ALLOWED_HANDLE_TYPES.
    let [memory_type, managed, exportable, pool, context, handle_types] =
        attributes([2, 8, 10, 17, 1, 14], address)?;
    Some(Pointer {
        is_known: memory_type != 0,
        is_device: memory_type == DEVICE_MEMORY,
        is_managed: managed & 0xff != 0,
        is_exportable: exportable & 0xff != 0,
        pool,
        context,
        handle_types,
    })
}

/// Asks what programs ask while a stream is captured as well. Of the queries that the driver takes for unsafe then, one would end the
/// capture of this thread, or of another one. cuda.h says how a library avoids that: the thread is in the relaxed mode
/// meanwhile, which prohibits only what conflicts with a capture in any case. Of the queries here, only those about a stream or an event
/// that the driver has just refused can be about one that is captured. The mode is the thread's own. If the driver does not change it, as in a host function, nothing is asked.
pub fn relaxed<R>(ask: impl FnOnce() -> Option<R>) -> Option<R> {
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

/// The allocation at an address, which begins at that address and has so many bytes; `Some(None)` if the driver knows no memory
/// there, and `None` if it does not answer. The query takes any number for an address: cuda.h says that the attributes of one
/// that the driver does not know are null, and that this is no error.
pub fn memory_at(address: u64) -> Option<Option<Range<u64>>> {
    // CU_POINTER_ATTRIBUTE_ MEMORY_TYPE, RANGE_START_ADDR and RANGE_SIZE.
    let [memory_type, start, size] = relaxed(|| attributes([2, 11, 12], address))?;
    Some((memory_type != 0).then(|| start..start.saturating_add(size)))
}

/// The access that a device has to what is mapped at an address, as CUmemAccess_flags. For addresses where something is mapped.
pub fn access(address: u64, device: i32) -> Option<u64> {
    let (location, mut flags) =
        (CUmemLocation { kind: CUmemLocationType(CUmemLocation::DEVICE), id: device }, 0);
    let result = relaxed(|| cuMemGetAccess(&mut flags, &location, address))?;
    (result == 0 && location.id >= 0).then_some(flags)
}

/// A parameter of a kernel.
pub enum Parameter {
    /// Its offset among all of them, and its size.
    At(usize, usize),
    /// The kernel has fewer.
    None,
    /// The driver does not say.
    Unknown,
}

/// Where a parameter of a kernel is, by a handle of that kind: see `super::kernels`.
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

/// The name of a kernel, by a handle of that kind.
pub fn kernel_name(handle: u64, kind: Launchable) -> Option<*const c_char> {
    let mut name = core::ptr::null();
    let result = match kind {
        Launchable::Function => cuFuncGetName(&mut name, handle),
        Launchable::Kernel => cuKernelGetName(&mut name, handle),
    };
    (result == Some(0) && !name.is_null()).then_some(name)
}

/// How many functions a module has, or how many kernels a library.
pub fn kernel_count(of: u64, kind: Launchable) -> Option<u32> {
    let mut count = 0;
    let result = match kind {
        Launchable::Function => cuModuleGetFunctionCount(&mut count, of),
        Launchable::Kernel => cuLibraryGetKernelCount(&mut count, of),
    };
    (result == Some(0)).then_some(count)
}

/// What a node of a graph does.
pub enum GraphNode {
    Copy(CUDA_MEMCPY3D_v2),
    Fill(CUDA_MEMSET_NODE_PARAMS),
    Kernel(CUDA_KERNEL_NODE_PARAMS),
    /// Runs a graph of its own.
    Graph(u64),
    /// Allocates so many bytes at an address, which it knows before it runs.
    Allocation(u64, u64),
    Empty,
    /// Something else, or the driver does not say.
    Other,
}

/// Writes the nodes of a graph, as many as there is room for. Returns their number.
pub fn nodes_of(graph: u64, nodes: &mut [u64]) -> Option<usize> {
    let mut count = nodes.len();
    let is_known = count != 0 && cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count) == Some(0);
    is_known.then(|| count.min(nodes.len()))
}

/// Asks about a node that the driver has returned.
pub fn graph_node(node: u64) -> GraphNode {
    /// What the driver writes of a node, where it does.
    fn read<T>(ask: impl FnOnce(*mut T) -> Option<c_int>, node: impl FnOnce(T) -> GraphNode) -> GraphNode {
        let mut place = MaybeUninit::zeroed();
        match ask(place.as_mut_ptr()) {
            // SAFETY: these are plain structures, of which all zeros are values, and the driver has written what it knows.
            Some(0) => node(unsafe { place.assume_init() }),
            _ => GraphNode::Other,
        }
    }
    let mut kind = CUgraphNodeType(-1);
    if cuGraphNodeGetType(node, &mut kind) != Some(0) {
        return GraphNode::Other;
    }
    match kind {
        CUgraphNodeType::MEMCPY => read(|place| cuGraphMemcpyNodeGetParams(node, place), GraphNode::Copy),
        CUgraphNodeType::MEMSET => read(|place| cuGraphMemsetNodeGetParams(node, place), GraphNode::Fill),
        CUgraphNodeType::KERNEL => {
            let older = |place| cuGraphKernelNodeGetParams(node, place);
            let ask = |place| cuGraphKernelNodeGetParams_v2(node, place).or_else(|| older(place));
            read(ask, GraphNode::Kernel)
        }
        CUgraphNodeType::GRAPH => read(|place| cuGraphChildGraphNodeGetGraph(node, place), GraphNode::Graph),
        CUgraphNodeType::MEM_ALLOC => read(
            |place| cuGraphMemAllocNodeGetParams(node, place),
            |it: CUDA_MEM_ALLOC_NODE_PARAMS| GraphNode::Allocation(it.dptr.0, it.bytesize as u64),
        ),
        CUgraphNodeType::EMPTY => GraphNode::Empty,
        _ => GraphNode::Other,
    }
}

/// The device of the current context, or -1. Where there is none, the driver is not asked: it would say so in its log.
pub fn device() -> i32 {
    let mut device = -1;
    if context() != 0 && cuCtxGetDevice(&mut device) == Some(0) { device } else { -1 }
}

/// The device of a context that a driver has just taken for one, or -1.
pub fn device_of(context: u64) -> i32 {
    let context = context as *mut c_void;
    let mut device = -1;
    match cuCtxGetDevice_v2(&mut device, context) {
        Some(0) => return device,
        Some(_) => return -1,
        // Before CUDA 13.
        None => {}
    }
    if cuCtxPushCurrent_v2(context) != Some(0) {
        return -1;
    }
    let device = self::device();
    let mut popped = core::ptr::null_mut();
    cuCtxPopCurrent_v2(&mut popped);
    device
}

/// The device of a context that need not be one, about which the driver must not be asked then.
pub fn known_device(context: u64) -> Option<i32> {
    if let created @ Some(_) = contexts::device_of_created(context) {
        return created;
    }
    (0..device_count()?.min(MOST_DEVICES)).find(|device| context != 0 && primary(*device) == Some(context))
}

/// Whether the primary context of a device is there.
pub fn is_primary_active(device: i32) -> bool {
    let (mut flags, mut active) = (0, 0);
    cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) == Some(0) && active != 0
}

/// The first device of this process whose primary context is there.
pub fn device_with_primary() -> Option<i32> {
    (0..device_count()?.min(MOST_DEVICES)).find(|device| is_primary_active(*device))
}

/// The devices on which the process has contexts, primary or not, as bits, if these are several, and others than the last time. Only the first,
/// second, fourth, eighth call that shares asks: of ranks that do the same, all ask at the same place.
pub(super) fn several_devices() -> Option<u64> {
    static RECORD: AtomicU64 = AtomicU64::new(0);
    static CALLS: AtomicU64 = AtomicU64::new(0);
    static LAST: AtomicU64 = AtomicU64::new(0);
    let epoch = epoch();
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

/// The devices on which the process has contexts, primary or not, as bits.
pub fn devices_with_contexts() -> Option<u64> {
    let devices = (0..device_count()?.min(MOST_DEVICES)).filter(|device| is_primary_active(*device));
    Some(devices.fold(contexts::devices_of_created(), |all, device| all | 1 << device))
}

/// The primary context of a device, where it is there: retained and released again, which changes nothing then.
fn primary(device: i32) -> Option<u64> {
    let mut context = core::ptr::null_mut();
    if !is_primary_active(device) || cuDevicePrimaryCtxRetain(&mut context, device) != Some(0) {
        return None;
    }
    cuDevicePrimaryCtxRelease_v2(device);
    Some(context as u64)
}

/// The context that a call is about to end, if it ends one; 0 where that is not known. Asked before the call: nothing
/// may be asked about a context that is gone, drivers crash.
pub fn to_be_ended(id: FnId, args: &[u8; MOST_ARGS]) -> u64 {
    match id.spec().ends_context() {
        Some(end) if end.object == Object::Primary => {
            let device = number(id, args, end.by) as i32;
            contexts::primary(device, || primary(device)).unwrap_or(0)
        }
        Some(end) => number(id, args, end.by),
        None => 0,
    }
}

/// Whether a call has ended that context, which was known before it, after it has succeeded.
pub(super) fn has_ended(end: End, device: i32, context: u64) -> bool {
    match end.object {
        _ if !end.is_counted => true,
        // Others may hold it.
        Object::Primary => !is_primary_active(device),
        // The last one takes it from the thread that it was current to, or leaves it there twice, dead.
        _ => self::context() != context || is_current_destroyed(),
    }
}

/// What the driver knows of an allocation.
#[derive(Clone, Copy)]
pub(super) struct Allocation {
    /// Its begin and size.
    pub(super) range: (u64, u64),
    /// The context that it belongs to, or 0.
    pub(super) context: u64,
    /// Its device.
    pub(super) device: i32,
}

/// The device on which an address of device memory lies, and the context that it belongs to, which is 0 for that of a pool. Asks also
/// while a stream is captured.
pub fn owner(address: u64) -> Option<(i32, u64)> {
    // CU_POINTER_ATTRIBUTE_ MEMORY_TYPE, DEVICE_ORDINAL and CONTEXT.
    let [memory_type, device, context] = relaxed(|| attributes([2, 9, 1], address))?;
    (memory_type == DEVICE_MEMORY).then_some((device as i32, context))
}

/// What a device has left: its free and total bytes, and the device, which is that of the current context. `None` if there is no
/// context.
pub fn left() -> Option<(i32, [u64; 2])> {
    let device = Some(device()).filter(|device| *device >= 0)?;
    let (mut free, mut total) = (0, 0);
    let result = relaxed(|| cuMemGetInfo_v2(&mut free, &mut total));
    (result == Some(0)).then_some((device, [free as u64, total as u64]))
}

/// The allocation that an address lies in. Asked in the way that never fails, whatever context is current:
/// cuMemGetAddressRange does for memory of another one.
pub(super) fn allocation(address: u64) -> Option<Allocation> {
    // CU_POINTER_ATTRIBUTE_ RANGE_START_ADDR, RANGE_SIZE, CONTEXT and DEVICE_ORDINAL. For an address that lies nowhere
    // the range stays as it is.
    let [base, size, context, device] = attributes([11, 12, 1, 9], address)?;
    (size != 0).then_some(Allocation { range: (base, size), context, device: device as i32 })
}

/// Where the memory that is mapped at an address begins and ends; `None` where that is nothing, or not device memory.
pub fn mapping(address: u64) -> Option<Range<u64>> {
    // CU_POINTER_ATTRIBUTE_ MAPPING_SIZE, MAPPING_BASE_ADDR and MEMORY_TYPE.
    let [size, start, memory_type] = attributes([18, 19, 2], address)?;
    let is_mapped = memory_type == DEVICE_MEMORY && size != 0;
    is_mapped.then(|| start..start.saturating_add(size))
}

/// The allocation that cuMemMap has mapped at an address: its handle, and its device, which is negative where this
/// process does not see it. The handle is retained and released again, which changes nothing there.
pub fn mapped_allocation(address: u64) -> Option<(u64, i32)> {
    let mut handle = 0;
    if cuMemRetainAllocationHandle(&mut handle, address) != Some(0) {
        return None;
    }
    let device = device_of_allocation(handle);
    cuMemRelease(handle);
    Some((handle, device?))
}

/// The device of an allocation of virtual memory; `None` where that lies elsewhere.
pub(super) fn device_of_allocation(handle: u64) -> Option<i32> {
    let mut properties = MaybeUninit::<CUmemAllocationProp>::zeroed();
    let result = cuMemGetAllocationPropertiesFromHandle(properties.as_mut_ptr(), handle);
    // SAFETY: numbers and a pointer that nobody follows, for which zeros are valid.
    let place = unsafe { properties.assume_init() }.location;
    (result == Some(0) && place.kind.0 == CUmemLocation::DEVICE).then_some(place.id)
}

/// The pool that a device always has.
pub fn default_pool(device: i32) -> Option<u64> {
    let mut pool = 0;
    (cuDeviceGetDefaultMemPool(&mut pool, device) == Some(0)).then_some(pool)
}

/// A word among the arguments of a call.
pub fn word(args: &[u8; MOST_ARGS], at: usize) -> u64 {
    args.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The size of the allocation that an address lies in.
pub fn size_of(address: u64) -> Option<u64> {
    allocation(address).map(|known| known.range.1)
}

/// An argument of a call that is a number.
pub fn number(id: FnId, args: &[u8; MOST_ARGS], argument: usize) -> u64 {
    let bytes = args.get(id.spec().place(argument)).filter(|bytes| bytes.len() <= 8).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The number that this process has for a device; `None` where it does not see it, or was not told of any.
pub fn ordinal(uuid: [u8; 16]) -> Option<i32> {
    (0..MOST_DEVICES).find(|ordinal| uuid != [0; 16] && self::uuid(*ordinal) == uuid)
}

/// The UUIDs of the first devices, of the record with this epoch, for the live table.
static UUIDS: [[AtomicU64; 2]; MOST_DEVICES as usize] =
    [const { [AtomicU64::new(0), AtomicU64::new(0)] }; MOST_DEVICES as usize];

/// How many devices of a process are told apart.
pub const MOST_DEVICES: i32 = 64;

/// The UUID of a device; zero where it is unknown.
pub fn uuid(ordinal: i32) -> [u8; 16] {
    let Some([low, high]) = usize::try_from(ordinal).ok().and_then(|ordinal| UUIDS.get(ordinal)) else {
        return [0; 16];
    };
    (u128::from(high.load(Relaxed)) << 64 | u128::from(low.load(Relaxed))).to_le_bytes()
}

/// Whether the devices of this process are described.
#[inline(always)]
pub fn has_described() -> bool {
    EVERY_CALL.described.load(Relaxed) == epoch()
}

/// What receives a process's driver and devices; texts end in NUL.
pub enum Description<'a> {
    Driver(i32),
    Device { ordinal: i32, uuid: &'a [u8; 16], pci: &'a [u8], name: &'a [u8] },
}

/// Whether the driver can be asked about devices after a call: it has succeeded, or has failed although the driver is
/// initialised.
pub fn is_ready(id: FnId, result: i32) -> bool {
    let is_asked = id.spec().library == Library::Cuda && !id.spec().is_in(Group::Lookup);
    let is_off = || [Result::NOT_INITIALIZED, Result::DEINITIALIZED].iter().any(|off| *off as i32 == result);
    is_asked && (result == 0 || !is_off() && !has_described() && current().0 == 0)
}

/// Describes the devices of the process, once: after a call has succeeded, the driver is initialized.
pub fn describe_devices(tell: fn(Description)) {
    let epoch = epoch();
    if EVERY_CALL.described.load(Acquire) == epoch || EVERY_CALL.described.swap(epoch, Release) == epoch {
        return;
    }
    // SAFETY: getpid has no preconditions.
    DESCRIBED_BY.store(unsafe { libc::getpid() } as u32, Relaxed);
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
        let (uuid, pci) = identity(device);
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
