//! What is wrong, worst first: a line or a few each, and where to look further.

use super::super::model::{
    ExitKind, FailedOpen, FailureGroup, Finding, Handle, Peer, Pending, Proc, Process, State,
};
use super::super::moments::{duration, number};
use super::View;
use super::calls::in_runtime;
use super::endings::death;
use super::findings::is_told;
use super::names::{clean, codes, counted, ranks};
use super::tables::in_all;
use cupeer_rules::Rule;
use cupeer_spec::env;
use std::collections::{BTreeMap, BTreeSet};

/// The most of one kind that are listed here.
pub const MOST: usize = 5;

impl<'a> View<'a> {
    pub fn wrong(&self) -> String {
        let parts = [
            self.deaths(),
            self.findings(),
            self.pending(),
            self.failed(),
            self.handles_gone_wrong(),
            self.unmapped(),
            self.deviating(),
            self.failing_ends(),
        ];
        let text = parts.concat();
        match (text.is_empty(), self.report.record.matching) {
            (true, Some(0)) => return String::new(),
            (true, _) => return self.nothing(),
            (false, _) => {}
        }
        format!("\nWhat is wrong\n{text}")
    }

    /// That nothing is wrong, as far as can be seen.
    fn nothing(&self) -> String {
        let unseen: Vec<(&Proc, String)> = self.report.unseen().collect();
        if let Some((_, why)) = unseen.first() {
            let processes = self.names.processes(unseen.iter().map(|(proc, _)| &***proc));
            let text = format!("libcuda was loaded in {processes}, but no watched call was seen: {why}.");
            return format!("\n{}", self.item("", &text));
        }
        let filtered = if self.report.record.matching.is_some() { " with what is shown" } else { "" };
        let mut text = format!("{}: all calls returned", self.well(filtered));
        if self.report.processes.iter().any(|process| !process.pending.is_empty()) {
            text += " except those that a fault plan stopped";
        }
        let groups = &self.report.failure_groups;
        if groups.is_empty() {
            text += ", none failed";
        } else if groups.iter().all(FailureGroup::is_on_purpose) {
            text += ", none failed except because of a fault plan";
        }
        let is_open = |handle: &&Handle| matches!(handle.state, State::Open | State::OpenAtExit);
        match self.report.handles.iter().filter(is_open).count() {
            0 => text += &self.none_open(),
            count => text += &format!(", {} open", counted(count as u64, "handle")),
        }
        if self.report.record.lost > 0 {
            text += ", as far as events were kept";
        }
        format!("\n{}{}", self.item("", &format!("{text}.")), self.unchecked())
    }

    /// That no handle is open, and how many were freed before they were closed: a rule has told of those in a note.
    fn none_open(&self) -> String {
        let is_freed = |handle: &&Handle| handle.state == State::FreedWhileOpen;
        match self.report.handles.iter().filter(is_freed).count() as u64 {
            0 => ", no handle is open".into(),
            1 => ", no handle is open; 1 handle was freed while open elsewhere, as a note says".into(),
            freed => format!(
                ", no handle is open; {} handles were freed while open elsewhere, as a note says",
                number(freed)
            ),
        }
    }

    /// What was not looked for, where no process was checked.
    fn unchecked(&self) -> String {
        let is_checked =
            |process: &Process| process.variables.get(env::CHECK).is_some_and(|level| !level.is_empty());
        if self.report.processes.iter().any(is_checked) {
            return String::new();
        }
        self.item("", "Not looked for without --check: interior pointers, re-exports and the like.")
    }

    /// So many of something of which something is wrong, with its items; nothing, where there are none.
    pub fn thing(&self, (count, word): (u64, &str), what: &str, items: &[String]) -> String {
        if count == 0 {
            String::new()
        } else {
            self.items(&format!("{} {what}", counted(count, word)), items)
        }
    }

    /// One thing that is wrong, with its items.
    fn items(&self, what: &str, items: &[String]) -> String {
        let most = self.at_most(MOST);
        let mut text = self.item("- ", what);
        for item in items.iter().take(most) {
            text += &self.item("  ", item);
        }
        if items.len() > most {
            text += &format!("  ... {} more\n", items.len() - most);
        }
        text
    }

    fn pending(&self) -> String {
        let calls = self.all_unreturned();
        let items: Vec<String> = calls.iter().map(|(process, call)| self.unreturned(process, call)).collect();
        let have = if items.len() == 1 { "has" } else { "have" };
        self.thing((items.len() as u64, "call"), &format!("{have} not returned"), &items)
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

    fn failed(&self) -> String {
        let groups = self.unexplained();
        let count = groups.iter().map(|group| group.count).sum();
        let items: Vec<String> = groups.iter().map(|group| self.group(group)).collect();
        let other = if self.report.findings.iter().any(is_told) { "other " } else { "" };
        self.thing((count, &format!("{other}call")), "failed", &items)
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
        // One rule has two rows where some of them are suppressed.
        let mut by_rule: BTreeMap<&str, u64> = BTreeMap::new();
        for finding in self.report.findings.iter().filter(of_group) {
            *by_rule.entry(&finding.rule).or_default() += finding.count;
        }
        by_rule.into_values().any(|count| count >= group.count)
    }

    fn found(&self, rules: &[Rule]) -> u64 {
        let is_one = |finding: &&Finding| rules.iter().any(|rule| *finding.rule == *rule.spec().name);
        self.report.findings.iter().filter(is_one).map(|finding| finding.count).sum()
    }

    fn handles_gone_wrong(&self) -> String {
        let of = |state: State| self.report.handles.iter().filter(move |handle| handle.state == state);
        let mut text = String::new();
        let things = [
            (
                State::FreedWhileOpen,
                &[Rule::IpcFreedWhileOpen, Rule::IpcContextEndedWhileOpen, Rule::IpcEventDestroyedWhileOpen]
                    [..],
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
                &[Rule::IpcNeverClosed],
                "was open when its opener ended; --leaks shows where it was opened",
                "were open when their openers ended; --leaks shows where they were opened",
            ),
            (
                State::Unknown,
                &[Rule::IpcUnknownHandle, Rule::IpcHandleKind, Rule::IpcFlags],
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
            text += &self.items(&format!("{}{size} {what}", counted(handles.len() as u64, "handle")), &items);
        }
        text
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

    fn unmapped(&self) -> String {
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
        let what = format!("of devices tried IPC, failed, and {have} had no mapping since");
        self.thing((items.len() as u64, "pair"), &what, &items)
    }

    fn deviating(&self) -> String {
        let mut items = Vec::new();
        let mut who = BTreeSet::new();
        for function in &self.report.functions {
            let deviating = function.ranks.iter().flat_map(|ranks| &ranks.deviating);
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
            return String::new();
        }
        let verb = if who.len() == 1 { "deviates" } else { "deviate" };
        let who = ranks(who.into_iter());
        self.items(&format!("{who} {verb} from the others in how often they call"), &items)
    }
}
