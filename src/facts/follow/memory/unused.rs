//! The mappings that no device, or not every device with peer access, could use.

use super::{OwnAllocation, OwnMapping};
use crate::follow::ledger::CallSite;
use cupeer_report::places::Stack;
use std::collections::{BTreeSet, HashMap};

/// Mappings that are gone and were of no use, and the access that devices have to others.
#[derive(Default)]
pub struct Unmapped {
    all: HashMap<(Stack, Option<Apart>), Unused>,
    /// From which devices to which the process has switched access on.
    enabled: BTreeSet<(i32, i32)>,
}

/// A device with peer access, and the device whose mapping still did not grant it access.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Apart {
    pub from: i32,
    pub home: i32,
}

/// Mappings of one place that were never accessible to any device, or only to that of the memory.
#[derive(Clone, Copy)]
pub struct Unused {
    /// The call that mapped the first one, and when the last one was mapped.
    pub call: CallSite,
    pub last: u64,
    /// The address of the first one.
    pub start: u64,
    pub count: u64,
    pub bytes: u64,
    /// True if it was still mapped when the process was last seen.
    pub is_left: bool,
    /// The device that had no access; `None` where none had.
    pub apart: Option<Apart>,
}

impl Unmapped {
    /// Notes that access from a device to another one was switched on.
    pub fn enabled(&mut self, from: i32, to: i32) {
        self.enabled.insert((from, to));
    }

    /// Returns a mapping that no device could use, or that a device with peer access could not use. `None` for a mapping of
    /// an unknown handle.
    pub fn unused(&self, mapping: &OwnMapping, of: Option<&OwnAllocation>, is_left: bool) -> Option<Unused> {
        let (call, home) = (mapping.history.mapped()?, of?.device);
        let apart = home.and_then(|home| self.apart(home, mapping.history.devices));
        let unused = Unused {
            call,
            last: call.at,
            start: mapping.name,
            count: 1,
            bytes: mapping.bytes,
            is_left,
            apart,
        };
        (!mapping.is_granted || apart.is_some()).then_some(unused)
    }

    /// A device for which access to another one was switched on, where only that one has access to its memory.
    fn apart(&self, home: i32, devices: u64) -> Option<Apart> {
        let is_alone = u32::try_from(home).is_ok_and(|bit| 1u64.checked_shl(bit) == Some(devices));
        let (from, _) = self.enabled.iter().find(|(from, to)| is_alone && *to == home && *from != home)?;
        Some(Apart { from: *from, home })
    }

    /// Adds one.
    pub fn count(&mut self, unused: Option<Unused>) {
        let Some(unused) = unused else { return };
        self.all
            .entry((unused.call.site.stack, unused.apart))
            .and_modify(|known| {
                known.count += 1;
                known.bytes += unused.bytes;
                known.last = known.last.max(unused.last);
            })
            .or_insert(unused);
    }

    /// Hands over all.
    pub fn drain(&mut self) -> impl Iterator<Item = Unused> {
        std::mem::take(&mut self.all).into_values()
    }
}
