//! The device memory that one process allocated, over time, by the allocating call stack.
//!
//! Changes of virtual memory come from [`super::MemoryHistories`]; this module follows memory of cuMemAlloc and of
//! pools. Its size is bounded: beyond a limit, changes of one place within a short time become one change.

use super::Location;
use crate::follow::returns::WaitingResults;
use cupeer_model::NumberHolders;
use cupeer_record::Call;
use cupeer_report::model::Fingerprint;
use cupeer_report::places::StackNumber;
use cupeer_spec::effect::{Effect, Made, Object};
use cupeer_spec::function::FnId;
use std::collections::{BTreeMap, HashMap};

/// Number of changes above which changes of one place within a short time are joined.
const MOST_CHANGES: usize = 1 << 17;

/// Byte range of the field `maxSize` in a recorded CUmemPoolProps.
const MAX_SIZE_FIELD: std::ops::Range<usize> = 16..24;

/// The kind of memory, and its state in the process that made it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum MemoryKind {
    /// Memory of cuMemAlloc and related functions.
    Memory,
    /// An allocation of cuMemCreate that is mapped, or was never mapped.
    Mapped,
    /// An allocation of cuMemCreate that was mapped, and is not any more.
    Unmapped,
    /// Memory that was allocated from a pool.
    Pool,
    /// Memory that was freed to its pool. The recording does not show when the pool returns it to the device.
    Pooled,
    /// Small allocations, which the recording only counts.
    Small,
}

/// Memory of one kind and location, from one call stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct MemoryPlace {
    pub kind: MemoryKind,
    pub location: Location,
    pub stack: StackNumber,
}

/// A change of the memory of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryChange {
    pub at: u64,
    pub place: u32,
    pub count: i32,
    pub bytes: i64,
}

/// The memory of a place at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemorySum {
    pub count: u64,
    pub bytes: u64,
    /// Number of allocations that the place had created until then, if known.
    pub made: Option<u64>,
}

/// An existing allocation at an address, with its context if known.
#[derive(Clone, Copy)]
struct LiveMemory {
    address: u64,
    place: MemoryPlace,
    bytes: u64,
    context: Option<u64>,
    pool: Option<u64>,
    at: u64,
}

/// The memory that a process allocated, and all its changes.
#[derive(Default)]
pub struct MemoryBook {
    places: Vec<MemoryPlace>,
    numbers: HashMap<MemoryPlace, u32, foldhash::fast::RandomState>,
    changes: Vec<MemoryChange>,
    /// Length of the time slots within which changes of one place are joined, in nanoseconds; 0 if no changes were joined.
    slot_length: u64,
    live: NumberHolders<LiveMemory>,
    /// Memory from calls that had not returned when the last call began.
    waiting: WaitingResults<LiveMemory>,
    /// Bytes that were freed to pools, by the place that allocated them.
    pooled: BTreeMap<MemoryPlace, u64>,
    /// The place of each exported memory, by the fingerprint of the handle.
    exported: HashMap<Fingerprint, MemoryPlace, foldhash::fast::RandomState>,
    /// The largest size of each pool that has one, and the stack that created the pool.
    pool_limits: NumberHolders<(u64, StackNumber)>,
}

/// Returns the effect of a function that allocates memory on a device or from a pool.
fn allocating_effect(function: FnId) -> Option<Made> {
    function.spec().effects().iter().find_map(|effect| match *effect {
        // Managed memory, whose function has an argument for flags, moves between devices and host.
        Effect::Makes(made @ Made { object: Object::Memory, of: None, .. })
        | Effect::Makes(made @ Made { object: Object::Pointer, .. }) => Some(made),
        _ => None,
    })
}

/// Returns the argument that names the memory that a function frees.
fn freed_argument(function: FnId) -> Option<usize> {
    function.spec().effects().iter().find_map(|effect| match effect {
        Effect::Ends(end) if end.object == Object::Memory => Some(end.by),
        _ => None,
    })
}

/// Returns true if calls of a function change memory of cuMemAlloc or of pools.
#[inline]
pub fn changes_memory(function: FnId) -> bool {
    let spec = function.spec();
    let is_other = || spec.exports().is_some() || spec.makes().is_some_and(|made| made.object == Object::Pool);
    allocating_effect(function).is_some()
        || freed_argument(function).is_some()
        || spec.ended_context().is_some()
        || is_other()
}

/// Returns the bytes that a call asked for; `None` if the recording lacks them, or the function has no size.
pub fn requested_bytes(function: FnId, call: &Call) -> Option<u64> {
    let sized = |made: Made| match made.at.filter(|_| made.object == Object::Memory) {
        Some(rows) => Some(call.argument_number(made.size?)?.saturating_mul(call.argument_number(rows)?)),
        None => call.argument_number(made.size?),
    };
    match allocating_effect(function) {
        Some(made) => sized(made),
        None => function.spec().size_argument().and_then(|size| call.argument_number(size)),
    }
}

/// Returns the handle of a pool that a call created, and the largest size that the call set for the pool.
fn pool_limit(function: FnId, call: &Call) -> Option<(u64, u64)> {
    let made = function.spec().makes().filter(|made| made.object == Object::Pool)?;
    let bytes = call.argument(function.spec().properties_argument()?)?.get(MAX_SIZE_FIELD)?;
    let most = u64::from_le_bytes(bytes.try_into().ok()?);
    Some((call.argument_number(made.by)?, most)).filter(|_| most != 0)
}

impl MemoryBook {
    /// Applies a call that succeeded, with its time, its stack, and the location of the memory that it allocates.
    pub fn apply_call(&mut self, function: FnId, call: &Call, (time, stack): (u64, StackNumber), location: Location) {
        self.add_returned(call.start);
        let spec = function.spec();
        if let Some((pool, most)) = pool_limit(function, call) {
            // The former pool of this handle was destroyed.
            let _ = self.pool_limits.assign(Object::Pool, pool, (most, stack));
        } else if let Some(made) = allocating_effect(function) {
            let kind = if made.object == Object::Memory { MemoryKind::Memory } else { MemoryKind::Pool };
            let place = MemoryPlace { kind, location, stack };
            let context = call.details.context;
            let pool = made.of.filter(|_| kind == MemoryKind::Pool).and_then(|pool| call.argument_number(pool));
            if let Some((address, bytes)) = call.argument_number(made.by).zip(requested_bytes(function, call)) {
                self.waiting.push(call.end, LiveMemory { address, place, bytes, context, pool, at: time });
            }
        } else if let Some(address) = freed_argument(function).and_then(|by| call.argument_number(by)) {
            if self.live.holder(Object::Memory, address).is_none() {
                self.add_returned(u64::MAX);
            }
            if let Some(old) = self.live.take(Object::Memory, address) {
                self.add_free(&old, time);
            }
        } else if let Some(shared) = spec.exports().filter(|it| it.object.is_memory()) {
            let address = call.details.memory.map(|(start, _)| start).or(call.argument_number(shared.by));
            let fingerprint = call.argument(shared.handle).and_then(|bytes| bytes.first_chunk());
            if let Some((address, fingerprint)) = address.zip(fingerprint) {
                self.add_export(address, u64::from_le_bytes(*fingerprint));
            }
        } else if let (Some(context), Some(_)) = (call.details.context, spec.ended_context()) {
            let mut gone = Vec::new();
            self.live.retain(|_, _, old| {
                let is_its = old.context == Some(context) && old.place.kind == MemoryKind::Memory;
                gone.extend(is_its.then_some(*old));
                !is_its
            });
            gone.iter().for_each(|old| self.add_free(old, time));
        }
    }

    /// Returns the largest size of a pool, its bytes in use, and the stack that created the pool; `None` if it has no largest
    /// size.
    pub fn pool_limit_and_use(&self, pool: u64) -> Option<(u64, u64, StackNumber)> {
        let (most, stack) = self.pool_limits.holder(Object::Pool, pool)?;
        let all = self.live.iter().map(|(.., live)| live).chain(self.waiting.iter());
        let its = all.filter(|live| live.pool == Some(pool));
        Some((*most, its.map(|live| live.bytes).sum(), *stack))
    }

    /// Returns true if calls from a stack ever allocated memory.
    pub fn has_allocated_from(&self, stack: StackNumber) -> bool {
        self.places.iter().any(|place| place.stack == stack)
    }

    /// Returns true if memory that was allocated in a context still exists.
    pub fn has_memory_in_context(&self, context: u64) -> bool {
        self.live.iter().any(|(.., live)| live.context == Some(context))
    }

    /// Stores the place of the memory at an address by the fingerprint of its exported handle.
    fn add_export(&mut self, address: u64, fingerprint: u64) {
        self.add_returned(u64::MAX);
        if let Some(known) = self.live.holder(Object::Memory, address) {
            self.exported.insert(Fingerprint(fingerprint), known.place);
        }
    }

    /// Returns the place of the memory whose exported handle has a fingerprint.
    pub fn place_of_exported(&self, fingerprint: u64) -> Option<MemoryPlace> {
        self.exported.get(&Fingerprint(fingerprint)).copied()
    }

    /// Adds the waiting memory of calls that returned before a time.
    pub fn add_returned(&mut self, ticks: u64) {
        while let Some(new) = self.waiting.take_returned_by(ticks) {
            if let Some(old) = self.live.assign(Object::Memory, new.address, new) {
                // The call that freed it was not seen.
                self.add_free(&old, new.at);
            }
            self.add_change(new.place, new.at, 1, new.bytes as i64);
            if new.place.kind == MemoryKind::Pool {
                self.reuse_pooled(new.place.location, new.at, new.bytes);
            }
        }
    }

    fn add_free(&mut self, old: &LiveMemory, at: u64) {
        self.add_change(old.place, at, -1, -(old.bytes as i64));
        if old.place.kind == MemoryKind::Pool {
            let pooled = MemoryPlace { kind: MemoryKind::Pooled, ..old.place };
            *self.pooled.entry(pooled).or_default() += old.bytes;
            self.add_change(pooled, at, 0, old.bytes as i64);
        }
    }

    /// Subtracts what an allocation from pools at a location reuses from the memory that was freed to these pools.
    fn reuse_pooled(&mut self, location: Location, at: u64, mut bytes: u64) {
        let known: Vec<MemoryPlace> = self.pooled.keys().copied().filter(|place| place.location == location).collect();
        for place in known {
            let left = self.pooled.get_mut(&place).expect("its key was just read");
            let taken = bytes.min(*left);
            (*left, bytes) = (*left - taken, bytes - taken);
            if *left == 0 {
                self.pooled.remove(&place);
            }
            self.add_change(place, at, 0, -(taken as i64));
        }
    }

    /// Adds a change of a place: the difference of the number of allocations, and of the bytes.
    pub fn add_change(&mut self, place: MemoryPlace, at: u64, count: i32, bytes: i64) {
        if count == 0 && bytes == 0 {
            return;
        }
        let number = *self.numbers.entry(place).or_insert_with(|| {
            self.places.push(place);
            (self.places.len() - 1) as u32
        });
        self.changes.push(MemoryChange { at, place: number, count, bytes });
        if self.changes.len() > MOST_CHANGES.max(4 * self.places.len()) {
            self.join_changes();
        }
    }

    /// Joins changes until half of them are left.
    fn join_changes(&mut self) {
        let most = (MOST_CHANGES / 2).max(2 * self.places.len());
        self.slot_length = self.slot_length.max(1 << 16);
        while self.changes.len() > most {
            self.slot_length = self.slot_length.saturating_mul(2);
            let grain = self.slot_length;
            self.changes.sort_by_key(|change| (change.at / grain, change.place, change.at));
            self.changes.dedup_by(|next, kept| {
                let is_one = (next.at / grain, next.place) == (kept.at / grain, kept.place);
                if is_one {
                    (kept.count, kept.bytes) = (kept.count.saturating_add(next.count), kept.bytes + next.bytes);
                }
                is_one
            });
            self.changes.retain(|change| change.count != 0 || change.bytes != 0);
            if grain > 1 << 62 {
                break;
            }
        }
    }

    /// Returns all changes with their places, in no particular order.
    pub fn changes(&self) -> impl Iterator<Item = (MemoryPlace, &MemoryChange)> {
        self.changes.iter().map(|change| (self.places[change.place as usize], change))
    }

    /// Returns true if the times of changes are exact.
    pub fn is_exact(&self) -> bool {
        self.slot_length == 0
    }

    /// Returns the memory of each place that has some at a time.
    pub fn memory_at(&self, time: u64) -> BTreeMap<MemoryPlace, MemorySum> {
        let mut sums: BTreeMap<MemoryPlace, (i64, i64, u64)> = BTreeMap::new();
        for (place, change) in self.changes().filter(|(_, change)| change.at <= time) {
            let (count, bytes, made) = sums.entry(place).or_default();
            *count += i64::from(change.count);
            *bytes += change.bytes;
            *made += change.count.max(0) as u64;
        }
        let sum = |(place, (count, bytes, made)): (MemoryPlace, (i64, i64, u64))| {
            // Virtual memory moves between places when it is unmapped, and joined changes hide short-lived allocations.
            let made = (self.is_exact() && place.kind == MemoryKind::Memory).then_some(made);
            (bytes > 0).then_some((place, MemorySum { count: count.max(0) as u64, bytes: bytes as u64, made }))
        };
        sums.into_iter().filter_map(sum).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_report::places::StackTable;

    /// A place of mapped memory.
    fn place() -> MemoryPlace {
        let stack = StackTable::default().find_or_add(0, 0, &[1], &[]);
        MemoryPlace { kind: MemoryKind::Mapped, location: Location::Unknown, stack }
    }

    #[test]
    fn changes_are_joined_and_sums_stay() {
        let mut book = MemoryBook::default();
        let (place, times) = (place(), 3 * MOST_CHANGES as u64);
        for time in 0..times {
            book.add_change(place, 1000 * time, 1, 10);
            book.add_change(
                place,
                1000 * time + 500,
                if time % 4 == 0 { 0 } else { -1 },
                if time % 4 == 0 { 0 } else { -10 },
            );
        }
        assert!(book.changes.len() <= MOST_CHANGES && !book.is_exact());
        let left = times / 4;
        let sum = MemorySum { count: left, bytes: 10 * left, made: None };
        assert_eq!(book.memory_at(u64::MAX).get(&place), Some(&sum));
        let half = book.memory_at(500 * times)[&place].count;
        assert!(half.abs_diff(left / 2) <= left / 50, "{half} of {left}");
    }
}
