//! NVIDIA's kernel module: its flavour, its version against that of the libraries, and parameters that change who reaches whom.

use super::Fact;
use super::System;

/// Parameters of /proc/driver/nvidia/params whose value is told where it is not the usual one.
const TOLD: [(&str, &str); 6] = [
    ("EnableResizableBar", "0"),
    ("GrdmaPciTopoCheckOverride", "0"),
    ("EnableStreamMemOPs", "0"),
    ("CreateImexChannel0", "0"),
    ("ImexChannelCount", "2048"),
    ("DeviceFileMode", "438"),
];

pub fn facts(system: &System) -> Vec<Fact> {
    vec![flavour(system), libraries(system), parameters(system)]
}

/// The version of the module, such as 580.159.04.
pub fn version(system: &System) -> Option<String> {
    let text = system.tree.text("/proc/driver/nvidia/version").ok()?;
    let line = text.lines().next()?;
    let is_version = |word: &&str| {
        word.contains('.') && word.chars().all(|letter| letter == '.' || letter.is_ascii_digit())
    };
    line.split_whitespace().find(is_version).map(str::to_owned)
}

/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04 ...` is the open one.
fn flavour(system: &System) -> Fact {
    const NAME: &str = "kernel module";
    match system.tree.text("/proc/driver/nvidia/version") {
        Ok(text) => {
            let is_open = text.contains("Open Kernel Module");
            let taint = system.tree.text("/sys/module/nvidia/taint").unwrap_or_default();
            let kind = if is_open { "open" } else { "proprietary" };
            let version = version(system).unwrap_or_else(|| "unknown version".to_owned());
            let taint = if taint.is_empty() { String::new() } else { format!(", taint {taint}") };
            Fact::plain(NAME, format!("{kind}, {version}{taint}"))
        }
        Err(_) if system.tree.exists("/dev/dxg") => {
            Fact::plain(NAME, "none: WSL 2 has /dev/dxg in its place")
        }
        Err(withheld) => Fact::unknown(NAME, withheld),
    }
}

/// The libraries are of the version of the module; NVML answers NVML_ERROR_LIB_RM_VERSION_MISMATCH (18) where not.
fn libraries(system: &System) -> Fact {
    const NAME: &str = "driver versions";
    const HINT: &str = "Reboot, or load the module of the version of the libraries; in containers, let the NVIDIA Container Toolkit mount the host's libraries, and remove those in the image.";
    const BREAKS: &str = "all CUDA calls: the libraries and the kernel module are of different versions";
    match (&system.asked.nvml, version(system)) {
        (Err(why), _) if why == "nvmlInit_v2 returned 18" => {
            Fact::bad(NAME, "the libraries are not those of the kernel module", BREAKS, HINT)
        }
        (Ok(nvml), Some(module)) => match &nvml.driver {
            Some(driver) if *driver == module => Fact::good(NAME, format!("module and libraries {module}")),
            Some(driver) => Fact::bad(NAME, format!("module {module}, libraries {driver}"), BREAKS, HINT),
            None => Fact::unknown(NAME, "NVML does not say its version"),
        },
        (Err(why), _) => Fact::unknown(NAME, format!("NVML: {why}")),
        (Ok(_), None) => Fact::unknown(NAME, "the kernel module does not say its version"),
    }
}

/// What the module was loaded with.
fn parameters(system: &System) -> Fact {
    const NAME: &str = "driver parameters";
    let text = match system.tree.text("/proc/driver/nvidia/params") {
        Ok(text) => text,
        Err(withheld) => return Fact::unknown(NAME, withheld),
    };
    let pairs: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(key, value)| (key, value.trim_matches('"')))
        .collect();
    let value = |key: &str| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let keys = value("RegistryDwords").unwrap_or_default();
    let mut told: Vec<String> = TOLD
        .iter()
        .filter_map(|(key, usual)| {
            value(key).filter(|value| value != usual).map(|value| format!("{key}={value}"))
        })
        .collect();
    if !keys.is_empty() {
        told.push(format!("RegistryDwords={keys}"));
    }
    let told = if told.is_empty() {
        "none that changes which devices reach each other".to_owned()
    } else {
        told.join(", ")
    };
    if value("NvLinkDisable").is_some_and(|value| value != "0") {
        return Fact::bad(
            NAME,
            format!("NvLinkDisable=1, {told}"),
            "NVLink: peers reach each other over PCIe, or not at all",
            "Load the nvidia module without NVreg_NvLinkDisable=1 (/etc/modprobe.d).",
        );
    }
    if keys.contains("ForceP2P") {
        return Fact::unknown(NAME, format!("{told}: peer access is forced, whatever the machine can do")).breaks(
            "peer access over PCIe: writes may be lost where the machine cannot do it",
            "Take ForceP2P out of NVreg_RegistryDwords (/etc/modprobe.d), unless a test with data has shown that it works.",
        );
    }
    Fact::plain(NAME, told)
}
