//! Rules about virtual memory in failed calls.

use super::{Judge, Verdict, World};
use crate::Confidence;
use crate::reason::Reason;
use cupeer_model::{Allocation, BareEntry, Entry, Mapping, ObjectFamily, alloc_props};
use cupeer_spec::abi::CUmemAllocationHandleType;
use cupeer_spec::effect::{End, Made, Object, Shared, Subject};
use cupeer_spec::function::Direction;
use cupeer_spec::record::slot::finding::role;
use cupeer_spec::results::Result;
use cupeer_spec::value::Shareable;

/// Granularity in bytes of sizes and addresses on current devices.
const GRANULARITY: u64 = 2 << 20;

impl<W: World> Judge<'_, W> {
    /// Returns the confidence of conclusions from what is known of the process's virtual memory.
    pub(super) fn virtual_memory_confidence(&self) -> Confidence {
        Confidence::certain_if(self.world.has_all_calls(ObjectFamily::VirtualMemory))
    }

    /// Returns the range of addresses of the call, and the arguments with its start and its size.
    fn address_range(&self) -> Option<((u64, u64), usize, usize)> {
        let (by, size) = self.expect_in_table(self.call.function.spec().address_range())?;
        Some((self.call.address_range(), by, size))
    }

    /// Returns the mapping at the lowest address among those in a range that meet a condition.
    pub(super) fn first_mapping(
        &self,
        range: (u64, u64),
        is_it: impl Fn(&BareEntry<Mapping>) -> bool,
    ) -> Option<BareEntry<Mapping>> {
        let mut first: Option<BareEntry<Mapping>> = None;
        let mut look = |known: &BareEntry<Mapping>| {
            if is_it(known) && first.is_none_or(|first| known.name < first.name) {
                first = Some(*known);
            }
        };
        self.world.query_model(|model| {
            model.each_mapping(range, &mut look);
            Some(())
        });
        first
    }

    pub(super) fn allocation(&self, handle: u64) -> Option<BareEntry<Allocation>> {
        self.world.query_model(|model| model.allocation(handle))
    }

    pub(super) fn allocation_of(&self, mapping: &Mapping) -> Option<BareEntry<Allocation>> {
        self.world.query_model(|model| model.allocation_of(mapping))
    }

    pub(super) fn vmm_handle_released(&mut self) -> Option<Verdict> {
        let by = self.call.function.spec().allocation_handle_argument();
        let by = self.expect_in_table(by)?;
        let handle = self.call.number_at(by);
        let known = self.allocation(handle)?;
        if !known.has_ended() {
            return Some(Verdict::Held);
        }
        let confidence =
            Confidence::certain_if(known.is_counted && self.world.has_all_calls(ObjectFamily::VirtualMemory));
        self.report_violation(Reason::VmmHandleReleased { handle }, confidence, by, &[])
    }

    pub(super) fn vmm_handle_type(&mut self) -> Option<Verdict> {
        let spec = self.call.function.spec();
        let (shared, kind) =
            (self.expect_in_table(spec.exports())?, self.expect_in_table(spec.handle_kind_argument())?);
        let (handle, wanted) = (self.call.number_at(shared.by), self.call.number_at(kind) as i32);
        let is_a_type = wanted != 0 && CUmemAllocationHandleType(wanted).name().is_some();
        let known = self.allocation(handle).filter(|_| is_a_type)?;
        let types = match known.types {
            // The allocation's handle had been released, so the requested handle type is not the cause.
            _ if known.has_ended() => return None,
            _ if known.is_imported() => None,
            None => return None,
            Some(types) if types & wanted != 0 => return Some(Verdict::Held),
            types => types,
        };
        let reason = Reason::VmmHandleType { wanted: wanted as u64, types: types.map(|types| types as u64) };
        self.report_violation(reason, self.virtual_memory_confidence(), kind, &[])
    }

    pub(super) fn vmm_unreachable_device(&mut self) -> Option<Verdict> {
        let (((start, bytes), ..), (by, all)) =
            (self.address_range()?, self.expect_in_table(self.call.function.spec().input_array())?);
        let count = self.world.device_count();
        let is_none = |device: &i32| count.is_some_and(|count| !(0..count).contains(device));
        if let Some(device) = self.call.access_devices().find(is_none) {
            let count = count.unwrap_or(0);
            let reason = Reason::VmmNoSuchDevice { device, count };
            return self.report_violation(reason, Confidence::Certain, by, &[]);
        }
        if !self.call.has_returned(Result::INVALID_DEVICE) {
            return Some(Verdict::Held);
        }
        // The mappings in the range may be on several devices.
        let (world, mut homes) = (self.world, [None; 16]);
        world.query_model(|model| {
            let mut places = homes.iter_mut();
            model.each_mapping((start, bytes), &mut |mapping| {
                let device = model.allocation_of(mapping).and_then(|known| known.device);
                places.next().into_iter().for_each(|place| *place = device);
            });
            Some(())
        });
        let homes = || homes.iter().copied().flatten();
        for home in homes() {
            for device in self.call.access_devices().filter(|device| *device != home) {
                if world.can_access(device, home) == Some(false) {
                    let (from, to) = (self.device_with_uuid(device), Some(self.device_with_uuid(home)));
                    return self.report_violation(
                        Reason::VmmUnreachableDevice { from, to },
                        Confidence::Certain,
                        by,
                        &[],
                    );
                }
            }
        }
        // The result proves the mistake, but does not name the device.
        let is_whole = self.call.has_all_elements(self.call.access_devices().count());
        let mut others = self.call.access_devices().filter(|device| !homes().any(|home| home == *device));
        let Some(device) = others.next().filter(|_| is_whole && others.next().is_none()) else {
            let count = self.call.number_at(all);
            return self.report_violation(Reason::VmmSomeUnreachable { count }, Confidence::Inferred, by, &[]);
        };
        let (from, to) = (self.device_with_uuid(device), homes().next().map(|home| self.device_with_uuid(home)));
        self.report_violation(Reason::VmmUnreachableDevice { from, to }, Confidence::Inferred, by, &[])
    }

    pub(super) fn vmm_fabric_without_channel(&mut self) -> Option<Verdict> {
        let by = self.expect_in_table(self.call.function.spec().properties_argument());
        let (by, wanted) = (by?, self.call.allocation_props()?);
        if wanted.types & Shareable::FABRIC == 0 {
            return Some(Verdict::Held);
        }
        let has_channel = self.world.has_fabric_channel();
        let confidence = match has_channel {
            Some(true) => return Some(Verdict::Held),
            // The device may not support fabric handles at all.
            Some(false) if self.call.has_returned(Result::NOT_PERMITTED) => Confidence::Certain,
            Some(false) => Confidence::Inferred,
            None if self.call.has_returned(Result::NOT_PERMITTED) => Confidence::Inferred,
            None => return None,
        };
        let reason = Reason::VmmFabricWithoutChannel { is_known: has_channel.is_some() };
        self.report_violation(reason, confidence, by, &[])
    }

    pub(super) fn vmm_descriptor(&mut self) -> Option<Verdict> {
        let kind = self.expect_in_table(self.call.function.spec().handle_kind_argument());
        let (kind, (Shared { object, handle, .. }, number, _)) = (kind?, self.call.opened_handle()?);
        let (name, is_pool) = (self.call.argument_name(handle), object == Object::Pool);
        let fd = alloc_props::read_i32(self.call.argument_bytes(handle), 16)?;
        if self.call.number_at(kind) != Shareable::DESCRIPTOR as u64 {
            return Some(Verdict::Held);
        }
        // The descriptor is of an object that this job exported, but the driver expects the other kind of
        // object: a pool in place of an allocation, or the reverse.
        if number != 0 {
            let other = if is_pool { Object::Allocation } else { Object::Pool };
            if let Some(export) = self.world.find_export(other, number) {
                let reason = Reason::VmmDescriptorKind { fd, is_pool: !is_pool, owner: Some(export.owner) };
                return self.report_violation(reason, Confidence::Certain, handle, &[(role::EXPORT, export.object)]);
            }
            if !self.call.has_returned(Result::NOT_SUPPORTED) || self.world.find_export(object, number).is_some() {
                return Some(Verdict::Held);
            }
        }
        // The driver returns this result for a pool in place of an allocation, and the reverse.
        if self.call.has_returned(Result::NOT_SUPPORTED) {
            let reason = Reason::VmmDescriptorKind { fd, is_pool: !is_pool, owner: None };
            return self.report_violation(reason, Confidence::Inferred, handle, &[]);
        }
        let ptrace = if fd < 0 { self.world.ptrace() } else { None };
        let is_open = if fd < 0 { Some(false) } else { self.world.is_descriptor(fd) };
        let owner = if fd < 0 { None } else { self.world.exporter_of_descriptor(object, fd) };
        let confidence = Confidence::certain_if(is_open == Some(false));
        let reason = Reason::VmmDescriptor { name, fd, is_open, owner: owner.map(|(owner, _)| owner), ptrace };
        let object = owner.map(|(_, object)| (role::EXPORT, object));
        self.report_violation(reason, confidence, handle, object.as_slice())
    }

    pub(super) fn vmm_granularity(&mut self) -> Option<Verdict> {
        let Made { by, size, at, .. } = self.expect_in_table(self.call.function.spec().makes())?;
        // Memory that is not on a device has another granularity.
        if self.call.allocation_props().is_some_and(|wanted| wanted.device.is_none()) {
            return None;
        }
        let known = self.world.query_model(|model| model.granularity(Subject::Memory));
        let granularity = known.unwrap_or(GRANULARITY);
        let is_said = self.world.driver_message().contains("minimum granularity");
        // For a range that is to be reserved, the argument holds the wanted address, not the resulting one.
        let is_output = self.call.function.spec().args()[by].direction == Direction::Out;
        for index in [if is_output { at } else { Some(by) }, size].into_iter().flatten() {
            let (name, value) = (self.call.argument_name(index), self.call.number_at(index));
            if !value.is_multiple_of(granularity) {
                let reason = Reason::VmmGranularity { name, value, granularity };
                let confidence = Confidence::certain_if(known.is_some() || is_said);
                return self.report_violation(reason, confidence, index, &[]);
            }
        }
        Some(Verdict::Held)
    }

    pub(super) fn vmm_partial_mapping(&mut self) -> Option<Verdict> {
        let made = self.call.function.spec().makes().and_then(|made| Some((made.size?, made.of?, made.at?)));
        let (by, of, at) = self.expect_in_table(made)?;
        let (handle, offset, size) = (self.call.number_at(of), self.call.number_at(at), self.call.number_at(by));
        let whole = self.allocation(handle).map(|known| known.bytes).filter(|bytes| *bytes != 0);
        let reason = Reason::VmmPartialMapping { offset, size, whole };
        match whole {
            _ if offset != 0 => self.report_if(true, at, reason),
            Some(whole) if whole != size => self.report_violation(reason, self.virtual_memory_confidence(), by, &[]),
            Some(_) => Some(Verdict::Held),
            // An importer does not know the size of the memory, but the driver does.
            None => {
                let confidence = Confidence::certain_if(self.world.driver_message().contains("than handle"));
                self.report_violation(reason, confidence, by, &[])
            }
        }
    }

    pub(super) fn vmm_mapped_twice(&mut self) -> Option<Verdict> {
        let ((start, size), by, _) = self.address_range()?;
        let Some(mapping) = self.first_mapping((start, size), |_| true) else { return Some(Verdict::Held) };
        let (mapped, bytes) = (mapping.name, mapping.bytes);
        self.report_violation(
            Reason::VmmMappedTwice { start, size, mapped, bytes },
            self.virtual_memory_confidence(),
            by,
            &[],
        )
    }

    pub(super) fn vmm_reservation_in_use(&mut self) -> Option<Verdict> {
        let ((start, size), by, _) = self.address_range()?;
        let Some(mapping) = self.first_mapping((start, size), |_| true) else { return Some(Verdict::Held) };
        let (mapped, bytes) = (mapping.name, mapping.bytes);
        self.report_violation(
            Reason::VmmReservationInUse { start, size, mapped, bytes },
            self.virtual_memory_confidence(),
            by,
            &[],
        )
    }

    pub(super) fn vmm_part_of_mapping(&mut self) -> Option<Verdict> {
        let ((start, size), _, by) = self.address_range()?;
        let is_cut = |mapping: &BareEntry<Mapping>| !mapping.is_within((start, size));
        let Some(mapping) = self.first_mapping((start, size), is_cut) else { return Some(Verdict::Held) };
        let (mapped, bytes) = (mapping.name, mapping.bytes);
        self.report_violation(
            Reason::VmmPartOfMapping { start, size, mapped, bytes },
            self.virtual_memory_confidence(),
            by,
            &[],
        )
    }

    pub(super) fn vmm_released_twice(&mut self) -> Option<Verdict> {
        let End { by, .. } = self.expect_in_table(self.call.function.spec().ends())?;
        let handle = self.call.number_at(by);
        let known = self.allocation(handle)?;
        if known.references != 0 {
            return Some(Verdict::Held);
        }
        let confidence =
            Confidence::certain_if(known.is_counted && self.world.has_all_calls(ObjectFamily::VirtualMemory));
        let reason = Reason::VmmReleasedTwice { handle, is_imported: known.is_imported() };
        self.report_violation(reason, confidence, by, &[])
    }
}
