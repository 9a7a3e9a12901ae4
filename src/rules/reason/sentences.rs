//! Sentences with several cases. The others are in the entries of the rules.

use super::parts::{Cut, Only};
use super::states::{HadContext, Ptrace};
use super::values::{
    Ago, Bytes, Count, Device, Growth, Handle, HandleFlaw, HandleTypes, MemoryKind, Part, Piled, PointerFault,
    PoolFault, Process, Size, Times,
};
use core::fmt::{self, Display, Formatter};
use cupeer_spec::effect::Object;
use cupeer_spec::uuid::GpuName;

/// Writes the sentence of [`Reason::ForkedAndKept`](crate::reason::Reason::ForkedAndKept).
pub fn forked_and_kept(
    pid: u32,
    parent: u32,
    ago: Option<Ago>,
    allocations: u64,
    bytes: u64,
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "process {pid} kept the device memory of process {parent} allocated")?;
    match ago {
        Some(ago) => write!(f, " for {ago} after that process had ended")?,
        None => f.write_str(" after that process had ended")?,
    }
    f.write_str("; it was forked after CUDA was initialized, and kept the inherited device files open")?;
    if allocations > 0 {
        let (bytes, allocations) = (Bytes(bytes), Count(allocations, "allocation"));
        write!(f, "; process {parent} ended with {bytes} of device memory in {allocations}")?;
    }
    Ok(())
}

/// Writes the sentence of [`Reason::NoCurrentContext`](crate::reason::Reason::NoCurrentContext).
pub fn no_current_context(tid: u32, had: HadContext, f: &mut Formatter) -> fmt::Result {
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

/// Writes the sentence of [`Reason::IpcMemoryKind`](crate::reason::Reason::IpcMemoryKind).
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

/// Writes the sentence of [`Reason::IpcDeviceUnseen`](crate::reason::Reason::IpcDeviceUnseen).
pub fn device_unseen(to: Device, sees: (i32, [[u8; 16]; 2]), f: &mut Formatter) -> fmt::Result {
    let (count, [first, second]) = sees;
    write!(f, "this process may not use {to}, where the memory is; it sees ")?;
    let uuid = |f: &mut Formatter, uuid: [u8; 16]| GpuName { number: None, uuid }.fmt(f);
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

/// Writes the sentence of [`Reason::IpcUnknownHandle`](crate::reason::Reason::IpcUnknownHandle).
pub fn unknown_handle(handle: Handle, flaw: HandleFlaw, is_event: bool, f: &mut Formatter) -> fmt::Result {
    match flaw {
        HandleFlaw::Zero => f.write_str("all 64 bytes of the handle are 0; no process filled it in"),
        HandleFlaw::Truncated(length) => Cut(length).fmt(f),
        HandleFlaw::Shifted { owner, by } => {
            write!(f, "the bytes of {handle} are those of a handle of {owner}, shifted by {}", Count(by.into(), "byte"))
        }
        HandleFlaw::RecordedElsewhere(pid) => {
            write!(f, "{handle} comes from process {pid}, which cupeer records elsewhere; start both with -o DIR")
        }
        flaw => {
            write!(f, "no process under cupeer exported {handle}")?;
            match flaw {
                HandleFlaw::ContainsPid { pid, is_running: Some(true) } => write!(
                    f,
                    "; its bytes name process {pid}, which runs, but not under cupeer, or has not exported this"
                ),
                HandleFlaw::ContainsPid { pid, is_running: Some(false) } => {
                    write!(f, "; its bytes name process {pid}, but no such process runs here")
                }
                HandleFlaw::ContainsPid { pid, is_running: None } => {
                    write!(f, "; its bytes name process {pid}")
                }
                HandleFlaw::ContainsNoPid => f.write_str("; its bytes do not contain the pid of a process"),
                _ if is_event => f.write_str("; its exporter may not run under cupeer"),
                _ => Ok(()),
            }
        }
    }
}

/// Writes the sentence of [`Reason::ExportedAgain`](crate::reason::Reason::ExportedAgain).
pub fn exported_again(what: Object, objects: u64, exports: u64, opened: u64, f: &mut Formatter) -> fmt::Result {
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

/// Writes the sentence of [`Reason::MemoryExhausted`](crate::reason::Reason::MemoryExhausted).
pub fn memory_exhausted(
    holder: &str,
    wanted: Option<u64>,
    left: Option<(u64, u64)>,
    device: Device,
    f: &mut Formatter,
) -> fmt::Result {
    f.write_str(holder)?;
    match left {
        Some((free, total)) => {
            write!(f, "; {} of {} were free on {device}", Size(free), Size(total))?;
        }
        None => write!(f, "; the recording does not show how much was free on {device}")?,
    }
    let Some(wanted) = wanted else { return Ok(()) };
    write!(f, ", and the call asked for {}", Size(wanted))?;
    left.map_or(Ok(()), |(free, _)| write_difference_if_hidden(wanted, free, f))
}

/// Writes the sentence of [`Reason::MemoryTooLarge`](crate::reason::Reason::MemoryTooLarge).
pub fn memory_too_large(wanted: u64, total: u64, device: Device, f: &mut Formatter) -> fmt::Result {
    write!(f, "the call asked for {}, and {device} has {} in all", Size(wanted), Size(total))?;
    write_difference_if_hidden(wanted, total, f)
}

/// Adds how many bytes were missing, if the rounded sizes look equal.
fn write_difference_if_hidden(wanted: u64, had: u64, f: &mut Formatter) -> fmt::Result {
    let is_hidden = wanted > had && wanted - had < had / 16;
    if is_hidden { write!(f, "; {} were missing", Size(wanted - had)) } else { Ok(()) }
}

/// Writes the sentence of [`Reason::PoolHandleType`](crate::reason::Reason::PoolHandleType).
pub fn pool_handle_type(wanted: u64, fault: PoolFault, f: &mut Formatter) -> fmt::Result {
    write!(f, "handleType is {}, but the pool ", HandleTypes(wanted))?;
    match fault {
        PoolFault::Types(types) => write!(f, "has handle types {}", HandleTypes(types)),
        PoolFault::Imported => f.write_str("was imported; an import cannot be exported again"),
        PoolFault::Default => f.write_str("is the default one of a device; default pools cannot be exported"),
        PoolFault::Destroyed => f.write_str("is destroyed"),
    }
}

/// Writes the sentence of [`Reason::PoolPointer`](crate::reason::Reason::PoolPointer).
pub fn pool_pointer(address: u64, fault: PointerFault, f: &mut Formatter) -> fmt::Result {
    match fault {
        PointerFault::NoPool => write!(f, "{address:#x} is not memory of a pool"),
        PointerFault::Imported => write!(f, "{address:#x} was imported; an import cannot be exported again"),
        PointerFault::NotExported { pool } => {
            write!(f, "{address:#x} is memory of pool {pool:#x}, which this process has not exported")
        }
        PointerFault::Inside => write!(f, "{address:#x} is inside an allocation, not at its start"),
    }
}

/// Writes the sentence of [`Reason::RanksWaitForDescriptor`](crate::reason::Reason::RanksWaitForDescriptor).
pub fn wait_for_descriptor(
    waiting: u64,
    missing: u64,
    senders: &str,
    least: u64,
    most: u64,
    f: &mut Formatter,
) -> fmt::Result {
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

/// Writes the sentence of [`Reason::ExchangeDiffers`](crate::reason::Reason::ExchangeDiffers).
#[expect(clippy::too_many_arguments, reason = "they are the fields of the reason")]
pub fn exchange_differs(
    process: Process,
    opened: u64,
    of: u64,
    lacks: u64,
    (newest, exporter): (Handle, Process),
    older: Option<Handle>,
    exported: Option<(u64, u64)>,
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "{process} opened {opened} of the {of} handles that the others exported and opened; it lacks ")?;
    match lacks {
        1 => write!(f, "{newest} of {exporter}")?,
        _ => write!(f, "{lacks}, the first of which is {newest} of {exporter}")?,
    }
    if let Some(older) = older {
        write!(f, "; it opened {older} after that was exported, which is an older one of the same place")?;
    }
    exported.map_or(Ok(()), |(own, each)| {
        write!(f, "; it exported {}, and each of the others {each}", Count(own, "handle"))
    })
}

/// Writes the sentence of [`Reason::RanksHoldDevice`](crate::reason::Reason::RanksHoldDevice).
pub fn hold_device(
    count: u64,
    ranks: &str,
    device: Device,
    owner: u32,
    exports: bool,
    allocated: u64,
    f: &mut Formatter,
) -> fmt::Result {
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
    )?;
    match allocated {
        0 => Ok(()),
        _ => write!(f, "; cuMemCreate allocated {} there", Bytes(allocated)),
    }
}

/// Writes the sentence of [`Reason::UseUnwritten`](crate::reason::Reason::UseUnwritten).
#[expect(clippy::too_many_arguments, reason = "they are the fields of the reason")]
pub fn unwritten(
    reader: Process,
    read: (u64, u64),
    size: u64,
    handle: Handle,
    owner: Option<Process>,
    writer: Process,
    wrote: (u64, u64),
    before: Ago,
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "{reader} read {} of ", Part(read))?;
    match owner {
        Some(owner) => write!(f, "{owner}'s {}", Bytes(size))?,
        None => write!(f, "its {}", Bytes(size))?,
    }
    write!(
        f,
        " ({handle}), where no recorded copy or memset wrote since the export; {writer} wrote {} {before} before, which nobody had read",
        Part(wrote)
    )
}

/// Writes the sentence of [`Reason::PilesUp`](crate::reason::Reason::PilesUp).
pub fn piles_up(what: Piled, left: u64, made: u64, bytes: u64, growth: Growth, f: &mut Formatter) -> fmt::Result {
    let (name, done, not_done) = what.words();
    write!(f, "{left} of {} {done} at this place", Count(made, name))?;
    if what == Piled::Allocations && growth == Growth::Unused {
        write!(f, " have no mapping any more, and a handle that was never released")?;
    } else {
        write!(f, " {not_done}{growth}")?;
    }
    match what {
        Piled::Events => {
            write!(f, "; a process can have 4,096 interprocess events (measured with driver 580)")
        }
        Piled::Reservations => write!(f, "; they take {} of addresses", Bytes(bytes)),
        _ if bytes > 0 => write!(f, "; they keep {}", Bytes(bytes)),
        _ => Ok(()),
    }
}

/// Writes the sentence of [`Reason::VmmDescriptor`](crate::reason::Reason::VmmDescriptor).
pub fn descriptor(
    name: &str,
    fd: i32,
    is_open: Option<bool>,
    owner: Option<Process>,
    ptrace: Option<Ptrace>,
    f: &mut Formatter,
) -> fmt::Result {
    if fd < 0 {
        write!(f, "{name} is {fd}, which is not a file descriptor; the call that should have returned one failed")?;
        match ptrace {
            Some(Ptrace { scope: 1.., is_capable: false, .. }) => write!(
                f,
                "; if that was pidfd_getfd, kernel.yama.ptrace_scope={} forbids it to this process, which lacks CAP_SYS_PTRACE",
                ptrace.map_or(0, |it| it.scope)
            ),
            _ => Ok(()),
        }
    } else {
        match is_open {
            Some(false) => write!(f, "{name} is {fd}, and this process has no file descriptor {fd}")?,
            Some(true) => write!(f, "file descriptor {fd} of this process is not exported memory")?,
            None => write!(f, "{name} is {fd}, which is not a file descriptor of exported memory in this process")?,
        }
        owner.map_or(Ok(()), |owner| {
            write!(f, "; {owner} exported memory as its own file descriptor {fd}, and each process has its own numbers")
        })
    }
}
