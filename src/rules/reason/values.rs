//! The values in the sentences of [`super`]: devices, processes, handles, times, sizes, and kinds of memory.

use crate::rule::Rule;
use core::fmt::{self, Display, Formatter};
use cupeer_spec::uuid::{GpuName, ShortUuid};
use cupeer_spec::value::Shareable;

/// A device as people know it: the number that the process has for it, and its UUID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// Number of the device in the process; -1 if unknown.
    pub ordinal: i32,
    /// UUID of the device; zeros if unknown.
    pub uuid: [u8; 16],
}

impl Display for Device {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match (self.ordinal >= 0, self.uuid != [0; 16]) {
            (true, true) => write!(f, "device {} ({})", self.ordinal, ShortUuid(self.uuid)),
            (true, false) => write!(f, "device {}", self.ordinal),
            (false, true) => GpuName { number: None, uuid: self.uuid }.fmt(f),
            (false, false) => f.write_str("an unknown device"),
        }
    }
}

/// Rounded size in bytes: `69.9 GiB`, or `105 GiB`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(pub u64);

impl Display for Size {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        // Choose the unit after rounding, so that 1,023.96 MiB become 1 GiB.
        let unit = (1..UNITS.len()).rev().find(|unit| tenths_of_unit(self.0, *unit) >= 10);
        match (unit, tenths_of_unit(self.0, 0)) {
            (None, ..10) => write!(f, "{} bytes", self.0),
            (unit, _) => {
                let (unit, tenths) = (UNITS[unit.unwrap_or(0)], tenths_of_unit(self.0, unit.unwrap_or(0)));
                match (tenths / 10, tenths % 10) {
                    (whole @ ..100, part @ 1..) => write!(f, "{whole}.{part} {unit}"),
                    (..100, _) => write!(f, "{} {unit}", tenths / 10),
                    _ => write!(f, "{} {unit}", (tenths + 5) / 10),
                }
            }
        }
    }
}

/// Returns a number of bytes in tenths of a unit, rounded.
fn tenths_of_unit(bytes: u64, unit: usize) -> u64 {
    let tenth = 1024u128.pow(unit as u32 + 1);
    ((u128::from(bytes) * 10 + tenth / 2) / tenth) as u64
}

/// A process as people know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    /// Pid in the process's own namespace.
    pub pid: u32,
    /// Rank of the process; `None` if it has none.
    pub rank: Option<u32>,
}

impl Display for Process {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self.rank {
            Some(rank) => write!(f, "process {} (rank {rank})", self.pid),
            None => write!(f, "process {}", self.pid),
        }
    }
}

/// Place of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site<'a> {
    /// Thread id of the caller.
    pub tid: u32,
    /// File name of the library that made the call; empty if unknown.
    pub library: &'a str,
    /// Offset of the call in the library.
    pub offset: u64,
}

impl Display for Site<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self.library {
            "" => write!(f, "thread {}", self.tid),
            library => write!(f, "thread {} at {library}+{:#x}", self.tid, self.offset),
        }
    }
}

/// A handle, by the fingerprint that stands for its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle(pub u64);

impl Display for Handle {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "{}:{:016x}", Shareable::fingerprint_prefix(self.0), self.0)
    }
}

/// Flaw in the bytes of a handle that no process exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandleFlaw {
    /// All bytes are 0.
    Zero,
    /// All bytes are 0, except this number of leading bytes.
    Truncated(u8),
    /// The bytes are a handle of this job's process, moved to another offset.
    Shifted {
        /// Process that exported the handle.
        owner: Process,
        /// Number of bytes by which the handle was moved.
        by: u8,
    },
    /// The bytes contain the pid of a process that another recording of cupeer includes.
    RecordedElsewhere(u32),
    /// The bytes contain the pid of a process.
    ContainsPid {
        /// Pid in the bytes.
        pid: u32,
        /// True if a process with this pid is running; `None` if unknown.
        is_running: Option<bool>,
    },
    /// The bytes contain no pid.
    ContainsNoPid,
    /// The bytes are unknown, or of a kind of handle that contains no pid.
    Unknown,
}

/// Time that has passed since something happened, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ago(pub u64);

impl Display for Ago {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self.0 {
            ns @ 0..1_000_000 => write!(f, "{} us", ns / 1000),
            ns @ 1_000_000..1_000_000_000 => write!(f, "{}.{} ms", ns / 1_000_000, ns / 100_000 % 10),
            ns => write!(f, "{}.{} s", ns / 1_000_000_000, ns / 100_000_000 % 10),
        }
    }
}

/// Pattern in which objects of a place accumulate, such as open handles, mappings, pools, or contexts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth<'a> {
    /// The place releases most of the objects that it creates, and leaves the others.
    SomeLeft,
    /// Some handles were left open after `of` of `all` marks of a similar name.
    Marks {
        /// Number of marks after which a handle was left open.
        of: u64,
        /// Number of marks since the first open.
        all: u64,
        /// Name of one of the marks.
        example: &'a str,
    },
    /// Objects were left in nearly all of 8 equal parts of the time from the first one to the end of the
    /// process.
    Time {
        /// That time, in nanoseconds.
        over: u64,
    },
    /// The open handles are unused, and the place opened more afterwards.
    Unused,
    /// Each exchange with another process leaves one more object, and the exchanges go on until the process
    /// ends.
    PerExchange,
    /// Other processes of the program release such objects.
    UnlikeOtherProcesses,
}

impl Display for Growth<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match *self {
            Growth::SomeLeft | Growth::Unused => Ok(()),
            Growth::PerExchange => write!(f, ", one more with each exchange"),
            Growth::UnlikeOtherProcesses => {
                write!(f, ", while other processes of this program closed theirs")
            }
            Growth::Marks { of, all, example: like } => {
                write!(f, ", some after {of} of {all} marks such as '{like}'")
            }
            Growth::Time { over } => write!(f, ", throughout {}", Ago(over)),
        }
    }
}

/// Kind of objects that code at one place creates and does not release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piled {
    /// Allocations of cuMemCreate, by their handles.
    Allocations,
    /// Mappings of cuMemMap.
    Mappings,
    /// Reserved addresses.
    Reservations,
    /// Memory pools.
    Pools,
    /// Contexts that the process created itself.
    Contexts,
    /// Exported memory.
    Exports,
    /// Exported events.
    Events,
    /// Descriptors that were exported.
    Descriptors,
    /// Descriptors that were imported.
    ImportedDescriptors,
}

impl Piled {
    /// Returns the words for the objects, the call that creates them, and the call that is missing.
    pub(super) fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Piled::Allocations => ("allocation", "made", "were never released"),
            Piled::Mappings => ("mapping", "made", "were never unmapped"),
            Piled::Reservations => ("address range", "reserved", "have no mapping and were never freed"),
            Piled::Pools => ("pool", "made", "were never destroyed"),
            Piled::Contexts => ("context", "created", "were never destroyed"),
            Piled::Exports => ("allocation", "exported", "were never freed, although each importer closed them"),
            Piled::Events => ("interprocess event", "exported", "were never destroyed"),
            Piled::Descriptors => ("file descriptor", "exported", "seem never to be closed"),
            Piled::ImportedDescriptors => ("file descriptor", "imported", "seem never to be closed"),
        }
    }

    /// Returns the advice for these objects.
    pub fn hint(self) -> &'static str {
        match self {
            Piled::Allocations => {
                "Call cuMemRelease for the handle of cuMemCreate after cuMemMap: the mapping keeps the memory until cuMemUnmap. A handle of cuMemRetainAllocationHandle needs a release of its own. Look for an error path that returns before the release."
            }
            Piled::Mappings => "Call cuMemUnmap when a mapping is not used any more.",
            Piled::Reservations => {
                "Call cuMemAddressFree after cuMemUnmap, or reserve once, and map at the same address again."
            }
            Piled::Pools => {
                "Call cuMemPoolDestroy when the last memory of a pool was freed, or use one pool for all. An imported pool is destroyed, too."
            }
            Piled::Contexts => {
                "Call cuCtxDestroy when a task is done, also where it fails, or use the primary context of the device (cuDevicePrimaryCtxRetain) for all tasks."
            }
            Piled::Exports => {
                "Free the memory when its importers have closed it (count them), or use a fixed number of buffers again."
            }
            Piled::Events => {
                "Call cuEventDestroy when the importer has waited for the event, or record one event per peer or buffer again."
            }
            Piled::Descriptors | Piled::ImportedDescriptors => {
                "Close each file descriptor after you send it (sendmsg) or import it."
            }
        }
    }
}

/// Exact size in bytes, in the largest unit that divides it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self.0 {
            n if n != 0 && n % (1 << 40) == 0 => write!(f, "{} TiB", n >> 40),
            n if n != 0 && n % (1 << 30) == 0 => write!(f, "{} GiB", n >> 30),
            n if n != 0 && n % (1 << 20) == 0 => write!(f, "{} MiB", n >> 20),
            n if n != 0 && n % (1 << 10) == 0 => write!(f, "{} KiB", n >> 10),
            1 => f.write_str("1 byte"),
            n => write!(f, "{n} bytes"),
        }
    }
}

/// Bytes within some memory: their offset, and their number.
pub struct Part(pub (u64, u64));

impl Display for Part {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let (offset, bytes) = self.0;
        match offset {
            0 => write!(f, "{} at offset 0", Bytes(bytes)),
            _ => write!(f, "{} at offset {}", Bytes(bytes), Bytes(offset)),
        }
    }
}

/// Number with its noun: `1 process`, `2 processes`.
pub(super) struct Count(pub u64, pub &'static str);

impl Display for Count {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let plural = match (self.0, self.1.ends_with('s')) {
            (1, _) => "",
            (_, true) => "es",
            _ => "s",
        };
        write!(f, "{} {}{plural}", self.0, self.1)
    }
}

/// Number of repetitions: `once`, `2 times`.
pub(super) struct Times(pub u64);

impl Display for Times {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        if self.0 == 1 { f.write_str("once") } else { write!(f, "{} times", self.0) }
    }
}

/// Kind of memory at a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryKind {
    /// Virtual memory (cuMemCreate and cuMemMap).
    Virtual,
    /// Memory of a pool (cuMemAllocAsync).
    Pool,
    /// Managed memory (cuMemAllocManaged).
    Managed,
    /// Host memory that the driver allocated or registered.
    Host,
    /// Other memory.
    Other,
}

impl MemoryKind {
    pub(super) fn words(self) -> &'static str {
        match self {
            MemoryKind::Virtual => "virtual memory (cuMemCreate and cuMemMap)",
            MemoryKind::Pool => "memory of a pool (cuMemAllocAsync or cudaMallocAsync)",
            MemoryKind::Managed => "managed memory (cuMemAllocManaged)",
            MemoryKind::Host => "host memory (cuMemAllocHost or cuMemHostRegister)",
            MemoryKind::Other => "memory of a kind that has no legacy handle",
        }
    }

    /// Returns the advice for this kind of memory.
    pub fn hint(self) -> &'static str {
        match self {
            MemoryKind::Virtual => {
                "Share the memory with cuMemExportToShareableHandle, or allocate shared memory with cudaMalloc."
            }
            MemoryKind::Pool => {
                "Allocate shared memory with cudaMalloc or cuMemAlloc. Or create a pool with a handle type (cuMemPoolCreate), and share it with cuMemPoolExportToShareableHandle and cuMemPoolExportPointer."
            }
            MemoryKind::Managed => {
                "Copy the data to memory from cudaMalloc, and share that. Managed memory cannot be shared between processes."
            }
            MemoryKind::Host => {
                "Share host memory between processes with shm_open or mmap, and register it in each process (cuMemHostRegister)."
            }
            MemoryKind::Other => Rule::IpcMemoryKind.spec().hint(),
        }
    }
}

/// Handle types with which memory was created: bits of CUmemAllocationHandleType.
pub(super) struct HandleTypes(pub u64);

impl Display for HandleTypes {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("NONE");
        }
        let names = [(1, "POSIX_FILE_DESCRIPTOR"), (2, "WIN32"), (4, "WIN32_KMT"), (8, "FABRIC")];
        let mut separator = "";
        for (_, name) in names.iter().filter(|(bit, _)| self.0 & bit != 0) {
            write!(f, "{separator}{name}")?;
            separator = " and ";
        }
        Ok(())
    }
}
/// Reason why a pool cannot be exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolFault {
    /// The pool was created with these handle types.
    Types(u64),
    /// The pool was imported.
    Imported,
    /// It is the default pool of a device.
    Default,
    /// The pool was destroyed.
    Destroyed,
}

/// Reason why memory of a pool cannot be exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PointerFault {
    /// The memory is not from a pool.
    NoPool,
    /// The memory was imported.
    Imported,
    /// Its pool was not exported.
    NotExported {
        /// Handle of the pool.
        pool: u64,
    },
    /// The pointer is not the start of an allocation.
    Inside,
}
