//! Findings about unnecessary work: the same handles are opened and closed, or the same memory is exported, for each message;
//! or data goes through the host after one failed open.

use super::context::Context;
use super::objects::{opening_and_export_objects, opening_object};
use crate::follow::collect::Collected;
use crate::follow::ledger::{Export, HandleEntry, Import, OpenFailures};
use crate::follow::pending::PendingFinding;
use cupeer_report::lives::process_start;
use cupeer_report::places::StackNumber;
use cupeer_rules::reason::{Ago, Bytes, Reason};
use cupeer_rules::{Confidence, Severity};
use cupeer_spec::effect::Object;
use std::collections::{BTreeMap, BTreeSet};

/// A place with fewer repeated opens or exports gets no finding.
const LEAST: u64 = 32;
/// A place with fewer repeated opens per handle gets no finding.
const LEAST_EACH: u64 = 4;
/// A place with fewer exports per object and importer gets no finding.
const LEAST_EXPORTS: u64 = 16;
/// A place at which fewer handles are opened once each gets no finding.
const LEAST_ONCE: u64 = 1_000;
/// Number of repetitions from which a finding is a warning. Durations do not count, because they depend on the machine.
const MANY: u64 = 2_000;

/// The handles that a process opened at one place.
#[derive(Default)]
struct OpensOfPlace<'a> {
    handles: u64,
    opened: u64,
    again: u64,
    longest: u64,
    spent: u64,
    first: Option<(&'a HandleEntry, &'a Import)>,
    last: u64,
}

/// Returns findings about handles that were opened again and again.
pub fn find_reopened(context: &Context) -> Vec<PendingFinding> {
    let mut places: BTreeMap<(usize, StackNumber), OpensOfPlace> = BTreeMap::new();
    for entry in context.all.ledger.handles().iter().filter(|entry| !entry.kind.needs_granted_access()) {
        for import in &entry.imports {
            let Some(time) = import.times.first() else { continue };
            let all = places.entry((import.process, time.site.stack)).or_default();
            all.handles += 1;
            all.opened += import.opened;
            all.again += import.reopened.times;
            all.longest = all.longest.max(import.reopened.longest);
            all.spent += import.reopened.spent;
            all.first = all.first.filter(|(_, first)| first.times[0].opened <= time.opened).or(Some((entry, import)));
            all.last = import.times.iter().map(|time| time.last).max().unwrap_or(0).max(all.last);
        }
    }
    places.into_iter().filter_map(|((process, _), all)| reopened_finding(context, process, &all)).collect()
}

fn reopened_finding(context: &Context, process: usize, all: &OpensOfPlace) -> Option<PendingFinding> {
    let fate = &context.all.fates[process];
    let of = fate.last_seen.saturating_sub(process_start(context.job, &context.job.processes[process]));
    let is_again = all.again >= LEAST && all.again >= all.handles.saturating_mul(LEAST_EACH);
    let is_once = all.again == 0 && all.handles >= LEAST_ONCE && all.opened == all.handles;
    if !fate.has_all_calls() || !(is_again || is_once) {
        return None;
    }
    let (entry, import) = all.first?;
    let time = import.times.first()?;
    let within = is_again.then_some(Ago(all.longest));
    let (handles, opened, spent, of) = (all.handles, all.opened, Ago(all.spent), Ago(of));
    let reason = Reason::OpenedAgain { handles, opened, within, spent, of };
    let objects = opening_and_export_objects(context, entry, process, time);
    let found = PendingFinding::new(&reason, Confidence::Certain, process, time.first_call(), 0);
    let raised = (all.again >= MANY).then_some(Severity::Warning);
    Some(PendingFinding { last: all.last, count: opened, objects, lowest_severity: raised, ..found })
}

/// The objects that a process exported at one place.
#[derive(Default)]
struct ExportsOfPlace<'a> {
    objects: u64,
    exports: u64,
    /// Number of exports of an object after a process had opened it.
    again: u64,
    opened: u64,
    /// Number of processes that opened the object with the most importers.
    importers: u64,
    first: Option<(&'a HandleEntry, &'a Export)>,
    last: u64,
}

/// Returns findings about objects that were exported again and again, although processes had opened them.
pub fn find_exported_again(context: &Context) -> Vec<PendingFinding> {
    let Collected { ledger, memories, .. } = context.all;
    let mut objects: Vec<Vec<(&HandleEntry, &Export)>> = Vec::new();
    // Pointers to different parts of an allocation are different buffers.
    let is_one = |entry: &HandleEntry, export: &Export| !entry.kind.needs_granted_access() && export.inside.len() <= 1;
    objects.extend(ledger.undamaged_exports().filter(|(entry, export)| is_one(entry, export)).map(|one| vec![one]));
    for (process, memory) in memories.iter().enumerate() {
        let entry = |export: &u64| context.all.find_handle(process, Object::Allocation, *export);
        let of = memory.allocations().map(|own| {
            let entries = own.history.exports.iter().filter_map(entry);
            let its = entries.filter_map(|entry| Some((entry, entry.export.as_deref()?)));
            its.filter(|(_, export)| export.process == process).collect()
        });
        objects.extend(of);
    }
    let mut places: BTreeMap<(usize, StackNumber), ExportsOfPlace> = BTreeMap::new();
    for exports in objects {
        let Some((_, first)) = exports.first() else { continue };
        let all = places.entry((first.process, first.first.site.stack)).or_default();
        all.objects += 1;
        let imports = || exports.iter().flat_map(|(entry, _)| &entry.imports);
        let importers: BTreeSet<usize> = imports().map(|import| import.process).collect();
        all.importers = all.importers.max(importers.len() as u64);
        all.opened += imports().map(|import| import.opened).sum::<u64>();
        let times = || exports.iter().map(|(_, export)| *export);
        all.exports += times().map(|export| export.times).sum::<u64>();
        // Exports before the first open do not count: there may be one for each of several processes.
        let had = imports().filter_map(|import| import.times.first()).map(|time| time.opened).min();
        let is_after = |export: &&Export| had.is_some_and(|had| export.last.at > had);
        all.again += times().filter(is_after).map(|export| export.times).sum::<u64>();
        all.last = times().map(|export| export.last.at).fold(all.last, u64::max);
        all.first = all.first.or(exports.first().copied());
    }
    places.into_iter().filter_map(|((process, _), all)| exported_finding(process, &all)).collect()
}

fn exported_finding(process: usize, all: &ExportsOfPlace) -> Option<PendingFinding> {
    let &ExportsOfPlace { objects, exports, again, opened, importers, .. } = all;
    // Each importer may need a descriptor of its own.
    let is_again = again >= LEAST && again >= objects.saturating_mul(LEAST_EXPORTS * importers);
    let (entry, export) = all.first.filter(|_| is_again && importers > 0)?;
    let reason = Reason::ExportedAgain { what: entry.kind, objects, exports, opened };
    let found = PendingFinding::new(&reason, Confidence::Certain, process, export.first, 0);
    let import = entry.imports.iter().find_map(|import| Some((import.process, import.times.first()?)));
    let objects = import.map(|(process, time)| opening_object(entry, process, time)).into_iter().collect();
    Some(PendingFinding { last: all.last, count: exports, objects, ..found })
}

/// Returns findings about opens that failed and were not tried again, if the exporter or the process copied through the host
/// since.
pub fn find_fallback_to_host(context: &Context) -> Vec<PendingFinding> {
    let mut first: BTreeMap<(usize, usize), (&HandleEntry, &Export, &OpenFailures, u64)> = BTreeMap::new();
    for (entry, export) in context.all.ledger.undamaged_exports().filter(|(entry, _)| entry.kind.is_memory()) {
        for import in entry.imports.iter().filter(|import| import.process != export.process && import.times.is_empty())
        {
            let failed: u64 =
                import.open_failures.iter().filter(|failing| !failing.is_injected).map(|one| one.count).sum();
            let Some(failing) = import.open_failures.iter().find(|failing| !failing.is_injected) else {
                continue;
            };
            let known = first.entry((import.process, export.process)).or_insert((entry, export, failing, 0));
            known.3 += failed;
            if failing.call.at < known.2.call.at {
                (known.0, known.1, known.2) = (entry, export, failing);
            }
        }
    }
    let found = first.into_iter().filter_map(|((process, exporter), (entry, export, failing, failed))| {
        // A process that has other memory of the exporter open may copy through the host for other reasons.
        let opens_others = context.all.ledger.undamaged_exports().any(|(other, of)| {
            let is_open = |import: &Import| import.process == process && !import.times.is_empty();
            of.process == exporter && other.imports.iter().any(is_open)
        });
        let bytes =
            [process, exporter].map(|one| bytes_copied_after(context, one, failing.call.at)).into_iter().max()?;
        (bytes > 0 && !opens_others).then(|| {
            let code = cupeer_spec::results::find_spec(failing.result).map_or("an unknown result", |spec| spec.name());
            let reason = Reason::HostAfterFailure {
                exporter: context.named_process(exporter),
                code,
                bytes: Bytes(bytes),
                had_context: failing.current.context != Some(0),
            };
            let found = PendingFinding::new(&reason, Confidence::Inferred, process, failing.call, failing.result);
            let objects = vec![super::objects::export_object(context, entry, export)];
            PendingFinding { last: failing.last, count: failed, objects, ..found }
        })
    });
    found.collect()
}

/// Returns the bytes that a process copied between device memory and the host after a time, in large copies.
fn bytes_copied_after(context: &Context, process: usize, at: u64) -> u64 {
    let all = &context.all.stats[process].uses.all;
    all.iter().filter(|used| used.content.is_some() && used.at > at).map(|used| used.bytes).sum()
}
