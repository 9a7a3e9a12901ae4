//! Findings about data that went from device to device through host memory, although a process has memory at one end open and
//! could have copied directly.
//!
//! A copy to the host and a later copy from the host belong together if their contents have the same hash. Nothing is
//! found if the other device had been given the content by the host before: it is loaded once more. Nor is anything found if a
//! process copied directly in the other direction: the data may only come back.

use super::context::Context;
use super::objects::{copying_object, opening_object};
use super::touched::{SharedRange, SharedRanges};
use crate::follow::ledger::HandleDomain;
use crate::follow::pending::PendingFinding;
use crate::follow::uses::MemoryUse;
use cupeer_record::CopyContent;
use cupeer_report::model::Uuid;
use cupeer_rules::Confidence;
use cupeer_rules::reason::{Ago, Reason};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Number of the latest copies to the host of the same content among which the source of a copy from the host is searched.
const MOST_SOURCES: usize = 16;

/// A copy of a process, with the hash of its content.
#[derive(Clone, Copy)]
struct HashedCopy<'a> {
    process: usize,
    copy: &'a MemoryUse,
    content: CopyContent,
}

/// Content that was copied to the host, and then from the host to another device.
struct Detour<'a> {
    first: (HashedCopy<'a>, HashedCopy<'a>),
    last: u64,
    count: u64,
    bytes: u64,
    /// The process that had the memory at one end open.
    holder: usize,
    range: SharedRange<'a>,
}

/// Copies of content with one hash.
#[derive(Default)]
struct ContentCopies<'a> {
    to_host: Vec<HashedCopy<'a>>,
    /// The devices to which the content was copied from the host, with the times.
    loaded: Vec<(Uuid, u64)>,
    /// The copies that are already part of a detour: number, and process.
    found: BTreeSet<(usize, usize)>,
}

pub fn find_copies_through_host(context: &Context) -> Vec<PendingFinding> {
    let mut domains: BTreeMap<HandleDomain, Vec<HashedCopy>> = BTreeMap::new();
    for (process, stats) in context.all.stats.iter().enumerate() {
        let all = stats.uses.all.iter();
        let all = all.filter_map(|copy| Some(HashedCopy { process, copy, content: copy.content? }));
        domains.entry(context.all.domains[process]).or_default().extend(all);
    }
    domains.retain(|domain, all| {
        let goes = |to_host| all.iter().any(|copied| copied.copy.is_write != to_host);
        goes(true) && goes(false) && context.all.has_all_calls_of(*domain)
    });
    if domains.is_empty() {
        return Vec::new();
    }
    let ranges = context.shared_ranges();
    let mut found = Vec::new();
    for mut all in domains.into_values() {
        all.sort_by_key(|copied| copied.copy.at);
        for ((from, to, ..), detour) in find_detours(context, &all, ranges) {
            found.push(build_finding(context, (from, to), &detour));
        }
    }
    found
}

/// Returns the detours of contents through the host, by devices and processes.
fn find_detours<'a>(
    context: &Context<'a>,
    all: &[HashedCopy<'a>],
    ranges: &SharedRanges<'a>,
) -> BTreeMap<(Uuid, Uuid, usize, usize), Detour<'a>> {
    let mut contents: HashMap<(u64, u64), ContentCopies> = HashMap::new();
    let mut detours: BTreeMap<(Uuid, Uuid, usize, usize), Detour> = BTreeMap::new();
    for copied in all {
        let HashedCopy { process, copy, content } = *copied;
        let ContentCopies { to_host, loaded, found } = contents.entry((content.hash, copy.bytes)).or_default();
        if !copy.is_write {
            to_host.push(*copied);
            continue;
        }
        let belongs = |(number, source): (usize, &HashedCopy<'a>)| {
            let way = match_detour(context, source, copied, ranges)?;
            let is_new = !loaded.iter().any(|(device, at)| *device == way.1 && *at < source.copy.at);
            (is_new && found.insert((number, process))).then_some((*source, way))
        };
        let belonging = to_host.iter().enumerate().rev().take(MOST_SOURCES).find_map(belongs);
        loaded.extend(copy.device.map(|device| (device, copy.at)));
        let Some((source, (from, to, holder, range))) = belonging else { continue };
        let detour = detours.entry((from, to, source.process, process)).or_insert_with(|| Detour {
            first: (source, *copied),
            last: copy.at,
            count: 0,
            bytes: 0,
            holder,
            range,
        });
        (detour.last, detour.count, detour.bytes) = (copy.at, detour.count + 1, detour.bytes + copy.bytes);
    }
    detours
}

/// Returns the two devices of a detour, and the process that had the memory at one end open; `None` if nothing shows that a
/// direct copy was possible.
fn match_detour<'a>(
    context: &Context<'a>,
    source: &HashedCopy<'a>,
    target: &HashedCopy<'a>,
    ranges: &SharedRanges<'a>,
) -> Option<(Uuid, Uuid, usize, SharedRange<'a>)> {
    let at = |copied: &HashedCopy| {
        let copy = copied.copy;
        let is_there = |range: &&SharedRange| range.contains(copy.address, copy.bytes, copy.at);
        ranges.get(&copied.process)?.iter().find(is_there).copied()
    };
    let device = |copied: &HashedCopy, range: Option<SharedRange>| match range {
        Some(range) => range.entry.export.as_ref()?.device,
        None => copied.copy.device,
    };
    let (read, written) = (at(source), at(target));
    let (from, to) = (device(source, read)?, device(target, written)?);
    if from == to {
        return None;
    }
    // The memory at one end of the copy, if the process at the other end has it open, too.
    let held = |range: Option<SharedRange<'a>>, owner: &HashedCopy, other: &HashedCopy| {
        let range = range?;
        if range.open.is_some() && owner.process == other.process {
            return Some((owner.process, range));
        }
        let is_same = |held: &&SharedRange| {
            std::ptr::eq(held.entry, range.entry) && (held.from..held.until).contains(&other.copy.at)
        };
        let held = ranges.get(&other.process)?.iter().find(is_same).copied();
        let held = held.filter(|_| owner.process != other.process)?;
        // The importer, not the exporter, is the holder.
        Some(if held.open.is_some() { (other.process, held) } else { (owner.process, range) })
    };
    let (holder, range) = held(written, target, source).or_else(|| held(read, source, target))?;
    let processes = BTreeSet::from([source.process, target.process]);
    let copies = |from, to| {
        let all = processes.iter().map(|process| context.all.peers.copies_and_bytes(*process, from, to));
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    let (copies_there, copied_there) = copies(from, to);
    // Contents that repeat one word are often equal by accident, so they count only with further evidence.
    let is_known = !source.content.is_constant
        || copies_there > 0 && copied_there == copies_there.saturating_mul(source.copy.bytes);
    (is_known && copies(to, from).0 == 0).then_some((from, to, holder, range))
}

fn build_finding(context: &Context, (from, to): (Uuid, Uuid), detour: &Detour) -> PendingFinding {
    let (source, target) = detour.first;
    let processes = BTreeSet::from([source.process, target.process]);
    let direct = processes.iter().map(|process| context.all.peers.copies_and_bytes(*process, from, to).1).sum::<u64>();
    let open = detour.range.open;
    let opened = open.map_or(detour.range.from, |time| time.opened);
    let reason = Reason::CopyThroughHost {
        bytes: detour.bytes,
        all: detour.bytes.saturating_add(direct),
        from: context.numbered_device(source.process, from),
        to: context.numbered_device(source.process, to),
        holder: context.named_process(detour.holder),
        since: Ago(target.copy.at.saturating_sub(opened)),
    };
    let mut objects = vec![copying_object(target.process, target.copy)];
    let entry = detour.range.entry;
    objects.extend(open.map(|time| opening_object(entry, detour.holder, time)));
    let (process, call) = (source.process, source.copy.call_site());
    let found = PendingFinding::new(&reason, Confidence::Inferred, process, call, 0);
    PendingFinding { last: detour.last, count: detour.count, objects, ..found }
}
