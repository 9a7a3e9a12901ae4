//! Queries about devices, of the driver and of NVML.

/// Hands the entries, and those of this file behind them, to the macro `$callback`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_query_functions {
    ($callback:path; $($entries:tt)*) => { $crate::with_runtime_functions! { $callback; $($entries)*

/// Initializes the driver in the calling process.
fn cuInit(
    in Flags: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Recorded,
    effects: [Begins Driver(Flags)],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, SYSTEM_DRIVER_MISMATCH, COMPAT_NOT_SUPPORTED_ON_DEVICE],
    seen: [NOT_INITIALIZED],
}

/// Queries an attribute of a device.
fn cuDeviceGetAttribute(
    out pi: *mut i32,
    in attrib: $crate::abi::CUdevice_attribute,
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Recorded,
    effects: [Asks Device(dev) as pi where attrib is 132],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_DEVICE],
}

/// Queries whether two devices can use one kind of peer access.
fn nvmlDeviceGetP2PStatus(
    in device1: $crate::abi::nvmlDevice_t,
    in device2: $crate::abi::nvmlDevice_t,
    in p2pIndex: $crate::abi::nvmlGpuP2PCapsIndex_t,
    out p2pStatus: *mut $crate::abi::nvmlGpuP2PStatus_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device1, device2) as p2pStatus],
    results: [SUCCESS, INVALID_ARGUMENT, UNKNOWN],
}

/// Queries the common ancestor of two devices: a board, a switch, a CPU.
fn nvmlDeviceGetTopologyCommonAncestor(
    in device1: $crate::abi::nvmlDevice_t,
    in device2: $crate::abi::nvmlDevice_t,
    out pathInfo: *mut $crate::abi::nvmlGpuTopologyLevel_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device1, device2) as pathInfo],
    results: [SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, UNKNOWN],
}

/// Queries whether an NVLink of a device is up.
fn nvmlDeviceGetNvLinkState(
    in device: $crate::abi::nvmlDevice_t,
    in link: u32,
    out isActive: *mut $crate::abi::nvmlEnableState_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as isActive],
    results: [SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, UNKNOWN],
}

/// Queries what an NVLink of a device can do.
fn nvmlDeviceGetNvLinkCapability(
    in device: $crate::abi::nvmlDevice_t,
    in link: u32,
    in capability: $crate::abi::nvmlNvLinkCapability_t,
    out capResult: *mut u32,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as capResult],
    results: [SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, UNKNOWN],
}

/// Queries where the other end of an NVLink is on the PCI bus (the form with a short address).
fn nvmlDeviceGetNvLinkRemotePciInfo(
    in device: $crate::abi::nvmlDevice_t,
    in link: u32,
    out pci: *mut $crate::abi::nvmlPciInfo_v2_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as pci],
    results: [SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, UNKNOWN],
}

/// Queries where the other end of an NVLink is on the PCI bus.
fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    in device: $crate::abi::nvmlDevice_t,
    in link: u32,
    out pci: *mut $crate::abi::nvmlPciInfo_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as pci],
    results: [SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, UNKNOWN],
}

/// Queries what is at the other end of an NVLink: a GPU, a switch.
fn nvmlDeviceGetNvLinkRemoteDeviceType(
    in device: $crate::abi::nvmlDevice_t,
    in link: u32,
    out pNvLinkDeviceType: *mut $crate::abi::nvmlIntNvLinkDeviceType_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as pNvLinkDeviceType],
    results: [SUCCESS, NOT_SUPPORTED, INVALID_ARGUMENT, GPU_IS_LOST, UNKNOWN],
}

/// Queries a device's part in a fabric of several machines (the first form).
fn nvmlDeviceGetGpuFabricInfo(
    in device: $crate::abi::nvmlDevice_t,
    out gpuFabricInfo: *mut $crate::abi::nvmlGpuFabricInfo_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as gpuFabricInfo],
    results: [SUCCESS, NOT_SUPPORTED],
}

/// Queries a device's part in a fabric of several machines.
fn nvmlDeviceGetGpuFabricInfoV(
    in device: $crate::abi::nvmlDevice_t,
    inout gpuFabricInfo: *mut $crate::abi::nvmlGpuFabricInfoV_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as gpuFabricInfo],
    results: [SUCCESS, NOT_SUPPORTED],
}

/// Queries many values of a device at once, including the state of its NVLinks.
fn nvmlDeviceGetFieldValues(
    in device: $crate::abi::nvmlDevice_t,
    in valuesCount: i32,
    inout[valuesCount] values: *mut $crate::abi::nvmlFieldValue_t,
) -> $crate::abi::nvmlReturn_t {
    library: Nvml, since: 0, simulated: Absent,
    effects: [Asks Device(device) as values],
    results: [SUCCESS, INVALID_ARGUMENT],
}

    } };
}
