//! Queries NVML about the devices of the machine and their pairs.

use super::{list_device_handles, query_text, text_before_nul, to_kernel_pci_address};
use crate::call;
use crate::library::{Device, NVLINK, p2p_status, query_device_value, start_nvml};
use cupeer_spec::abi::{nvmlGpuFabricInfoV_t, nvmlPciInfo_t};
use libloading::os::unix::Library as Handle;
use serde::{Deserialize, Serialize};
use std::ffi::c_uint;

#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct NvmlMachine {
    /// Version of NVIDIA's libraries, such as 580.159.04.
    pub driver: Option<String>,
    pub devices: Vec<NvmlDevice>,
    /// All ordered pairs of different devices.
    pub pairs: Vec<NvmlDevicePair>,
}

/// A device; a field that NVML refuses to report is `None`.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct NvmlDevice {
    /// PCI address, as the kernel writes it.
    pub pci: String,
    pub uuid: String,
    pub name: String,
    /// Size of the device's memory in bytes.
    pub memory: Option<u64>,
    /// Size of the device's BAR1 in bytes.
    pub bar1: Option<u64>,
    pub persistence: Option<bool>,
    pub mig: Option<bool>,
    /// `nvmlComputeMode_t`.
    pub compute_mode: Option<i32>,
    pub fabric: Option<FabricMembership>,
}

/// Membership of a device in a fabric.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct FabricMembership {
    /// State of the registration: 0: not supported; 1: not started; 2: in progress; 3: complete.
    pub state: u8,
    /// Result of the registration as an `nvmlReturn_t`; 0 is success.
    pub status: i32,
    pub cluster: String,
    pub clique: u32,
}

/// Two devices by their indexes in `devices`, and the `nvmlGpuP2PStatus_t` for three uses of the link between
/// them.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct NvmlDevicePair {
    pub from: usize,
    pub to: usize,
    pub read: Option<i32>,
    pub write: Option<i32>,
    pub nvlink: Option<i32>,
}

pub fn query_machine() -> Result<NvmlMachine, String> {
    let library = start_nvml()?;
    let mut text = [0u8; 96];
    let driver = call!(&library, "nvmlSystemGetDriverVersion", (text.as_mut_ptr() => *mut u8, 80 => c_uint));
    let handles = list_device_handles(&library)?;
    let driver = driver.ok().map(|()| text_before_nul(&text));
    let devices = handles.iter().map(|handle| query_device(&library, *handle)).collect::<Result<_, _>>()?;
    Ok(NvmlMachine { driver, devices, pairs: query_pairs(&library, &handles) })
}

fn query_device(library: &Handle, device: Device) -> Result<NvmlDevice, String> {
    // SAFETY: all-zero bytes are valid for a structure of numbers and characters.
    let mut pci: nvmlPciInfo_t = unsafe { std::mem::zeroed() };
    call!(library, "nvmlDeviceGetPciInfo_v3", (device => Device, &mut pci => *mut nvmlPciInfo_t))?;
    // Both functions write three sizes in bytes: of all memory, of reserved or free memory, and of used
    // memory.
    let bar1: Result<[u64; 3], _> = query_device_value(library, "nvmlDeviceGetBAR1MemoryInfo", device);
    let memory: Result<[u64; 3], _> = query_device_value(library, "nvmlDeviceGetMemoryInfo", device);
    let persistence: Result<i32, _> = query_device_value(library, "nvmlDeviceGetPersistenceMode", device);
    let (mut current, mut pending): (c_uint, c_uint) = (0, 0);
    let mig = call!(library, "nvmlDeviceGetMigMode",
        (device => Device, &mut current => *mut c_uint, &mut pending => *mut c_uint));
    Ok(NvmlDevice {
        pci: to_kernel_pci_address(&text_before_nul(&pci.busId.map(|letter| letter.to_ne_bytes()[0]))),
        uuid: query_text(library, "nvmlDeviceGetUUID", device)?,
        name: query_text(library, "nvmlDeviceGetName", device).unwrap_or_default(),
        memory: memory.ok().map(|[total, ..]| total),
        bar1: bar1.ok().map(|[total, ..]| total),
        persistence: persistence.ok().map(|mode| mode == 1),
        mig: mig.ok().map(|()| current == 1),
        compute_mode: query_device_value(library, "nvmlDeviceGetComputeMode", device).ok(),
        fabric: query_fabric(library, device),
    })
}

fn query_fabric(library: &Handle, device: Device) -> Option<FabricMembership> {
    // SAFETY: all-zero bytes are valid for a structure of numbers.
    let mut info: nvmlGpuFabricInfoV_t = unsafe { std::mem::zeroed() };
    // The structure's second version, as a number in the format of nvml.h.
    info.version = u32::try_from(size_of::<nvmlGpuFabricInfoV_t>()).ok()? | (2 << 24);
    call!(library, "nvmlDeviceGetGpuFabricInfoV", (device => Device, &mut info => *mut nvmlGpuFabricInfoV_t)).ok()?;
    let cluster = info.clusterUuid.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(FabricMembership { state: info.state, status: info.status.0, cluster, clique: info.cliqueId })
}

fn query_pairs(library: &Handle, handles: &[Device]) -> Vec<NvmlDevicePair> {
    let status = |from: usize, to: usize, index| p2p_status(library, handles[from], handles[to], index);
    let all = (0..handles.len()).flat_map(|from| (0..handles.len()).map(move |to| (from, to)));
    all.filter(|(from, to)| from != to)
        .map(|(from, to)| NvmlDevicePair {
            from,
            to,
            read: status(from, to, 0),
            write: status(from, to, 1),
            nvlink: status(from, to, NVLINK),
        })
        .collect()
}
