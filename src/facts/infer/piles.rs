//! Objects that processes make and never release: handles of cuMemCreate, addresses, mappings, pools, exported memory, and
//! exported events. [`growth`](super::growth) decides which of them pile up.

use super::context::Context;
use super::growth::UnreleasedObject;
use super::touched::LastUses;
use super::unclosed::growth_of_objects;
use crate::follow::collect::Collected;
use crate::follow::contexts::LiveContext as Created;
use crate::follow::ledger::{CallSite, Export, HandleDomain, HandleEntry};
use crate::follow::marks::RepeatedMarks;
use crate::follow::memory::{Creation, MemoryHistories, ProcessMemory, ReservationHistory};
use crate::follow::pending::PendingFinding;
use crate::follow::pools::OwnPool;
use cupeer_model::{ObjectOrigin, ProcessObjects, Reservation, Table, TableEntry, View};
use cupeer_report::places::StackNumber;
use cupeer_rules::Confidence;
use cupeer_rules::reason::{Growth, Piled, Reason};
use cupeer_spec::effect::Object as Kind;
use std::collections::{BTreeMap, HashMap};

/// Smallest number of reserved ranges without a mapping for a finding: a few are kept for later use.
const LEAST_UNUSED: u64 = 16;

/// Objects that one place has made and not released.
pub struct PlaceObjects {
    /// One of the calls that made the objects.
    call: CallSite,
    made: u64,
    pub left: Vec<UnreleasedObject>,
}

/// The places that make objects: by kind, by true if the objects are in use, and by stack.
pub type Piles = BTreeMap<(Kind, bool, StackNumber), PlaceObjects>;

pub fn find_piles(context: &Context, used: &LastUses) -> Vec<PendingFinding> {
    let marks = context.all.marks.group_repeated();
    let exports = exports_by_place(context.all, used);
    let mut found = Vec::new();
    for (process, fate) in context.all.fates.iter().enumerate() {
        if !fate.shows_leaks() {
            continue;
        }
        let memory = &context.all.memories[process];
        let places = objects_of_process(context.all, memory, used);
        let served = ordinals_in_use(&places);
        for ((kind, is_served, stack), mut place) in places {
            place.left.sort_by_key(|left| left.ordinal);
            if let Some(others) = served.get(&(kind, stack)).filter(|_| !is_served) {
                place.leave_out_ordinals(others);
            }
            let what = match kind {
                Kind::Allocation => Piled::Allocations,
                Kind::Reservation => Piled::Reservations,
                Kind::Mapping => Piled::Mappings,
                _ => Piled::Pools,
            };
            // Objects in use may be needed, unless each exchange or mark adds one.
            let is_grown = |growth: &Growth| match (kind, growth) {
                (Kind::Mapping, Growth::Marks { .. } | Growth::PerExchange) | (Kind::Pool, _) => true,
                (Kind::Mapping, _) => false,
                (Kind::Reservation, growth) => matches!(growth, Growth::Unused),
                (_, Growth::PerExchange | Growth::Marks { .. }) => true,
                _ => !is_served,
            };
            found.extend(build_finding(context, process, (what, &place), &marks, is_grown));
        }
        for place in contexts_by_place(context.all, process).values() {
            found.extend(build_finding(context, process, (Piled::Contexts, place), &marks, |_| true));
        }
    }
    for ((process, kind, _), place) in exports {
        let what = if kind == Kind::Event { Piled::Events } else { Piled::Exports };
        found.extend(build_finding(context, process, (what, &place), &marks, |_| true));
    }
    found
}

/// Returns the imports of pools, in order, each with the number of imports of the same pool by then.
fn pool_imports<'a>(pools: impl Iterator<Item = &'a OwnPool>) -> Vec<(Creation, u64, &'a OwnPool)> {
    let each = |own: &'a OwnPool| own.history.creations.iter().zip(1..).map(move |(birth, n)| (*birth, n, own));
    let mut all: Vec<_> = pools.flat_map(each).collect();
    all.sort_by_key(|(birth, ..)| birth.call.at);
    all
}

/// Returns the ordinals of the objects in use, by kind and place.
fn ordinals_in_use(piles: &Piles) -> HashMap<(Kind, StackNumber), Vec<u64>> {
    let served = piles.iter().filter(|((_, is_served, _), _)| *is_served);
    let ordinals = served.map(|((kind, _, stack), place)| {
        let mut ordinals: Vec<u64> = place.left.iter().map(|left| left.ordinal).collect();
        ordinals.sort_unstable();
        ((*kind, *stack), ordinals)
    });
    ordinals.collect()
}

impl PlaceObjects {
    /// Removes objects with these ordinals from the counts: they count neither as left nor as released.
    fn leave_out_ordinals(&mut self, others: &[u64]) {
        for left in &mut self.left {
            left.ordinal -= others.partition_point(|other| *other < left.ordinal) as u64;
        }
        self.made -= others.len() as u64;
    }
}

fn build_finding(
    context: &Context,
    process: usize,
    (what, place): (Piled, &PlaceObjects),
    marks: &RepeatedMarks,
    is_grown: impl Fn(&Growth) -> bool,
) -> Option<PendingFinding> {
    let growth = growth_of_objects(context, process, (place.made, 0, &place.left), marks).filter(is_grown)?;
    let newest = place.left.last()?.at;
    let is_counted = |left: &UnreleasedObject| growth != Growth::Unused || left.idle.is_some();
    let counted = || place.left.iter().filter(|left| is_counted(left));
    let (left, bytes) = (counted().count() as u64, counted().map(|left| left.bytes).sum());
    // A few reserved ranges are kept for later use.
    if what == Piled::Reservations && left < LEAST_UNUSED {
        return None;
    }
    let reason = Reason::PilesUp { what, left, made: place.made, bytes, growth };
    let confidence = if growth == Growth::Unused { Confidence::Certain } else { Confidence::Inferred };
    let call = CallSite { at: place.left.first()?.at, ..place.call };
    let found = PendingFinding::new(&reason, confidence, process, call, 0);
    Some(PendingFinding { last: newest, count: left, ..found })
}

/// Returns the memory objects that a process has, by place. Allocations in use are separate from unused ones.
pub fn objects_of_process(all: &Collected, memory: &ProcessMemory, used: &LastUses) -> Piles {
    let (state, mut piles) = (&memory.state, Piles::new());
    let mut add = |kind: Kind, is_served: bool, birth: Option<Creation>, left: UnreleasedObject, bytes: u64| {
        let Some(Creation { ordinal, call }) = birth else { return };
        let made = state.keeper.created_count.get(&(kind, call.site.stack)).copied().unwrap_or(0);
        let new = || PlaceObjects { call, made, left: Vec::new() };
        let place = piles.entry((kind, is_served, call.site.stack)).or_insert_with(new);
        place.left.push(UnreleasedObject { ordinal, at: call.at, bytes, ..left });
    };
    let mut before = None;
    let mut allocations: Vec<_> =
        state.allocations.each().filter(|own| own.references > 0 && own.multicast.is_none()).collect();
    allocations.sort_by_key(|own| own.history.created_at());
    for own in allocations.into_iter().filter(|own| own.origin == ObjectOrigin::Made) {
        let idle = state.keeper.unmapped_since.get(&own.id).filter(|_| own.mappings == 0).copied();
        let is_shared = !own.history.exports.is_empty() || own.history.unknown_exports > 0;
        let is_served = own.mappings > 0 || is_shared && idle.is_none();
        let entries = find_entries(all, memory.domain, Kind::Allocation, &own.history.exports);
        let left = shared_left_object(&entries, idle, used, &mut before, own.history.created_at());
        add(Kind::Allocation, is_served, own.history.creation, left, own.bytes);
    }
    for (own, idle) in reservations_with_idle(state) {
        let left = UnreleasedObject { idle, ..UnreleasedObject::default() };
        add(Kind::Reservation, idle.is_none(), own.history.creation, left, own.bytes);
    }
    let mut before = None;
    let mut mappings: Vec<_> = state.mappings.each().collect();
    mappings.sort_by_key(|own| own.history.mapping_call().map(|call| call.at));
    for own in mappings {
        let (Some(of), Some(at)) = (state.allocations.find(own.allocation), own.history.mapping_call()) else {
            continue;
        };
        let exports = find_entries(all, memory.domain, Kind::Allocation, &of.history.exports);
        let left = shared_left_object(&exports, None, used, &mut before, at.at);
        // Memory with a handle is reported as an allocation.
        if of.references == 0 && of.origin == ObjectOrigin::Made {
            add(Kind::Mapping, true, own.history.creation, left, own.bytes);
        }
    }
    let mut before = None;
    for own in state.pools.each().filter(|own| own.origin == ObjectOrigin::Made && !own.is_destroyed) {
        let exports = find_entries(all, memory.domain, Kind::Pool, &own.history.exports);
        let left = shared_left_object(&exports, None, used, &mut before, own.history.since);
        add(Kind::Pool, true, own.history.creations.first().copied(), left, 0);
    }
    let imported = state.pools.each().filter(|own| own.origin == ObjectOrigin::Imported && !own.is_destroyed);
    for (birth, number, own) in pool_imports(imported) {
        // Each open pointer may need an import of its pool.
        let is_again = number > state.pointers_of(own.name).max(1);
        let entry = all.ledger.find_handle(memory.domain, Kind::Pool, own.history.imported_as);
        let is_new = entry.is_some_and(|entry| entry.is_exported_between(before.unwrap_or(0), birth.call.at));
        before = Some(birth.call.at);
        let is_consumed = is_again || own.history.pointers_imported > 0;
        let left = UnreleasedObject { is_exchanged: is_again || is_new, is_consumed, ..UnreleasedObject::default() };
        add(Kind::Pool, true, Some(birth), left, 0);
    }
    piles
}

/// Returns the reserved address ranges of a process, each with the time since which nothing is mapped there.
fn reservations_with_idle(
    state: &ProcessObjects<MemoryHistories>,
) -> Vec<(&TableEntry<Reservation, ReservationHistory>, Option<u64>)> {
    let mut all: Vec<_> = state.reservations.each().collect();
    all.sort_by_key(|own| std::cmp::Reverse(own.history.creation.map(|birth| birth.call.at)));
    let (mut next, given_up) = (HashMap::new(), &state.keeper.unreserved);
    let with_idle = all.into_iter().map(|own| {
        let since = state.keeper.unmapped_ranges.last_unmapped_at(own.name, own.bytes).or_else(|| {
            // Nothing was ever mapped in the range, although other ranges got and lost mappings since.
            let CallSite { site, at, .. } = own.history.creation?.call;
            let next = next.insert(site.stack, at)?;
            (given_up.count_until(next) > given_up.count_until(at)).then_some(at)
        });
        (own, since.filter(|_| state.mappings.first_overlapping((own.name, own.bytes)).is_none()))
    });
    with_idle.collect()
}

/// Returns the contexts that a process created and did not destroy, by place. A context with memory counts as in use.
fn contexts_by_place(all: &Collected, process: usize) -> BTreeMap<StackNumber, PlaceObjects> {
    let (stats, memory) = (&all.stats[process], &all.memories[process]);
    let mut alive: Vec<_> = stats.contexts.live_contexts().collect();
    alive.sort_by_key(|(_, known)| known.birth.call.at);
    let (mut places, mut before) = (BTreeMap::new(), HashMap::new());
    for (handle, Created { birth: Creation { ordinal, call }, used }) in alive {
        let steps = stats.steps.count_until(call.at);
        let is_exchanged = before.insert(call.site.stack, steps).is_some_and(|before| steps > before + 1);
        let is_consumed = used.is_some() && !memory.state.keeper.book.has_memory_in_context(handle);
        let made = stats.contexts.created_by_stack[&call.site.stack];
        let new = || PlaceObjects { call: *call, made, left: Vec::new() };
        let left = UnreleasedObject {
            ordinal: *ordinal,
            at: call.at,
            used: *used,
            is_exchanged,
            is_consumed,
            ..UnreleasedObject::default()
        };
        places.entry(call.site.stack).or_insert_with(new).left.push(left);
    }
    places.values_mut().for_each(|place| place.left.sort_by_key(|left| left.ordinal));
    places
}

fn find_entries<'a>(all: &'a Collected, domain: HandleDomain, kind: Kind, exports: &[u64]) -> Vec<&'a HandleEntry> {
    exports.iter().filter_map(|export| all.ledger.find_handle(domain, kind, *export)).collect()
}

/// Returns an object that may be shared, with its last use. It counts as made in an exchange if the previous object was opened
/// before this object was made: `before` is the time of that open, and is set to the first open of this object.
fn shared_left_object(
    entries: &[&HandleEntry],
    idle: Option<u64>,
    used: &LastUses,
    before: &mut Option<u64>,
    at: u64,
) -> UnreleasedObject {
    let opened = entries.iter().filter_map(|entry| entry.first_opened()).min();
    let is_exchanged = std::mem::replace(before, opened).is_some_and(|opened| opened <= at);
    let used = entries.iter().filter_map(|entry| used.last_use_by_any(entry)).max();
    let is_closed = entries.iter().any(|entry| entry.kind == Kind::Event || entry.was_closed_by_importer());
    UnreleasedObject {
        idle,
        used,
        is_exchanged,
        is_consumed: used.is_some() || is_closed,
        ..UnreleasedObject::default()
    }
}

impl HandleEntry {
    /// Returns true if the exporter released the object, or could have released it.
    fn is_release_decided(&self) -> bool {
        self.export.as_ref().is_some_and(|export| export.ended.is_some() || export.is_left(self))
    }

    /// Returns true if an importer closed the object.
    fn was_closed_by_importer(&self) -> bool {
        self.open_periods().any(|(_, time)| time.ended.is_some())
    }

    fn first_opened(&self) -> Option<u64> {
        self.open_periods().map(|(_, time)| time.opened).min()
    }
}

/// Returns exported memory and events that others opened and that their exporters did not release.
pub fn exports_by_place(all: &Collected, used: &LastUses) -> BTreeMap<(usize, Kind, StackNumber), PlaceObjects> {
    let mut sites: BTreeMap<(usize, Kind, StackNumber), Vec<&HandleEntry>> = BTreeMap::new();
    for (entry, export) in all.ledger.undamaged_exports() {
        if let Kind::Memory | Kind::Event = entry.kind {
            let stack = export.first.site.stack;
            sites.entry((export.process, entry.kind, stack)).or_default().push(entry);
        }
    }
    let place = |(key, mut all): (_, Vec<&HandleEntry>)| {
        let since = |entry: &HandleEntry| entry.export.as_ref().map_or(0, |export| export.first.at);
        // Memory that an importer still has open counts neither as left nor as released.
        all.retain(|entry| entry.first_opened().is_some() && entry.is_release_decided());
        all.sort_by_key(|entry| since(entry));
        let call = all.first()?.export.as_ref()?.first;
        let mut place = PlaceObjects { call, made: all.len() as u64, left: Vec::new() };
        let mut before = None;
        for (entry, ordinal) in all.iter().zip(0..) {
            let left = shared_left_object(&[entry], None, used, &mut before, since(entry));
            let Some(export) = entry.export.as_ref().filter(|export| export.is_left(entry)) else { continue };
            // An object that is exported again is in use.
            let again = Some(export.last.at).filter(|_| export.times > 1);
            let (bytes, at) = (export.bytes.unwrap_or(0), export.first.at);
            place.left.push(UnreleasedObject { ordinal, at, bytes, used: left.used.max(again), ..left });
        }
        Some((key, place))
    };
    sites.into_iter().filter_map(place).filter(|((process, ..), _)| all.fates[*process].shows_leaks()).collect()
}

impl Export {
    /// Returns true if the object exists and, for memory, no importer has it open: otherwise, the importer keeps the memory.
    fn is_left(&self, entry: &HandleEntry) -> bool {
        let is_there = self.ended.is_none() && self.perhaps_ended.is_empty();
        let mut last = entry.imports.iter().filter_map(|import| import.times.last());
        is_there && (entry.kind == Kind::Event || last.all(|time| time.ended.is_some()))
    }
}
