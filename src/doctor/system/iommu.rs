//! The IOMMU: does it translate the addresses that devices use for each other's memory?
//!
//! "On Linux only, CUDA and the display driver does not support IOMMU-enabled bare-metal PCIe peer to peer memory copy [...]
//! users on Linux, when running on a native bare metal system, should disable the IOMMU": CUDA C++ Programming Guide,
//! Peer-to-Peer Memory Access, IOMMU on Linux. Groups of the type `identity` are not translated (`iommu=pt`); the types are
//! those of Documentation/ABI/testing/sysfs-kernel-iommu_groups. Other architectures have GPUs that need their SMMU.

use super::pci::{pci_directory, reason_hidden};
use super::tree::Readable;
use super::{ExaminedSystem, Fact, bad_fact, good_fact, plain_fact, unknown_fact, with_name};

const BREAKS: &str = "peer access over PCIe: writes may be lost, arrive late or hang, without an error";
const HINT: &str = "On bare metal, boot with iommu=pt (or amd_iommu=off, intel_iommu=off), or switch VT-d or AMD-Vi off in the firmware.";

pub fn facts(system: &ExaminedSystem) -> Vec<Fact> {
    let of_devices = system.gpus.iter().map(|gpu| {
        let fact = with_name("iommu group", judge_iommu_group(system, &gpu.address));
        system.neutral_without_pcie(fact).with_devices(&[&gpu.address])
    });
    [with_name("iommu", list_iommus(system))].into_iter().chain(of_devices).collect()
}

/// Lists the IOMMUs that the kernel uses, and the options of its command line about them.
fn list_iommus(system: &ExaminedSystem) -> Readable<Fact> {
    const OPTIONS: [&str; 5] = ["iommu=", "intel_iommu=", "amd_iommu=", "iommu.", "arm-smmu"];
    let line = system.tree.read_text("/proc/cmdline").unwrap_or_default();
    let options = line.split_whitespace().filter(|word| OPTIONS.iter().any(|o| word.starts_with(o)));
    let options = options.collect::<Vec<_>>().join(" ");
    let booted = if options.is_empty() { String::new() } else { format!(", booted with {options}") };
    Ok(match system.tree.list_directory("/sys/class/iommu") {
        Ok(units) if units.is_empty() => good_fact(format!("none in use{booted}")),
        Ok(units) => plain_fact(format!("{} in use ({}, ...){booted}", units.len(), units[0])),
        // A kernel without support for any IOMMU does not have this directory.
        Err(withheld) if withheld.is_not_found() && system.tree.exists("/sys/class") => {
            good_fact(format!("the kernel has none{booted}"))
        }
        Err(withheld) => return Err(withheld),
    })
}

/// Judges the type of the IOMMU group that contains a device.
fn judge_iommu_group(system: &ExaminedSystem, address: &str) -> Readable<Fact> {
    if let Some(why) = reason_hidden(system, address) {
        return Ok(unknown_fact(why));
    }
    let group = match system.tree.read_link_name(&format!("{}/iommu_group", pci_directory(address))) {
        Err(withheld) if withheld.is_not_found() => {
            return Ok(good_fact("none: nothing translates the device"));
        }
        group => group?,
    };
    let kind = system.tree.read_text(&format!("/sys/kernel/iommu_groups/{group}/type"))?;
    Ok(match kind.starts_with("DMA") {
        _ if kind == "identity" => good_fact("identity: not translated"),
        true if cfg!(target_arch = "x86_64") => bad_fact(format!("{kind}: translated"), BREAKS, HINT),
        true => plain_fact(format!("{kind}: translated")),
        false => plain_fact(format!("{kind}: given away, as to a virtual machine")),
    })
}
