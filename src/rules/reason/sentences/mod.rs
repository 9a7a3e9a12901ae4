//! Sentences with several cases, and parts that several sentences share. The others are in the entries of the
//! rules.

pub mod devices;
pub mod ipc;
pub mod memory;
pub mod pools;
pub mod ranks;
pub mod uses;
pub mod vmm;

use super::values::{Ago, Bytes, Count, Handle, Process, Site};
use core::fmt::{self, Display, Formatter};

/// `memory` or `an event`.
pub fn thing(is_event: bool) -> &'static str {
    if is_event { "the event" } else { "the memory" }
}

/// ` 3.2 ms ago`, if known.
pub struct When(pub Option<Ago>);

impl Display for When {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        self.0.map_or(Ok(()), |ago| write!(f, " {ago} ago"))
    }
}

/// `0x7f1200000000, 4 MiB`: start of a range, and its size.
pub struct Range(pub (u64, u64));

impl Display for Range {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Range((start, bytes)) = *self;
        write!(f, "{start:#x}, {}", Bytes(bytes))
    }
}

/// ` 3.2 ms ago in thread 17 of app`, if known.
pub struct Past<'a>(pub Option<Ago>, pub Option<Site<'a>>);

impl Display for Past<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        When(self.0).fmt(f)?;
        self.1.map_or(Ok(()), |site| write!(f, " in {site}"))
    }
}

/// `none`, or `only 2`.
pub struct Only(pub u64);

impl Display for Only {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        if self.0 == 0 { f.write_str("none") } else { write!(f, "only {}", self.0) }
    }
}

/// Writes the amount of memory that is kept for others, and how much of it its owners freed.
pub fn keeping(f: &mut Formatter, bytes: u64, freed: u64) -> fmt::Result {
    if bytes > 0 {
        write!(f, "; they keep {} of other processes' memory", Bytes(bytes))?;
    }
    if freed > 0 {
        write!(f, ", {} of which the owners freed", Bytes(freed))?;
    }
    Ok(())
}

/// Text for a truncated handle, with the number of bytes that are left.
pub struct Cut(pub u8);

impl Display for Cut {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let first = Count(self.0.into(), "byte");
        write!(
            f,
            "the handle is 0 after its first {first}: it was cut, by a copy that was too short or stopped at a 0, as strcpy and ctypes' c_char arrays do"
        )
    }
}

/// `0x10 (4 MiB) was freed while open in process 17; its handle is ipc:...`.
pub fn freed(
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

pub fn others(importers: u64, first: Process, f: &mut Formatter) -> fmt::Result {
    match importers {
        0 | 1 => write!(f, "{first}"),
        2 => write!(f, "{first} and one more process"),
        n => write!(f, "{first} and {} more processes", n - 1),
    }
}
