//! Rules about multicast objects in failed calls.

use super::{Judge, Verdict, World};
use crate::Confidence;
use crate::reason::Reason;
use cupeer_model::{Allocation, Bare};
use cupeer_spec::effect::{Bound, Object, Subject, Unbound};
use cupeer_spec::results::Result;

/// Granularity in bytes of sizes and offsets on current devices.
const GRANULARITY: u64 = 2 << 20;

impl<W: World> Judge<'_, W> {
    /// Returns the allocation that the call binds; `None` if it is unknown.
    fn bound(&self, Bound { object, by, .. }: Bound) -> Option<Bare<Allocation>> {
        let name = self.call.at(by);
        match object {
            Object::Mapping => self.mapping((name, 1), |_| true).and_then(|mapping| self.of(&mapping)),
            _ => self.allocation(name),
        }
    }

    pub(super) fn multicast_unsupported(&mut self) -> Option<Verdict> {
        let spec = self.call.function.spec();
        let devices = match spec.joins() {
            Some(joined) => self.call.at(joined.device) as i32..self.call.at(joined.device) as i32 + 1,
            None => 0..self.world.device_count().unwrap_or(0),
        };
        let world = self.world;
        if let Some(device) = devices.clone().find(|device| world.has_multicast(*device) == Some(false)) {
            let reason = Reason::MulticastUnsupported { device: Some(self.device(device)) };
            return self.broken(reason, Confidence::Certain, None, &[]);
        }
        if devices.clone().any(|device| world.has_multicast(device).is_some()) {
            return Some(Verdict::Held);
        }
        self.broken(Reason::MulticastUnsupported { device: None }, Confidence::Inferred, None, &[])
    }

    pub(super) fn multicast_granularity(&mut self) -> Option<Verdict> {
        let known = self.world.model(|model| model.granularity(Subject::Team));
        let granularity = known.unwrap_or(GRANULARITY);
        let (call, spec) = (self.call, self.call.function.spec());
        let bound = spec.binds().map(|Bound { object, by, from, size, at, .. }| {
            [Some(size), Some(at), from, Some(by).filter(|_| object == Object::Mapping)]
        });
        let unbound = spec.unbinds().map(|Unbound { size, at, .. }| [Some(size), Some(at), None, None]);
        let (parts, properties) = (bound.or(unbound), spec.gathers());
        self.in_table(parts.map(drop).or(properties.map(drop)))?;
        // The last two parts belong to the memory.
        let parts = parts.into_iter().flatten().enumerate();
        let values =
            parts.filter_map(|(place, index)| Some((index?, call.name(index?), call.at(index?), place > 1)));
        // The properties of the multicast object contain its size.
        let whole = properties
            .zip(call.multicast_props())
            .map(|(made, wanted)| (made.of, "size", wanted.bytes, false));
        let odd = whole.into_iter().chain(values).find(|(_, _, value, _)| !value.is_multiple_of(granularity));
        let Some((argument, name, value, is_memory)) = odd else { return Some(Verdict::Held) };
        // Later devices accept memory at any multiple of 256 bytes.
        let confidence = Confidence::certain_if(known.is_some() && !(is_memory && value.is_multiple_of(256)));
        self.broken(Reason::MulticastGranularity { name, value, granularity }, confidence, argument, &[])
    }

    pub(super) fn multicast_device(&mut self) -> Option<Verdict> {
        let joined = self.in_table(self.call.function.spec().joins())?;
        let ordinal = self.call.at(joined.device) as i32;
        let team = self.allocation(self.call.at(joined.team)).and_then(|it| it.team)?;
        let device = self.device(ordinal);
        let reason = if team.has(ordinal) {
            Reason::MulticastDevice { device, wanted: None }
        } else if team.is_whole() {
            Reason::MulticastDevice { device, wanted: Some(team.wanted) }
        } else {
            return None;
        };
        self.broken(reason, self.space_trust(), joined.device, &[])
    }

    pub(super) fn multicast_memory(&mut self) -> Option<Verdict> {
        let bound = self.in_table(self.call.function.spec().binds())?;
        let home = self.bound(bound).and_then(|memory| memory.device)?;
        let named = bound.device.map(|device| (self.call.at(device) as i32, device));
        let confidence = self.space_trust();
        if let Some((named, argument)) = named.filter(|(named, _)| *named != home) {
            let reason = Reason::MulticastOtherMemory { device: self.device(named), home: self.device(home) };
            return self.broken(reason, confidence, argument, &[]);
        }
        let team = self.allocation(self.call.at(bound.team)).and_then(|it| it.team)?;
        if team.has(home) {
            return Some(Verdict::Held);
        }
        let reason = Reason::MulticastMemory { device: self.device(home) };
        match self.call.is(Result::INVALID_DEVICE) {
            _ if team.is_whole() => self.broken(reason, confidence, bound.by, &[]),
            // Another process may have added the device.
            true => self.broken(reason, Confidence::Inferred, bound.by, &[]),
            false => None,
        }
    }

    pub(super) fn multicast_handle_type(&mut self) -> Option<Verdict> {
        let bound = self.in_table(self.call.function.spec().binds())?;
        let (team, memory) = (self.allocation(self.call.at(bound.team))?, self.bound(bound)?);
        let leaves = team.is_shareable();
        if !leaves || memory.is_imported() || memory.types.is_none_or(|types| types != 0) {
            return Some(Verdict::Held);
        }
        let confidence = self.space_trust();
        self.broken(
            Reason::MulticastHandleType { is_imported: team.is_imported() },
            confidence,
            bound.by,
            &[],
        )
    }
}
