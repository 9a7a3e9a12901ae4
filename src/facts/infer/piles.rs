//! Objects that processes make and never release: handles of cuMemCreate, addresses, mappings, pools, exported memory, and
//! exported events. [`growth`](super::growth) decides which of them pile up.

use super::context::Context;
use super::growth::LeftObject;
use super::touched::Used;
use super::unclosed::growth;
use crate::follow::collect::Collected;
use crate::follow::contexts::Context as Created;
use crate::follow::ledger::{CallSite, Entry, Export, HandleDomain};
use crate::follow::marks::Repeated;
use crate::follow::memory::{Birth, Histories, Memory, ReservationHistory};
use crate::follow::pending::PendingFinding;
use crate::follow::pools::OwnPool;
use cupeer_model::{Known, Origin, Process, Reservation, Table, View};
use cupeer_report::places::Stack;
use cupeer_rules::Confidence;
use cupeer_rules::reason::{Growth, Piled, Reason};
use cupeer_spec::effect::Object as Kind;
use std::collections::{BTreeMap, HashMap};

/// Largest number of reserved ranges without a mapping that a process may keep for later use.
const MOST_SPARE: u64 = 16;

/// Objects that one place has made and not released.
pub struct Place {
    /// One of the calls that made the objects.
    call: CallSite,
    made: u64,
    pub left: Vec<LeftObject>,
}

/// The places that make objects: by kind, by true if the objects are in use, and by stack.
pub type Piles = BTreeMap<(Kind, bool, Stack), Place>;

pub fn found(context: &Context, used: &Used) -> Vec<PendingFinding> {
    let marks = context.all.marks.repeated();
    let exports = exports(context.all, used);
    let mut found = Vec::new();
    for (process, fate) in context.all.fates.iter().enumerate() {
        if !fate.shows_what_is_left() {
            continue;
        }
        let memory = &context.all.memories[process];
        let places = own(context.all, memory, used);
        let served = ordinals_in_use(&places);
        for ((kind, is_served, stack), mut place) in places {
            place.left.sort_by_key(|left| left.ordinal);
            if let Some(others) = served.get(&(kind, stack)).filter(|_| !is_served) {
                place.leave_out(others);
            }
            let what = match kind {
                Kind::Allocation => Piled::Allocations,
                Kind::Reservation => Piled::Reservations,
                Kind::Mapping => Piled::Mappings,
                _ => Piled::Pools,
            };
            // Objects in use may be needed, unless each exchange or mark adds one.
            let is_grown = |growth: &Growth| match (kind, growth) {
                (Kind::Mapping, Growth::Marks { .. } | Growth::Steady) | (Kind::Pool, _) => true,
                (Kind::Mapping, _) => false,
                (Kind::Reservation, growth) => matches!(growth, Growth::Idle),
                (_, Growth::Steady | Growth::Marks { .. }) => true,
                _ => !is_served,
            };
            found.extend(pending(context, process, (what, &place), &marks, is_grown));
        }
        for place in contexts(context.all, process).values() {
            found.extend(pending(context, process, (Piled::Contexts, place), &marks, |_| true));
        }
    }
    for ((process, kind, _), place) in exports {
        let what = if kind == Kind::Event { Piled::Events } else { Piled::Exports };
        found.extend(pending(context, process, (what, &place), &marks, |_| true));
    }
    found
}

/// Returns the imports of pools, in order, each with the number of imports of the same pool by then.
fn imports<'a>(pools: impl Iterator<Item = &'a OwnPool>) -> Vec<(Birth, u64, &'a OwnPool)> {
    let each = |own: &'a OwnPool| own.history.births.iter().zip(1..).map(move |(birth, n)| (*birth, n, own));
    let mut all: Vec<_> = pools.flat_map(each).collect();
    all.sort_by_key(|(birth, ..)| birth.call.at);
    all
}

/// Returns the ordinals of the objects in use, by kind and place.
fn ordinals_in_use(piles: &Piles) -> HashMap<(Kind, Stack), Vec<u64>> {
    let served = piles.iter().filter(|((_, is_served, _), _)| *is_served);
    let ordinals = served.map(|((kind, _, stack), place)| {
        let mut ordinals: Vec<u64> = place.left.iter().map(|left| left.ordinal).collect();
        ordinals.sort_unstable();
        ((*kind, *stack), ordinals)
    });
    ordinals.collect()
}

impl Place {
    /// Removes objects with these ordinals from the counts: they count neither as left nor as released.
    fn leave_out(&mut self, others: &[u64]) {
        for left in &mut self.left {
            left.ordinal -= others.partition_point(|other| *other < left.ordinal) as u64;
        }
        self.made -= others.len() as u64;
    }
}

fn pending(
    context: &Context,
    process: usize,
    (what, place): (Piled, &Place),
    marks: &Repeated,
    is_grown: impl Fn(&Growth) -> bool,
) -> Option<PendingFinding> {
    let growth = growth(context, process, (place.made, 0, &place.left), marks).filter(is_grown)?;
    let newest = place.left.last()?.at;
    let is_counted = |left: &LeftObject| growth != Growth::Idle || left.idle.is_some();
    let counted = || place.left.iter().filter(|left| is_counted(left));
    let (left, bytes) = (counted().count() as u64, counted().map(|left| left.bytes).sum());
    // A few reserved ranges are kept for later use.
    if what == Piled::Reservations && left < MOST_SPARE {
        return None;
    }
    let reason = Reason::PilesUp { what, left, made: place.made, bytes, growth };
    let confidence = if growth == Growth::Idle { Confidence::Certain } else { Confidence::Inferred };
    let call = CallSite { at: place.left.first()?.at, ..place.call };
    let found = PendingFinding::new(&reason, confidence, process, call, 0);
    Some(PendingFinding { last: newest, count: left, ..found })
}

/// Returns the memory objects that a process has, by place. Allocations in use are separate from unused ones.
pub fn own(all: &Collected, memory: &Memory, used: &Used) -> Piles {
    let (state, mut piles) = (&memory.state, Piles::new());
    let mut add = |kind: Kind, is_served: bool, birth: Option<Birth>, left: LeftObject, bytes: u64| {
        let Some(Birth { ordinal, call }) = birth else { return };
        let made = state.keeper.made.get(&(kind, call.site.stack)).copied().unwrap_or(0);
        let new = || Place { call, made, left: Vec::new() };
        let place = piles.entry((kind, is_served, call.site.stack)).or_insert_with(new);
        place.left.push(LeftObject { ordinal, at: call.at, bytes, ..left });
    };
    let mut before = None;
    let mut allocations: Vec<_> =
        state.allocations.each().filter(|own| own.references > 0 && own.team.is_none()).collect();
    allocations.sort_by_key(|own| own.history.since());
    for own in allocations.into_iter().filter(|own| own.origin == Origin::Made) {
        let idle = state.keeper.idle.get(&own.id).filter(|_| own.mappings == 0).copied();
        let is_shared = !own.history.exports.is_empty() || own.history.unknown_exports > 0;
        let is_served = own.mappings > 0 || is_shared && idle.is_none();
        let entries = entries(all, memory.domain, Kind::Allocation, &own.history.exports);
        let left = shared_object(&entries, idle, used, &mut before, own.history.since());
        add(Kind::Allocation, is_served, own.history.birth, left, own.bytes);
    }
    for (own, idle) in reservations(state) {
        let left = LeftObject { idle, ..LeftObject::default() };
        add(Kind::Reservation, idle.is_none(), own.history.birth, left, own.bytes);
    }
    let mut before = None;
    let mut mappings: Vec<_> = state.mappings.each().collect();
    mappings.sort_by_key(|own| own.history.mapped().map(|call| call.at));
    for own in mappings {
        let (Some(of), Some(at)) = (state.allocations.entry(own.of), own.history.mapped()) else { continue };
        let exports = entries(all, memory.domain, Kind::Allocation, &of.history.exports);
        let left = shared_object(&exports, None, used, &mut before, at.at);
        // Memory with a handle is reported as an allocation.
        if of.references == 0 && of.origin == Origin::Made {
            add(Kind::Mapping, true, own.history.birth, left, own.bytes);
        }
    }
    let mut before = None;
    for own in state.pools.each().filter(|own| own.origin == Origin::Made && !own.is_destroyed) {
        let exports = entries(all, memory.domain, Kind::Pool, &own.history.exports);
        let left = shared_object(&exports, None, used, &mut before, own.history.since);
        add(Kind::Pool, true, own.history.births.first().copied(), left, 0);
    }
    let imported = state.pools.each().filter(|own| own.origin == Origin::Imported && !own.is_destroyed);
    for (birth, number, own) in imports(imported) {
        // Each open pointer may need an import of its pool.
        let is_again = number > state.pointers_of(own.name).max(1);
        let entry = all.ledger.handle(memory.domain, Kind::Pool, own.history.imported_as);
        let is_new = entry.is_some_and(|entry| entry.is_exported_between(before.unwrap_or(0), birth.call.at));
        before = Some(birth.call.at);
        let is_consumed = is_again || own.history.pointers_imported > 0;
        let left = LeftObject { is_exchanged: is_again || is_new, is_consumed, ..LeftObject::default() };
        add(Kind::Pool, true, Some(birth), left, 0);
    }
    piles
}

/// Returns the reserved address ranges of a process, each with the time since which nothing is mapped there.
fn reservations(state: &Process<Histories>) -> Vec<(&Known<Reservation, ReservationHistory>, Option<u64>)> {
    let mut all: Vec<_> = state.reservations.each().collect();
    all.sort_by_key(|own| std::cmp::Reverse(own.history.birth.map(|birth| birth.call.at)));
    let (mut next, given_up) = (HashMap::new(), &state.keeper.unreserved);
    let with_idle = all.into_iter().map(|own| {
        let since = state.keeper.asleep.since(own.name, own.bytes).or_else(|| {
            // Nothing was ever mapped in the range, although other ranges got and lost mappings since.
            let CallSite { site, at, .. } = own.history.birth?.call;
            let next = next.insert(site.stack, at)?;
            (given_up.until(next) > given_up.until(at)).then_some(at)
        });
        (own, since.filter(|_| state.mappings.touching((own.name, own.bytes)).is_none()))
    });
    with_idle.collect()
}

/// Returns the contexts that a process created and did not destroy, by place. A context with memory counts as in use.
fn contexts(all: &Collected, process: usize) -> BTreeMap<Stack, Place> {
    let (stats, memory) = (&all.stats[process], &all.memories[process]);
    let mut alive: Vec<_> = stats.contexts.alive().collect();
    alive.sort_by_key(|(_, known)| known.birth.call.at);
    let (mut places, mut before) = (BTreeMap::new(), HashMap::new());
    for (handle, Created { birth: Birth { ordinal, call }, used }) in alive {
        let steps = stats.steps.until(call.at);
        let is_exchanged = before.insert(call.site.stack, steps).is_some_and(|before| steps > before + 1);
        let is_consumed = used.is_some() && !memory.state.keeper.book.has_any_in(handle);
        let made = stats.contexts.made[&call.site.stack];
        let new = || Place { call: *call, made, left: Vec::new() };
        let left = LeftObject {
            ordinal: *ordinal,
            at: call.at,
            used: *used,
            is_exchanged,
            is_consumed,
            ..LeftObject::default()
        };
        places.entry(call.site.stack).or_insert_with(new).left.push(left);
    }
    places.values_mut().for_each(|place| place.left.sort_by_key(|left| left.ordinal));
    places
}

fn entries<'a>(all: &'a Collected, domain: HandleDomain, kind: Kind, exports: &[u64]) -> Vec<&'a Entry> {
    exports.iter().filter_map(|export| all.ledger.handle(domain, kind, *export)).collect()
}

/// Returns an object that may be shared, with its last use. It counts as made in an exchange if the previous object was opened
/// before this object was made: `before` is the time of that open, and is set to the first open of this object.
fn shared_object(
    entries: &[&Entry],
    idle: Option<u64>,
    used: &Used,
    before: &mut Option<u64>,
    at: u64,
) -> LeftObject {
    let opened = entries.iter().filter_map(|entry| entry.first_opened()).min();
    let is_exchanged = std::mem::replace(before, opened).is_some_and(|opened| opened <= at);
    let used = entries.iter().filter_map(|entry| used.by_any(entry)).max();
    let is_closed = entries.iter().any(|entry| entry.kind == Kind::Event || entry.was_closed());
    LeftObject { idle, used, is_exchanged, is_consumed: used.is_some() || is_closed, ..LeftObject::default() }
}

impl Entry {
    /// Returns true if the exporter released the object, or could have released it.
    fn is_decided(&self) -> bool {
        self.export.as_ref().is_some_and(|export| export.ended.is_some() || export.is_left(self))
    }

    /// Returns true if an importer closed the object.
    fn was_closed(&self) -> bool {
        self.times().any(|(_, time)| time.ended.is_some())
    }

    fn first_opened(&self) -> Option<u64> {
        self.times().map(|(_, time)| time.opened).min()
    }
}

/// Returns exported memory and events that others opened and that their exporters did not release.
pub fn exports(all: &Collected, used: &Used) -> BTreeMap<(usize, Kind, Stack), Place> {
    let mut sites: BTreeMap<(usize, Kind, Stack), Vec<&Entry>> = BTreeMap::new();
    for (entry, export) in all.ledger.exports() {
        if let Kind::Memory | Kind::Event = entry.kind {
            let stack = export.first.site.stack;
            sites.entry((export.process, entry.kind, stack)).or_default().push(entry);
        }
    }
    let place = |(key, mut all): (_, Vec<&Entry>)| {
        let since = |entry: &Entry| entry.export.as_ref().map_or(0, |export| export.first.at);
        // Memory that an importer still has open counts neither as left nor as released.
        all.retain(|entry| entry.first_opened().is_some() && entry.is_decided());
        all.sort_by_key(|entry| since(entry));
        let call = all.first()?.export.as_ref()?.first;
        let mut place = Place { call, made: all.len() as u64, left: Vec::new() };
        let mut before = None;
        for (entry, ordinal) in all.iter().zip(0..) {
            let left = shared_object(&[entry], None, used, &mut before, since(entry));
            let Some(export) = entry.export.as_ref().filter(|export| export.is_left(entry)) else { continue };
            // An object that is exported again is in use.
            let again = Some(export.last.at).filter(|_| export.times > 1);
            let (bytes, at) = (export.bytes.unwrap_or(0), export.first.at);
            place.left.push(LeftObject { ordinal, at, bytes, used: left.used.max(again), ..left });
        }
        Some((key, place))
    };
    sites
        .into_iter()
        .filter_map(place)
        .filter(|((process, ..), _)| all.fates[*process].shows_what_is_left())
        .collect()
}

impl Export {
    /// Returns true if the object exists and, for memory, no importer has it open: otherwise, the importer keeps the memory.
    fn is_left(&self, entry: &Entry) -> bool {
        let is_there = self.ended.is_none() && self.perhaps_ended.is_empty();
        let mut last = entry.imports.iter().filter_map(|import| import.times.last());
        is_there && (entry.kind == Kind::Event || last.all(|time| time.ended.is_some()))
    }
}
