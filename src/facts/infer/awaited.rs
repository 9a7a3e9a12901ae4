//! Findings about file descriptors that processes seem to wait for.
//!
//! A process seems to wait if its last call is an export that no process imported. The process that it waits for is one
//! whose export failed; otherwise, a rank that exported less often at the same place. A place and the processes that
//! imported what a rank exported there before tell one group of ranks from another.

use super::context::Context;
use crate::follow::functions::Number;
use crate::follow::ledger::descriptors::SentDescriptor;
use crate::follow::ledger::{CallSite, HandleEntry};
use crate::follow::pending::{PendingFinding, PendingObject};
use cupeer_record::Process;
use cupeer_report::places::{PlaceTable, StackNumber};
use cupeer_report::results;
use cupeer_rules::reason::Reason;
use cupeer_rules::{Confidence, Rule};
use cupeer_spec::record::end::RecordedEnd;
use cupeer_spec::record::slot::finding::role;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

/// The time in nanoseconds without a call after which a running process seems to wait.
const SILENT: u64 = 5_000_000_000;
/// Number of processes that a sentence names; further ones are only counted.
const MOST_NAMED: usize = 8;

/// A process that seems to wait, and its last export.
struct WaitingProcess {
    process: usize,
    sent: SentDescriptor,
    /// The processes that imported earlier exports of this process from the same place; empty if there were none.
    group: BTreeSet<usize>,
}

/// The last export of a process, which failed.
struct FailedExporter {
    process: usize,
    result: i32,
    /// The first failed call, with the time of the last one.
    call: CallSite,
}

/// Returns findings about the descriptors that processes of each host wait for.
pub fn find_awaited(context: &Context, places: &mut PlaceTable) -> Vec<PendingFinding> {
    let mut hosts: BTreeMap<[u8; 16], Vec<WaitingProcess>> = BTreeMap::new();
    for (i, process) in context.job.processes.iter().enumerate() {
        if let Some(sent) = unanswered_export(context, process, i) {
            let group = earlier_importers(context, i, &sent);
            hosts.entry(process.header.boot_id).or_default().push(WaitingProcess { process: i, sent, group });
        }
    }
    let mut found = Vec::new();
    for (boot, mut waiting) in hosts {
        waiting.sort_by_key(|one| (one.sent.call.at, one.process));
        let failed: Vec<FailedExporter> = failed_exporters(context, &boot).collect();
        let (explained, others): (Vec<WaitingProcess>, Vec<WaitingProcess>) = waiting
            .into_iter()
            .filter(|one| failed.iter().all(|failed| failed.process != one.process))
            .partition(|one| failed.iter().any(|failed| may_be_awaited(one, failed.process)));
        found.extend(failed_sender_finding(context, &failed, &explained));
        found.extend(missing_ranks_finding(context, &boot, others, places));
    }
    found
}

/// Returns true if a process may be the one that another one waits for.
fn may_be_awaited(waiting: &WaitingProcess, process: usize) -> bool {
    process != waiting.process && (waiting.group.is_empty() || waiting.group.contains(&process))
}

fn failed_sender_finding(
    context: &Context,
    failed: &[FailedExporter],
    waiting: &[WaitingProcess],
) -> Option<PendingFinding> {
    let is_awaited = |one: &&FailedExporter| waiting.iter().any(|waiting| may_be_awaited(waiting, one.process));
    let failed: Vec<&FailedExporter> = failed.iter().filter(is_awaited).collect();
    let first = *failed.iter().min_by_key(|one| (one.call.at, one.process))?;
    let senders = list_names(failed.iter().map(|one| match context.job.processes[one.process].rank() {
        Some(rank) => format!("rank {rank}"),
        None => format!("process {}", context.job.processes[one.process].header.pid),
    }));
    let CallSite { function, .. } = first.call;
    let code = results::result_name(Some(function), first.result);
    let (waiting_ranks, function) = (waiting.len() as u64, function.spec().name());
    let reason = Reason::RanksWaitForFailed { waiting: waiting_ranks, senders: &senders, function, code: &code };
    let export = PendingObject::new(role::EXPORT, first.process, first.call);
    Some(PendingFinding { objects: vec![export], ..build_finding(&reason, waiting)? })
}

/// Returns a finding about ranks that exported less often than the waiting ranks, at the same place and in total.
fn missing_ranks_finding(
    context: &Context,
    boot: &[u8; 16],
    mut waiting: Vec<WaitingProcess>,
    places: &mut PlaceTable,
) -> Option<PendingFinding> {
    let rank_of = |process: usize| context.job.processes[process].rank();
    let mut totals: BTreeMap<u32, u64> = BTreeMap::new();
    for (process, stats) in context.job.processes.iter().zip(&context.all.stats) {
        if let Some(rank) = process.rank().filter(|_| process.header.boot_id == *boot) {
            *totals.entry(rank).or_default() += stats.descriptors.exported.times;
        }
    }
    let total = |one: &WaitingProcess| rank_of(one.process).and_then(|rank| totals.get(&rank)).copied();
    waiting.retain(|one| total(one).is_some());
    let most = waiting.iter().filter_map(total).max()?;
    let at_place = count_exports_at(context, boot, waiting.first()?.sent.call.site.stack, places);
    let made = |rank: &u32| at_place.get(rank).copied().unwrap_or(0);
    let most_at_place = waiting.iter().filter_map(|one| rank_of(one.process)).map(|rank| made(&rank)).max()?;
    let is_of_group = |rank: &u32| {
        let is_it = |process: &usize| rank_of(*process) == Some(*rank);
        waiting.iter().any(|one| one.group.is_empty() || one.group.iter().any(is_it))
    };
    let missing: BTreeMap<u32, u64> = totals
        .iter()
        // A rank that exported as often as the others at that place made all its exports, even if others exported more elsewhere.
        .filter(|(rank, total)| **total < most && made(rank) < most_at_place && is_of_group(rank))
        .map(|(rank, total)| (*rank, *total))
        .collect();
    let least = missing.values().copied().min()?;
    waiting.retain(|one| total(one).is_some_and(|total| total > least));
    let senders = list_names(missing.keys().map(u32::to_string));
    let reason = Reason::RanksWaitForDescriptor {
        waiting: waiting.len() as u64,
        missing: missing.len() as u64,
        senders: &senders,
        least,
        most,
    };
    build_finding(&reason, &waiting)
}

pub(super) fn list_names(all: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = all.collect();
    let more = all.len().saturating_sub(MOST_NAMED);
    all.truncate(MOST_NAMED);
    all.extend((more > 0).then(|| format!("{more} more")));
    all.join(", ")
}

fn build_finding(reason: &Reason, waiting: &[WaitingProcess]) -> Option<PendingFinding> {
    let first = waiting.first()?.sent.call;
    Some(PendingFinding {
        processes: waiting.iter().map(|one| one.process).collect(),
        last: waiting.last()?.sent.call.at,
        count: waiting.len() as u64,
        ..PendingFinding::new(reason, Confidence::Inferred, 0, first, 0)
    })
}

/// Returns the processes of a host whose last export of a descriptor failed.
fn failed_exporters<'c>(context: &'c Context, boot: &[u8; 16]) -> impl Iterator<Item = FailedExporter> + use<'c> {
    let mut last: BTreeMap<usize, FailedExporter> = BTreeMap::new();
    for function in Rule::RanksWaitForDescriptor.spec().functions() {
        for (process, result, group) in context.all.failures.unexpected_of_function(*function as Number) {
            let sent = context.all.stats[process].descriptors.last_export.map_or(0, |sent| sent.call.at);
            let is_here = context.job.processes[process].header.boot_id == *boot;
            let is_last = last.get(&process).is_none_or(|known| known.call.at < group.last);
            if is_here && is_last && group.last > sent {
                let call = CallSite { function: *function, site: group.site, at: group.last };
                last.insert(process, FailedExporter { process, result, call });
            }
        }
    }
    last.into_values()
}

/// Returns the exported handles that are file descriptors, each with the exporting process and the stack.
fn descriptor_exports<'c>(context: &'c Context) -> impl Iterator<Item = (&'c HandleEntry, usize, StackNumber)> {
    let all = context.all.ledger.handles().iter().filter(|entry| entry.kind.needs_granted_access());
    all.filter_map(|entry| {
        let export = entry.export.as_deref()?;
        Some((entry, export.process, export.first.site.stack))
    })
}

/// Returns the other processes that imported earlier exports of a process from the place of its last export.
fn earlier_importers(context: &Context, process: usize, sent: &SentDescriptor) -> BTreeSet<usize> {
    let its = descriptor_exports(context)
        .filter(|(_, exporter, stack)| (*exporter, *stack) == (process, sent.call.site.stack));
    its.flat_map(|(entry, ..)| entry.imports.iter().map(|import| import.process))
        .filter(|importer| *importer != process)
        .collect()
}

/// Returns the number of exports of each rank of a host at a place.
fn count_exports_at(
    context: &Context,
    boot: &[u8; 16],
    stack: StackNumber,
    places: &mut PlaceTable,
) -> BTreeMap<u32, u64> {
    let (wanted, _) = places.place_and_stack(&context.all.stacks, stack);
    let mut is_there: HashMap<StackNumber, bool> = HashMap::new();
    let mut made: BTreeMap<u32, u64> = BTreeMap::new();
    for (entry, process, stack) in descriptor_exports(context) {
        let is_there =
            *is_there.entry(stack).or_insert_with(|| places.place_and_stack(&context.all.stacks, stack).0 == wanted);
        let process = &context.job.processes[process];
        if let Some(rank) = process.rank().filter(|_| is_there && process.header.boot_id == *boot) {
            *made.entry(rank).or_default() += entry.export.as_deref().map_or(0, |export| export.times);
        }
    }
    made
}

/// Returns the export that was the last call of a process, if no process imported it, some time has passed since, and the process
/// did not exit successfully.
fn unanswered_export(context: &Context, process: &Process, index: usize) -> Option<SentDescriptor> {
    let all = context.all;
    let (stats, fate) = (&all.stats[index], &all.fates[index]);
    let sent = stats.descriptors.last_export.filter(|_| fate.has_all_calls())?;
    let last = stats.last_call.as_ref()?;
    let CallSite { function, site, at } = sent.call;
    let is_last = (last.function, last.tid, last.at) == (function as usize, site.tid, at);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |now| now.as_nanos() as u64);
    let is_silent = fate.alive == Some(false) || now.saturating_sub(at) >= SILENT;
    let handle = all.find_handle(index, sent.object, sent.fingerprint);
    let is_imported = handle.is_none_or(|handle| !handle.imports.is_empty());
    let is_well = matches!(process.end(), RecordedEnd::Returned(0));
    (is_last && is_silent && !is_imported && !is_well).then_some(sent)
}
