//! The state of this process, as its own calls show, up to a fixed number of entries.
//!
//! Pools are always followed, because the driver does not return the device of a pool. Virtual memory is followed if rules
//! are checked.

use super::queries;
use crate::settings;
use crate::sys::book::LockedFacts;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use cupeer_model::{
    Allocation, BareEntry, Call, Delta, Entry, Id, Keeper, Mapping, ObjectFamily, ObjectOrigin, Pointer, Pool,
    ProcessObjects, Reservation, Slots, TableEntry, View,
};
use cupeer_spec::effect::{Effect, End, Made, Object};

/// Number of allocations, of mappings, of reservations, and of imported pointers that can be known at once.
const MOST: usize = 4096;
/// Number of pools that can be known at once.
const MOST_POOLS: usize = 256;

/// Storage of the model: a fixed number of entries, without their history.
pub struct FixedStorage;

impl Keeper for FixedStorage {
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
    origin: ObjectOrigin::Made,
    references: 0,
    is_counted: false,
    mappings: 0,
    multicast: None,
};
const NO_POOL: Pool =
    Pool { origin: ObjectOrigin::Made, types: None, device: None, imports: 0, is_exported: false, is_destroyed: false };

/// Returns a free entry, which contains a default state.
const fn free_entry<T>(state: T) -> BareEntry<T> {
    TableEntry { id: Id::NONE, name: 0, state, history: () }
}

pub static MODEL: LockedFacts<ProcessObjects<FixedStorage>> = LockedFacts::new(ProcessObjects::new(
    Slots::new([free_entry(NO_ALLOCATION); MOST]),
    Slots::new([free_entry(Mapping { bytes: 0, allocation: Id::NONE, is_granted: false }); MOST]),
    Slots::new([free_entry(Reservation { bytes: 0 }); MOST]),
    Slots::new([free_entry(NO_POOL); MOST_POOLS]),
    Slots::new([free_entry(Pointer { pool: Id::NONE }); MOST]),
    FixedStorage,
));

/// Number of calls that are in the driver at present to release an allocation. The driver may return a released handle
/// to another thread before such a call returns.
static RELEASING: AtomicU32 = AtomicU32::new(0);

fn releases_allocation(call: &Call) -> bool {
    let is_one = |effect: &Effect| matches!(effect, Effect::Ends(End { object: Object::Allocation, .. }));
    call.function.spec().effects().iter().any(is_one)
}

/// Applies the effects of a call to the model. The call has the result of the driver. `home` is the device of an
/// allocation that the call imported. `is_own` is true if the program got the outputs of the driver.
pub fn note_effects(call: &Call, home: Option<i32>, is_own: bool) {
    let spec = call.function.spec();
    if spec.changes_pools() || spec.is_virtual_memory_call() && settings::get().check.is_some() {
        // Another thread may be releasing the handle that this call returned, and note the release later.
        let is_doubtful = RELEASING.load(SeqCst) > 0;
        let note = |model: &mut ProcessObjects<FixedStorage>| {
            model.apply_call(call, home, ());
            if is_doubtful {
                Delta::changes_of_call(call, home).for_each(|delta| model.mark_as_uncertain(&delta));
            }
        };
        if is_own {
            MODEL.note(note)
        } else {
            MODEL.note_missed()
        }
        if releases_allocation(call) {
            let _ = RELEASING.fetch_update(SeqCst, SeqCst, |count| count.checked_sub(1));
        }
    }
}

/// Returns the range in which a call mapped memory that can be exported.
pub fn mapped_exportable_range(call: &Call) -> Option<(u64, u64)> {
    let mapped = call.function.spec().effects().iter().find_map(|effect| match *effect {
        Effect::Makes(Made { object: Object::Mapping, by, size: Some(size), of: Some(of), .. }) => Some((by, size, of)),
        _ => None,
    });
    let (by, size, of) = mapped?;
    let known = MODEL.with(|model| model.allocation(call.number_at(of))).flatten();
    known.filter(|it| it.is_shareable()).map(|_| (call.number_at(by), call.number_at(size)))
}

/// Adds a pool that a call created, with its device, to the model.
pub fn note_created_pool(handle: u64, device: Option<i32>) {
    MODEL.with(|model| model.apply_delta(&Delta::creating_pool(handle, device), ()));
}

/// Returns the pool with a handle. Knows also default pools, which no call returned.
pub fn pool(handle: u64) -> Option<BareEntry<Pool>> {
    let known = MODEL.with(|model| model.pool(handle)).flatten();
    known.or_else(|| {
        let device = Some(device_with_default(handle)?);
        let state = Pool { origin: ObjectOrigin::Found, device, ..NO_POOL };
        Some(TableEntry { id: Id::NONE, name: handle, state, history: () })
    })
}

/// Returns the device whose default pool has this handle.
fn device_with_default(handle: u64) -> Option<i32> {
    queries::devices()?.find(|device| queries::default_pool(*device) == Some(handle))
}

/// Counts a call that is about to be forwarded in [`RELEASING`], if it releases an allocation.
pub fn note_begun_release(call: &Call) {
    if releases_allocation(call) {
        RELEASING.fetch_add(1, SeqCst);
    }
}

/// Returns true if a call names a handle that the program certainly released as often as it obtained the handle, and whose
/// allocation is not mapped. Drivers were observed to crash on such a handle.
pub fn names_released_allocation(call: &Call) -> bool {
    let Some(by) = call.function.spec().allocation_handle_argument() else { return false };
    MODEL.has_all_facts(|model| {
        let is_released = |it: BareEntry<Allocation>| it.has_ended() && it.is_counted;
        !model.has_lost(ObjectFamily::VirtualMemory) && model.allocation(call.number_at(by)).is_some_and(is_released)
    })
}
