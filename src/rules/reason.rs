//! The sentence of a finding with its values, shared by the process that finds it and by the report.
//!
//! The decisions are in [`crate::decide`], and the sources of the rules in [`crate::RuleSpec`]. Nothing here
//! allocates, because it runs inside other people's programs.

mod hints;
mod sentences;
mod states;
mod values;

pub use states::{HadContext, Ptrace, Went};
pub use values::{
    Ago, Bytes, Device, Growth, Handle, HandleFlaw, MemoryKind, PointerFault, PoolFault, Process, Site,
};

use crate::rule::Rule;
use core::fmt::{self, Display, Formatter};
use cupeer_spec::effect::Object;
use sentences::{Range, When, devices, ipc, pools, ranks, uses, vmm};
use values::Count;

/// Makes the enumeration of reasons and their sentences. A reason has the name of its rule, unless the rule follows `of`. Its
/// sentence is a text with values, or a function of its fields.
macro_rules! reasons {
    ($($id:ident $({ $($field:ident: $type:ty),* })? $(of $rule:ident)? ($($sentence:tt)*)),* $(,)?) => {
        /// What was found.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs, reason = "the fields are what the sentences say")]
        pub enum Reason<'a> {
            $($id $({ $($field: $type),* })?),*
        }

        impl Reason<'_> {
            /// The rule that is broken.
            pub fn rule(&self) -> Rule {
                match self {
                    $(Reason::$id { .. } => reasons!(@ $id $($rule)?)),*
                }
            }
        }

        impl Display for Reason<'_> {
            #[allow(unused_variables, reason = "a sentence need not have all values")]
            fn fmt(&self, f: &mut Formatter) -> fmt::Result {
                match *self {
                    $(Reason::$id $({ $($field),* })? => reasons!(@say f [$($($field),*)?] $($sentence)*)),*
                }
            }
        }
    };
    (@ $id:ident) => { Rule::$id };
    (@ $id:ident $rule:ident) => { Rule::$rule };
    (@say $f:ident [$($field:ident),*] in $function:path) => { $function($($field,)* $f) };
    (@say $f:ident [$($field:ident),*] $text:literal $(, $value:expr)*) => { write!($f, $text $(, $value)*) };
}

/// The least Flags that are probably the lower half of a pointer: flags have few bits, and addresses have more.
const POINTERS: u32 = 1 << 16;

reasons! {
    UsedAfterFork { pid: u32, parent: Option<u32> }
        (in devices::used_after_fork),
    NotInitialized { is_forked: bool }
        (in devices::not_initialized),
    DriverShuttingDown
        ("the process is ending and the driver has already shut down; the call comes from a destructor or an exit handler that ran after the driver's own"),
    ContextDestroyed { context: u64 }
        ("the current context {context:#x} was destroyed or reset"),
    NoCurrentContext { tid: u32, had: HadContext }
        (in devices::no_current_context),
    NullArgument { name: &'a str }
        ("{name} is NULL"),
    DeviceOutOfRange { name: &'a str, device: i32, count: i32, visible: Option<&'a str> }
        (in devices::device_out_of_range),
    PeerSameDevice { device: Device, context: Option<u64>, is_current: bool }
        (in devices::peer_same_device),
    PeerAttributeUnknown { attribute: i32 }
        ("attrib must be 1 to 5, as documented (is {attribute})"),
    AtomicOperations { count: u32, operation: Option<i32> }
        (in devices::atomic_operations),
    PeerFlags { flags: u32 }
        ("Flags must be 0 (is {flags})"),
    PeerContextInvalid { context: u64 }
        (in devices::peer_context_invalid),
    PeerAlreadyEnabled { from: Device, to: Device, ago: Option<Ago> }
        ("{from} already has access to {to}; this process enabled it{}, so this call changed nothing", When(ago)),
    PeerNotEnabled { from: Device, to: Device, reverse: bool }
        (in devices::peer_not_enabled),
    PeerUnreachable { from: Device, to: Device }
        ("cuDeviceCanAccessPeer is 0 from {from} to {to}"),
    PeerLimit { device: Device, known: u64, processes: u64 }
        (in devices::peer_limit),
    IpcMemoryKind { address: u64, kind: MemoryKind, handle_types: u64, because: Option<&'a str> }
        (in ipc::memory_kind),
    IpcPointerUnknown { address: u64 }
        (in ipc::pointer_unknown),
    IpcReexport { address: u64, is_event: bool, owner: Option<Process> }
        (in ipc::reexport),
    IpcInteriorPointer { address: u64, base: u64, bytes: u64 }
        ("{address:#x} is {} bytes into the {} allocation at {base:#x}; the handle refers to the whole allocation, so the importer must add {0} bytes", address.wrapping_sub(base), Bytes(bytes)),
    IpcEventFlags { event: u64 }
        ("event {event:#x} cannot be exported; it was created without CU_EVENT_INTERPROCESS or without CU_EVENT_DISABLE_TIMING, or does not belong to this process"),
    IpcEventContext { event: u64, home: Device, current: Option<Device> }
        (in ipc::event_context),
    IpcFlags { flags: u32, is_taken: bool }
        (in ipc::flags),
    IpcOpenInExportingProcess { handle: Handle, pid: u32, address: u64, ago: Option<Ago>, is_event: bool }
        ("{handle} is opened in the process that exported it ({pid}); only other processes can open a handle; the export{} was of {} {address:#x}", When(ago), if is_event { "event" } else { "memory at" }),
    IpcEqualPids { pid: u32, own_ns: u64, other_ns: Option<u64> }
        (in ipc::equal_pids),
    IpcHandleKind { handle: Handle, is_memory: bool }
        (in ipc::handle_kind),
    IpcOpenAfterFree { handle: Handle, owner: Process, ago: Option<Ago>, is_event: bool, with_context: bool }
        (in ipc::open_after_free),
    IpcExporterGone { handle: Handle, owner: Process }
        ("{owner}, which exported {handle}, has exited"),
    IpcExporterDied { handle: Handle, owner: Process } of IpcExporterGone
        ("{owner}, which exported {handle}, ended abnormally; this process still had it open"),
    IpcSecondContext { context: u64, other: u64, device: Device, owner: Process }
        ("memory of {owner} is opened in a second context on {device}; only one context per device can open memory of one process; context {other:#x} opened it first, and context {context:#x} is current now"),
    IpcAlreadyMapped { handle: Handle, address: Option<u64> }
        (in ipc::already_mapped),
    IpcSecondLibrary { handle: Handle, first: &'a str, second: &'a str, count: u32 }
        ("{handle} is now open {}, by different libraries; {first} opened it first, {second} this time", Count(u64::from(count), "time")),
    IpcDeviceHidden { to: Device, node: &'a str }
        ("the memory is on {to}, but this process has no access to {node}; a device cgroup or the container excludes that GPU"),
    IpcDeviceUnseen { to: Device, sees: (i32, [[u8; 16]; 2]) } of IpcDeviceHidden
        (in ipc::device_unseen),
    IpcDevicesApart { from: Device, to: Device, is_asked: bool }
        (in ipc::devices_apart),
    IpcDamagedHandle { handle: Handle, original: Handle, owner: Process, is_opened: bool, cut: Option<u8> }
        (in ipc::damaged_handle),
    IpcUnknownHandle { handle: Handle, flaw: HandleFlaw, is_event: bool }
        (in ipc::unknown_handle),
    IpcOffsetNotAdded { handle: Handle, offset: u64, owner: Process }
        ("{handle} of {owner} points {offset} bytes into its allocation; this call returned the start of the allocation, so the importer must add {offset} bytes"),
    IpcDeviceOrder { ordinal: i32, here: [u8; 16], there: [u8; 16], owner: Process }
        (in ipc::device_order),
    IpcClosedTwice { address: u64, ago: Option<Ago>, handle: Handle, with_context: bool, by: Option<Site<'a>> }
        (in ipc::closed_twice),
    IpcCloseAddress { address: u64, inside: Option<u64>, is_own: bool, elsewhere: Option<Process> }
        (in ipc::close_address),
    IpcFreeImport { address: u64, owner: Option<Process>, handle: Handle }
        (in ipc::free_import),
    IpcFreedWhileOpen { address: u64, bytes: u64, handle: Handle, importers: u64, first: Process, uses: (u64, u64) }
        (in ipc::freed_while_open),
    IpcContextEndedWhileOpen { what: &'a str, handles: u64, importers: u64, first: Process, address: u64, handle: Handle, kind: Object }
        (in ipc::context_ended_while_open),
    IpcEventDestroyedWhileOpen { event: u64, handle: Handle, importers: u64, first: Process }
        (in ipc::event_destroyed_while_open),
    IpcEventOpenedLate { handle: Handle, owner: Process, ago: Option<Ago>, with_context: bool }
        (in ipc::event_opened_late),
    IpcAddressReused { address: u64, handle: Handle, before: Handle, importers: u64, first: Process }
        (in ipc::address_reused),
    IpcNeverClosed { handles: u64, bytes: u64 }
        (in ipc::never_closed),
    IpcLeak { handles: u64, opened: u64, bytes: u64, freed: u64, growth: Growth<'a> }
        (in ipc::leak),
    IpcFallback { from: Device, to: Device, failed: u64, code: &'a str }
        ("{} of {from} to open memory on {to} failed ({code}), and the program continued without a mapping between these devices; the data may take a slower path", Count(failed, "attempt")),
    VmmHandleType { wanted: u64, types: Option<u64> }
        (in vmm::handle_type),
    VmmNoSuchDevice { device: i32, count: i32 } of VmmUnreachableDevice
        (in vmm::no_such_device),
    VmmUnreachableDevice { from: Device, to: Option<Device> }
        (in vmm::unreachable_device),
    VmmSomeUnreachable { count: u64 } of VmmUnreachableDevice
        ("one of {} in desc cannot reach the device where the memory is", Count(count, "device")),
    VmmFabricWithoutChannel { is_known: bool }
        (in vmm::fabric_without_channel),
    VmmDescriptor { name: &'static str, fd: i32, is_open: Option<bool>, owner: Option<Process>, ptrace: Option<Ptrace> }
        (in vmm::descriptor),
    VmmDescriptorKind { fd: i32, is_pool: bool, owner: Option<Process> } of VmmDescriptor
        (in vmm::descriptor_kind),
    VmmGranularity { name: &'a str, value: u64, granularity: u64 }
        (in vmm::granularity),
    VmmPartialMapping { offset: u64, size: u64, whole: Option<u64> }
        (in vmm::partial_mapping),
    VmmMappedTwice { start: u64, size: u64, mapped: u64, bytes: u64 }
        ("{} at {start:#x} overlap an existing mapping: {} at {mapped:#x}", Bytes(size), Bytes(bytes)),
    VmmReservationInUse { start: u64, size: u64, mapped: u64, bytes: u64 }
        ("in the {} at {start:#x}, {} are still mapped at {mapped:#x}", Bytes(size), Bytes(bytes)),
    VmmPartOfMapping { start: u64, size: u64, mapped: u64, bytes: u64 }
        ("{} at {start:#x} are only a part of the mapping of {} at {mapped:#x}", Bytes(size), Bytes(bytes)),
    VmmReleasedTwice { handle: u64, is_imported: bool }
        ("{handle:#x} is released once too often; this process had already released it as often as it {} or retained it", if is_imported { "imported" } else { "created" }),
    VmmNoAccess { mappings: u64, bytes: u64, start: u64 }
        (in vmm::no_access),
    MulticastUnsupported { device: Option<Device> }
        (in vmm::multicast_unsupported),
    MulticastGranularity { name: &'a str, value: u64, granularity: u64 }
        ("{name} is {value}, which is not a multiple of the granularity ({})", Bytes(granularity)),
    MulticastDevice { device: Device, wanted: Option<u32> }
        (in vmm::multicast_device),
    MulticastMemory { device: Device }
        ("the memory is on {device}, which is not in the multicast object; this process has not added it"),
    MulticastOtherMemory { device: Device, home: Device } of MulticastMemory
        ("memory on {home} is bound for {device}"),
    MulticastHandleType { is_imported: bool }
        ("the memory has handle types NONE, but the multicast object {}", if is_imported { "was imported" } else { "has handle types" }),
    MulticastIncomplete { added: u32, wanted: u32 }
        ("the call has not returned: it waits until {} are added to the multicast object, but only {added} {}", Count(u64::from(wanted), "device"), if added == 1 { "is" } else { "are" }),
    PoolHandleType { wanted: u64, fault: PoolFault }
        (in pools::handle_type),
    PoolPointer { address: u64, fault: PointerFault }
        (in pools::pointer),
    PoolNotImported { pool: u64, is_destroyed: bool } of PoolWrongPool
        (in pools::not_imported),
    PoolWrongPool { pool: u64, of_pool: Process, of_pointer: Process }
        ("the pointer is not from pool {pool:#x}; {of_pointer} exported the pointer, but {of_pool} exported the pool"),
    PoolPointerTwice { address: u64, handle: Handle }
        ("{handle} was already imported here, at the same address; both imports are the one mapping {address:#x}, and the first free ends both"),
    PoolImportInUse { pool: u64, pointers: u64 }
        ("{} of the imported pool {pool:#x} {} not freed", Count(pointers, "pointer"), if pointers == 1 { "is" } else { "are" }),
    PoolFreedWhileOpen { address: u64, bytes: u64, handle: Handle, importers: u64, first: Process }
        (in pools::freed_while_open),
    PoolDestroyedWhileOpen { pool: u64, handle: Handle, importers: u64, first: Process }
        (in pools::destroyed_while_open),
    UseAfterClose { name: &'a str, address: u64, range: (u64, u64), handle: Handle, ago: Option<Ago>, by: Option<Site<'a>>, with_context: bool }
        (in uses::after_close),
    UseAfterUnmap { name: &'a str, address: u64, range: (u64, u64), ago: Option<Ago>, by: Option<Site<'a>> }
        (in uses::after_unmap),
    UseAfterFree { name: &'a str, address: u64, range: (u64, u64), ago: Option<Ago>, by: Option<Site<'a>>, with_context: bool }
        (in uses::after_free),
    UseBeyondEnd { name: &'a str, start: u64, bytes: u64, beyond: u64, range: (u64, u64), handle: Option<Handle> }
        (in uses::beyond_end),
    UseWithoutAccess { name: &'a str, address: u64, device: Device, context: Option<&'a str>, range: (u64, u64), is_granted: bool }
        (in uses::without_access),
    UseAfterOwnerFreed { name: &'a str, address: u64, range: (u64, u64), handle: Handle, owner: Process, ago: Option<Ago> }
        ("{name} {address:#x} is in memory that {owner} freed{}; {handle} is still open in this process at {}, and shows what the memory held when it was freed", When(ago), Range(range)),
    UseInGraph { node: &'a str, address: u64, went: Went, range: (u64, u64), ago: Option<Ago>, by: Option<Site<'a>> }
        (in uses::in_graph),
    UseInKernel { kernel: &'a str, node: &'a str, parameter: usize, address: u64, went: Went, range: (u64, u64), ago: Option<Ago>, by: Option<Site<'a>> }
        (in uses::in_kernel),
    VmmAccess { mappings: u64, bytes: u64, start: u64, from: Device, home: Device }
        (in vmm::access),
    VmmLeak { handles: u64, opened: u64, bytes: u64, freed: u64, growth: Growth<'a> }
        (in vmm::leak),
    FdLeak { descriptors: u64, is_export: bool }
        ("{descriptors} file descriptors were {} and seem not to be closed; cupeer infers this from their numbers, which are all different: the system would reuse the number of a closed descriptor", if is_export { "exported" } else { "imported" }),
    DescriptorsExhausted { limit: u64 }
        ("the process can open no more files: it has reached its limit of {limit} (RLIMIT_NOFILE)"),
    MemoryKept { bytes: u64, allocations: u64, owner: Option<Process>, holders: u64, first: Process, unmaps_nothing: bool }
        (in vmm::memory_kept),
    AddressesExhausted { wanted: u64, reserved: u64, ranges: u64 }
        ("no {} of addresses are left, because the process has reserved {} in {}", Bytes(wanted), Bytes(reserved), Count(ranges, "range")),
    RanksWaitForDescriptor { waiting: u64, missing: u64, senders: &'a str, least: u64, most: u64 }
        (in ranks::wait_for_descriptor),
    RanksWaitForFailed { waiting: u64, senders: &'a str, function: &'a str, code: &'a str } of RanksWaitForDescriptor
        ("{} {} for a file descriptor from {senders}, whose export failed; {function} returned {code} there, and no process imported the last descriptor that was exported here", Count(waiting, "process"), if waiting == 1 { "waits" } else { "wait" }),
    RanksCrossed { opened: Process, missed: Process }
        ("this process opened what {opened} exported, and no process opened what {missed} exported; all others opened the export of the rank that is as far from their own as {missed} is from this one"),
    RanksCrossedDevices { here: Device, there: Device } of RanksCrossed
        ("this process, on {here}, opened memory that was exported on {there}; no process opened the memory exported on {here}, and all others opened memory of their own device"),
    RanksHoldDevice { count: u64, ranks: &'a str, device: Device, owner: u32, exports: bool, allocated: u64 }
        (in ranks::hold_device),
    CopyThroughHost { bytes: u64, all: u64, from: Device, to: Device, holder: Process, since: Ago }
        (in ranks::copy_through_host),
    RanksDiffer { function: &'a str, code: &'a str, failing: u64, others: u64 }
        ("the ranks now take different paths: {function} returned {code} in {}, but succeeded in {others} other ranks", Count(failing, "rank")),
    DriverContradictsEnable { from: Device, to: Device } of DriverContradicts
        ("the driver returned CUDA_SUCCESS for access that was already enabled; the access is from {from} to {to}, and the documented result is CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"),
    DriverContradictsClose { address: u64 } of DriverContradicts
        ("the driver returned CUDA_SUCCESS for closing {address:#x} again; it had been closed as often as it was opened"),
}

#[cfg(test)]
mod tests;
