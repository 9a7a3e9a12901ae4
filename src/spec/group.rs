//! The libraries of the functions, and their groups: the names that others are described by.

/// Library that defines a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Library {
    /// CUDA driver.
    Cuda,
    /// NVML, the management library.
    Nvml,
    /// CUDA runtime.
    Cudart,
}

impl Library {
    /// Returns the name by which programs load the library.
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
    pub fn matches_soname(self, soname: &[u8]) -> bool {
        match self {
            Library::Cudart => {
                soname.strip_prefix(b"libcudart").is_some_and(|rest| matches!(rest.first(), Some(b'.' | b'-')))
            }
            _ => self.soname().as_bytes() == soname,
        }
    }

    /// Returns the C type of the results of the library's functions.
    pub fn result_type(self) -> &'static str {
        match self {
            Library::Cuda => "CUresult",
            Library::Nvml => "nvmlReturn_t",
            Library::Cudart => "cudaError_t",
        }
    }
}

/// Declares the groups, and the list of them.
macro_rules! groups {
    ($($group:ident = $name:literal: $text:literal,)*) => {
        /// A family of functions: `@peer` in a trace set. [`Group::ALL`] describes each of them.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Group { $(#[doc = $text] $group,)* }

        impl Group {
            /// All groups, with the name after the `@`, and a description.
            pub const ALL: &'static [(Group, &'static str, &'static str)] = &[$((Group::$group, $name, $text)),*];
        }
    };
}
groups! {
    Peer = "peer": "peer access between devices",
    Ipc = "ipc": "legacy IPC, memory and events",
    IpcMem = "ipc-mem": "legacy IPC of memory",
    IpcEvent = "ipc-event": "legacy IPC of events",
    Lookup = "lookup": "look-ups of functions",
    Export = "export": "calls that export memory or an event",
    Open = "open": "calls that open what another process exported",
    Enable = "enable": "calls that enable access",
    Release = "release": "calls that close or disable",
    Lifetime = "lifetime": "calls that end what others may still use: free, destroy, reset",
    Vmm = "vmm": "virtual memory: allocations, mappings, access, and their sharing",
    Pool = "pool": "memory pools: their sharing, their access, and allocations from them",
    Alloc = "alloc": "allocations of device memory, of pools or not",
    Multicast = "multicast": "multicast objects: their devices, and the memory bound to them",
    Copy = "copy": "copies and memsets, recorded where they go from one device to another, or use memory that is gone",
    Launch = "launch": "kernel launches, recorded where a parameter is the address of memory that is gone",
    Graph = "graph": "launches, instantiations, and updates of graphs, recorded where a node uses memory that is gone",
    Event = "event": "records of CUDA events, recorded where they fail on an event of another process",
    Order = "order": "synchronizations, queries, waits, and host functions of streams and events, recorded after accesses to shared memory",
    Runtime = "runtime": "the runtime's own functions, where it is a shared library",
    Init = "init": "cuInit, recorded in a child that was forked after its parent initialized the driver",
    Query = "query": "queries that programs make all the time, and other calls without an effect on what is shared: device attributes, kernels, new contexts, NVML",
}

impl Group {
    /// Returns the name of the group, without the `@`.
    pub fn name(self) -> &'static str {
        Group::ALL[self as usize].1
    }
}
