//! Turns the calls of one process into its virtual memory.
//!
//! As in the handle table, a process has what a call takes when the call returns, and no longer has what a call
//! releases when that call begins. A handle that one thread releases and another receives anew in between stays
//! separate.

use super::Location;
use super::space::{Allocation, Named, Source, Space};
use super::teams::{Bound, Waits};
use crate::base::values;
use crate::model::Uuid;
use crate::words::judged::is_done_all_the_same;
use cupeer_record::Call;
use cupeer_spec::abi::CUmemLocation;
use cupeer_spec::effect::{End, Made, Object};
use cupeer_spec::function::{Direction, FnId};

/// What a call takes, and when it was made.
pub struct Taken {
    at: u64,
    what: What,
}

enum What {
    Allocation { handle: u64, source: Source, bytes: Option<u64> },
    Reference { handle: u64, address: Option<u64> },
    Export { handle: u64, fingerprint: Option<u64> },
    Reservation { address: u64, bytes: u64 },
    Mapping { address: u64, bytes: u64, handle: u64 },
    Gathered { handle: u64, source: Source, wanted: Option<u32>, bytes: Option<u64> },
    Joined { handle: u64, device: Option<Uuid> },
    Bound { handle: u64, memory: Named, bound: Bound },
    Unbound { handle: u64, device: Option<Uuid>, offset: u64 },
    Access { address: u64, bytes: u64, devices: Vec<(Uuid, i32)> },
}

/// Whether a call of a function can change what a process has.
#[inline]
pub fn concerns(function: FnId) -> bool {
    function.spec().is_virtual()
}

/// The first bytes of a CUmemAllocationProp: four numbers of 4 bytes.
struct Properties {
    types: i32,
    location: (i32, i32),
}

/// The bytes of a CUmemAccessDesc: where, which of those, and what is allowed.
const ACCESS: usize = 12;

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
            && let Some(what) = taken(function, call, uuid)
        {
            self.waiting.push((call.end, Taken { at, what }));
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
            let (_, Taken { at, what }) = self.waiting.swap_remove(next);
            match what {
                What::Allocation { handle, source, bytes } => {
                    self.takes(Allocation::new(handle, source, bytes, at));
                }
                What::Gathered { handle, source, wanted, bytes } => {
                    self.takes(Allocation::new(handle, source, bytes, at));
                    if let Some(team) = self.team(handle) {
                        team.wanted = wanted;
                    }
                }
                What::Joined { handle, device } => {
                    if let Some(team) = self.team(handle) {
                        team.added.push((device, at));
                    }
                }
                What::Bound { handle, memory, bound } => self.binds(handle, memory, bound),
                What::Unbound { handle, device, offset } => {
                    if let Some(team) = self.team(handle) {
                        team.unbinds(device, offset);
                    }
                }
                What::Reference { handle, address } => self.retains(handle, address),
                What::Export { handle, fingerprint } => self.exports(handle, fingerprint),
                What::Reservation { address, bytes } => self.reserves(address, bytes),
                What::Mapping { address, bytes, handle } => self.maps(address, bytes, handle, at),
                What::Access { address, bytes, devices } => self.grants(address, bytes, &devices, at),
            }
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

fn taken(function: FnId, call: &Call, uuid: impl Fn(Option<i32>) -> Option<Uuid>) -> Option<What> {
    let spec = function.spec();
    let number = |argument| call.number(argument);
    let fingerprint = |argument| values::handle(call, argument).map(|(fingerprint, _)| fingerprint);
    if let Some(shared) = spec.opens().filter(|shared| shared.object == Object::Allocation) {
        let source = Source::Imported(fingerprint(shared.handle).unwrap_or(0));
        return Some(What::Allocation { handle: number(shared.by)?, source, bytes: None });
    }
    if let Some(shared) = spec.exports().filter(|shared| shared.object == Object::Allocation) {
        return Some(What::Export { handle: number(shared.by)?, fingerprint: fingerprint(shared.handle) });
    }
    if let Some(retained) = spec.retains() {
        // The address at which it is asked is what the driver is given.
        let address = spec.args.iter().position(|argument| argument.direction == Direction::In);
        return Some(What::Reference { handle: number(retained.by)?, address: address.and_then(number) });
    }
    if let Some(grant) = spec.grants() {
        let elements = call.details.elements.iter().find(|(index, _)| usize::from(*index) == grant.to);
        let access = elements?.1.chunks_exact(ACCESS);
        let devices = access.filter_map(|access| {
            let [kind, ordinal, flags] = numbers(access)?;
            Some((uuid((kind == CUmemLocation::DEVICE).then_some(ordinal))?, flags))
        });
        let (address, bytes) = (number(grant.by)?, number(grant.size?)?);
        return Some(What::Access { address, bytes, devices: devices.collect() });
    }
    let device = |argument| uuid(number(argument).map(|ordinal| ordinal as i32));
    if let Some(joined) = spec.joins() {
        return Some(What::Joined { handle: number(joined.team)?, device: device(joined.device) });
    }
    if let Some(it) = spec.binds() {
        let bound = Bound { device: it.device.and_then(device), at: number(it.at)?, bytes: number(it.size)? };
        let name = number(it.by)?;
        let memory = if it.object == Object::Mapping { Named::Address(name) } else { Named::Handle(name) };
        return Some(What::Bound { handle: number(it.team)?, memory, bound });
    }
    if let Some(it) = spec.unbinds() {
        return Some(What::Unbound {
            handle: number(it.team)?,
            device: device(it.device),
            offset: number(it.at)?,
        });
    }
    let Made { object, by, size, of } = spec.makes()?;
    let bytes = size.and_then(number);
    match object {
        Object::Allocation if spec.gathers().is_some() => {
            let known = Wanted::of(call);
            let types = known.as_ref().map_or(0, |known| known.types);
            let source = Source::Made { location: Location::Multicast, types };
            let (wanted, bytes) = (known.as_ref().map(|known| known.devices), known.map(|known| known.bytes));
            Some(What::Gathered { handle: number(by)?, source, wanted, bytes })
        }
        Object::Allocation => {
            let location = location_of(call, &uuid).unwrap_or_default();
            let source = Source::Made { location, types: properties(call).map_or(0, |it| it.types) };
            Some(What::Allocation { handle: number(by)?, source, bytes })
        }
        Object::Reservation => Some(What::Reservation { address: number(by)?, bytes: bytes? }),
        Object::Mapping => {
            Some(What::Mapping { address: number(by)?, bytes: bytes?, handle: of.and_then(number)? })
        }
        _ => None,
    }
}

/// What a multicast object is to be: a CUmulticastObjectProp.
struct Wanted {
    devices: u32,
    bytes: u64,
    types: i32,
}

impl Wanted {
    fn of(call: &Call) -> Option<Wanted> {
        let bytes = call.argument_called("prop")?;
        let wide = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let devices = u32::from_le_bytes(*bytes.first_chunk()?);
        Some(Wanted { devices, bytes: wide(4)?, types: wide(12)? as i32 })
    }
}

/// Returns where a call that creates an allocation wants it. `None` if the call has no properties of one.
pub fn location_of(call: &Call, uuid: impl Fn(Option<i32>) -> Option<Uuid>) -> Option<Location> {
    Some(match properties(call)?.location {
        (CUmemLocation::DEVICE, ordinal) => uuid(Some(ordinal)).map_or(Location::Unknown, Location::Device),
        _ => Location::Host,
    })
}

fn properties(call: &Call) -> Option<Properties> {
    let [_, types, kind, id] = numbers(call.argument_called("prop")?)?;
    Some(Properties { types, location: (kind, id) })
}

/// The first numbers of 4 bytes.
fn numbers<const N: usize>(bytes: &[u8]) -> Option<[i32; N]> {
    let mut all = bytes.chunks_exact(4).map(|four| i32::from_le_bytes(four.try_into().unwrap_or_default()));
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = all.next()?;
    }
    Some(numbers)
}
