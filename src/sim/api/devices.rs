//! Devices and their properties.

use super::boundary::{OutPointer, write_result};
use crate::abi::{CUdevprop, CUuuid};
use crate::engine::answer::{Answer, fail, fail_if};
use crate::engine::{driver::Driver, process};
use core::ffi::c_char;
use cupeer_spec::abi::CUdevice;
use cupeer_spec::results::Result as Code;

/// Writes a text into a buffer of `length` bytes. A text that is too long is cut; the NUL at its end is
/// always written.
fn write_text(out: OutPointer<c_char>, length: i32, text: &str) {
    let room = usize::try_from(length).unwrap_or(0).saturating_sub(1);
    let bytes = &text.as_bytes()[..text.len().min(room)];
    for (i, byte) in bytes.iter().chain(&[0]).enumerate() {
        out.put_at(i, *byte as c_char);
    }
}

fn total_memory(dev: CUdevice) -> Answer<u64> {
    let driver = process::enter()?;
    let ordinal = driver.check_ordinal(dev.0)?;
    Ok(driver.device(ordinal).memory)
}

/// Returns the domain, the bus, and the device of a PCI address. The domain and the function may be absent
/// from the text.
fn parse_pci(text: &[u8]) -> Option<(u32, u32, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (address, function) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = address.rsplit(':').map(|part| u32::from_str_radix(part, 16).ok());
    let (device, bus) = (parts.next()??, parts.next()??);
    let domain = parts.next().unwrap_or(Some(0))?;
    (function == "0" && parts.next().is_none()).then_some((domain, bus, device))
}

fn find_by_pci(driver: &Driver, wanted: (u32, u32, u32)) -> Option<usize> {
    (0..driver.visible.len()).find(|ordinal| {
        let pci = driver.device(*ordinal).pci;
        (pci.domain, u32::from(pci.bus), u32::from(pci.device)) == wanted
    })
}

forward! {
    cuDeviceGetCount(count: *mut i32) = write_result(count, |driver| Ok(driver.visible.len() as i32));
    cuDeviceGet(device: *mut CUdevice, ordinal: i32) =
        write_result(device, |driver| driver.check_named_ordinal("ordinal", ordinal));
    cuDeviceGetUuid_v2(uuid: *mut CUuuid, dev: CUdevice) =
        write_result(uuid, |driver| Ok(CUuuid { bytes: driver.device(driver.check_ordinal(dev.0)?).uuid }));
    cuDeviceGetAttribute(pi, attrib, dev) =
        write_result(pi, |driver| driver.device_attribute(attrib.0, driver.check_ordinal(dev.0)?));
    /// CU_EXEC_AFFINITY_TYPE_SM_COUNT needs MPS, which is not simulated.
    cuDeviceGetExecAffinitySupport(pi: *mut i32, _kind: i32, dev: CUdevice) =
        write_result(pi, |driver| driver.check_ordinal(dev.0).map(|_| 0));
}

entry! {
    fn cuDeviceGetName(name: *mut c_char, len: i32, dev: CUdevice) {
        let driver = process::enter()?;
        let out = name.required()?;
        fail_if(len <= 0, Code::INVALID_VALUE)?;
        // Only in this function, the driver has no message about a wrong ordinal.
        let ordinal = driver.check_ordinal(dev.0).or(fail(Code::INVALID_DEVICE))?;
        write_text(out, len, &driver.device(ordinal).name);
        Ok(())
    }

    /// Fails, because only Windows has locally unique identifiers.
    fn cuDeviceGetLuid(_luid: *mut c_char, _deviceNodeMask: *mut u32, dev: CUdevice) {
        process::enter()?.check_ordinal(dev.0)?;
        fail(Code::NOT_SUPPORTED)
    }

    fn cuDeviceTotalMem(bytes: *mut u32, dev: CUdevice) {
        let total = total_memory(dev)?;
        bytes.required()?.put(u32::try_from(total).unwrap_or(u32::MAX));
        Ok(())
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, dev: CUdevice) {
        let total = total_memory(dev)?;
        bytes.required()?.put(total);
        Ok(())
    }

    fn cuDeviceGetProperties(prop: *mut CUdevprop, dev: CUdevice) {
        // The fields of the structure are the first device attributes, in the order of their numbers.
        write_result(prop, |driver| {
            let ordinal = driver.check_ordinal(dev.0)?;
            let attributes: Answer<Vec<i32>> =
                (1..=14).map(|attribute| driver.device_attribute(attribute, ordinal)).collect();
            attributes?.try_into().map(CUdevprop).map_err(|_| Code::UNKNOWN.into())
        })
    }

    fn cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, dev: CUdevice) {
        let driver = process::enter()?;
        let (major, minor) = (major.required()?, minor.required()?);
        let ordinal = driver.check_ordinal(dev.0)?;
        let capability = driver.device(ordinal).compute_capability;
        major.put(capability.0 as i32);
        minor.put(capability.1 as i32);
        Ok(())
    }

    fn cuDeviceGetByPCIBusId(dev: *mut CUdevice, pciBusId: *const c_char) {
        let driver = process::enter()?;
        let (out, text) = (dev.required()?, pciBusId.text()?);
        let wanted = parse_pci(text).ok_or(Code::INVALID_VALUE)?;
        out.put(find_by_pci(&driver, wanted).ok_or(Code::INVALID_DEVICE)?);
        Ok(())
    }

    fn cuDeviceGetPCIBusId(pciBusId: *mut c_char, len: i32, dev: CUdevice) {
        let driver = process::enter()?;
        let out = pciBusId.required()?;
        let ordinal = driver.check_ordinal(dev.0)?;
        let text = driver.device(ordinal).pci.to_string();
        fail_if(len <= text.len() as i32, Code::INVALID_VALUE)?;
        write_text(out, len, &text);
        Ok(())
    }

    fn cuDeviceGetTexture1DLinearMaxWidth(
        maxWidthInElements: *mut usize,
        _format: i32,
        _numChannels: u32,
        dev: CUdevice,
    ) {
        // CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH.
        write_result(maxWidthInElements, |driver| Ok(driver.device_attribute(69, driver.check_ordinal(dev.0)?)? as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_topology::Topology;

    #[test]
    fn pci_addresses_are_found_in_every_form() {
        let driver = Driver::new(Topology::default(), vec![1, 0]);
        for text in ["0000:1B:00.0", "0000:1b:00.0", "1B:00.0", "1b:00", "00000000:1B:00.0"] {
            assert_eq!(find_by_pci(&driver, parse_pci(text.as_bytes()).unwrap()), Some(1), "{text}");
        }
        for text in ["", "1b", "1b:00.1", "x:y", "0:0:1b:00.0"] {
            assert_eq!(parse_pci(text.as_bytes()), None, "{text}");
        }
        assert_eq!(find_by_pci(&driver, (1, 0x1b, 0)), None);
    }
}
