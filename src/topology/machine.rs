//! The parts of a machine: devices, links, and the ways over them.

use cupeer_spec::uuid::Uuid;
use std::fmt;

/// The most devices of one machine.
pub const MOST_DEVICES: usize = 64;

/// One device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// What `cuDeviceGetName` says.
    pub name: String,
    /// The 16 bytes of its UUID: what names it in every process.
    pub uuid: [u8; 16],
    /// Where it sits on the PCI bus.
    pub pci: PciAddress,
    /// Bytes of memory.
    pub memory: u64,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
}

impl Device {
    /// The UUID as nvidia-smi prints it and CUDA_VISIBLE_DEVICES takes it: `GPU-` and 8-4-4-4-12 digits.
    pub fn uuid_text(&self) -> String {
        Uuid(self.uuid).to_string()
    }
}

/// A PCI address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PciAddress {
    /// The domain.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    /// The device on the bus.
    pub device: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:04X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }
}

/// A kind of link: what the numbers of a [`Link`] are where nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkKind {
    /// NVLink: access and native atomics.
    Nvlink,
    /// PCI Express: access without native atomics.
    Pcie,
    /// No peer access.
    None,
}

impl LinkKind {
    /// All kinds with their names.
    pub const ALL: &'static [(LinkKind, &'static str)] =
        &[(LinkKind::Nvlink, "nvlink"), (LinkKind::Pcie, "pcie"), (LinkKind::None, "none")];

    /// The numbers of this kind. Those of NVLink are recorded on a real pair; the others are inferred.
    pub fn link(self) -> Link {
        let linked = self != LinkKind::None;
        Link {
            can_access: linked,
            performance_rank: i32::from(self == LinkKind::Pcie),
            native_atomics: self == LinkKind::Nvlink,
            array_access: linked,
            partial_atomics: false,
            atomic_capabilities: [0; OPERATIONS],
            data: Data::Good,
            data_by: Carrier::Any,
            verdicts: [None; Way::ALL.len()],
        }
    }

    /// How many peers a device has room for on a machine of such links: only the switches of NVLink have no limit, as the
    /// programming guide says.
    pub(crate) fn most_peers(self) -> Option<usize> {
        (self != LinkKind::Nvlink).then_some(8)
    }
}

/// What one device can do with the memory of another: one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, and what `cuDeviceCanAccessPeer` says.
    pub can_access: bool,
    /// CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK.
    pub performance_rank: i32,
    /// CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED.
    pub native_atomics: bool,
    /// CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED.
    pub array_access: bool,
    /// CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED.
    pub partial_atomics: bool,
    /// What `cuDeviceGetP2PAtomicCapabilities` says of each `CUatomicOperation`.
    pub atomic_capabilities: [u32; OPERATIONS],
    /// What becomes of data on it.
    pub data: Data,
    /// Whose data that is.
    pub data_by: Carrier,
    /// What `cupeer doctor --p2p` has found, in the order of [`Way::ALL`].
    pub verdicts: [Option<Verdict>; Way::ALL.len()],
}

/// How many operations `CUatomicOperation` has, with the one that the driver knows and does not document.
pub const OPERATIONS: usize = 13;

impl Link {
    /// What was found of a way over it.
    pub fn verdict(&self, way: Way) -> Option<Verdict> {
        self.verdicts[way as usize]
    }

    /// Whether a way over it was tested and is bad.
    pub fn is_bad(&self) -> bool {
        self.verdicts.iter().flatten().any(|verdict| verdict.is_bad())
    }

    /// What becomes of data that something takes over the link.
    pub fn data_of(&self, carrier: Carrier) -> Data {
        if self.data_by == Carrier::Any || self.data_by == carrier { self.data } else { Data::Good }
    }
}

/// What becomes of data on a link. None of it is an error that a program would see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Data {
    /// It arrives.
    Good,
    /// What is written never arrives; what is read is right.
    Lost,
    /// What is written arrives with the next write; what is read is what the read before of the same place saw.
    Stale,
    /// Whoever reads or writes waits for ever.
    Stall,
}

impl Data {
    /// All with their names.
    pub const ALL: &'static [(Data, &'static str)] =
        &[(Data::Good, "good"), (Data::Lost, "lost"), (Data::Stale, "stale"), (Data::Stall, "stall")];
}

/// How a program reaches memory of another device: what `cupeer doctor --p2p` tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Peer access within a process: `cuCtxEnablePeerAccess`.
    Peer,
    /// A legacy handle between processes: `cuIpcOpenMemHandle`.
    Ipc,
    /// Virtual memory between processes, shared as a descriptor: `cuMemImportFromShareableHandle`.
    Vmm,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 3] = [Way::Peer, Way::Ipc, Way::Vmm];

    /// Its name in files and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Way::Peer => "peer",
            Way::Ipc => "ipc",
            Way::Vmm => "vmm",
        }
    }

    /// What it is.
    pub fn doc(self) -> &'static str {
        match self {
            Way::Peer => "peer access within a process",
            Way::Ipc => "legacy IPC between processes",
            Way::Vmm => "virtual memory shared as a descriptor",
        }
    }
}

/// What `cupeer doctor --p2p` says of a way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All data arrives.
    Good,
    /// Other data is there than was written.
    Wrong,
    /// Data of before is there, or arrives too late.
    Stale,
    /// It does not end.
    Stalls,
    /// A call fails.
    Refused,
    /// It was not tried.
    NotTested,
}

impl Verdict {
    /// All with their names.
    pub const ALL: &'static [(Verdict, &'static str)] = &[
        (Verdict::Good, "good"),
        (Verdict::Wrong, "wrong"),
        (Verdict::Stale, "stale"),
        (Verdict::Stalls, "stalls"),
        (Verdict::Refused, "refused"),
        (Verdict::NotTested, "not-tested"),
    ];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        Verdict::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    /// Whether a program had better do without.
    pub fn is_bad(self) -> bool {
        !matches!(self, Verdict::Good | Verdict::NotTested)
    }
}

/// What takes data over a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// Either.
    Any,
    /// A copy engine: `cuMemcpyDtoD` and its like.
    Copies,
    /// A kernel's loads and stores.
    Kernels,
}

impl Carrier {
    /// All with their names.
    pub const ALL: &'static [(Carrier, &'static str)] =
        &[(Carrier::Any, "any"), (Carrier::Copies, "copies"), (Carrier::Kernels, "kernels")];
}

/// A machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    pub(crate) devices: Vec<Device>,
    /// Row `from`, column `to`; the diagonal is never asked for.
    pub(crate) links: Vec<Link>,
    pub(crate) skips_kernels: bool,
    pub(crate) checks_graphs: bool,
    pub(crate) reuses_early: bool,
    pub(crate) late: Option<u64>,
    pub(crate) most_peers: Option<usize>,
    pub(crate) has_multicast: bool,
}

/// Why a topology could not be read: one line that says what would be right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyError(pub(crate) String);

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for TopologyError {}

impl Topology {
    /// The devices, in the order of their physical indices.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// What device `from` can do with the memory of device `to`, both physical indices. `None` for a device
    /// with itself, and for indices that the machine lacks.
    pub fn link(&self, from: usize, to: usize) -> Option<&Link> {
        let count = self.devices.len();
        (from != to && from < count && to < count).then(|| &self.links[from * count + to])
    }

    /// Whether modules load and their kernels launch and do nothing; without it, neither is supported.
    pub fn skips_kernels(&self) -> bool {
        self.skips_kernels
    }

    /// Whether instantiating and updating a graph is refused where a copy or a memset uses memory that is gone. Machines of one driver
    /// version differ in that; without it, the graph runs into that memory.
    pub fn checks_graphs(&self) -> bool {
        self.checks_graphs
    }

    /// Whether handles are given out again as early as the documentation allows; without it, as early as a driver was seen to.
    pub fn reuses_early(&self) -> bool {
        self.reuses_early
    }

    /// The seed of the order in which work is done that nothing orders, where asynchronous work is done as late as the rules allow;
    /// `None` where it is done at once.
    pub fn late(&self) -> Option<u64> {
        self.late
    }

    /// How many peers a device has room for; `None` where that has no limit.
    pub fn most_peers(&self) -> Option<usize> {
        self.most_peers
    }

    /// Whether switches between the devices pass on what is written to one address to the memory of several:
    /// `CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED`.
    pub fn has_multicast(&self) -> bool {
        self.has_multicast
    }

    /// The physical index of the device with this UUID.
    pub fn index_of(&self, uuid: &[u8; 16]) -> Option<usize> {
        self.devices.iter().position(|device| device.uuid == *uuid)
    }
}
