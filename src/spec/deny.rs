//! Pairs of devices that are denied: how they are written, and which of them a device and another one are.
//!
//! `all`, or pairs `A/B` separated by commas; `A/B:oneway` only keeps A from reaching B. A device is a UUID
//! or a PCI address. This module parses the text, and decides. The library and the command each determine the
//! identity of devices, and enforce the denial.

use crate::names::TextError;
use crate::uuid::{self, Uuid};
use core::fmt;

/// Word that denies all pairs.
pub const ALL: &str = "all";
/// Suffix of a pair that is denied in one direction only.
const ONEWAY: &str = ":oneway";

/// PCI address of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PciAddress {
    /// PCI domain.
    pub domain: u32,
    /// PCI bus.
    pub bus: u8,
    /// Number of the device on the bus.
    pub device: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:08X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }
}

/// Identity of a device, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceIdentity {
    /// UUID of the device; `None` if unknown.
    pub uuid: Option<[u8; 16]>,
    /// PCI address of the device; `None` if unknown.
    pub pci: Option<PciAddress>,
}

impl DeviceIdentity {
    /// Returns true if both identities belong to one device; `None` if this is unknown.
    pub fn is_same_device(&self, other: &DeviceIdentity) -> Option<bool> {
        let by_uuid = self.uuid.zip(other.uuid).map(|(a, b)| a == b);
        by_uuid.or_else(|| self.pci.zip(other.pci).map(|(a, b)| a == b))
    }
}

/// Name of a device in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceName {
    /// Name by UUID.
    Uuid([u8; 16]),
    /// Name by PCI address.
    Pci(PciAddress),
}

impl DeviceName {
    /// Parses a name: a UUID (`GPU-` and digits, or digits alone), or a PCI address with or without its
    /// domain.
    pub fn parse(text: &str) -> Option<DeviceName> {
        uuid::parse_uuid(text).map(DeviceName::Uuid).or_else(|| parse_pci(text).map(DeviceName::Pci))
    }

    /// Returns true if this name matches the device.
    pub fn matches(&self, device: &DeviceIdentity) -> bool {
        match self {
            DeviceName::Uuid(uuid) => device.uuid == Some(*uuid),
            DeviceName::Pci(pci) => device.pci == Some(*pci),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            DeviceName::Uuid(uuid) => write!(f, "{}", Uuid(*uuid)),
            DeviceName::Pci(pci) => write!(f, "{pci}"),
        }
    }
}

/// Parses a PCI address: `1B:00.0`, `0000:1b:00.0`, or `00000000:1B:00.0`.
pub fn parse_pci(text: &str) -> Option<PciAddress> {
    let number = |text: &str, most: usize| {
        let is_hex = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u32::from_str_radix(text, 16).ok()).flatten()
    };
    let (address, function) = text.rsplit_once('.')?;
    let (rest, device) = address.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
    number(function, 1)?;
    Some(PciAddress {
        domain: number(domain, 8)?,
        bus: number(bus, 2)? as u8,
        device: u8::try_from(number(device, 2)?).ok().filter(|device| *device < 32)?,
    })
}

/// Pair in a text, before its devices are parsed, with the column of each device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrittenPair<'a> {
    /// Column and text of the first device, which must not access the second one.
    pub from: (usize, &'a str),
    /// Column and text of the second device.
    pub to: (usize, &'a str),
    /// True if the second device may access the first one.
    pub oneway: bool,
}

/// Splits a list of pairs. Does not parse the devices.
pub fn split_pairs(text: &str) -> Result<Vec<WrittenPair<'_>>, TextError> {
    let mut column = 1;
    let mut pairs = Vec::new();
    for item in text.split(',') {
        let error = |at: usize, message: &str| TextError { column: at, message: message.to_owned() };
        let (pair, oneway) = match item.strip_suffix(ONEWAY) {
            Some(pair) => (pair, true),
            None => (item, false),
        };
        let Some((from, to)) = pair.split_once('/') else {
            let message = match pair {
                "" => "a pair of devices is missing here, such as 0/1",
                ALL => "'all' means all pairs, and cannot be combined with others",
                _ => "a pair is two devices with a '/' between them, such as 0/1",
            };
            return Err(error(column, message));
        };
        let second = column + from.len() + 1;
        if from.is_empty() || to.is_empty() {
            let at = if from.is_empty() { column } else { second };
            return Err(error(at, "a device is missing here; a pair is written as 0/1"));
        }
        if let Some(at) = to.find('/') {
            return Err(error(second + at, "a pair has two devices; pairs are separated by commas"));
        }
        pairs.push(WrittenPair { from: (column, from), to: (second, to), oneway });
        column += item.len() + 1;
    }
    Ok(pairs)
}

/// Denied pair of devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeniedPair {
    /// First device, which must not access the second one.
    pub from: DeviceName,
    /// Second device.
    pub to: DeviceName,
    /// True if the second device may access the first one.
    pub oneway: bool,
}

impl fmt::Display for DeniedPair {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}{}", self.from, self.to, if self.oneway { ONEWAY } else { "" })
    }
}

/// Set of denied pairs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeniedPairs {
    /// All pairs of different devices.
    All,
    /// The pairs in this list.
    Pairs(Vec<DeniedPair>),
}

impl DeniedPairs {
    /// Parses pairs of UUIDs and PCI addresses, or the word `all`.
    pub fn parse(text: &str) -> Result<DeniedPairs, TextError> {
        if text == ALL {
            return Ok(DeniedPairs::All);
        }
        let named = |(column, text): (usize, &str)| {
            DeviceName::parse(text).ok_or_else(|| TextError {
                column,
                message: format!("'{text}' is neither a UUID (GPU-...) nor a PCI address (0000:1b:00.0)"),
            })
        };
        let mut pairs = Vec::new();
        for WrittenPair { from, to, oneway } in split_pairs(text)? {
            let pair = DeniedPair { from: named(from)?, to: named(to)?, oneway };
            if pair.from == pair.to {
                return Err(TextError {
                    column: to.0,
                    message: format!("a pair has two devices, but both are '{}'", to.1),
                });
            }
            pairs.push(pair);
        }
        Ok(DeniedPairs::Pairs(pairs))
    }

    /// Returns the index of the entry that denies one device access to the other; `None` if no entry does, or
    /// if the two devices may be the same.
    pub fn find_denial(&self, from: &DeviceIdentity, to: &DeviceIdentity) -> Option<usize> {
        match self {
            DeniedPairs::All => (from.is_same_device(to) == Some(false)).then_some(0),
            DeniedPairs::Pairs(pairs) => pairs.iter().position(|pair| {
                let is = |a: &DeviceName, b: &DeviceName| a.matches(from) && b.matches(to);
                is(&pair.from, &pair.to) || !pair.oneway && is(&pair.to, &pair.from)
            }),
        }
    }

    /// Returns the index of the first entry that contains the device on either side.
    pub fn find_entry_with(&self, device: &DeviceIdentity) -> Option<usize> {
        match self {
            DeniedPairs::All => Some(0),
            DeniedPairs::Pairs(pairs) => {
                pairs.iter().position(|pair| pair.from.matches(device) || pair.to.matches(device))
            }
        }
    }

    /// Returns true if an entry names a device by its PCI address.
    pub fn has_pci_addresses(&self) -> bool {
        let is_address = |name: &DeviceName| matches!(name, DeviceName::Pci(_));
        match self {
            DeniedPairs::All => false,
            DeniedPairs::Pairs(pairs) => pairs.iter().any(|pair| is_address(&pair.from) || is_address(&pair.to)),
        }
    }

    /// Returns each entry in words, in the order of the indexes.
    pub fn entry_texts(&self) -> Vec<String> {
        match self {
            DeniedPairs::All => vec![ALL.to_owned()],
            DeniedPairs::Pairs(pairs) => pairs.iter().map(DeniedPair::to_string).collect(),
        }
    }
}

impl fmt::Display for DeniedPairs {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.entry_texts().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "GPU-c09ee200-5130-4d0e-b00d-00000000000a";
    const B: &str = "GPU-c09ee200-5130-4d0e-b00d-00000000000b";

    fn device(uuid: &str, bus: u8) -> DeviceIdentity {
        DeviceIdentity { uuid: super::uuid::parse_uuid(uuid), pci: Some(PciAddress { domain: 0, bus, device: 0 }) }
    }

    #[test]
    fn devices_are_written_in_many_ways() {
        assert_eq!(DeviceName::parse(A).map(|name| name.to_string()).as_deref(), Some(A));
        let pci = PciAddress { domain: 0, bus: 0x1b, device: 0 };
        for text in ["1b:00.0", "0000:1B:00.0", "00000000:1b:00.0"] {
            assert_eq!(DeviceName::parse(text), Some(DeviceName::Pci(pci)), "{text}");
        }
        assert_eq!(DeviceName::Pci(pci).to_string(), "00000000:1B:00.0");
        for text in [
            "",
            "0",
            "GPU-",
            &A[..39],
            "1b:00",
            "1b:20.0",
            "x:00.0",
            "+1:00.0",
            "GPU-c09ee200-5130-4d0e-b00d_00000000000a",
        ] {
            assert_eq!(DeviceName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_pair_is_denied_in_both_directions_unless_it_is_oneway() {
        let (a, b, c) = (device(A, 1), device(B, 2), device("GPU-c09ee200-5130-4d0e-b00d-00000000000c", 3));
        let both = DeniedPairs::parse(&format!("{A}/{B}")).unwrap();
        let oneway = DeniedPairs::parse(&format!("01:00.0/{B}:oneway")).unwrap();
        assert_eq!((both.find_denial(&a, &b), both.find_denial(&b, &a)), (Some(0), Some(0)));
        assert_eq!((oneway.find_denial(&a, &b), oneway.find_denial(&b, &a)), (Some(0), None));
        for denied in [&both, &oneway] {
            assert_eq!(
                (denied.find_denial(&a, &c), denied.find_denial(&c, &b), denied.find_denial(&a, &a)),
                (None, None, None)
            );
            assert_eq!(
                (denied.find_entry_with(&a), denied.find_entry_with(&b), denied.find_entry_with(&c)),
                (Some(0), Some(0), None)
            );
        }
        assert_eq!((both.has_pci_addresses(), oneway.has_pci_addresses()), (false, true));
        assert_eq!(oneway.to_string(), format!("00000000:01:00.0/{B}:oneway"));
        assert_eq!(DeniedPairs::parse(&oneway.to_string()), Ok(oneway));
    }

    #[test]
    fn all_means_each_device_with_each_other() {
        let (a, b) = (device(A, 1), device(B, 2));
        let unknown = DeviceIdentity::default();
        let address = DeviceIdentity { uuid: None, ..b };
        let all = DeniedPairs::parse("all").unwrap();
        assert_eq!(
            (all.find_denial(&a, &b), all.find_denial(&a, &a), all.find_denial(&a, &unknown)),
            (Some(0), None, None)
        );
        assert_eq!((all.find_denial(&a, &address), all.find_denial(&b, &address)), (Some(0), None));
        assert_eq!((all.find_entry_with(&a), all.entry_texts()), (Some(0), vec!["all".to_owned()]));
    }

    #[test]
    fn errors_name_the_column_and_what_would_be_right() {
        for (text, error) in [
            ("", "column 1: a pair of devices is missing here, such as 0/1"),
            ("0", "column 1: a pair is two devices with a '/' between them"),
            ("1b:00.0/", "column 9: a device is missing here"),
            ("/1b:00.0", "column 1: a device is missing here"),
            ("1b:00.0/1e:00.0,", "column 17: a pair of devices is missing here"),
            ("1b:00.0/1e:00.0,all", "column 17: 'all' means all pairs, and cannot be combined with others"),
            ("1b:00.0/1e:00.0/1f:00.0", "column 16: a pair has two devices; pairs are separated by commas"),
            ("1b:00.0/3", "column 9: '3' is neither a UUID (GPU-...) nor a PCI address"),
            ("1b:00.0/0000:1b:00.0", "column 9: a pair has two devices, but both are '0000:1b:00.0'"),
            ("1b:00.0/1e:00.0:one", "column 9: '1e:00.0:one' is neither"),
        ] {
            let got = DeniedPairs::parse(text).unwrap_err().to_string();
            assert!(got.starts_with(error), "{text}: {got}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_pairs_or_an_error_within_it(text in "[0-9a-fGPU:./,-]{0,60}") {
            match DeniedPairs::parse(&text) {
                Ok(denied) => assert_eq!(DeniedPairs::parse(&denied.to_string()), Ok(denied)),
                Err(error) => assert!((1..=text.len() + 1).contains(&error.column), "{text}: {error}"),
            }
        }

        #[test]
        fn written_bytes_are_read_back(
            names in proptest::collection::vec((0..=u128::MAX, 0..255u8, proptest::bool::ANY), 1..6)
        ) {
            let pairs: Vec<DeniedPair> = names
                .iter()
                .map(|(uuid, bus, oneway)| DeniedPair {
                    from: DeviceName::Uuid(uuid.to_be_bytes()),
                    to: DeviceName::Pci(PciAddress { domain: u32::from(*bus) << 8, bus: *bus, device: bus % 32 }),
                    oneway: *oneway,
                })
                .collect();
            let denied = DeniedPairs::Pairs(pairs);
            assert_eq!(DeniedPairs::parse(&denied.to_string()), Ok(denied));
        }
    }
}
