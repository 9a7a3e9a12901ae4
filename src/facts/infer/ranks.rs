//! Findings that need all ranks together: functions that fail in some ranks and succeed in others, and pairs of
//! devices that continued without IPC.

use super::context::Context;
use super::row::{FindingRow, ProcessSummary};
use crate::follow::ledger::{CallSite, OpenFailures};
use crate::follow::pending::PendingFinding;
use cupeer_report::model::Uuid;
use cupeer_rules::Rule;
use cupeer_rules::reason::Reason;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::finding::Confidence;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Word for a result without a name.
const UNKNOWN: &str = "an unknown result";
/// Clause that explains a difference by a fault plan.
const CHANGED: &str = "; a fault plan changed calls there";

/// Returns the failures of functions, by process, each with its first call. If the recording is a whole job, returns only
/// functions that always fail in some ranks, and never in most ranks.
pub fn failures_by_process(context: &Context) -> Vec<PendingFinding> {
    Rule::RanksDiffer.spec().functions().iter().flat_map(|function| failures_of_function(context, *function)).collect()
}

fn failures_of_function(context: &Context, function: FnId) -> Vec<PendingFinding> {
    let all = context.all;
    let mut by_process: BTreeMap<usize, PendingFinding> = BTreeMap::new();
    let mut groups: Vec<_> = all.failures.unexpected_of_function(function as usize).collect();
    groups.sort_by_key(|(process, _, group)| (group.first, *process));
    for (process, result, group) in groups {
        let found = by_process.entry(process).or_insert_with(|| {
            // The numbers are filled in when all ranks are known.
            let reason = Reason::RanksDiffer {
                function: function.spec().name(),
                code: result_name(result),
                failing: 0,
                others: 0,
            };
            let call = CallSite { function, site: group.site, at: group.first };
            let found = PendingFinding::new(&reason, Confidence::Inferred, process, call, result);
            PendingFinding { count: 0, ..found }
        });
        found.last = found.last.max(group.last);
        found.count += group.count;
    }
    let rank_of = |process: usize| context.job.processes[process].rank();
    let calls = all.functions.calls_by_process(function as usize).iter().copied().enumerate();
    let failed = by_process.iter().map(|(process, found)| (*process, found.count));
    if !context.is_part && ranks_that_differ(calls, failed, rank_of).is_none() {
        return Vec::new();
    }
    by_process.into_values().collect()
}

/// Returns the ranks in which a function always fails, and the number of ranks in which it never fails, if these are most.
fn ranks_that_differ(
    calls: impl Iterator<Item = (usize, u64)>,
    failed: impl Iterator<Item = (usize, u64)>,
    rank_of: impl Fn(usize) -> Option<u32>,
) -> Option<(BTreeSet<u32>, usize)> {
    let by_rank = |counts: &mut dyn Iterator<Item = (usize, u64)>| {
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        for (process, count) in counts.filter(|(_, count)| *count > 0) {
            if let Some(rank) = rank_of(process) {
                let sum = sums.entry(rank).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        sums
    };
    let (calls, failed) = (by_rank(&mut { calls }), by_rank(&mut { failed }));
    let failing: BTreeSet<u32> =
        failed.iter().filter(|(rank, count)| calls.get(rank) == Some(count)).map(|(rank, _)| *rank).collect();
    let others = calls.keys().filter(|rank| !failed.contains_key(rank)).count();
    // Two ranks may have different roles. Of three or more, what most ranks do is expected of all.
    (!failing.is_empty() && calls.len() >= 3 && others * 2 > calls.len()).then_some((failing, others))
}

/// Returns findings about functions that always fail in some ranks, and never in most ranks. The inputs are the
/// failures in all processes, and the number of calls of each function by process.
pub fn find_differing_ranks<'c>(
    failing: Vec<FindingRow>,
    members: &[ProcessSummary],
    calls: impl Fn(&str) -> Option<&'c [u64]>,
) -> Vec<FindingRow> {
    let mut by_function: BTreeMap<Rc<str>, Vec<FindingRow>> = BTreeMap::new();
    for row in failing {
        by_function.entry(row.finding.function.clone()).or_default().push(row);
    }
    let rank_of = |process: usize| members.get(process).and_then(|member| member.rank);
    let differs = |(function, mut rows): (Rc<str>, Vec<FindingRow>)| {
        let calls = calls(&function)?.iter().copied().enumerate();
        let failed = rows.iter().map(|row| (row.process, row.finding.count));
        let (failing, others) = ranks_that_differ(calls, failed, rank_of)?;
        rows.retain(|row| rank_of(row.process).is_some_and(|rank| failing.contains(&rank)));
        rows.sort_by_key(|row| (row.finding.time_ns, row.process));
        let is_changed = |row: &FindingRow| members.get(row.process).is_some_and(|member| member.has_injected);
        let note = rows.iter().all(is_changed).then_some(CHANGED);
        let mut rows = rows.into_iter();
        let first = rows.next()?;
        let mut row = rows.fold(first, FindingRow::join);
        let reason = Reason::RanksDiffer {
            function: FnId::by_name(&function)?.spec().name(),
            code: static_result_name(row.finding.result.as_deref()?),
            failing: failing.len() as u64,
            others: others as u64,
        };
        row.finding.message = reason.to_string() + note.unwrap_or_default();
        Some(row)
    };
    by_function.into_iter().filter_map(differs).collect()
}

/// Returns findings about pairs of devices between which IPC was tried, failed, and has not succeeded since.
pub fn find_fallbacks(context: &Context) -> Vec<PendingFinding> {
    let all = context.all;
    let mut pairs: BTreeMap<(usize, Uuid, Uuid), Vec<&OpenFailures>> =
        all.peers.pairs_that_fail_to_open().map(|pair| (pair, Vec::new())).collect();
    for (import, export) in all.ledger.memory_imports() {
        let devices = import.device.zip(export.and_then(|export| export.device));
        let key = devices.map(|(from, to)| (import.process, from, to));
        if let Some(failing) = key.and_then(|key| pairs.get_mut(&key)) {
            failing.extend(import.open_failures.iter().filter(|failing| !failing.is_injected));
        }
    }
    pairs.into_iter().filter_map(|(pair, failing)| fallback_finding(context, pair, &failing)).collect()
}

fn fallback_finding(
    context: &Context,
    (process, from, to): (usize, Uuid, Uuid),
    failing: &[&OpenFailures],
) -> Option<PendingFinding> {
    let first = failing.iter().min_by_key(|failing| failing.call.at)?;
    let last = failing.iter().map(|failing| failing.last).max().unwrap_or(first.last);
    // A program that ends right after the failure did not continue without IPC.
    if context.all.stats[process].last_call.as_ref().is_none_or(|call| call.at <= last) {
        return None;
    }
    let failed = failing.iter().map(|failing| failing.count).sum();
    let [from, to] = [from, to].map(|device| context.numbered_device(process, device));
    let code = result_name(first.result);
    let note = (context.all.stats[process].injected > 0).then_some(CHANGED);
    let reason = Reason::IpcFallback { from, to, failed, code };
    let mut found = PendingFinding::new(&reason, Confidence::Inferred, process, first.call, first.result);
    found.message.extend(note);
    Some(PendingFinding { last, count: failed, driver_message: first.message.clone(), ..found })
}

fn result_name(result: i32) -> &'static str {
    cupeer_spec::results::find_spec(result).map_or(UNKNOWN, |spec| spec.name())
}

/// Returns the static name of a result for the name in a finding.
fn static_result_name(name: &str) -> &'static str {
    let all = cupeer_spec::results::RESULTS.iter();
    all.map(|spec| spec.name()).find(|known| *known == name).unwrap_or(UNKNOWN)
}
