//! Sentences about virtual memory, multicast objects, and memory that is kept.

use super::{keeping, others};
use crate::reason::states::Ptrace;
use crate::reason::values::{Bytes, Count, Device, Growth, HandleTypes, Piled, Process};
use core::fmt::{self, Formatter};

/// [`Reason::VmmLeak`](crate::reason::Reason::VmmLeak).
pub fn leak(
    handles: u64,
    opened: u64,
    bytes: u64,
    freed: u64,
    growth: Growth,
    f: &mut Formatter,
) -> fmt::Result {
    let all = Count(opened, "allocation");
    write!(
        f,
        "{handles} of {all} imported at this place were never given up (unmapped and released){growth}"
    )?;
    keeping(f, bytes, freed)
}

/// [`Reason::PilesUp`](crate::reason::Reason::PilesUp).
pub fn piles_up(
    what: Piled,
    left: u64,
    made: u64,
    bytes: u64,
    growth: Growth,
    f: &mut Formatter,
) -> fmt::Result {
    let (name, done, not_done) = what.words();
    write!(f, "{left} of {} {done} at this place", Count(made, name))?;
    if what == Piled::Allocations && growth == Growth::Idle {
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

/// [`Reason::VmmHandleType`](crate::reason::Reason::VmmHandleType).
pub fn handle_type(wanted: u64, types: Option<u64>, f: &mut Formatter) -> fmt::Result {
    match types {
        Some(types) => write!(
            f,
            "handleType is {}, but the allocation has handle types {}",
            HandleTypes(wanted),
            HandleTypes(types)
        ),
        None => write!(
            f,
            "an imported allocation cannot be exported again, with any handle type; this call asks for {}",
            HandleTypes(wanted)
        ),
    }
}

/// [`Reason::VmmNoSuchDevice`](crate::reason::Reason::VmmNoSuchDevice).
pub fn no_such_device(device: i32, count: i32, f: &mut Formatter) -> fmt::Result {
    match count {
        1 => {
            write!(f, "desc names device {device}, but this process sees only device 0")
        }
        count => {
            write!(f, "desc names device {device}, but this process sees devices 0 to {}", count - 1)
        }
    }
}

/// [`Reason::VmmUnreachableDevice`](crate::reason::Reason::VmmUnreachableDevice).
pub fn unreachable_device(from: Device, to: Option<Device>, f: &mut Formatter) -> fmt::Result {
    match to {
        Some(to) => {
            write!(f, "{from} cannot reach the memory on {to}")
        }
        None => {
            write!(f, "{from} cannot reach the device where the memory is")
        }
    }
}

/// [`Reason::VmmFabricWithoutChannel`](crate::reason::Reason::VmmFabricWithoutChannel).
pub fn fabric_without_channel(is_known: bool, f: &mut Formatter) -> fmt::Result {
    match is_known {
        true => f.write_str(
                "requestedHandleTypes has FABRIC, but this process cannot open an IMEX channel; there is no /dev/nvidia-caps-imex-channels/channel* that it can open; the device's attribute does not show this",
            ),
        false => f.write_str(
                "requestedHandleTypes has FABRIC, which fails this way if the process cannot open any /dev/nvidia-caps-imex-channels/channel*",
            ),
    }
}

/// [`Reason::VmmDescriptorKind`](crate::reason::Reason::VmmDescriptorKind).
pub fn descriptor_kind(fd: i32, is_pool: bool, owner: Option<Process>, f: &mut Formatter) -> fmt::Result {
    let (kind, function) = match is_pool {
        true => ("a pool", "cuMemPoolImportFromShareableHandle"),
        false => ("memory of cuMemCreate", "cuMemImportFromShareableHandle"),
    };
    write!(f, "file descriptor {fd} is {kind}")?;
    owner.map_or(Ok(()), |owner| write!(f, " that {owner} exported"))?;
    write!(f, "; {function} imports it")
}

/// [`Reason::VmmDescriptor`](crate::reason::Reason::VmmDescriptor).
pub fn descriptor(
    name: &str,
    fd: i32,
    is_open: Option<bool>,
    owner: Option<Process>,
    ptrace: Option<Ptrace>,
    f: &mut Formatter,
) -> fmt::Result {
    if fd < 0 {
        write!(
            f,
            "{name} is {fd}, which is not a file descriptor; the call that should have returned one failed"
        )?;
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
            None => write!(
                f,
                "{name} is {fd}, which is not a file descriptor of exported memory in this process"
            )?,
        }
        owner.map_or(Ok(()), |owner| {
                    write!(f, "; {owner} exported memory as its own file descriptor {fd}, and each process has its own numbers")
                })
    }
}

/// [`Reason::VmmGranularity`](crate::reason::Reason::VmmGranularity).
pub fn granularity(name: &str, value: u64, granularity: u64, f: &mut Formatter) -> fmt::Result {
    match name {
        "size" => {
            write!(f, "size is {value}, which is not a multiple of the granularity ({})", Bytes(granularity))
        }
        name => {
            write!(
                f,
                "{name} is {value:#x}, which is not a multiple of the granularity ({})",
                Bytes(granularity)
            )
        }
    }
}

/// [`Reason::VmmPartialMapping`](crate::reason::Reason::VmmPartialMapping).
pub fn partial_mapping(offset: u64, size: u64, whole: Option<u64>, f: &mut Formatter) -> fmt::Result {
    match offset {
        0 => {
            write!(f, "size is {}", Bytes(size))?;
            match whole {
                Some(whole) => write!(f, ", but the allocation has {}", Bytes(whole))?,
                None => f.write_str(", but the allocation has another size")?,
            }
            f.write_str(", and must be mapped as a whole")
        }
        offset => write!(f, "offset is {offset}, and must be 0"),
    }
}

/// [`Reason::MulticastUnsupported`](crate::reason::Reason::MulticastUnsupported).
pub fn multicast_unsupported(device: Option<Device>, f: &mut Formatter) -> fmt::Result {
    match device {
        Some(device) => {
            write!(f, "{device} does not support multicast; CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED is 0")
        }
        None => {
            f.write_str("a device does not support multicast; CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED is 0")
        }
    }
}

/// [`Reason::MulticastDevice`](crate::reason::Reason::MulticastDevice).
pub fn multicast_device(device: Device, wanted: Option<u32>, f: &mut Formatter) -> fmt::Result {
    match wanted {
        None => {
            write!(f, "this process has added {device} to the multicast object already")
        }
        Some(wanted) => write!(
            f,
            "the multicast object was created for {}, which this process has already added; {device} is one too many",
            Count(u64::from(wanted), "device")
        ),
    }
}

/// [`Reason::VmmAccess`](crate::reason::Reason::VmmAccess).
pub fn access(
    mappings: u64,
    bytes: u64,
    start: u64,
    from: Device,
    home: Device,
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "only {home} ever had access to ")?;
    match mappings {
        1 => write!(f, "{} mapped at {start:#x}", Bytes(bytes))?,
        _ => write!(f, "{} ({} in all, the first at {start:#x})", Count(mappings, "mapping"), Bytes(bytes))?,
    }
    write!(
        f,
        "; this process enabled peer access from {from} to that device, but cuCtxEnablePeerAccess has no effect on memory that cuMemMap mapped"
    )
}

/// [`Reason::VmmNoAccess`](crate::reason::Reason::VmmNoAccess).
pub fn no_access(mappings: u64, bytes: u64, start: u64, f: &mut Formatter) -> fmt::Result {
    match mappings {
        1 => write!(f, "{} mapped at {start:#x} were", Bytes(bytes))?,
        _ => write!(
            f,
            "{}, {} in all, the first at {start:#x}, were",
            Count(mappings, "mapping"),
            Bytes(bytes)
        )?,
    }
    f.write_str(" never accessible to any device: cuMemSetAccess was not called for them")
}

/// [`Reason::MemoryKept`](crate::reason::Reason::MemoryKept).
pub fn memory_kept(
    bytes: u64,
    allocations: u64,
    owner: Option<Process>,
    holders: u64,
    first: Process,
    unmaps_nothing: bool,
    f: &mut Formatter,
) -> fmt::Result {
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
