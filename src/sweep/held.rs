//! Virtual memory that a process holds at its end, followed from its calls: the live table has only what is shared.

use cupeer_model::{
    Allocation, History, Indexed, Keeper, Known, Mapping, Pointer, Pool, Process, Reservation, Table,
};
use cupeer_record::Call;
use cupeer_report::judged::judged;
use cupeer_spec::effect::Object;

/// Return address of a call, and the time of the call.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Since(pub u64, pub u64);

impl History for Since {}

/// Tables that store for each entry the call that created it.
#[derive(Default)]
struct OriginCalls;

impl Keeper for OriginCalls {
    type At = Since;
    type OfAllocation = Since;
    type OfMapping = Since;
    type OfReservation = Since;
    type OfPool = ();
    type Allocations = Indexed<Allocation, Since>;
    type Mappings = Indexed<Mapping, Since>;
    type Reservations = Indexed<Reservation, Since>;
    type Pools = Indexed<Pool, ()>;
    type Pointers = Indexed<Pointer, ()>;

    fn allocated(&mut self, new: &mut Known<Allocation, Since>, _as: u64, at: Since) {
        new.history = at;
    }

    fn mapped(&mut self, new: &mut Known<Mapping, Since>, _of: Option<&Known<Allocation, Since>>, at: Since) {
        new.history = at;
    }

    fn reserved(&mut self, new: &mut Known<Reservation, Since>, at: Since) {
        new.history = at;
    }
}

/// Virtual memory of one process.
#[derive(Default)]
pub struct Held(Process<OriginCalls>);

/// Memory that the process still holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    /// Number of references to the memory.
    pub count: u64,
    /// True if another process created the memory.
    pub is_foreign: bool,
    /// The call by which the process got the memory.
    pub since: Since,
}

impl Held {
    /// Follows a call; calls must come in the order of time. The values that the program received count, because
    /// the program can release nothing else.
    pub fn follow(&mut self, call: &Call) {
        let Some(function) = call.function.filter(|function| function.spec().is_virtual()) else { return };
        if call.succeeded() {
            let args = call.arguments();
            self.0.note(&judged(function, 0, &args, call), None, Since(call.caller, call.start));
        }
    }

    /// Returns everything that the process still holds.
    pub fn left(&self) -> impl Iterator<Item = (Object, Holding)> {
        let own = |since: &Since| Holding { count: 1, is_foreign: false, since: *since };
        let allocations = self.0.allocations.each().filter(|known| known.references > 0).map(|known| {
            let (count, is_foreign) = (known.references.into(), known.is_imported());
            (Object::Allocation, Holding { count, is_foreign, since: known.history })
        });
        let mappings = self.0.mappings.each().map(move |known| (Object::Mapping, own(&known.history)));
        let reservations =
            self.0.reservations.each().map(move |known| (Object::Reservation, own(&known.history)));
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
        let mut held = Held::default();
        let mut call = |function: FnId, values: &[(&str, u64)]| {
            let mut call = writer::call(function, 1, 2);
            for (name, value) in values {
                writer::set(&mut call, name, &value.to_le_bytes());
            }
            held.follow(&call);
            held.left().map(|(object, holding)| (object, holding.count)).collect::<Vec<_>>()
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
