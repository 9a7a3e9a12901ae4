//! Device attributes: an H200's, but for what the simulated driver does not do.

use super::answer::{Answer, fail};
use super::process::Driver;
use cupeer_spec::results::Result as Code;

impl Driver {
    /// `cuDeviceGetAttribute`.
    pub(crate) fn device_attribute(&self, attribute: i32, ordinal: usize) -> Answer<i32> {
        let device = self.device(ordinal);
        Ok(match attribute {
            33 => device.pci.bus.into(),
            34 => device.pci.device.into(),
            50 => device.pci.domain as i32,
            75 => device.compute_capability.0 as i32,
            76 => device.compute_capability.1 as i32,
            85 => self.visible[ordinal] as i32,
            _ => match FIXED.binary_search_by_key(&attribute, |(number, _)| *number) {
                Ok(at) => FIXED[at].1,
                Err(_) => return fail(Code::INVALID_VALUE),
            },
        })
    }
}

/// The attributes that are the same for every device, in ascending order.
static FIXED: &[(i32, i32)] = &[(1, 1024)];
