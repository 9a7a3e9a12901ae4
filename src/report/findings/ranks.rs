//! What only all ranks together show: who fails where others succeed, and pairs of devices that went without IPC.

use super::super::ledger::Failing;
use super::super::model::Uuid;
use super::rows::{Context, Draft, Sentence};
use super::world::ordinal;
use cupeer_record::Process;
use cupeer_rules::Rule;
use cupeer_rules::reason::{Device, Reason};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::finding::Confidence;
use std::collections::{BTreeMap, BTreeSet};

/// What may explain that something is different somewhere.
const CHANGED: &str = "; a fault plan changed calls there";

/// Functions that always fail in some ranks, and never in most.
pub fn differing<'a>(context: &Context<'a>) -> Vec<Draft<'a>> {
    Rule::RanksDiffer.spec().functions.iter().filter_map(|function| differs(context, *function)).collect()
}

fn differs<'a>(context: &Context<'a>, function: FnId) -> Option<Draft<'a>> {
    let all = context.all;
    let rank_of = |process: usize| context.job.processes[process].rank();
    let mut calls: BTreeMap<u32, u64> = BTreeMap::new();
    for (process, count) in all.functions.by_process(function as usize).iter().enumerate() {
        if let Some(rank) = rank_of(process).filter(|_| *count > 0) {
            *calls.entry(rank).or_default() += count;
        }
    }
    let failures: Vec<_> = all.failures.of(function as usize).collect();
    let mut failed: BTreeMap<u32, u64> = BTreeMap::new();
    for (process, _, group) in &failures {
        if let Some(rank) = rank_of(*process) {
            *failed.entry(rank).or_default() += group.count;
        }
    }
    let failing: BTreeSet<u32> =
        failed.iter().filter(|(rank, count)| calls.get(rank) == Some(count)).map(|(rank, _)| *rank).collect();
    let others = calls.keys().filter(|rank| !failed.contains_key(rank)).count();
    // Two ranks have two parts to play; of more, most do what all should.
    if failing.is_empty() || calls.len() < 3 || others * 2 <= calls.len() {
        return None;
    }
    let is_failing = |process| rank_of(process).is_some_and(|rank| failing.contains(&rank));
    let mut of_failing: Vec<_> = failures.into_iter().filter(|(process, ..)| is_failing(*process)).collect();
    of_failing.sort_by_key(|(process, _, group)| (group.first, *process));
    let (first, result, group) = *of_failing.first()?;
    let processes: Vec<usize> = of_failing.iter().map(|(process, ..)| *process).collect();
    let is_changed = |process: &usize| all.tallies[*process].injected > 0;
    let note = processes.iter().all(is_changed).then_some(CHANGED);
    let reason = Reason::RanksDiffer {
        function: function.spec().name,
        code: name_of(result),
        failing: failing.len() as u64,
        others: others as u64,
    };
    let sentence = sentence(&reason, note);
    Some(Draft {
        processes,
        last: of_failing.iter().map(|(_, _, group)| group.last).max().unwrap_or(group.last),
        count: of_failing.iter().map(|(_, _, group)| group.count).sum(),
        ..Draft::of(sentence, function, result, first as u32, group.site, group.first)
    })
}

/// Pairs of devices over which IPC was tried, failed, and has had no mapping since.
pub fn fallbacks<'a>(context: &Context<'a>) -> Vec<Draft<'a>> {
    let all = context.all;
    let mut pairs: BTreeMap<(usize, Uuid, Uuid), Vec<&'a Failing>> =
        all.peers.unmapped().map(|pair| (pair, Vec::new())).collect();
    for (import, export) in all.ledger.each_pair() {
        let devices = import.device.zip(export.and_then(|export| export.device));
        let key = devices.map(|(from, to)| (import.process as usize, from, to));
        if let Some(failing) = key.and_then(|key| pairs.get_mut(&key)) {
            failing.extend(import.failing.iter().filter(|failing| !failing.is_injected));
        }
    }
    pairs.into_iter().filter_map(|(pair, failing)| fallback(context, pair, &failing)).collect()
}

fn fallback<'a>(
    context: &Context<'a>,
    (process, from, to): (usize, Uuid, Uuid),
    failing: &[&'a Failing],
) -> Option<Draft<'a>> {
    let first = failing.iter().min_by_key(|failing| failing.at)?;
    let last = failing.iter().map(|failing| failing.last).max().unwrap_or(first.last);
    // A program that ends after a failure has not gone another way.
    if context.all.tallies[process].last_call.is_none_or(|(_, _, at)| at <= last) {
        return None;
    }
    let failed = failing.iter().map(|failing| failing.count).sum();
    let of = &context.job.processes[process];
    let (from, to, code) = (device(of, from), device(of, to), name_of(first.result));
    let note = (context.all.tallies[process].injected > 0).then_some(CHANGED);
    let sentence = sentence(&Reason::IpcFallback { from, to, failed, code }, note);
    let (function, site) = (first.function, first.site);
    Some(Draft {
        last,
        count: failed,
        driver_message: first.message.as_deref(),
        ..Draft::of(sentence, function, first.result, process as u32, site, first.at)
    })
}

/// What all together tell is the likeliest explanation.
fn sentence(reason: &Reason, note: Option<&str>) -> Sentence {
    let mut sentence = Sentence::of(reason, Confidence::Inferred, "");
    sentence.message.push_str(note.unwrap_or_default());
    sentence
}

fn device(process: &Process, uuid: Uuid) -> Device {
    Device { ordinal: ordinal(process, uuid.0), uuid: uuid.0 }
}

fn name_of(result: i32) -> &'static str {
    cupeer_spec::results::spec(result).map_or("an unknown result", |spec| spec.name())
}
