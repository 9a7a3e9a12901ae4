//! Device attributes: an H200's, but for what the simulated driver does not do.

use super::answer::{Answer, refuse};
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
            // Cooperative launches.
            95 => self.machine.skips_kernels().into(),
            85 => self.visible[ordinal] as i32,
            _ => match FIXED.binary_search_by_key(&attribute, |(number, _)| *number) {
                Ok(at) => FIXED[at].1,
                Err(_) => return refuse(Code::INVALID_VALUE, "Invalid device attribute enum value"),
            },
        })
    }
}

/// The attributes that are the same for every device, in ascending order: as recorded, but 0 for what the
/// simulated driver does not do, such as virtual memory management and multicast.
static FIXED: &[(i32, i32)] = &[
    (1, 1024),
    (2, 1024),
    (3, 1024),
    (4, 64),
    (5, 2147483647),
    (6, 65535),
    (7, 65535),
    (8, 49152),
    (9, 65536),
    (10, 32),
    (11, 2147483647),
    (12, 65536),
    (13, 1980000),
    (14, 512),
    (15, 1),
    (16, 132),
    (17, 0),
    (18, 0),
    (19, 1),
    (20, 0),
    (21, 131072),
    (22, 131072),
    (23, 65536),
    (24, 16384),
    (25, 16384),
    (26, 16384),
    (27, 32768),
    (28, 32768),
    (29, 2048),
    (30, 512),
    (31, 1),
    (32, 1),
    (35, 0),
    (36, 3201000),
    (37, 6016),
    (38, 62914560),
    (39, 2048),
    (40, 3),
    (41, 1),
    (42, 32768),
    (43, 2048),
    (44, 1),
    (45, 32768),
    (46, 32768),
    (47, 8192),
    (48, 8192),
    (49, 32768),
    (51, 32),
    (52, 32768),
    (53, 32768),
    (54, 2046),
    (55, 32768),
    (56, 131072),
    (57, 65536),
    (58, 16384),
    (59, 16384),
    (60, 16384),
    (61, 32768),
    (62, 2048),
    (63, 32768),
    (64, 32768),
    (65, 2048),
    (66, 32768),
    (67, 32768),
    (68, 2046),
    (69, 268435456),
    (70, 131072),
    (71, 65000),
    (72, 2097120),
    (73, 32768),
    (74, 32768),
    (77, 32768),
    (78, 1),
    (79, 1),
    (80, 1),
    (81, 233472),
    (82, 65536),
    (83, 1),
    (84, 0),
    (86, 0),
    (87, 2),
    (88, 0),
    (89, 1),
    (90, 1),
    (91, 1),
    (92, 0),
    (93, 0),
    (94, 0),
    (95, 0),
    (96, 0),
    (97, 232448),
    (98, 0),
    (99, 1),
    (100, 0),
    (101, 0),
    (102, 0),
    (103, 0),
    (104, 0),
    (105, 0),
    (106, 32),
    (107, 0),
    (108, 39321600),
    (109, 134217728),
    (110, 0),
    (111, 1024),
    (112, 0),
    (113, 1),
    (114, 0),
    (115, 1),
    (116, 0),
    (117, 1),
    (118, 100),
    (119, 0),
    (120, 0),
    (121, 0),
    (122, 0),
    (123, 0),
    (124, 0),
    (125, 1),
    (126, 4),
    (127, 0),
    (128, 0),
    (129, 0),
    (130, 0),
    (131, -1),
    (132, 0),
    (133, 0),
    (134, 0),
    (135, 0),
    (136, 0),
    (137, 0),
    (138, 0),
    (139, 590680286),
    (140, 415174878),
    (141, 0),
    (142, 0),
    (143, 0),
    (144, 0),
    (145, 0),
    (146, 0),
    (147, 0),
];

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_topology::Topology;

    #[test]
    fn each_attribute_of_the_driver_has_a_value() {
        assert!(FIXED.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let driver = Driver::new(Topology::default(), vec![1]);
        for attribute in 1..=147 {
            assert!(driver.device_attribute(attribute, 0).is_ok(), "{attribute}");
        }
        assert!(driver.device_attribute(0, 0).is_err() && driver.device_attribute(148, 0).is_err());
        assert_eq!(driver.device_attribute(33, 0), Ok(0x1e));
    }
}
