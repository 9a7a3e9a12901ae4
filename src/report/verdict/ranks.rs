//! Pairs of devices without a mapping since an open failed, and ranks that deviate from the others.

use super::{Problem, Verdict};
use crate::base::moments::number;
use crate::model::{Finding, Peer, Proc, Process, is_explanation};
use crate::words::names::{clean, codes, counted, ranks};
use cupeer_rules::Rule;
use cupeer_spec::function::FnId;
use std::collections::{BTreeMap, BTreeSet};

impl<'a> Verdict<'a> {
    pub(super) fn find_unmapped_pairs(&self) -> Option<Problem<'a>> {
        let is_found = |proc: &Proc| {
            // A finding about the failed open already reports such a pair.
            let is_open = |name: &str| FnId::by_name(name).is_some_and(|id| id.spec().opens().is_some());
            let is_it = |finding: &Finding| {
                *finding.rule == *Rule::IpcFallback.spec().name()
                    || finding.result.as_deref().is_some_and(|result| result != "CUDA_SUCCESS")
                        && is_open(&finding.function)
                        && !is_explanation(&finding.rule)
            };
            self.report.findings.iter().any(|finding| is_it(finding) && finding.procs.contains(proc))
        };
        let unmapped = |peer: &&Peer| peer.unmapped_since_failure && peer.to.is_some() && !is_found(&peer.proc);
        let item = |peer: &Peer| {
            let [from, to] = [peer.from, peer.to].map(|device| self.names.device(device));
            let (who, codes) = (self.names.process(&peer.proc), codes(&peer.open_failed));
            let injected = if peer.injected > 0 { format!(" ({} INJECTED)", peer.injected) } else { String::new() };
            let from = if peer.from.is_some() { format!(" from {from}") } else { String::new() };
            format!("{who}{from} to {to}: {codes}{injected}")
        };
        let items: Vec<String> = self.report.peers.iter().filter(unmapped).map(item).collect();
        let have = if items.len() == 1 { "has" } else { "have" };
        let what = format!("of devices {have} had no IPC mapping since an open failed");
        // The headline has separate lines for the failed calls.
        let problem = Problem::of((items.len() as u64, "pair"), &what, items)?;
        Some(Problem { in_short: String::new(), ..problem })
    }

    pub(super) fn find_deviating_ranks(&self) -> Option<Problem<'a>> {
        // A recording of failures only does not show how often a rank called a function.
        if self.report.record.filters.iter().any(|filter| filter == "--failed") {
            return None;
        }
        // Ranks whose number of calls is unknown.
        let lossy: BTreeSet<u32> = self
            .report
            .processes
            .iter()
            .filter(|process| process.lost > 0)
            .filter_map(|process| process.rank)
            .collect();
        let mut items = Vec::new();
        let mut who = BTreeSet::new();
        for function in &self.report.functions {
            let deviating = function.ranks.iter().flat_map(|ranks| &ranks.deviating);
            let deviating = deviating.filter(|deviation| !lossy.contains(&deviation.rank));
            let mut by_calls: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            let mut others = None;
            for deviation in deviating {
                by_calls.entry(deviation.calls).or_default().push(deviation.rank);
                who.insert(deviation.rank);
                others = Some((deviation.others, deviation.exact));
            }
            let is_changed = |process: &&Process| {
                process.injected > 0 && process.rank.is_some_and(|rank| by_calls.values().flatten().any(|r| *r == rank))
            };
            let changed: BTreeSet<u32> =
                self.report.processes.iter().filter(is_changed).filter_map(|process| process.rank).collect();
            let Some((others, exact)) = others else { continue };
            let about = if exact { "" } else { "about " };
            let made =
                |(calls, list): (&u64, &Vec<u32>)| format!("{} made {}", ranks(list.iter().copied()), number(*calls));
            let parts: Vec<String> = by_calls.iter().map(made).collect();
            let name = clean(&function.function);
            let why = match changed.is_empty() {
                true => String::new(),
                false => format!("; a fault plan changed calls of {}", ranks(changed.into_iter())),
            };
            items.push(format!("{name}: {}, the others {about}{}{why}", parts.join(", "), number(others)));
        }
        if items.is_empty() {
            return None;
        }
        let make = if who.len() == 1 { "makes" } else { "make" };
        let who = ranks(who.into_iter());
        let what = format!("{who} {make} a different number of calls than the other ranks");
        let in_short = match &items[..] {
            [one] => format!("{what}: {one}"),
            _ => format!("{what}: {}", counted(items.len() as u64, "function")),
        };
        Some(Problem { in_short, ..Problem::new(what, items) })
    }
}
