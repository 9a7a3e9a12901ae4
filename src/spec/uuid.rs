//! Devices as people know them: UUIDs, as nvidia-smi prints them and CUDA_VISIBLE_DEVICES accepts them, and
//! short names for output.

use core::fmt;

/// UUID of a device, printed as `GPU-` followed by 8-4-4-4-12 digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("GPU")?;
        for (i, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if [0, 4, 6, 8, 10].contains(&i) { "-" } else { "" })?;
        }
        Ok(())
    }
}

/// Short form of a UUID: its first and its last four digits, which are enough to tell the devices of a
/// machine apart: `c09e..0005`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ShortUuid(pub [u8; 16]);

impl fmt::Display for ShortUuid {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let [first, second, .., last_but_one, last] = self.0;
        write!(f, "{first:02x}{second:02x}..{last_but_one:02x}{last:02x}")
    }
}

/// The name of a device: `GPU 5 (c09e..0005)`, or `GPU c09e..0005` if its number is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GpuName {
    /// Number of the device; `None` if unknown. See [`unrestricted_number`].
    pub number: Option<u32>,
    /// UUID of the device.
    pub uuid: [u8; 16],
}

impl fmt::Display for GpuName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "GPU {number} ({})", ShortUuid(self.uuid)),
            None => write!(f, "GPU {}", ShortUuid(self.uuid)),
        }
    }
}

/// Returns the number that a device has without CUDA_VISIBLE_DEVICES, by its number in a process with this
/// value of the variable. `None` if the variable contains other names than numbers.
pub fn unrestricted_number(ordinal: u32, visible: Option<&str>) -> Option<u32> {
    match visible {
        None => Some(ordinal),
        Some(list) => list.split(',').nth(ordinal as usize)?.trim().parse().ok(),
    }
}

/// Parses a UUID, with or without `GPU-` or `MIG-`. Does not allocate, because NVML may have returned the
/// text during a call.
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits = ["GPU-", "gpu-", "MIG-", "mig-"].iter().find_map(|prefix| text.strip_prefix(prefix));
    let digits = digits.unwrap_or(text).as_bytes();
    if digits.len() != 36 {
        return None;
    }
    let mut uuid = [0; 16];
    let mut nibbles = 0;
    for (i, byte) in digits.iter().enumerate() {
        match (i, byte) {
            (8 | 13 | 18 | 23, b'-') => {}
            (8 | 13 | 18 | 23, _) => return None,
            _ => {
                let digit = (*byte as char).to_digit(16)? as u8;
                uuid[nibbles / 2] = uuid[nibbles / 2] << 4 | digit;
                nibbles += 1;
            }
        }
    }
    Some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_by_its_number_and_its_uuid() {
        let uuid = core::array::from_fn(|i| i as u8 * 0x11);
        let name = |number| GpuName { number, uuid }.to_string();
        assert_eq!([name(Some(5)), name(None)], ["GPU 5 (0011..eeff)", "GPU 0011..eeff"]);
    }

    #[test]
    fn a_number_is_that_of_the_machine() {
        let of = |visible| [0, 1, 2].map(|ordinal| unrestricted_number(ordinal, visible));
        assert_eq!(of(None), [Some(0), Some(1), Some(2)]);
        assert_eq!(of(Some("6, 7")), [Some(6), Some(7), None]);
        assert_eq!(of(Some("GPU-c09e,3")), [None, Some(3), None]);
        assert_eq!(of(Some("")), [None; 3]);
    }

    #[test]
    fn printed_values_are_parsed() {
        let uuid = core::array::from_fn(|i| i as u8 * 0x11);
        let text = Uuid(uuid).to_string();
        assert_eq!(text, "GPU-00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!([text.as_str(), &text[4..], &text.to_uppercase()].map(parse_uuid), [Some(uuid); 3]);
        for wrong in ["", "GPU-", &text[..39], &text.replace('-', "0"), &text.replace('f', "g")] {
            assert_eq!(parse_uuid(wrong), None, "{wrong}");
        }
    }
}
