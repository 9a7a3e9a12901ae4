//! Facts about exports, opens, failed calls, and ends: each compares processes, or handles, with each other.

use super::{PendingClue, handle_with_size};
use crate::follow::failures::GroupTotals;
use crate::follow::ledger::{Export, HandleEntry, Import, OpenPeriod, Site};
use crate::infer::context::Context;
use cupeer_report::deviation::summarize_counts;
use cupeer_report::moments::{bytes, duration, number};
use cupeer_report::names::counted;
use cupeer_report::results;
use cupeer_spec::function::FnId;
use std::collections::BTreeMap;

/// Number of handles that are listed as never opened: the first ones.
const MOST_NOT_OPENED: usize = 64;

/// The exported handles of one kind.
type ExportedHandles<'a> = Vec<(&'a HandleEntry, &'a Export)>;

pub fn collect_facts<'a>(context: &Context<'a>) -> Vec<PendingClue<'a>> {
    let mut by_kind: BTreeMap<_, ExportedHandles> = BTreeMap::new();
    for (entry, export) in context.all.ledger.undamaged_exports() {
        by_kind.entry((entry.domain, entry.kind.word())).or_default().push((entry, export));
    }
    let mut facts = find_ignored_failures(context);
    for ((domain, _), mut handles) in by_kind {
        handles.sort_by_key(|(_, export)| export.first.at);
        facts.extend(handles.iter().flat_map(|handle| facts_of_handle(context, handle)));
        if context.all.has_all_calls_of(domain) {
            facts.extend(find_never_opened(context, &handles));
            facts.extend(find_reordered_opens(context, &handles));
        }
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        handles.iter().for_each(|(_, it)| *sizes.entry(it.process as u32).or_default() += it.bytes.unwrap_or(0));
        facts.extend(find_deviating_process(context, &sizes, "exported", bytes).map(|(process, message)| {
            let of = handles.iter().find(|(_, export)| export.process == process);
            let (entry, calls) = (of.map(|of| of.0), of.map_or(Vec::new(), |of| first_export(of.1)));
            PendingClue("differs", message, entry, vec![process], calls)
        }));
    }
    // The report compares ranks elsewhere.
    let is_odd = |process: usize| context.job.processes[process].rank().is_none();
    let concerns = |function: &FnId| {
        function.spec().shares() || function.spec().is_release() || function.spec().copies().is_some()
    };
    for function in FnId::all().filter(concerns) {
        let calls = context.all.functions.calls_by_process(function as usize).iter().enumerate();
        let calls = calls.filter(|(process, calls)| **calls > 0 && is_odd(*process));
        let calls = calls.map(|(process, calls)| (process as u32, *calls)).collect();
        let what = format!("called {}", function.spec().name());
        let odd = find_deviating_process(context, &calls, &what, |count| counted(count, "time"));
        facts.extend(odd.map(|(it, message)| PendingClue("differs", message, None, vec![it], Vec::new())));
    }
    facts
}

/// Returns the only process whose number differs from that of all others, which are equal.
fn find_deviating_process(
    context: &Context,
    counts: &BTreeMap<u32, u64>,
    what: &str,
    say: impl Fn(u64) -> String,
) -> Option<(usize, String)> {
    let spread = summarize_counts(counts)?;
    let [odd] = &spread.deviating[..] else { return None };
    let (who, count, all) = (context.named_process(odd.rank as usize), say(odd.calls), say(odd.others));
    let others = counted(counts.len() as u64 - 1, "process");
    let message = format!("{who} {what} {count}, and the other {others} {all} each");
    odd.exact.then_some((odd.rank as usize, message))
}

/// Returns the processes that opened a handle, each with the first time in which it was open.
fn openers(entry: &HandleEntry) -> impl Iterator<Item = (&Import, &OpenPeriod)> {
    entry.imports.iter().filter_map(|import| Some((import, import.times.first()?)))
}

/// Returns the time and the place of the first export, as a list of one.
fn first_export(export: &Export) -> Vec<(u64, Site)> {
    vec![(export.first.at, export.first.site)]
}

/// Returns facts about one handle: it was exported more often than it was opened, or its exporter exited successfully while a
/// process that failed later had it open.
fn facts_of_handle<'a>(context: &Context<'a>, (entry, export): &(&'a HandleEntry, &'a Export)) -> Vec<PendingClue<'a>> {
    let (owner, fates) = (export.process, &context.all.fates);
    let (whose, what, times) = (context.named_process(owner), handle_with_size(entry), number(export.times));
    let mut facts = Vec::new();
    if export.times > 1 && export.times > openers(entry).count() as u64 && export.inside.len() < 2 {
        let message = format!("{whose} exported one address, {:#x}, {times} times as {what}", export.address);
        facts.push(PendingClue("exported-again", message, Some(entry), vec![owner], first_export(export)));
    }
    let is_one_of_more = context.all.ledger.undamaged_exports().nth(1).is_some();
    for (import, time) in openers(entry).filter(|(import, _)| import.opened > 1 && is_one_of_more) {
        let (who, opened) = (context.named_process(import.process), counted(import.opened, "time"));
        let message = format!("{who} opened {what} of {whose} {opened}");
        let process = import.process;
        facts.push(PendingClue("opened-again", message, Some(entry), vec![process], vec![(time.opened, time.site)]));
    }
    let end_of = |process: usize| fates[process].ended_by.filter(|_| fates[process].alive == Some(false));
    let Some(ended) = end_of(owner).filter(|_| !fates[owner].has_failed) else { return facts };
    for (import, time) in openers(entry).filter(|(_, time)| time.opened < ended) {
        let process = import.process;
        let after = end_of(process).filter(|_| fates[process].has_failed).and_then(|end| end.checked_sub(ended));
        let is_open = time.ended.is_none_or(|closed| closed.at.is_some_and(|at| at > ended));
        let Some(after) = after.filter(|_| is_open) else { continue };
        let (who, after) = (context.named_process(process), duration(after));
        let message = format!("{whose} ended {after} before {who}, which failed and had {what} open");
        facts.push(PendingClue("exporter-ended", message, Some(entry), vec![owner, process], vec![(ended, time.site)]));
    }
    facts
}

/// Returns facts about handles that no process opened, each compared with the handle that was opened most often, of the same
/// exporter if possible.
fn find_never_opened<'a>(context: &Context<'a>, all: &ExportedHandles<'a>) -> Vec<PendingClue<'a>> {
    let opened = |entry: &HandleEntry| entry.imports.iter().map(|import| import.opened).sum::<u64>();
    let is_tried = |entry: &HandleEntry| entry.imports.iter().any(|it| it.opened > 0 || !it.failed.is_empty());
    let fact = |(entry, export): &(&'a HandleEntry, &'a Export)| {
        let count = |(other, of): &&(&HandleEntry, &Export)| (opened(other), of.process == export.process);
        let (other, of) = all.iter().max_by_key(count)?;
        let (first, time) = openers(other).next()?;
        let (what, owner, times) = (handle_with_size(entry), context.named_process(export.process), opened(other));
        let (which, whose, who) =
            (handle_with_size(other), context.named_process(of.process), context.named_process(first.process));
        let times = counted(times, "time");
        let message = format!(
            "no process opened {what}, which {owner} exported; {which} of {whose} was opened {times}, first by {who}"
        );
        let calls = first_export(export).into_iter().chain([(time.opened, time.site)]).collect();
        Some(PendingClue("not-opened", message, Some(entry), vec![export.process], calls))
    };
    all.iter().filter(|(entry, _)| !is_tried(entry)).take(MOST_NOT_OPENED).filter_map(fact).collect()
}

/// Returns facts about processes that opened the handles of an exporter in another order than that of the exports.
fn find_reordered_opens<'a>(context: &Context<'a>, all: &ExportedHandles<'a>) -> Vec<PendingClue<'a>> {
    // The opens by exporter and importer, in the order of the exports.
    let mut pairs: BTreeMap<(usize, usize), Vec<(&HandleEntry, &OpenPeriod)>> = BTreeMap::new();
    for (entry, export) in all {
        let opened = openers(entry).map(|(import, time)| ((export.process, import.process), (*entry, time)));
        opened.for_each(|(pair, opened)| pairs.entry(pair).or_default().push(opened));
    }
    pairs.retain(|_, opened| !opened.is_sorted_by_key(|(_, time)| time.opened));
    let fact = |((owner, process), opened): ((usize, usize), Vec<(&'a HandleEntry, &'a OpenPeriod)>)| {
        let (first, (entry, time)) = opened.iter().enumerate().min_by_key(|(_, (_, time))| time.opened)?;
        let (who, whose, what) =
            (context.named_process(process), context.named_process(owner), handle_with_size(entry));
        let (count, first) = (number(opened.len() as u64), first + 1);
        let message = format!(
            "{who} opened {count} handles in another order than {whose} had exported them: {what}, number {first}, came first"
        );
        let calls = vec![(time.opened, time.site)];
        Some(PendingClue("opened-in-other-order", message, Some(entry), vec![process], calls))
    };
    pairs.into_iter().filter_map(fact).collect()
}

/// Returns facts about calls that failed and after which their process continued.
fn find_ignored_failures<'a>(context: &Context<'a>) -> Vec<PendingClue<'a>> {
    let all = context.all;
    let fact = |(function, (process, result, group)): (FnId, (usize, i32, &GroupTotals))| {
        let last = all.stats[process].last_call.as_ref().filter(|last| last.at > group.last)?;
        let (who, name, times) = (context.named_process(process), function.spec().name(), counted(group.count, "time"));
        let (result, next) = (results::result_name(Some(function), result), all.functions.name(last.function));
        let later = duration(last.at - group.last);
        let message =
            format!("{who} continued when {name} had returned {result} ({times}): it called {next} {later} later");
        Some(PendingClue("result-ignored", message, None, vec![process], vec![(group.first, group.site)]))
    };
    let failed =
        FnId::all().flat_map(|it| all.failures.unexpected_of_function(it as usize).map(move |group| (it, group)));
    failed.filter_map(fact).collect()
}
