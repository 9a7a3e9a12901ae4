//! NVSwitches, Fabric Manager, and the IMEX channels without which there are no fabric handles.
//!
//! "Applications that intend to use CU_MEM_HANDLE_TYPE_FABRIC based memory sharing must ensure: (1)
//! `nvidia-caps-imex-channels` character device is created by the driver and is listed under /proc/devices (2) have at least
//! one IMEX channel file accessible by the user launching the application": cuMemCreate. The channels are not made by default:
//! IMEX guide, IMEX Channels.

use super::pci::has_switches;
use super::tree::Readable;
use super::{ExaminedSystem, Fact, bad_fact, good_fact, plain_fact, unknown_fact, with_name};

const DEVICE: &str = "nvidia-caps-imex-channels";

pub fn facts(system: &ExaminedSystem) -> Vec<Fact> {
    vec![
        with_name("fabric manager", Ok(judge_fabric_state(system))),
        with_name("imex channels", judge_imex_channels(system)),
    ]
}

/// Judges the state of the fabric (`nvmlGpuFabricState_t`) of all devices together.
fn judge_fabric_state(system: &ExaminedSystem) -> Fact {
    const BREAKS: &str = "all CUDA calls: cuInit returns CUDA_ERROR_SYSTEM_NOT_READY until the devices are registered";
    const HINT: &str = "Start Fabric Manager of the driver's version: systemctl status nvidia-fabricmanager; its log is /var/log/fabricmanager.log.";
    let switches = if has_switches(&system.tree) { "NVSwitches on the PCI bus, " } else { "" };
    let Ok(nvml) = &system.queried.nvml else {
        let why = system.queried.nvml.as_ref().err().map_or("", String::as_str);
        return unknown_fact(format!("{switches}NVML: {why}"));
    };
    let states: Vec<_> = nvml.devices.iter().filter_map(|device| device.fabric.as_ref()).collect();
    if states.is_empty() {
        return unknown_fact(format!("{switches}NVML does not say how far the registration is"));
    }
    let of = |state: u8| states.iter().filter(|fabric| fabric.state == state).count();
    if of(1) + of(2) > 0 {
        let value = format!("{switches}{} of {} devices are not registered yet", of(1) + of(2), states.len());
        return bad_fact(value, BREAKS, HINT);
    }
    if let Some(failed) = states.iter().find(|fabric| fabric.state == 3 && fabric.status != 0) {
        let value = format!("{switches}the registration failed: nvmlReturn_t {}", failed.status);
        return bad_fact(value, "NVLink through the switches, and fabric handles", HINT);
    }
    match of(3) {
        0 => plain_fact(format!("{switches}the devices are in no fabric")),
        registered => {
            let first = states.iter().find(|fabric| fabric.state == 3);
            let place = first.map(|f| format!("cluster {}, clique {}", f.cluster, f.clique)).unwrap_or_default();
            good_fact(format!("{switches}{registered} of {} devices are registered, {place}", states.len()))
        }
    }
}

/// Returns the IMEX channels that this process may use; `None` if unknown.
pub fn usable_imex_channels(system: &ExaminedSystem) -> Option<Vec<String>> {
    let directory = format!("/dev/{DEVICE}");
    match system.tree.list_directory(&directory) {
        Ok(names) => {
            let usable = |name: &String| {
                name.starts_with("channel") && system.tree.check_access(&format!("{directory}/{name}")).is_ok()
            };
            Some(names.into_iter().filter(usable).collect())
        }
        Err(withheld) => withheld.is_not_found().then(Vec::new),
    }
}

/// Returns true if NVML reports for all devices the cluster number 0: no device belongs to a cluster, which is an NVLink
/// domain of several machines.
fn is_outside_clusters(system: &ExaminedSystem) -> bool {
    let Ok(nvml) = &system.queried.nvml else { return false };
    let clusters = nvml.devices.iter().map(|device| Some(&device.fabric.as_ref()?.cluster));
    !nvml.devices.is_empty()
        && clusters.into_iter().all(|cluster| cluster.is_some_and(|id| id.bytes().all(|digit| digit == b'0')))
}

fn judge_imex_channels(system: &ExaminedSystem) -> Readable<Fact> {
    const BREAKS: &str = "fabric handles: cuMemCreate with CU_MEM_HANDLE_TYPE_FABRIC returns CUDA_ERROR_NOT_PERMITTED, though the devices say that they support it";
    const HINT: &str = "mkdir /dev/nvidia-caps-imex-channels; mknod /dev/nvidia-caps-imex-channels/channel0 c MAJOR 0, with the number of nvidia-caps-imex-channels in /proc/devices (or NVreg_CreateImexChannel0=1), and give the node to the container.";
    let says_fabric = system.queried.cuda.as_ref().ok().map(|cuda| cuda.devices.iter().any(|d| d.fabric == Some(true)));
    let usable = usable_imex_channels(system);
    if let Some(usable) = usable.as_ref().filter(|usable| !usable.is_empty()) {
        let more = if usable.len() > 8 { format!(" and {} more", usable.len() - 8) } else { String::new() };
        let first: Vec<&str> = usable.iter().take(8).map(String::as_str).collect();
        return Ok(good_fact(format!("{}{more}", first.join(", "))));
    }
    let listed = system.tree.read_text("/proc/devices")?.lines().any(|line| line.ends_with(DEVICE));
    let value = match (&usable, system.tree.exists(&format!("/dev/{DEVICE}"))) {
        (None, _) => return Ok(unknown_fact(format!("/dev/{DEVICE} cannot be read"))),
        (_, true) => format!("none in /dev/{DEVICE} that this user may use"),
        (_, false) => format!("there is no /dev/{DEVICE}"),
    };
    Ok(match (listed, says_fabric) {
        (_, Some(false)) => plain_fact(format!("{value}; no device supports fabric handles")),
        (false, _) => plain_fact(format!("{value}; the kernel module has none")),
        // Within one machine, file descriptors can replace fabric handles.
        (true, Some(true)) if is_outside_clusters(system) => {
            plain_fact(format!("{value}; only an NVLink domain of several machines needs them"))
        }
        (true, Some(true)) => bad_fact(value, BREAKS, HINT),
        (true, None) => unknown_fact(format!("{value}; whether the devices support fabric handles is not known"))
            .with_effect(BREAKS, HINT),
    })
}
