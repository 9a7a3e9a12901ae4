//! The contexts of a process. Programs create most of them before their first recorded call.

use cupeer_record::Call;
use cupeer_spec::effect::{Effect, End, Object};
use cupeer_spec::function::Direction;
use std::collections::HashSet;

/// Bits of the address in [`cupeer_record::Details::current`]. The bits above have the ordinal of the device, plus one.
const ADDRESS_MASK: u64 = (1 << 48) - 1;
/// Mask of the ordinal above these bits; higher ones are flags.
const ORDINAL_MASK: u64 = 0xff;

/// Bit in the number of a context that no call names.
const UNNAMED_CONTEXT: u64 = 1 << 63;

/// A context that a process had before the call that uses it first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PriorContext {
    /// Number that the driver gave it.
    pub number: u64,
    /// Ordinal of its device.
    pub device: i32,
    /// True for the primary context of the device.
    pub is_primary: bool,
}

/// Returns the context that was current at a call: its number, which is 0 if there was none, and the ordinal of its device.
pub fn current_context(call: &Call) -> Option<(u64, Option<i32>)> {
    let ends = call.function.is_some_and(|function| function.spec().ended_context().is_some());
    let used = call.details.current.map(|word| {
        let ordinal = (word >> 48 & ORDINAL_MASK) as i32 - 1;
        (word & ADDRESS_MASK, Some(ordinal).filter(|ordinal| *ordinal >= 0))
    });
    let recorded = call.details.context.map(|context| (context, call.details.devices.0));
    recorded.filter(|_| !ends).or(used)
}

/// Returns the contexts that the calls of a process use without creating them, in the order of their first use.
pub fn find_prior_contexts<'a>(calls: impl Iterator<Item = &'a Call> + Clone) -> Vec<PriorContext> {
    let mut known: Vec<(u64, Option<i32>)> = Vec::new();
    let (mut made, mut destroyed, mut held) = (HashSet::new(), HashSet::new(), 0);
    for call in calls {
        held |= call.details.contexts.unwrap_or(0);
        let owner = call.details.owner.map(|(number, device)| (number, Some(device).filter(|device| *device >= 0)));
        let mut used: Vec<(u64, Option<i32>)> = current_context(call).into_iter().chain(owner).collect();
        let spec = call.function.map(|function| function.spec());
        if let Some(end) = spec.and_then(|spec| spec.ended_context()).filter(|end| end.object == Object::Primary) {
            let device = call.argument_number(end.by).map(|device| device as i32);
            used.push((call.details.context.unwrap_or(0), device));
        }
        let args = spec.map_or(&[][..], |spec| spec.args()).iter().enumerate();
        for (index, arg) in args.filter(|(_, arg)| arg.type_word() == "CUcontext") {
            match (call.argument_number(index), arg.direction) {
                (Some(number), Direction::In) => used.push((number, call.details.devices.1)),
                (number, _) => made.extend(number),
            }
        }
        for (number, device) in used {
            match known.iter_mut().find(|(other, _)| *other == number) {
                Some((_, known)) => *known = known.or(device),
                None if number != 0 && !made.contains(&number) => known.push((number, device)),
                None => {}
            }
        }
        let ends = |effect: &Effect| match effect {
            Effect::Ends(End { object: Object::Context, by, .. }) => call.argument_number(*by),
            _ => None,
        };
        destroyed.extend(spec.into_iter().flat_map(|spec| spec.effects()).filter_map(ends));
    }
    let mut contexts = assign_devices(known, &destroyed);
    // Contexts on other devices, of which only the device is known.
    for device in (0..u64::BITS as i32).filter(|device| held >> device & 1 != 0) {
        if contexts.iter().all(|context| context.device != device) {
            contexts.push(PriorContext { number: UNNAMED_CONTEXT | device as u64, device, is_primary: true });
        }
    }
    contexts
}

/// Chooses devices for contexts whose device is unknown: the first ones without a context, in the order in which the contexts were
/// created, as far as their numbers show it.
fn assign_devices(known: Vec<(u64, Option<i32>)>, destroyed: &HashSet<u64>) -> Vec<PriorContext> {
    let mut devices: Vec<Option<i32>> = known.iter().map(|(_, device)| *device).collect();
    let mut order: Vec<usize> = (0..known.len()).collect();
    order.sort_by_key(|index| known[*index].0);
    for index in order {
        let free = (0..).find(|device| !devices.contains(&Some(*device)));
        devices[index] = devices[index].or(free);
    }
    let mut contexts: Vec<PriorContext> = Vec::new();
    for ((number, _), device) in known.into_iter().zip(devices) {
        let device = device.unwrap_or_default();
        let is_first = contexts.iter().all(|other| !other.is_primary || other.device != device);
        contexts.push(PriorContext { number, device, is_primary: is_first && !destroyed.contains(&number) });
    }
    contexts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_one_primary_context() {
        let known = vec![(0x30, Some(0)), (0x20, None), (0x10, None), (0x40, Some(0))];
        let contexts = assign_devices(known, &HashSet::from([0x10]));
        let facts: Vec<_> = contexts.iter().map(|it| (it.number, it.device, it.is_primary)).collect();
        assert_eq!(facts, [(0x30, 0, true), (0x20, 2, true), (0x10, 1, false), (0x40, 0, false)]);
    }
}
