//! Device attributes: those of an H200, except for features that the simulated driver lacks.

use super::answer::{Answer, invalid};
use super::driver::Driver;

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
            // CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH.
            95 => self.machine.skips_kernels.into(),
            132 => self.machine.has_multicast.into(),
            85 => self.visible[ordinal] as i32,
            _ => {
                let number = usize::try_from(attribute).ok().filter(|number| *number > 0);
                let value = number.and_then(|number| FIXED.get(number / 10)?.get(number % 10));
                match value {
                    Some(value) => *value,
                    None => return invalid("Invalid device attribute enum value"),
                }
            }
        })
    }
}

/// The values of the attributes of an H200, as recorded; row and column are the tens and the ones digit of
/// the number. The value is 0 for features that the simulated driver lacks, and for attributes that
/// [`Driver::device_attribute`] computes.
static FIXED: [&[i32]; 15] = [
    &[0, 1024, 1024, 1024, 64, 2147483647, 65535, 65535, 49152, 65536],
    &[32, 2147483647, 65536, 1980000, 512, 1, 132, 0, 0, 1],
    &[0, 131072, 131072, 65536, 16384, 16384, 16384, 32768, 32768, 2048],
    &[512, 1, 1, 0, 0, 0, 3201000, 6016, 62914560, 2048],
    &[3, 1, 32768, 2048, 1, 32768, 32768, 8192, 8192, 32768],
    &[0, 32, 32768, 32768, 2046, 32768, 131072, 65536, 16384, 16384],
    &[16384, 32768, 2048, 32768, 32768, 2048, 32768, 32768, 2046, 268435456],
    &[131072, 65000, 2097120, 32768, 32768, 0, 0, 32768, 1, 1],
    &[1, 233472, 65536, 1, 0, 0, 0, 2, 0, 1],
    &[1, 1, 1, 1, 1, 0, 0, 232448, 0, 1],
    &[0, 0, 1, 1, 0, 0, 32, 0, 39321600, 134217728],
    &[0, 1024, 0, 1, 0, 1, 0, 1, 100, 1],
    &[0, 0, 1, 1, 0, 1, 4, 0, 1, 0],
    &[0, -1, 0, 0, 0, 0, 0, 0, 0, 590680286],
    &[415174878, 0, 0, 0, 0, 0, 0, 0],
];

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_topology::Topology;

    #[test]
    fn each_attribute_of_the_driver_has_a_value() {
        let driver = Driver::new(Topology::default(), vec![1]);
        for attribute in 1..=147 {
            assert!(driver.device_attribute(attribute, 0).is_ok(), "{attribute}");
        }
        assert!(driver.device_attribute(0, 0).is_err() && driver.device_attribute(148, 0).is_err());
        assert_eq!(driver.device_attribute(33, 0), Ok(0x1e));
    }
}
