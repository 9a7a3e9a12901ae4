//! Tables of entries by identity and name: [`Slots`] has a fixed number of entries, and [`IndexedTable`] any number.

use std::collections::BTreeMap;
use std::mem::take;
use std::ops::{Deref, DerefMut};

/// The identity of an entry, which no other entry of its process ever gets.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id(u32);

impl Id {
    /// The identity that no entry has.
    pub const NONE: Id = Id(0);

    pub(crate) fn next(self) -> Id {
        Id(self.0.wrapping_add(1).max(1))
    }
}

impl From<Id> for u64 {
    fn from(id: Id) -> u64 {
        id.0.into()
    }
}

/// The state of an entry, such as an allocation or a mapping.
pub trait Entry: Copy + Default + 'static {
    /// Returns true if the object has ended: its entry stays only until its slot or its name is needed.
    fn has_ended(&self) -> bool {
        false
    }

    /// Returns the size of the address range that begins at the entry's name, in bytes.
    fn bytes(&self) -> u64 {
        1
    }
}

/// Facts about an entry in addition to its state.
pub trait EntryHistory: Default + 'static {
    /// Returns true if the entry stays in its table after the object ended.
    fn is_kept_after_end(&self) -> bool {
        false
    }
}

impl EntryHistory for () {}

/// An entry of a table.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TableEntry<T, H> {
    /// Identity, which no other entry of the process gets.
    pub id: Id,
    /// The driver's number of the object, a handle or an address; 0 if the driver gave the number to another object since.
    pub name: u64,
    /// State of the object.
    pub state: T,
    /// Facts beside the state.
    pub history: H,
}

/// An entry without history.
pub type BareEntry<T> = TableEntry<T, ()>;

impl<T, H> Deref for TableEntry<T, H> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.state
    }
}

impl<T, H> DerefMut for TableEntry<T, H> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.state
    }
}

impl<T: Entry, H> TableEntry<T, H> {
    /// Returns the entry without its history.
    pub fn without_history(&self) -> BareEntry<T> {
        TableEntry { id: self.id, name: self.name, state: self.state, history: () }
    }

    /// Returns true if its addresses overlap a range.
    pub fn overlaps(&self, (start, bytes): (u64, u64)) -> bool {
        let own = self.state.bytes();
        own != 0 && bytes != 0 && self.name < start.saturating_add(bytes) && start < self.name.saturating_add(own)
    }

    /// Returns true if all of its addresses are in a range.
    pub fn is_within(&self, (start, bytes): (u64, u64)) -> bool {
        self.name >= start && self.name.saturating_add(self.state.bytes()) <= start.saturating_add(bytes)
    }
}

/// A table of entries of one kind.
pub trait Table<T: Entry, H: EntryHistory> {
    /// Returns the entry with a name, even if it has ended.
    fn find_by_name(&self, name: u64) -> Option<&TableEntry<T, H>>;
    /// Returns the entry with an identity.
    fn get(&mut self, id: Id) -> Option<&mut TableEntry<T, H>>;
    /// Adds an entry. A full table replaces an entry whose object has ended. Returns false if there is none.
    fn add(&mut self, new: TableEntry<T, H>) -> bool;
    /// Removes an entry.
    fn remove(&mut self, id: Id) -> Option<TableEntry<T, H>>;
    /// Sets the name of an entry. No other entry may have the name.
    fn set_name(&mut self, id: Id, name: u64);
    /// Returns all entries.
    fn each(&self) -> impl Iterator<Item = &TableEntry<T, H>>;
    /// Returns the entry with the lowest address that overlaps a range: first address, and number of bytes.
    fn first_overlapping(&self, range: (u64, u64)) -> Option<&TableEntry<T, H>>;

    /// Returns the entry with a name, mutably.
    fn find_by_name_mut(&mut self, name: u64) -> Option<&mut TableEntry<T, H>> {
        let id = self.find_by_name(name)?.id;
        self.get(id)
    }

    /// Takes a name from its entry. An entry that has ended and is not kept is removed.
    fn take_name(&mut self, name: u64) {
        let Some((id, is_over)) =
            self.find_by_name(name).map(|it| (it.id, it.has_ended() && !it.history.is_kept_after_end()))
        else {
            return;
        };
        self.set_name(id, 0);
        if is_over {
            self.remove(id);
        }
    }

    /// Adds an entry, after taking its name from the former entry with that name. Returns false if the table is full.
    fn insert(&mut self, new: TableEntry<T, H>) -> bool {
        self.take_name(new.name);
        self.add(new)
    }

    /// Sets the name of an entry, after taking that name from its former entry.
    fn rename(&mut self, id: Id, name: u64) {
        if self.find_by_name(name).is_none_or(|it| it.id != id) {
            self.take_name(name);
            self.set_name(id, name);
        }
    }
}

/// A table with a fixed number of slots. It searches only the slots that were ever used.
pub struct Slots<T, H, const N: usize> {
    slots: [TableEntry<T, H>; N],
    used: usize,
}

impl<T, H, const N: usize> Slots<T, H, N> {
    /// Creates an empty table with these slots.
    pub const fn new(slots: [TableEntry<T, H>; N]) -> Self {
        Slots { slots, used: 0 }
    }

    fn used_slots(&self) -> &[TableEntry<T, H>] {
        self.slots.get(..self.used).unwrap_or(&[])
    }
}

impl<T: Entry, H: EntryHistory, const N: usize> Default for Slots<T, H, N> {
    fn default() -> Self {
        Slots::new(std::array::from_fn(|_| TableEntry::default()))
    }
}

impl<T: Entry, H: EntryHistory, const N: usize> Table<T, H> for Slots<T, H, N> {
    fn find_by_name(&self, name: u64) -> Option<&TableEntry<T, H>> {
        self.used_slots().iter().find(|known| known.name == name && name != 0)
    }

    fn get(&mut self, id: Id) -> Option<&mut TableEntry<T, H>> {
        let used = self.slots.get_mut(..self.used).unwrap_or(&mut []);
        used.iter_mut().find(|known| known.id == id && id != Id::NONE)
    }

    fn add(&mut self, new: TableEntry<T, H>) -> bool {
        let free = self.used_slots().iter().position(|known| known.id == Id::NONE);
        let more = || (self.used < N).then_some(self.used);
        let past = || self.used_slots().iter().position(|known| known.has_ended());
        let Some(place) = free.or_else(more).or_else(past) else { return false };
        let Some(slot) = self.slots.get_mut(place) else { return false };
        *slot = new;
        self.used = self.used.max(place + 1);
        true
    }

    fn remove(&mut self, id: Id) -> Option<TableEntry<T, H>> {
        self.get(id).map(take)
    }

    fn set_name(&mut self, id: Id, name: u64) {
        self.get(id).into_iter().for_each(|known| known.name = name);
    }

    fn each(&self) -> impl Iterator<Item = &TableEntry<T, H>> {
        self.used_slots().iter().filter(|known| known.id != Id::NONE)
    }

    fn first_overlapping(&self, range: (u64, u64)) -> Option<&TableEntry<T, H>> {
        self.each().filter(|known| known.overlaps(range)).min_by_key(|known| known.name)
    }
}

/// Number of entries at which a table first removes ended entries that are not kept.
const FIRST_LIMIT: usize = 1 << 16;

/// A table with any number of entries.
pub struct IndexedTable<T, H> {
    entries: BTreeMap<Id, TableEntry<T, H>>,
    names: BTreeMap<u64, Id>,
    /// Number of entries at which ended entries are next removed.
    next_cleanup: usize,
}

impl<T, H> Default for IndexedTable<T, H> {
    fn default() -> Self {
        IndexedTable { entries: BTreeMap::new(), names: BTreeMap::new(), next_cleanup: FIRST_LIMIT }
    }
}

impl<T, H> IndexedTable<T, H> {
    /// Returns the entry with an identity.
    pub fn find(&self, id: Id) -> Option<&TableEntry<T, H>> {
        self.entries.get(&id)
    }
}

impl<T: Entry, H: EntryHistory> IndexedTable<T, H> {
    /// Removes ended entries that are not kept. The next removal is at twice the number of the remaining entries.
    fn remove_ended(&mut self) {
        self.entries.retain(|_, known| !known.has_ended() || known.history.is_kept_after_end());
        self.names.retain(|_, id| self.entries.contains_key(id));
        self.next_cleanup = FIRST_LIMIT.max(2 * self.entries.len());
    }
}

impl<T: Entry, H: EntryHistory> Table<T, H> for IndexedTable<T, H> {
    fn find_by_name(&self, name: u64) -> Option<&TableEntry<T, H>> {
        self.entries.get(self.names.get(&name)?)
    }

    fn get(&mut self, id: Id) -> Option<&mut TableEntry<T, H>> {
        self.entries.get_mut(&id)
    }

    fn add(&mut self, new: TableEntry<T, H>) -> bool {
        if self.entries.len() >= self.next_cleanup {
            self.remove_ended();
        }
        if new.name != 0 {
            self.names.insert(new.name, new.id);
        }
        self.entries.insert(new.id, new);
        true
    }

    fn remove(&mut self, id: Id) -> Option<TableEntry<T, H>> {
        let known = self.entries.remove(&id)?;
        if known.name != 0 {
            self.names.remove(&known.name);
        }
        Some(known)
    }

    fn set_name(&mut self, id: Id, name: u64) {
        let Some(known) = self.entries.get_mut(&id) else { return };
        self.names.remove(&known.name);
        known.name = name;
        if name != 0 {
            self.names.insert(name, id);
        }
    }

    fn each(&self) -> impl Iterator<Item = &TableEntry<T, H>> {
        self.entries.values()
    }

    fn first_overlapping(&self, (start, bytes): (u64, u64)) -> Option<&TableEntry<T, H>> {
        let touches = |id: &Id| self.entries.get(id).filter(|known| known.overlaps((start, bytes)));
        let before = self.names.range(..=start).next_back().and_then(|(_, id)| touches(id));
        before.or_else(|| touches(self.names.range(start..start.saturating_add(bytes)).next()?.1))
    }
}
