//! Sentences about devices, contexts, and peer access.

use crate::reason::states::HadContext;
use crate::reason::values::{Ago, Bytes, Count, Device};
use core::fmt::{self, Formatter};

/// [`Reason::UsedAfterFork`](crate::reason::Reason::UsedAfterFork).
pub fn used_after_fork(pid: u32, parent: Option<u32>, f: &mut Formatter) -> fmt::Result {
    match parent {
        Some(parent) => {
            write!(f, "process {pid} cannot use CUDA: its parent {parent} initialized CUDA before the fork")
        }
        None => write!(f, "process {pid} cannot use CUDA: its parent initialized CUDA before the fork"),
    }
}

/// [`Reason::ForkedAndKept`](crate::reason::Reason::ForkedAndKept).
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

/// [`Reason::NoCurrentContext`](crate::reason::Reason::NoCurrentContext).
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

/// [`Reason::DeviceOutOfRange`](crate::reason::Reason::DeviceOutOfRange).
pub fn device_out_of_range(
    name: &str,
    device: i32,
    count: i32,
    visible: Option<&str>,
    f: &mut Formatter,
) -> fmt::Result {
    match count {
        1 => write!(f, "{name} is {device}, but this process sees only device 0")?,
        _ => write!(f, "{name} is {device}, but this process sees devices 0 to {}", count - 1)?,
    }
    visible.map_or(Ok(()), |visible| write!(f, " (CUDA_VISIBLE_DEVICES={visible})"))
}

/// [`Reason::PeerSameDevice`](crate::reason::Reason::PeerSameDevice).
pub fn peer_same_device(
    device: Device,
    context: Option<u64>,
    is_current: bool,
    f: &mut Formatter,
) -> fmt::Result {
    match (context, is_current) {
        (None, _) => {
            write!(f, "both devices are {device}, but a link connects two different devices")
        }
        (Some(context), true) => write!(
            f,
            "peerContext {context:#x} is the current context itself, on {device}; a context cannot be its own peer"
        ),
        (Some(context), false) => {
            write!(f, "peerContext {context:#x} is on {device}, as the current context is")
        }
    }
}

/// [`Reason::AtomicOperations`](crate::reason::Reason::AtomicOperations).
pub fn atomic_operations(count: u32, operation: Option<i32>, f: &mut Formatter) -> fmt::Result {
    match (count, operation) {
        (0, _) => f.write_str("count is 0"),
        (_, Some(operation)) => {
            write!(f, "operations must be 0 to 12, as documented (has {operation})")
        }
        (count, _) => {
            write!(f, "one of the {count} operations is not an operation this driver knows")
        }
    }
}

/// [`Reason::PeerContextInvalid`](crate::reason::Reason::PeerContextInvalid).
pub fn peer_context_invalid(context: u64, f: &mut Formatter) -> fmt::Result {
    match context {
        0 => f.write_str("peerContext is NULL"),
        context => {
            write!(f, "peerContext {context:#x} was destroyed, reset, or released")
        }
    }
}

/// [`Reason::PeerNotEnabled`](crate::reason::Reason::PeerNotEnabled).
pub fn peer_not_enabled(from: Device, to: Device, reverse: bool, f: &mut Formatter) -> fmt::Result {
    write!(f, "access from {from} to {to} is not enabled; ")?;
    match reverse {
        true => f.write_str("only the opposite direction is enabled"),
        false => write!(f, "the current context is on {from}, and peerContext on {to}"),
    }
}

/// [`Reason::PeerLimit`](crate::reason::Reason::PeerLimit).
pub fn peer_limit(device: Device, known: u64, processes: u64, f: &mut Formatter) -> fmt::Result {
    match known {
        0 => {
            write!(f, "{device} has reached its limit of peers")
        }
        known => write!(
            f,
            "{device} has reached its limit of peers; this job has enabled {} of them, in {}",
            known,
            Count(processes, "process")
        ),
    }
}
