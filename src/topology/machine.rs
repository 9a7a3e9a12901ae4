//! The parts of a machine: devices, links, and the methods of sharing memory over them.

use cupeer_spec::uuid::Uuid;
use std::fmt;

/// The most devices of one machine.
pub const MOST_DEVICES: usize = 64;

/// A device of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Name that `cuDeviceGetName` returns.
    pub name: String,
    /// The 16 bytes of the UUID, which is the same in every process.
    pub uuid: [u8; 16],
    /// PCI address of the device.
    pub pci: PciAddress,
    /// Size of the device's memory in bytes.
    pub memory: u64,
    /// Major and minor compute capability.
    pub compute_capability: (u32, u32),
}

impl Device {
    /// Returns the UUID in the form of nvidia-smi and CUDA_VISIBLE_DEVICES: `GPU-` and 8-4-4-4-12 digits.
    pub fn uuid_text(&self) -> String {
        Uuid(self.uuid).to_string()
    }
}

/// A PCI address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PciAddress {
    /// PCI domain.
    pub domain: u32,
    /// PCI bus.
    pub bus: u8,
    /// Number of the device on the bus.
    pub device: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:04X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }
}

/// Kind of a link, which determines the default values of a [`Link`].
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
    /// All kinds with their names in files.
    pub const ALL: &'static [(LinkKind, &'static str)] =
        &[(LinkKind::Nvlink, "nvlink"), (LinkKind::Pcie, "pcie"), (LinkKind::None, "none")];

    /// Returns the default capabilities of a link of this kind. Those of NVLink were recorded on two real
    /// devices; the others are inferred.
    pub fn default_link(self) -> Link {
        let linked = self != LinkKind::None;
        Link {
            can_access: linked,
            performance_rank: i32::from(self == LinkKind::Pcie),
            native_atomics: self == LinkKind::Nvlink,
            array_access: linked,
            partial_atomics: false,
            atomic_capabilities: [0; OPERATIONS],
            data: LinkDamage::Good,
            data_by: DataCarrier::Any,
            verdicts: [None; SharingMethod::ALL.len()],
        }
    }

    /// Returns the number of peers that a device can have on a machine with links of this kind; `None` for no
    /// limit. As the programming guide says, only NVLink switches have no limit.
    pub(crate) fn most_peers(self) -> Option<usize> {
        (self != LinkKind::Nvlink).then_some(8)
    }
}

/// Capabilities of the link from one device to the memory of another, in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, which is also the result of `cuDeviceCanAccessPeer`.
    pub can_access: bool,
    /// CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK.
    pub performance_rank: i32,
    /// CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED.
    pub native_atomics: bool,
    /// CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED.
    pub array_access: bool,
    /// CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED.
    pub partial_atomics: bool,
    /// Value that `cuDeviceGetP2PAtomicCapabilities` returns for each `CUatomicOperation`.
    pub atomic_capabilities: [u32; OPERATIONS],
    /// Damage that the link does to data.
    pub data: LinkDamage,
    /// Engine whose data the link damages.
    pub data_by: DataCarrier,
    /// Results of `cupeer doctor --p2p`, in the order of [`SharingMethod::ALL`].
    pub verdicts: [Option<MethodVerdict>; SharingMethod::ALL.len()],
}

/// Number of values of `CUatomicOperation`, including one that the driver accepts and does not document.
pub const OPERATIONS: usize = 13;

impl Link {
    /// Returns the result of `cupeer doctor --p2p` for a method over this link; `None` if the file contains
    /// no result.
    pub fn verdict(&self, way: SharingMethod) -> Option<MethodVerdict> {
        self.verdicts[way as usize]
    }

    /// Returns true if a result of `cupeer doctor --p2p` for this link is bad.
    pub fn is_bad(&self) -> bool {
        self.verdicts.iter().flatten().any(|verdict| verdict.is_bad())
    }

    /// Returns the damage to data that this carrier moves over the link.
    pub fn damage_for(&self, carrier: DataCarrier) -> LinkDamage {
        if self.data_by == DataCarrier::Any || self.data_by == carrier { self.data } else { LinkDamage::Good }
    }
}

/// Damage that a link does to data. The driver reports none of it to the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkDamage {
    /// All data arrives.
    Good,
    /// Writes never arrive. Reads are right.
    Lost,
    /// A write arrives with the next write. A read returns what the previous read of the same place saw.
    Stale,
    /// Reads and writes never return.
    Stall,
}

impl LinkDamage {
    /// All kinds of damage with their names in files.
    pub const ALL: &'static [(LinkDamage, &'static str)] = &[
        (LinkDamage::Good, "good"),
        (LinkDamage::Lost, "lost"),
        (LinkDamage::Stale, "stale"),
        (LinkDamage::Stall, "stall"),
    ];
}

/// Methods by which a program reaches memory of another device: `cupeer doctor --p2p` tests each of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SharingMethod {
    /// Peer access within a process: `cuCtxEnablePeerAccess`.
    Peer,
    /// A legacy handle between processes: `cuIpcOpenMemHandle`.
    Ipc,
    /// Virtual memory between processes, shared as a descriptor: `cuMemImportFromShareableHandle`.
    Vmm,
}

impl SharingMethod {
    /// All methods.
    pub const ALL: [SharingMethod; 3] = [SharingMethod::Peer, SharingMethod::Ipc, SharingMethod::Vmm];

    /// Returns the name of the method in files and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            SharingMethod::Peer => "peer",
            SharingMethod::Ipc => "ipc",
            SharingMethod::Vmm => "vmm",
        }
    }

    /// Returns a description of the method.
    pub fn description(self) -> &'static str {
        match self {
            SharingMethod::Peer => "peer access within a process",
            SharingMethod::Ipc => "legacy IPC between processes",
            SharingMethod::Vmm => "virtual memory shared as a descriptor",
        }
    }
}

/// Result of `cupeer doctor --p2p` for a method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MethodVerdict {
    /// All data arrives.
    Good,
    /// The memory contains other data than was written.
    Wrong,
    /// The memory contains earlier data, or the data arrives too late.
    Stale,
    /// A test of the method does not end.
    Stalls,
    /// A call that the method needs fails.
    Refused,
    /// The method was not tested.
    NotTested,
}

impl MethodVerdict {
    /// All results with their names in files.
    pub const ALL: &'static [(MethodVerdict, &'static str)] = &[
        (MethodVerdict::Good, "good"),
        (MethodVerdict::Wrong, "wrong"),
        (MethodVerdict::Stale, "stale"),
        (MethodVerdict::Stalls, "stalls"),
        (MethodVerdict::Refused, "refused"),
        (MethodVerdict::NotTested, "not-tested"),
    ];

    /// Returns the name of the result in files.
    pub fn name(self) -> &'static str {
        MethodVerdict::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    /// Returns true if a program should avoid the method.
    pub fn is_bad(self) -> bool {
        !matches!(self, MethodVerdict::Good | MethodVerdict::NotTested)
    }
}

/// Engine that moves data over a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataCarrier {
    /// A copy engine or a kernel.
    Any,
    /// A copy engine, as used by `cuMemcpyDtoD` and similar functions.
    Copies,
    /// A kernel, by its loads and stores.
    Kernels,
}

impl DataCarrier {
    /// All engines with their names in files.
    pub const ALL: &'static [(DataCarrier, &'static str)] =
        &[(DataCarrier::Any, "any"), (DataCarrier::Copies, "copies"), (DataCarrier::Kernels, "kernels")];
}

/// A machine: its devices, its links, and the options of the simulated driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// Devices, in the order of their physical indices.
    pub devices: Vec<Device>,
    /// Links between all devices, row by row: from the device of the row to the device of the column. Links
    /// from a device to itself have no meaning.
    pub(crate) links: Vec<Link>,
    /// True if modules load, and their kernels can be launched but have no effect. Otherwise, modules and
    /// kernels are not supported.
    pub skips_kernels: bool,
    /// True if the driver refuses to instantiate or update a graph with a copy or a memset of freed memory.
    /// Otherwise, as with other driver versions, the launch fails.
    pub checks_graphs: bool,
    /// True if the driver gives out handles again as early as the documentation allows. Otherwise, it does so
    /// as early as a real driver was seen to.
    pub reuses_early: bool,
    /// Seed for the order of asynchronous work, if the work is done as late as the rules allow; `None` if the
    /// work is done immediately.
    pub late: Option<u64>,
    /// Number of peers that a device can have; `None` if there is no limit.
    pub most_peers: Option<usize>,
    /// True if NVLink switches can write to the memory of several devices at once:
    /// `CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED`.
    pub has_multicast: bool,
}

/// Reason why a topology could not be read: one line that names the correct form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyError(pub(crate) String);

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for TopologyError {}

impl Topology {
    /// Returns the link from device `from` to the memory of device `to`. Both are indices in the machine.
    /// Returns `None` if both are the same device, or if the machine lacks one of them.
    pub fn link(&self, from: usize, to: usize) -> Option<&Link> {
        let count = self.devices.len();
        (from != to && from < count && to < count).then(|| &self.links[from * count + to])
    }

    /// Returns the index in the machine of the device with this UUID.
    pub fn index_of_uuid(&self, uuid: &[u8; 16]) -> Option<usize> {
        self.devices.iter().position(|device| device.uuid == *uuid)
    }
}
