//! Rules about multicast objects in failed calls.

use super::{Judge, Verdict, World};
use crate::Confidence;
use crate::reason::Reason;
use cupeer_model::{Allocation, BareEntry};
use cupeer_spec::effect::{Bound, Object, Subject, Unbound};
use cupeer_spec::results::Result;

/// Granularity in bytes of sizes and offsets on current devices.
const GRANULARITY: u64 = 2 << 20;

impl<W: World> Judge<'_, W> {
    /// Returns the allocation that the call binds; `None` if it is unknown.
    fn bound_allocation(&self, Bound { object, by, .. }: Bound) -> Option<BareEntry<Allocation>> {
        let name = self.call.number_at(by);
        match object {
            Object::Mapping => self.first_mapping((name, 1), |_| true).and_then(|mapping| self.allocation_of(&mapping)),
            _ => self.allocation(name),
        }
    }

    pub(super) fn multicast_unsupported(&mut self) -> Option<Verdict> {
        let spec = self.call.function.spec();
        let devices = match spec.joins() {
            Some(joined) => self.call.number_at(joined.device) as i32..self.call.number_at(joined.device) as i32 + 1,
            None => 0..self.world.device_count().unwrap_or(0),
        };
        let world = self.world;
        if let Some(device) = devices.clone().find(|device| world.has_multicast(*device) == Some(false)) {
            let reason = Reason::MulticastUnsupported { device: Some(self.device_with_uuid(device)) };
            return self.report_violation(reason, Confidence::Certain, None, &[]);
        }
        if devices.clone().any(|device| world.has_multicast(device).is_some()) {
            return Some(Verdict::Held);
        }
        self.report_violation(Reason::MulticastUnsupported { device: None }, Confidence::Inferred, None, &[])
    }

    pub(super) fn multicast_granularity(&mut self) -> Option<Verdict> {
        let known = self.world.query_model(|model| model.granularity(Subject::Team));
        let granularity = known.unwrap_or(GRANULARITY);
        let (call, spec) = (self.call, self.call.function.spec());
        let bound = spec.binds().map(|Bound { object, by, from, size, at, .. }| {
            [Some(size), Some(at), from, Some(by).filter(|_| object == Object::Mapping)]
        });
        let unbound = spec.unbinds().map(|Unbound { size, at, .. }| [Some(size), Some(at), None, None]);
        let (parts, properties) = (bound.or(unbound), spec.gathers());
        self.expect_in_table(parts.map(drop).or(properties.map(drop)))?;
        // The last two parts belong to the memory.
        let parts = parts.into_iter().flatten().enumerate();
        let values = parts
            .filter_map(|(place, index)| Some((index?, call.argument_name(index?), call.number_at(index?), place > 1)));
        // The properties of the multicast object contain its size.
        let whole = properties.zip(call.multicast_props()).map(|(made, wanted)| (made.of, "size", wanted.bytes, false));
        let odd = whole.into_iter().chain(values).find(|(_, _, value, _)| !value.is_multiple_of(granularity));
        let Some((argument, name, value, is_memory)) = odd else { return Some(Verdict::Held) };
        // Later devices accept memory at any multiple of 256 bytes.
        let confidence = Confidence::certain_if(known.is_some() && !(is_memory && value.is_multiple_of(256)));
        self.report_violation(Reason::MulticastGranularity { name, value, granularity }, confidence, argument, &[])
    }

    pub(super) fn multicast_device(&mut self) -> Option<Verdict> {
        let joined = self.expect_in_table(self.call.function.spec().joins())?;
        let ordinal = self.call.number_at(joined.device) as i32;
        let team = self.allocation(self.call.number_at(joined.team)).and_then(|it| it.multicast)?;
        let device = self.device_with_uuid(ordinal);
        let reason = if team.has_device(ordinal) {
            Reason::MulticastDevice { device, wanted: None }
        } else if team.has_all_devices() {
            Reason::MulticastDevice { device, wanted: Some(team.wanted) }
        } else {
            return None;
        };
        self.report_violation(reason, self.virtual_memory_confidence(), joined.device, &[])
    }

    pub(super) fn multicast_memory(&mut self) -> Option<Verdict> {
        let bound = self.expect_in_table(self.call.function.spec().binds())?;
        let home = self.bound_allocation(bound).and_then(|memory| memory.device)?;
        let named = bound.device.map(|device| (self.call.number_at(device) as i32, device));
        let confidence = self.virtual_memory_confidence();
        if let Some((named, argument)) = named.filter(|(named, _)| *named != home) {
            let reason = Reason::MulticastOtherMemory {
                device: self.device_with_uuid(named),
                home: self.device_with_uuid(home),
            };
            return self.report_violation(reason, confidence, argument, &[]);
        }
        let team = self.allocation(self.call.number_at(bound.team)).and_then(|it| it.multicast)?;
        if team.has_device(home) {
            return Some(Verdict::Held);
        }
        let reason = Reason::MulticastMemory { device: self.device_with_uuid(home) };
        match self.call.has_returned(Result::INVALID_DEVICE) {
            _ if team.has_all_devices() => self.report_violation(reason, confidence, bound.by, &[]),
            // Another process may have added the device.
            true => self.report_violation(reason, Confidence::Inferred, bound.by, &[]),
            false => None,
        }
    }

    pub(super) fn multicast_handle_type(&mut self) -> Option<Verdict> {
        let bound = self.expect_in_table(self.call.function.spec().binds())?;
        let (team, memory) = (self.allocation(self.call.number_at(bound.team))?, self.bound_allocation(bound)?);
        let leaves = team.is_shareable();
        if !leaves || memory.is_imported() || memory.types.is_none_or(|types| types != 0) {
            return Some(Verdict::Held);
        }
        let confidence = self.virtual_memory_confidence();
        self.report_violation(
            Reason::MulticastHandleType { is_imported: team.is_imported() },
            confidence,
            bound.by,
            &[],
        )
    }
}
