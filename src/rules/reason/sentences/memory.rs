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
    wanted.map_or(Ok(()), |wanted| write!(f, ", and the call asked for {}", Size(wanted)))
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
