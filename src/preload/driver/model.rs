//! The state of this process, as its own calls show, up to a fixed number of entries.
//!
//! Pools are always followed, because the driver does not return the device of a pool. Virtual memory is followed if rules
//! are checked.

use super::queries;
use crate::settings;
use crate::sys::book::Book;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use cupeer_model::{
    Allocation, Bare, Call, Delta, Entry, Family, Id, Keeper, Known, Mapping, Origin, Pointer, Pool, Process,
    Reservation, Slots, View,
};
use cupeer_spec::effect::{Effect, End, Made, Object};

/// Maximum number of allocations, mappings, reservations, and imported pointers that are known at once.
const MOST: usize = 4096;
/// Maximum number of pools that are known at once.
const MOST_POOLS: usize = 256;

/// Storage of the model: a fixed number of entries, without their history.
pub struct Fixed;

impl Keeper for Fixed {
    type At = ();
    type OfAllocation = ();
    type OfMapping = ();
    type OfReservation = ();
    type OfPool = ();
    type Allocations = Slots<Allocation, (), MOST>;
    type Mappings = Slots<Mapping, (), MOST>;
    type Reservations = Slots<Reservation, (), MOST>;
    type Pools = Slots<Pool, (), MOST_POOLS>;
    type Pointers = Slots<Pointer, (), MOST>;
}

const NO_ALLOCATION: Allocation = Allocation {
    bytes: 0,
    types: None,
    device: None,
    origin: Origin::Made,
    references: 0,
    is_counted: false,
    mappings: 0,
    team: None,
};
const NO_POOL: Pool = Pool {
    origin: Origin::Made,
    types: None,
    device: None,
    imports: 0,
    is_exported: false,
    is_destroyed: false,
};

/// Returns a free place for an entry.
const fn free<T>(state: T) -> Bare<T> {
    Known { id: Id::NONE, name: 0, state, history: () }
}

pub static MODEL: Book<Process<Fixed>> = Book::new(Process::new(
    Slots::new([free(NO_ALLOCATION); MOST]),
    Slots::new([free(Mapping { bytes: 0, of: Id::NONE, is_granted: false }); MOST]),
    Slots::new([free(Reservation { bytes: 0 }); MOST]),
    Slots::new([free(NO_POOL); MOST_POOLS]),
    Slots::new([free(Pointer { pool: Id::NONE }); MOST]),
    Fixed,
));

/// Number of calls in the driver at present that release an allocation. The driver may return a released handle to another thread
/// before such a call returns.
static RELEASING: AtomicU32 = AtomicU32::new(0);

fn releases(call: &Call) -> bool {
    let is_one = |effect: &Effect| matches!(effect, Effect::Ends(End { object: Object::Allocation, .. }));
    call.function.spec().effects().iter().any(is_one)
}

/// Notes the effects of a call, which has the result of the driver. `home` is the device of an allocation that the call imported.
/// `is_own` is true if the program got the outputs of the driver.
pub fn note(call: &Call, home: Option<i32>, is_own: bool) {
    let spec = call.function.spec();
    if spec.changes_pools() || spec.is_virtual() && settings::get().check.is_some() {
        // Another thread may be releasing the handle that this call returned, and note the release later.
        let is_doubtful = RELEASING.load(SeqCst) > 0;
        let note = |model: &mut Process<Fixed>| {
            model.note(call, home, ());
            if is_doubtful {
                Delta::each(call, home).for_each(|delta| model.doubt(&delta));
            }
        };
        if is_own {
            MODEL.note(note)
        } else {
            MODEL.miss()
        }
        if releases(call) {
            let _ = RELEASING.fetch_update(SeqCst, SeqCst, |count| count.checked_sub(1));
        }
    }
}

/// Returns the range in which a call mapped memory that can be exported.
pub fn mapped_shareable(call: &Call) -> Option<(u64, u64)> {
    let mapped = call.function.spec().effects().iter().find_map(|effect| match *effect {
        Effect::Makes(Made { object: Object::Mapping, by, size: Some(size), of: Some(of), .. }) => {
            Some((by, size, of))
        }
        _ => None,
    });
    let (by, size, of) = mapped?;
    let known = MODEL.with(|model| model.allocation(call.at(of))).flatten();
    known.filter(|it| it.is_shareable()).map(|_| (call.at(by), call.at(size)))
}

/// Notes a created pool, with its device.
pub fn made_pool(handle: u64, device: Option<i32>) {
    MODEL.with(|model| model.apply(&Delta::makes_pool(handle, device), ()));
}

/// Returns the pool with a handle. Knows also default pools, which no call returned.
pub fn pool(handle: u64) -> Option<Bare<Pool>> {
    let known = MODEL.with(|model| model.pool(handle)).flatten();
    known.or_else(|| {
        let device = Some(device_with_default(handle)?);
        let state = Pool { origin: Origin::Found, device, ..NO_POOL };
        Some(Known { id: Id::NONE, name: handle, state, history: () })
    })
}

/// Returns the device whose default pool has this handle.
fn device_with_default(handle: u64) -> Option<i32> {
    queries::devices()?.find(|device| queries::default_pool(*device) == Some(handle))
}

/// Notes that a call is about to be forwarded, if it releases an allocation.
pub fn note_begin(call: &Call) {
    if releases(call) {
        RELEASING.fetch_add(1, SeqCst);
    }
}

/// Returns true if a call names a handle that the program certainly released as often as it obtained the handle, and whose
/// allocation is not mapped. Drivers were observed to crash on such a handle.
pub fn names_released(call: &Call) -> bool {
    let Some(by) = call.function.spec().allocation_handle() else { return false };
    MODEL.is_whole(|model| {
        let is_released = |it: Bare<Allocation>| it.is_past() && it.is_counted;
        !model.has_lost(Family::VirtualMemory) && model.allocation(call.at(by)).is_some_and(is_released)
    })
}
