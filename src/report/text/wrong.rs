//! The problems, worst first: a line or a few each, and where to find more.

use super::super::model::{
    ExitKind, FailedOpen, Failure, FailureGroup, Finding, Handle, Peer, Pending, Place, Proc, Process, State,
};
use super::super::moments::{duration, number};
use super::super::places::in_lines;
use super::View;
use super::calls::in_runtime;
use super::endings::death;
use super::findings::is_told;
use super::names::{clean, codes, counted, ranks, result};
use super::tables::in_all;
use cupeer_rules::Rule;
use std::collections::{BTreeMap, BTreeSet};

/// The most of one kind that are listed here.
pub const MOST: usize = 5;
/// The most frames below which a call is listed.
const MOST_FRAMES: usize = 3;

/// Things of one kind that are wrong, beside deaths and what rules found.
pub struct Thing {
    /// How many of what.
    pub what: String,
    /// Each of them; lines after the first belong to it.
    pub items: Vec<String>,
    /// All that in a line; empty where others say it.
    pub in_short: String,
    /// The option of `cupeer report` that shows more; empty for none.
    pub option: &'static str,
}

impl Thing {
    /// So many of something of which something is wrong, with its items; `None` where there are none.
    pub fn of((count, word): (u64, &str), what: &str, items: Vec<String>) -> Option<Thing> {
        (count > 0).then(|| Thing::new(format!("{} {what}", counted(count, word)), items))
    }

    fn new(what: String, items: Vec<String>) -> Thing {
        let first = items.first().and_then(|item| item.lines().next());
        let in_short = match (first, items.len()) {
            (None, _) => what.clone(),
            (Some(one), 1) => format!("{what}: {one}"),
            (Some(first), _) => format!("{what}, first {first}"),
        };
        Thing { what, items, in_short, option: "" }
    }

    fn with_option(self, option: &'static str) -> Thing {
        Thing { option, ..self }
    }

    /// In a line of its own; an empty one where others say it.
    pub fn in_short(self, in_short: String) -> Thing {
        Thing { in_short, ..self }
    }
}

impl<'a> View<'a> {
    /// Looks for what is wrong beside deaths and what rules found, the worst first.
    pub fn look(&self) -> Vec<Thing> {
        let things = [self.pending(), self.failed()]
            .into_iter()
            .chain(self.handles_gone_wrong().into_iter().map(Some))
            .chain([
                self.unmapped(),
                self.deviating(),
                self.failing_ends(),
                self.failing_starts(),
                self.forked(),
            ]);
        things.flatten().collect()
    }

    /// What is wrong in full; nothing, where nothing is.
    pub fn wrong(&self, wrong: &[Thing]) -> String {
        let things: String = wrong.iter().map(|thing| self.shown(thing)).collect();
        let text = self.deaths() + &self.findings() + &things;
        if text.is_empty() { text } else { self.title("Problems") + &text + &self.outside() }
    }

    /// Things of one kind, as [`Thing::of`] takes them; nothing, where there are none.
    pub fn things(&self, count: (u64, &str), what: &str, items: Vec<String>) -> String {
        Thing::of(count, what, items).map_or_else(String::new, |thing| self.shown(&thing))
    }

    /// A thing with its items.
    pub fn shown(&self, Thing { what, items, .. }: &Thing) -> String {
        let most = self.at_most(MOST);
        let mut text = self.item("- ", what);
        for item in items.iter().take(most) {
            let mut lines = item.lines();
            text += &lines.next().map_or_else(String::new, |line| self.item("  ", line));
            text.extend(lines.map(|line| self.item("      ", line)));
        }
        if items.len() > most {
            text += &format!("  ... {} more\n", items.len() - most);
        }
        text
    }

    fn pending(&self) -> Option<Thing> {
        let calls = self.all_unreturned();
        let items: Vec<String> = calls.iter().map(|(process, call)| self.unreturned(process, call)).collect();
        let have = if items.len() == 1 { "has" } else { "have" };
        Thing::of((items.len() as u64, "call"), &format!("{have} not returned"), items)
    }

    /// The calls that have not returned and were to: the oldest first.
    pub fn all_unreturned(&self) -> Vec<(&'a Process, &'a Pending)> {
        let is_on_its_own = |call: &&Pending| call.injected_by.is_none();
        let of = |process: &'a Process| {
            process.pending.iter().filter(is_on_its_own).map(move |call| (process, call))
        };
        // Where it died in them has been said.
        let is_told = |process: &&Process| death(process).is_none();
        let mut calls: Vec<_> = self.report.processes.iter().filter(is_told).flat_map(of).collect();
        calls.sort_by_key(|(_, call)| call.since_ns);
        calls
    }

    pub fn unreturned(&self, process: &Process, call: &Pending) -> String {
        let (who, function) = (self.names.process(&process.proc), clean(&call.function));
        let how = match process.exit.kind {
            ExitKind::Running => format!("has been in {function} for {},", duration(call.age_ns)),
            ExitKind::Unseen => format!("was last in {function},"),
            _ => format!("ended in {function},"),
        };
        format!("{who} {how} {}", self.called(call))
    }

    /// `called at 0.001 by thread 17 from train+0x10a`.
    pub fn called(&self, call: &Pending) -> String {
        let (at, runtime) = (self.at(call.since_ns), in_runtime(call.runtime.as_ref()));
        format!("called at {at} by thread {} from {}{runtime}", call.tid, clean(&call.caller.long()))
    }

    pub fn failed(&self) -> Option<Thing> {
        let groups = self.unexplained();
        let count = groups.iter().map(|group| group.count).sum();
        let items: Vec<String> = groups.iter().map(|group| self.group_with_stack(group)).collect();
        let other = if self.report.findings.iter().any(is_told) { "other " } else { "" };
        let first = groups.first()?;
        let in_short = format!(
            "{} failed, {}{} = {} in {}",
            counted(count, &format!("{other}call")),
            if groups.len() > 1 { "first " } else { "" },
            clean(&first.function),
            result(&first.result),
            self.names.processes(first.procs.iter().map(|proc| &**proc))
        );
        let thing = Thing::of((count, &format!("{other}call")), "failed", items);
        thing.map(|thing| thing.with_option("--failed").in_short(in_short))
    }

    /// Failures from one place, and who called that.
    fn group_with_stack(&self, group: &FailureGroup) -> String {
        let is_one = |failure: &&Failure| {
            (&failure.function, &failure.result, &failure.caller)
                == (&group.function, &group.result, &group.caller)
        };
        let first = self.report.failures.iter().find(is_one);
        let stack = first.map_or(&[][..], |failure| self.without_start(&failure.stack));
        if stack.first().is_some_and(|first| first.python.is_some()) {
            let above = in_lines(stack).into_iter().skip(1).take(MOST_FRAMES);
            return self.group(group) + &above.map(|line| format!("\n{}", clean(&line))).collect::<String>();
        }
        let inlined_into = stack.first().map(Place::lines).unwrap_or_default().into_iter().skip(1);
        let above = stack.iter().skip(1).take(MOST_FRAMES).flat_map(Place::lines);
        let above = inlined_into.chain(above).map(|line| format!("\n{}", clean(&line)));
        self.group(group) + &above.collect::<String>()
    }

    /// The failures that no rule has told of, and that were to succeed.
    pub fn unexplained(&self) -> Vec<&'a FailureGroup> {
        let is_new = |group: &&FailureGroup| !group.usual && !group.is_on_purpose() && !self.is_found(group);
        self.report.failure_groups.iter().filter(is_new).collect()
    }

    /// Whether failures are reported by what rules found in them.
    fn is_found(&self, group: &FailureGroup) -> bool {
        let of_group = |finding: &&Finding| {
            (&finding.function, finding.result.as_ref(), &finding.caller)
                == (&group.function, Some(&group.result), &group.caller)
        };
        // Each failure has one explanation, but ranks may differ in it as well.
        let explains = |finding: &&Finding| *finding.rule != *Rule::RanksDiffer.spec().name;
        let counts =
            self.report.findings.iter().filter(of_group).filter(explains).map(|finding| finding.count);
        let explained: u64 = counts.sum();
        explained >= group.count
    }

    fn found(&self, rules: &[Rule]) -> u64 {
        let is_one = |finding: &&Finding| rules.iter().any(|rule| *finding.rule == *rule.spec().name);
        self.report.findings.iter().filter(is_one).map(|finding| finding.count).sum()
    }

    fn handles_gone_wrong(&self) -> Vec<Thing> {
        let of = |state: State| self.report.handles.iter().filter(move |handle| handle.state == state);
        let mut gone = Vec::new();
        let things = [
            (
                State::FreedWhileOpen,
                &[
                    Rule::IpcFreedWhileOpen,
                    Rule::IpcContextEndedWhileOpen,
                    Rule::IpcEventDestroyedWhileOpen,
                    Rule::PoolFreedWhileOpen,
                    Rule::PoolDestroyedWhileOpen,
                ][..],
                "was freed while others had it open",
                "were freed while others had them open",
            ),
            (
                State::ExporterGone,
                &[],
                "is open although its exporter is gone",
                "are open although their exporters are gone",
            ),
            (
                State::Damaged,
                &[Rule::IpcDamagedHandle],
                "is a copy with damaged bytes",
                "are copies with damaged bytes",
            ),
            (
                State::OpenAtExit,
                &[Rule::IpcNeverClosed, Rule::IpcLeak, Rule::VmmLeak],
                "was open when its opener ended",
                "were open when their openers ended",
            ),
            (
                State::Unknown,
                &[Rule::IpcUnknownHandle, Rule::IpcDamagedHandle, Rule::IpcHandleKind, Rule::IpcFlags],
                "could not be opened, and nobody here exported it",
                "could not be opened, and nobody here exported them",
            ),
        ];
        for (state, rules, one, more) in things {
            // Whom nobody but a fault plan kept from opening it, knows no more of it.
            let is_tried = |handle: &&Handle| {
                state != State::Unknown || !handle.failed.iter().all(FailedOpen::is_on_purpose)
            };
            let handles: Vec<&Handle> = of(state).filter(is_tried).collect();
            // What rules found is reported in their words.
            if handles.is_empty() || self.found(rules) > 0 {
                continue;
            }
            let what = if handles.len() == 1 { one } else { more };
            let size = in_all(handles.iter().copied());
            let items: Vec<String> = match state {
                State::OpenAtExit => Vec::new(),
                _ => handles.iter().map(|handle| self.handle(handle)).collect(),
            };
            let thing =
                Thing::new(format!("{}{size} {what}", counted(handles.len() as u64, "handle")), items);
            gone.push(if state == State::OpenAtExit { thing.with_option("--leaks") } else { thing });
        }
        gone
    }

    fn handle(&self, handle: &Handle) -> String {
        let exporter = match (&handle.exporter, handle.damaged_from) {
            (Some(proc), _) => format!("of {}", self.names.process(proc)),
            (None, Some(original)) => format!("from {original}"),
            (None, None) => "of nobody".to_owned(),
        };
        let freed = match (handle.freed_by, handle.freed_ns) {
            (Some(by), Some(at)) => format!(", ended by {by} at {}", self.at(at)),
            _ => String::new(),
        };
        format!("{} {exporter}{freed}: {}", handle.fingerprint, self.culprits(handle))
    }

    fn unmapped(&self) -> Option<Thing> {
        let is_found = |proc: &Proc| {
            let is_it = |finding: &Finding| *finding.rule == *Rule::IpcFallback.spec().name;
            self.report.findings.iter().any(|finding| is_it(finding) && finding.procs.contains(proc))
        };
        let unmapped =
            |peer: &&Peer| peer.unmapped_since_failure && peer.to.is_some() && !is_found(&peer.proc);
        let item = |peer: &Peer| {
            let [from, to] = [peer.from, peer.to].map(|device| self.names.device(device));
            let (who, codes) = (self.names.process(&peer.proc), codes(&peer.open_failed));
            let injected =
                if peer.injected > 0 { format!(" ({} INJECTED)", peer.injected) } else { String::new() };
            format!("{who} from {from} to {to}: {codes}{injected}")
        };
        let items: Vec<String> = self.report.peers.iter().filter(unmapped).map(item).collect();
        let have = if items.len() == 1 { "has" } else { "have" };
        let what = format!("of devices {have} had no IPC mapping since an open failed");
        // The digest has the failures.
        Thing::of((items.len() as u64, "pair"), &what, items).map(|thing| thing.in_short(String::new()))
    }

    fn deviating(&self) -> Option<Thing> {
        // Of its failures alone nobody sees how often a rank calls.
        if self.report.record.filters.iter().any(|filter| filter == "--failed") {
            return None;
        }
        // Of these nobody knows how often they called.
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
                process.injected > 0
                    && process.rank.is_some_and(|rank| by_calls.values().flatten().any(|r| *r == rank))
            };
            let changed: BTreeSet<u32> =
                self.report.processes.iter().filter(is_changed).filter_map(|process| process.rank).collect();
            let Some((others, exact)) = others else { continue };
            let about = if exact { "" } else { "about " };
            let made = |(calls, list): (&u64, &Vec<u32>)| {
                format!("{} made {}", ranks(list.iter().copied()), number(*calls))
            };
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
        Some(Thing::new(what, items).in_short(in_short))
    }
}
