//! Findings about resources that ran out: device memory, addresses, and file descriptors.
//!
//! Each finding is about the call that failed for lack of the resource, and names the total in use.

use super::context::Context;
use super::objects::{descriptor_object, opening_object};
use super::shortage::{self, MemoryGroup, MemoryShortage, allocating_stack};
use crate::follow::allocator::Allocators;
use crate::follow::collect::Collected;
use crate::follow::holdings::{MemoryHolding, MemoryState};
use crate::follow::memory::OwnAllocation;
use crate::follow::oom_calls::OomCall;
use crate::follow::pending::{PendingFinding, PendingObject};
use cupeer_report::model::Place;
use cupeer_report::names::{clean, counted, number};
use cupeer_report::places::PlaceTable;
use cupeer_rules::reason::{Reason, Size};
use cupeer_rules::{Confidence, Rule};
use cupeer_spec::effect::Object as Kind;
use cupeer_spec::record::slot::finding::role;
use std::cmp::Reverse;

/// Size of the address space of a process in bytes, on the machines with the smallest.
const ADDRESSES: u64 = 1 << 47;
/// Number of reserved bytes of addresses beyond which no large range is free, because programs and libraries are in between.
const MOST_ADDRESSES: u64 = ADDRESSES / 16 * 15;
/// Number of never closed descriptors from which on a finding mentions them.
const MANY: u64 = 16;
/// Number of places or importers that a finding lists: the first ones.
const MOST_OBJECTS: usize = 4;
/// Number of places of one holder that a sentence names; the rest is summed up.
const MOST_PLACES: usize = 3;
/// Number of further holders that a sentence names: the first ones.
const MOST_OTHERS: usize = 2;

/// Returns findings about calls that failed because a device had no memory left, or a process no addresses.
pub fn find_exhausted(context: &Context, places: &mut PlaceTable) -> Vec<PendingFinding> {
    let mut found = Vec::new();
    for shortage in &shortage::find_shortages(context) {
        found.extend(find_memory_shortage(context, shortage, places));
    }
    for (process, stats) in context.all.stats.iter().enumerate() {
        for oom in &stats.oom_calls {
            found.extend(find_address_shortage(process, oom));
        }
    }
    found
}

fn build_finding(reason: &Reason, confidence: Confidence, process: usize, oom: &OomCall) -> PendingFinding {
    let result = cupeer_spec::results::Result::OUT_OF_MEMORY as i32;
    let found = PendingFinding::new(reason, confidence, process, oom.first, result);
    PendingFinding { last: oom.last, count: oom.count, ..found }
}

/// Returns a finding about a failed allocation, with the memory that explains it.
fn find_memory_shortage(
    context: &Context,
    shortage: &MemoryShortage,
    places: &mut PlaceTable,
) -> Option<PendingFinding> {
    let MemoryShortage { process, oom, left, .. } = *shortage;
    if !Rule::MemoryExhausted.spec().functions().contains(&oom.first.function) {
        return None;
    }
    let device = context.numbered_device(process, shortage.device);
    let (wanted, groups) = (shortage.wanted, shortage.groups_by_cause());
    let first = groups.first();
    let is_own_waste = first.is_some_and(|group| group.process == process && group.state != MemoryState::InUse);
    let lacks_facts = shortage.is_guess || is_harmless(context, process, oom, is_own_waste);
    let plain = |reason: &Reason, confidence| {
        Some(PendingFinding { lacks_facts, ..build_finding(reason, confidence, process, oom) })
    };
    if let (Some(wanted), Some((most, used, made))) = (wanted, oom.pool_limit_and_use)
        && used.saturating_add(wanted) > most
    {
        let (place, _) = places.place_and_stack(&context.all.stacks, made);
        let place = &place.line_or_long();
        return plain(&Reason::MemoryLimited { wanted, used, most, place }, Confidence::Certain);
    }
    match (wanted, left) {
        (Some(wanted), Some((_, total))) if wanted > total => {
            return plain(&Reason::MemoryTooLarge { wanted, total, device }, Confidence::Certain);
        }
        (Some(wanted), Some(left)) if !shortage.is_short() => {
            return plain(&Reason::MemoryRefused { wanted, left, device }, Confidence::Inferred);
        }
        _ => {}
    }
    if !shortage.is_short() || first.is_none() && left.is_none() {
        return None;
    }
    let sure = |group: &MemoryGroup| would_suffice(shortage, group) && group.rows.iter().all(|row| row.is_sure);
    let confidence = if first.is_some_and(sure) { Confidence::Certain } else { Confidence::Inferred };
    let (others, objects) = match first {
        // Kept memory that is smaller than the lacking bytes cannot be the cause.
        Some(kept) if kept.state == MemoryState::Kept && (left.is_none() || would_suffice(shortage, kept)) => {
            let found = find_kept_memory(context, shortage, kept, confidence);
            return Some(PendingFinding { lacks_facts, ..found });
        }
        Some(group) if is_main_cause(shortage, group) => (&groups[1..], place_objects(shortage, group)),
        _ => (&groups[..], Vec::new()),
    };
    let named = first.filter(|group| is_main_cause(shortage, group));
    let holder =
        named.map_or_else(|| outside_sentence(shortage), |group| holder_clause(context, shortage, group, places));
    let reason = Reason::MemoryExhausted { holder: &holder, wanted, left, device };
    let mut found = build_finding(&reason, confidence, process, oom);
    found.hint = named.and_then(|group| specific_hint(context, shortage, group)).unwrap_or(found.hint);
    found.message += &named.map_or_else(String::new, |group| retained_clause(context, group, places));
    found.message += &named.map_or_else(String::new, |group| origin_clause(context, shortage, group, places));
    found.message += &other_holders_clause(context, shortage, others);
    Some(PendingFinding { lacks_facts, objects, ..found })
}

/// Returns true if freeing a group of memory would have been enough for the failed call.
fn would_suffice(shortage: &MemoryShortage, group: &MemoryGroup) -> bool {
    shortage.lacking_bytes().is_some_and(|lacking| group.bytes >= lacking)
}

/// Returns true if a group counts as the cause: it is larger than the memory of processes outside of the job, and than the memory
/// without a row.
fn is_main_cause(shortage: &MemoryShortage, group: &MemoryGroup) -> bool {
    let outside: u64 = shortage.outside.iter().map(|(.., bytes)| bytes).sum();
    would_suffice(shortage, group) || group.bytes >= outside.max(shortage.unaccounted_bytes().unwrap_or(0))
}

/// Returns true if a failure is no problem: the thread got what it asked for later, or less and the process did not fail; or the
/// process did without, and no process of the job failed, or it had allocated until nothing was left.
fn is_harmless(context: &Context, process: usize, oom: &OomCall, is_own_waste: bool) -> bool {
    let fate = &context.all.fates[process];
    let has_ended_well = fate.alive == Some(false) && !fate.has_failed;
    match oom.allocated_later {
        Some(got) => oom.wanted.is_some_and(|wanted| got >= wanted) || !fate.has_failed,
        None => {
            let has_failed = || context.has_failed_process();
            has_ended_well && !is_own_waste && (oom.had_succeeded || !has_failed())
        }
    }
}

/// Returns a clause about memory with the places that allocated it: `2 allocations (1 GiB) made at prog.c:7 in allocate have no
/// mapping`. Several places follow at the end of the clause.
fn memory_clause(
    context: &Context,
    shortage: &MemoryShortage,
    group: &MemoryGroup,
    verb: [&str; 2],
    places: &mut PlaceTable,
) -> String {
    let verb = if group.count <= 1 { verb[0] } else { verb[1] };
    let made = if let [row] = group.rows[..] { row.made } else { None };
    let many = format!("{} ({})", count_clause(group.count.max(1), made), Size(group.bytes));
    let many = match group.process == shortage.process {
        true => many,
        false => format!("{many} of {}", owner_words(context, shortage, group.process)),
    };
    if let [row] = group.rows[..] {
        let made = place_words(context, row, places).map_or_else(String::new, |place| format!(" made at {place}"));
        return format!("{many}{made} {verb}");
    }
    format!("{many} {verb}: {}", places_clause(context, group, places))
}

/// Returns `25 allocations`, or `25 of 126 allocations` if `made` is larger.
fn count_clause(count: u64, made: Option<u64>) -> String {
    match made {
        Some(made) if made > count => format!("{} of {}", number(count), counted(made, "allocation")),
        _ => counted(count, "allocation"),
    }
}

/// Returns the places of a group: `600 MiB made at prog.c:7 in allocate, 400 MiB made elsewhere`.
fn places_clause(context: &Context, group: &MemoryGroup, places: &mut PlaceTable) -> String {
    let (mut parts, mut rest) = (Vec::new(), group.bytes);
    for row in group.rows.iter().take(MOST_PLACES) {
        let Some(place) = place_words(context, row, places) else { continue };
        rest = rest.saturating_sub(row.bytes);
        let count = match row.made {
            Some(made) if made == row.count && made > 1 => format!(" (all {})", counted(made, "allocation")),
            Some(made) if made > 1 => format!(" ({})", count_clause(row.count, row.made)),
            _ => String::new(),
        };
        parts.push(format!("{}{count} made at {place}", Size(row.bytes)));
    }
    parts.extend((rest > 0).then(|| format!("{} made elsewhere", Size(rest))));
    parts.join(", ")
}

/// Returns the place that allocated memory: `prog.c:7 in allocate`; `None` if unknown.
fn place_words(context: &Context, row: &MemoryHolding, places: &mut PlaceTable) -> Option<String> {
    let (place, _) = (row.stack.is_some() || row.address.is_some()).then(|| allocating_stack(context, row, places))?;
    Some(place.line_or_long())
}

/// Returns `this process`, or the name of another process with its pid.
fn owner_words(context: &Context, shortage: &MemoryShortage, process: usize) -> String {
    match process == shortage.process {
        true => "this process".to_owned(),
        false => context.named_process(process).to_string(),
    }
}

/// Returns a clause about the holder of most of the memory.
fn holder_clause(context: &Context, shortage: &MemoryShortage, group: &MemoryGroup, places: &mut PlaceTable) -> String {
    let owner = owner_words(context, shortage, group.process);
    let verb = match group.state {
        MemoryState::InUse if group.process == shortage.process => ["is still in use", "are still in use"],
        MemoryState::InUse => {
            let (many, held) = (counted(group.count.max(1), "allocation"), Size(group.bytes));
            return format!("{owner} holds {held} in {many}: {}", places_clause(context, group, places));
        }
        MemoryState::Unmapped => {
            ["has no mapping, and its handle was not released", "have no mapping, and their handles were not released"]
        }
        MemoryState::NeverImported => {
            ["was exported, and no process imported it", "were exported, and no process imported them"]
        }
        MemoryState::Kept => ["was released, and importers keep it", "were released, and importers keep them"],
        MemoryState::Pooled => {
            return format!("{} that {owner} freed to its pools seem to be kept there", Size(group.bytes));
        }
    };
    memory_clause(context, shortage, group, verb, places)
}

/// Returns the sentence for the case that most of the used memory is in no row.
fn outside_sentence(shortage: &MemoryShortage) -> String {
    match shortage.outside.iter().max_by_key(|(.., bytes)| bytes) {
        Some((pid, name, size)) => {
            let name = if name.is_empty() { String::new() } else { format!(" ({})", clean(name)) };
            format!("process {pid}{name}, which is not in this job, holds {}", Size(*size))
        }
        None => format!(
            "{} are held by processes outside of this job, by contexts, or by the driver",
            Size(shortage.unaccounted_bytes().unwrap_or(0))
        ),
    }
}

/// Returns a hint that is more specific than that of the rule, if there is one.
fn specific_hint(context: &Context, shortage: &MemoryShortage, group: &MemoryGroup) -> Option<String> {
    let mut stacks = group.rows.iter().filter_map(|row| row.stack);
    let is_cached =
        stacks.any(|stack| Allocators::is_from_pytorch_allocator(&context.job.processes, &context.all.stacks, stack));
    let text = match group.state {
        MemoryState::Unmapped => {
            "Release each handle of cuMemCreate with cuMemRelease after cuMemMap: a mapping keeps the memory by itself. A handle of cuMemRetainAllocationHandle is another reference, with a release of its own."
        }
        MemoryState::NeverImported => {
            "On the path on which no process imports the memory, undo everything: unmap it (cuMemUnmap, cuMemAddressFree), release it (cuMemRelease, or cuMemFree), and close the descriptor. Then do not try the same exchange again."
        }
        MemoryState::Pooled => {
            "Return the unused memory of the pool with cuMemPoolTrimTo before this call, or lower its release threshold (CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)."
        }
        MemoryState::InUse if is_cached && group.process != shortage.process => {
            "PyTorch's caching allocator in that process keeps the memory of freed tensors: call torch.cuda.empty_cache() there before this call. If the tensors are still in use, free them first."
        }
        MemoryState::InUse if is_cached => {
            "PyTorch's caching allocator made this memory, and keeps the memory of freed tensors: torch.cuda.empty_cache() returns it. If the tensors are still in use, free them, or ask for less."
        }
        MemoryState::InUse if group.process != shortage.process => {
            "Let that process free the memory before this call, or divide the device between the processes."
        }
        MemoryState::Kept => Rule::MemoryKept.spec().hint(),
        MemoryState::InUse => return None,
    };
    Some(text.into())
}

/// Returns the objects of a finding for the places of a group.
fn place_objects(shortage: &MemoryShortage, group: &MemoryGroup) -> Vec<PendingObject> {
    let rows = group.rows.iter().filter(|row| row.stack.is_some()).take(MOST_OBJECTS);
    let object = |row: &&&MemoryHolding| PendingObject {
        stack: row.stack,
        bytes: Some(row.bytes),
        device: Some(shortage.device),
        ..PendingObject::from_optional_site(role::ALLOCATION, row.process, None, None)
    };
    rows.map(|row| object(&row)).collect()
}

/// Returns a clause about the place that retained handles of unmapped memory; empty if there is none.
fn retained_clause(context: &Context, group: &MemoryGroup, places: &mut PlaceTable) -> String {
    let memory = &context.all.memories[group.process];
    let stack = group.rows[0].stack.filter(|_| group.state == MemoryState::Unmapped);
    let is_its = |own: &&OwnAllocation| {
        own.history.creating_stack() == stack && stack.is_some() && own.history.ended.is_none() && own.mappings == 0
    };
    let Some(at) = memory.allocations().filter(is_its).find_map(|own| own.history.retained_at) else {
        return String::new();
    };
    let (place, _) = places.place_and_stack(&context.all.stacks, at.site.stack);
    let place = place.line_or_long();
    format!("; cuMemRetainAllocationHandle at {place} took references of them, too")
}

/// Returns a clause about the line of the program that led to the failed call, if small allocations are only known to come from a
/// library that allocates for others; empty otherwise.
fn origin_clause(context: &Context, shortage: &MemoryShortage, group: &MemoryGroup, places: &mut PlaceTable) -> String {
    let (_, frames) = places.place_and_stack(&context.all.stacks, shortage.oom.first.site.stack);
    let counted = group.rows[0].address.filter(|_| group.process == shortage.process);
    let made = counted.map(|address| places.find_place(group.process, u64::MAX, address));
    let at = made.and_then(|made| frames.iter().position(|frame| frame.source() == made.source()));
    let line = at.and_then(|at| frames.get(at + 1)).and_then(Place::line);
    line.map_or_else(String::new, |line| format!("; the failed call came from {line}"))
}

/// Returns a clause about the other holders and the rest: `; process 7 has 2GiB; 512MiB have no row`.
fn other_holders_clause(context: &Context, shortage: &MemoryShortage, others: &[MemoryGroup]) -> String {
    let mut text = String::new();
    let total = shortage.left.map_or(0, |(_, total)| total);
    let told = others.iter().filter(|group| group.bytes >= total / 100).take(MOST_OTHERS);
    for group in told {
        let (owner, bytes) = (owner_words(context, shortage, group.process), Size(group.bytes));
        text += &match group.state {
            MemoryState::InUse => format!("; {owner} has {bytes} in use"),
            MemoryState::Unmapped => format!("; {owner} has {bytes} without a mapping"),
            MemoryState::NeverImported => format!("; {owner} has {bytes} that no process imported"),
            MemoryState::Kept => format!("; importers keep {bytes} that {owner} had released"),
            MemoryState::Pooled => format!("; pools of {owner} may keep {bytes} that were freed to them"),
        };
    }
    text
}

/// Returns a finding about an allocation that failed while importers kept memory that its owner had freed.
fn find_kept_memory(
    context: &Context,
    shortage: &MemoryShortage,
    kept: &MemoryGroup,
    confidence: Confidence,
) -> PendingFinding {
    let MemoryShortage { process, oom, device, .. } = *shortage;
    let mut holders: Vec<(usize, u64)> = Vec::new();
    for (holder, fingerprint) in kept.rows.iter().flat_map(|row| &row.holders) {
        if !holders.iter().any(|(known, _)| known == holder) {
            holders.push((*holder, *fingerprint));
        }
    }
    holders.sort_by_key(|(holder, _)| {
        Reverse(context.holdings().bytes_kept_by(*holder, kept.process, device, oom.failed_at))
    });
    let first = holders.first().map_or(kept.process, |(holder, _)| *holder);
    let reason = Reason::MemoryKept {
        bytes: kept.bytes,
        allocations: kept.count,
        owner: (kept.process != process).then(|| context.named_process(kept.process)),
        holders: holders.len() as u64,
        first: context.named_process(first),
        unmaps_nothing: context.all.memories[first].has_unmapped_nothing(),
    };
    let shown = holders.into_iter().take(MOST_OBJECTS);
    let objects = shown.filter_map(|(holder, handle)| import_of_kept(context.all, holder, handle)).collect();
    PendingFinding { objects, ..build_finding(&reason, confidence, process, oom) }
}

/// Returns the call by which a process imported the memory that it keeps.
fn import_of_kept(all: &Collected, holder: usize, fingerprint: u64) -> Option<PendingObject> {
    let kinds = [Kind::Allocation, Kind::Memory, Kind::Pointer].iter();
    let mut entries = kinds.filter_map(|kind| all.find_handle(holder, *kind, fingerprint));
    entries.find_map(|entry| Some(opening_object(entry, holder, entry.import_by(holder)?.times.first()?)))
}

fn find_address_shortage(process: usize, oom: &OomCall) -> Option<PendingFinding> {
    if !Rule::AddressesExhausted.spec().functions().contains(&oom.first.function) {
        return None;
    }
    let (wanted, reserved) = (oom.wanted?, oom.reserved);
    // If the wanted size would never fit, the reservations are not the cause.
    let all = reserved.bytes.saturating_add(wanted);
    let is_exhausted = wanted <= ADDRESSES && all >= MOST_ADDRESSES;
    let confidence = if all >= ADDRESSES { Confidence::Certain } else { Confidence::Inferred };
    let reason = Reason::AddressesExhausted { wanted, reserved: reserved.bytes, ranges: reserved.now };
    is_exhausted.then(|| build_finding(&reason, confidence, process, oom))
}

/// Adds to a finding of a process that has reached its limit of files how many descriptors it seems to keep, and where they
/// come from.
pub fn add_descriptor_counts(context: &Context, found: &mut PendingFinding) {
    let process = found.processes[0];
    let of = &context.all.stats[process].descriptors;
    for (numbers, what) in [(&of.exported, "exported"), (&of.imported, "imported")] {
        if numbers.times < MANY || !numbers.are_all_new() {
            continue;
        }
        let Some(first) = numbers.first else { continue };
        found.message += &format!("; {} descriptors that it {what} seem never to be closed", numbers.times);
        found.objects.push(descriptor_object(process, first, what == "exported"));
    }
}
