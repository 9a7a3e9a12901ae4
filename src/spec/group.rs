//! The libraries of the functions, and their groups: the names that others are described by.

/// The library in which a function really lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Library {
    /// The driver.
    Cuda,
    /// The management library.
    Nvml,
    /// The runtime.
    Cudart,
}

impl Library {
    /// The name by which programs load it.
    pub fn soname(self) -> &'static str {
        match self {
            Library::Cuda => "libcuda.so.1",
            Library::Nvml => "libnvidia-ml.so.1",
            Library::Cudart => "libcudart.so",
        }
    }

    /// Returns true if an object with this soname is the library. The runtime's name has a version, and
    /// packagers extend it: `libcudart.so.12`, `libcudart-0b9d5b6d.so.12.4.127`.
    #[inline]
    pub fn is_called(self, soname: &[u8]) -> bool {
        match self {
            Library::Cudart => soname
                .strip_prefix(b"libcudart")
                .is_some_and(|rest| matches!(rest.first(), Some(b'.' | b'-'))),
            _ => self.soname().as_bytes() == soname,
        }
    }

    /// The type of its results in C.
    pub fn result_type(self) -> &'static str {
        match self {
            Library::Cuda => "CUresult",
            Library::Nvml => "nvmlReturn_t",
            Library::Cudart => "cudaError_t",
        }
    }
}

/// A family of functions: `@peer` in a trace set. [`Group::ALL`] describes each of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Group {
    Peer,
    Ipc,
    IpcMem,
    IpcEvent,
    Lookup,
    Export,
    Open,
    Enable,
    Release,
    Lifetime,
    Query,
    /// Virtual memory management.
    Vmm,
    Pool,
    Alloc,
    /// Multicast objects, which are a part of it.
    Multicast,
    Copy,
    Launch,
    Graph,
    /// Records of CUDA events.
    Event,
    /// Calls that order the work of streams.
    Order,
    /// Functions of the runtime.
    Runtime,
    /// The initialization of the driver.
    Init,
}

const ALL: &[(Group, &str, &str)] = Group::ALL;
static GROUPS: [Group; ALL.len()] = crate::fields!(ALL.0: Group = Group::Peer);
crate::texts!(static NAMES = ALL.1);

impl Group {
    /// All groups, with the name after the `@`, and a description. Code that runs inside programs uses
    /// [`Group::names`], which needs no relocations.
    pub const ALL: &'static [(Group, &'static str, &'static str)] = &[
        (Group::Peer, "peer", "peer access between devices"),
        (Group::Ipc, "ipc", "legacy IPC, memory and events"),
        (Group::IpcMem, "ipc-mem", "legacy IPC of memory"),
        (Group::IpcEvent, "ipc-event", "legacy IPC of events"),
        (Group::Lookup, "lookup", "look-ups of functions"),
        (Group::Export, "export", "calls that export memory or an event"),
        (Group::Open, "open", "calls that open what another process exported"),
        (Group::Enable, "enable", "calls that enable access"),
        (Group::Release, "release", "calls that close or disable"),
        (Group::Lifetime, "lifetime", "calls that end what others may still use: free, destroy, reset"),
        (Group::Vmm, "vmm", "virtual memory: allocations, mappings, access, and their sharing"),
        (Group::Pool, "pool", "memory pools: their sharing, their access, and allocations from them"),
        (Group::Alloc, "alloc", "allocations of device memory, of pools or not"),
        (Group::Multicast, "multicast", "multicast objects: their devices, and the memory bound to them"),
        (
            Group::Copy,
            "copy",
            "copies and memsets, recorded where they go from one device to another, or use memory that is gone",
        ),
        (
            Group::Launch,
            "launch",
            "kernel launches, recorded where a parameter is the address of memory that is gone",
        ),
        (
            Group::Graph,
            "graph",
            "launches, instantiations, and updates of graphs, recorded where a node uses memory that is gone",
        ),
        (
            Group::Event,
            "event",
            "records of CUDA events, recorded where they fail on an event of another process",
        ),
        (
            Group::Order,
            "order",
            "synchronizations, queries, waits, and host functions of streams and events, recorded after accesses to shared memory",
        ),
        (Group::Runtime, "runtime", "the runtime's own functions, where it is a shared library"),
        (
            Group::Init,
            "init",
            "cuInit, recorded in a child that was forked after its parent initialized the driver",
        ),
        (
            Group::Query,
            "query",
            "queries that programs make all the time, and other calls without an effect on what is shared: device attributes, kernels, new contexts, NVML",
        ),
    ];

    /// All groups, with the name that follows the `@`.
    pub fn names() -> impl Iterator<Item = (Group, &'static str)> {
        GROUPS.iter().copied().zip(NAMES.all())
    }

    /// The name that follows the `@`.
    pub fn name(self) -> &'static str {
        Self::names().find(|(group, _)| *group == self).map_or("", |(_, name)| name)
    }
}
