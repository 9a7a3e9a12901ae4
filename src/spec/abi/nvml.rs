//! NVML's C types, as far as the functions of the table use them: with the size and alignment that nvml.h gives them.

// Names are those of nvml.h. The names of fields without a comment describe them.
#![allow(non_camel_case_types, missing_docs)]

use core::ffi::{c_char, c_void};

/// `nvmlReturn_t`: result of an NVML function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct nvmlReturn_t(pub i32);

handles! {
    /// `nvmlDevice_t`: a device of the machine, opaque. CUDA_VISIBLE_DEVICES hides no device from NVML.
    nvmlDevice_t
}

enumerations! {
    /// `nvmlGpuP2PCapsIndex_t`: uses of the link between two devices.
    nvmlGpuP2PCapsIndex_t: i32 {
        NVML_P2P_CAPS_INDEX_READ = 0,
        NVML_P2P_CAPS_INDEX_WRITE = 1,
        NVML_P2P_CAPS_INDEX_NVLINK = 2,
        NVML_P2P_CAPS_INDEX_ATOMICS = 3,
        NVML_P2P_CAPS_INDEX_PCI = 4,
        NVML_P2P_CAPS_INDEX_UNKNOWN = 5,
    }
    /// `nvmlGpuP2PStatus_t`: state of one use of the link between two devices.
    nvmlGpuP2PStatus_t: i32 {
        NVML_P2P_STATUS_OK = 0,
        NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED = 1,
        NVML_P2P_STATUS_GPU_NOT_SUPPORTED = 2,
        NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED = 3,
        NVML_P2P_STATUS_DISABLED_BY_REGKEY = 4,
        NVML_P2P_STATUS_NOT_SUPPORTED = 5,
        NVML_P2P_STATUS_UNKNOWN = 6,
    }
    /// `nvmlEnableState_t`: state of a feature that can be enabled or disabled.
    nvmlEnableState_t: i32 {
        NVML_FEATURE_DISABLED = 0,
        NVML_FEATURE_ENABLED = 1,
    }
    /// `nvmlNvLinkCapability_t`: capabilities of a link.
    nvmlNvLinkCapability_t: i32 {
        NVML_NVLINK_CAP_P2P_SUPPORTED = 0,
        NVML_NVLINK_CAP_SYSMEM_ACCESS = 1,
        NVML_NVLINK_CAP_P2P_ATOMICS = 2,
        NVML_NVLINK_CAP_SYSMEM_ATOMICS = 3,
        NVML_NVLINK_CAP_SLI_BRIDGE = 4,
        NVML_NVLINK_CAP_VALID = 5,
    }
    /// `nvmlIntNvLinkDeviceType_t`: kinds of devices at the other end of a link.
    nvmlIntNvLinkDeviceType_t: i32 {
        NVML_NVLINK_DEVICE_TYPE_GPU = 0,
        NVML_NVLINK_DEVICE_TYPE_IBMNPU = 1,
        NVML_NVLINK_DEVICE_TYPE_SWITCH = 2,
        NVML_NVLINK_DEVICE_TYPE_UNKNOWN = 255,
    }
    /// `nvmlGpuTopologyLevel_t`: kinds of the nearest common ancestor of two devices, from the nearest to the
    /// farthest.
    nvmlGpuTopologyLevel_t: i32 {
        NVML_TOPOLOGY_INTERNAL = 0,
        NVML_TOPOLOGY_SINGLE = 10,
        NVML_TOPOLOGY_MULTIPLE = 20,
        NVML_TOPOLOGY_HOSTBRIDGE = 30,
        NVML_TOPOLOGY_NODE = 40,
        NVML_TOPOLOGY_SYSTEM = 50,
    }
}

/// `nvmlPciInfo_v2_t`: PCI address of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct nvmlPciInfo_v2_t {
    /// PCI address as text, with four digits for the domain.
    pub busId: [c_char; 16],
    pub domain: u32,
    pub bus: u32,
    pub device: u32,
    pub pciDeviceId: u32,
    pub pciSubSystemId: u32,
    pub reserved: [u32; 4],
}

/// `nvmlPciInfo_t`: PCI address of a device, with long domains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct nvmlPciInfo_t {
    /// PCI address as text, with four digits for the domain.
    pub busIdLegacy: [c_char; 16],
    pub domain: u32,
    pub bus: u32,
    pub device: u32,
    pub pciDeviceId: u32,
    pub pciSubSystemId: u32,
    /// PCI address as text, with eight digits for the domain.
    pub busId: [c_char; 32],
}

/// `nvmlGpuFabricInfo_t`: the part that a device has in a fabric of several machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct nvmlGpuFabricInfo_t {
    pub clusterUuid: [u8; 16],
    /// Result of the device's registration with the fabric.
    pub status: nvmlReturn_t,
    /// Devices with the same number in the same fabric reach each other.
    pub cliqueId: u32,
    /// State of the registration: 0 without a fabric, 3 if complete.
    pub state: u8,
}

/// The start of every version of `nvmlGpuFabricInfoV_t` from the second to the third.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct nvmlGpuFabricInfoV_t {
    /// Size of the structure and number of its version, both from the caller:
    /// [`nvmlGpuFabricInfoV_t::version_number`].
    pub version: u32,
    pub clusterUuid: [u8; 16],
    /// Result of the device's registration with the fabric.
    pub status: nvmlReturn_t,
    /// Devices with the same number in the same fabric reach each other.
    pub cliqueId: u32,
    /// State of the registration: 0 without a fabric, 3 if complete.
    pub state: u8,
    pub healthMask: u32,
}

impl nvmlGpuFabricInfoV_t {
    /// Returns the number of the structure's version, from 2 on.
    pub fn version_number(&self) -> u32 {
        self.version >> 24
    }
}

/// `nvmlFieldValue_t`: one of many queries, and its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct nvmlFieldValue_t {
    /// Queried field: one of NVML_FI_.
    pub fieldId: u32,
    /// Scope of the query: a link for most fields about NVLink.
    pub scopeId: u32,
    /// Time of the value, in microseconds since 1970.
    pub timestamp: i64,
    /// Time that the query took, in microseconds.
    pub latencyUsec: i64,
    /// Type of `value`.
    pub valueType: u32,
    /// Result of the query.
    pub nvmlReturn: nvmlReturn_t,
    /// Value of the field. A value with fewer than 8 bytes is in the first bytes.
    pub value: u64,
}

const _: () = {
    assert!(size_of::<nvmlPciInfo_v2_t>() == 52 && size_of::<nvmlPciInfo_t>() == 68);
    assert!(size_of::<nvmlGpuFabricInfo_t>() == 28 && size_of::<nvmlGpuFabricInfoV_t>() == 0x24);
    assert!(size_of::<nvmlFieldValue_t>() == 40 && size_of::<nvmlReturn_t>() == 4);
};
