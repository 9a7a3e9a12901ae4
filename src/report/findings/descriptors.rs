//! Findings about file descriptors: descriptors that no process closes, and descriptors for which ranks seem to wait.

use super::super::ledger::descriptors::Sent;
use super::rows::{Context, Draft, Sentence};
use cupeer_rules::reason::Reason;
use cupeer_rules::{Confidence, Rule};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// So many descriptors a process may make or take before it seems to close none: some export all that they have, and
/// close all of it then.
const MANY: u64 = 64;

/// How long a process that runs has made no call, in nanoseconds, before it seems to wait.
const SILENT: u64 = 5_000_000_000;

/// The most ranks that are named.
const MOST_NAMED: usize = 8;

/// Descriptors whose numbers never came back, by process and function.
pub fn kept<'a>(context: &Context<'a>) -> Vec<Draft<'a>> {
    let mut drafts = Vec::new();
    for (process, tally) in context.all.tallies.iter().enumerate() {
        // The call that found none left says it.
        if context.all.findings.has(Rule::DescriptorsExhausted, process) {
            continue;
        }
        let of = &tally.descriptors;
        for (numbers, is_export) in [(&of.exported, true), (&of.imported, false)] {
            let Some(first) = numbers.first.filter(|_| numbers.times >= MANY && numbers.are_all_new()) else {
                continue;
            };
            let reason = Reason::FdLeak { descriptors: numbers.times, is_export };
            let sentence = Sentence::of(&reason, Confidence::Inferred, "");
            let draft = Draft::of(sentence, first.function, 0, process as u32, first.site, first.at);
            drafts.push(Draft { last: numbers.last, count: numbers.times, ..draft });
        }
    }
    drafts
}

/// Ranks that made no call after an export which nobody imported, while another rank of their machine has exported less.
pub fn awaited<'a>(context: &Context<'a>) -> Vec<Draft<'a>> {
    let all = context.all;
    let mut machines: BTreeMap<[u8; 16], BTreeMap<u32, u64>> = BTreeMap::new();
    for (process, tally) in context.job.processes.iter().zip(&all.tallies) {
        if let Some(rank) = process.rank() {
            let ranks = machines.entry(process.header.boot_id).or_default();
            *ranks.entry(rank).or_default() += tally.descriptors.exported.times;
        }
    }
    machines.iter().filter_map(|(boot, ranks)| awaited_on(context, boot, ranks)).collect()
}

fn awaited_on<'a>(context: &Context<'a>, boot: &[u8; 16], ranks: &BTreeMap<u32, u64>) -> Option<Draft<'a>> {
    let mut waiting: Vec<(usize, u64, Sent)> = Vec::new();
    for (i, process) in context.job.processes.iter().enumerate() {
        let exported = process.rank().and_then(|rank| ranks.get(&rank));
        if let Some(exported) = exported.filter(|_| process.header.boot_id == *boot)
            && let Some(sent) = last_word(context, i)
        {
            waiting.push((i, *exported, sent));
        }
    }
    let most = waiting.iter().map(|(_, exported, _)| *exported).max()?;
    let missing: Vec<(u32, u64)> = ranks
        .iter()
        .filter(|(_, exported)| **exported < most)
        .map(|(rank, exported)| (*rank, *exported))
        .collect();
    let least = missing.iter().map(|(_, exported)| *exported).min()?;
    waiting.retain(|(_, exported, _)| *exported > least);
    waiting.sort_by_key(|(process, _, sent)| (sent.made.at, *process));
    let first = waiting.first()?.2.made;
    let mut named: Vec<String> = missing.iter().take(MOST_NAMED).map(|(rank, _)| rank.to_string()).collect();
    named.extend((missing.len() > MOST_NAMED).then(|| format!("{} more", missing.len() - MOST_NAMED)));
    let senders = named.join(", ");
    let reason = Reason::RanksWaitForDescriptor {
        waiting: waiting.len() as u64,
        missing: missing.len() as u64,
        senders: &senders,
        least,
        most,
    };
    let sentence = Sentence::of(&reason, Confidence::Inferred, "");
    Some(Draft {
        processes: waiting.iter().map(|(process, ..)| *process).collect(),
        last: waiting.last()?.2.made.at,
        count: waiting.len() as u64,
        ..Draft::of(sentence, first.function, 0, 0, first.site, first.at)
    })
}

/// The export after which a process made no other call, where nobody imported it, and the process has not just made it.
fn last_word(context: &Context, process: usize) -> Option<Sent> {
    let all = context.all;
    let (tally, fate) = (&all.tallies[process], &all.fates[process]);
    let sent = tally.descriptors.last.filter(|_| fate.is_full && !fate.has_lost)?;
    let (function, tid, at) = tally.last_call?;
    let is_last = (function, tid, at) == (sent.made.function as usize, sent.made.site.tid, sent.made.at);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |now| now.as_nanos() as u64);
    let is_silent = fate.alive == Some(false) || now.saturating_sub(at) >= SILENT;
    let handle = all.ledger.handle(sent.realm, sent.object, sent.fingerprint);
    let is_imported = handle.is_none_or(|handle| !handle.imports.is_empty());
    (is_last && is_silent && !is_imported).then_some(sent)
}
