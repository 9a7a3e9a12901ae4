//! The mappings that no device, or not every device with peer access, could use.

use super::{OwnAllocation, OwnMapping};
use crate::follow::ledger::CallSite;
use cupeer_report::places::StackNumber;
use std::collections::{BTreeSet, HashMap};

/// The ended mappings that devices could not use, and the pairs of devices between which the process enabled access.
#[derive(Default)]
pub struct UnusedMappings {
    all: HashMap<(StackNumber, Option<DeviceWithoutAccess>), UnusedMapping>,
    /// Pairs of ordinals of devices: the process enabled access from the first device to the memory of the second.
    enabled: BTreeSet<(i32, i32)>,
}

/// A device `from` that has peer access to the device `home`, but has no access to a mapping of memory on `home`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceWithoutAccess {
    pub from: i32,
    pub home: i32,
}

/// Mappings from one place that no device ever could access, or only the device of the memory.
#[derive(Clone, Copy)]
pub struct UnusedMapping {
    /// The call that created the first mapping.
    pub call: CallSite,
    /// Time at which the last mapping was created.
    pub last: u64,
    /// The address of the first mapping.
    pub start: u64,
    pub count: u64,
    pub bytes: u64,
    /// True if the first mapping still existed when the process was last seen.
    pub is_left: bool,
    /// The device that had no access, with the device of the memory; `None` if no device at all had access.
    pub without_access: Option<DeviceWithoutAccess>,
}

impl UnusedMappings {
    /// Adds peer access that the process enabled from one device to another.
    pub fn add_peer_access(&mut self, from: i32, to: i32) {
        self.enabled.insert((from, to));
    }

    /// Returns a mapping that no device could use, or that a device with peer access could not use. `None` for a mapping of
    /// an unknown handle.
    pub fn as_unused(&self, mapping: &OwnMapping, of: Option<&OwnAllocation>, is_left: bool) -> Option<UnusedMapping> {
        let (call, home) = (mapping.history.mapping_call()?, of?.device);
        let apart = home.and_then(|home| self.find_device_without_access(home, mapping.history.devices));
        let unused = UnusedMapping {
            call,
            last: call.at,
            start: mapping.name,
            count: 1,
            bytes: mapping.bytes,
            is_left,
            without_access: apart,
        };
        (!mapping.is_granted || apart.is_some()).then_some(unused)
    }

    /// Returns a device that has peer access to `home`, if a mapping of memory on `home` is accessible only to `home`.
    fn find_device_without_access(&self, home: i32, devices: u64) -> Option<DeviceWithoutAccess> {
        let is_alone = u32::try_from(home).is_ok_and(|bit| 1u64.checked_shl(bit) == Some(devices));
        let (from, _) = self.enabled.iter().find(|(from, to)| is_alone && *to == home && *from != home)?;
        Some(DeviceWithoutAccess { from: *from, home })
    }

    /// Adds a mapping to those of its place.
    pub fn add_mapping(&mut self, unused: Option<UnusedMapping>) {
        let Some(unused) = unused else { return };
        self.all
            .entry((unused.call.site.stack, unused.without_access))
            .and_modify(|known| {
                known.count += 1;
                known.bytes += unused.bytes;
                known.last = known.last.max(unused.last);
            })
            .or_insert(unused);
    }

    /// Removes and returns all mappings, one element per place.
    pub fn drain(&mut self) -> impl Iterator<Item = UnusedMapping> {
        std::mem::take(&mut self.all).into_values()
    }
}
