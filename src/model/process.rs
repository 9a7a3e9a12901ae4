//! The state of a process, and how deltas change it.

use crate::alloc_props::AccessRights;
use crate::call::Call;
use crate::delta::Delta;
use crate::state::{Allocation, Mapping, ObjectOrigin, Pointer, Pool, Reservation};
use crate::table::{BareEntry, Entry, EntryHistory, Id, Table, TableEntry};
use cupeer_spec::effect::{Bound, Effect, End, Grant, Made, Object, Query, Shared, Subject};

/// Storage of a process's state, and functions that the model calls at each change. Each of them receives the
/// changed entry, and the time and place of the call.
pub trait Keeper: Sized {
    /// Time and place of a call.
    type At: Copy;
    /// Facts about an allocation.
    type OfAllocation: EntryHistory;
    /// Facts about a mapping.
    type OfMapping: EntryHistory;
    /// Facts about a reservation.
    type OfReservation: EntryHistory;
    /// Facts about a pool.
    type OfPool: EntryHistory;
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
    fn on_allocated(
        &mut self,
        _new: &mut TableEntry<Allocation, Self::OfAllocation>,
        _imported_as: u64,
        _at: Self::At,
    ) {
    }
    /// Called when a call changed or used an allocation: an export, a retain, a release, an added device, or a binding.
    fn on_changed(&mut self, _known: &mut TableEntry<Allocation, Self::OfAllocation>, _by: &Delta, _at: Self::At) {}
    /// Called when neither a handle nor a mapping of an allocation is left.
    fn on_ended(&mut self, _known: &mut TableEntry<Allocation, Self::OfAllocation>, _at: Self::At) {}
    /// Called when an allocation was mapped. `_of` is the allocation, if known.
    fn on_mapped(
        &mut self,
        _new: &mut TableEntry<Mapping, Self::OfMapping>,
        _of: Option<&TableEntry<Allocation, Self::OfAllocation>>,
        _at: Self::At,
    ) {
    }
    /// Called when a mapping ended. `_of` is the allocation, if known.
    fn on_unmapped(
        &mut self,
        _old: &TableEntry<Mapping, Self::OfMapping>,
        _of: Option<&TableEntry<Allocation, Self::OfAllocation>>,
        _at: Self::At,
    ) {
    }
    /// Called when devices got or lost access to a mapping. `_of` is the allocation, if known.
    fn on_granted(
        &mut self,
        _known: &mut TableEntry<Mapping, Self::OfMapping>,
        _of: Option<&TableEntry<Allocation, Self::OfAllocation>>,
        _access: (AccessRights, bool),
        _at: Self::At,
    ) {
    }
    /// Called when an address range was reserved.
    fn on_reserved(&mut self, _new: &mut TableEntry<Reservation, Self::OfReservation>, _at: Self::At) {}
    /// Called when a reservation ended.
    fn on_unreserved(&mut self, _old: &TableEntry<Reservation, Self::OfReservation>, _at: Self::At) {}
    /// Called when a pool was created, imported, found, or changed.
    fn on_pool_changed(&mut self, _known: &mut TableEntry<Pool, Self::OfPool>, _delta: &Delta, _at: Self::At) {}
}

/// A family of objects, for which the process knows whether calls are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectFamily {
    /// Allocations, mappings, and reservations.
    VirtualMemory,
    /// Pools and their pointers.
    Pools,
}

/// The state of a process.
#[derive(Default)]
pub struct ProcessObjects<K: Keeper> {
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

impl<K: Keeper> ProcessObjects<K> {
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
        ProcessObjects { allocations, mappings, reservations, pools, pointers, keeper, granularity, has_lost, last }
    }

    /// Stores that calls about a family of objects were missed.
    pub fn note_loss(&mut self, family: ObjectFamily) {
        self.has_lost[family as usize] = true;
    }

    /// Applies a call that has returned. `home` is the device of an allocation that the call imported.
    pub fn apply_call(&mut self, call: &Call, home: Option<i32>, at: K::At) {
        Delta::changes_of_call(call, home).for_each(|delta| self.apply_delta(&delta, at));
    }

    /// Marks the number of references of an allocation as uncertain. A call just created or opened it, and another
    /// thread may have released its handle under an earlier owner of the number.
    pub fn mark_as_uncertain(&mut self, delta: &Delta) {
        if let Effect::Makes(Made { object: Object::Allocation, .. })
        | Effect::Opens(Shared { object: Object::Allocation, .. }) = delta.effect
            && let Some(known) = self.allocations.find_by_name_mut(delta.name)
        {
            known.is_counted = false;
        }
    }

    /// Applies one change to the state.
    pub fn apply_delta(&mut self, delta: &Delta, at: K::At) {
        let &Delta { name, bytes, .. } = delta;
        match *delta.effect {
            Effect::Makes(Made { object: Object::Allocation, .. }) => {
                self.add_allocation(delta, ObjectOrigin::Made, at)
            }
            Effect::Opens(Shared { object: Object::Allocation, .. }) => {
                self.add_allocation(delta, ObjectOrigin::Imported, at);
            }
            Effect::Retains(_) => self.retain_allocation(delta, at),
            Effect::Ends(End { object: Object::Allocation, .. }) => self.release_allocation(delta, at),
            Effect::Makes(Made { object: Object::Reservation, .. }) => {
                self.remove_reservation(name, at);
                let mut new = self.new_entry(name, Reservation { bytes });
                self.keeper.on_reserved(&mut new, at);
                self.has_lost[ObjectFamily::VirtualMemory as usize] |= !self.reservations.insert(new);
            }
            Effect::Ends(End { object: Object::Reservation, .. }) => self.remove_reservation(name, at),
            Effect::Makes(Made { object: Object::Mapping, .. }) => self.add_mapping(delta, at),
            Effect::Ends(End { object: Object::Mapping, .. }) => self.remove_mappings((name, bytes), at),
            Effect::Grants(Grant { size: Some(_), .. }) => self.grant_access(delta, at),
            Effect::Binds(Bound { object, .. }) => {
                let id = match object {
                    Object::Mapping => self.mapping_at(delta.other).map(|mapping| mapping.allocation),
                    _ => self.allocations.find_by_name(delta.other).map(|known| known.id),
                };
                let home = id.and_then(|id| self.allocations.get(id)).and_then(|known| known.device);
                let device = delta.device.or(home);
                self.change_allocation(&Delta { device, ..*delta }, at);
            }
            Effect::Exports(Shared { object: Object::Allocation, .. }) | Effect::Joins(_) | Effect::Unbinds(_) => {
                self.change_allocation(delta, at)
            }
            Effect::Makes(Made { object: Object::Pool, .. }) => self.add_pool(delta, ObjectOrigin::Made, at),
            Effect::Opens(Shared { object: Object::Pool, .. }) => self.add_pool(delta, ObjectOrigin::Imported, at),
            Effect::Asks(Query { subject: Subject::Pool, .. }) => self.add_pool(delta, ObjectOrigin::Found, at),
            Effect::Asks(Query { subject, .. }) => {
                self.granularity[usize::from(subject == Subject::Team)] =
                    Some(bytes).filter(|bytes| bytes.is_power_of_two());
            }
            Effect::Exports(_) | Effect::Grants(_) | Effect::Ends(End { object: Object::Pool, .. }) => {
                self.change_pool(delta, at);
            }
            Effect::Opens(Shared { object: Object::Pointer, .. }) => {
                self.change_pool(&Delta { name: delta.other, ..*delta }, at);
                let pool = self.pools.find_by_name(delta.other).map_or(Id::NONE, |pool| pool.id);
                // The same pointer was imported again, or the call that freed it was not seen.
                self.remove_pointer(name);
                let new = self.new_entry(name, Pointer { pool });
                self.has_lost[ObjectFamily::Pools as usize] |= !self.pointers.insert(new);
            }
            Effect::Closes(_) => self.remove_pointer(name),
            _ => {}
        }
    }

    fn change_allocation(&mut self, delta: &Delta, at: K::At) {
        let Some(known) = self.allocations.find_by_name_mut(delta.name) else { return };
        if let (Effect::Joins(_), Some(device)) = (delta.effect, delta.device) {
            known.multicast.get_or_insert_default().added |= 1u64.checked_shl(device as u32).unwrap_or(0);
        }
        self.keeper.on_changed(known, delta, at);
    }

    fn change_pool(&mut self, delta: &Delta, at: K::At) {
        let Some(pool) = self.pools.find_by_name_mut(delta.name) else { return };
        match delta.effect {
            Effect::Exports(_) => pool.is_exported = true,
            Effect::Ends(_) => {
                pool.imports = pool.imports.saturating_sub(1);
                pool.is_destroyed = pool.imports == 0;
            }
            _ => {}
        }
        self.keeper.on_pool_changed(pool, delta, at);
    }

    fn new_entry<T, H: Default>(&mut self, name: u64, state: T) -> TableEntry<T, H> {
        self.last = self.last.next();
        TableEntry { id: self.last, name, state, history: H::default() }
    }

    fn add_allocation(&mut self, delta: &Delta, origin: ObjectOrigin, at: K::At) {
        // The previous allocation with this handle ended in a call that was not seen.
        if let Some(old) = self.allocations.find_by_name_mut(delta.name)
            && old.references != 0
        {
            old.references = 0;
            if old.mappings == 0 {
                self.keeper.on_ended(old, at);
            }
        }
        let &Delta { name, bytes, types, device, multicast: team, .. } = delta;
        let is_counted = origin != ObjectOrigin::Found;
        let new = Allocation { bytes, types, device, origin, references: 1, is_counted, mappings: 0, multicast: team };
        let mut new = self.new_entry(name, new);
        self.keeper.on_allocated(&mut new, delta.fingerprint, at);
        self.has_lost[ObjectFamily::VirtualMemory as usize] |= !self.allocations.insert(new);
    }

    /// Returns the mapping that contains an address.
    fn mapping_at(&self, address: u64) -> Option<&TableEntry<Mapping, K::OfMapping>> {
        self.mappings.first_overlapping((address, 1))
    }

    fn retain_allocation(&mut self, delta: &Delta, at: K::At) {
        let handle = delta.name;
        let mapped = self.mapping_at(delta.other).map(|mapping| (mapping.id, mapping.allocation));
        let of = mapped.map(|(_, of)| of).filter(|of| *of != Id::NONE);
        let known = of.or_else(|| self.allocations.find_by_name(handle).map(|known| known.id));
        let Some(known) = known.filter(|id| self.allocations.get(*id).is_some()) else {
            self.add_allocation(delta, ObjectOrigin::Found, at);
            // The mapping at the address is now known to be of this allocation.
            if let Some((mapping, id)) = mapped.zip(self.allocations.find_by_name(handle).map(|known| known.id))
                && let Some(mapping) = self.mappings.get(mapping.0)
                && let Some(known) = self.allocations.get(id)
            {
                mapping.allocation = id;
                known.mappings = 1;
            }
            return;
        };
        self.allocations.rename(known, handle);
        let Some(known) = self.allocations.get(known) else { return };
        known.references = known.references.saturating_add(1);
        self.keeper.on_changed(known, delta, at);
    }

    fn release_allocation(&mut self, delta: &Delta, at: K::At) {
        let Some(known) = self.allocations.find_by_name_mut(delta.name) else { return };
        // If the count is 0 already, references exist whose creation was not seen.
        known.is_counted &= known.references != 0;
        if known.references == 0 {
            return;
        }
        known.references -= 1;
        self.keeper.on_changed(known, delta, at);
        if known.has_ended() {
            self.keeper.on_ended(known, at);
        }
    }

    fn remove_reservation(&mut self, start: u64, at: K::At) {
        if let Some(id) = self.reservations.find_by_name(start).map(|known| known.id)
            && let Some(old) = self.reservations.remove(id)
        {
            self.keeper.on_unreserved(&old, at);
        }
    }

    fn add_mapping(&mut self, delta: &Delta, at: K::At) {
        let &Delta { name: start, bytes, other: handle, .. } = delta;
        // The driver refuses to map over a mapping: the old mapping ended in a call that was not seen.
        self.remove_mappings((start, bytes), at);
        let of = self.allocations.find_by_name_mut(handle).map_or(Id::NONE, |known| {
            known.mappings = known.mappings.saturating_add(1);
            // Only a whole allocation can be mapped, so an allocation of unknown size has the size of its
            // mapping.
            if known.bytes == 0 {
                known.bytes = bytes;
            }
            known.id
        });
        let mut new = self.new_entry(start, Mapping { bytes, allocation: of, is_granted: false });
        self.keeper.on_mapped(&mut new, self.allocations.get(of).as_deref(), at);
        self.has_lost[ObjectFamily::VirtualMemory as usize] |= !self.mappings.insert(new);
    }

    fn remove_mappings(&mut self, range: (u64, u64), at: K::At) {
        while let Some(id) = self.mappings.first_overlapping(range).map(|mapping| mapping.id)
            && let Some(old) = self.mappings.remove(id)
        {
            let mut of = self.allocations.get(old.allocation);
            self.keeper.on_unmapped(&old, of.as_deref(), at);
            if let Some(known) = &mut of {
                known.mappings = known.mappings.saturating_sub(1);
                if known.has_ended() {
                    self.keeper.on_ended(known, at);
                    let (id, is_over) = (known.id, known.name == 0 && !known.history.is_kept_after_end());
                    if is_over {
                        self.allocations.remove(id);
                    }
                }
            }
        }
    }

    fn grant_access(&mut self, delta: &Delta, at: K::At) {
        let (mut from, end) = (delta.name, delta.name.saturating_add(delta.bytes));
        while let Some(id) = self.mappings.first_overlapping((from, end.saturating_sub(from))).map(|mapping| mapping.id)
            && let Some(mapping) = self.mappings.get(id)
        {
            mapping.is_granted = true;
            let of = self.allocations.get(mapping.allocation);
            if delta.is_done {
                self.keeper.on_granted(mapping, of.as_deref(), delta.access, at);
            }
            from = mapping.name.saturating_add(mapping.bytes);
        }
    }

    fn add_pool(&mut self, delta: &Delta, origin: ObjectOrigin, at: K::At) {
        let &Delta { name, types, device, .. } = delta;
        let imports = u32::from(origin == ObjectOrigin::Imported);
        // Querying a default pool again, or importing a descriptor again, returns the same pool.
        let is_again = |known: &&mut TableEntry<Pool, _>| {
            known.origin == origin && origin != ObjectOrigin::Made && !known.is_destroyed
        };
        if let Some(known) = self.pools.find_by_name_mut(name).filter(is_again) {
            // Each import must be destroyed separately.
            known.imports += imports;
            return self.keeper.on_pool_changed(known, delta, at);
        }
        let mut new = self.new_entry(name, Pool { origin, types, device, imports, ..Pool::default() });
        self.keeper.on_pool_changed(&mut new, delta, at);
        self.has_lost[ObjectFamily::Pools as usize] |= !self.pools.insert(new);
    }

    /// Removes an imported pointer, even if it was imported several times.
    fn remove_pointer(&mut self, address: u64) {
        let id = self.pointers.find_by_name(address).map(|known| known.id);
        id.and_then(|id| self.pointers.remove(id));
    }
}

/// Queries of rules about the state of a process.
pub trait View {
    /// Returns the allocation of a handle. A released allocation is returned, too, until another allocation has the
    /// handle.
    fn allocation(&self, handle: u64) -> Option<BareEntry<Allocation>>;
    /// Returns the allocation of a mapping.
    fn allocation_of(&self, mapping: &Mapping) -> Option<BareEntry<Allocation>>;
    /// Calls `work` with each mapping that overlaps a range: first address, and number of bytes.
    fn each_mapping(&self, range: (u64, u64), work: &mut dyn FnMut(&BareEntry<Mapping>));
    /// Returns the first reservation that overlaps a range: first address, and number of bytes.
    fn reservation(&self, range: (u64, u64)) -> Option<BareEntry<Reservation>>;
    /// Returns the pool of a handle. A destroyed pool is returned, too, until another pool has the handle.
    fn pool(&self, handle: u64) -> Option<BareEntry<Pool>>;
    /// Returns the number of open imported pointers of an imported pool.
    fn pointers_of(&self, pool: u64) -> u64;
    /// Returns the granularity of device memory, or of multicast objects, if the process queried it.
    fn granularity(&self, of: Subject) -> Option<u64>;
    /// Returns true if calls about a family of objects are known to be missing.
    fn has_lost(&self, family: ObjectFamily) -> bool;
}

impl<K: Keeper> View for ProcessObjects<K> {
    fn allocation(&self, handle: u64) -> Option<BareEntry<Allocation>> {
        self.allocations.find_by_name(handle).map(TableEntry::without_history)
    }

    fn allocation_of(&self, mapping: &Mapping) -> Option<BareEntry<Allocation>> {
        self.allocations.each().find(|known| known.id == mapping.allocation).map(TableEntry::without_history)
    }

    fn each_mapping(&self, range: (u64, u64), work: &mut dyn FnMut(&BareEntry<Mapping>)) {
        self.mappings.each().filter(|known| known.overlaps(range)).for_each(|known| work(&known.without_history()));
    }

    fn reservation(&self, range: (u64, u64)) -> Option<BareEntry<Reservation>> {
        self.reservations.first_overlapping(range).map(TableEntry::without_history)
    }

    fn pool(&self, handle: u64) -> Option<BareEntry<Pool>> {
        self.pools.find_by_name(handle).map(TableEntry::without_history)
    }

    fn pointers_of(&self, pool: u64) -> u64 {
        let Some(pool) = self.pools.find_by_name(pool) else { return 0 };
        self.pointers.each().filter(|pointer| pointer.pool == pool.id).count() as u64
    }

    fn granularity(&self, of: Subject) -> Option<u64> {
        self.granularity[usize::from(of == Subject::Team)]
    }

    fn has_lost(&self, family: ObjectFamily) -> bool {
        self.has_lost[family as usize]
    }
}
