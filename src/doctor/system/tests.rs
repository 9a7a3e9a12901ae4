//! Machines that are made here, and what is said of them.

use super::*;
use crate::queries::{CudaAnswers, CudaDevice, CudaPair, Descriptor};
use cupeer_nvidia::nvml::machine::{FabricMembership, NvmlDevice, NvmlDevicePair, NvmlMachine};
use cupeer_p2p::fact::facts_about_pair;
use std::fs;
use std::os::unix::fs::symlink;

/// A machine below a directory.
struct Made {
    root: tempfile::TempDir,
    queried: QueryResults,
    environment: Vec<(String, String)>,
}

impl Made {
    /// A machine without GPUs whose kernel withholds nothing.
    fn new() -> Made {
        let queried = QueryResults {
            nvml: Err("libnvidia-ml.so.1: cannot open shared object file".into()),
            cuda: Err("libcuda.so.1: cannot open shared object file".into()),
            descriptor: Some(Descriptor::Taken),
        };
        let made = Made { root: tempfile::tempdir().unwrap(), queried, environment: Vec::new() };
        for directory in
            ["sys/class/iommu", "sys/bus/pci/devices", "sys/kernel/iommu_groups", "dev/shm", "proc/sys/kernel"]
        {
            fs::create_dir_all(made.root.path().join(directory)).unwrap();
        }
        made.file("/proc/cmdline", "quiet");
        made.file("/proc/cpuinfo", "flags\t\t: fpu vme de\n");
        made.file("/proc/devices", "Character devices:\n195 nvidia\n234 nvidia-caps-imex-channels\n");
        made.file(
            "/proc/self/limits",
            "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  unlimited  unlimited  bytes\n",
        );
        made.file("/proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nGid:\t7\t7\t7\t7\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nSeccomp:\t0\n");
        made.file("/proc/self/uid_map", "         0     100000      65536\n");
        made.link("/proc/self/ns/pid", "pid:[4026531836]");
        made
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.path().join(&path[1..]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.root.path().join(&path[1..]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// A bridge with this control register of ACS.
    fn bridge(&self, address: &str, acs: u16) {
        let at = format!("/sys/bus/pci/devices/{address}");
        self.file(&format!("{at}/class"), "0x060400\n");
        self.file(&format!("{at}/vendor"), "0x8086\n");
        self.file(&format!("{at}/max_link_width"), "16\n");
        self.file(&format!("{at}/config"), pci::tests::config(&[(0x100, 1, 0x148, 0), (0x148, 0xd, 0, acs)]));
    }

    /// A GPU below bridges, in a group of the IOMMU of this type, with this many lanes of 16 and a BAR1 of 64 GiB.
    fn gpu(&self, address: &str, bridges: &[&str], group: Option<(&str, &str)>, lanes: u32) {
        let device = format!("/sys/devices/pci0000:00/{}/{address}", bridges.join("/"));
        self.file(&format!("{device}/class"), "0x030200\n");
        self.file(&format!("{device}/vendor"), "0x10de\n");
        self.file(&format!("{device}/current_link_width"), format!("{lanes}\n"));
        self.file(&format!("{device}/max_link_width"), "16\n");
        self.file(&format!("{device}/current_link_speed"), "16.0 GT/s PCIe\n");
        self.file(&format!("{device}/max_link_speed"), "16.0 GT/s PCIe\n");
        let bar1 = "0x0 0xffffff 0x40200\n0x10000000000 0x10fffffffff 0x14220c\n";
        self.file(&format!("{device}/resource"), bar1);
        self.link(&format!("{device}/driver"), "../../../bus/pci/drivers/nvidia");
        if let Some((number, kind)) = group {
            self.link(&format!("{device}/iommu_group"), &format!("../../../kernel/iommu_groups/{number}"));
            self.file(&format!("/sys/kernel/iommu_groups/{number}/type"), format!("{kind}\n"));
        }
        self.link(&format!("/sys/bus/pci/devices/{address}"), &format!("../../..{}", &device["/sys".len()..]));
    }

    /// NVIDIA's module and libraries, which know these devices; each pair answers so.
    fn driver(&mut self, addresses: &[&str], pair: &NvmlDevicePair, reaches: bool) {
        self.file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x)\nGCC version: 12\n");
        self.file("/proc/driver/nvidia/params", "EnableResizableBar: 0\nNvLinkDisable: 0\nRegistryDwords: \"\"\n");
        for name in ["nvidiactl", "nvidia-uvm"] {
            self.file(&format!("/dev/{name}"), "");
        }
        let uuid = |i: usize| format!("GPU-{i}");
        let of_all = |from: usize| (0..addresses.len()).filter(move |to| *to != from).map(move |to| (from, to));
        let pairs: Vec<(usize, usize)> = (0..addresses.len()).flat_map(of_all).collect();
        let device = |(i, address): (usize, &&str)| {
            self.file(&format!("/dev/nvidia{i}"), "");
            NvmlDevice {
                pci: (*address).to_owned(),
                uuid: uuid(i),
                memory: Some(48 << 30),
                persistence: Some(true),
                mig: Some(false),
                compute_mode: Some(0),
                fabric: Some(FabricMembership { state: 0, status: 0, cluster: String::new(), clique: 0 }),
                ..NvmlDevice::default()
            }
        };
        self.queried.nvml = Ok(NvmlMachine {
            driver: Some("580.159.04".into()),
            devices: addresses.iter().enumerate().map(device).collect(),
            pairs: pairs.iter().map(|(from, to)| NvmlDevicePair { from: *from, to: *to, ..pair.clone() }).collect(),
        });
        let device =
            |(i, address): (usize, &&str)| CudaDevice { pci: (*address).to_owned(), uuid: uuid(i), fabric: Some(true) };
        self.queried.cuda = Ok(CudaAnswers {
            init: 0,
            devices: addresses.iter().enumerate().map(device).collect(),
            pairs: pairs.iter().map(|(from, to)| CudaPair { from: *from, to: *to, reaches: Some(reaches) }).collect(),
        });
    }

    fn nvml(&mut self) -> &mut NvmlMachine {
        self.queried.nvml.as_mut().unwrap()
    }

    fn system(self) -> (ExaminedSystem, tempfile::TempDir) {
        (ExaminedSystem::new(KernelFileTree::new(self.root.path()), self.queried, self.environment), self.root)
    }
}

/// The values of the facts of a name, with their verdicts, each once.
fn of(facts: &[Fact], name: &str) -> Vec<(Verdict, String)> {
    let mut found: Vec<_> =
        facts.iter().filter(|fact| fact.name == name).map(|fact| (fact.verdict, fact.value.clone())).collect();
    found.dedup();
    found
}

#[track_caller]
fn is(facts: &[Fact], name: &str, verdict: Verdict, value: &str) {
    let found = of(facts, name);
    assert!(found.iter().any(|(v, text)| *v == verdict && text == value), "{name}: {found:?}");
}

const NVLINK: NvmlDevicePair = NvmlDevicePair { from: 0, to: 0, read: Some(0), write: Some(0), nvlink: Some(0) };
const PCIE: NvmlDevicePair = NvmlDevicePair { from: 0, to: 0, read: Some(0), write: Some(0), nvlink: Some(5) };

/// A server of eight GPUs, each below a switch of its own.
fn server() -> Made {
    let mut made = Made::new();
    let addresses: Vec<String> = (1..=8).map(|i| format!("0000:{i:02x}:00.0")).collect();
    for (i, address) in addresses.iter().enumerate() {
        let bridge = format!("0000:00:{i:02x}.1");
        made.bridge(&bridge, 0);
        made.gpu(address, &[&bridge], Some((&i.to_string(), "identity")), 16);
    }
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    made.driver(&addresses, &NVLINK, true);
    made.file("/sys/class/iommu/dmar0/x", "");
    made.file("/dev/nvidia-caps-imex-channels/channel0", "");
    for device in &mut made.nvml().devices {
        device.fabric = Some(FabricMembership { state: 3, status: 0, cluster: "ab".into(), clique: 1 });
    }
    made
}

#[test]
fn a_good_server_has_nothing_bad_or_unknown() {
    let (system, _root) = server().system();
    let facts = system.facts();
    let others: Vec<_> = facts.iter().filter(|fact| matches!(fact.verdict, Verdict::Bad | Verdict::Unknown)).collect();
    assert!(others.is_empty(), "{others:?}");
    is(&facts, "kernel module", Verdict::Plain, "open, 580.159.04");
    is(&facts, "driver versions", Verdict::Good, "module and libraries 580.159.04");
    is(&facts, "gpus", Verdict::Plain, "8 of CUDA, 8 of NVML, 8 on the PCI bus");
    is(&facts, "iommu group", Verdict::Good, "identity: not translated");
    is(&facts, "acs", Verdict::Good, "no bridge redirects peer traffic");
    is(&facts, "bar1", Verdict::Good, "64GiB for 48GiB of memory");
    is(&facts, "pcie link", Verdict::Good, "x16 at 16.0 GT/s");
    is(&facts, "peer access", Verdict::Good, "by NVLink, for NVML and for CUDA");
    is(&facts, "fabric manager", Verdict::Good, "8 of 8 devices are registered, cluster ab, clique 1");
    is(&facts, "imex channels", Verdict::Good, "channel0");
    assert_eq!(facts.iter().filter(|fact| fact.name == "peer access").count(), 56);
    // Eight devices that are alike are one row.
    let rows = group_alike(&facts);
    assert_eq!(rows.iter().filter(|(fact, _)| fact.name == "pcie link").count(), 1);
    let (_, about) = rows.iter().find(|(fact, _)| fact.name == "peer access").unwrap();
    assert_eq!(about, "56 pairs from 0000:01:00.0 -> 0000:02:00.0");
}

/// Two GPUs below one switch, over PCIe, with all that the firmware can do to them.
fn workstation() -> Made {
    let mut made = Made::new();
    made.bridge("0000:00:01.0", 0);
    made.bridge("0000:01:00.0", 0x1d);
    for (address, lanes) in [("0000:02:00.0", 16), ("0000:03:00.0", 4)] {
        made.gpu(address, &["0000:00:01.0", "0000:01:00.0"], Some(("9", "DMA-FQ")), lanes);
    }
    made.driver(&["0000:02:00.0", "0000:03:00.0"], &PCIE, true);
    made.file("/sys/class/iommu/ivhd0/x", "");
    made.file("/proc/cmdline", "quiet amd_iommu=on iommu=nopt root=/dev/sda");
    made
}

#[test]
fn a_domain_of_several_machines_needs_channels() {
    let mut made = workstation();
    for device in &mut made.queried.nvml.as_mut().expect("NVML").devices {
        device.fabric = Some(FabricMembership { state: 3, status: 0, cluster: "ab".into(), clique: 1 });
    }
    let (system, _root) = made.system();
    is(&system.facts(), "imex channels", Verdict::Bad, "there is no /dev/nvidia-caps-imex-channels");
}

#[test]
fn settings_that_lose_peer_writes_are_named() {
    let made = workstation();
    let (system, _root) = made.system();
    let facts = system.facts();
    is(&facts, "iommu", Verdict::Plain, "1 in use (ivhd0, ...), booted with amd_iommu=on iommu=nopt");
    let verdict = if cfg!(target_arch = "x86_64") { Verdict::Bad } else { Verdict::Plain };
    is(&facts, "iommu group", verdict, "DMA-FQ: translated");
    is(&facts, "acs", Verdict::Bad, "peer traffic is redirected by 0000:01:00.0");
    is(&facts, "pcie link", Verdict::Bad, "x4 at 16.0 GT/s; x16 is possible");
    is(&facts, "pcie link", Verdict::Good, "x16 at 16.0 GT/s");
    let alone = "there is no /dev/nvidia-caps-imex-channels; only an NVLink domain of several machines needs them";
    is(&facts, "imex channels", Verdict::Plain, alone);
    for fact in facts.iter().filter(|fact| fact.verdict == Verdict::Bad) {
        assert!(fact.breaks.is_some() && fact.hint.is_some(), "{fact:?}");
    }
    // The facts about a pair include those about each device, and those about the machine.
    let pair: Vec<Fact> = facts_about_pair(&facts, "0000:03:00.0", "0000:02:00.0").into_iter().cloned().collect();
    let names: Vec<&str> =
        pair.iter().filter(|fact| fact.verdict == Verdict::Bad).map(|fact| fact.name.as_str()).collect();
    assert!(names.contains(&"acs") && names.contains(&"pcie link"), "{names:?}");
    assert_eq!(of(&pair, "peer access").len(), 1);
    assert!(of(&pair, "/dev/shm").is_empty());
}

#[test]
fn nvlink_between_all_makes_pcie_nobodys_trouble() {
    let mut made = workstation();
    made.nvml().pairs.iter_mut().for_each(|pair| pair.nvlink = Some(0));
    let (system, _root) = made.system();
    is(&system.facts(), "acs", Verdict::Plain, "peer traffic is redirected by 0000:01:00.0 (all pairs have NVLink)");
}

#[test]
fn devices_that_the_bus_hides_are_unknown_and_not_left_out() {
    let mut made = workstation();
    fs::remove_dir_all(made.root.path().join("sys/bus")).unwrap();
    made.nvml().devices[0].bar1 = Some(64 << 30);
    let (system, _root) = made.system();
    let facts = system.facts();
    for name in ["kernel driver", "pcie link", "acs", "iommu group"] {
        let found = of(&facts, name);
        assert!(
            !found.is_empty() && found.iter().all(|(verdict, _)| *verdict == Verdict::Unknown),
            "{name}: {found:?}"
        );
    }
    is(&facts, "bar1", Verdict::Good, "64GiB for 48GiB of memory");
    is(&facts, "bar1", Verdict::Unknown, "there is no /sys/bus/pci/devices/0000:03:00.0/resource");
}

#[test]
fn facts_that_only_root_may_read_are_unknown() {
    let made = workstation();
    for bridge in ["0000:00:01.0", "0000:01:00.0"] {
        made.file(&format!("/sys/bus/pci/devices/{bridge}/config"), [0; 64]);
    }
    let (system, _root) = made.system();
    let why = "the bridges' configuration is shown only to root (CAP_SYS_ADMIN)";
    is(&system.facts(), "acs", Verdict::Unknown, why);
}

#[test]
fn nvml_and_cuda_may_disagree() {
    let none = NvmlDevicePair { read: Some(1), write: Some(1), ..PCIE };
    for (pair, reaches, verdict, value) in [
        (&none, true, Verdict::Bad, "CUDA says yes, NVML says CHIPSET_NOT_SUPPORTED"),
        (&none, false, Verdict::Bad, "none: CHIPSET_NOT_SUPPORTED"),
        (&PCIE, false, Verdict::Bad, "NVML says OK by PCIe, CUDA says no"),
        (&PCIE, true, Verdict::Good, "by PCIe, for NVML and for CUDA"),
        (&NvmlDevicePair { read: None, ..PCIE }, true, Verdict::Unknown, "NVML does not say"),
    ] {
        let mut made = Made::new();
        made.driver(&["0000:02:00.0", "0000:03:00.0"], pair, reaches);
        let (system, _root) = made.system();
        is(&system.facts(), "peer access", verdict, value);
    }
    // CUDA_VISIBLE_DEVICES hides one from CUDA alone.
    let mut made = Made::new();
    made.driver(&["0000:02:00.0", "0000:03:00.0"], &PCIE, true);
    made.queried.cuda.as_mut().unwrap().devices.remove(1);
    let (system, _root) = made.system();
    is(&system.facts(), "peer access", Verdict::Unknown, "NVML says OK; CUDA does not show both to this process");
    let devices = system.process().devices.unwrap();
    assert_eq!(devices.iter().map(|device| device.shown).collect::<Vec<_>>(), [Some(true), Some(false)]);
}

#[test]
fn a_virtual_machine_and_a_device_given_to_one() {
    let mut made = workstation();
    made.file("/proc/cpuinfo", "flags\t\t: fpu hypervisor de\n");
    made.file("/sys/class/dmi/id/sys_vendor", "QEMU\n");
    made.file("/sys/class/dmi/id/product_name", "Standard PC\n");
    let driver = made.root.path().join("sys/bus/pci/devices/0000:02:00.0/driver");
    fs::remove_file(&driver).unwrap();
    symlink("../../../bus/pci/drivers/vfio-pci", &driver).unwrap();
    made.environment = vec![("KUBERNETES_SERVICE_HOST".into(), "10.0.0.1".into())];
    let (system, _root) = made.system();
    let facts = system.facts();
    let value = "a virtual machine (QEMU Standard PC): its host decides about peer access over PCIe";
    is(&facts, "virtualisation", Verdict::Unknown, value);
    is(&facts, "kernel driver", Verdict::Bad, "vfio-pci: given to a virtual machine");
    is(&facts, "container", Verdict::Plain, "Kubernetes (KUBERNETES_SERVICE_HOST)");
}

#[test]
fn a_container_that_shows_nothing_has_nothing_guessed() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("dev/shm")).unwrap();
    let system = ExaminedSystem::new(
        KernelFileTree::new(root.path()),
        QueryResults::without_results("nobody was asked"),
        Vec::new(),
    );
    let facts = system.facts();
    let bad: Vec<_> = facts.iter().filter(|fact| fact.verdict == Verdict::Bad).collect();
    assert!(bad.is_empty(), "{bad:?}");
    for name in
        ["iommu", "kernel module", "cuInit", "virtualisation", "pidfd_getfd", "locked memory", "namespaces", "user"]
    {
        assert_eq!(of(&facts, name)[0].0, Verdict::Unknown, "{name}");
    }
    is(&facts, "iommu", Verdict::Unknown, "there is no /sys/class/iommu");
    let process = Process { shm: None, ..system.process() };
    assert_eq!(process, Process { imex: Some(Vec::new()), ..Process::default() });
}

#[test]
fn settings_of_the_devices_and_of_the_driver() {
    let mut made = workstation();
    made.file(
        "/proc/driver/nvidia/params",
        "EnableResizableBar: 1\nNvLinkDisable: 0\nRegistryDwords: \"ForceP2P=0x11\"\n",
    );
    let nvml = made.nvml();
    nvml.driver = Some("575.1".into());
    nvml.devices[0].mig = Some(true);
    nvml.devices[1].compute_mode = Some(3);
    nvml.devices[1].memory = Some(96 << 30);
    nvml.devices[0].fabric = Some(FabricMembership { state: 2, status: 0, cluster: String::new(), clique: 0 });
    made.queried.cuda.as_mut().unwrap().init = 802;
    let (system, _root) = made.system();
    let facts = system.facts();
    is(&facts, "driver versions", Verdict::Bad, "module 580.159.04, libraries 575.1");
    let forced =
        "EnableResizableBar=1, RegistryDwords=ForceP2P=0x11: peer access is forced, whatever the machine can do";
    is(&facts, "driver parameters", Verdict::Unknown, forced);
    is(&facts, "mig", Verdict::Bad, "on");
    is(&facts, "compute mode", Verdict::Bad, "exclusive process");
    is(&facts, "bar1", Verdict::Unknown, "64GiB for 96GiB of memory: it depends on the driver whether that is enough");
    is(&facts, "fabric manager", Verdict::Bad, "1 of 2 devices are not registered yet");
    is(&facts, "cuInit", Verdict::Bad, "CUDA_ERROR_SYSTEM_NOT_READY");
}

#[test]
fn nodes_that_are_missing_or_may_not_be_used() {
    let made = workstation();
    made.file("/proc/cpuinfo", "Features\t: fp asimd\n");
    fs::remove_file(made.root.path().join("dev/nvidia-uvm")).unwrap();
    let (system, root) = made.system();
    let facts = system.facts();
    is(&facts, "device nodes", Verdict::Good, "/dev/nvidiactl, /dev/nvidia0, /dev/nvidia1 may be used");
    is(&facts, "device nodes", Verdict::Bad, "there is no /dev/nvidia-uvm");
    let why = "these processors do not say whether they are virtual";
    is(&facts, "virtualisation", Verdict::Unknown, why);
    for name in ["nvidiactl", "nvidia0", "nvidia1"] {
        fs::remove_file(root.path().join("dev").join(name)).unwrap();
    }
    is(&system.facts(), "device nodes", Verdict::Bad, "there is no /dev/nvidiactl");
}

#[test]
fn identity_and_rights_of_the_process() {
    let mut made = Made::new();
    made.file("/proc/sys/kernel/yama/ptrace_scope", "1\n");
    made.queried.descriptor = Some(Descriptor::Refused(libc::EPERM));
    made.file("/proc/self/limits", "Max locked memory         8388608  8388608  bytes\n");
    made.file("/sys/class/infiniband/mlx5_0/x", "");
    made.environment = [("NCCL_P2P_DISABLE", "1"), ("HOME", "/root"), ("UCX_CUDA_IPC_CACHE", "n")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let (system, _root) = made.system();
    let facts = system.facts();
    is(&facts, "pidfd_getfd", Verdict::Bad, "Operation not permitted: ptrace_scope 1, no CAP_SYS_PTRACE");
    is(&facts, "locked memory", Verdict::Bad, "at most 8MiB");
    is(&facts, "user", Verdict::Plain, "1000, which is 101000 outside of its namespace");
    is(&facts, "namespaces", Verdict::Plain, "pid 4026531836");
    let environment: Vec<String> = of(&facts, "environment").into_iter().map(|(_, value)| value).collect();
    assert_eq!(
        environment,
        ["NCCL_P2P_DISABLE=1 (1: NCCL uses no peer access)", "UCX_CUDA_IPC_CACHE=n (how UCX uses handles)"]
    );
}
