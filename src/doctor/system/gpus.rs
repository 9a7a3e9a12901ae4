//! Settings of each GPU that decide which processes may use it: the kernel's driver, MIG, the compute mode, and
//! persistence.

use super::pci::{directory, is_hidden};
use super::tree::Known;
use super::{Fact, System, bad, good, named, plain, unknown};
use crate::probe::result_name;
use cupeer_nvidia::nvml::machine::NvmlDevice;

pub fn facts(system: &System) -> Vec<Fact> {
    let mut facts = vec![named("gpus", Ok(gpus(system))), named("cuInit", Ok(cuda(system)))];
    for gpu in &system.gpus {
        facts.push(named("kernel driver", bound(system, &gpu.address)).about(&[&gpu.address]));
    }
    if let Ok(nvml) = &system.queried.nvml {
        for device in &nvml.devices {
            let settings =
                [("mig", mig(device)), ("compute mode", mode(device)), ("persistence", persistence(device))];
            facts.extend(settings.map(|(name, fact)| named(name, Ok(fact)).about(&[&device.pci])));
        }
    }
    facts
}

/// Compares the number of GPUs on the PCI bus with the numbers that NVML and CUDA show.
fn gpus(system: &System) -> Fact {
    let bus = match system.tree.names("/sys/bus/pci/devices") {
        Ok(_) => format!("{} on the PCI bus", super::pci::gpus(&system.tree).len()),
        Err(withheld) => withheld.to_string(),
    };
    let nvml = match &system.queried.nvml {
        Ok(nvml) => format!("{} of NVML", nvml.devices.len()),
        Err(why) => format!("NVML: {why}"),
    };
    match &system.queried.cuda {
        Ok(cuda) if cuda.init == 0 => plain(format!("{} of CUDA, {nvml}, {bus}", cuda.devices.len())),
        _ => plain(format!("{bus}; {nvml}")),
    }
}

/// Judges the result of cuInit.
fn cuda(system: &System) -> Fact {
    let init = match &system.queried.cuda {
        Ok(cuda) => cuda.init,
        Err(why) => return unknown(why),
    };
    let hint = match init {
        0 => return good(result_name(init)),
        // CUDA_ERROR_SYSTEM_NOT_READY: "the CUDA driver has not yet been initialized", on machines with NVSwitches while Fabric Manager has not registered them.
        802 => {
            "Start Fabric Manager of the driver's version (systemctl status nvidia-fabricmanager), or wait for it."
        }
        // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH and CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE.
        803 | 804 => {
            "Use the libcuda of the kernel module's version: look for a second one in LD_LIBRARY_PATH, such as that of cuda-compat."
        }
        100 => {
            "No GPU is shown to this process: look at CUDA_VISIBLE_DEVICES, the device nodes and the kernel module."
        }
        _ => "'cupeer explain' has what the result means.",
    };
    bad(result_name(init), "all CUDA calls of this process", hint)
}

/// Judges the kernel driver that is bound to a device.
fn bound(system: &System, address: &str) -> Known<Fact> {
    if let Some(why) = is_hidden(system, address) {
        return Ok(unknown(why));
    }
    const BREAKS: &str = "CUDA on this device: it is not NVIDIA's driver that has it";
    Ok(match system.tree.link_name(&format!("{}/driver", directory(address))) {
        Ok(name) if name == "nvidia" => good(name),
        Ok(name) if name.starts_with("vfio") => bad(
            format!("{name}: given to a virtual machine"),
            BREAKS,
            "Give it back: bind it to the nvidia driver (/sys/bus/pci/drivers_probe).",
        ),
        Ok(name) => bad(
            name,
            BREAKS,
            "Load the nvidia module, and keep the other driver away from the device (modprobe.d, driver_override).",
        ),
        Err(withheld) if withheld.is_absent() => bad("none", BREAKS, "Load the nvidia module."),
        Err(withheld) => return Err(withheld),
    })
}

/// Judges MIG. Instances reach no other device by NVLink or PCIe, and do not share memory with one another: NVIDIA's
/// Multi-Instance GPU User Guide, Deployment Considerations; NCCL#1716.
fn mig(device: &NvmlDevice) -> Fact {
    match device.mig {
        Some(true) => bad(
            "on",
            "peer access, and handles between instances: MIG supports neither",
            "nvidia-smi -i GPU -mig 0",
        ),
        Some(false) => good("off"),
        // For a device without MIG, NVML returned NVML_ERROR_NOT_SUPPORTED.
        None => good("the device has none"),
    }
}

/// Judges the compute mode (`nvmlComputeMode_t`): 0 default, 2 prohibited, 3 exclusive process.
fn mode(device: &NvmlDevice) -> Fact {
    const HINT: &str = "nvidia-smi -i GPU -c DEFAULT";
    match device.compute_mode {
        Some(0) => good("default"),
        Some(2) => bad("prohibited", "all contexts on this GPU", HINT),
        Some(3) => bad(
            "exclusive process",
            "contexts of a second process on this GPU, which importers of its memory need",
            HINT,
        ),
        Some(other) => unknown(format!("{other}, of which nothing is known")),
        None => unknown("NVML does not say"),
    }
}

fn persistence(device: &NvmlDevice) -> Fact {
    match device.persistence {
        Some(true) => plain("on"),
        Some(false) => plain("off: the first process on the idle GPU waits for it"),
        None => unknown("NVML does not say"),
    }
}
