//! NVIDIA's kernel module: its flavor, its version compared with that of the libraries, and parameters that change
//! which devices access each other.

use super::tree::Readable;
use super::{ExaminedSystem, Fact, bad_fact, good_fact, plain_fact, unknown_fact, with_name};

/// Parameters in /proc/driver/nvidia/params, with their default values. Other values are reported.
const DEFAULT_PARAMETERS: [(&str, &str); 6] = [
    ("EnableResizableBar", "0"),
    ("GrdmaPciTopoCheckOverride", "0"),
    ("EnableStreamMemOPs", "0"),
    ("CreateImexChannel0", "0"),
    ("ImexChannelCount", "2048"),
    ("DeviceFileMode", "438"),
];

pub fn facts(system: &ExaminedSystem) -> Vec<Fact> {
    vec![
        with_name("kernel module", kernel_module_flavor(system)),
        with_name("driver versions", Ok(compare_driver_versions(system))),
        with_name("driver parameters", list_module_parameters(system)),
    ]
}

/// Returns the version of NVIDIA's kernel module, such as 580.159.04.
pub fn kernel_module_version(system: &ExaminedSystem) -> Option<String> {
    let text = system.tree.read_text("/proc/driver/nvidia/version").ok()?;
    let line = text.lines().next()?;
    let is_version =
        |word: &&str| word.contains('.') && word.chars().all(|letter| letter == '.' || letter.is_ascii_digit());
    line.split_whitespace().find(is_version).map(str::to_owned)
}

/// Returns the flavor of the kernel module. `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04
/// ...` is the open one.
fn kernel_module_flavor(system: &ExaminedSystem) -> Readable<Fact> {
    let text = match system.tree.read_text("/proc/driver/nvidia/version") {
        Err(_) if system.tree.exists("/dev/dxg") => {
            return Ok(plain_fact("none: WSL 2 has /dev/dxg in its place"));
        }
        text => text?,
    };
    let kind = if text.contains("Open Kernel Module") { "open" } else { "proprietary" };
    let version = kernel_module_version(system).unwrap_or_else(|| "unknown version".to_owned());
    let taint = system.tree.read_text("/sys/module/nvidia/taint").unwrap_or_default();
    let taint = if taint.is_empty() { String::new() } else { format!(", taint {taint}") };
    Ok(plain_fact(format!("{kind}, {version}{taint}")))
}

/// Compares the versions of the module and the libraries. If they differ, NVML returns
/// NVML_ERROR_LIB_RM_VERSION_MISMATCH (18).
fn compare_driver_versions(system: &ExaminedSystem) -> Fact {
    const HINT: &str = "Reboot, or load the module of the version of the libraries; in containers, let the NVIDIA Container Toolkit mount the host's libraries, and remove those in the image.";
    const BREAKS: &str = "all CUDA calls: the libraries and the kernel module are of different versions";
    match (&system.queried.nvml, kernel_module_version(system)) {
        (Err(why), _) if why == "nvmlInit_v2 returned 18" => {
            bad_fact("the libraries are not those of the kernel module", BREAKS, HINT)
        }
        (Ok(nvml), Some(module)) => match &nvml.driver {
            Some(driver) if *driver == module => good_fact(format!("module and libraries {module}")),
            Some(driver) => bad_fact(format!("module {module}, libraries {driver}"), BREAKS, HINT),
            None => unknown_fact("NVML does not say its version"),
        },
        (Err(why), _) => unknown_fact(format!("NVML: {why}")),
        (Ok(_), None) => unknown_fact("the kernel module does not say its version"),
    }
}

/// Reports the parameters with which the module was loaded.
fn list_module_parameters(system: &ExaminedSystem) -> Readable<Fact> {
    let text = system.tree.read_text("/proc/driver/nvidia/params")?;
    let pairs: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(key, value)| (key, value.trim_matches('"')))
        .collect();
    let value = |key: &str| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let keys = value("RegistryDwords").unwrap_or_default();
    let mut told: Vec<String> = DEFAULT_PARAMETERS
        .iter()
        .filter_map(|(key, usual)| value(key).filter(|value| value != usual).map(|value| format!("{key}={value}")))
        .collect();
    if !keys.is_empty() {
        told.push(format!("RegistryDwords={keys}"));
    }
    let told =
        if told.is_empty() { "none that changes which devices reach each other".to_owned() } else { told.join(", ") };
    if value("NvLinkDisable").is_some_and(|value| value != "0") {
        return Ok(bad_fact(
            format!("NvLinkDisable=1, {told}"),
            "NVLink: peers reach each other over PCIe, or not at all",
            "Load the nvidia module without NVreg_NvLinkDisable=1 (/etc/modprobe.d).",
        ));
    }
    if keys.contains("ForceP2P") {
        return Ok(unknown_fact(format!("{told}: peer access is forced, whatever the machine can do")).with_effect(
            "peer access over PCIe: writes may be lost where the machine cannot do it",
            "Take ForceP2P out of NVreg_RegistryDwords (/etc/modprobe.d), unless a test with data has shown that it works.",
        ));
    }
    Ok(plain_fact(told))
}
