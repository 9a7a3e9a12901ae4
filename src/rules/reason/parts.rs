//! Parts that several sentences share.

use super::values::{Ago, Bytes, Count, Handle, Process, Site};
use core::fmt::{self, Display, Formatter};
use cupeer_spec::uuid::GpuName;

/// Text with a value in it; empty if the value is `None`.
pub struct Clause<T>(pub &'static str, pub Option<T>, pub &'static str);

impl<T: Display> Display for Clause<T> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Clause(before, value, after) = self;
        value.as_ref().map_or(Ok(()), |value| write!(f, "{before}{value}{after}"))
    }
}

/// Value, or another text if the value is `None`.
pub struct Or<T>(pub Option<T>, pub &'static str);

impl<T: Display> Display for Or<T> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str(self.1),
        }
    }
}

/// Returns a number of bytes; `None` for 0.
pub fn some(bytes: u64) -> Option<Bytes> {
    (bytes > 0).then_some(Bytes(bytes))
}

/// Returns the text for a device with this UUID.
pub fn gpu(uuid: [u8; 16]) -> GpuName {
    GpuName { number: None, uuid }
}

/// Devices that a process sees: `only device 0`, `devices 0 to 3`.
pub struct Devices(pub i32);

impl Display for Devices {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self.0 {
            1 => f.write_str("only device 0"),
            count => write!(f, "devices 0 to {}", count - 1),
        }
    }
}

/// Time before the call, if known: ` 3.2 ms ago`.
pub struct When(pub Option<Ago>);

impl Display for When {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        self.0.map_or(Ok(()), |ago| write!(f, " {ago} ago"))
    }
}

/// Start and size of a range: `0x7f1200000000, 4 MiB`.
pub struct Range(pub (u64, u64));

impl Display for Range {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Range((start, bytes)) = *self;
        write!(f, "{start:#x}, {}", Bytes(bytes))
    }
}

/// Time and place of an earlier call, as far as known: ` 3.2 ms ago in thread 17 of app`.
pub struct Past<'a>(pub Option<Ago>, pub Option<Site<'a>>);

impl Display for Past<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        When(self.0).fmt(f)?;
        self.1.map_or(Ok(()), |site| write!(f, " in {site}"))
    }
}

/// Number of items that exist: `none`, or `only 2`.
pub struct Only(pub u64);

impl Display for Only {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        if self.0 == 0 { f.write_str("none") } else { write!(f, "only {}", self.0) }
    }
}

/// Number of bytes that are kept alive for others, and number of these bytes that their owners freed.
pub struct Kept(pub u64, pub u64);

impl Display for Kept {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Kept(bytes, freed) = *self;
        Clause("; they keep ", some(bytes), " of other processes' memory").fmt(f)?;
        Clause(", ", some(freed), " of which the owners freed").fmt(f)
    }
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

/// Memory that was freed too early: `0x10 (4 MiB) was freed while open in process 17; its handle is ipc:...`.
pub struct Freed(pub u64, pub u64, pub Handle, pub Importers);

impl Display for Freed {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Freed(address, bytes, handle, importers) = self;
        let size = Clause(" (", some(*bytes), ")");
        write!(f, "{address:#x}{size} was freed while open in {importers}; its handle is {handle}")
    }
}

/// Processes that have an object open: their number, and the first of them.
pub struct Importers(pub u64, pub Process);

impl Display for Importers {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Importers(count, first) = self;
        match count {
            0 | 1 => write!(f, "{first}"),
            2 => write!(f, "{first} and one more process"),
            count => write!(f, "{first} and {} more processes", count - 1),
        }
    }
}

/// Number of similar handles, with the verb: `handle was`, `8 handles were`.
pub struct Same(pub u64);

impl Display for Same {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        if self.0 == 1 { f.write_str("handle was") } else { write!(f, "{} were", Count(self.0, "handle")) }
    }
}

/// Clause with the name of a kernel, if it is known. Mangled names of templates have thousands of characters.
pub struct KernelName<'a>(pub &'a str);

impl Display for KernelName<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        const MOST_SHOWN: usize = 200;
        match self.0.char_indices().nth(MOST_SHOWN) {
            _ if self.0.is_empty() => Ok(()),
            Some((end, _)) => write!(f, "; the kernel is `{}...`", &self.0[..end]),
            None => write!(f, "; the kernel is `{}`", self.0),
        }
    }
}
