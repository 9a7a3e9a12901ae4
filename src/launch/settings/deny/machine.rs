//! The devices of a machine, by their physical indices: of the simulated driver's topology, or as NVML has them.

use crate::args::DriverArgs;
use cupeer_console::variables::nonempty_variable;
use cupeer_spec::abi::nvmlPciInfo_t;
use cupeer_spec::deny::{DeviceIdentity, DeviceName, PciAddress};
use cupeer_spec::function::Library;
use cupeer_spec::{env, uuid};
use cupeer_topology::Topology;
use libloading::os::unix::Library as Handle;
use std::ffi::{CStr, c_char, c_void};

#[derive(Clone, Debug)]
pub struct MachineDevice {
    pub uuid: [u8; 16],
    /// PCI address of the device, if known.
    pub pci: Option<PciAddress>,
}

impl MachineDevice {
    pub fn from_topology(device: &cupeer_topology::Device) -> Self {
        let address = device.pci;
        let pci = PciAddress { domain: address.domain, bus: address.bus, device: address.device };
        MachineDevice { uuid: device.uuid, pci: Some(pci) }
    }

    pub fn identity(&self) -> DeviceIdentity {
        DeviceIdentity { uuid: Some(self.uuid), pci: self.pci }
    }

    /// Returns the UUID of the device as text.
    pub fn uuid_text(&self) -> String {
        DeviceName::Uuid(self.uuid).to_string()
    }
}

/// Returns the end of a sentence that begins with "there", about the devices that exist.
pub fn list_existing(devices: &[MachineDevice]) -> String {
    let one = |(index, device): (usize, &MachineDevice)| {
        let address = device
            .pci
            .map_or(String::new(), |pci| format!(", {:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device));
        format!("{index} ({}{address})", device.uuid_text())
    };
    let mut all: Vec<String> = devices.iter().enumerate().map(one).collect();
    match (all.pop(), all.is_empty()) {
        (None, _) => "is none".to_owned(),
        (Some(last), true) => format!("is {last} alone"),
        (Some(last), false) => format!("are {} and {last}", all.join(", ")),
    }
}

/// The machine on which a program will run.
pub enum Machine {
    Simulated(Vec<MachineDevice>),
    Real(Vec<MachineDevice>),
    /// A machine about which NVML reports nothing, and the reason.
    Unknown(String),
}

impl Machine {
    pub fn from_options(options: &DriverArgs) -> Machine {
        let Some(topology) = &options.sim else {
            return query_nvml_devices().map_or_else(Machine::Unknown, Machine::Real);
        };
        let topology = topology.clone().or_else(|| nonempty_variable(env::SIM));
        // An invalid topology is reported when the driver is chosen.
        let topology = topology.and_then(|text| Topology::parse(&text.to_string_lossy()).ok()).unwrap_or_default();
        Machine::Simulated(topology.devices.iter().map(MachineDevice::from_topology).collect())
    }

    /// Returns the devices of the machine, or the reason why they are not known.
    pub fn devices(&self) -> Result<&[MachineDevice], &str> {
        match self {
            Machine::Simulated(devices) | Machine::Real(devices) => Ok(devices),
            Machine::Unknown(reason) => Err(reason),
        }
    }

    pub fn is_simulated(&self) -> bool {
        matches!(self, Machine::Simulated(_))
    }
}

fn find_function<T: Copy>(nvml: &Handle, name: &str) -> Result<T, String> {
    // SAFETY: the callers name the type that the function has.
    let symbol = unsafe { nvml.get::<T>(name.as_bytes()) };
    symbol.map(|symbol| *symbol).map_err(|_| format!("{} has no {name}", Library::Nvml.soname()))
}

fn query_nvml_devices() -> Result<Vec<MachineDevice>, String> {
    let nvml = cupeer_nvidia::load(Library::Nvml)?;
    type Init = unsafe extern "C" fn() -> i32;
    type GetCount = unsafe extern "C" fn(*mut u32) -> i32;
    type GetDevice = unsafe extern "C" fn(u32, *mut *mut c_void) -> i32;
    type GetUuid = unsafe extern "C" fn(*mut c_void, *mut c_char, u32) -> i32;
    type GetAddress = unsafe extern "C" fn(*mut c_void, *mut nvmlPciInfo_t) -> i32;
    let done = |function: &str, result: i32| match result {
        0 => Ok(()),
        _ => {
            let name = Library::Nvml.result(result).map_or(result.to_string(), |spec| spec.name().to_owned());
            Err(format!("{function} returned {name}"))
        }
    };
    let (init, shutdown) =
        (find_function::<Init>(&nvml, "nvmlInit_v2")?, find_function::<Init>(&nvml, "nvmlShutdown")?);
    let count = find_function::<GetCount>(&nvml, "nvmlDeviceGetCount_v2")?;
    let device = find_function::<GetDevice>(&nvml, "nvmlDeviceGetHandleByIndex_v2")?;
    let uuid = find_function::<GetUuid>(&nvml, "nvmlDeviceGetUUID")?;
    let address = find_function::<GetAddress>(&nvml, "nvmlDeviceGetPciInfo_v3")?;
    let mut number = 0;
    let mut devices = Vec::new();
    // SAFETY: functions of NVML with their types; the outputs are variables of the size that is said or known.
    unsafe {
        done("nvmlInit_v2", init())?;
        done("nvmlDeviceGetCount_v2", count(&mut number))?;
        for index in 0..number {
            let mut handle = std::ptr::null_mut();
            let mut text = [0 as c_char; 96];
            let mut pci: nvmlPciInfo_t = std::mem::zeroed();
            done("nvmlDeviceGetHandleByIndex_v2", device(index, &mut handle))?;
            done("nvmlDeviceGetUUID", uuid(handle, text.as_mut_ptr(), 95))?;
            let text = CStr::from_ptr(text.as_ptr()).to_string_lossy();
            let has_address = address(handle, &mut pci) == 0;
            let pci = PciAddress { domain: pci.domain, bus: pci.bus as u8, device: pci.device as u8 };
            devices.push(MachineDevice {
                uuid: uuid::parse_uuid(&text).ok_or_else(|| format!("'{text}' is not a UUID"))?,
                pci: has_address.then_some(pci),
            });
        }
        shutdown();
    }
    Ok(devices)
}
