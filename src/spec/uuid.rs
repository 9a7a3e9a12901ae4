//! UUIDs of devices, as nvidia-smi prints them and CUDA_VISIBLE_DEVICES takes them.

use core::fmt;

/// A UUID: `GPU-` and 8-4-4-4-12 digits.
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

/// Reads a UUID, with `GPU-` or `MIG-` or without. Nothing is allocated: it may be one that NVML gave in the middle of a
/// call.
pub fn parse(text: &str) -> Option<[u8; 16]> {
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
    fn what_is_printed_is_read() {
        let uuid = core::array::from_fn(|i| i as u8 * 0x11);
        let text = Uuid(uuid).to_string();
        assert_eq!(text, "GPU-00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!([text.as_str(), &text[4..], &text.to_uppercase()].map(parse), [Some(uuid); 3]);
        for wrong in ["", "GPU-", &text[..39], &text.replace('-', "0"), &text.replace('f', "g")] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
