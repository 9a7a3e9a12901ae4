//! Settings of each GPU that decide which processes may use it: the kernel's driver, MIG, the compute mode, and
//! persistence.

use super::pci::{pci_directory, reason_hidden};
use super::tree::Readable;
use super::{ExaminedSystem, Fact, bad_fact, good_fact, plain_fact, unknown_fact, with_name};
use crate::probe::result_name;
use cupeer_nvidia::nvml::machine::NvmlDevice;

pub fn facts(system: &ExaminedSystem) -> Vec<Fact> {
    let mut facts =
        vec![with_name("gpus", Ok(compare_gpu_counts(system))), with_name("cuInit", Ok(judge_cuda_init(system)))];
    for gpu in &system.gpus {
        facts.push(with_name("kernel driver", judge_kernel_driver(system, &gpu.address)).with_devices(&[&gpu.address]));
    }
    if let Ok(nvml) = &system.queried.nvml {
        for device in &nvml.devices {
            let settings = [
                ("mig", judge_mig(device)),
                ("compute mode", judge_compute_mode(device)),
                ("persistence", judge_persistence_mode(device)),
            ];
            facts.extend(settings.map(|(name, fact)| with_name(name, Ok(fact)).with_devices(&[&device.pci])));
        }
    }
    facts
}

/// Compares the number of GPUs on the PCI bus with the numbers that NVML and CUDA show.
fn compare_gpu_counts(system: &ExaminedSystem) -> Fact {
    let bus = match system.tree.list_directory("/sys/bus/pci/devices") {
        Ok(_) => format!("{} on the PCI bus", super::pci::list_gpus(&system.tree).len()),
        Err(withheld) => withheld.to_string(),
    };
    let nvml = match &system.queried.nvml {
        Ok(nvml) => format!("{} of NVML", nvml.devices.len()),
        Err(why) => format!("NVML: {why}"),
    };
    match &system.queried.cuda {
        Ok(cuda) if cuda.init == 0 => plain_fact(format!("{} of CUDA, {nvml}, {bus}", cuda.devices.len())),
        _ => plain_fact(format!("{bus}; {nvml}")),
    }
}

/// Judges the result of cuInit.
fn judge_cuda_init(system: &ExaminedSystem) -> Fact {
    let init = match &system.queried.cuda {
        Ok(cuda) => cuda.init,
        Err(why) => return unknown_fact(why),
    };
    let hint = match init {
        0 => return good_fact(result_name(init)),
        // CUDA_ERROR_SYSTEM_NOT_READY: "the CUDA driver has not yet been initialized", on machines with NVSwitches while Fabric Manager has not registered them.
        802 => "Start Fabric Manager of the driver's version (systemctl status nvidia-fabricmanager), or wait for it.",
        // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH and CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE.
        803 | 804 => {
            "Use the libcuda of the kernel module's version: look for a second one in LD_LIBRARY_PATH, such as that of cuda-compat."
        }
        100 => "No GPU is shown to this process: look at CUDA_VISIBLE_DEVICES, the device nodes and the kernel module.",
        _ => "'cupeer explain' has what the result means.",
    };
    bad_fact(result_name(init), "all CUDA calls of this process", hint)
}

/// Judges the kernel driver that is bound to a device.
fn judge_kernel_driver(system: &ExaminedSystem, address: &str) -> Readable<Fact> {
    if let Some(why) = reason_hidden(system, address) {
        return Ok(unknown_fact(why));
    }
    const BREAKS: &str = "CUDA on this device: it is not NVIDIA's driver that has it";
    Ok(match system.tree.read_link_name(&format!("{}/driver", pci_directory(address))) {
        Ok(name) if name == "nvidia" => good_fact(name),
        Ok(name) if name.starts_with("vfio") => bad_fact(
            format!("{name}: given to a virtual machine"),
            BREAKS,
            "Give it back: bind it to the nvidia driver (/sys/bus/pci/drivers_probe).",
        ),
        Ok(name) => bad_fact(
            name,
            BREAKS,
            "Load the nvidia module, and keep the other driver away from the device (modprobe.d, driver_override).",
        ),
        Err(withheld) if withheld.is_not_found() => bad_fact("none", BREAKS, "Load the nvidia module."),
        Err(withheld) => return Err(withheld),
    })
}

/// Judges MIG. Instances reach no other device by NVLink or PCIe, and do not share memory with one another: NVIDIA's
/// Multi-Instance GPU User Guide, Deployment Considerations; NCCL#1716.
fn judge_mig(device: &NvmlDevice) -> Fact {
    match device.mig {
        Some(true) => bad_fact(
            "on",
            "peer access, and handles between instances: MIG supports neither",
            "nvidia-smi -i GPU -mig 0",
        ),
        Some(false) => good_fact("off"),
        // For a device without MIG, NVML returned NVML_ERROR_NOT_SUPPORTED.
        None => good_fact("the device has none"),
    }
}

/// Judges the compute mode (`nvmlComputeMode_t`): 0 default, 2 prohibited, 3 exclusive process.
fn judge_compute_mode(device: &NvmlDevice) -> Fact {
    const HINT: &str = "nvidia-smi -i GPU -c DEFAULT";
    match device.compute_mode {
        Some(0) => good_fact("default"),
        Some(2) => bad_fact("prohibited", "all contexts on this GPU", HINT),
        Some(3) => bad_fact(
            "exclusive process",
            "contexts of a second process on this GPU, which importers of its memory need",
            HINT,
        ),
        Some(other) => unknown_fact(format!("{other}, of which nothing is known")),
        None => unknown_fact("NVML does not say"),
    }
}

fn judge_persistence_mode(device: &NvmlDevice) -> Fact {
    match device.persistence {
        Some(true) => plain_fact("on"),
        Some(false) => plain_fact("off: the first process on the idle GPU waits for it"),
        None => unknown_fact("NVML does not say"),
    }
}
