//! What NVML says that a link should carry. All of it may be missing: then nothing is promised.

use crate::probe;
use cupeer_spec::abi::{nvmlDevice_t, nvmlFieldValue_t, nvmlPciInfo_t};
use cupeer_spec::function::Library;
use libloading::os::unix::Library as Handle;
use serde::{Deserialize, Serialize};
use std::ffi::{CString, c_char};
use std::mem::ManuallyDrop;

/// What a link is, and what it should carry.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Promise {
    /// What NVML calls it.
    pub kind: Kind,
    /// 10^6 bytes a second in one direction, with what packets take for themselves: NVLink's active links and their speed,
    /// or PCI Express's generation and width. Null where NVML does not say.
    pub mb_s: Option<u64>,
}

/// A kind of link.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Kind {
    /// NVLink, also through switches.
    Nvlink,
    /// PCI Express.
    Pcie,
}

/// More than any device has.
const MOST_LINKS: u32 = 64;
/// NVML_P2P_CAPS_INDEX_NVLINK.
const NVLINK: i32 = 2;
/// NVML_NVLINK_DEVICE_TYPE_GPU and NVML_NVLINK_DEVICE_TYPE_SWITCH.
const GPU: i32 = 0;
const SWITCH: i32 = 2;
/// NVML_FI_DEV_NVLINK_GET_SPEED, of the link in `scopeId`, and NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON of drivers that do not know
/// it. Driver 580 says 0 to the second one on H100 and H200.
const SPEED: [u32; 2] = [164, 90];
/// What a lane of each generation of PCI Express carries in one direction, in 10^6 bytes a second.
const LANE: [u64; 6] = [250, 500, 985, 1969, 3938, 7563];

pub struct Nvml(ManuallyDrop<Handle>);

impl Nvml {
    pub fn load() -> Option<Nvml> {
        // It may crash when it is unloaded.
        let nvml = Nvml(ManuallyDrop::new(probe::load(Library::Nvml).ok()?));
        let init: unsafe extern "C" fn() -> i32 = nvml.find("nvmlInit_v2")?;
        // SAFETY: nvml.h declares it so.
        (unsafe { init() } == 0).then_some(nvml)
    }

    fn find<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: the callers name the type that nvml.h gives the function.
        unsafe { self.0.get::<F>(name.as_bytes()) }.ok().map(|symbol| *symbol)
    }

    /// Asks for one value.
    fn value<T: Copy + Default>(&self, name: &str, device: nvmlDevice_t) -> Option<T> {
        let get: unsafe extern "C" fn(nvmlDevice_t, *mut T) -> i32 = self.find(name)?;
        let mut out = T::default();
        // SAFETY: nvml.h declares the functions that are asked for here so; the handle is NVML's.
        (unsafe { get(device, &mut out) } == 0).then_some(out)
    }

    /// The same of a link.
    fn of_link(&self, name: &str, device: nvmlDevice_t, link: u32) -> Option<i32> {
        let get: unsafe extern "C" fn(nvmlDevice_t, u32, *mut i32) -> i32 = self.find(name)?;
        let mut out = 0;
        // SAFETY: as in `value`.
        (unsafe { get(device, link, &mut out) } == 0).then_some(out)
    }

    fn device(&self, pci: &str) -> Option<nvmlDevice_t> {
        type Get = unsafe extern "C" fn(*const c_char, *mut nvmlDevice_t) -> i32;
        let get: Get = self.find("nvmlDeviceGetHandleByPciBusId_v2")?;
        let pci = CString::new(pci).ok()?;
        let mut device = nvmlDevice_t(std::ptr::null_mut());
        // SAFETY: nvml.h declares it so; the address ends in a NUL.
        (unsafe { get(pci.as_ptr(), &mut device) } == 0).then_some(device)
    }

    /// What the link between two devices promises, which are named by their PCI addresses.
    pub fn promise(&self, from: &str, to: &str) -> Option<Promise> {
        type Status = unsafe extern "C" fn(nvmlDevice_t, nvmlDevice_t, i32, *mut i32) -> i32;
        let (from, to) = (self.device(from)?, self.device(to)?);
        let status: Status = self.find("nvmlDeviceGetP2PStatus")?;
        let mut is = -1;
        // SAFETY: nvml.h declares it so; the handles are NVML's.
        let result = unsafe { status(from, to, NVLINK, &mut is) };
        Some(match (result, is) {
            (0, 0) => Promise { kind: Kind::Nvlink, mb_s: self.nvlinks(from, to) },
            _ => Promise { kind: Kind::Pcie, mb_s: Some(self.pcie(from)?.min(self.pcie(to)?)) },
        })
    }

    /// The links that lead from a device to another one, or to a switch.
    fn nvlinks(&self, from: nvmlDevice_t, to: nvmlDevice_t) -> Option<u64> {
        type Remote = unsafe extern "C" fn(nvmlDevice_t, u32, *mut nvmlPciInfo_t) -> i32;
        let remote: Remote = self.find("nvmlDeviceGetNvLinkRemotePciInfo_v2")?;
        let address: unsafe extern "C" fn(nvmlDevice_t, *mut nvmlPciInfo_t) -> i32 =
            self.find("nvmlDeviceGetPciInfo_v3")?;
        let place = |pci: nvmlPciInfo_t| (pci.domain, pci.bus, pci.device);
        // SAFETY: nvml.h declares both so; all-zero bytes are a value of the plain structure that they fill.
        let (end, leads) = unsafe {
            let mut pci: nvmlPciInfo_t = std::mem::zeroed();
            if address(to, &mut pci) != 0 {
                return None;
            }
            let leads = move |link| {
                let mut pci: nvmlPciInfo_t = std::mem::zeroed();
                (remote(from, link, &mut pci) == 0).then(|| place(pci))
            };
            (place(pci), leads)
        };
        let links = (0..MOST_LINKS).filter(|link| {
            self.of_link("nvmlDeviceGetNvLinkState", from, *link) == Some(1)
                && match self.of_link("nvmlDeviceGetNvLinkRemoteDeviceType", from, *link) {
                    Some(SWITCH) => true,
                    Some(GPU) | None => leads(*link) == Some(end),
                    Some(_) => false,
                }
        });
        let count = links.count() as u64;
        Some(count * u64::from(self.speed(from)?)).filter(|rate| *rate > 0)
    }

    /// What one NVLink of a device carries, in 10^6 bytes a second.
    fn speed(&self, device: nvmlDevice_t) -> Option<u32> {
        type Get = unsafe extern "C" fn(nvmlDevice_t, i32, *mut nvmlFieldValue_t) -> i32;
        let get: Get = self.find("nvmlDeviceGetFieldValues")?;
        SPEED.into_iter().find_map(|id| {
            // SAFETY: nvml.h declares it so. All-zero bytes are a value of the plain structure, of which one is passed.
            let field = unsafe {
                let mut field: nvmlFieldValue_t = std::mem::zeroed();
                field.fieldId = id;
                let done = get(device, 1, &mut field) == 0 && field.nvmlReturn.0 == 0;
                done.then_some(field)
            }?;
            Some(field.value as u32).filter(|speed| *speed > 0)
        })
    }

    /// What a device's slot carries. The generation is the highest one: a link that rests is slower.
    fn pcie(&self, device: nvmlDevice_t) -> Option<u64> {
        let generation: u32 = self.value("nvmlDeviceGetMaxPcieLinkGeneration", device)?;
        let width: u32 = self.value("nvmlDeviceGetCurrPcieLinkWidth", device)?;
        let lane = LANE.get((generation as usize).checked_sub(1)?)?;
        Some(lane * u64::from(width))
    }
}
