//! Sentences about devices that have too little memory left.

use super::super::values::{Device, Size};
use core::fmt::{self, Formatter};

/// [`Reason::MemoryExhausted`](crate::reason::Reason::MemoryExhausted).
pub fn exhausted(
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
    left.map_or(Ok(()), |(free, _)| more(wanted, free, f))
}

/// [`Reason::MemoryTooLarge`](crate::reason::Reason::MemoryTooLarge).
pub fn too_large(wanted: u64, total: u64, device: Device, f: &mut Formatter) -> fmt::Result {
    write!(f, "the call asked for {}, and {device} has {} in all", Size(wanted), Size(total))?;
    more(wanted, total, f)
}

/// Adds how much was missing, if the rounded sizes do not show it.
fn more(wanted: u64, had: u64, f: &mut Formatter) -> fmt::Result {
    let is_hidden = wanted > had && wanted - had < had / 16;
    if is_hidden { write!(f, "; {} were missing", Size(wanted - had)) } else { Ok(()) }
}

/// [`Reason::MemoryRefused`](crate::reason::Reason::MemoryRefused).
pub fn refused(wanted: u64, (free, total): (u64, u64), device: Device, f: &mut Formatter) -> fmt::Result {
    write!(
        f,
        "the call asked for {}, and no range of free memory was that large: the free memory is fragmented, or a limit applies; {} of {} were free on {device}",
        Size(wanted),
        Size(free),
        Size(total)
    )
}
