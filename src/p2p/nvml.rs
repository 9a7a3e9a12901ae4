//! Nominal rates of links, from NVML. Without NVML, links have none.

use cupeer_nvidia::call;
use cupeer_nvidia::{Device, NVLINK, p2p_status, start_nvml};
use cupeer_spec::abi::{nvmlFieldValue_t, nvmlPciInfo_t};
use libloading::os::unix::Library as Handle;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::{CString, c_char};
use std::mem::ManuallyDrop;

/// Kind of a link, and its nominal rate.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, JsonSchema)]
pub struct Promise {
    /// Kind of the link, from NVML.
    pub kind: Kind,
    /// Nominal rate in one direction, in 10^6 bytes per second including packet overhead: from the active NVLinks and
    /// their speed, or from PCI Express generation and width. Null if NVML does not tell.
    pub mb_s: Option<u64>,
}

/// Kind of a link.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// NVLink, including links through switches.
    Nvlink,
    /// PCI Express.
    Pcie,
}

/// Number of NVLinks to ask NVML about: more than any device has.
const MOST_LINKS: u32 = 64;
/// NVML_NVLINK_DEVICE_TYPE_GPU.
const GPU_DEVICE_TYPE: i32 = 0;
/// NVML_NVLINK_DEVICE_TYPE_SWITCH.
const SWITCH_DEVICE_TYPE: i32 = 2;
/// NVML fields with the rate of an NVLink: NVML_FI_DEV_NVLINK_GET_SPEED of the link in `scopeId`; for drivers
/// without that field, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, which driver 580 reports as 0 on H100 and H200.
const SPEED_FIELDS: [u32; 2] = [164, 90];
/// Rate of a PCI Express lane in one direction, in 10^6 bytes per second, from generation 1 to generation 6.
const LANE_MB_S: [u64; 6] = [250, 500, 985, 1969, 3938, 7563];

pub struct Nvml(ManuallyDrop<Handle>);

impl Nvml {
    pub fn load() -> Option<Nvml> {
        start_nvml().ok().map(Nvml)
    }

    fn device_handle(&self, pci: &str) -> Option<Device> {
        let pci = CString::new(pci).ok()?;
        let mut device = Device::NONE;
        call!(&self.0, "nvmlDeviceGetHandleByPciBusId_v2", (pci.as_ptr() => *const c_char, &mut device => *mut Device))
            .ok()?;
        Some(device)
    }

    /// Returns the nominal rate of the link between two devices, by their PCI addresses.
    pub fn nominal_rate(&self, from: &str, to: &str) -> Option<Promise> {
        let (from, to) = (self.device_handle(from)?, self.device_handle(to)?);
        Some(match p2p_status(&self.0, from, to, NVLINK) {
            Some(0) => Promise { kind: Kind::Nvlink, mb_s: self.nvlink_rate(from, to) },
            _ => Promise { kind: Kind::Pcie, mb_s: Some(self.pcie_rate(from)?.min(self.pcie_rate(to)?)) },
        })
    }

    /// Returns the rate of all NVLinks from a device to another device, or to a switch, in 10^6 bytes per
    /// second.
    fn nvlink_rate(&self, from: Device, to: Device) -> Option<u64> {
        let place = |pci: nvmlPciInfo_t| (pci.domain, pci.bus, pci.device);
        let mut end = empty_pci_info();
        call!(&self.0, "nvmlDeviceGetPciInfo_v3", (to => Device, &mut end => *mut nvmlPciInfo_t)).ok()?;
        let is_active = |link: u32| {
            let mut active = 0;
            let asked =
                call!(&self.0, "nvmlDeviceGetNvLinkState", (from => Device, link => u32, &mut active => *mut i32));
            asked.is_ok() && active == 1
        };
        let leads_there = |link: u32| {
            let mut remote = empty_pci_info();
            let asked = call!(&self.0, "nvmlDeviceGetNvLinkRemotePciInfo_v2",
                (from => Device, link => u32, &mut remote => *mut nvmlPciInfo_t));
            asked.is_ok() && place(remote) == place(end)
        };
        let leads = |link: u32| {
            let mut kind = 0;
            let asked = call!(&self.0, "nvmlDeviceGetNvLinkRemoteDeviceType",
                (from => Device, link => u32, &mut kind => *mut i32));
            match asked.map(|()| kind) {
                Ok(SWITCH_DEVICE_TYPE) => true,
                Ok(GPU_DEVICE_TYPE) | Err(_) => leads_there(link),
                Ok(_) => false,
            }
        };
        let count = (0..MOST_LINKS).filter(|link| is_active(*link) && leads(*link)).count() as u64;
        Some(count * u64::from(self.nvlink_speed(from)?)).filter(|rate| *rate > 0)
    }

    /// Returns the rate of one NVLink of a device, in 10^6 bytes per second.
    fn nvlink_speed(&self, device: Device) -> Option<u32> {
        SPEED_FIELDS.into_iter().find_map(|id| {
            // SAFETY: all-zero bytes are a value of the plain structure.
            let mut field: nvmlFieldValue_t = unsafe { std::mem::zeroed() };
            field.fieldId = id;
            call!(&self.0, "nvmlDeviceGetFieldValues",
                (device => Device, 1 => i32, &mut field => *mut nvmlFieldValue_t))
            .ok()?;
            Some(field.value as u32).filter(|speed| field.nvmlReturn.0 == 0 && *speed > 0)
        })
    }

    /// Returns the rate of the PCI Express link of a device, in 10^6 bytes per second. The rate is that of
    /// the highest generation, because an idle link uses a lower generation.
    fn pcie_rate(&self, device: Device) -> Option<u64> {
        let (mut generation, mut width): (u32, u32) = (0, 0);
        call!(&self.0, "nvmlDeviceGetMaxPcieLinkGeneration", (device => Device, &mut generation => *mut u32)).ok()?;
        call!(&self.0, "nvmlDeviceGetCurrPcieLinkWidth", (device => Device, &mut width => *mut u32)).ok()?;
        let lane = LANE_MB_S.get((generation as usize).checked_sub(1)?)?;
        Some(lane * u64::from(width))
    }
}

/// Returns an empty structure for NVML to fill.
fn empty_pci_info() -> nvmlPciInfo_t {
    // SAFETY: all-zero bytes are a value of the plain structure.
    unsafe { std::mem::zeroed() }
}
