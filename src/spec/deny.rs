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
pub struct Pci {
    /// PCI domain.
    pub domain: u32,
    /// PCI bus.
    pub bus: u8,
    /// Number of the device on the bus.
    pub device: u8,
}

impl fmt::Display for Pci {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:08X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }
}

/// Identity of a device, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// UUID of the device; `None` if unknown.
    pub uuid: Option<[u8; 16]>,
    /// PCI address of the device; `None` if unknown.
    pub pci: Option<Pci>,
}

impl Identity {
    /// Returns true if both identities belong to one device; `None` if this is unknown.
    pub fn is(&self, other: &Identity) -> Option<bool> {
        let by_uuid = self.uuid.zip(other.uuid).map(|(a, b)| a == b);
        by_uuid.or_else(|| self.pci.zip(other.pci).map(|(a, b)| a == b))
    }
}

/// Name of a device in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    /// Name by UUID.
    Uuid([u8; 16]),
    /// Name by PCI address.
    Pci(Pci),
}

impl Name {
    /// Parses a name: a UUID (`GPU-` and digits, or digits alone), or a PCI address with or without its
    /// domain.
    pub fn parse(text: &str) -> Option<Name> {
        uuid::parse(text).map(Name::Uuid).or_else(|| pci(text).map(Name::Pci))
    }

    /// Returns true if this name matches the device.
    pub fn is(&self, device: &Identity) -> bool {
        match self {
            Name::Uuid(uuid) => device.uuid == Some(*uuid),
            Name::Pci(pci) => device.pci == Some(*pci),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Name::Uuid(uuid) => write!(f, "{}", Uuid(*uuid)),
            Name::Pci(pci) => write!(f, "{pci}"),
        }
    }
}

/// Parses a PCI address: `1B:00.0`, `0000:1b:00.0`, or `00000000:1B:00.0`.
pub fn pci(text: &str) -> Option<Pci> {
    let number = |text: &str, most: usize| {
        let is_hex = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u32::from_str_radix(text, 16).ok()).flatten()
    };
    let (address, function) = text.rsplit_once('.')?;
    let (rest, device) = address.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
    number(function, 1)?;
    Some(Pci {
        domain: number(domain, 8)?,
        bus: number(bus, 2)? as u8,
        device: u8::try_from(number(device, 2)?).ok().filter(|device| *device < 32)?,
    })
}

/// Pair in a text, before its devices are parsed, with the column of each device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written<'a> {
    /// Column and text of the first device, which must not access the second one.
    pub from: (usize, &'a str),
    /// Column and text of the second device.
    pub to: (usize, &'a str),
    /// True if the second device may access the first one.
    pub oneway: bool,
}

/// Splits a list of pairs. Does not parse the devices.
pub fn written(text: &str) -> Result<Vec<Written<'_>>, TextError> {
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
        pairs.push(Written { from: (column, from), to: (second, to), oneway });
        column += item.len() + 1;
    }
    Ok(pairs)
}

/// Denied pair of devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// First device, which must not access the second one.
    pub from: Name,
    /// Second device.
    pub to: Name,
    /// True if the second device may access the first one.
    pub oneway: bool,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}{}", self.from, self.to, if self.oneway { ONEWAY } else { "" })
    }
}

/// Set of denied pairs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Denied {
    /// All pairs of different devices.
    All,
    /// These pairs.
    Pairs(Vec<Pair>),
}

impl Denied {
    /// Parses pairs of UUIDs and PCI addresses, or the word `all`.
    pub fn parse(text: &str) -> Result<Denied, TextError> {
        if text == ALL {
            return Ok(Denied::All);
        }
        let named = |(column, text): (usize, &str)| {
            Name::parse(text).ok_or_else(|| TextError {
                column,
                message: format!("'{text}' is neither a UUID (GPU-...) nor a PCI address (0000:1b:00.0)"),
            })
        };
        let mut pairs = Vec::new();
        for Written { from, to, oneway } in written(text)? {
            let pair = Pair { from: named(from)?, to: named(to)?, oneway };
            if pair.from == pair.to {
                return Err(TextError {
                    column: to.0,
                    message: format!("a pair has two devices, but both are '{}'", to.1),
                });
            }
            pairs.push(pair);
        }
        Ok(Denied::Pairs(pairs))
    }

    /// Returns the index of the entry that denies one device access to the other; `None` if no entry does, or
    /// if the two devices may be the same.
    pub fn denies(&self, from: &Identity, to: &Identity) -> Option<usize> {
        match self {
            Denied::All => (from.is(to) == Some(false)).then_some(0),
            Denied::Pairs(pairs) => pairs.iter().position(|pair| {
                let is = |a: &Name, b: &Name| a.is(from) && b.is(to);
                is(&pair.from, &pair.to) || !pair.oneway && is(&pair.to, &pair.from)
            }),
        }
    }

    /// Returns the index of the first entry that contains the device on either side.
    pub fn touches(&self, device: &Identity) -> Option<usize> {
        match self {
            Denied::All => Some(0),
            Denied::Pairs(pairs) => pairs.iter().position(|pair| pair.from.is(device) || pair.to.is(device)),
        }
    }

    /// Returns true if an entry names a device by its PCI address.
    pub fn has_addresses(&self) -> bool {
        let is_address = |name: &Name| matches!(name, Name::Pci(_));
        match self {
            Denied::All => false,
            Denied::Pairs(pairs) => pairs.iter().any(|pair| is_address(&pair.from) || is_address(&pair.to)),
        }
    }

    /// Returns each entry in words, in the order of the indexes.
    pub fn names(&self) -> Vec<String> {
        match self {
            Denied::All => vec![ALL.to_owned()],
            Denied::Pairs(pairs) => pairs.iter().map(Pair::to_string).collect(),
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.names().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "GPU-c09ee200-5130-4d0e-b00d-00000000000a";
    const B: &str = "GPU-c09ee200-5130-4d0e-b00d-00000000000b";

    fn device(uuid: &str, bus: u8) -> Identity {
        Identity { uuid: super::uuid::parse(uuid), pci: Some(Pci { domain: 0, bus, device: 0 }) }
    }

    #[test]
    fn devices_are_written_in_many_ways() {
        assert_eq!(Name::parse(A).map(|name| name.to_string()).as_deref(), Some(A));
        let pci = Pci { domain: 0, bus: 0x1b, device: 0 };
        for text in ["1b:00.0", "0000:1B:00.0", "00000000:1b:00.0"] {
            assert_eq!(Name::parse(text), Some(Name::Pci(pci)), "{text}");
        }
        assert_eq!(Name::Pci(pci).to_string(), "00000000:1B:00.0");
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
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_pair_is_denied_in_both_directions_unless_it_is_oneway() {
        let (a, b, c) = (device(A, 1), device(B, 2), device("GPU-c09ee200-5130-4d0e-b00d-00000000000c", 3));
        let both = Denied::parse(&format!("{A}/{B}")).unwrap();
        let oneway = Denied::parse(&format!("01:00.0/{B}:oneway")).unwrap();
        assert_eq!((both.denies(&a, &b), both.denies(&b, &a)), (Some(0), Some(0)));
        assert_eq!((oneway.denies(&a, &b), oneway.denies(&b, &a)), (Some(0), None));
        for denied in [&both, &oneway] {
            assert_eq!(
                (denied.denies(&a, &c), denied.denies(&c, &b), denied.denies(&a, &a)),
                (None, None, None)
            );
            assert_eq!(
                (denied.touches(&a), denied.touches(&b), denied.touches(&c)),
                (Some(0), Some(0), None)
            );
        }
        assert_eq!((both.has_addresses(), oneway.has_addresses()), (false, true));
        assert_eq!(oneway.to_string(), format!("00000000:01:00.0/{B}:oneway"));
        assert_eq!(Denied::parse(&oneway.to_string()), Ok(oneway));
    }

    #[test]
    fn all_means_each_device_with_each_other() {
        let (a, b) = (device(A, 1), device(B, 2));
        let unknown = Identity::default();
        let address = Identity { uuid: None, ..b };
        let all = Denied::parse("all").unwrap();
        assert_eq!((all.denies(&a, &b), all.denies(&a, &a), all.denies(&a, &unknown)), (Some(0), None, None));
        assert_eq!((all.denies(&a, &address), all.denies(&b, &address)), (Some(0), None));
        assert_eq!((all.touches(&a), all.names()), (Some(0), vec!["all".to_owned()]));
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
            let got = Denied::parse(text).unwrap_err().to_string();
            assert!(got.starts_with(error), "{text}: {got}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_pairs_or_an_error_within_it(text in "[0-9a-fGPU:./,-]{0,60}") {
            match Denied::parse(&text) {
                Ok(denied) => assert_eq!(Denied::parse(&denied.to_string()), Ok(denied)),
                Err(error) => assert!((1..=text.len() + 1).contains(&error.column), "{text}: {error}"),
            }
        }

        #[test]
        fn written_bytes_are_read_back(
            names in proptest::collection::vec((0..=u128::MAX, 0..255u8, proptest::bool::ANY), 1..6)
        ) {
            let pairs: Vec<Pair> = names
                .iter()
                .map(|(uuid, bus, oneway)| Pair {
                    from: Name::Uuid(uuid.to_be_bytes()),
                    to: Name::Pci(Pci { domain: u32::from(*bus) << 8, bus: *bus, device: bus % 32 }),
                    oneway: *oneway,
                })
                .collect();
            let denied = Denied::Pairs(pairs);
            assert_eq!(Denied::parse(&denied.to_string()), Ok(denied));
        }
    }
}
