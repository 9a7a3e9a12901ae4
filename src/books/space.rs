//! Tracks the virtual memory of one process from its own calls: its allocations and its mappings. Memory of other
//! processes is not tracked.

use crate::call::Call;
use crate::places::Places;
use crate::wanted::Gathering;
use cupeer_spec::effect::{Effect, End, Grant, Joined, Made, Named, Object, Question, Shared, Subject};

/// An allocation of the process, or one that it has imported.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Its handle in the process; 0 where there is none.
    pub handle: u64,
    /// Its size; 0 where that is not known.
    pub bytes: u64,
    /// The handle types that it was created with, where that is known.
    pub types: Option<i32>,
    /// The device that it is on, as the process numbers it; `None` where that is not known, or it is on none.
    pub device: Option<i32>,
    /// Whether it was imported.
    pub is_imported: bool,
    /// How often it is to be released.
    pub references: u32,
    /// Whether that is known for sure.
    pub is_counted: bool,
    /// Where it is a multicast object: its devices.
    pub team: Option<Team>,
}

/// The devices of a multicast object.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Team {
    /// How many it was made for; 0 where that is not known.
    pub wanted: u32,
    /// Those that this process has added, as it numbers them, a bit each.
    pub added: u64,
}

impl Team {
    /// Whether this process has added a device.
    pub fn has(&self, device: i32) -> bool {
        u32::try_from(device)
            .is_ok_and(|device| self.added.checked_shr(device).is_some_and(|bits| bits & 1 != 0))
    }

    /// Whether this process has added as many as it was made for.
    pub fn is_whole(&self) -> bool {
        self.wanted != 0 && self.added.count_ones() >= self.wanted
    }
}

/// What is mapped somewhere.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Where.
    pub start: u64,
    /// How much; 0 where there is none.
    pub bytes: u64,
    /// The handle that it was mapped with.
    pub handle: u64,
    /// Whether somebody was to get access to it.
    pub is_granted: bool,
}

impl Mapping {
    /// Whether a part of it lies in a range.
    pub fn touches(&self, start: u64, bytes: u64) -> bool {
        self.bytes != 0
            && bytes != 0
            && self.start < start.saturating_add(bytes)
            && start < self.start.saturating_add(self.bytes)
    }

    /// Whether all of it lies in a range.
    pub fn is_within(&self, start: u64, bytes: u64) -> bool {
        self.start >= start && self.start.saturating_add(self.bytes) <= start.saturating_add(bytes)
    }
}

/// What a process has.
#[derive(Default)]
pub struct Space<A, M> {
    allocations: A,
    mappings: M,
    granularity: Option<u64>,
    multicast_granularity: Option<u64>,
    has_lost: bool,
}

/// The same, to look at.
pub type SpaceView<'a> = Space<&'a [Allocation], &'a [Mapping]>;

impl<A: AsRef<[Allocation]>, M: AsRef<[Mapping]>> Space<A, M> {
    /// Nothing yet, with these places for more.
    pub const fn new(allocations: A, mappings: M) -> Self {
        Space { allocations, mappings, granularity: None, multicast_granularity: None, has_lost: false }
    }

    /// What is known now.
    pub fn view(&self) -> SpaceView<'_> {
        let Space { granularity, multicast_granularity, has_lost, .. } = *self;
        let (allocations, mappings) = (self.allocations.as_ref(), self.mappings.as_ref());
        Space { allocations, mappings, granularity, multicast_granularity, has_lost }
    }

    /// The allocation of a handle; also one that is released, as long as nothing else was seen to have its handle.
    pub fn allocation(&self, handle: u64) -> Option<Allocation> {
        let is_it = |known: &&Allocation| known.handle == handle && handle != 0;
        self.allocations.as_ref().iter().find(is_it).copied()
    }

    /// All that is mapped.
    pub fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.as_ref().iter().filter(|mapping| mapping.bytes != 0)
    }

    /// What sizes and addresses have to be multiples of for memory of devices, where the process has asked.
    pub fn granularity(&self) -> Option<u64> {
        self.granularity
    }

    /// The same for multicast objects.
    pub fn multicast_granularity(&self) -> Option<u64> {
        self.multicast_granularity
    }

    /// Whether it is known that something is missing.
    pub fn has_lost(&self) -> bool {
        self.has_lost
    }
}

impl<A: Places<Allocation>, M: Places<Mapping>> Space<A, M> {
    /// Notes that something has happened of which is not known what.
    pub fn lose(&mut self) {
        self.has_lost = true;
    }

    /// Notes a call that has returned.
    pub fn note(&mut self, call: &Call) {
        for effect in call.function.spec().effects() {
            match *effect {
                // Also where it failed: somebody has thought of it.
                Effect::Grants(Grant { by, size: Some(size), .. }) => {
                    self.touched(call.at(by), call.at(size)).for_each(|known| known.is_granted = true)
                }
                _ if call.result != 0 => {}
                Effect::Joins(Joined { team, device }) => {
                    if let Some(known) = self.known(call.at(team)) {
                        let bit = 1u64.checked_shl(call.at(device) as u32).unwrap_or(0);
                        known.team.get_or_insert_default().added |= bit;
                    }
                }
                Effect::Makes(Made { object: Object::Allocation, by, size, .. }) => {
                    let made = new(call.at(by));
                    if let Some(Gathering { devices: wanted, bytes, types }) = call.gathering() {
                        let team = Some(Team { wanted, added: 0 });
                        self.put(Allocation { bytes, types: Some(types), team, ..made });
                        continue;
                    }
                    let (bytes, wanted) = (size.map_or(0, |size| call.at(size)), call.wanted());
                    let (types, device) = (wanted.map(|it| it.types), wanted.and_then(|it| it.device));
                    self.put(Allocation { bytes, types, device, ..made });
                }
                Effect::Opens(Shared { object: Object::Allocation, by, .. }) => {
                    self.put(Allocation { is_imported: true, ..new(call.at(by)) });
                }
                Effect::Retains(Named { object: Object::Allocation, by }) => self.retained(call.at(by)),
                Effect::Ends(End { object: Object::Allocation, by, .. }) => self.released(call.at(by)),
                Effect::Makes(Made { object: Object::Mapping, by, size: Some(size), of, .. }) => {
                    let handle = of.map_or(0, |of| call.at(of));
                    self.mapped(Mapping {
                        handle,
                        start: call.at(by),
                        bytes: call.at(size),
                        is_granted: false,
                    });
                }
                Effect::Ends(End { object: Object::Mapping, by, size: Some(size), .. }) => {
                    self.unmapped(call.at(by), call.at(size));
                }
                Effect::Asks(Question { subject, answer, choice: Some((option, least)), .. })
                    if call.at(option) as i32 == least =>
                {
                    let granularity = Some(call.at(answer)).filter(|bytes| bytes.is_power_of_two());
                    match subject {
                        Subject::Memory if call.wanted().is_some_and(|wanted| wanted.device.is_some()) => {
                            self.granularity = granularity
                        }
                        Subject::Team => self.multicast_granularity = granularity,
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    fn put(&mut self, allocation: Allocation) {
        let is_same = |known: &Allocation| known.handle == allocation.handle;
        let is_released = |known: &Allocation| known.references == 0;
        self.has_lost |= !self.allocations.put(allocation, is_same, |known| known.handle == 0, is_released);
    }

    fn known(&mut self, handle: u64) -> Option<&mut Allocation> {
        self.allocations.as_mut().iter_mut().find(|known| known.handle == handle && handle != 0)
    }

    fn retained(&mut self, handle: u64) {
        match self.known(handle) {
            Some(known) => known.references = known.references.saturating_add(1),
            None => self.put(Allocation { is_counted: false, ..new(handle) }),
        }
    }

    fn released(&mut self, handle: u64) {
        let Some(known) = self.known(handle) else { return };
        // The driver knows of references that were not seen.
        known.is_counted &= known.references != 0;
        known.references = known.references.saturating_sub(1);
    }

    fn mapped(&mut self, mapping: Mapping) {
        // Only a whole allocation can be mapped: so much has one of which that was not known.
        if let Some(known) = self.known(mapping.handle).filter(|known| known.bytes == 0) {
            known.bytes = mapping.bytes;
        }
        // The driver maps nothing over what is mapped: what was there has gone unseen.
        self.unmapped(mapping.start, mapping.bytes);
        self.has_lost |= !self.mappings.put(mapping, |_| false, |known| known.bytes == 0, |_| false);
    }

    fn unmapped(&mut self, start: u64, bytes: u64) {
        self.touched(start, bytes).for_each(|known| *known = Mapping::default());
    }

    fn touched(&mut self, start: u64, bytes: u64) -> impl Iterator<Item = &mut Mapping> {
        self.mappings.as_mut().iter_mut().filter(move |known| known.touches(start, bytes))
    }
}

/// One that is to be released once, of which nothing else is known.
fn new(handle: u64) -> Allocation {
    Allocation { handle, references: 1, is_counted: true, ..Allocation::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::returned;
    use cupeer_spec::function::FnId;

    const GRANULE: u64 = 2 << 20;

    #[test]
    fn an_allocation_is_counted_and_remembered_until_its_handle_is_anothers() {
        let mut space = Space::new([Allocation::default(); 2], [Mapping::default(); 2]);
        for (handle, bytes) in [(1, GRANULE), (2, 2 * GRANULE)] {
            returned(FnId::cuMemCreate, &[("handle", handle), ("size", bytes)], |call| space.note(call));
        }
        returned(FnId::cuMemRetainAllocationHandle, &[("handle", 1)], |call| space.note(call));
        for left in [1, 0] {
            returned(FnId::cuMemRelease, &[("handle", 1)], |call| space.note(call));
            assert_eq!(space.allocation(1).map(|it| (it.references, it.is_counted)), Some((left, true)));
        }
        returned(FnId::cuMemImportFromShareableHandle, &[("handle", 3)], |call| space.note(call));
        assert!(space.allocation(1).is_none() && space.allocation(3).is_some_and(|it| it.is_imported));
        assert!(!space.has_lost());
        returned(FnId::cuMemCreate, &[("handle", 4)], |call| space.note(call));
        assert!(space.has_lost() && space.allocation(4).is_none() && space.allocation(0).is_none());
        returned(FnId::cuMemRelease, &[("handle", 2)], |call| space.note(call));
        returned(FnId::cuMemRelease, &[("handle", 2)], |call| space.note(call));
        assert_eq!(space.allocation(2).map(|it| it.is_counted), Some(false), "the driver knew better");
    }

    #[test]
    fn mappings_come_and_go_by_ranges() {
        let mut space = Space::new(Vec::new(), Vec::new());
        for (start, bytes) in [(GRANULE, GRANULE), (3 * GRANULE, 2 * GRANULE)] {
            returned(FnId::cuMemMap, &[("ptr", start), ("size", bytes), ("handle", start)], |call| {
                space.note(call)
            });
        }
        returned(FnId::cuMemSetAccess, &[("ptr", GRANULE), ("size", GRANULE)], |call| space.note(call));
        let granted: Vec<bool> = space.mappings().map(|mapping| mapping.is_granted).collect();
        assert_eq!(granted, [true, false]);
        returned(FnId::cuMemUnmap, &[("ptr", 0), ("size", 3 * GRANULE)], |call| space.note(call));
        let left: Vec<u64> = space.mappings().map(|mapping| mapping.start).collect();
        assert_eq!(left, [3 * GRANULE]);
        let mapping = space.mappings().next().expect("it is there");
        assert!(mapping.touches(4 * GRANULE, 1) && !mapping.touches(5 * GRANULE, GRANULE));
        assert!(mapping.is_within(0, 5 * GRANULE) && !mapping.is_within(4 * GRANULE, GRANULE));
    }
}
