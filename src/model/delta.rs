//! One change of the state of a process, read from an effect of a call.

use crate::alloc_props::AccessRights;
use crate::call::Call;
use crate::state::MulticastDevices;
use cupeer_spec::effect::{
    AddedDevice, Bound, Effect, End, Grant, Made, Named, Object, Query, Shared, Subject, Unbound,
};
use cupeer_spec::function::Direction;

/// One change: an effect of a call, with the values of its arguments. Numbers that are unknown are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delta {
    /// The effect.
    pub effect: &'static Effect,
    /// True if the call succeeded. A failed call that grants access also shows what the program intended.
    pub is_done: bool,
    /// The driver's number of the object: a handle, or the first address.
    pub name: u64,
    /// The size of the object or of its affected part in bytes; for a query of the granularity, the granularity.
    pub bytes: u64,
    /// The driver's number of another object: the allocation that is mapped or bound, the pool of a pointer, or the address by
    /// which an allocation is retained.
    pub other: u64,
    /// Offset in a multicast object at which memory is bound or unbound, in bytes.
    pub bind_offset: u64,
    /// The fingerprint of the handle of an object that is exported, or was imported.
    pub fingerprint: u64,
    /// The device that the call names, or the device of imported memory: an ordinal of the process.
    pub device: Option<i32>,
    /// The handle types that the call requests.
    pub types: Option<i32>,
    /// The devices of a created multicast object.
    pub multicast: Option<MulticastDevices>,
    /// The access that devices get, and true if these are all devices of the call.
    pub access: (AccessRights, bool),
}

/// The effect of a call that creates a pool.
static MAKES_POOL: Effect = Effect::Makes(Made { object: Object::Pool, by: 0, size: None, of: None, at: None });

impl Delta {
    const fn new(effect: &'static Effect) -> Delta {
        let access = (AccessRights::NONE, false);
        let (device, types, team) = (None, None, None);
        Delta {
            effect,
            is_done: true,
            name: 0,
            bytes: 0,
            other: 0,
            bind_offset: 0,
            fingerprint: 0,
            device,
            types,
            multicast: team,
            access,
        }
    }

    /// Returns a change that creates a pool, for a pool whose creating call is not available.
    pub fn creating_pool(handle: u64, device: Option<i32>) -> Delta {
        Delta { name: handle, device, ..Delta::new(&MAKES_POOL) }
    }

    /// Returns the changes of a call, one per effect of its function. `home` is the device of an allocation that
    /// the call imported, as the driver reported it.
    pub fn changes_of_call(call: &Call, home: Option<i32>) -> impl Iterator<Item = Delta> {
        let device = move |delta: Delta| match delta.effect {
            Effect::Opens(_) => Delta { device: home, ..delta },
            _ => delta,
        };
        let effects = call.function.spec().effects().iter();
        effects.filter_map(|effect| Delta::read_effect(effect, call)).filter(Delta::has_known_name).map(device)
    }

    /// Returns false if the change adds an object whose number is unknown.
    fn has_known_name(&self) -> bool {
        let makes = match self.effect {
            Effect::Makes(_) | Effect::Opens(_) => true,
            Effect::Asks(question) => question.subject == Subject::Pool,
            _ => false,
        };
        self.name != 0 || !makes
    }

    fn read_effect(effect: &'static Effect, call: &Call) -> Option<Delta> {
        let at = |argument| call.number_at(argument);
        let or_none = |argument: Option<usize>| argument.map_or(0, at);
        let new = Delta { is_done: call.result == 0, ..Delta::new(effect) };
        Some(match *effect {
            Effect::Grants(Grant { by, size, .. }) if new.is_done || size.is_some() => {
                let (access, count) = AccessRights::from_bytes(call.elements);
                let access = (access, call.has_all_elements(count));
                Delta { name: at(by), bytes: or_none(size), access, ..new }
            }
            _ if !new.is_done => return None,
            Effect::Makes(made) if made.object.is_virtual_memory() || made.object == Object::Pool => {
                new.with_created(made, call)
            }
            Effect::Opens(Shared { object, by, handle, of, .. }) if object.needs_granted_access() => {
                Delta { name: at(by), other: or_none(of), fingerprint: call.fingerprint(handle), ..new }
            }
            Effect::Exports(Shared { object: Object::Allocation | Object::Pool, by, handle, .. }) => {
                Delta { name: at(by), fingerprint: call.fingerprint(handle), ..new }
            }
            Effect::Retains(Named { object: Object::Allocation, by }) => {
                // The only input of cuMemRetainAllocationHandle is an address in the mapping.
                let args = call.function.spec().args();
                let address = args.iter().position(|argument| argument.direction == Direction::In);
                Delta { name: at(by), other: or_none(address), ..new }
            }
            Effect::Ends(End { object, by, size, .. }) if object.is_virtual_memory() || object == Object::Pool => {
                Delta { name: at(by), bytes: size.map_or(1, at), ..new }
            }
            Effect::Closes(Named { object: Object::Pointer, by }) => Delta { name: at(by), ..new },
            Effect::Joins(AddedDevice { team, device }) => {
                Delta { name: at(team), device: Some(at(device) as i32), ..new }
            }
            Effect::Binds(Bound { by, size, device, team, at: place, .. }) => {
                let device = device.map(|device| at(device) as i32);
                Delta { name: at(team), other: at(by), device, bind_offset: at(place), bytes: at(size), ..new }
            }
            Effect::Unbinds(Unbound { team, device, at: place, .. }) => {
                Delta { name: at(team), device: Some(at(device) as i32), bind_offset: at(place), ..new }
            }
            Effect::Asks(question) => return new.with_answer(question, call),
            _ => return None,
        })
    }

    /// Returns the change with the values of an object that the call created.
    fn with_created(self, Made { object, by, size, of, .. }: Made, call: &Call) -> Delta {
        let or_none = |argument: Option<usize>| argument.map_or(0, |argument| call.number_at(argument));
        let wanted = call.allocation_props();
        let (types, device) = (wanted.map(|it| it.types), wanted.and_then(|it| it.device));
        let new = Delta { name: call.number_at(by), bytes: or_none(size), types, device, ..self };
        match call.multicast_props() {
            Some(made) => {
                let team = Some(MulticastDevices { wanted: made.devices, added: 0 });
                Delta { bytes: made.bytes, types: Some(made.types), multicast: team, ..new }
            }
            None if call.function.spec().gathers().is_some() => {
                Delta { multicast: Some(MulticastDevices::default()), ..new }
            }
            None if object == Object::Mapping => Delta { other: or_none(of), ..new },
            None => new,
        }
    }

    /// Returns the change with the result of a query, which is a pool or a granularity; `None` for other results.
    fn with_answer(self, Query { subject, device, answer, choice, .. }: Query, call: &Call) -> Option<Delta> {
        let is_of_device = || call.allocation_props().is_some_and(|wanted| wanted.device.is_some());
        // A query about a pool may return something else, such as an attribute.
        if subject == Subject::Pool && call.function.spec().args()[answer].is_pool() {
            return Some(Delta { name: call.number_at(answer), device: Some(call.number_at(device) as i32), ..self });
        }
        let (option, least) = choice?;
        // Only the minimum granularity of device memory and of multicast objects counts: host memory has another granularity.
        let is_granularity = subject == Subject::Team || subject == Subject::Memory && is_of_device();
        (call.number_at(option) as i32 == least && is_granularity)
            .then(|| Delta { bytes: call.number_at(answer), ..self })
    }

    /// Returns false if the call gives something up, which the process no longer has once the call begins. Other changes take
    /// effect when the call returns.
    pub fn takes_effect_on_return(&self) -> bool {
        !matches!(self.effect, Effect::Ends(_) | Effect::Closes(_))
    }

    /// Returns true if the change is about pools, and false if it is about virtual memory.
    pub fn is_about_pools(&self) -> bool {
        let object = match *self.effect {
            Effect::Makes(Made { object, .. })
            | Effect::Opens(Shared { object, .. })
            | Effect::Exports(Shared { object, .. })
            | Effect::Ends(End { object, .. })
            | Effect::Closes(Named { object, .. })
            | Effect::Grants(Grant { object, .. }) => object,
            Effect::Asks(Query { subject: Subject::Pool, .. }) => Object::Pool,
            _ => Object::Allocation,
        };
        matches!(object, Object::Pool | Object::Pointer)
    }
}
