//! The sentence of a finding with its values, shared by the process that finds it and by the report.
//!
//! The decisions are in [`crate::decide`], and the sources of the rules in [`crate::RuleSpec`]. Nothing here
//! allocates, because it runs inside other people's programs.

mod hints;
mod states;
mod values;

pub use states::{HadContext, Ptrace, Went};
pub use values::{
    Ago, Bytes, Device, Growth, Handle, HandleFlaw, MemoryKind, PointerFault, PoolFault, Process, Site,
};

use crate::rule::Rule;
use core::fmt::{self, Display, Formatter};
use cupeer_spec::effect::Object;
use cupeer_spec::uuid::Gpu;
use values::{Count, HandleTypes, Times};

/// Makes the enumeration of reasons, whose names are those of their rules, but where the rule follows `of`.
macro_rules! reasons {
    ($($id:ident $({ $($field:ident: $type:ty),* })? $(of $rule:ident)?),* $(,)?) => {
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
    };
    (@ $id:ident) => { Rule::$id };
    (@ $id:ident $rule:ident) => { Rule::$rule };
}
/// The least Flags that are probably the lower half of a pointer: flags have few bits, and addresses have more.
const POINTERS: u32 = 1 << 16;

reasons! {
    UsedAfterFork { pid: u32, parent: Option<u32> },
    NotInitialized { is_forked: bool },
    DriverShuttingDown,
    ContextDestroyed { context: u64 },
    NoCurrentContext { tid: u32, had: HadContext },
    NullArgument { name: &'a str },
    DeviceOutOfRange { name: &'a str, device: i32, count: i32, visible: Option<&'a str> },
    PeerSameDevice { device: Device, context: Option<u64>, is_current: bool },
    PeerAttributeUnknown { attribute: i32 },
    AtomicOperations { count: u32, operation: Option<i32> },
    PeerFlags { flags: u32 },
    PeerContextInvalid { context: u64 },
    PeerAlreadyEnabled { from: Device, to: Device, ago: Option<Ago> },
    PeerNotEnabled { from: Device, to: Device, reverse: bool },
    PeerUnreachable { from: Device, to: Device },
    PeerLimit { device: Device, known: u64, processes: u64 },
    IpcMemoryKind { address: u64, kind: MemoryKind, handle_types: u64, because: Option<&'a str> },
    IpcPointerUnknown { address: u64 },
    IpcReexport { address: u64, is_event: bool, owner: Option<Process> },
    IpcInteriorPointer { address: u64, base: u64, bytes: u64 },
    IpcEventFlags { event: u64 },
    IpcEventContext { event: u64, home: Device, current: Option<Device> },
    IpcFlags { flags: u32, is_taken: bool },
    IpcOpenInExportingProcess { handle: Handle, pid: u32, address: u64, ago: Option<Ago>, is_event: bool },
    IpcEqualPids { pid: u32, own_ns: u64, other_ns: Option<u64> },
    IpcHandleKind { handle: Handle, is_memory: bool },
    IpcOpenAfterFree { handle: Handle, owner: Process, ago: Option<Ago>, is_event: bool, with_context: bool },
    IpcExporterGone { handle: Handle, owner: Process },
    IpcExporterDied { handle: Handle, owner: Process } of IpcExporterGone,
    IpcSecondContext { context: u64, other: u64, device: Device, owner: Process },
    IpcAlreadyMapped { handle: Handle, address: Option<u64> },
    IpcSecondLibrary { handle: Handle, first: &'a str, second: &'a str, count: u32 },
    IpcDeviceHidden { to: Device, node: &'a str },
    IpcDeviceUnseen { to: Device, sees: (i32, [[u8; 16]; 2]) } of IpcDeviceHidden,
    IpcDevicesApart { from: Device, to: Device, is_asked: bool },
    IpcDamagedHandle { handle: Handle, original: Handle, owner: Process, is_opened: bool, cut: Option<u8> },
    IpcUnknownHandle { handle: Handle, flaw: HandleFlaw, is_event: bool },
    IpcOffsetNotAdded { handle: Handle, offset: u64, owner: Process },
    IpcDeviceOrder { ordinal: i32, here: [u8; 16], there: [u8; 16], owner: Process },
    IpcClosedTwice { address: u64, ago: Option<Ago>, handle: Handle, with_context: bool, by: Option<Site<'a>> },
    IpcCloseAddress { address: u64, inside: Option<u64>, is_own: bool, elsewhere: Option<Process> },
    IpcFreeImport { address: u64, owner: Option<Process>, handle: Handle },
    IpcFreedWhileOpen { address: u64, bytes: u64, handle: Handle, importers: u64, first: Process, uses: (u64, u64) },
    IpcContextEndedWhileOpen { what: &'a str, handles: u64, importers: u64, first: Process, address: u64, handle: Handle, kind: Object },
    IpcEventDestroyedWhileOpen { event: u64, handle: Handle, importers: u64, first: Process },
    IpcEventOpenedLate { handle: Handle, owner: Process, ago: Option<Ago>, with_context: bool },
    IpcAddressReused { address: u64, handle: Handle, before: Handle, importers: u64, first: Process },
    IpcNeverClosed { handles: u64, bytes: u64 },
    IpcLeak { handles: u64, opened: u64, bytes: u64, freed: u64, growth: Growth<'a> },
    IpcFallback { from: Device, to: Device, failed: u64, code: &'a str },
    VmmHandleType { wanted: u64, types: Option<u64> },
    VmmNoSuchDevice { device: i32, count: i32 } of VmmUnreachableDevice,
    VmmUnreachableDevice { from: Device, to: Option<Device> },
    VmmSomeUnreachable { count: u64 } of VmmUnreachableDevice,
    VmmFabricWithoutChannel { is_known: bool },
    VmmDescriptor { name: &'static str, fd: i32, is_open: Option<bool>, owner: Option<Process>, ptrace: Option<Ptrace> },
    VmmDescriptorKind { fd: i32, is_pool: bool, owner: Option<Process> } of VmmDescriptor,
    VmmGranularity { name: &'a str, value: u64, granularity: u64 },
    VmmPartialMapping { offset: u64, size: u64, whole: Option<u64> },
    VmmMappedTwice { start: u64, size: u64, mapped: u64, bytes: u64 },
    VmmReservationInUse { start: u64, size: u64, mapped: u64, bytes: u64 },
    VmmPartOfMapping { start: u64, size: u64, mapped: u64, bytes: u64 },
    VmmReleasedTwice { handle: u64, is_imported: bool },
    VmmNoAccess { mappings: u64, bytes: u64, start: u64 },
    MulticastUnsupported { device: Option<Device> },
    MulticastGranularity { name: &'a str, value: u64, granularity: u64 },
    MulticastDevice { device: Device, wanted: Option<u32> },
    MulticastMemory { device: Device },
    MulticastOtherMemory { device: Device, home: Device } of MulticastMemory,
    MulticastHandleType { is_imported: bool },
    MulticastIncomplete { added: u32, wanted: u32 },
    PoolHandleType { wanted: u64, fault: PoolFault },
    PoolPointer { address: u64, fault: PointerFault },
    PoolNotImported { pool: u64, is_destroyed: bool } of PoolWrongPool,
    PoolWrongPool { pool: u64, of_pool: Process, of_pointer: Process },
    PoolPointerTwice { address: u64, handle: Handle },
    PoolImportInUse { pool: u64, pointers: u64 },
    PoolFreedWhileOpen { address: u64, bytes: u64, handle: Handle, importers: u64, first: Process },
    PoolDestroyedWhileOpen { pool: u64, handle: Handle, importers: u64, first: Process },
    UseAfterClose { name: &'a str, address: u64, range: (u64, u64), handle: Handle, ago: Option<Ago>, by: Option<Site<'a>>, with_context: bool },
    UseAfterUnmap { name: &'a str, address: u64, range: (u64, u64), ago: Option<Ago>, by: Option<Site<'a>> },
    UseAfterFree { name: &'a str, address: u64, range: (u64, u64), ago: Option<Ago>, by: Option<Site<'a>>, with_context: bool },
    UseBeyondEnd { name: &'a str, start: u64, bytes: u64, beyond: u64, range: (u64, u64), handle: Option<Handle> },
    UseWithoutAccess { name: &'a str, address: u64, device: Device, range: (u64, u64), is_granted: bool },
    UseAfterOwnerFreed { name: &'a str, address: u64, range: (u64, u64), handle: Handle, owner: Process, ago: Option<Ago> },
    UseInGraph { node: &'a str, address: u64, went: Went, range: (u64, u64), ago: Option<Ago>, by: Option<Site<'a>> },
    UseInKernel { kernel: &'a str, node: &'a str, parameter: usize, address: u64, went: Went, range: (u64, u64), ago: Option<Ago>, by: Option<Site<'a>> },
    VmmAccess { mappings: u64, bytes: u64, start: u64, from: Device, home: Device },
    VmmLeak { handles: u64, opened: u64, bytes: u64, freed: u64, growth: Growth<'a> },
    FdLeak { descriptors: u64, is_export: bool },
    DescriptorsExhausted { limit: u64 },
    MemoryKept { bytes: u64, allocations: u64, owner: Option<Process>, holders: u64, first: Process, unmaps_nothing: bool },
    AddressesExhausted { wanted: u64, reserved: u64, ranges: u64 },
    RanksWaitForDescriptor { waiting: u64, missing: u64, senders: &'a str, least: u64, most: u64 },
    RanksWaitForFailed { waiting: u64, senders: &'a str, function: &'a str, code: &'a str } of RanksWaitForDescriptor,
    RanksCrossed { opened: Process, missed: Process },
    RanksCrossedDevices { here: Device, there: Device } of RanksCrossed,
    RanksHoldDevice { count: u64, ranks: &'a str, device: Device, owner: u32, exports: bool },
    RanksDiffer { function: &'a str, code: &'a str, failing: u64, others: u64 },
    DriverContradictsEnable { from: Device, to: Device } of DriverContradicts,
    DriverContradictsClose { address: u64 } of DriverContradicts,
}

/// `memory` or `an event`.
fn thing(is_event: bool) -> &'static str {
    if is_event { "the event" } else { "the memory" }
}

/// ` 3.2 ms ago`, where it is known.
struct When(Option<Ago>);

impl Display for When {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        self.0.map_or(Ok(()), |ago| write!(f, " {ago} ago"))
    }
}

/// `0x7f1200000000, 4 MiB`: where a range began, and its size.
struct Range((u64, u64));

impl Display for Range {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Range((start, bytes)) = *self;
        write!(f, "{start:#x}, {}", Bytes(bytes))
    }
}

/// ` 3.2 ms ago in thread 17 of app`, as far as it is known.
struct Past<'a>(Option<Ago>, Option<Site<'a>>);

impl Display for Past<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        When(self.0).fmt(f)?;
        self.1.map_or(Ok(()), |site| write!(f, " in {site}"))
    }
}

/// `none`, or `only 2`.
struct Only(u64);

impl Display for Only {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        if self.0 == 0 { f.write_str("none") } else { write!(f, "only {}", self.0) }
    }
}

/// What others' memory is kept, and how much of it its owners freed.
fn keeping(f: &mut Formatter, bytes: u64, freed: u64) -> fmt::Result {
    if bytes > 0 {
        write!(f, "; they keep {} of other processes' memory", Bytes(bytes))?;
    }
    if freed > 0 {
        write!(f, ", {} of which the owners freed", Bytes(freed))?;
    }
    Ok(())
}

impl Display for Reason<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match *self {
            Reason::UsedAfterFork { pid, parent: Some(parent) } => write!(
                f,
                "process {pid} cannot use CUDA: its parent {parent} initialized CUDA before the fork"
            ),
            Reason::UsedAfterFork { pid, parent: None } => write!(
                f,
                "process {pid} cannot use CUDA: its parent initialized CUDA before the fork"
            ),
            Reason::NotInitialized { is_forked } => {
                f.write_str("this process has not called cuInit, or cuInit failed")?;
                if is_forked {
                    f.write_str("; it was forked, and CUDA does not work in it if its parent called cuInit before the fork")?;
                }
                Ok(())
            }
            Reason::DriverShuttingDown => f.write_str(
                "the process is ending and the driver has already shut down; the call comes from a destructor or an exit handler that ran after the driver's own",
            ),
            Reason::ContextDestroyed { context } => {
                write!(f, "the current context {context:#x} was destroyed or reset")
            }
            Reason::NoCurrentContext { tid, had } => {
                write!(f, "thread {tid} has no current CUDA context")?;
                match had {
                    HadContext::Here { context, is_ended: false, .. } => {
                        write!(f, ": {context:#x}, its previous context, was destroyed or popped")
                    }
                    HadContext::Here { context, has_closed, .. } => {
                        write!(f, ": {context:#x}, its previous context, was destroyed or reset")?;
                        f.write_str(if has_closed { "; this also closed the handles that were open in it" } else { "" })
                    }
                    HadContext::InOtherThread => f.write_str("; another thread of this process had one"),
                    HadContext::Primary(device) => {
                        write!(f, "; the primary context of device {device} exists, but is not current here")
                    }
                    HadContext::Unknown => Ok(()),
                }
            }
            Reason::NullArgument { name } => write!(f, "{name} is NULL"),
            Reason::DeviceOutOfRange { name, device, count, visible } => {
                match count {
                    1 => write!(f, "{name} is {device}, but this process sees only device 0")?,
                    _ => write!(f, "{name} is {device}, but this process sees devices 0 to {}", count - 1)?,
                }
                visible.map_or(Ok(()), |visible| write!(f, " (CUDA_VISIBLE_DEVICES={visible})"))
            }
            Reason::PeerSameDevice { device, context: None, .. } => {
                write!(f, "both devices are {device}, but a link connects two different devices")
            }
            Reason::PeerSameDevice { device, context: Some(context), is_current: true } => write!(
                f,
                "peerContext {context:#x} is the current context itself, on {device}; a context cannot be its own peer"
            ),
            Reason::PeerSameDevice { device, context: Some(context), is_current: false } => {
                write!(f, "peerContext {context:#x} is on {device}, as the current context is")
            }
            Reason::PeerAttributeUnknown { attribute } => {
                write!(f, "attrib must be 1 to 5, as documented (is {attribute})")
            }
            Reason::AtomicOperations { count: 0, .. } => f.write_str("count is 0"),
            Reason::AtomicOperations { operation: Some(operation), .. } => {
                write!(f, "operations must be 0 to 12, as documented (has {operation})")
            }
            Reason::AtomicOperations { count, .. } => {
                write!(f, "one of the {count} operations is not an operation this driver knows")
            }
            Reason::PeerFlags { flags } => write!(f, "Flags must be 0 (is {flags})"),
            Reason::PeerContextInvalid { context: 0 } => f.write_str("peerContext is NULL"),
            Reason::PeerContextInvalid { context } => {
                write!(f, "peerContext {context:#x} was destroyed, reset, or released")
            }
            Reason::PeerAlreadyEnabled { from, to, ago } => write!(
                f,
                "{from} already has access to {to}; this process enabled it{}, so this call changed nothing",
                When(ago)
            ),
            Reason::PeerNotEnabled { from, to, reverse } => {
                write!(f, "access from {from} to {to} is not enabled")?;
                f.write_str(match reverse {
                    true => "; only the opposite direction is enabled",
                    false => " in the current context",
                })
            }
            Reason::PeerUnreachable { from, to } => {
                write!(f, "cuDeviceCanAccessPeer is 0 from {from} to {to}")
            }
            Reason::PeerLimit { device, known: 0, .. } => {
                write!(f, "{device} has reached its limit of peers")
            }
            Reason::PeerLimit { device, known, processes } => write!(
                f,
                "{device} has reached its limit of peers; this job has enabled {} of them, in {}",
                known,
                Count(processes, "process")
            ),
            Reason::IpcMemoryKind { address, kind, handle_types, because } => {
                let (what, from) = kind.words().split_once(" (").unwrap_or((kind.words(), ""));
                write!(f, "cuIpcGetMemHandle cannot export {address:#x}, which is {what}")?;
                if !from.is_empty() {
                    write!(f, "; it comes from {}", from.trim_end_matches(')'))?;
                }
                match kind {
                    MemoryKind::Virtual => write!(f, ", with handle types {}", HandleTypes(handle_types))?,
                    MemoryKind::Pool => write!(f, ", from a pool with handle types {}", HandleTypes(handle_types))?,
                    _ => {}
                }
                because.map_or(Ok(()), |because| write!(f, "; the cause is {because}"))
            }
            Reason::IpcPointerUnknown { address: 0 } => f.write_str("dptr is NULL"),
            Reason::IpcPointerUnknown { address } => write!(
                f,
                "{address:#x} is not in any allocation that the driver knows; it was freed, is past the end of an allocation, or came from malloc"
            ),
            Reason::IpcReexport { address, is_event, owner } => {
                let what = if is_event { "event " } else { "" };
                let call = if is_event { "cuIpcOpenEventHandle" } else { "cuIpcOpenMemHandle" };
                write!(f, "{what}{address:#x} cannot be exported: it was opened with {call}")?;
                owner.map_or(Ok(()), |owner| write!(f, "; it belongs to {owner}"))
            }
            Reason::IpcInteriorPointer { address, base, bytes } => write!(
                f,
                "{address:#x} is {} bytes into the {} allocation at {base:#x}; the handle refers to the whole allocation, so the importer must add {0} bytes",
                address.wrapping_sub(base),
                Bytes(bytes)
            ),
            Reason::IpcEventContext { event, home, current } => {
                match current {
                    Some(current) => {
                        write!(f, "event {event:#x} is of {home}, but {current} is current; ")?;
                    }
                    None => write!(
                        f,
                        "hStream is of another context than event {event:#x}; the event is of {home}; "
                    )?,
                }
                f.write_str("it can be recorded only in a stream of the context in which it was opened")
            }
            Reason::IpcEventFlags { event } => write!(
                f,
                "event {event:#x} cannot be exported; it was created without CU_EVENT_INTERPROCESS or without CU_EVENT_DISABLE_TIMING, or does not belong to this process"
            ),
            Reason::IpcFlags { flags: flags @ POINTERS.., is_taken: false } => write!(
                f,
                "Flags must be 1 (is {flags}): the handle is probably passed by pointer, and must be passed by value; the driver then takes the pointer for Flags"
            ),
            Reason::IpcFlags { flags, is_taken: false } => write!(f, "Flags must be 1 (is {flags})"),
            Reason::IpcFlags { flags, is_taken: true } => {
                write!(f, "Flags must be 1 (is {flags}); this driver accepted it")
            }
            Reason::IpcOpenInExportingProcess { handle, pid, address, ago, is_event } => write!(
                f,
                "{handle} is opened in the process that exported it ({pid}); only other processes can open a handle; the export{} was of {} {address:#x}",
                When(ago),
                if is_event { "event" } else { "memory at" }
            ),
            Reason::IpcEqualPids { pid, own_ns, other_ns } => {
                write!(f, "the exporter and this process both have pid {pid}, in two pid namespaces; this process is in {own_ns}")?;
                match other_ns {
                    Some(ns) => write!(f, ", the exporter in {ns}")?,
                    None => f.write_str(", the exporter in another one")?,
                }
                f.write_str("; the driver compares only pids, so it rejects the handle as one that this process exported itself")
            }
            Reason::IpcHandleKind { handle, is_memory: true } => {
                write!(f, "{handle} is a memory handle (cuIpcGetMemHandle), opened as an event handle")
            }
            Reason::IpcHandleKind { handle, is_memory: false } => {
                write!(f, "{handle} is an event handle (cuIpcGetEventHandle), opened as a memory handle")
            }
            Reason::IpcOpenAfterFree { handle, owner, ago, is_event, with_context } => {
                let how = match (with_context, is_event) {
                    (true, _) => "destroyed or reset the context of",
                    (false, true) => "destroyed",
                    (false, false) => "freed",
                };
                write!(f, "{owner} {how} {} of {handle}{}, before this call", thing(is_event), When(ago))
            }
            Reason::IpcExporterGone { handle, owner } => {
                write!(f, "{owner}, which exported {handle}, has exited")
            }
            Reason::IpcExporterDied { handle, owner } => {
                write!(f, "{owner}, which exported {handle}, ended abnormally; this process still had it open")
            }
            Reason::IpcSecondContext { context, other, device, owner } => write!(
                f,
                "memory of {owner} is opened in a second context on {device}; only one context per device can open memory of one process; context {other:#x} opened it first, and context {context:#x} is current now"
            ),
            Reason::IpcAlreadyMapped { handle, address: Some(address) } => {
                write!(f, "{handle} is already open in this process, at {address:#x}")
            }
            Reason::IpcAlreadyMapped { handle, address: None } => write!(
                f,
                "the driver reports {handle} as open in this process, but cupeer saw no call that opened it; another thread may be opening it right now, or calls bypass cupeer"
            ),
            Reason::IpcSecondLibrary { handle, first, second, count } => write!(
                f,
                "{handle} is now open {}, by different libraries; {first} opened it first, {second} this time",
                Count(u64::from(count), "time")
            ),
            Reason::IpcDeviceHidden { to, node } => write!(
                f,
                "the memory is on {to}, but this process has no access to {node}; a device cgroup or the container excludes that GPU"
            ),
            Reason::IpcDeviceUnseen { to, sees: (count, [first, second]) } => {
                write!(f, "this process may not use {to}, where the memory is; it sees ")?;
                let uuid = |f: &mut Formatter, uuid: [u8; 16]| Gpu { number: None, uuid }.fmt(f);
                match count {
                    1 => {
                        f.write_str("only ")?;
                        uuid(f, first)
                    }
                    2 => {
                        uuid(f, first)?;
                        f.write_str(" and ")?;
                        uuid(f, second)
                    }
                    count => write!(f, "{count} others"),
                }
            }
            Reason::IpcDevicesApart { from, to, is_asked } => {
                write!(f, "{from} cannot reach the memory on {to}")?;
                f.write_str(match is_asked {
                    true => "; cuDeviceCanAccessPeer is 0 for the current device",
                    false if to.ordinal >= 0 => "",
                    false => "; this process does not see that device, so it cannot ask cuDeviceCanAccessPeer",
                })
            }
            Reason::IpcDamagedHandle { handle, original, owner, is_opened, cut } => {
                write!(f, "{handle} is a damaged copy of {original}; {owner} exported the original")?;
                if let Some(length) = cut {
                    write!(f, "; {}", Cut(length))?;
                }
                f.write_str(if is_opened { "; the driver opened it anyway" } else { "" })
            }
            Reason::IpcUnknownHandle { flaw: HandleFlaw::Zero, .. } => {
                f.write_str("all 64 bytes of the handle are 0; no process filled it in")
            }
            Reason::IpcUnknownHandle { flaw: HandleFlaw::Cut(length), .. } => Cut(length).fmt(f),
            Reason::IpcUnknownHandle { handle, flaw: HandleFlaw::Shifted { owner, by }, .. } => write!(
                f,
                "the bytes of {handle} are those of a handle of {owner}, shifted by {}",
                Count(by.into(), "byte")
            ),
            Reason::IpcUnknownHandle { handle, flaw: HandleFlaw::Elsewhere(pid), .. } => write!(
                f,
                "{handle} comes from process {pid}, which cupeer records elsewhere; start both with -o DIR"
            ),
            Reason::IpcUnknownHandle { handle, flaw, is_event } => {
                write!(f, "no process under cupeer exported {handle}")?;
                match flaw {
                    HandleFlaw::Names { pid, runs: Some(true) } => write!(
                        f,
                        "; its bytes name process {pid}, which runs, but not under cupeer, or has not exported this"
                    ),
                    HandleFlaw::Names { pid, runs: Some(false) } => {
                        write!(f, "; its bytes name process {pid}, but no such process runs here")
                    }
                    HandleFlaw::Names { pid, runs: None } => write!(f, "; its bytes name process {pid}"),
                    HandleFlaw::NamesNobody => f.write_str("; its bytes name no process"),
                    _ if is_event => f.write_str("; its exporter may not run under cupeer"),
                    _ => Ok(()),
                }
            }
            Reason::IpcOffsetNotAdded { handle, offset, owner } => write!(
                f,
                "{handle} of {owner} points {offset} bytes into its allocation; this call returned the start of the allocation, so the importer must add {offset} bytes"
            ),
            Reason::IpcDeviceOrder { ordinal, here, there, owner } => {
                let [here, there] = [here, there].map(|uuid| Gpu { number: None, uuid });
                write!(
                    f,
                    "device {ordinal} is {here} here, and {there} in {owner}; that process exported the memory, and this process opened it on its own device {ordinal}, so each access goes from one GPU to the other"
                )
            }
            Reason::IpcClosedTwice { address, ago, handle, with_context: true, by } => write!(
                f,
                "{address:#x} ({handle}) is already closed; it was closed when its context was destroyed or reset{}",
                Past(ago, by)
            ),
            Reason::IpcClosedTwice { address, ago, handle, with_context: false, by } => {
                write!(f, "{address:#x} ({handle}) is already closed; this process closed it as often as it had opened it")?;
                if ago.is_some() || by.is_some() { write!(f, "; the last close was{}", Past(ago, by)) } else { Ok(()) }
            }
            Reason::UseAfterClose { name, address, range, handle, ago, by, with_context } => {
                write!(f, "{name} {address:#x} is in memory that this process closed{}; ", When(ago))?;
                let how = if with_context { "its context ended" } else { "the last close was" };
                by.map_or(Ok(()), |by| write!(f, "{how} in {by}; "))?;
                write!(f, "{handle} was open at {}", Range(range))
            }
            Reason::UseAfterUnmap { name, address, range, ago, by } => {
                write!(f, "{name} {address:#x} is in a range that this process unmapped{}; ", When(ago))?;
                by.map_or(Ok(()), |by| write!(f, "cuMemUnmap was called in {by}; "))?;
                write!(f, "the range was {}", Range(range))
            }
            Reason::UseAfterFree { name, address, range, ago, by, with_context } => {
                write!(f, "{name} {address:#x} is in shared memory that this process freed{}; ", When(ago))?;
                let how = if with_context { "its context ended" } else { "the free was" };
                by.map_or(Ok(()), |by| write!(f, "{how} in {by}; "))?;
                write!(f, "the memory was at {}", Range(range))
            }
            Reason::UseBeyondEnd { name, start, bytes, beyond, range, handle } => {
                let how = if handle.is_some() { "opened" } else { "imported" };
                write!(f, "{name} goes {} beyond memory that this process {how}; ", Bytes(beyond))?;
                write!(f, "the call uses {}; ", Range((start, bytes)))?;
                match handle {
                    Some(handle) => write!(f, "{handle} is open at {}", Range(range)),
                    None => write!(f, "the mapping is {}, and nothing is mapped behind it", Range(range)),
                }
            }
            Reason::UseWithoutAccess { name, address, device, range, is_granted } => {
                write!(f, "{device} has no access to {name} {address:#x}; ")?;
                let how = if is_granted { "did not give it access" } else { "was not called for that" };
                write!(f, "the address is in memory that this process imported and mapped; cuMemSetAccess {how}; ")?;
                write!(f, "the mapping is {}", Range(range))
            }
            Reason::UseAfterOwnerFreed { name, address, range, handle, owner, ago } => write!(
                f,
                "{name} {address:#x} is in memory that {owner} freed{}; {handle} is still open in this process at {}, and shows what the memory held when it was freed",
                When(ago),
                Range(range)
            ),
            Reason::UseInGraph { node, address, went, range, ago, by } => {
                let (who, went) = went.words();
                write!(f, "{node} is in memory that {who} {went}{}; the address is {address:#x}; ", When(ago))?;
                by.map_or(Ok(()), |by| write!(f, "{went} in {by}; "))?;
                write!(f, "the memory was at {}", Range(range))
            }
            Reason::UseInKernel { kernel, node, parameter, address, went, range, ago, by } => {
                let (who, went) = went.words();
                write!(f, "kernel parameter {parameter} is in memory that {who} {went}{}; ", When(ago))?;
                if !kernel.is_empty() {
                    write!(f, "the kernel is `{kernel}`; ")?;
                }
                if !node.is_empty() {
                    write!(f, "it is {node} of the graph; ")?;
                }
                write!(f, "the address is {address:#x}; ")?;
                by.map_or(Ok(()), |by| write!(f, "{went} in {by}; "))?;
                write!(f, "the memory was at {}", Range(range))
            }
            Reason::IpcCloseAddress { address: 0, .. } => f.write_str("dptr is NULL"),
            Reason::IpcCloseAddress { address, inside: Some(base), .. } => write!(
                f,
                "{address:#x} is {} bytes past the address that cuIpcOpenMemHandle returned; close {base:#x}",
                address.wrapping_sub(base)
            ),
            Reason::IpcCloseAddress { address, is_own: true, .. } => {
                write!(f, "{address:#x} was allocated by this process, not opened")
            }
            Reason::IpcCloseAddress { address, elsewhere: Some(process), .. } => write!(
                f,
                "this process has not opened {address:#x}: {process} has it open; addresses are per process"
            ),
            Reason::IpcCloseAddress { address, .. } => {
                write!(f, "this process has not opened {address:#x}")
            }
            Reason::IpcFreeImport { address, owner, handle } => {
                write!(f, "{address:#x} must be closed, not freed: it was opened with cuIpcOpenMemHandle; its handle is {handle}")?;
                owner.map_or(Ok(()), |owner| write!(f, "; it belongs to {owner}"))
            }
            Reason::IpcFreedWhileOpen { address, bytes, handle, importers, first, uses } => {
                freed(address, bytes, handle, (importers, first), f)?;
                if let (opened, closed @ 1..) = uses {
                    write!(f, "; {first} opened it {} and closed it {}", Times(opened), Times(closed))?;
                }
                f.write_str("; using it is now undefined")
            }
            Reason::PoolFreedWhileOpen { address, bytes, handle, importers, first } => {
                freed(address, bytes, handle, (importers, first), f)?;
                f.write_str("; using it is now undefined")
            }
            Reason::IpcContextEndedWhileOpen { what, handles: 1, importers, first, address, handle, kind } => {
                let how = if kind == Object::Event { "destroyed event" } else { "freed" };
                write!(f, "{what} {how} {address:#x}, open in ")?;
                others(importers, first, f)?;
                write!(f, "; its handle is {handle}; using it is now undefined")
            }
            Reason::IpcContextEndedWhileOpen { what, handles, importers, first, .. } => {
                write!(f, "{what} freed the memory or events behind {}, still open in ", Count(handles, "handle"))?;
                others(importers, first, f)
            }
            Reason::IpcEventDestroyedWhileOpen { event, handle, importers, first } => {
                write!(f, "event {event:#x} was destroyed while open in ")?;
                others(importers, first, f)?;
                write!(f, "; its handle is {handle}; using it is now undefined")
            }
            Reason::IpcEventOpenedLate { handle, owner, ago, with_context } => {
                let how = if with_context { "ended the context of" } else { "destroyed" };
                write!(f, "{owner} {how} the event{}, before this call; a wait for it may never end, or end too early; its handle is {handle}", When(ago))
            }
            Reason::IpcAddressReused { address, handle, before, importers, first } => {
                write!(f, "freed memory at {address:#x} ({before}) is still open in ")?;
                others(importers, first, f)?;
                write!(f, "; this call exports new memory at the same address ({handle}); an importer that caches mappings by address still uses the freed memory")
            }
            Reason::IpcNeverClosed { handles, bytes } => {
                write!(f, "the process exits without closing {}", Count(handles, "handle"))?;
                if bytes > 0 { write!(f, " ({} of other processes' memory)", Bytes(bytes)) } else { Ok(()) }
            }
            Reason::IpcLeak { handles, opened, bytes, freed, growth } => {
                write!(f, "{handles} of {} opened at this place were never closed{growth}", Count(opened, "handle"))?;
                keeping(f, bytes, freed)
            }
            Reason::VmmLeak { handles, opened, bytes, freed, growth } => {
                let all = Count(opened, "allocation");
                write!(f, "{handles} of {all} imported at this place were never given up{growth}")?;
                keeping(f, bytes, freed)
            }
            Reason::IpcFallback { from, to, failed, code } => write!(
                f,
                "{} of {from} to open memory on {to} failed ({code}), and the program continued without a mapping between these devices; the data may take a slower path",
                Count(failed, "attempt")
            ),
            Reason::VmmHandleType { wanted, types: Some(types) } => write!(
                f,
                "handleType is {}, but the allocation has handle types {}",
                HandleTypes(wanted),
                HandleTypes(types)
            ),
            Reason::VmmHandleType { wanted, types: None } => write!(
                f,
                "an imported allocation cannot be exported again, with any handle type; this call asks for {}",
                HandleTypes(wanted)
            ),
            Reason::VmmNoSuchDevice { device, count: 1 } => {
                write!(f, "desc names device {device}, but this process sees only device 0")
            }
            Reason::VmmNoSuchDevice { device, count } => {
                write!(f, "desc names device {device}, but this process sees devices 0 to {}", count - 1)
            }
            Reason::VmmUnreachableDevice { from, to: Some(to) } => {
                write!(f, "{from} cannot reach the memory on {to}")
            }
            Reason::VmmUnreachableDevice { from, to: None } => {
                write!(f, "{from} cannot reach the device where the memory is")
            }
            Reason::VmmSomeUnreachable { count } => {
                write!(f, "one of {} in desc cannot reach the device where the memory is", Count(count, "device"))
            }
            Reason::VmmFabricWithoutChannel { is_known: true } => f.write_str(
                "requestedHandleTypes has FABRIC, but this process can read no IMEX channel; there is no /dev/nvidia-caps-imex-channels/channel* that it can open; the device's attribute does not show this",
            ),
            Reason::VmmFabricWithoutChannel { is_known: false } => f.write_str(
                "requestedHandleTypes has FABRIC, which fails this way if the process can read no /dev/nvidia-caps-imex-channels/channel*",
            ),
            Reason::VmmDescriptorKind { fd, is_pool, owner } => {
                let (kind, function) = match is_pool {
                    true => ("a pool", "cuMemPoolImportFromShareableHandle"),
                    false => ("memory of cuMemCreate", "cuMemImportFromShareableHandle"),
                };
                write!(f, "file descriptor {fd} is {kind}")?;
                owner.map_or(Ok(()), |owner| write!(f, " that {owner} exported"))?;
                write!(f, "; {function} imports it")
            }
            Reason::VmmDescriptor { name, fd, ptrace, .. } if fd < 0 => {
                write!(f, "{name} is {fd}, which is not a file descriptor; the call that should have returned one failed")?;
                match ptrace {
                    Some(Ptrace { scope: 1.., is_capable: false, .. }) => write!(
                        f,
                        "; if that was pidfd_getfd, kernel.yama.ptrace_scope={} forbids it to this process, which lacks CAP_SYS_PTRACE",
                        ptrace.map_or(0, |it| it.scope)
                    ),
                    _ => Ok(()),
                }
            }
            Reason::VmmDescriptor { name, fd, is_open, owner, .. } => {
                match is_open {
                    Some(false) => write!(f, "{name} is {fd}, and this process has no file descriptor {fd}")?,
                    Some(true) => write!(f, "file descriptor {fd} of this process is not exported memory")?,
                    None => write!(f, "{name} is {fd}, which is not a file descriptor of exported memory in this process")?,
                }
                owner.map_or(Ok(()), |owner| {
                    write!(f, "; {owner} exported memory as its file descriptor {fd}, a number that means nothing in another process")
                })
            }
            Reason::VmmGranularity { name: "size", value, granularity } => {
                write!(f, "size is {value}, which is not a multiple of the granularity ({})", Bytes(granularity))
            }
            Reason::VmmGranularity { name, value, granularity } => {
                write!(f, "{name} is {value:#x}, which is not a multiple of the granularity ({})", Bytes(granularity))
            }
            Reason::VmmPartialMapping { offset: 0, size, whole } => {
                write!(f, "size is {}", Bytes(size))?;
                match whole {
                    Some(whole) => write!(f, ", but the allocation has {}", Bytes(whole))?,
                    None => f.write_str(", but the allocation has another size")?,
                }
                f.write_str(", and must be mapped as a whole")
            }
            Reason::VmmPartialMapping { offset, .. } => write!(f, "offset is {offset}, and must be 0"),
            Reason::VmmMappedTwice { start, size, mapped, bytes } => {
                write!(f, "{} at {start:#x} overlap an existing mapping: {} at {mapped:#x}", Bytes(size), Bytes(bytes))
            }
            Reason::VmmReservationInUse { start, size, mapped, bytes } => write!(
                f,
                "in the {} at {start:#x}, {} are still mapped at {mapped:#x}",
                Bytes(size),
                Bytes(bytes)
            ),
            Reason::VmmPartOfMapping { start, size, mapped, bytes } => write!(
                f,
                "{} at {start:#x} are only a part of the mapping of {} at {mapped:#x}",
                Bytes(size),
                Bytes(bytes)
            ),
            Reason::VmmReleasedTwice { handle, is_imported } => write!(
                f,
                "{handle:#x} is released once too often; this process had already released it as often as it {} or retained it",
                if is_imported { "imported" } else { "created" }
            ),
            Reason::MulticastUnsupported { device: Some(device) } => {
                write!(f, "{device} does not support multicast; CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED is 0")
            }
            Reason::MulticastUnsupported { device: None } => {
                f.write_str("a device does not support multicast; CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED is 0")
            }
            Reason::MulticastGranularity { name, value, granularity } => write!(
                f,
                "{name} is {value}, which is not a multiple of the granularity ({})",
                Bytes(granularity)
            ),
            Reason::MulticastDevice { device, wanted: None } => {
                write!(f, "this process has added {device} to the multicast object already")
            }
            Reason::MulticastDevice { device, wanted: Some(wanted) } => write!(
                f,
                "the multicast object was created for {}, which this process has already added; {device} is one too many",
                Count(u64::from(wanted), "device")
            ),
            Reason::MulticastMemory { device } => {
                write!(f, "the memory is on {device}, which is not in the multicast object; this process has not added it")
            }
            Reason::MulticastOtherMemory { device, home } => {
                write!(f, "memory on {home} is bound for {device}")
            }
            Reason::MulticastIncomplete { added, wanted } => write!(
                f,
                "the call has not returned: it waits until {} are added to the multicast object, but only {added} {}",
                Count(u64::from(wanted), "device"),
                if added == 1 { "is" } else { "are" }
            ),
            Reason::MulticastHandleType { is_imported } => write!(
                f,
                "the memory has handle types NONE, but the multicast object {}",
                if is_imported { "was imported" } else { "has handle types" }
            ),
            Reason::VmmAccess { mappings, bytes, start, from, home } => {
                write!(f, "only {home} ever had access to ")?;
                match mappings {
                    1 => write!(f, "{} mapped at {start:#x}", Bytes(bytes))?,
                    _ => write!(f, "{} ({} in all, the first at {start:#x})", Count(mappings, "mapping"), Bytes(bytes))?,
                }
                write!(f, "; this process enabled peer access from {from} to that device, but cuCtxEnablePeerAccess has no effect on memory that cuMemMap mapped")
            }
            Reason::VmmNoAccess { mappings, bytes, start } => {
                match mappings {
                    1 => write!(f, "{} mapped at {start:#x} were", Bytes(bytes))?,
                    _ => write!(f, "{}, {} in all, the first at {start:#x}, were", Count(mappings, "mapping"), Bytes(bytes))?,
                }
                f.write_str(" never accessible to any device: cuMemSetAccess was not called for them")
            }
            Reason::PoolHandleType { wanted, fault } => {
                write!(f, "handleType is {}, but the pool ", HandleTypes(wanted))?;
                match fault {
                    PoolFault::Types(types) => write!(f, "has handle types {}", HandleTypes(types)),
                    PoolFault::Imported => f.write_str("was imported; an import cannot be exported again"),
                    PoolFault::Default => f.write_str("is the default one of a device; default pools cannot be exported"),
                    PoolFault::Destroyed => f.write_str("is destroyed"),
                }
            }
            Reason::PoolPointer { address, fault } => match fault {
                PointerFault::NoPool => write!(f, "{address:#x} is not memory of a pool"),
                PointerFault::Imported => write!(f, "{address:#x} was imported; an import cannot be exported again"),
                PointerFault::NotExported { pool } => {
                    write!(f, "{address:#x} is memory of pool {pool:#x}, which this process has not exported")
                }
                PointerFault::Inside => write!(f, "{address:#x} is inside an allocation, not at its start"),
            },
            Reason::PoolNotImported { pool, is_destroyed: true } => write!(f, "pool {pool:#x} is destroyed"),
            Reason::PoolNotImported { pool, is_destroyed: false } => {
                write!(f, "pool {pool:#x} belongs to this process; pointers can only be imported into an imported pool")
            }
            Reason::PoolWrongPool { pool, of_pool, of_pointer } => {
                write!(f, "the pointer is not from pool {pool:#x}; {of_pointer} exported the pointer, but {of_pool} exported the pool")
            }
            Reason::PoolPointerTwice { address, handle } => write!(
                f,
                "{handle} was already imported here, at the same address; both imports are the one mapping {address:#x}, and the first free ends both"
            ),
            Reason::PoolImportInUse { pool, pointers } => write!(
                f,
                "{} of the imported pool {pool:#x} {} not freed",
                Count(pointers, "pointer"),
                if pointers == 1 { "is" } else { "are" }
            ),
            Reason::PoolDestroyedWhileOpen { pool, handle, importers, first } => {
                write!(f, "pool {pool:#x} was destroyed while open in ")?;
                others(importers, first, f)?;
                write!(f, "; memory from it stays valid there, but no process can get new memory from it; its handle is {handle}")
            }
            Reason::FdLeak { descriptors, is_export } => write!(
                f,
                "{descriptors} file descriptors were {} and seem not to be closed; cupeer infers this from their numbers, which are all different: the system would reuse the number of a closed descriptor",
                if is_export { "exported" } else { "imported" }
            ),
            Reason::DescriptorsExhausted { limit } => {
                write!(f, "the process can open no more files: it has reached its limit of {limit} (RLIMIT_NOFILE)")
            }
            Reason::MemoryKept { bytes, allocations, owner, holders, first, unmaps_nothing } => {
                others(holders, first, f)?;
                write!(f, " still kept {} that ", Bytes(bytes))?;
                match owner {
                    None => f.write_str("this process")?,
                    Some(owner) => write!(f, "{owner}")?,
                }
                f.write_str(" had released, so the call returned CUDA_ERROR_OUT_OF_MEMORY")?;
                if unmaps_nothing {
                    write!(f, "; {first} unmapped nothing")?;
                }
                write!(
                    f,
                    "; the memory is in {}; the device gets an allocation back only when all its importers have unmapped and released it (cuMemUnmap, cuMemRelease), or closed it (cuIpcCloseMemHandle)",
                    Count(allocations, "allocation")
                )
            }
            Reason::AddressesExhausted { wanted, reserved, ranges } => write!(
                f,
                "no {} of addresses are left, because the process has reserved {} in {}",
                Bytes(wanted),
                Bytes(reserved),
                Count(ranges, "range")
            ),
            Reason::RanksWaitForDescriptor { waiting, missing, senders, least, most } => {
                let (wait, rank) = (
                    if waiting == 1 { "this rank waits" } else { "these ranks wait" },
                    if missing == 1 { "rank" } else { "ranks" },
                );
                write!(
                    f,
                    "{rank} {senders} did not export a file descriptor that {wait} for; {rank} {senders} exported {}, the others {most} each; cupeer infers this because the last recorded call of each waiting rank exported a descriptor that no process imported",
                    Only(least)
                )
            }
            Reason::RanksWaitForFailed { waiting, senders, function, code } => write!(
                f,
                "{} {} for a file descriptor from {senders}, whose export failed; {function} returned {code} there, and no process imported the last descriptor that was exported here",
                Count(waiting, "process"),
                if waiting == 1 { "waits" } else { "wait" }
            ),
            Reason::RanksCrossed { opened, missed } => write!(
                f,
                "this process opened what {opened} exported, and no process opened what {missed} exported; all others opened the export of the rank that is as far from their own as {missed} is from this one"
            ),
            Reason::RanksCrossedDevices { here, there } => write!(
                f,
                "this process, on {here}, opened memory that was exported on {there}; no process opened the memory exported on {here}, and all others opened memory of their own device"
            ),
            Reason::RanksHoldDevice { count, ranks, device, owner, exports } => {
                let is_one = count == 1;
                let (rank, hold) = if is_one { ("rank", "holds") } else { ("ranks", "hold") };
                let they = match (is_one, exports) {
                    (true, false) => "it shares memory only on another device",
                    (false, false) => "they share memory only on other devices",
                    (true, true) => "it exports memory there",
                    (false, true) => "they export memory there",
                };
                write!(
                    f,
                    "{rank} {ranks} {hold} a context on {device}, the device of rank {owner}; each context takes about 500 MiB there, and {they}"
                )
            }
            Reason::RanksDiffer { function, code, failing, others } => write!(
                f,
                "the ranks now take different paths: {function} returned {code} in {}, but succeeded in {others} other ranks",
                Count(failing, "rank")
            ),
            Reason::DriverContradictsEnable { from, to } => write!(
                f,
                "the driver returned CUDA_SUCCESS for access that was already enabled; the access is from {from} to {to}, and the documented result is CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"
            ),
            Reason::DriverContradictsClose { address } => write!(
                f,
                "the driver returned CUDA_SUCCESS for closing {address:#x} again; it had been closed as often as it was opened"
            ),
        }
    }
}

/// That a handle was cut, with how many bytes are left.
struct Cut(u8);

impl Display for Cut {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self.0 {
            1 => f.write_str("all but the first byte of the handle is 0")?,
            length => write!(f, "all but the first {length} bytes of the handle are 0")?,
        }
        f.write_str(": it was cut, as strcpy and ctypes' c_char arrays do")
    }
}

/// `0x10 (4 MiB) was freed while open in process 17; its handle is ipc:...`.
fn freed(
    address: u64,
    bytes: u64,
    handle: Handle,
    (importers, first): (u64, Process),
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "{address:#x}")?;
    if bytes > 0 {
        write!(f, " ({})", Bytes(bytes))?;
    }
    write!(f, " was freed while open in ")?;
    others(importers, first, f)?;
    write!(f, "; its handle is {handle}")
}

fn others(importers: u64, first: Process, f: &mut Formatter) -> fmt::Result {
    match importers {
        0 | 1 => write!(f, "{first}"),
        2 => write!(f, "{first} and one more process"),
        n => write!(f, "{first} and {} more processes", n - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Process = Process { pid: 4711, rank: Some(3) };

    #[test]
    fn sentences_have_their_values() {
        let uuid = [0xab; 16];
        let device = Device { ordinal: 1, uuid };
        for (reason, wanted) in [
            (Reason::IpcFlags { flags: 0, is_taken: false }, "Flags must be 1 (is 0)"),
            (
                Reason::UseBeyondEnd {
                    name: "srcDevice",
                    start: 0x7f0000000000,
                    bytes: 4 << 20,
                    beyond: 2 << 20,
                    range: (0x7f0000000000, 2 << 20),
                    handle: Some(Handle(0x1f)),
                },
                "srcDevice goes 2 MiB beyond memory that this process opened; the call uses 0x7f0000000000, 4 MiB; ipc:000000000000001f is open at 0x7f0000000000, 2 MiB",
            ),
            (
                Reason::UseBeyondEnd {
                    name: "dstDevice",
                    start: 0x7f00001ff800,
                    bytes: 4096,
                    beyond: 2048,
                    range: (0x7f0000000000, 2 << 20),
                    handle: None,
                },
                "dstDevice goes 2 KiB beyond memory that this process imported; the call uses 0x7f00001ff800, 4 KiB; the mapping is 0x7f0000000000, 2 MiB, and nothing is mapped behind it",
            ),
            (
                Reason::UseWithoutAccess {
                    name: "dstDevice",
                    address: 0x7f0000000010,
                    device,
                    range: (0x7f0000000000, 2 << 20),
                    is_granted: false,
                },
                "device 1 (abab..abab) has no access to dstDevice 0x7f0000000010; the address is in memory that this process imported and mapped; cuMemSetAccess was not called for that; the mapping is 0x7f0000000000, 2 MiB",
            ),
            (
                Reason::IpcFlags { flags: 0x5555_0010, is_taken: false },
                "Flags must be 1 (is 1431633936): the handle is probably passed by pointer, and must be passed by value; the driver then takes the pointer for Flags",
            ),
            (
                Reason::IpcInteriorPointer { address: 0x7f0000080000, base: 0x7f0000000000, bytes: 2 << 20 },
                "0x7f0000080000 is 524288 bytes into the 2 MiB allocation at 0x7f0000000000; the handle refers to the whole allocation, so the importer must add 524288 bytes",
            ),
            (
                Reason::IpcMemoryKind {
                    address: 0x10,
                    kind: MemoryKind::Virtual,
                    handle_types: 9,
                    because: Some("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
                },
                "cuIpcGetMemHandle cannot export 0x10, which is virtual memory; it comes from cuMemCreate and cuMemMap, with handle types POSIX_FILE_DESCRIPTOR and FABRIC; the cause is PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            ),
            (
                Reason::IpcFreedWhileOpen {
                    address: 0x10,
                    bytes: 512,
                    handle: Handle(1),
                    importers: 3,
                    first: P,
                    uses: (0, 0),
                },
                "0x10 (512 bytes) was freed while open in process 4711 (rank 3) and 2 more processes; its handle is ipc:0000000000000001; using it is now undefined",
            ),
            (
                Reason::PeerUnreachable { from: device, to: Device { ordinal: -1, uuid } },
                "cuDeviceCanAccessPeer is 0 from device 1 (abab..abab) to GPU abab..abab",
            ),
            (
                Reason::DeviceOutOfRange { name: "peerDev", device: 4, count: 2, visible: Some("6,7") },
                "peerDev is 4, but this process sees devices 0 to 1 (CUDA_VISIBLE_DEVICES=6,7)",
            ),
        ] {
            assert_eq!(reason.to_string(), wanted);
        }
        assert_eq!(
            [999_000, 3_240_000, 3_240_000_000].map(|ns| Ago(ns).to_string()),
            ["999 us", "3.2 ms", "3.2 s"]
        );
        assert_eq!(Count(2, "process").to_string() + &Count(1, "handle").to_string(), "2 processes1 handle");
    }

    #[test]
    fn hints_know_the_values() {
        let reason =
            |because| Reason::IpcMemoryKind { address: 1, kind: MemoryKind::Pool, handle_types: 0, because };
        assert!(
            reason(Some("PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync"))
                .hint()
                .contains("backend:cudaMallocAsync")
        );
        assert!(reason(None).hint().contains("cuMemPoolExportPointer"));
        assert_eq!(Reason::PeerFlags { flags: 1 }.hint(), Rule::PeerFlags.spec().hint);
        let close =
            |inside, is_own| Reason::IpcCloseAddress { address: 16, inside, is_own, elsewhere: None }.hint();
        assert!(close(Some(8), false).contains("without an offset") && !close(None, true).contains("offset"));
        assert!(close(None, true).contains("cuMemFree") && !close(Some(8), false).contains("cuMemFree"));
        let export = |types| Reason::VmmHandleType { wanted: 1, types }.hint();
        assert!(export(None).starts_with("Pass on") && export(Some(0)).contains("requestedHandleTypes"));
    }
}
