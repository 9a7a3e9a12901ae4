//! The state of a process, and how deltas change it.

use crate::alloc_props::Access;
use crate::call::Call;
use crate::delta::Delta;
use crate::state::{Allocation, Mapping, Origin, Pointer, Pool, Reservation};
use crate::table::{Bare, Entry, History, Id, Known, Table};
use cupeer_spec::effect::{Bound, Effect, End, Grant, Made, Object, Query, Shared, Subject};

/// Storage of a process's state, and functions that the model calls at each change. Each of them receives the
/// changed entry, and the time and place of the call.
pub trait Keeper: Sized {
    /// Time and place of a call.
    type At: Copy;
    /// Facts about an allocation.
    type OfAllocation: History;
    /// Facts about a mapping.
    type OfMapping: History;
    /// Facts about a reservation.
    type OfReservation: History;
    /// Facts about a pool.
    type OfPool: History;
    /// Allocations, by their handles.
    type Allocations: Table<Allocation, Self::OfAllocation>;
    /// Mappings, by their addresses.
    type Mappings: Table<Mapping, Self::OfMapping>;
    /// Reservations, by their addresses.
    type Reservations: Table<Reservation, Self::OfReservation>;
    /// Pools, by their handles.
    type Pools: Table<Pool, Self::OfPool>;
    /// Imported pointers, by their addresses.
    type Pointers: Table<Pointer, ()>;

    /// Called when an allocation was created or, if `_imported_as` is not 0, imported by the handle with this
    /// fingerprint.
    fn allocated(
        &mut self,
        _new: &mut Known<Allocation, Self::OfAllocation>,
        _imported_as: u64,
        _at: Self::At,
    ) {
    }
    /// Called when a call changed or used an allocation: an export, a retain, a release, an added device, or a binding.
    fn changed(&mut self, _known: &mut Known<Allocation, Self::OfAllocation>, _by: &Delta, _at: Self::At) {}
    /// Called when neither a handle nor a mapping of an allocation is left.
    fn ended(&mut self, _known: &mut Known<Allocation, Self::OfAllocation>, _at: Self::At) {}
    /// Called when an allocation was mapped. `_of` is the allocation, if known.
    fn mapped(
        &mut self,
        _new: &mut Known<Mapping, Self::OfMapping>,
        _of: Option<&Known<Allocation, Self::OfAllocation>>,
        _at: Self::At,
    ) {
    }
    /// Called when a mapping ended. `_of` is the allocation, if known.
    fn unmapped(
        &mut self,
        _old: &Known<Mapping, Self::OfMapping>,
        _of: Option<&Known<Allocation, Self::OfAllocation>>,
        _at: Self::At,
    ) {
    }
    /// Called when devices got or lost access to a mapping. `_of` is the allocation, if known.
    fn granted(
        &mut self,
        _known: &mut Known<Mapping, Self::OfMapping>,
        _of: Option<&Known<Allocation, Self::OfAllocation>>,
        _access: (Access, bool),
        _at: Self::At,
    ) {
    }
    /// Called when an address range was reserved.
    fn reserved(&mut self, _new: &mut Known<Reservation, Self::OfReservation>, _at: Self::At) {}
    /// Called when a reservation ended.
    fn unreserved(&mut self, _old: &Known<Reservation, Self::OfReservation>, _at: Self::At) {}
    /// Called when a pool was created, imported, found, or changed.
    fn pool_changed(&mut self, _known: &mut Known<Pool, Self::OfPool>, _delta: &Delta, _at: Self::At) {}
}

/// A family of objects, for which the process knows whether calls are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Allocations, mappings, and reservations.
    VirtualMemory,
    /// Pools and their pointers.
    Pools,
}

/// The state of a process.
#[derive(Default)]
pub struct Process<K: Keeper> {
    /// Allocations.
    pub allocations: K::Allocations,
    /// Mappings.
    pub mappings: K::Mappings,
    /// Reservations.
    pub reservations: K::Reservations,
    /// Pools.
    pub pools: K::Pools,
    /// Imported pointers.
    pub pointers: K::Pointers,
    /// The keeper, with the facts of the model's user.
    pub keeper: K,
    granularity: [Option<u64>; 2],
    has_lost: [bool; 2],
    last: Id,
}

impl<K: Keeper> Process<K> {
    /// Returns the state of a process that has nothing yet, with these empty tables.
    pub const fn new(
        allocations: K::Allocations,
        mappings: K::Mappings,
        reservations: K::Reservations,
        pools: K::Pools,
        pointers: K::Pointers,
        keeper: K,
    ) -> Self {
        let (granularity, has_lost, last) = ([None; 2], [false; 2], Id::NONE);
        Process { allocations, mappings, reservations, pools, pointers, keeper, granularity, has_lost, last }
    }

    /// Notes that calls about a family of objects were missed.
    pub fn lose(&mut self, family: Family) {
        self.has_lost[family as usize] = true;
    }

    /// Applies a call that has returned. `home` is the device of an allocation that the call imported.
    pub fn note(&mut self, call: &Call, home: Option<i32>, at: K::At) {
        Delta::each(call, home).for_each(|delta| self.apply(&delta, at));
    }

    /// Marks the references of an allocation as uncertain that a call just created or opened: another thread
    /// may have released its handle under an earlier owner of the number.
    pub fn doubt(&mut self, delta: &Delta) {
        if let Effect::Makes(Made { object: Object::Allocation, .. })
        | Effect::Opens(Shared { object: Object::Allocation, .. }) = delta.effect
            && let Some(known) = self.allocations.named_mut(delta.name)
        {
            known.is_counted = false;
        }
    }

    /// Applies one change to the state.
    pub fn apply(&mut self, delta: &Delta, at: K::At) {
        let &Delta { name, bytes, .. } = delta;
        match *delta.effect {
            Effect::Makes(Made { object: Object::Allocation, .. }) => {
                self.add_allocation(delta, Origin::Made, at)
            }
            Effect::Opens(Shared { object: Object::Allocation, .. }) => {
                self.add_allocation(delta, Origin::Imported, at);
            }
            Effect::Retains(_) => self.retain(delta, at),
            Effect::Ends(End { object: Object::Allocation, .. }) => self.release(delta, at),
            Effect::Makes(Made { object: Object::Reservation, .. }) => {
                self.remove_reservation(name, at);
                let mut new = self.new_entry(name, Reservation { bytes });
                self.keeper.reserved(&mut new, at);
                self.has_lost[Family::VirtualMemory as usize] |= !self.reservations.insert(new);
            }
            Effect::Ends(End { object: Object::Reservation, .. }) => self.remove_reservation(name, at),
            Effect::Makes(Made { object: Object::Mapping, .. }) => self.add_mapping(delta, at),
            Effect::Ends(End { object: Object::Mapping, .. }) => self.remove_mappings((name, bytes), at),
            Effect::Grants(Grant { size: Some(_), .. }) => self.grant_access(delta, at),
            Effect::Binds(Bound { object, .. }) => {
                let id = match object {
                    Object::Mapping => self.mapping_at(delta.of).map(|mapping| mapping.of),
                    _ => self.allocations.named(delta.of).map(|known| known.id),
                };
                let home = id.and_then(|id| self.allocations.get(id)).and_then(|known| known.device);
                let device = delta.device.or(home);
                self.note_change(&Delta { device, ..*delta }, at);
            }
            Effect::Exports(Shared { object: Object::Allocation, .. })
            | Effect::Joins(_)
            | Effect::Unbinds(_) => self.note_change(delta, at),
            Effect::Makes(Made { object: Object::Pool, .. }) => self.add_pool(delta, Origin::Made, at),
            Effect::Opens(Shared { object: Object::Pool, .. }) => self.add_pool(delta, Origin::Imported, at),
            Effect::Asks(Query { subject: Subject::Pool, .. }) => self.add_pool(delta, Origin::Found, at),
            Effect::Asks(Query { subject, .. }) => {
                self.granularity[usize::from(subject == Subject::Team)] =
                    Some(bytes).filter(|bytes| bytes.is_power_of_two());
            }
            Effect::Exports(_) | Effect::Grants(_) | Effect::Ends(End { object: Object::Pool, .. }) => {
                self.change_pool(delta, at);
            }
            Effect::Opens(Shared { object: Object::Pointer, .. }) => {
                self.change_pool(&Delta { name: delta.of, ..*delta }, at);
                let pool = self.pools.named(delta.of).map_or(Id::NONE, |pool| pool.id);
                // The same pointer was imported again, or the call that freed it was not seen.
                self.remove_pointer(name);
                let new = self.new_entry(name, Pointer { pool });
                self.has_lost[Family::Pools as usize] |= !self.pointers.insert(new);
            }
            Effect::Closes(_) => self.remove_pointer(name),
            _ => {}
        }
    }

    fn note_change(&mut self, delta: &Delta, at: K::At) {
        let Some(known) = self.allocations.named_mut(delta.name) else { return };
        if let (Effect::Joins(_), Some(device)) = (delta.effect, delta.device) {
            known.team.get_or_insert_default().added |= 1u64.checked_shl(device as u32).unwrap_or(0);
        }
        self.keeper.changed(known, delta, at);
    }

    fn change_pool(&mut self, delta: &Delta, at: K::At) {
        let Some(pool) = self.pools.named_mut(delta.name) else { return };
        match delta.effect {
            Effect::Exports(_) => pool.is_exported = true,
            Effect::Ends(_) => {
                pool.imports = pool.imports.saturating_sub(1);
                pool.is_destroyed = pool.imports == 0;
            }
            _ => {}
        }
        self.keeper.pool_changed(pool, delta, at);
    }

    fn new_entry<T, H: Default>(&mut self, name: u64, state: T) -> Known<T, H> {
        self.last = self.last.next();
        Known { id: self.last, name, state, history: H::default() }
    }

    fn add_allocation(&mut self, delta: &Delta, origin: Origin, at: K::At) {
        // The previous allocation with this handle ended in a call that was not seen.
        if let Some(old) = self.allocations.named_mut(delta.name)
            && old.references != 0
        {
            old.references = 0;
            if old.mappings == 0 {
                self.keeper.ended(old, at);
            }
        }
        let &Delta { name, bytes, types, device, team, .. } = delta;
        let is_counted = origin != Origin::Found;
        let new = Allocation { bytes, types, device, origin, references: 1, is_counted, mappings: 0, team };
        let mut new = self.new_entry(name, new);
        self.keeper.allocated(&mut new, delta.fingerprint, at);
        self.has_lost[Family::VirtualMemory as usize] |= !self.allocations.insert(new);
    }

    /// Returns the mapping that contains an address.
    fn mapping_at(&self, address: u64) -> Option<&Known<Mapping, K::OfMapping>> {
        self.mappings.touching((address, 1))
    }

    fn retain(&mut self, delta: &Delta, at: K::At) {
        let handle = delta.name;
        let mapped = self.mapping_at(delta.of).map(|mapping| (mapping.id, mapping.of));
        let of = mapped.map(|(_, of)| of).filter(|of| *of != Id::NONE);
        let known = of.or_else(|| self.allocations.named(handle).map(|known| known.id));
        let Some(known) = known.filter(|id| self.allocations.get(*id).is_some()) else {
            self.add_allocation(delta, Origin::Found, at);
            // The mapping at the address is now known to be of this allocation.
            if let Some((mapping, id)) = mapped.zip(self.allocations.named(handle).map(|known| known.id))
                && let Some(mapping) = self.mappings.get(mapping.0)
                && let Some(known) = self.allocations.get(id)
            {
                mapping.of = id;
                known.mappings = 1;
            }
            return;
        };
        self.allocations.rename(known, handle);
        let Some(known) = self.allocations.get(known) else { return };
        known.references = known.references.saturating_add(1);
        self.keeper.changed(known, delta, at);
    }

    fn release(&mut self, delta: &Delta, at: K::At) {
        let Some(known) = self.allocations.named_mut(delta.name) else { return };
        // If the count is 0 already, references exist whose creation was not seen.
        known.is_counted &= known.references != 0;
        if known.references == 0 {
            return;
        }
        known.references -= 1;
        self.keeper.changed(known, delta, at);
        if known.is_past() {
            self.keeper.ended(known, at);
        }
    }

    fn remove_reservation(&mut self, start: u64, at: K::At) {
        if let Some(id) = self.reservations.named(start).map(|known| known.id)
            && let Some(old) = self.reservations.remove(id)
        {
            self.keeper.unreserved(&old, at);
        }
    }

    fn add_mapping(&mut self, delta: &Delta, at: K::At) {
        let &Delta { name: start, bytes, of: handle, .. } = delta;
        // The driver refuses to map over a mapping: the old mapping ended in a call that was not seen.
        self.remove_mappings((start, bytes), at);
        let of = self.allocations.named_mut(handle).map_or(Id::NONE, |known| {
            known.mappings = known.mappings.saturating_add(1);
            // Only a whole allocation can be mapped, so an allocation of unknown size has the size of its
            // mapping.
            if known.bytes == 0 {
                known.bytes = bytes;
            }
            known.id
        });
        let mut new = self.new_entry(start, Mapping { bytes, of, is_granted: false });
        self.keeper.mapped(&mut new, self.allocations.get(of).as_deref(), at);
        self.has_lost[Family::VirtualMemory as usize] |= !self.mappings.insert(new);
    }

    fn remove_mappings(&mut self, range: (u64, u64), at: K::At) {
        while let Some(id) = self.mappings.touching(range).map(|mapping| mapping.id)
            && let Some(old) = self.mappings.remove(id)
        {
            let mut of = self.allocations.get(old.of);
            self.keeper.unmapped(&old, of.as_deref(), at);
            if let Some(known) = &mut of {
                known.mappings = known.mappings.saturating_sub(1);
                if known.is_past() {
                    self.keeper.ended(known, at);
                    let (id, is_over) = (known.id, known.name == 0 && !known.history.is_kept());
                    if is_over {
                        self.allocations.remove(id);
                    }
                }
            }
        }
    }

    fn grant_access(&mut self, delta: &Delta, at: K::At) {
        let (mut from, end) = (delta.name, delta.name.saturating_add(delta.bytes));
        while let Some(id) =
            self.mappings.touching((from, end.saturating_sub(from))).map(|mapping| mapping.id)
            && let Some(mapping) = self.mappings.get(id)
        {
            mapping.is_granted = true;
            let of = self.allocations.get(mapping.of);
            if delta.is_done {
                self.keeper.granted(mapping, of.as_deref(), delta.access, at);
            }
            from = mapping.name.saturating_add(mapping.bytes);
        }
    }

    fn add_pool(&mut self, delta: &Delta, origin: Origin, at: K::At) {
        let &Delta { name, types, device, .. } = delta;
        let imports = u32::from(origin == Origin::Imported);
        // Querying a default pool again, or importing a descriptor again, returns the same pool.
        let is_again = |known: &&mut Known<Pool, _>| {
            known.origin == origin && origin != Origin::Made && !known.is_destroyed
        };
        if let Some(known) = self.pools.named_mut(name).filter(is_again) {
            // Each import must be destroyed separately.
            known.imports += imports;
            return self.keeper.pool_changed(known, delta, at);
        }
        let mut new = self.new_entry(name, Pool { origin, types, device, imports, ..Pool::default() });
        self.keeper.pool_changed(&mut new, delta, at);
        self.has_lost[Family::Pools as usize] |= !self.pools.insert(new);
    }

    /// Removes an imported pointer, even if it was imported several times.
    fn remove_pointer(&mut self, address: u64) {
        let id = self.pointers.named(address).map(|known| known.id);
        id.and_then(|id| self.pointers.remove(id));
    }
}

/// Queries of rules about the state of a process.
pub trait View {
    /// Returns the allocation of a handle. A released allocation is returned, too, until another allocation has the
    /// handle.
    fn allocation(&self, handle: u64) -> Option<Bare<Allocation>>;
    /// Returns the allocation of a mapping.
    fn of(&self, mapping: &Mapping) -> Option<Bare<Allocation>>;
    /// Calls `work` with each mapping that overlaps a range: first address, and number of bytes.
    fn each_mapping(&self, range: (u64, u64), work: &mut dyn FnMut(&Bare<Mapping>));
    /// Returns the first reservation that overlaps a range: first address, and number of bytes.
    fn reservation(&self, range: (u64, u64)) -> Option<Bare<Reservation>>;
    /// Returns the pool of a handle. A destroyed pool is returned, too, until another pool has the handle.
    fn pool(&self, handle: u64) -> Option<Bare<Pool>>;
    /// Returns the number of open imported pointers of an imported pool.
    fn pointers_of(&self, pool: u64) -> u64;
    /// Returns the granularity of device memory, or of multicast objects, if the process queried it.
    fn granularity(&self, of: Subject) -> Option<u64>;
    /// Returns true if calls about a family of objects are known to be missing.
    fn has_lost(&self, family: Family) -> bool;
}

impl<K: Keeper> View for Process<K> {
    fn allocation(&self, handle: u64) -> Option<Bare<Allocation>> {
        self.allocations.named(handle).map(Known::bare)
    }

    fn of(&self, mapping: &Mapping) -> Option<Bare<Allocation>> {
        self.allocations.each().find(|known| known.id == mapping.of).map(Known::bare)
    }

    fn each_mapping(&self, range: (u64, u64), work: &mut dyn FnMut(&Bare<Mapping>)) {
        self.mappings.each().filter(|known| known.touches(range)).for_each(|known| work(&known.bare()));
    }

    fn reservation(&self, range: (u64, u64)) -> Option<Bare<Reservation>> {
        self.reservations.touching(range).map(Known::bare)
    }

    fn pool(&self, handle: u64) -> Option<Bare<Pool>> {
        self.pools.named(handle).map(Known::bare)
    }

    fn pointers_of(&self, pool: u64) -> u64 {
        let Some(pool) = self.pools.named(pool) else { return 0 };
        self.pointers.each().filter(|pointer| pointer.pool == pool.id).count() as u64
    }

    fn granularity(&self, of: Subject) -> Option<u64> {
        self.granularity[usize::from(of == Subject::Team)]
    }

    fn has_lost(&self, family: Family) -> bool {
        self.has_lost[family as usize]
    }
}
