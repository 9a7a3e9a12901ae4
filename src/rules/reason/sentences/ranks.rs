//! Sentences about all ranks together.

use super::Only;
use crate::reason::{Ago, Bytes, Count, Handle, Process, values::Device};
use core::fmt::{self, Formatter};

/// [`Reason::RanksWaitForDescriptor`](crate::reason::Reason::RanksWaitForDescriptor).
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

/// [`Reason::ExchangeDiffers`](crate::reason::Reason::ExchangeDiffers).
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
    write!(
        f,
        "{process} opened {opened} of the {of} handles that the others exported and opened; it lacks "
    )?;
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

/// [`Reason::RanksHoldDevice`](crate::reason::Reason::RanksHoldDevice).
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

/// [`Reason::CopyThroughHost`](crate::reason::Reason::CopyThroughHost).
pub fn copy_through_host(
    bytes: u64,
    all: u64,
    from: Device,
    to: Device,
    holder: Process,
    since: Ago,
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "{}", Bytes(bytes))?;
    if all > bytes {
        write!(f, " of {}", Bytes(all))?;
    }
    write!(
        f,
        " from {from} to {to} went through host memory; {holder} had the memory at one end open for {since}, so a direct copy was possible"
    )
}
