//! Short names: `nvlink:N`, `pcie:N`, `none:N`, each also with options such as `,kernels=skip` and
//! `,late:SEED`; and the default device.

use crate::machine::{Device, LinkKind, MOST_DEVICES, PciAddress, Topology};
use cupeer_spec::names::find_nearest_name;

/// A family of short names for machines, such as `nvlink:N`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preset {
    /// Short name as a user types it, with `N` in the place of the number of devices.
    pub pattern: &'static str,
    /// Description of the machine.
    pub doc: &'static str,
}

/// All families of short names, for `cupeer list topologies`.
pub const PRESETS: &[Preset] = &[
    Preset { pattern: "nvlink:N", doc: "N devices, NVLink between all: peer access, native atomics, multicast" },
    Preset { pattern: "pcie:N", doc: "N devices, PCI Express between all: peer access, no native atomics" },
    Preset { pattern: "none:N", doc: "N devices that cannot reach each other" },
    Preset { pattern: "...,kernels=skip", doc: "any of these; modules load, kernels launch and do nothing" },
    Preset {
        pattern: "...,graphs=check",
        doc: "any of these; a graph that uses memory that is gone is refused, not run",
    },
    Preset {
        pattern: "...,reuse=early",
        doc: "any of these; handles are given out again as early as documentation allows",
    },
    Preset {
        pattern: "...,late:SEED",
        doc: "any of these, also a file; asynchronous work is done as late as the rules allow",
    },
];

/// Default size of the memory of a device in bytes: that of an H200.
pub(crate) const MEMORY: u64 = 150_109_880_320;

/// An option of the kind `key=value`: the key, its only value, and a function that returns the flag to set.
pub(crate) type Choice = (&'static str, &'static str, fn(&mut Topology) -> &mut bool);

/// All options of the kind `key=value` that can follow a short name.
pub(crate) const CHOICES: &[Choice] = &[
    ("kernels", "skip", |machine| &mut machine.skips_kernels),
    ("graphs", "check", |machine| &mut machine.checks_graphs),
    ("reuse", "early", |machine| &mut machine.reuses_early),
];

/// Parses the option `late` or `late:SEED`. Returns the seed, or `None` for any other option.
pub(crate) fn parse_late_option(option: &str) -> Option<Result<u64, String>> {
    let (name, seed) = option.split_once(':').unwrap_or((option, "0"));
    let wanted = || format!("'{option}': 'late:' must be followed by a number, which seeds the order of the work");
    let is_number = !seed.is_empty() && seed.bytes().all(|b| b.is_ascii_digit());
    (name == "late").then(|| seed.parse().ok().filter(|_| is_number).ok_or_else(wanted))
}

pub(crate) fn parse_short_name(text: &str) -> Result<Topology, String> {
    let mut parts = text.split(',').peekable();
    let is_option = parts.peek().is_some_and(|part| parse_late_option(part).is_some());
    let name = if is_option { "nvlink:2" } else { parts.next().unwrap_or_default() };
    let mut machine = parse_machine_name(name)?;
    for option in parts {
        if let Some(seed) = parse_late_option(option) {
            machine.late = Some(seed?);
            continue;
        }
        let is_it = |(key, value, _): &&Choice| option.split_once('=') == Some((*key, *value));
        let Some((_, _, flag)) = CHOICES.iter().find(is_it) else {
            let known: Vec<String> = CHOICES.iter().map(|(key, value, _)| format!("{key}={value}")).collect();
            let known = known.join(", ");
            return Err(format!("'{option}': only these can follow '{name},': {known}, late, late:SEED"));
        };
        *flag(&mut machine) = true;
    }
    Ok(machine)
}

fn parse_machine_name(text: &str) -> Result<Topology, String> {
    let (name, number) = text.split_once(':').unwrap_or((text, ""));
    let Some((kind, _)) = LinkKind::ALL.iter().find(|(_, known)| *known == name) else {
        let hint = match find_nearest_name(name, LinkKind::ALL.iter().map(|(_, known)| *known)) {
            Some(meant) => {
                format!("did you mean '{meant}:{}'?", if number.is_empty() { "2" } else { number })
            }
            None => "use nvlink:N, pcie:N, none:N, or the path of a TOML file (with a '/' or '.toml')".into(),
        };
        return Err(format!("there is no topology '{text}'; {hint}"));
    };
    let count = number.parse().ok().filter(|count| (1..=MOST_DEVICES).contains(count));
    let wanted = format!("'{text}': '{name}:' must be followed by a number of devices from 1 to {MOST_DEVICES}");
    Ok(Topology::with_uniform_links(count.filter(|_| number.bytes().all(|b| b.is_ascii_digit())).ok_or(wanted)?, *kind))
}

/// Returns the device with this index in a machine of default devices. The device is the same in every
/// process.
pub(crate) fn default_device(index: usize) -> Device {
    let mut uuid = *b"\xc0\x9e\xe2\x00\x51\x30\x4d\x0e\xb0\x0d\x00\x00\x00\x00\x00\x00";
    uuid[15] = index as u8;
    // A step of 3 keeps the bus numbers of 64 devices below 256.
    let bus = 0x1b + 3 * index as u8;
    Device {
        name: "NVIDIA H200".into(),
        uuid,
        pci: PciAddress { domain: 0, bus, device: 0 },
        memory: MEMORY,
        compute_capability: (9, 0),
    }
}

impl Topology {
    /// Returns a machine of `count` devices with links of one kind between all of them.
    pub(crate) fn with_uniform_links(count: usize, kind: LinkKind) -> Topology {
        Topology {
            devices: (0..count).map(default_device).collect(),
            links: vec![kind.default_link(); count * count],
            skips_kernels: false,
            checks_graphs: false,
            reuses_early: false,
            late: None,
            most_peers: kind.most_peers(),
            has_multicast: kind == LinkKind::Nvlink && count > 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn all_sizes_have_devices_of_their_own() {
        for (_, name) in LinkKind::ALL {
            for count in [1, 2, 64] {
                let machine = parse_short_name(&format!("{name}:{count}")).unwrap();
                let distinct =
                    |f: fn(&Device) -> String| machine.devices.iter().map(f).collect::<HashSet<_>>().len() == count;
                assert!(distinct(Device::uuid_text) && distinct(|d| d.pci.to_string()));
            }
        }
    }

    #[test]
    fn mistakes_are_answered() {
        for (text, error) in [
            ("nvlnk:8", "there is no topology 'nvlnk:8'; did you mean 'nvlink:8'?"),
            ("nvlnk", "there is no topology 'nvlnk'; did you mean 'nvlink:2'?"),
            ("nvlink", "'nvlink': 'nvlink:' must be followed by a number of devices from 1 to 64"),
            ("pcie:0", "'pcie:0': 'pcie:' must be followed by a number of devices from 1 to 64"),
            ("pcie:65", "'pcie:65': 'pcie:' must be followed by a number of devices from 1 to 64"),
            (
                "nvlink:2,kernel=skip",
                "'kernel=skip': only these can follow 'nvlink:2,': kernels=skip, graphs=check, reuse=early, late, late:SEED",
            ),
            ("late:-1", "'late:-1': 'late:' must be followed by a number, which seeds the order of the work"),
            ("none:1,late:", "'late:': 'late:' must be followed by a number, which seeds the order of the work"),
            ("none:+2", "'none:+2': 'none:' must be followed by a number of devices from 1 to 64"),
        ] {
            assert_eq!(parse_short_name(text).unwrap_err(), error);
        }
        assert!(parse_short_name("").unwrap_err().contains("the path of a TOML file"));
    }

    #[test]
    fn options_follow_in_any_order() {
        let flags = |text| {
            let machine = parse_short_name(text).unwrap();
            (machine.skips_kernels, machine.checks_graphs, machine.reuses_early)
        };
        assert_eq!(flags("none:1"), (false, false, false));
        assert_eq!(flags("none:1,graphs=check"), (false, true, false));
        assert_eq!(flags("pcie:2,reuse=early,kernels=skip"), (true, false, true));
        let late = |text| parse_short_name(text).map(|machine| (machine.devices.len(), machine.late));
        assert_eq!(late("late"), Ok((2, Some(0))));
        assert_eq!(late("late:7,kernels=skip"), Ok((2, Some(7))));
        assert_eq!(late("none:3,late:18446744073709551615"), Ok((3, Some(u64::MAX))));
        assert_eq!(late("none:3"), Ok((3, None)));
    }

    #[test]
    fn uuids_are_printed_as_nvidia_smi_does() {
        assert_eq!(default_device(1).uuid_text(), "GPU-c09ee200-5130-4d0e-b00d-000000000001");
        assert_eq!(default_device(0).pci.to_string(), "0000:1B:00.0");
    }
}
