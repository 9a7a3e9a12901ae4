//! Virtual memory that a process holds at its end, followed from its calls: the live table has only what is shared.

use cupeer_model::{
    Allocation, EntryHistory, IndexedTable, Keeper, Mapping, Pointer, Pool, ProcessObjects, Reservation, Table,
    TableEntry,
};
use cupeer_record::Call;
use cupeer_report::judged::as_judged_call;
use cupeer_spec::effect::Object;

/// Return address of a call, and the time of the call.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CallOrigin(pub u64, pub u64);

impl EntryHistory for CallOrigin {}

/// Tables that store for each entry the call that created it.
#[derive(Default)]
struct OriginTables;

impl Keeper for OriginTables {
    type At = CallOrigin;
    type OfAllocation = CallOrigin;
    type OfMapping = CallOrigin;
    type OfReservation = CallOrigin;
    type OfPool = ();
    type Allocations = IndexedTable<Allocation, CallOrigin>;
    type Mappings = IndexedTable<Mapping, CallOrigin>;
    type Reservations = IndexedTable<Reservation, CallOrigin>;
    type Pools = IndexedTable<Pool, ()>;
    type Pointers = IndexedTable<Pointer, ()>;

    fn on_allocated(&mut self, new: &mut TableEntry<Allocation, CallOrigin>, _as: u64, at: CallOrigin) {
        new.history = at;
    }

    fn on_mapped(
        &mut self,
        new: &mut TableEntry<Mapping, CallOrigin>,
        _of: Option<&TableEntry<Allocation, CallOrigin>>,
        at: CallOrigin,
    ) {
        new.history = at;
    }

    fn on_reserved(&mut self, new: &mut TableEntry<Reservation, CallOrigin>, at: CallOrigin) {
        new.history = at;
    }
}

/// Virtual memory of one process.
#[derive(Default)]
pub struct HeldMemory(ProcessObjects<OriginTables>);

/// Memory that the process still holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldObject {
    /// Number of references to the memory.
    pub count: u64,
    /// True if another process created the memory.
    pub is_foreign: bool,
    /// The call by which the process got the memory.
    pub since: CallOrigin,
}

impl HeldMemory {
    /// Follows a call; calls must come in the order of time. The values that the program received count, because
    /// the program can release nothing else.
    pub fn follow_call(&mut self, call: &Call) {
        let Some(function) = call.function.filter(|function| function.spec().is_virtual_memory_call()) else {
            return;
        };
        if call.succeeded() {
            let args = call.arguments();
            self.0.apply_call(&as_judged_call(function, 0, &args, call), None, CallOrigin(call.caller, call.start));
        }
    }

    /// Returns everything that the process still holds.
    pub fn remaining_objects(&self) -> impl Iterator<Item = (Object, HeldObject)> {
        let own = |since: &CallOrigin| HeldObject { count: 1, is_foreign: false, since: *since };
        let allocations = self.0.allocations.each().filter(|known| known.references > 0).map(|known| {
            let (count, is_foreign) = (known.references.into(), known.is_imported());
            (Object::Allocation, HeldObject { count, is_foreign, since: known.history })
        });
        let mappings = self.0.mappings.each().map(move |known| (Object::Mapping, own(&known.history)));
        let reservations = self.0.reservations.each().map(move |known| (Object::Reservation, own(&known.history)));
        allocations.chain(reservations).chain(mappings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_record::writer;
    use cupeer_spec::function::FnId;

    #[test]
    fn references_are_counted_and_ranges_end_what_lies_in_them() {
        let mut held = HeldMemory::default();
        let mut call = |function: FnId, values: &[(&str, u64)]| {
            let mut call = writer::call(function, 1, 2);
            for (name, value) in values {
                writer::set(&mut call, name, &value.to_le_bytes());
            }
            held.follow_call(&call);
            held.remaining_objects().map(|(object, holding)| (object, holding.count)).collect::<Vec<_>>()
        };
        call(FnId::cuMemCreate, &[("handle", 7), ("size", 64)]);
        let (a, m, r) = (Object::Allocation, Object::Mapping, Object::Reservation);
        assert_eq!(call(FnId::cuMemRetainAllocationHandle, &[("handle", 7)]), [(a, 2)]);
        assert_eq!(call(FnId::cuMemRelease, &[("handle", 7)]), [(a, 1)]);
        assert_eq!(call(FnId::cuMemRelease, &[("handle", 9)]), [(a, 1)]);
        call(FnId::cuMemAddressReserve, &[("ptr", 64), ("size", 192)]);
        for start in [64, 128, 192] {
            call(FnId::cuMemMap, &[("ptr", start), ("size", 64), ("handle", 7)]);
        }
        assert_eq!(call(FnId::cuMemUnmap, &[("ptr", 64), ("size", 128)]), [(a, 1), (r, 1), (m, 1)]);
        assert_eq!(call(FnId::cuMemRelease, &[("handle", 7)]), [(r, 1), (m, 1)]);
    }
}
