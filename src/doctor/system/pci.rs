//! PCI devices that are GPUs: the bridges above them, their links, and the part of their memory that other devices
//! can access.

use super::tree::{KernelFileTree, Readable};
use super::{ExaminedSystem, Fact, bad_fact, good_fact, unknown_fact, with_name};
use cupeer_report::moments::bytes as in_words;

const NVIDIA_VENDOR: &str = "0x10de";
/// PCI classes of GPUs: VGA and 3D display controllers.
const GPU_CLASSES: [&str; 2] = ["0x0300", "0x0302"];
/// PCI class of NVSwitches: other bridges.
const SWITCH_CLASS: &str = "0x0680";

pub struct Gpu {
    /// PCI address in the kernel's format.
    pub address: String,
    /// Addresses of the bridges above the GPU, starting at the root.
    pub bridges: Vec<String>,
}

pub fn pci_directory(address: &str) -> String {
    format!("/sys/bus/pci/devices/{address}")
}

/// Returns the reason why a device on the PCI bus is not visible here; `None` if it is visible.
pub fn reason_hidden(system: &ExaminedSystem, address: &str) -> Option<String> {
    let at = pci_directory(address);
    (!system.tree.exists(&at)).then(|| format!("there is no {at}"))
}

/// Returns the addresses of NVIDIA's devices with these classes.
fn nvidia_devices_of_classes(tree: &KernelFileTree, classes: &[&str]) -> Vec<String> {
    let is = |address: &String| {
        let at = pci_directory(address);
        let class = tree.read_text(&format!("{at}/class")).unwrap_or_default();
        tree.read_text(&format!("{at}/vendor")).is_ok_and(|vendor| vendor == NVIDIA_VENDOR)
            && classes.iter().any(|known| class.starts_with(known))
    };
    tree.list_directory("/sys/bus/pci/devices").unwrap_or_default().into_iter().filter(is).collect()
}

/// Returns NVIDIA's GPUs, in the order of their addresses.
pub fn list_gpus(tree: &KernelFileTree) -> Vec<Gpu> {
    let gpu = |address: String| {
        // Example of a link: ../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0
        let link = tree.read_link(&pci_directory(&address)).unwrap_or_default();
        let parts = link.split('/').skip_while(|part| !part.starts_with("pci")).skip(1);
        let bridges = parts.filter(|part| **part != *address).map(str::to_owned).collect();
        Gpu { address, bridges }
    };
    nvidia_devices_of_classes(tree, &GPU_CLASSES).into_iter().map(gpu).collect()
}

/// Returns true if the machine has NVSwitches.
pub fn has_switches(tree: &KernelFileTree) -> bool {
    !nvidia_devices_of_classes(tree, &[SWITCH_CLASS]).is_empty()
}

pub fn facts(system: &ExaminedSystem) -> Vec<Fact> {
    let of_gpu = |gpu: &Gpu| {
        let facts = [
            with_name("pcie link", judge_link_width(&system.tree, gpu)),
            system.neutral_without_pcie(with_name("acs", Ok(judge_acs(&system.tree, gpu)))),
            system.neutral_without_pcie(with_name("bar1", Ok(judge_bar1(system, gpu)))),
        ];
        facts.map(|fact| fact.with_devices(&[&gpu.address]))
    };
    system.gpus.iter().flat_map(of_gpu).collect()
}

/// Compares the width of a device's link with the widths that the device and the bridge above it support. The speed
/// falls when the device is idle, so it is only reported.
fn judge_link_width(tree: &KernelFileTree, gpu: &Gpu) -> Readable<Fact> {
    let read = |address: &str, what: &str| tree.read_text(&format!("{}/{what}", pci_directory(address)));
    let width = |text: String| text.parse::<u32>().ok().filter(|w| (1..=32).contains(w));
    let Some(current) = width(read(&gpu.address, "current_link_width")?) else {
        return Ok(unknown_fact("the kernel does not say the width of the link"));
    };
    let most_width = |address: &str| read(address, "max_link_width").ok().and_then(width);
    let speed = |what: &str| read(&gpu.address, what).unwrap_or_else(|_| "unknown speed".to_owned());
    let mut value = format!("x{current} at {}", speed("current_link_speed").replace(" PCIe", ""));
    let most = speed("max_link_speed").replace(" PCIe", "");
    if !value.ends_with(&most) {
        value += &format!(" (slower when idle), at most {most}");
    }
    let of_device = most_width(&gpu.address).unwrap_or(current);
    let of_bridge = gpu.bridges.last().and_then(|bridge| most_width(bridge)).unwrap_or(of_device);
    let possible = of_device.min(of_bridge);
    if of_bridge < of_device {
        value += &format!("; the slot has x{of_bridge}, the device x{of_device}");
    }
    if current < possible {
        let breaks = format!("the bandwidth of copies and peer access over PCIe: x{current} of x{possible}");
        return Ok(bad_fact(
            format!("{value}; x{possible} is possible"),
            &breaks,
            "Reseat the card or its riser; look for a bifurcation setting of the slot in the firmware.",
        ));
    }
    Ok(good_fact(value))
}

/// Judges ACS of the bridges above a device. "IO virtualization (VT-d, IOMMU) can interfere with GPU Direct by redirecting
/// all PCI point-to-point traffic to the CPU root complex, causing a significant performance reduction or even a hang":
/// NCCL's user guide, Troubleshooting. The redirecting bits are P2P Request Redirect and P2P Completion Redirect of the
/// capability.
fn judge_acs(tree: &KernelFileTree, gpu: &Gpu) -> Fact {
    let mut redirecting = Vec::new();
    let mut unreadable = None;
    for bridge in &gpu.bridges {
        match tree.read_bytes(&format!("{}/config", pci_directory(bridge))) {
            Err(withheld) => unreadable = Some(withheld.to_string()),
            Ok(config) if config.len() <= UNPRIVILEGED_SIZE => {
                unreadable = Some("the bridges' configuration is shown only to root (CAP_SYS_ADMIN)".to_owned());
            }
            Ok(config) => match find_acs_control(&config) {
                Some(control) if control & (REQUEST_REDIRECT | COMPLETION_REDIRECT) != 0 => redirecting.push(bridge),
                _ => {}
            },
        }
    }
    if !redirecting.is_empty() {
        let names = redirecting.iter().map(|bridge| bridge.as_str()).collect::<Vec<_>>().join(", ");
        return bad_fact(
            format!("peer traffic is redirected by {names}"),
            "peer access over PCIe: it goes through the root complex, which is slow, and writes may be lost or hang where an IOMMU translates",
            "On bare metal, switch ACS off in the firmware, or at each boot with setpci -s BRIDGE ECAP_ACS+6.w=0 (NCCL's user guide, PCI Access Control Services); virtual machines need it.",
        );
    }
    match unreadable {
        Some(why) => unknown_fact(why),
        None if gpu.bridges.is_empty() => unknown_fact("no bridge above the device is shown"),
        None => good_fact("no bridge redirects peer traffic"),
    }
}

/// Number of bytes of a device's configuration space that the kernel shows to users without privileges.
const UNPRIVILEGED_SIZE: usize = 64;
const REQUEST_REDIRECT: u16 = 1 << 2;
const COMPLETION_REDIRECT: u16 = 1 << 3;

/// Returns the control register of the capability Access Control Services, if the configuration has it: PCI Express
/// Base Specification, 7.7.11; the extended capabilities begin at 0x100.
fn find_acs_control(config: &[u8]) -> Option<u16> {
    const ACS: u32 = 0x000d;
    let mut at = 0x100;
    // Each capability takes at least four bytes, so this limit ends a circular list.
    for _ in 0..(4096 - 0x100) / 4 {
        let header = u32::from_le_bytes(config.get(at..at + 4)?.try_into().ok()?);
        if header & 0xffff == ACS {
            return Some(u16::from_le_bytes(config.get(at + 6..at + 8)?.try_into().ok()?));
        }
        at = usize::try_from(header >> 20).ok()? & !3;
        if at < 0x100 {
            return None;
        }
    }
    None
}

/// Compares the size of BAR1 with the device's memory. Peer access over PCIe that maps BAR1 reaches only the memory that
/// fits into it; the documentation does not say which drivers map it, so a small BAR1 alone decides nothing.
fn judge_bar1(system: &ExaminedSystem, gpu: &Gpu) -> Fact {
    let asked = system.queried.nvml.as_ref().ok();
    let device = asked.and_then(|nvml| nvml.devices.iter().find(|device| device.pci == gpu.address));
    let shown = system.tree.read_text(&format!("{}/resource", pci_directory(&gpu.address)));
    let of_bus = shown.as_ref().ok().and_then(|text| size_of_bar1(text));
    let Some(size) = of_bus.or(device.and_then(|device| device.bar1)) else {
        return unknown_fact(shown.err().map_or("the device shows none".to_owned(), |why| why.to_string()));
    };
    let Some(memory) = device.and_then(|device| device.memory) else {
        return unknown_fact(format!("{}; NVML does not say how much memory the device has", in_words(size)));
    };
    let value = format!("{} for {} of memory", in_words(size), in_words(memory));
    if size >= memory {
        return good_fact(value);
    }
    unknown_fact(format!("{value}: it depends on the driver whether that is enough")).with_effect(
        "peer access that goes through BAR1 (patched drivers) and GPUDirect RDMA: they reach only as much memory as it shows",
        "Switch on Above 4G Decoding and Resizable BAR in the firmware, and NVreg_EnableResizableBar=1 of the nvidia module where the device leaves it off.",
    )
}

/// Returns the size in bytes of the second resource (BAR1) in a `resource` file. Each line has start, end, and flags.
fn size_of_bar1(text: &str) -> Option<u64> {
    let mut numbers = text.lines().nth(1)?.split_whitespace();
    let mut next = || u64::from_str_radix(numbers.next()?.trim_start_matches("0x"), 16).ok();
    let (start, end) = (next()?, next()?);
    (end > start).then(|| end - start + 1)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A configuration with these capabilities: their places, headers' numbers, and what follows them.
    pub fn config(capabilities: &[(usize, u32, usize, u16)]) -> Vec<u8> {
        let mut config = vec![0; 4096];
        for (at, id, next, control) in capabilities {
            let header = id | 1 << 16 | u32::try_from(*next).unwrap() << 20;
            config[*at..*at + 4].copy_from_slice(&header.to_le_bytes());
            config[*at + 6..*at + 8].copy_from_slice(&control.to_le_bytes());
        }
        config
    }

    #[test]
    fn the_control_register_of_acs_is_found_behind_other_capabilities() {
        let found = find_acs_control(&config(&[(0x100, 1, 0x148, 0), (0x148, 0xd, 0, 0x1d)]));
        assert_eq!(found, Some(0x1d));
        assert_eq!(find_acs_control(&config(&[(0x100, 1, 0, 0)])), None);
        // A ring, a place within the basic part, and a file that ends early.
        assert_eq!(find_acs_control(&config(&[(0x100, 1, 0x140, 0), (0x140, 2, 0x100, 0)])), None);
        assert_eq!(find_acs_control(&config(&[(0x100, 1, 0x40, 0)])), None);
        let mut last = config(&[(0x100, 1, 0xffc, 0)]);
        last[0xffc..].copy_from_slice(&0x1000d_u32.to_le_bytes());
        assert_eq!(find_acs_control(&last), None);
        assert_eq!(find_acs_control(&[0; 256]), None);
    }

    #[test]
    fn the_size_of_bar1_is_that_of_the_second_resource() {
        let text = "0x00000000f6000000 0x00000000f6ffffff 0x0000000000040200\n\
                    0x0000383fe0000000 0x0000383fefffffff 0x000000000014220c\n";
        assert_eq!(size_of_bar1(text), Some(256 << 20));
        assert_eq!(size_of_bar1("0x1 0x2 0x3\n0x0 0x0 0x0\n"), None);
        assert_eq!(size_of_bar1(""), None);
    }
}
