//! Sentences about legacy IPC.

use super::{Cut, Past, When, freed, keeping, others, thing};
use crate::reason::POINTERS;
use crate::reason::values::{
    Ago, Bytes, Count, Device, Growth, Handle, HandleFlaw, HandleTypes, MemoryKind, Part, Process, Site,
    Times,
};
use core::fmt::{self, Display, Formatter};
use cupeer_spec::effect::Object;
use cupeer_spec::uuid::Gpu;

/// [`Reason::IpcMemoryKind`](crate::reason::Reason::IpcMemoryKind).
pub fn memory_kind(
    address: u64,
    kind: MemoryKind,
    handle_types: u64,
    because: Option<&str>,
    f: &mut Formatter,
) -> fmt::Result {
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

/// [`Reason::IpcPointerUnknown`](crate::reason::Reason::IpcPointerUnknown).
pub fn pointer_unknown(address: u64, f: &mut Formatter) -> fmt::Result {
    match address {
        0 => f.write_str("dptr is NULL"),
        address => write!(
            f,
            "{address:#x} is not in any allocation that the driver knows; it was freed, is past the end of an allocation, or came from malloc"
        ),
    }
}

/// [`Reason::IpcReexport`](crate::reason::Reason::IpcReexport).
pub fn reexport(address: u64, is_event: bool, owner: Option<Process>, f: &mut Formatter) -> fmt::Result {
    let what = if is_event { "event " } else { "" };
    let call = if is_event { "cuIpcOpenEventHandle" } else { "cuIpcOpenMemHandle" };
    write!(f, "{what}{address:#x} cannot be exported: it was opened with {call}")?;
    owner.map_or(Ok(()), |owner| write!(f, "; it belongs to {owner}"))
}

/// [`Reason::IpcEventContext`](crate::reason::Reason::IpcEventContext).
pub fn event_context(event: u64, home: Device, current: Option<Device>, f: &mut Formatter) -> fmt::Result {
    match current {
        Some(current) => {
            write!(f, "event {event:#x} is of {home}, but {current} is current; ")?;
        }
        None => write!(f, "hStream is of another context than event {event:#x}; the event is of {home}; ")?,
    }
    f.write_str("it can be recorded only in a stream of the context in which it was opened")
}

/// [`Reason::IpcEventUnwaited`](crate::reason::Reason::IpcEventUnwaited).
pub fn event_unwaited(
    handle: Handle,
    owner: Process,
    recorder: Process,
    records: u64,
    user: Option<Process>,
    after: Option<Ago>,
    f: &mut Formatter,
) -> fmt::Result {
    write!(
        f,
        "no process waited for {handle}, the event of {owner}; {recorder} recorded it {}",
        Times(records)
    )?;
    match (user, after) {
        (Some(user), Some(after)) => {
            write!(f, ", and {user} used memory of {owner} {after} after that without a wait for the event")
        }
        _ => Ok(()),
    }
}

/// [`Reason::IpcEventRecordedAgain`](crate::reason::Reason::IpcEventRecordedAgain).
pub fn event_recorded_again(
    handle: Handle,
    importer: Process,
    apart: Ago,
    late: Ago,
    f: &mut Formatter,
) -> fmt::Result {
    write!(
        f,
        "{handle} is recorded again {apart} after its last record, for which {importer} had not waited; its next wait returned {late} later, and takes the later record"
    )
}

/// [`Reason::IpcOneForSeveral`](crate::reason::Reason::IpcOneForSeveral).
pub fn one_for_several(
    owner: Process,
    handle: Handle,
    exports: u64,
    reader: Process,
    read: (u64, u64),
    f: &mut Formatter,
) -> fmt::Result {
    write!(
        f,
        "{owner} exported {handle} {exports} times before any process opened it; {reader} opened it as often, and read {} each time, with no recorded write in between; if these were several buffers, they are one block now",
        Part(read)
    )
}

/// [`Reason::EventContext`](crate::reason::Reason::EventContext).
pub fn other_context(event: u64, current: Device, home: Option<Device>, f: &mut Formatter) -> fmt::Result {
    write!(f, "event {event:#x} cannot be recorded in a stream of {current}; ")?;
    match home {
        Some(home) => {
            write!(f, "the event is of {home}, the only other device on which this process has a context")
        }
        None => f.write_str("the event is of another context"),
    }
}

/// [`Reason::IpcFlags`](crate::reason::Reason::IpcFlags).
pub fn flags(flags: u32, is_taken: bool, f: &mut Formatter) -> fmt::Result {
    match (flags, is_taken) {
        (flags @ POINTERS.., false) => write!(
            f,
            "Flags must be 1 (is {flags}): the handle is probably passed by pointer, and must be passed by value; the driver then takes the pointer for Flags"
        ),
        (flags, false) => write!(f, "Flags must be 1 (is {flags})"),
        (flags, true) => {
            write!(f, "Flags must be 1 (is {flags}); this driver accepted it")
        }
    }
}

/// [`Reason::IpcEqualPids`](crate::reason::Reason::IpcEqualPids).
pub fn equal_pids(pid: u32, own_ns: u64, other_ns: Option<u64>, f: &mut Formatter) -> fmt::Result {
    write!(
        f,
        "the exporter and this process both have pid {pid}, in two pid namespaces; this process is in {own_ns}"
    )?;
    match other_ns {
        Some(ns) => write!(f, ", the exporter in {ns}")?,
        None => f.write_str(", the exporter in another one")?,
    }
    f.write_str(
        "; the driver compares only pids, so it rejects the handle as one that this process exported itself",
    )
}

/// [`Reason::IpcHandleKind`](crate::reason::Reason::IpcHandleKind).
pub fn handle_kind(handle: Handle, is_memory: bool, f: &mut Formatter) -> fmt::Result {
    match is_memory {
        true => {
            write!(f, "{handle} is a memory handle (cuIpcGetMemHandle), opened as an event handle")
        }
        false => {
            write!(f, "{handle} is an event handle (cuIpcGetEventHandle), opened as a memory handle")
        }
    }
}

/// [`Reason::IpcOpenAfterFree`](crate::reason::Reason::IpcOpenAfterFree).
pub fn open_after_free(
    handle: Handle,
    owner: Process,
    ago: Option<Ago>,
    is_event: bool,
    with_context: bool,
    f: &mut Formatter,
) -> fmt::Result {
    let how = match (with_context, is_event) {
        (true, _) => "destroyed or reset the context of",
        (false, true) => "destroyed",
        (false, false) => "freed",
    };
    write!(f, "{owner} {how} {} of {handle}{}, before this call", thing(is_event), When(ago))
}

/// [`Reason::IpcAlreadyMapped`](crate::reason::Reason::IpcAlreadyMapped).
pub fn already_mapped(handle: Handle, address: Option<u64>, f: &mut Formatter) -> fmt::Result {
    match address {
        Some(address) => {
            write!(f, "{handle} is already open in this process, at {address:#x}")
        }
        None => write!(
            f,
            "the driver reports {handle} as open in this process, but cupeer saw no call that opened it; another thread may be opening it right now, or calls bypass cupeer"
        ),
    }
}

/// [`Reason::IpcDeviceUnseen`](crate::reason::Reason::IpcDeviceUnseen).
pub fn device_unseen(to: Device, sees: (i32, [[u8; 16]; 2]), f: &mut Formatter) -> fmt::Result {
    let (count, [first, second]) = sees;
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

/// [`Reason::IpcDevicesApart`](crate::reason::Reason::IpcDevicesApart).
pub fn devices_apart(from: Device, to: Device, is_asked: bool, f: &mut Formatter) -> fmt::Result {
    write!(f, "{from} cannot reach the memory on {to}")?;
    f.write_str(match is_asked {
        true => "; cuDeviceCanAccessPeer is 0 for the current device",
        false if to.ordinal >= 0 => "",
        false => "; this process does not see that device, so it cannot ask cuDeviceCanAccessPeer",
    })
}

/// [`Reason::IpcDamagedHandle`](crate::reason::Reason::IpcDamagedHandle).
pub fn damaged_handle(
    handle: Handle,
    original: Handle,
    owner: Process,
    is_opened: bool,
    cut: Option<u8>,
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "{handle} is a damaged copy of {original}; {owner} exported the original")?;
    if let Some(length) = cut {
        write!(f, "; {}", Cut(length))?;
    }
    f.write_str(if is_opened { "; the driver opened it anyway" } else { "" })
}

/// [`Reason::IpcUnknownHandle`](crate::reason::Reason::IpcUnknownHandle).
pub fn unknown_handle(handle: Handle, flaw: HandleFlaw, is_event: bool, f: &mut Formatter) -> fmt::Result {
    match flaw {
        HandleFlaw::Zero => f.write_str("all 64 bytes of the handle are 0; no process filled it in"),
        HandleFlaw::Cut(length) => Cut(length).fmt(f),
        HandleFlaw::Shifted { owner, by } => write!(
            f,
            "the bytes of {handle} are those of a handle of {owner}, shifted by {}",
            Count(by.into(), "byte")
        ),
        HandleFlaw::Elsewhere(pid) => write!(
            f,
            "{handle} comes from process {pid}, which cupeer records elsewhere; start both with -o DIR"
        ),
        flaw => {
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
                HandleFlaw::NamesNobody => f.write_str("; its bytes do not contain the pid of a process"),
                _ if is_event => f.write_str("; its exporter may not run under cupeer"),
                _ => Ok(()),
            }
        }
    }
}

/// [`Reason::IpcDeviceOrder`](crate::reason::Reason::IpcDeviceOrder).
pub fn device_order(
    ordinal: i32,
    here: [u8; 16],
    there: [u8; 16],
    owner: Process,
    f: &mut Formatter,
) -> fmt::Result {
    let [here, there] = [here, there].map(|uuid| Gpu { number: None, uuid });
    write!(
        f,
        "device {ordinal} is {here} here, and {there} in {owner}; that process exported the memory, and this process opened it on its own device {ordinal}, so each access goes from one GPU to the other"
    )
}

/// [`Reason::IpcClosedTwice`](crate::reason::Reason::IpcClosedTwice).
pub fn closed_twice(
    address: u64,
    ago: Option<Ago>,
    handle: Handle,
    with_context: bool,
    by: Option<Site>,
    f: &mut Formatter,
) -> fmt::Result {
    match with_context {
        true => write!(
            f,
            "{address:#x} ({handle}) is already closed; it was closed when its context was destroyed or reset{}",
            Past(ago, by)
        ),
        false => {
            write!(
                f,
                "{address:#x} ({handle}) is already closed; this process closed it as often as it had opened it"
            )?;
            if ago.is_some() || by.is_some() {
                write!(f, "; the last close was{}", Past(ago, by))
            } else {
                Ok(())
            }
        }
    }
}

/// [`Reason::IpcCloseAddress`](crate::reason::Reason::IpcCloseAddress).
pub fn close_address(
    address: u64,
    inside: Option<u64>,
    is_own: bool,
    elsewhere: Option<Process>,
    f: &mut Formatter,
) -> fmt::Result {
    match (address, inside, is_own, elsewhere) {
        (0, _, _, _) => f.write_str("dptr is NULL"),
        (address, Some(base), _, _) => write!(
            f,
            "{address:#x} is {} bytes past the address that cuIpcOpenMemHandle returned; close {base:#x}",
            address.wrapping_sub(base)
        ),
        (address, _, true, _) => {
            write!(f, "{address:#x} was allocated by this process, not opened")
        }
        (address, _, _, Some(process)) => write!(
            f,
            "this process has not opened {address:#x}: {process} has it open; addresses are per process"
        ),
        (address, _, _, _) => {
            write!(f, "this process has not opened {address:#x}")
        }
    }
}

/// [`Reason::IpcFreeImport`](crate::reason::Reason::IpcFreeImport).
pub fn free_import(address: u64, owner: Option<Process>, handle: Handle, f: &mut Formatter) -> fmt::Result {
    write!(
        f,
        "{address:#x} must be closed, not freed: it was opened with cuIpcOpenMemHandle; its handle is {handle}"
    )?;
    owner.map_or(Ok(()), |owner| write!(f, "; it belongs to {owner}"))
}

/// [`Reason::IpcFreedWhileOpen`](crate::reason::Reason::IpcFreedWhileOpen).
pub fn freed_while_open(
    address: u64,
    bytes: u64,
    handle: Handle,
    importers: u64,
    first: Process,
    uses: (u64, u64),
    f: &mut Formatter,
) -> fmt::Result {
    freed(address, bytes, handle, (importers, first), f)?;
    if let (opened, closed @ 1..) = uses {
        write!(f, "; {first} opened it {} and closed it {}", Times(opened), Times(closed))?;
    }
    f.write_str("; using it is now undefined")
}

/// [`Reason::IpcContextEndedWhileOpen`](crate::reason::Reason::IpcContextEndedWhileOpen).
#[expect(clippy::too_many_arguments, reason = "they are the fields of the reason")]
pub fn context_ended_while_open(
    what: &str,
    handles: u64,
    importers: u64,
    first: Process,
    address: u64,
    handle: Handle,
    kind: Object,
    f: &mut Formatter,
) -> fmt::Result {
    match handles {
        1 => {
            let how = if kind == Object::Event { "destroyed event" } else { "freed" };
            write!(f, "{what} {how} {address:#x}, open in ")?;
            others(importers, first, f)?;
            write!(f, "; its handle is {handle}; using it is now undefined")
        }
        handles => {
            write!(
                f,
                "{what} freed the memory or events behind {}, still open in ",
                Count(handles, "handle")
            )?;
            others(importers, first, f)
        }
    }
}

/// [`Reason::IpcEventDestroyedWhileOpen`](crate::reason::Reason::IpcEventDestroyedWhileOpen).
pub fn event_destroyed_while_open(
    event: u64,
    handle: Handle,
    importers: u64,
    first: Process,
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "event {event:#x} was destroyed while open in ")?;
    others(importers, first, f)?;
    write!(f, "; its handle is {handle}; using it is now undefined")
}

/// [`Reason::IpcEventOpenedLate`](crate::reason::Reason::IpcEventOpenedLate).
pub fn event_opened_late(
    handle: Handle,
    owner: Process,
    ago: Option<Ago>,
    with_context: bool,
    f: &mut Formatter,
) -> fmt::Result {
    let how = if with_context { "ended the context of" } else { "destroyed" };
    write!(
        f,
        "{owner} {how} the event{}, before this call; a wait for it may never end, or end too early; its handle is {handle}",
        When(ago)
    )
}

/// [`Reason::IpcAddressReused`](crate::reason::Reason::IpcAddressReused).
pub fn address_reused(
    address: u64,
    handle: Handle,
    before: Handle,
    importers: u64,
    first: Process,
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "freed memory at {address:#x} ({before}) is still open in ")?;
    others(importers, first, f)?;
    write!(
        f,
        "; this call exports new memory at the same address ({handle}); an importer that caches mappings by address still uses the freed memory"
    )
}

/// [`Reason::IpcNeverClosed`](crate::reason::Reason::IpcNeverClosed).
pub fn never_closed(handles: u64, bytes: u64, f: &mut Formatter) -> fmt::Result {
    write!(f, "the process exits without closing {}", Count(handles, "handle"))?;
    if bytes > 0 { write!(f, " ({} of other processes' memory)", Bytes(bytes)) } else { Ok(()) }
}

/// `handle was`, `8 handles were`.
struct Same(u64);

impl Display for Same {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        if self.0 == 1 { f.write_str("handle was") } else { write!(f, "{} were", Count(self.0, "handle")) }
    }
}

/// [`Reason::OpenedAgain`](crate::reason::Reason::OpenedAgain).
pub fn opened_again(
    handles: u64,
    opened: u64,
    within: Option<Ago>,
    spent: Ago,
    of: Ago,
    f: &mut Formatter,
) -> fmt::Result {
    match within {
        Some(within) => write!(
            f,
            "the same {} opened {opened} times, each at most {within} after its last close",
            Same(handles)
        )?,
        None => write!(f, "{} were opened once each, and closed", Count(handles, "handle"))?,
    }
    write!(f, "; the calls took {spent} of the {of} that the process ran")
}

/// [`Reason::ExportedAgain`](crate::reason::Reason::ExportedAgain).
pub fn exported_again(
    what: Object,
    objects: u64,
    exports: u64,
    opened: u64,
    f: &mut Formatter,
) -> fmt::Result {
    let (noun, how) = match what {
        Object::Event => ("event", "opened"),
        Object::Memory => ("allocation", "opened"),
        _ => ("allocation", "imported"),
    };
    match objects {
        1 => write!(f, "the same {noun} was exported {exports} times, and ")?,
        _ => write!(f, "the same {} were exported {exports} times, and ", Count(objects, noun))?,
    }
    write!(f, "{how} {}", Times(opened))
}

/// [`Reason::HostAfterFailure`](crate::reason::Reason::HostAfterFailure).
pub fn host_after_failure(
    exporter: Process,
    code: &str,
    bytes: Bytes,
    had_context: bool,
    f: &mut Formatter,
) -> fmt::Result {
    let why = if had_context { "" } else { " because the thread had no current context" };
    write!(
        f,
        "this open failed ({code}){why}; it was not repeated, and {bytes} went through the host since, of {exporter} or of this process"
    )
}

/// [`Reason::IpcLeak`](crate::reason::Reason::IpcLeak).
pub fn leak(
    handles: u64,
    opened: u64,
    bytes: u64,
    freed: u64,
    growth: Growth,
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "{handles} of {} opened at this place were never closed{growth}", Count(opened, "handle"))?;
    keeping(f, bytes, freed)
}
