//! Questions: what only the driver knows is asked after a call of the program's own, in the thread that made it,
//! without creating a context or changing anything.

use crate::resolve::driver;
use crate::sys::aside::aside;
use crate::sys::elf::is_forked;
use crate::sys::every_call::{DESCRIBED_BY, EVERY_CALL, described_before_fork, epoch};
use crate::sys::files::each_name;
use crate::sys::line::Short;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_rules::decide::Pointer;
use cupeer_spec::effect::{End, Named, Object, Shared};
use cupeer_spec::function::{FnId, Group, Library};
use cupeer_spec::record::slot::finding::Confidence;
use cupeer_spec::record::slot::{ARGS, detail};
use cupeer_spec::results::Result;

/// The questions, each with the place where its function is kept: 0 not looked for, 1 not there.
struct Question {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Question {
    const fn new(name: &'static CStr) -> Self {
        Question { name, address: AtomicUsize::new(0) }
    }

    /// The driver's function.
    fn find(&self) -> Option<usize> {
        let mut address = self.address.load(Relaxed);
        if address == 0 {
            let mut found = None;
            // The program's stack may be too small for reading the driver's symbols.
            aside(|| found = driver::function(Library::Cuda, self.name));
            address = found?.max(1);
            self.address.store(address, Relaxed);
        }
        (address != 1).then_some(address)
    }
}

/// Declares a function that calls the driver's of that name, where it has one.
macro_rules! questions {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[allow(non_snake_case)]
        fn $name($($argument: $type),*) -> Option<c_int> {
            static QUESTION: Question = Question::new(
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a NUL in a name"),
                },
            );
            let address = QUESTION.find()?;
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
    cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int);
    cuPointerGetAttributes(count: u32, attributes: *const c_int, data: *const *mut c_void, address: u64);
}

/// The current context.
pub fn context() -> u64 {
    let mut context = core::ptr::null_mut();
    if cuCtxGetCurrent(&mut context) == Some(0) { context as u64 } else { 0 }
}

/// What the driver says about the current context, and the context.
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

/// Whether this process was forked from one that had initialised the driver: which one, where that is known, and how
/// sure it is.
pub fn was_initialized_before_fork() -> Option<(Option<u32>, Confidence)> {
    if let Some(parent) = described_before_fork(epoch()) {
        return Some(((parent != 0).then_some(parent), Confidence::Certain));
    }
    // NVML opens these as well.
    (is_forked() && has_device_open()).then_some((None, Confidence::Inferred))
}

/// Whether the process has a device node open, although it has not initialised the driver.
fn has_device_open() -> bool {
    let mut found = false;
    each_name(c"/proc/self/fd", |name| {
        let path = Short::<32>::new(format_args!("/proc/self/fd/{name}\0"));
        let mut target = [0u8; 16];
        let path = path.c_text().unwrap_or_default();
        // SAFETY: the path ends in NUL, and the kernel writes at most that many bytes.
        let length = unsafe { libc::readlink(path.as_ptr(), target.as_mut_ptr().cast(), target.len()) };
        found = target[..length.max(0) as usize].starts_with(b"/dev/nvidia");
        found
    });
    found
}

/// Asks about a pointer, which may be none. `None` where the driver does not say.
pub fn pointer(address: u64) -> Option<Pointer> {
    // CU_POINTER_ATTRIBUTE_ MEMORY_TYPE, IS_MANAGED, IS_LEGACY_CUDA_IPC_CAPABLE, MEMPOOL_HANDLE, CONTEXT and
    // ALLOWED_HANDLE_TYPES, in the order of the fields above.
    const ATTRIBUTES: [c_int; 6] = [2, 8, 10, 17, 1, 14];
    // Each is written in its own width, of which the rest stays zero.
    let mut values = [0u64; 6];
    let places = values.each_mut().map(|value| core::ptr::from_mut(value).cast::<c_void>());
    let result = cuPointerGetAttributes(6, ATTRIBUTES.as_ptr(), places.as_ptr(), address)?;
    let [memory_type, managed, exportable, pool, context, handle_types] = values;
    /// CU_MEMORYTYPE_DEVICE.
    const DEVICE: u64 = 2;
    (result == 0).then_some(Pointer {
        is_known: memory_type != 0,
        is_device: memory_type == DEVICE,
        is_managed: managed & 0xff != 0,
        is_exportable: exportable & 0xff != 0,
        pool,
        context,
        handle_types,
    })
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

/// Whether the primary context of a device is there.
pub fn is_primary_active(device: i32) -> bool {
    let (mut flags, mut active) = (0, 0);
    cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) == Some(0) && active != 0
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
pub fn to_be_ended(id: FnId, args: &[u8; ARGS]) -> u64 {
    match id.spec().ends_context() {
        Some(end) if end.object == Object::Primary => primary(number(id, args, end.by) as i32).unwrap_or(0),
        Some(end) => number(id, args, end.by),
        None => 0,
    }
}

/// Whether a call has ended that context, which was known before it, after it has succeeded.
fn has_ended(end: End, device: i32, context: u64) -> bool {
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
struct Allocation {
    /// Its begin and size.
    range: (u64, u64),
    /// The context that it belongs to, or 0.
    context: u64,
    /// Its device.
    device: i32,
}

/// The allocation that an address lies in. Asked in the way that never fails, whatever context is current:
/// cuMemGetAddressRange does for memory of another one.
fn allocation(address: u64) -> Option<Allocation> {
    // CU_POINTER_ATTRIBUTE_ RANGE_START_ADDR, RANGE_SIZE, CONTEXT and DEVICE_ORDINAL. For an address that lies nowhere
    // the range stays as it is.
    const ATTRIBUTES: [c_int; 4] = [11, 12, 1, 9];
    let mut values = [0u64; 4];
    let places = values.each_mut().map(|value| core::ptr::from_mut(value).cast::<c_void>());
    let result = cuPointerGetAttributes(4, ATTRIBUTES.as_ptr(), places.as_ptr(), address)?;
    let [base, size, context, device] = values;
    (result == 0 && size != 0).then_some(Allocation { range: (base, size), context, device: device as i32 })
}

/// A word among the arguments of a call.
pub fn word(args: &[u8; ARGS], at: usize) -> u64 {
    args.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The size of the allocation that an address lies in.
pub fn size_of(address: u64) -> Option<u64> {
    allocation(address).map(|known| known.range.1)
}

/// An argument of a call that is a number.
pub fn number(id: FnId, args: &[u8; ARGS], argument: usize) -> u64 {
    let bytes = args.get(id.spec().place(argument)).filter(|bytes| bytes.len() <= 8).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// What the driver says of that which a call is about.
#[derive(Clone, Copy, Default)]
pub struct DriverFacts {
    /// The allocation, where the call succeeded: its start and size.
    pub memory: Option<(u64, u64)>,
    /// The context that it belongs to, with its device; or else the current one.
    pub context: u64,
    /// See above.
    pub device: i32,
    /// The context that the call has ended; 0 where it has ended none.
    pub ended: u64,
}

/// Takes what the driver says of a call: which detail it is, and its bytes.
pub type Note<'a> = &'a mut dyn FnMut(u8, &[u8]);

/// Two words as bytes.
fn words(words: [u64; 2]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&words[0].to_le_bytes());
    bytes[8..].copy_from_slice(&words[1].to_le_bytes());
    bytes
}

/// Asks what the driver says of a call that has returned, and gives it to `note`. `context` is what it would end.
pub fn ask(id: FnId, args: &[u8; ARGS], result: i32, context: u64, note: Note) -> DriverFacts {
    if id.spec().library != Library::Cuda {
        return DriverFacts::default();
    }
    let is_there = |results: &[Result]| results.iter().any(|known| *known as i32 == result);
    let mut about = DriverFacts::default();
    let function = id.spec();
    if let Some(Shared { object, by, .. }) = function.exports().or(function.opens()) {
        // Drivers take events of the current context only.
        let allocation = if object.is_memory() { memory(note, result, number(id, args, by)) } else { None };
        devices(note, -1, result, &mut about);
        about.memory = allocation.map(|known| known.range);
        if let Some(known) = allocation.filter(|_| function.exports().is_some()) {
            (about.context, about.device) = (known.context, known.device);
            note(detail::OWNER, &words([known.context, known.device as u64]));
        }
    } else if let Some(Named { by, .. }) = function.enables().or(function.disables()) {
        // With any other result the context may be none.
        let is_context = is_there(&[
            Result::SUCCESS,
            Result::PEER_ACCESS_ALREADY_ENABLED,
            Result::PEER_ACCESS_NOT_ENABLED,
            Result::PEER_ACCESS_UNSUPPORTED,
            Result::TOO_MANY_PEERS,
        ]);
        let peer = if is_context { device_of(number(id, args, by)) } else { -1 };
        devices(note, peer, result, &mut about);
    } else if let Some(end) = function.ends_context() {
        let device = number(id, args, end.by) as i32;
        // Where nothing is known that could end, nothing is asked: no context may be current any more.
        let is_gone = result == 0 && context != 0 && has_ended(end, device, context);
        about.ended = if is_gone { context } else { 0 };
        // Of a release this says that it was the last.
        if end.object == Object::Primary && (result != 0 || about.ended != 0) {
            let mut bytes = [0xff; 8];
            bytes[..4].copy_from_slice(&device.to_le_bytes());
            note(detail::DEVICES, &bytes);
        }
        if about.ended != 0 || result != 0 && context != 0 {
            note(detail::CONTEXT, &context.to_le_bytes());
        }
    }
    about
}

/// The allocation of a call that succeeded. A question that fails would stand in the driver's log.
fn memory(note: Note, result: i32, address: u64) -> Option<Allocation> {
    let known = if result == 0 { allocation(address) } else { None }?;
    note(detail::MEMORY, &words(known.range.into()));
    Some(known)
}

fn devices(note: Note, peer: i32, result: i32, about: &mut DriverFacts) {
    let mut bytes = [0; 8];
    // The same: of a context that is gone nothing is asked.
    about.device = if result == Result::CONTEXT_IS_DESTROYED as i32 { -1 } else { device() };
    about.context = context();
    bytes[..4].copy_from_slice(&about.device.to_le_bytes());
    bytes[4..].copy_from_slice(&peer.to_le_bytes());
    note(detail::DEVICES, &bytes);
    note(detail::CONTEXT, &about.context.to_le_bytes());
}

/// The UUIDs of the first devices, of the record with this epoch, for the live table.
static UUIDS: [[AtomicU64; 2]; MOST_DEVICES as usize] =
    [const { [AtomicU64::new(0), AtomicU64::new(0)] }; MOST_DEVICES as usize];

/// How many devices of a process are told apart.
pub const MOST_DEVICES: i32 = 64;

/// The UUID of a device; zero where it is unknown.
pub fn uuid(ordinal: i32) -> [u8; 16] {
    let mut uuid = [0; 16];
    if let Some(words) = usize::try_from(ordinal).ok().and_then(|ordinal| UUIDS.get(ordinal)) {
        uuid[..8].copy_from_slice(&words[0].load(Relaxed).to_le_bytes());
        uuid[8..].copy_from_slice(&words[1].load(Relaxed).to_le_bytes());
    }
    uuid
}

/// Whether the devices of this process are described.
#[inline(always)]
pub fn has_described() -> bool {
    EVERY_CALL.described.load(Relaxed) == epoch()
}

/// What receives a process's driver and devices; texts end in NUL.
pub enum Description<'a> {
    /// The version of the driver.
    Driver(i32),
    /// A device.
    Device { ordinal: i32, uuid: &'a [u8; 16], pci: &'a [u8], name: &'a [u8] },
}

/// Whether the driver can be asked about devices after a call: it has succeeded, or has failed although the driver is
/// initialised.
pub fn is_ready(id: FnId, result: i32) -> bool {
    let is_asked = id.spec().library == Library::Cuda && !id.spec().is_in(Group::Lookup);
    let is_off = || [Result::NOT_INITIALIZED, Result::DEINITIALIZED].iter().any(|off| *off as i32 == result);
    is_asked && (result == 0 || !is_off() && !has_described() && current().0 == 0)
}

/// Describes the devices of the process, once: after a call has succeeded, the driver is initialised.
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
        let (mut device, mut uuid) = (0, [0; 16]);
        let (mut pci, mut name) = ([0u8; 32], [0u8; 128]);
        if cuDeviceGet(&mut device, ordinal) != Some(0) {
            continue;
        }
        if cuDeviceGetUuid_v2(&mut uuid, device) != Some(0) {
            cuDeviceGetUuid(&mut uuid, device);
        }
        cuDeviceGetPCIBusId(pci.as_mut_ptr().cast(), pci.len() as c_int - 1, device);
        cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int - 1, device);
        if let Some(words) = UUIDS.get(ordinal as usize) {
            for (word, bytes) in words.iter().zip(uuid.chunks(8)) {
                word.store(u64::from_le_bytes(bytes.try_into().unwrap_or_default()), Relaxed);
            }
        }
        tell(Description::Device { ordinal, uuid: &uuid, pci: &pci, name: &name });
    }
}
