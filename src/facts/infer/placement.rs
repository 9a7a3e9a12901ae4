//! Findings about wrong devices and peers: a process that opened the export of another device or peer than expected, contexts
//! on the devices of other ranks, and devices that only the exporter sees.

use super::awaited::list_names;
use super::context::Context;
use super::objects::{ObjectBuilder, export_object};
use crate::follow::ledger::{HandleDomain, HandleEntry, OpenPeriod};
use crate::follow::pending::PendingFinding;
use cupeer_report::model::{Place, Uuid};
use cupeer_report::places::{NoSymbols, PlaceTable, StackNumber};
use cupeer_rules::reason::{Device, Reason};
use cupeer_rules::{Confidence, Severity};
use cupeer_spec::effect::Object as Kind;
use cupeer_spec::record::slot::finding::role;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Smallest number of exports for which a single wrong open is a finding about devices; a finding about peers needs
/// one more.
const FEWEST: usize = 3;
/// Number of exports of one place above which none of them are compared.
const MOST_EXPORTS: usize = 1024;
/// Number of devices of one process that a sentence names; further ones are only counted.
const MOST_DEVICES: usize = 4;

/// An open of a process that differs from the pattern of all other processes.
struct CrossedOpen<'a> {
    process: usize,
    time: &'a OpenPeriod,
    opened: &'a HandleEntry,
    missed: &'a HandleEntry,
}

/// Returns findings about processes that opened the export of another device or peer than expected.
pub fn find_crossed_opens(context: &Context) -> Vec<PendingFinding> {
    let mut all = Vec::new();
    // The places are only compared, which needs no symbols.
    let mut nameless = NoSymbols;
    let mut unnamed = PlaceTable::new(&context.job.processes, &mut nameless);
    let mut known: BTreeMap<Place, usize> = BTreeMap::new();
    let mut callers: HashMap<StackNumber, usize> = HashMap::new();
    let mut by_process: BTreeMap<(Kind, usize, StackNumber), Vec<&HandleEntry>> = BTreeMap::new();
    let mut by_place: BTreeMap<(Kind, HandleDomain, usize), Vec<&HandleEntry>> = BTreeMap::new();
    for entry in context.all.ledger.handles() {
        let made = entry.export.as_deref().map(|export| (export.process, export.first.site.stack));
        let is_shared = matches!(entry.kind, Kind::Memory | Kind::Pointer | Kind::Allocation);
        let Some((process, stack)) = made.filter(|_| is_shared) else { continue };
        let place = *callers.entry(stack).or_insert_with(|| {
            let next = known.len();
            *known.entry(unnamed.place_and_stack(&context.all.stacks, stack).0.calling_place().clone()).or_insert(next)
        });
        // One entry more than the limit is kept, to recognize lists that are too long.
        let of_process = by_process.entry((entry.kind, process, stack)).or_default();
        let of_place = by_place.entry((entry.kind, entry.domain, place)).or_default();
        for list in [of_process, of_place] {
            list.extend((list.len() <= MOST_EXPORTS).then_some(entry));
        }
    }
    let is_one = |entries: &&Vec<&HandleEntry>| {
        (FEWEST..=MOST_EXPORTS).contains(&entries.len()) && context.all.has_all_calls_of(entries[0].domain)
    };
    for entries in by_process.values().filter(is_one) {
        all.extend(find_crossed_device(context, entries));
    }
    for entries in by_place.values().filter(is_one).filter(|entries| entries.len() > FEWEST) {
        all.extend(find_crossed_peer(context, entries));
    }
    all
}

/// Finds the only importer that did not open the buffer on its own device, if one process exported a buffer per device.
fn find_crossed_device(context: &Context, entries: &[&HandleEntry]) -> Option<PendingFinding> {
    let label = |entry: &HandleEntry| entry.export.as_deref()?.device;
    let found = find_crossed(entries, label, |_, device| device, |own: Uuid| own)?;
    let device = |entry| Some(context.numbered_device(found.process, label(entry)?));
    let (here, there) = (device(found.missed)?, device(found.opened)?);
    Some(build_finding(context, &found, &Reason::RanksCrossedDevices { here, there }))
}

/// Finds the only importer that opened the buffer of another rank than expected, if each rank exported one. The
/// expected buffer is that of the rank at the same distance from the importer's own rank for all importers.
fn find_crossed_peer(context: &Context, entries: &[&HandleEntry]) -> Option<PendingFinding> {
    let count = entries.len() as u32;
    let rank = |process: usize| context.job.processes[process].rank().filter(|rank| *rank < count);
    let label = |entry: &HandleEntry| rank(entry.export.as_deref()?.process);
    let found = (1..count)
        .find_map(|far| find_crossed(entries, label, |process, _| rank(process), |own: u32| (own + far) % count))?;
    let exporter = |entry: &HandleEntry| Some(context.named_process(entry.export.as_deref()?.process));
    let reason = Reason::RanksCrossed { opened: exporter(found.opened)?, missed: exporter(found.missed)? };
    Some(build_finding(context, &found, &reason))
}

/// Finds the only importer that opened another entry than the expected one, which no process opened. Each importer opened one
/// entry, and all entries but that one were opened.
fn find_crossed<'a, L: Copy + Ord>(
    entries: &[&'a HandleEntry],
    label: impl Fn(&HandleEntry) -> Option<L>,
    own: impl Fn(usize, Option<Uuid>) -> Option<L>,
    expected: impl Fn(L) -> L,
) -> Option<CrossedOpen<'a>> {
    let by_label: BTreeMap<L, &'a HandleEntry> =
        entries.iter().map(|entry| Some((label(entry)?, *entry))).collect::<Option<_>>()?;
    let mut importers = BTreeSet::new();
    let mut wrong = None;
    let mut all = 0;
    for (of, opened) in &by_label {
        for import in &opened.imports {
            // A process that failed to open another handle had intended to open the other handle.
            let [time] = &import.times[..] else { return None };
            let wanted = expected(own(import.process, import.device)?);
            let missed = *by_label.get(&wanted)?;
            all += 1;
            if !import.failed.is_empty() || !importers.insert(import.process) {
                return None;
            }
            if wanted != *of {
                let crossed = CrossedOpen { process: import.process, time, opened, missed };
                if wrong.replace(crossed).is_some() {
                    return None;
                }
            }
        }
    }
    let is_whole = by_label.len() == entries.len() && all == entries.len();
    wrong.filter(|found| is_whole && found.missed.imports.is_empty())
}

fn build_finding(context: &Context, found: &CrossedOpen, reason: &Reason) -> PendingFinding {
    let &CrossedOpen { process, time, opened, missed } = found;
    let exports = [opened, missed].into_iter().filter_map(|entry| Some((entry, entry.export.as_deref()?)));
    let objects = exports.map(|(entry, of)| export_object(context, entry, of)).collect();
    PendingFinding { objects, ..PendingFinding::new(reason, Confidence::Inferred, process, time.first_call(), 0) }
}

/// The devices of a rank on a host; `None` for an unknown device.
#[derive(Default)]
struct RankDevices {
    /// The devices of the memory that the rank exports.
    exports: BTreeSet<Option<Uuid>>,
    /// The devices on which the rank opens memory.
    imports: BTreeSet<Option<Uuid>>,
    /// The processes of the rank that hold contexts on several devices.
    holders: Vec<usize>,
}

impl RankDevices {
    /// Returns the only device on which the rank shares memory, without the devices of other ranks.
    fn own_device(&self, is_of_another: impl Fn(&Uuid) -> bool) -> Option<Uuid> {
        let is_own = |device: &&Option<Uuid>| device.as_ref().is_none_or(|device| !is_of_another(device));
        let mut own: BTreeSet<_> = self.exports.iter().filter(is_own).collect();
        own.extend(&self.imports);
        own.pop_first().copied().flatten().filter(|_| own.is_empty())
    }
}

/// Returns findings about ranks that hold a context on the device of another rank, although they open memory only on their own
/// device and enabled no access between the two. The other rank holds a context only on its device.
pub fn find_foreign_contexts(context: &Context) -> Vec<PendingFinding> {
    let all = context.all;
    let mut hosts: BTreeMap<[u8; 16], BTreeMap<u32, RankDevices>> = BTreeMap::new();
    let mut ranks: Vec<Option<([u8; 16], u32)>> = Vec::new();
    for (index, process) in context.job.processes.iter().enumerate() {
        let rank = process.rank().filter(|_| all.has_all_calls_of(all.domains[index]));
        ranks.push(rank.map(|rank| (process.header.boot_id, rank)));
        if let Some(rank) = rank {
            let rank = hosts.entry(process.header.boot_id).or_default().entry(rank).or_default();
            rank.holders.extend(all.stats[index].most_contexts.map(|_| index));
        }
    }
    let mut note = |process: usize, device, of: fn(&mut RankDevices) -> &mut BTreeSet<Option<Uuid>>| {
        if let Some((host, rank)) = &ranks[process]
            && let Some(rank) = hosts.get_mut(host).and_then(|ranks| ranks.get_mut(rank))
        {
            of(rank).insert(device);
        }
    };
    for entry in all.ledger.handles() {
        if let Some(export) = &entry.export {
            note(export.process, export.device, |rank| &mut rank.exports);
        }
        entry.imports.iter().for_each(|import| note(import.process, import.device, |rank| &mut rank.imports));
    }
    hosts.values().flat_map(|ranks| foreign_contexts_of_host(context, ranks)).collect()
}

fn foreign_contexts_of_host(context: &Context, ranks: &BTreeMap<u32, RankDevices>) -> Vec<PendingFinding> {
    // The devices of ranks that hold no other context, each with the only rank whose device it is.
    let mut owners: BTreeMap<Uuid, Option<u32>> = BTreeMap::new();
    for (rank, known) in ranks.iter().filter(|(_, known)| known.holders.is_empty()) {
        if let Some(home) = known.own_device(|_| false) {
            owners.entry(home).and_modify(|owner| *owner = None).or_insert(Some(*rank));
        }
    }
    let mut found: BTreeMap<(u32, Uuid), Vec<(u32, usize)>> = BTreeMap::new();
    for (rank, known) in ranks {
        let Some(home) = known.own_device(|device| owners.contains_key(device)) else { continue };
        for holder in &known.holders {
            let Some(device) = other_context_device(context, *holder, home) else { continue };
            let owner = owners.get(&device).copied().flatten();
            if let Some(owner) = owner.filter(|_| !context.all.peers.has_enabled(*holder, home, device)) {
                found.entry((owner, device)).or_default().push((*rank, *holder));
            }
        }
    }
    let pending = |((owner, device), holders): ((u32, Uuid), Vec<(u32, usize)>)| {
        let first = holders.first()?.1;
        let seen = context.all.stats[first].most_contexts?;
        let its: BTreeSet<u32> = holders.iter().map(|(rank, _)| *rank).collect();
        let exports = its.iter().any(|rank| ranks[rank].exports.contains(&Some(device)));
        let made = |(_, holder): &(u32, usize)| context.all.memories[*holder].most_bytes_on(device);
        let allocated = holders.iter().map(made).fold(0, u64::saturating_add);
        let device = context.numbered_device(first, device);
        let (count, named) = (its.len() as u64, list_names(its.iter().map(u32::to_string)));
        let reason = Reason::RanksHoldDevice { count, ranks: &named, device, owner, exports, allocated };
        let found = PendingFinding::new(&reason, Confidence::Inferred, first, seen.call, 0);
        let processes: Vec<usize> = holders.iter().map(|(_, holder)| *holder).collect();
        // Either of two ranks may be right, and memory may be placed there for the other rank. But if the job fails and all
        // ranks hold the default device of CUDA, they forgot to select their own.
        let has_failed = context.has_failed_process();
        let is_default = its.len() + 1 == ranks.len() && device.ordinal == 0;
        let may_be_right = ranks.len() < FEWEST || exports;
        let said = (may_be_right && !(has_failed && is_default)).then_some(Severity::Note);
        Some(PendingFinding { count: processes.len() as u64, processes, recorded_severity: said, ..found })
    };
    found.into_iter().filter_map(pending).collect()
}

/// Returns the only device except for `home` on which a process holds a context.
fn other_context_device(context: &Context, process: usize, home: Uuid) -> Option<Uuid> {
    let holding = context.all.stats[process].most_contexts?;
    let ordinals = (0..u64::BITS as i32).filter(|ordinal| holding.devices >> ordinal & 1 != 0);
    let device = |ordinal| context.job.processes[process].device(ordinal).map(|device| Uuid(device.uuid));
    let mut held: BTreeSet<Uuid> = ordinals.map(device).collect::<Option<_>>()?;
    let is_held = held.remove(&home);
    held.pop_first().filter(|_| is_held && held.is_empty())
}

/// Returns a clause about the devices that both processes see, for a finding about a device that the importer may not use.
pub fn visible_devices_clause(context: &Context, found: &PendingFinding, objects: &ObjectBuilder) -> Option<String> {
    let process = *found.processes.first()?;
    let export = found.recorded_objects.iter().find(|object| object.what.role == role::EXPORT)?;
    let exporter = objects.process_of(export, process)?;
    let sees = |process: usize| {
        let process = &context.job.processes[process];
        let devices = process.devices.iter().take(MOST_DEVICES);
        let mut named: Vec<String> =
            devices.map(|device| Device { ordinal: device.ordinal, uuid: device.uuid }.to_string()).collect();
        let more = process.devices.len().saturating_sub(MOST_DEVICES);
        named.extend((more > 0).then(|| format!("{more} more")));
        let variable = process.variable("CUDA_VISIBLE_DEVICES");
        let variable = variable.map(|value| format!(" with CUDA_VISIBLE_DEVICES={value}")).unwrap_or_default();
        (!named.is_empty()).then(|| format!("sees {}{variable}", named.join(", ")))
    };
    let (there, here) = (sees(exporter)?, sees(process)?);
    Some(format!("; {}, which exported it, {there}, and this process {here}", context.named_process(exporter)))
}
