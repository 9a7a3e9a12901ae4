//! What is wrong, the worst first: a line or a few each, and where to look further.

use super::super::model::{FailureGroup, Handle, State};
use super::super::moments::{bytes, duration};
use super::View;
use super::names::{counted, ranks};
use std::collections::BTreeMap;

/// The most of one kind that are told of here.
const MOST: usize = 5;

impl View<'_> {
    /// All that is wrong, or that nothing is.
    pub fn wrong(&self) -> String {
        let parts =
            [self.pending(), self.failed(), self.handles_gone_wrong(), self.unmapped(), self.deviating()];
        let text = parts.concat();
        if text.is_empty() {
            return "\nNothing is wrong: all calls returned, none failed, nothing stayed open.\n".to_owned();
        }
        format!("\nWhat is wrong\n{text}")
    }

    /// One thing that is wrong, with its items.
    fn thing(&self, what: &str, items: &[String]) -> String {
        let most = if self.all { usize::MAX } else { MOST };
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
        let mut items = Vec::new();
        for process in &self.report.processes {
            for call in &process.pending {
                let running = if process.exit == "gone" { "until its end" } else { "so far" };
                items.push((
                    std::cmp::Reverse(call.age_ns),
                    format!(
                        "{} has been in {} for {} {running}: thread {}, called from {}",
                        self.names.process(&process.proc),
                        call.function,
                        duration(call.age_ns),
                        call.tid,
                        call.caller.long(),
                    ),
                ));
            }
        }
        if items.is_empty() {
            return String::new();
        }
        items.sort();
        let items: Vec<String> = items.into_iter().map(|(_, item)| item).collect();
        let have = if items.len() == 1 { "has" } else { "have" };
        self.thing(&format!("{} {have} not returned", counted(items.len() as u64, "call")), &items)
    }

    fn failed(&self) -> String {
        let groups: Vec<&FailureGroup> =
            self.report.failure_groups.iter().filter(|group| !group.usual).collect();
        if groups.is_empty() {
            return String::new();
        }
        let count = groups.iter().map(|group| group.count).sum();
        let items: Vec<String> = groups.iter().map(|group| self.group(group)).collect();
        self.thing(&format!("{} failed", counted(count, "call")), &items)
    }

    fn handles_gone_wrong(&self) -> String {
        let of = |state: State| self.report.handles.iter().filter(move |handle| handle.state == state);
        let mut text = String::new();
        let things = [
            (State::FreedWhileOpen, "freed while others had them open"),
            (State::ExporterGone, "open although their exporter is gone"),
            (State::Damaged, "damaged copies of others: bytes differ that the driver does not check"),
            (
                State::OpenAtExit,
                "not closed by processes that have ended; --leaks says where they were opened",
            ),
        ];
        for (state, what) in things {
            let handles: Vec<&Handle> = of(state).collect();
            if handles.is_empty() {
                continue;
            }
            let size: u64 = handles.iter().filter_map(|handle| handle.bytes).sum();
            let size = if size > 0 { format!(" ({})", bytes(size)) } else { String::new() };
            let items: Vec<String> = match state {
                State::OpenAtExit => Vec::new(),
                _ => handles.iter().map(|handle| self.handle(handle)).collect(),
            };
            text += &self.thing(&format!("{}{size} {what}", counted(handles.len() as u64, "handle")), &items);
        }
        let nobody: Vec<String> = of(State::Unknown).map(|handle| self.handle(handle)).collect();
        if !nobody.is_empty() {
            let what = "that no process of this record exported could not be opened";
            text += &self.thing(&format!("{} {what}", counted(nobody.len() as u64, "handle")), &nobody);
        }
        text
    }

    /// A handle in a line.
    fn handle(&self, handle: &Handle) -> String {
        let exporter = match (&handle.exporter, handle.damaged_from) {
            (Some(proc), _) => format!("of {}", self.names.process(proc)),
            (None, Some(original)) => format!("a copy of {original}"),
            (None, None) => "exported by nobody".to_owned(),
        };
        let freed = match (handle.freed_by, handle.freed_ns) {
            (Some(by), Some(at)) => format!(", ended by {by} at {}", self.at(at)),
            _ => String::new(),
        };
        format!("{} {exporter}{freed}: {}", handle.fingerprint, self.importers(handle))
    }

    fn unmapped(&self) -> String {
        let mut items = Vec::new();
        for peer in self.report.peers.iter().filter(|peer| peer.unmapped_since_failure) {
            items.push(format!(
                "{} from {} to {}: {}",
                self.names.process(&peer.proc),
                self.names.device(peer.from),
                self.names.device(peer.to),
                super::names::codes(&peer.open_failed),
            ));
        }
        if items.is_empty() {
            return String::new();
        }
        let have = if items.len() == 1 { "has" } else { "have" };
        let what = format!("tried IPC, failed, and {have} had no mapping since");
        self.thing(&format!("{} of devices {what}", counted(items.len() as u64, "pair")), &items)
    }

    fn deviating(&self) -> String {
        let mut items = Vec::new();
        let mut who = std::collections::BTreeSet::new();
        for function in &self.report.functions {
            let deviating = function.ranks.iter().flat_map(|ranks| &ranks.deviating);
            let mut by_calls: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            let mut others = None;
            for deviation in deviating {
                by_calls.entry(deviation.calls).or_default().push(deviation.rank);
                who.insert(deviation.rank);
                others = Some((deviation.others, deviation.exact));
            }
            let Some((others, exact)) = others else { continue };
            let about = if exact { "" } else { "about " };
            let parts: Vec<String> = by_calls
                .iter()
                .map(|(calls, list)| format!("{} {calls}", ranks(list.iter().copied())))
                .collect();
            items.push(format!("{}: {}, the others {about}{others}", function.function, parts.join(", ")));
        }
        if items.is_empty() {
            return String::new();
        }
        let verb = if who.len() == 1 { "deviates" } else { "deviate" };
        self.thing(&format!("{} {verb} from the others in calls", ranks(who.into_iter())), &items)
    }
}
