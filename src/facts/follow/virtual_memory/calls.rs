//! Turns the calls of one process into its virtual memory.
//!
//! As in the handle table, a process has what a call takes when the call returns, and no longer has what a call
//! releases when that call begins. A handle that one thread releases and another receives anew in between stays
//! separate.

use super::Location;
use super::space::{Allocation, Named, Source, Space, Taking};
use super::team::{Bound, Team, Waits};
use cupeer_books::wanted::{Gathering, Wanted, access};
use cupeer_record::Call;
use cupeer_report::judged::is_done_all_the_same;
use cupeer_report::model::Uuid;
use cupeer_report::values;
use cupeer_spec::effect::{self, Effect, End, Grant, Joined, Made, Object, Shared, Unbound};
use cupeer_spec::function::{Direction, FnId};

/// Whether a call of a function can change what a process has.
#[inline]
pub fn concerns(function: FnId) -> bool {
    function.spec().is_virtual()
}

impl Space {
    /// Notes a call. `uuid` has the devices of the process by their ordinals.
    pub fn call(&mut self, function: FnId, call: &Call, at: u64, uuid: impl Fn(Option<i32>) -> Option<Uuid>) {
        self.settle(call.start);
        if let Some(end) = function.spec().ends() {
            if call.succeeded() || is_done_all_the_same(call) {
                self.gives_up(end, call, at);
            }
        } else if call.succeeded()
            && !call.injected
            && let Some(taking) = taking(function, call, at, uuid)
        {
            self.waiting.push((call.end, taking));
        }
    }

    /// Notes a call that has never returned: whoever binds memory waits until all devices have been added.
    pub fn never_returns(&mut self, call: &Call, waits: Waits) {
        let bound = waits.function.spec().binds();
        if let Some(team) = bound.and_then(|it| call.number(it.team)).and_then(|handle| self.team(handle)) {
            team.waits = Some(waits);
        }
    }

    /// Whether a call releases one of several references: the process still has what it is of.
    pub fn keeps_reference(&self, function: FnId, call: &Call) -> bool {
        let is_counted = |end: &End| end.object == Object::Allocation && end.is_counted;
        let handle = function.spec().ends().filter(is_counted).and_then(|end| call.number(end.by));
        handle.and_then(|handle| self.of_handle(handle)).is_some_and(|allocation| allocation.references > 1)
    }

    /// Of the allocation that a call exports: its size, and where it lies.
    pub fn exported(&self, function: FnId, call: &Call) -> Option<(Option<u64>, Location)> {
        let shared = function.spec().exports().filter(|shared| shared.object == Object::Allocation)?;
        let allocation = self.of_handle(call.number(shared.by)?)?;
        let location = match allocation.source {
            Source::Made { location, .. } => location,
            Source::Imported(_) => Location::Unknown,
        };
        Some((allocation.bytes, location))
    }

    /// Takes what calls have taken that returned before a time.
    pub fn settle(&mut self, ticks: u64) {
        while let Some(next) = (0..self.waiting.len()).min_by_key(|i| self.waiting[*i].0)
            && self.waiting[next].0 <= ticks
        {
            let (_, taking) = self.waiting.swap_remove(next);
            taking(self);
        }
    }

    fn gives_up(&mut self, End { object, by, size, .. }: End, call: &Call, at: u64) {
        let Some(name) = call.number(by) else { return };
        match object {
            Object::Allocation => self.releases(name, at),
            Object::Reservation => self.frees(name),
            Object::Mapping => {
                let bytes = size.and_then(|size| call.number(size)).unwrap_or(1);
                self.unmaps(name, bytes, at);
            }
            _ => {}
        }
    }
}

fn taking(
    function: FnId,
    call: &Call,
    at: u64,
    uuid: impl Fn(Option<i32>) -> Option<Uuid>,
) -> Option<Taking> {
    let spec = function.spec();
    let number = |argument| call.number(argument);
    let fingerprint = |argument| values::handle(call, argument).map(|(fingerprint, _)| fingerprint);
    let device = |argument| uuid(number(argument).map(|ordinal| ordinal as i32));
    spec.effects().iter().find_map(|effect| match *effect {
        Effect::Opens(Shared { object: Object::Allocation, by, handle, .. }) => {
            let source = Source::Imported(fingerprint(handle).unwrap_or(0));
            let import = Allocation::new(number(by)?, source, None, at);
            later(move |space| space.takes(import))
        }
        Effect::Exports(Shared { object: Object::Allocation, by, handle, .. }) => {
            let (name, fingerprint) = (number(by)?, fingerprint(handle));
            later(move |space| space.exports(name, fingerprint))
        }
        Effect::Retains(effect::Named { object: Object::Allocation, by }) => {
            // The address at which it is asked is what the driver is given.
            let address = spec.args().iter().position(|argument| argument.direction == Direction::In);
            let (handle, address) = (number(by)?, address.and_then(number));
            later(move |space| space.retains(handle, address))
        }
        Effect::Grants(Grant { object: Object::Mapping, by, size: Some(size), to }) => {
            let (_, wishes) = call.details.elements.iter().find(|(index, _)| usize::from(*index) == to)?;
            let devices = access(wishes).filter_map(|(device, flags)| Some((uuid(device)?, flags)));
            let (address, bytes, devices) = (number(by)?, number(size)?, devices.collect::<Vec<_>>());
            later(move |space| space.grants(address, bytes, &devices, at))
        }
        Effect::Joins(Joined { team, device: by }) => {
            let (team, added) = (number(team)?, (device(by), at));
            later(move |space| space.team(team).into_iter().for_each(|team| team.added.push(added)))
        }
        Effect::Binds(effect::Bound { object, by, size, device: of, team, at, .. }) => {
            let (team, name) = (number(team)?, number(by)?);
            let bound = Bound { device: of.and_then(device), at: number(at)?, bytes: number(size)? };
            let is_mapped = object == Object::Mapping;
            let memory = if is_mapped { Named::Address(name) } else { Named::Handle(name) };
            later(move |space| space.binds(team, memory, bound))
        }
        Effect::Unbinds(Unbound { team, device: of, at, .. }) => {
            let (team, device, at) = (number(team)?, device(of), number(at)?);
            later(move |space| space.team(team).into_iter().for_each(|team| team.unbinds(device, at)))
        }
        Effect::Makes(Made { object: Object::Allocation, by, size, .. }) => {
            let made = if let Some(made) = spec.gathers() {
                let known = call.argument(made.of).and_then(Gathering::of);
                let types = known.map_or(0, |known| known.types);
                let source = Source::Made { location: Location::Multicast, types };
                let team = Team { wanted: known.map(|known| known.devices), ..Team::default() };
                let bytes = known.map(|known| known.bytes);
                Allocation { team: Some(team), ..Allocation::new(number(by)?, source, bytes, at) }
            } else {
                let location = location_of(call, &uuid).unwrap_or_default();
                let types = wanted(call).map_or(0, |wanted| wanted.types);
                let source = Source::Made { location, types };
                Allocation::new(number(by)?, source, size.and_then(number), at)
            };
            later(move |space| space.takes(made))
        }
        Effect::Makes(Made { object: Object::Reservation, by, size, .. }) => {
            let (address, bytes) = (number(by)?, number(size?)?);
            later(move |space| space.reserves(address, bytes))
        }
        Effect::Makes(Made { object: Object::Mapping, by, size, of, .. }) => {
            let (address, bytes, handle) = (number(by)?, number(size?)?, number(of?)?);
            later(move |space| space.maps(address, bytes, handle, at))
        }
        _ => None,
    })
}

fn later(taking: impl FnOnce(&mut Space) + Send + Sync + 'static) -> Option<Taking> {
    Some(Box::new(taking))
}

/// Returns the properties in a call that creates an allocation.
fn wanted(call: &Call) -> Option<Wanted> {
    Wanted::of(call.argument(call.function?.spec().describes()?)?)
}

/// Returns where a call that creates an allocation wants it. `None` if the call has no properties of one.
pub fn location_of(call: &Call, uuid: impl Fn(Option<i32>) -> Option<Uuid>) -> Option<Location> {
    let wanted = wanted(call)?;
    let on_device = |_| uuid(wanted.device).map_or(Location::Unknown, Location::Device);
    Some(wanted.device.map_or(Location::Host, on_device))
}
