//! What decides whether this process and another one can share: who it is, where it is, and what it may do.

use super::System;
use super::{fabric, module, platform};
use crate::doctor::asked::{CudaDevice, Descriptor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const CAP_SYS_PTRACE: u32 = 19;

/// A process. What is withheld is `null`.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Process {
    /// The name of its host, which two containers of one host may have for themselves.
    pub host: Option<String>,
    /// The boot of its kernel: processes with the same one run on one host.
    pub boot_id: Option<String>,
    /// The release of its kernel.
    pub kernel: Option<String>,
    /// In what kind of container it seems to be; `null` where it seems to be in none.
    pub container: Option<String>,
    /// Its namespaces by kind, such as `"pid": "4026531836"`.
    pub namespaces: BTreeMap<String, String>,
    /// Its user ids, as it sees them.
    pub user: Option<Ids>,
    /// Its group ids, as it sees them.
    pub group: Option<Ids>,
    /// The effective user id outside of its user namespace, in the namespace's parent.
    pub host_user: Option<u32>,
    /// The permitted capabilities, as a hexadecimal number.
    pub permitted: Option<String>,
    /// The effective capabilities, as a hexadecimal number.
    pub effective: Option<String>,
    /// The mode of seccomp: 0 none, 2 a filter.
    pub seccomp: Option<u32>,
    /// Yama's ptrace_scope; 0 where there is no Yama.
    pub ptrace_scope: Option<u32>,
    /// Whether it could take a descriptor of a process that is not its child.
    pub descriptor: Option<Descriptor>,
    /// The device number of the file system at /dev/shm.
    pub shm: Option<String>,
    /// The IMEX channels that it may use.
    pub imex: Option<Vec<String>>,
    /// The version of NVIDIA's kernel module.
    pub module: Option<String>,
    /// The version of NVIDIA's libraries, as NVML says it.
    pub libraries: Option<String>,
    /// The GPUs that it may use.
    pub devices: Option<Vec<Device>>,
}

/// The ids of a process.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ids {
    pub real: u32,
    pub effective: u32,
    pub saved: u32,
}

/// A GPU.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Device {
    pub uuid: String,
    /// Its PCI address.
    pub pci: String,
    /// Whether CUDA shows it to the process: CUDA_VISIBLE_DEVICES may hide it.
    pub shown: Option<bool>,
    /// Whether it is divided (MIG); `null` where NVML did not say.
    pub mig: Option<bool>,
    /// Whether it says that it can make fabric handles.
    pub fabric: Option<bool>,
    /// The fabric in which it is registered, and the number of those in it that it reaches.
    pub clique: Option<String>,
}

impl Process {
    pub fn of(system: &System) -> Process {
        let tree = &system.tree;
        let status = tree.text("/proc/self/status").unwrap_or_default();
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
            // pid:[4026531836]
            let id = tree.link(&format!("/proc/self/ns/{kind}")).ok();
            let id = id.as_deref().and_then(|link| link.split_once('[')?.1.strip_suffix(']'));
            namespaces.extend(id.map(|id| (kind.to_owned(), id.to_owned())));
        }
        let ptrace_scope = match tree.text("/proc/sys/kernel/yama/ptrace_scope") {
            Ok(text) => text.parse().ok(),
            Err(withheld) => (withheld.is_absent() && tree.exists("/proc/sys/kernel")).then_some(0),
        };
        let host_user =
            user.as_ref().and_then(|user| outside(&tree.text("/proc/self/uid_map").ok()?, user.effective));
        let nvml = system.asked.nvml.as_ref().ok();
        Process {
            host: tree.text("/proc/sys/kernel/hostname").ok(),
            boot_id: tree.text("/proc/sys/kernel/random/boot_id").ok(),
            kernel: tree.text("/proc/sys/kernel/osrelease").ok(),
            container: platform::container(system),
            namespaces,
            user,
            group: ids("Gid"),
            host_user,
            permitted: of("CapPrm").map(|text| text.trim().to_owned()),
            effective: of("CapEff").map(|text| text.trim().to_owned()),
            seccomp: of("Seccomp").and_then(|text| text.trim().parse().ok()),
            ptrace_scope,
            descriptor: system.asked.descriptor.clone(),
            shm: tree.file_system("/dev/shm").ok().map(|shm| shm.device),
            imex: fabric::channels(system),
            module: module::version(system),
            libraries: nvml.and_then(|nvml| nvml.driver.clone()),
            devices: devices(system),
        }
    }

    /// Whether it may trace any process of its user namespace.
    pub fn has_ptrace(&self) -> Option<bool> {
        let effective = u64::from_str_radix(self.effective.as_deref()?, 16).ok()?;
        Some(effective >> CAP_SYS_PTRACE & 1 == 1)
    }
}

/// Those of NVML, which shows what device nodes and cgroups allow; else those of CUDA.
fn devices(system: &System) -> Option<Vec<Device>> {
    let cuda = system.asked.cuda.as_ref().ok().filter(|cuda| cuda.init == 0);
    let of_cuda = |pci: &str| cuda.and_then(|cuda| cuda.devices.iter().find(|device| device.pci == pci));
    let Ok(nvml) = &system.asked.nvml else {
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
        clique: device
            .fabric
            .as_ref()
            .filter(|f| f.state == 3)
            .map(|f| format!("{}/{}", f.cluster, f.clique)),
    });
    Some(devices.collect())
}

/// What a user id of a namespace is outside, by its uid_map: lines of the first id inside, the first outside, and how many.
fn outside(map: &str, id: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [inside, outside, count] = numbers[..] else { return None };
        let offset = id.checked_sub(inside)?;
        (offset < count).then(|| outside.checked_add(offset)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::outside;

    #[test]
    fn user_ids_are_translated_by_the_map() {
        assert_eq!(outside("         0          0 4294967295\n", 1000), Some(1000));
        assert_eq!(outside("0 1000 1\n1 100000 65536\n", 0), Some(1000));
        assert_eq!(outside("0 1000 1\n1 100000 65536\n", 5), Some(100_004));
        assert_eq!(outside("0 1000 1", 7), None);
        assert_eq!(outside("no numbers", 0), None);
    }
}
