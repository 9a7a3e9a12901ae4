//! The IOMMU: whether it translates what devices write to each other.
//!
//! "On Linux only, CUDA and the display driver does not support IOMMU-enabled bare-metal PCIe peer to peer memory copy [...]
//! users on Linux, when running on a native bare metal system, should disable the IOMMU": CUDA C++ Programming Guide,
//! Peer-to-Peer Memory Access, IOMMU on Linux. Groups of the type `identity` are not translated (`iommu=pt`); the types are
//! those of Documentation/ABI/testing/sysfs-kernel-iommu_groups. Other architectures have GPUs that need their SMMU.

use super::Fact;
use super::System;
use super::pci::{directory, is_hidden};

const BREAKS: &str = "peer access over PCIe: writes may be lost, arrive late or hang, without an error";
const HINT: &str = "On bare metal, boot with iommu=pt (or amd_iommu=off, intel_iommu=off), or switch VT-d or AMD-Vi off in the firmware.";

pub fn facts(system: &System) -> Vec<Fact> {
    let mut facts = vec![of_machine(system)];
    facts.extend(
        system
            .gpus
            .iter()
            .map(|gpu| system.over_pcie(of_device(system, &gpu.address)).about(&[&gpu.address])),
    );
    facts
}

/// The IOMMUs that the kernel uses, and what it was booted with.
fn of_machine(system: &System) -> Fact {
    const NAME: &str = "iommu";
    let options = match system.tree.text("/proc/cmdline") {
        Ok(line) => {
            let about = |word: &&str| {
                ["iommu=", "intel_iommu=", "amd_iommu=", "iommu.", "arm-smmu"]
                    .iter()
                    .any(|o| word.starts_with(o))
            };
            line.split_whitespace().filter(about).collect::<Vec<_>>().join(" ")
        }
        Err(_) => String::new(),
    };
    let booted = if options.is_empty() { String::new() } else { format!(", booted with {options}") };
    match system.tree.names("/sys/class/iommu") {
        Ok(units) if units.is_empty() => Fact::good(NAME, format!("none in use{booted}")),
        Ok(units) => Fact::plain(NAME, format!("{} in use ({}, ...){booted}", units.len(), units[0])),
        // Kernels without support for any IOMMU have no such class.
        Err(withheld) if withheld.is_absent() && system.tree.exists("/sys/class") => {
            Fact::good(NAME, format!("the kernel has none{booted}"))
        }
        Err(withheld) => Fact::unknown(NAME, withheld),
    }
}

/// What it does to a device.
fn of_device(system: &System, address: &str) -> Fact {
    const NAME: &str = "iommu group";
    if let Some(why) = is_hidden(system, address) {
        return Fact::unknown(NAME, why);
    }
    let group = match system.tree.link_name(&format!("{}/iommu_group", directory(address))) {
        Ok(group) => group,
        Err(withheld) if withheld.is_absent() => {
            return Fact::good(NAME, "none: nothing translates the device");
        }
        Err(withheld) => return Fact::unknown(NAME, withheld),
    };
    match system.tree.text(&format!("/sys/kernel/iommu_groups/{group}/type")) {
        Ok(kind) if kind == "identity" => Fact::good(NAME, "identity: not translated"),
        Ok(kind) if kind.starts_with("DMA") && cfg!(target_arch = "x86_64") => {
            Fact::bad(NAME, format!("{kind}: translated"), BREAKS, HINT)
        }
        Ok(kind) if kind.starts_with("DMA") => Fact::plain(NAME, format!("{kind}: translated")),
        Ok(kind) => Fact::plain(NAME, format!("{kind}: given away, as to a virtual machine")),
        Err(withheld) => Fact::unknown(NAME, withheld),
    }
}
