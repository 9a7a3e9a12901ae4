//! Exchanges in which all processes export handles and open those of the others: findings about a process that opened fewer
//! handles than the others, or that opened an older handle.
//!
//! Each of three or more processes exports handles, and all others open them. If most of the others opened a handle and a few did
//! not, the few lack the handle. If handles go only to neighbors, as in a ring, no process differs from the others.

use super::context::Context;
use super::objects::{export_object, opening_object};
use crate::follow::ledger::{Export, HandleDomain, HandleEntry, OpenPeriod};
use crate::follow::pending::PendingFinding;
use cupeer_report::places::StackNumber;
use cupeer_rules::reason::{Handle, Reason};
use cupeer_rules::{Confidence, Severity};
use cupeer_spec::effect::Object as Kind;
use std::collections::{BTreeMap, BTreeSet};

/// An exchange has at least this many processes.
const LEAST: usize = 3;

/// The handles that each process exported at each place, in order.
type ExportsByPlace<'a> = BTreeMap<(usize, StackNumber), Vec<(&'a HandleEntry, &'a Export)>>;

/// The handles that a process did not open, although most others opened them.
struct MissedHandles<'a> {
    opened: u64,
    lacks: Vec<(&'a HandleEntry, &'a Export)>,
    /// The last handle that the process opened.
    last: Option<(&'a HandleEntry, &'a OpenPeriod)>,
    /// Number of handles that the process exported, and number that each other process exported, if the numbers differ.
    exported: Option<(u64, u64)>,
}

pub fn find_differing(context: &Context) -> Vec<PendingFinding> {
    let mut domains: BTreeMap<(HandleDomain, Kind), ExportsByPlace> = BTreeMap::new();
    for (entry, export) in context.all.ledger.undamaged_exports() {
        if let Kind::Memory | Kind::Event | Kind::Allocation = entry.kind {
            let of = domains.entry((entry.domain, entry.kind)).or_default();
            of.entry((export.process, export.first.site.stack)).or_default().push((entry, export));
        }
    }
    domains.retain(|(domain, _), _| context.all.has_all_calls_of(*domain));
    domains.into_values().flat_map(|exported| find_in_exchange(context, exported)).collect()
}

/// Returns the last time in which a process had a handle open.
fn last_open_period(entry: &HandleEntry, process: usize) -> Option<&OpenPeriod> {
    entry.import_by(process)?.times.last()
}

/// Returns the numbers of handles that a process and each of the other members exported, if the others exported equally many.
fn differing_export_counts(exported: &ExportsByPlace, process: usize, others: &BTreeSet<usize>) -> Option<(u64, u64)> {
    let of =
        |process: usize| exported.iter().filter(|((by, _), _)| *by == process).map(|(_, all)| all.len() as u64).sum();
    let own = of(process);
    let mut others = others.iter().filter(|other| **other != process).map(|other| of(*other));
    let each: u64 = others.next()?;
    (each != own && others.all(|other| other == each)).then_some((own, each))
}

/// Returns true if a process tried to open a handle and failed, or may still open it. The failure has a finding of its own.
fn has_tried_or_may_open(context: &Context, entry: &HandleEntry, process: usize) -> bool {
    let has_failed = entry.import_by(process).is_some_and(|import| !import.open_failures.is_empty());
    has_failed || context.all.fates[process].alive != Some(false)
}

fn find_in_exchange(context: &Context, mut exported: ExportsByPlace) -> Vec<PendingFinding> {
    exported.values_mut().for_each(|all| all.sort_by_key(|(_, export)| export.first.at));
    let all = || exported.values().flatten();
    let exporters: BTreeSet<usize> = exported.keys().map(|(process, _)| *process).collect();
    let opens = |process: &&usize| {
        all().any(|(entry, export)| export.process != **process && last_open_period(entry, **process).is_some())
    };
    let members: BTreeSet<usize> = exporters.iter().filter(opens).copied().collect();
    if members.len() < LEAST {
        return Vec::new();
    }
    let mut lacking: BTreeMap<usize, MissedHandles> = BTreeMap::new();
    for &(entry, export) in all().filter(|(_, export)| members.contains(&export.process)) {
        let others = || members.iter().filter(|member| **member != export.process);
        let has = others().filter(|member| last_open_period(entry, **member).is_some()).count();
        if has == 0 || has * 2 < others().count() {
            continue;
        }
        for member in others() {
            let counts = || differing_export_counts(&exported, *member, &members);
            let new = || MissedHandles { opened: 0, lacks: Vec::new(), last: None, exported: counts() };
            let of = lacking.entry(*member).or_insert_with(new);
            match last_open_period(entry, *member) {
                Some(time) => {
                    of.opened += 1;
                    of.last = of.last.filter(|(_, last)| last.opened > time.opened).or(Some((entry, time)));
                }
                None if !has_tried_or_may_open(context, entry, *member) => of.lacks.push((entry, export)),
                None => {}
            }
        }
    }
    let differ = lacking.values().filter(|of| !of.lacks.is_empty()).count();
    // In a ring or a tree, every process lacks some handles.
    if differ * 3 > members.len() {
        return Vec::new();
    }
    let found = lacking.iter().filter_map(|(process, of)| build_finding(context, &exported, *process, of));
    found.collect()
}

fn build_finding(
    context: &Context,
    exported: &ExportsByPlace,
    process: usize,
    of: &MissedHandles,
) -> Option<PendingFinding> {
    let (&(lacked, by), (last, time)) = (of.lacks.first()?, of.last?);
    let site = exported.get(&(by.process, by.first.site.stack))?;
    // When the process opened the older handle, the exporter had exported the newer handle already, and a process had opened
    // the older one before that: so it belongs to an earlier exchange.
    let is_of_earlier = |entry: &HandleEntry| {
        !std::ptr::eq(entry, lacked) && entry.open_periods().any(|(_, time)| time.opened < by.first.at)
    };
    let older = site.iter().filter(|(entry, export)| export.first.at < by.first.at && is_of_earlier(entry));
    let older = older.filter_map(|(entry, _)| Some((*entry, last_open_period(entry, process)?)));
    let older = older.filter(|(_, time)| time.last.max(time.opened) > by.first.at).max_by_key(|(_, time)| time.opened);
    let reason = Reason::ExchangeDiffers {
        process: context.named_process(process),
        opened: of.opened,
        of: of.opened + of.lacks.len() as u64,
        lacks: of.lacks.len() as u64,
        newest: (Handle(lacked.fingerprint), context.named_process(by.process)),
        older: older.map(|(entry, _)| Handle(entry.fingerprint)),
        exported: of.exported,
    };
    let (entry, time) = older.unwrap_or((last, time));
    let found = PendingFinding::new(&reason, Confidence::Inferred, process, time.first_call(), 0);
    let objects = vec![opening_object(entry, process, time), export_object(context, lacked, by)];
    let failed = context.has_failed_process();
    Some(PendingFinding { objects, lowest_severity: failed.then_some(Severity::Warning), ..found })
}
