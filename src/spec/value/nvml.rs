//! NVML's structures. Only their most informative fields are printed.

use super::{Fields, Fingerprint, Format, Value, word};
use crate::abi::*;
use core::fmt::{self, Write};

/// Reads a 4-byte number from the stored bytes.
fn number(bytes: &[u8], index: usize) -> Result<u32, fmt::Error> {
    let bytes = bytes.get(4 * index..4 * index + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u32::from_le_bytes).ok_or(fmt::Error)
}

fn put<const N: usize>(place: &mut [u8], numbers: [u32; N]) {
    place.chunks_exact_mut(4).zip(numbers).for_each(|(place, number)| place.copy_from_slice(&number.to_le_bytes()));
}

/// Prints three numbers with their names: `{state=3, cliqueId=0}`.
fn print_numbers(numbers: [(&str, u64); 3], out: &mut dyn Write, format: Format) -> fmt::Result {
    let mut fields = Fields::begin(out, format)?;
    for (name, value) in numbers {
        fields.field(name, |out| write!(out, "{value}"))?;
    }
    fields.end(&[])
}

/// Declares structures of which only three numbers are stored and printed.
macro_rules! three {
    ($($name:ident: $numbers:expr, $print:ident;)*) => {$(
        impl Value for $name {
            const STORED: usize = 12;
            fn store(self, place: &mut [u8], _: Fingerprint) {
                let numbers: fn(Self) -> [u32; 3] = $numbers;
                put(place, numbers(self));
            }
            fn print(self, out: &mut dyn Write, format: Format) -> fmt::Result {
                let mut bytes = [0; Self::STORED];
                self.store(&mut bytes, format.fingerprint);
                Self::print_stored(&bytes, out, format)
            }
            fn print_stored(bytes: &[u8], out: &mut dyn Write, format: Format) -> fmt::Result {
                $print([number(bytes, 0)?, number(bytes, 1)?, number(bytes, 2)?], out, format)
            }
        }
    )*};
}
three! {
    nvmlPciInfo_v2_t: |pci| [pci.domain, pci.bus, pci.device], address;
    nvmlPciInfo_t: |pci| [pci.domain, pci.bus, pci.device], address;
    nvmlGpuFabricInfo_t: |info| [info.state.into(), info.status.0 as u32, info.cliqueId], fabric;
    nvmlGpuFabricInfoV_t: |info| [info.state.into(), info.status.0 as u32, info.cliqueId], fabric;
}

/// Prints a PCI address as NVML does. A switch that a device cannot see has all bits set.
fn address([domain, bus, device]: [u32; 3], out: &mut dyn Write, format: Format) -> fmt::Result {
    word(out, format, format_args!("{domain:08X}:{bus:02X}:{device:02X}.0"))
}

fn fabric([state, status, clique]: [u32; 3], out: &mut dyn Write, format: Format) -> fmt::Result {
    let numbers = [("state", state.into()), ("status", status.into()), ("cliqueId", clique.into())];
    print_numbers(numbers, out, format)
}

impl nvmlFieldValue_t {
    /// Returns the bits of the value; 0 if there is none.
    pub fn value_bits(&self) -> u64 {
        // The types NVML_VALUE_TYPE_ UNSIGNED_INT, SIGNED_INT and UNSIGNED_SHORT have fewer bits than the
        // others.
        match self.valueType {
            _ if self.nvmlReturn.0 != 0 => 0,
            1 | 5 => self.value & 0xffff_ffff,
            6 => self.value & 0xffff,
            _ => self.value,
        }
    }
}

impl Value for nvmlFieldValue_t {
    const STORED: usize = 4;
    fn store(self, place: &mut [u8], _: Fingerprint) {
        put(place, [self.fieldId]);
    }
    fn print(self, out: &mut dyn Write, format: Format) -> fmt::Result {
        let result = self.nvmlReturn.0 as u32;
        let known = [("fieldId", self.fieldId.into()), ("scopeId", self.scopeId.into())];
        let answer = if result == 0 { ("value", self.value_bits()) } else { ("nvmlReturn", result.into()) };
        print_numbers([known[0], known[1], answer], out, format)
    }
    fn print_stored(bytes: &[u8], out: &mut dyn Write, _: Format) -> fmt::Result {
        write!(out, "{}", number(bytes, 0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Format = Format { json: false, fingerprint: |_| 0 };
    const JSON: Format = Format { json: true, fingerprint: |_| 0 };

    /// Prints a value, and its stored form.
    fn print<T: Value>(value: T, format: Format) -> (String, String) {
        let (mut printed, mut stored, mut bytes) = (String::new(), String::new(), vec![0; T::STORED]);
        value.print(&mut printed, format).unwrap();
        value.store(&mut bytes, format.fingerprint);
        T::print_stored(&bytes, &mut stored, format).unwrap();
        (printed, stored)
    }

    #[test]
    fn structures_say_what_matters_and_a_record_says_the_same() {
        let pci = nvmlPciInfo_t {
            busIdLegacy: [0; 16],
            domain: 0,
            bus: 0x1b,
            device: 0,
            pciDeviceId: 0,
            pciSubSystemId: 0,
            busId: [0; 32],
        };
        assert_eq!(print(pci, TEXT), ("00000000:1B:00.0".into(), "00000000:1B:00.0".into()));
        assert_eq!(print(pci, JSON).0, "\"00000000:1B:00.0\"");
        let fabric = nvmlGpuFabricInfo_t { clusterUuid: [7; 16], status: nvmlReturn_t(0), cliqueId: 9, state: 3 };
        let wanted = "{state=3, status=0, cliqueId=9}";
        assert_eq!(print(fabric, TEXT), (wanted.into(), wanted.into()));
        assert_eq!(print(fabric, JSON).0, "{\"state\":3,\"status\":0,\"cliqueId\":9}");
    }

    #[test]
    fn an_answer_is_as_wide_as_its_type() {
        let mut field = nvmlFieldValue_t {
            fieldId: 165,
            scopeId: 17,
            timestamp: 1,
            latencyUsec: 2,
            valueType: 1,
            nvmlReturn: nvmlReturn_t(0),
            value: 0xdead_beef_0000_0001,
        };
        assert_eq!(print(field, TEXT), ("{fieldId=165, scopeId=17, value=1}".into(), "165".into()));
        field.valueType = 3;
        assert_eq!(field.value_bits(), 0xdead_beef_0000_0001);
        field.nvmlReturn = nvmlReturn_t(2);
        assert_eq!(print(field, TEXT).0, "{fieldId=165, scopeId=17, nvmlReturn=2}");
    }
}
