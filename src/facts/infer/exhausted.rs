//! Findings about what a process has used up: device memory that importers keep, addresses, and file descriptors.
//!
//! Each is one finding at the call that found nothing left, with a total.

use super::context::Context;
use super::objects::{in_words, made, opening};
use crate::follow::collect::Collected;
use crate::follow::exhausted_calls::Scarce;
use crate::follow::judged::UNSEEN;
use crate::follow::ledger::{Import, Time};
use crate::follow::memory::Location;
use crate::follow::pending::{PendingFinding, PendingObject};
use crate::follow::virtual_memory::{Origin, Until};
use cupeer_rules::reason::Reason;
use cupeer_rules::{Confidence, Rule};
use cupeer_spec::effect::Object as Kind;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The addresses that a process has, on the machines where there are fewest.
const ADDRESSES: u64 = 1 << 47;
/// Where so many are reserved, what is left lies in pieces, because programs and libraries are between them.
const MOST_ADDRESSES: u64 = ADDRESSES / 16 * 15;
/// So many descriptors must have been exported or imported, none of which came back, before the finding counts them.
const MANY: u64 = 16;
/// The most importers of which the finding shows a call.
const MOST_OBJECTS: usize = 4;

/// Allocations that failed while other processes kept memory that its owners had released, and addresses that a
/// process had reserved.
pub fn found(context: &Context) -> Vec<PendingFinding> {
    let mut found = Vec::new();
    for (process, tally) in context.all.tallies.iter().enumerate() {
        for scarce in &tally.scarce {
            found.extend(memory(context, process, scarce));
            found.extend(addresses(process, scarce));
        }
    }
    found
}

fn pending(reason: &Reason, confidence: Confidence, process: usize, scarce: &Scarce) -> PendingFinding {
    let call = (scarce.function, cupeer_spec::results::Result::OUT_OF_MEMORY as i32);
    let found = PendingFinding::of(reason, confidence, call, process as u32, (scarce.site, scarce.at));
    PendingFinding { last: scarce.last, count: scarce.count, ..found }
}

/// An allocation that other processes keep, and that its owner has released.
#[derive(Default)]
struct KeptMemory {
    bytes: u64,
    /// The processes that keep it, each with the fingerprint by which it has it; 0 if unknown.
    holders: BTreeMap<usize, u64>,
    /// Whether one of them is known to have run until then.
    is_sure: bool,
}

impl KeptMemory {
    fn add(&mut self, bytes: u64, holder: usize, fingerprint: u64, is_sure: bool) {
        self.bytes = self.bytes.max(bytes);
        self.holders.insert(holder, fingerprint);
        self.is_sure |= is_sure;
    }
}

/// Kept memory by its owner, and by what it is there: an allocation, or the memory at an address.
type Kept = BTreeMap<(usize, Kind, u64), KeptMemory>;

/// A failed allocation while other processes kept memory of one owner.
fn memory(context: &Context, process: usize, scarce: &Scarce) -> Option<PendingFinding> {
    if !Rule::MemoryKept.spec().functions().contains(&scarce.function) {
        return None;
    }
    let (owner, kept) = kept_of_owner(context, process, scarce)?;
    let bytes = kept.values().map(|one| one.bytes).sum::<u64>();
    let mut by_holder = BTreeMap::<usize, u64>::new();
    for one in kept.values() {
        one.holders.keys().for_each(|holder| *by_holder.entry(*holder).or_default() += one.bytes);
    }
    let mut holders: Vec<usize> = by_holder.keys().copied().collect();
    holders.sort_by_key(|holder| Reverse(by_holder[holder]));
    let first = *holders.first()?;
    let reason = Reason::MemoryKept {
        bytes,
        allocations: kept.len() as u64,
        owner: (owner != process).then(|| in_words(context.job, owner as u32)),
        holders: holders.len() as u64,
        first: in_words(context.job, first as u32),
        unmaps_nothing: context.all.virtual_memory.has_unmapped_nothing(first),
    };
    let lacks_facts = scarce.location == Location::Unknown;
    let is_enough = scarce.wanted.is_some_and(|wanted| bytes >= wanted);
    let is_certain = is_enough && kept.values().all(|one| one.is_sure);
    let confidence = if is_certain { Confidence::Certain } else { Confidence::Inferred };
    let shown = holders.into_iter().take(MOST_OBJECTS);
    let objects = shown.filter_map(|holder| holding(context.all, &kept, holder)).collect();
    Some(PendingFinding { lacks_facts, objects, ..pending(&reason, confidence, process, scarce) })
}

/// The owner whose memory others keep when a call of a process failed, and that memory.
fn kept_of_owner(context: &Context, process: usize, scarce: &Scarce) -> Option<(usize, Kept)> {
    let mut kept = Kept::new();
    allocations(context.all, scarce, &mut kept);
    opened(context.all, scarce, &mut kept);
    // Only memory of the same host can be on the same device.
    let host = |process: usize| context.job.processes[process].header.boot_id;
    kept.retain(|(owner, ..), _| host(*owner) == host(process));
    let mut by_owner = BTreeMap::<usize, u64>::new();
    for ((owner, ..), one) in &kept {
        *by_owner.entry(*owner).or_default() += one.bytes;
    }
    // What the process itself released is the likelier cause; otherwise, the owner of most of it is named.
    let owner = match by_owner.get(&process) {
        Some(1..) => process,
        _ => by_owner.iter().max_by_key(|(_, bytes)| **bytes).map(|(owner, _)| *owner)?,
    };
    kept.retain(|(of, ..), _| *of == owner);
    (by_owner[&owner] > 0).then_some((owner, kept))
}

/// The call by which a process got what it keeps.
fn holding(all: &Collected, kept: &Kept, holder: usize) -> Option<PendingObject> {
    let held = kept.iter().find_map(|((_, kind, _), one)| Some((*kind, *one.holders.get(&holder)?)));
    let (kind, fingerprint) = held?;
    let entry = all.ledger.handle(all.realms[holder], kind, fingerprint)?;
    let import = entry.imports.iter().find(|import| import.process as usize == holder)?;
    Some(opening(entry, holder as u32, import.times.first()?))
}

/// Adds the allocations that processes kept when a call failed, although their owners had released them.
fn allocations(all: &Collected, scarce: &Scarce, kept: &mut Kept) {
    let joined = all.virtual_memory.joined();
    for holder in 0..all.fates.len() {
        for held in joined.held(holder) {
            let Some(found) = joined.kept(holder, &held, &all.fates) else { continue };
            let (until, is_sure) = match found.until {
                Until::Now => (u64::MAX, true),
                Until::GivenUp(at) => (at, true),
                Until::Exit(at) => (at.saturating_add(UNSEEN), scarce.at < at),
            };
            let is_kept = found.since < scarce.at && scarce.at < until;
            let Origin::Known(owner, number) = held.origin else { continue };
            if is_kept && is_there(held.location, scarce) {
                let one = kept.entry((owner, Kind::Allocation, u64::from(number))).or_default();
                one.add(held.bytes, holder, held.fingerprint().unwrap_or(0), is_sure);
            }
        }
    }
}

/// Adds the memory that processes had open when a call failed, although its exporters had freed it.
fn opened(all: &Collected, scarce: &Scarce, kept: &mut Kept) {
    for entry in all.ledger.handles().iter().filter(|entry| entry.kind.is_memory()) {
        let Some(export) = entry.export.as_deref() else { continue };
        let location = export.device.map_or(Location::Unknown, Location::Device);
        let freed = export.ended.and_then(|ended| ended.at).filter(|at| *at < scarce.at);
        if freed.is_none() || !is_there(location, scarce) {
            continue;
        }
        let is_other = |import: &&Import| import.process != export.process;
        for import in entry.imports.iter().filter(is_other) {
            let open = import.times.iter().find_map(|time| open_at(all, import, time, scarce.at));
            if let Some(is_sure) = open {
                let one = kept.entry((export.process as usize, entry.kind, entry.fingerprint)).or_default();
                one.add(export.bytes.unwrap_or(0), import.process as usize, entry.fingerprint, is_sure);
            }
        }
    }
}

/// Returns whether an importer is known to have run until a time at which it had something open. `None` if it had not, as
/// far as its recording shows.
fn open_at(all: &Collected, import: &Import, time: &Time, at: u64) -> Option<bool> {
    let fate = &all.fates[import.process as usize];
    let (until, is_sure) = match time.ended {
        Some(ended) => (ended.at.unwrap_or(0), true),
        None if fate.has_lost || time.kept.is_some() => (0, false),
        None if fate.alive == Some(false) => (fate.last_seen.saturating_add(UNSEEN), at < fate.last_seen),
        None => (u64::MAX, true),
    };
    (time.opened < at && at < until).then_some(is_sure)
}

/// Returns true if memory is on the device for which a call failed. Of a call whose place is unknown, any device is.
fn is_there(location: Location, scarce: &Scarce) -> bool {
    match scarce.location {
        Location::Device(_) => location == scarce.location,
        Location::Unknown => matches!(location, Location::Device(_) | Location::Unknown),
        Location::Host | Location::Multicast => false,
    }
}

fn addresses(process: usize, scarce: &Scarce) -> Option<PendingFinding> {
    if !Rule::AddressesExhausted.spec().functions().contains(&scarce.function) {
        return None;
    }
    let (wanted, reserved) = (scarce.wanted?, scarce.reserved);
    // What never fits is not kept from fitting by what is reserved.
    let all = reserved.bytes.saturating_add(wanted);
    let is_exhausted = wanted <= ADDRESSES && all >= MOST_ADDRESSES;
    let confidence = if all >= ADDRESSES { Confidence::Certain } else { Confidence::Inferred };
    let reason = Reason::AddressesExhausted { wanted, reserved: reserved.bytes, ranges: reserved.now };
    is_exhausted.then(|| pending(&reason, confidence, process, scarce))
}

/// Adds to a finding of a process that has reached its limit of files how many descriptors it seems to keep, and where they
/// come from.
pub fn add_descriptors(context: &Context, found: &mut PendingFinding) {
    let process = found.processes[0];
    let of = &context.all.tallies[process].descriptors;
    for (numbers, what) in [(&of.exported, "exported"), (&of.imported, "imported")] {
        if numbers.times < MANY || !numbers.are_all_new() {
            continue;
        }
        let Some(first) = numbers.first else { continue };
        found.message += &format!("; {} descriptors that it {what} seem never to be closed", numbers.times);
        found.objects.push(made(process, &first, what == "exported"));
    }
}
