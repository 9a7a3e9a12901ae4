//! What each GPU is set to, as far as it decides who may use it: the kernel's driver, MIG, the compute mode, persistence.

use super::Fact;
use super::System;
use super::pci::{directory, is_hidden};
use crate::probe::result_name;
use cupeer_nvidia::nvml::machine::NvmlDevice;

pub fn facts(system: &System) -> Vec<Fact> {
    let mut facts = vec![gpus(system), cuda(system)];
    for gpu in &system.gpus {
        facts.push(bound(system, &gpu.address).about(&[&gpu.address]));
    }
    if let Ok(nvml) = &system.asked.nvml {
        for device in &nvml.devices {
            let settings = [mig(device), mode(device), persistence(device)];
            facts.extend(settings.into_iter().map(|fact| fact.about(&[&device.pci])));
        }
    }
    facts
}

/// How many there are, for the bus, for NVML and for CUDA.
fn gpus(system: &System) -> Fact {
    const NAME: &str = "gpus";
    let bus = match system.tree.names("/sys/bus/pci/devices") {
        Ok(_) => format!("{} on the PCI bus", super::pci::gpus(&system.tree).len()),
        Err(withheld) => withheld.to_string(),
    };
    let nvml = match &system.asked.nvml {
        Ok(nvml) => format!("{} of NVML", nvml.devices.len()),
        Err(why) => format!("NVML: {why}"),
    };
    match &system.asked.cuda {
        Ok(cuda) if cuda.init == 0 => {
            Fact::plain(NAME, format!("{} of CUDA, {nvml}, {bus}", cuda.devices.len()))
        }
        _ => Fact::plain(NAME, format!("{bus}; {nvml}")),
    }
}

/// What cuInit returned, where that has a meaning for the machine.
fn cuda(system: &System) -> Fact {
    const NAME: &str = "cuInit";
    let init = match &system.asked.cuda {
        Ok(cuda) => cuda.init,
        Err(why) => return Fact::unknown(NAME, why),
    };
    let value = result_name(init);
    let breaks = "all CUDA calls of this process";
    match init {
        0 => Fact::good(NAME, value),
        // CUDA_ERROR_SYSTEM_NOT_READY: "the CUDA driver has not yet been initialized", on machines with NVSwitches while Fabric Manager has not registered them.
        802 => Fact::bad(
            NAME,
            value,
            breaks,
            "Start Fabric Manager of the driver's version (systemctl status nvidia-fabricmanager), or wait for it.",
        ),
        // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH and CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE.
        803 | 804 => Fact::bad(
            NAME,
            value,
            breaks,
            "Use the libcuda of the kernel module's version: look for a second one in LD_LIBRARY_PATH, such as that of cuda-compat.",
        ),
        100 => Fact::bad(
            NAME,
            value,
            breaks,
            "No GPU is shown to this process: look at CUDA_VISIBLE_DEVICES, the device nodes and the kernel module.",
        ),
        _ => Fact::bad(NAME, value, breaks, "'cupeer explain' has what the result means."),
    }
}

/// The kernel's driver of a device.
fn bound(system: &System, address: &str) -> Fact {
    const NAME: &str = "kernel driver";
    if let Some(why) = is_hidden(system, address) {
        return Fact::unknown(NAME, why);
    }
    const BREAKS: &str = "CUDA on this device: it is not NVIDIA's driver that has it";
    match system.tree.link_name(&format!("{}/driver", directory(address))) {
        Ok(name) if name == "nvidia" => Fact::good(NAME, name),
        Ok(name) if name.starts_with("vfio") => Fact::bad(
            NAME,
            format!("{name}: given to a virtual machine"),
            BREAKS,
            "Give it back: bind it to the nvidia driver (/sys/bus/pci/drivers_probe).",
        ),
        Ok(name) => Fact::bad(
            NAME,
            name,
            BREAKS,
            "Load the nvidia module, and keep the other driver away from the device (modprobe.d, driver_override).",
        ),
        Err(withheld) if withheld.is_absent() => Fact::bad(NAME, "none", BREAKS, "Load the nvidia module."),
        Err(withheld) => Fact::unknown(NAME, withheld),
    }
}

/// Instances reach no other device, by NVLink or PCIe, and share nothing between them: NVIDIA's Multi-Instance GPU User Guide,
/// Deployment Considerations; NCCL#1716.
fn mig(device: &NvmlDevice) -> Fact {
    const NAME: &str = "mig";
    match device.mig {
        Some(true) => Fact::bad(
            NAME,
            "on",
            "peer access, and handles between instances: MIG supports neither",
            "nvidia-smi -i GPU -mig 0",
        ),
        Some(false) => Fact::good(NAME, "off"),
        // NVML_ERROR_NOT_SUPPORTED on devices without it.
        None => Fact::good(NAME, "the device has none"),
    }
}

/// `nvmlComputeMode_t`: 0 default, 2 prohibited, 3 exclusive process.
fn mode(device: &NvmlDevice) -> Fact {
    const NAME: &str = "compute mode";
    const HINT: &str = "nvidia-smi -i GPU -c DEFAULT";
    match device.compute_mode {
        Some(0) => Fact::good(NAME, "default"),
        Some(2) => Fact::bad(NAME, "prohibited", "all contexts on this GPU", HINT),
        Some(3) => Fact::bad(
            NAME,
            "exclusive process",
            "contexts of a second process on this GPU, which importers of its memory need",
            HINT,
        ),
        Some(other) => Fact::unknown(NAME, format!("{other}, of which nothing is known")),
        None => Fact::unknown(NAME, "NVML does not say"),
    }
}

fn persistence(device: &NvmlDevice) -> Fact {
    const NAME: &str = "persistence";
    match device.persistence {
        Some(true) => Fact::plain(NAME, "on"),
        Some(false) => Fact::plain(NAME, "off: the first process on the idle GPU waits for it"),
        None => Fact::unknown(NAME, "NVML does not say"),
    }
}
