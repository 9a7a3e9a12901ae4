//! Identity and rights of this process: the facts that decide whether it can share with another process.

use super::ExaminedSystem;
use super::{fabric, module, platform};
use crate::queries::{CudaDevice, Descriptor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const CAP_SYS_PTRACE: u32 = 19;

/// Process that ran `cupeer doctor`. Facts that are withheld are null.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default, JsonSchema)]
#[serde(default)]
pub struct Process {
    /// Host name, which may be specific to a container.
    pub host: Option<String>,
    /// Boot id of the kernel: processes with the same one run on one host.
    pub boot_id: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Kind of container that the process seems to run in; null if none.
    pub container: Option<String>,
    /// Namespaces by kind, such as `"pid": "4026531836"`.
    pub namespaces: BTreeMap<String, String>,
    /// User ids in the process's own user namespace.
    pub user: Option<Ids>,
    /// Group ids in the process's own user namespace.
    pub group: Option<Ids>,
    /// Effective user id in the parent of its user namespace.
    pub host_user: Option<u32>,
    /// Permitted capabilities, as a hexadecimal number.
    pub permitted: Option<String>,
    /// Effective capabilities, as a hexadecimal number.
    pub effective: Option<String>,
    /// Seccomp mode: 0 for none, 2 for a filter.
    pub seccomp: Option<u32>,
    /// Yama's ptrace_scope; 0 without Yama.
    pub ptrace_scope: Option<u32>,
    /// Result of taking a file descriptor from a process that is not its child.
    pub descriptor: Option<Descriptor>,
    /// Device number of the file system at /dev/shm.
    pub shm: Option<String>,
    /// IMEX channels that the process may use.
    pub imex: Option<Vec<String>>,
    /// Version of NVIDIA's kernel module.
    pub module: Option<String>,
    /// Version of NVIDIA's libraries, from NVML.
    pub libraries: Option<String>,
    /// GPUs that the process may use.
    pub devices: Option<Vec<Device>>,
}

/// User or group ids of a process.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, JsonSchema)]
pub struct Ids {
    /// Real id.
    pub real: u32,
    /// Effective id.
    pub effective: u32,
    /// Saved id.
    pub saved: u32,
}

/// GPU.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, JsonSchema)]
pub struct Device {
    /// UUID of the GPU.
    pub uuid: String,
    /// PCI address of the GPU.
    pub pci: String,
    /// True if CUDA shows the GPU to the process; CUDA_VISIBLE_DEVICES may hide it.
    pub shown: Option<bool>,
    /// True if the GPU is partitioned (MIG); null if NVML does not tell.
    pub mig: Option<bool>,
    /// True if the GPU reports support for fabric handles.
    pub fabric: Option<bool>,
    /// Fabric that the GPU is registered in, and the clique in it that the GPU reaches.
    pub clique: Option<String>,
}

impl Process {
    pub fn from_system(system: &ExaminedSystem) -> Process {
        let tree = &system.tree;
        let status = tree.read_text("/proc/self/status").unwrap_or_default();
        let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let ids = |name: &str| {
            let numbers: Vec<u32> = of(name)?.split_whitespace().filter_map(|id| id.parse().ok()).collect();
            match numbers[..] {
                [real, effective, saved, ..] => Some(Ids { real, effective, saved }),
                _ => None,
            }
        };
        let user = ids("Uid");
        let mut namespaces = BTreeMap::new();
        for kind in ["pid", "ipc", "mnt", "net", "user", "uts", "cgroup"] {
            // Example of a link: pid:[4026531836]
            let id = tree.read_link(&format!("/proc/self/ns/{kind}")).ok();
            let id = id.as_deref().and_then(|link| link.split_once('[')?.1.strip_suffix(']'));
            namespaces.extend(id.map(|id| (kind.to_owned(), id.to_owned())));
        }
        let ptrace_scope = match tree.read_text("/proc/sys/kernel/yama/ptrace_scope") {
            Ok(text) => text.parse().ok(),
            Err(withheld) => (withheld.is_not_found() && tree.exists("/proc/sys/kernel")).then_some(0),
        };
        let host_user =
            user.as_ref().and_then(|user| map_to_outer_id(&tree.read_text("/proc/self/uid_map").ok()?, user.effective));
        let nvml = system.queried.nvml.as_ref().ok();
        Process {
            host: tree.read_text("/proc/sys/kernel/hostname").ok(),
            boot_id: tree.read_text("/proc/sys/kernel/random/boot_id").ok(),
            kernel: tree.read_text("/proc/sys/kernel/osrelease").ok(),
            container: platform::detect_container(system),
            namespaces,
            user,
            group: ids("Gid"),
            host_user,
            permitted: of("CapPrm").map(|text| text.trim().to_owned()),
            effective: of("CapEff").map(|text| text.trim().to_owned()),
            seccomp: of("Seccomp").and_then(|text| text.trim().parse().ok()),
            ptrace_scope,
            descriptor: system.queried.descriptor.clone(),
            shm: tree.file_system_of("/dev/shm").ok().map(|shm| shm.device),
            imex: fabric::usable_imex_channels(system),
            module: module::kernel_module_version(system),
            libraries: nvml.and_then(|nvml| nvml.driver.clone()),
            devices: list_devices(system),
        }
    }

    /// Returns true if the process has the capability to trace any process of its user namespace.
    pub fn has_ptrace_capability(&self) -> Option<bool> {
        let effective = u64::from_str_radix(self.effective.as_deref()?, 16).ok()?;
        Some(effective >> CAP_SYS_PTRACE & 1 == 1)
    }
}

/// Returns the devices that NVML shows: those that device nodes and cgroups allow. Without NVML, returns the
/// devices that CUDA shows.
fn list_devices(system: &ExaminedSystem) -> Option<Vec<Device>> {
    let cuda = system.queried.cuda.as_ref().ok().filter(|cuda| cuda.init == 0);
    let of_cuda = |pci: &str| cuda.and_then(|cuda| cuda.devices.iter().find(|device| device.pci == pci));
    let Ok(nvml) = &system.queried.nvml else {
        let plain = |device: &CudaDevice| Device {
            uuid: device.uuid.clone(),
            pci: device.pci.clone(),
            shown: Some(true),
            mig: None,
            fabric: device.fabric,
            clique: None,
        };
        return Some(cuda?.devices.iter().map(plain).collect());
    };
    let devices = nvml.devices.iter().map(|device| Device {
        uuid: device.uuid.clone(),
        pci: device.pci.clone(),
        shown: cuda.map(|_| of_cuda(&device.pci).is_some()),
        mig: device.mig,
        fabric: of_cuda(&device.pci).and_then(|device| device.fabric),
        clique: device.fabric.as_ref().filter(|f| f.state == 3).map(|f| format!("{}/{}", f.cluster, f.clique)),
    });
    Some(devices.collect())
}

/// Returns the user id outside of a namespace for an id inside. `map` is the namespace's uid_map, whose lines have
/// the first id inside, the first id outside, and the count.
fn map_to_outer_id(map: &str, id: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [inside, outside, count] = numbers[..] else { return None };
        let offset = id.checked_sub(inside)?;
        (offset < count).then(|| outside.checked_add(offset)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::map_to_outer_id;

    #[test]
    fn user_ids_are_translated_by_the_map() {
        assert_eq!(map_to_outer_id("         0          0 4294967295\n", 1000), Some(1000));
        assert_eq!(map_to_outer_id("0 1000 1\n1 100000 65536\n", 0), Some(1000));
        assert_eq!(map_to_outer_id("0 1000 1\n1 100000 65536\n", 5), Some(100_004));
        assert_eq!(map_to_outer_id("0 1000 1", 7), None);
        assert_eq!(map_to_outer_id("no numbers", 0), None);
    }
}
