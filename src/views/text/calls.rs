//! Calls with their stacks: failures in the order of time, and open calls without a close.

use super::View;
use crate::table::Table;
use cupeer_report::model::{Failure, FailureGroup, Leak, Place, Unnamed};
use cupeer_report::moments::{bytes, duration, number};
use cupeer_report::names::{clean, counted};
use cupeer_report::places::in_lines;
use cupeer_report::values;
use cupeer_report::verdict::{in_runtime, whose};
use cupeer_spec::effect::Object;
use std::collections::HashMap;

/// Largest number of frames of a stack, unless all are requested.
const MOST_FRAMES: usize = 4;

impl View<'_> {
    /// Lists failed calls that neither a finding nor a problem mentions; all failed calls on request.
    pub fn failures(&self) -> String {
        let groups = &self.report.failure_groups;
        let usual: Vec<&FailureGroup> =
            groups.iter().filter(|group| group.usual && !group.injected).collect();
        let mut text = String::new();
        if !usual.is_empty() {
            text += &self.title("Expected failures");
            text += &self.listed(usual.iter(), |group| self.item("  ", &self.group(group)));
        }
        let are_asked_for = self.all || self.report.record.filters.iter().any(|filter| filter == "--failed");
        if groups.is_empty() || !are_asked_for {
            return text;
        }
        let total: u64 = groups.iter().map(|group| group.count).sum();
        text += &self.title("Failures in order of time");
        let mut seen: HashMap<(&str, &str, &[Place]), u64> = HashMap::new();
        for failure in self.report.failures.iter().take(self.most) {
            text += &self.failure(failure);
            let key = (&*failure.function, &*failure.result, &failure.stack[..]);
            match seen.get(&key) {
                Some(at) => text += &format!("      (from the same place as at {})\n", self.at(*at)),
                None => {
                    seen.insert(key, failure.time_ns);
                    text += &self.stack(&failure.stack);
                }
            }
        }
        let shown = self.report.failures.iter().take(self.most).map(|failure| failure.calls.max(1));
        match total.saturating_sub(shown.fold(0, u64::saturating_add)) {
            0 => text,
            more => format!("{text}... {} more; --all shows them\n", number(more)),
        }
    }

    pub fn marks(&self) -> String {
        let mut table = Table::new(&["TIME", "WHO", "MARK"], 3, 20).with_numbers(&[0]);
        for mark in self.report.marks.iter().take(self.most) {
            table.row([self.at(mark.time_ns), self.called_process(&mark.proc), clean(&mark.text)]);
        }
        let all = self.report.marks.len() + self.report.marks_more as usize;
        self.section("Marks", table, all)
    }

    /// Lists the libraries whose functions have no names in this report, with the reasons.
    pub fn unnamed(&self) -> String {
        let unnamed = &self.report.unnamed;
        if unnamed.is_empty() {
            return String::new();
        }
        let line = |library: &Unnamed| clean(&format!("{}: {}", library.library, library.reason));
        let list = self.listed(unnamed.iter(), |library| self.item("  ", &line(library)));
        self.title("Libraries without symbols") + &list
    }

    fn failure(&self, failure: &Failure) -> String {
        let injected = whose(failure.injected, failure.injected_by.as_deref(), failure.follows_fault);
        let message =
            failure.driver_message.as_deref().map(|text| format!("; the driver says: {}", clean(text)));
        let runtime = in_runtime(failure.runtime.as_ref());
        let call = format!(
            "{} {}({}) = {} <{}>{injected}{runtime}{}{}",
            self.names.process(&failure.proc),
            clean(&failure.function),
            clean(&values::text(&failure.args)),
            failure.result,
            duration(failure.duration_ns),
            message.unwrap_or_default(),
            match failure.calls {
                0 | 1 => String::new(),
                calls => format!("; and {} times more in the same way", number(calls - 1)),
            }
        );
        self.item(&format!("{}  ", self.at(failure.time_ns)), &call)
    }

    pub fn stack(&self, stack: &[Place]) -> String {
        let stack = self.without_start(stack);
        let most = self.at_most(MOST_FRAMES);
        if !self.all && stack.first().is_some_and(|first| first.python.is_some()) {
            let lines = in_lines(stack);
            return lines.iter().take(most).map(|line| self.item("      ", &clean(line))).collect();
        }
        let lines = |place: &Place| -> String {
            place.lines().iter().map(|line| self.item("      ", &clean(line))).collect()
        };
        let mut text: String = stack.iter().take(most).map(lines).collect();
        if stack.len() > most {
            text += &format!("      ... {} more\n", stack.len() - most);
        }
        text
    }

    /// Lists the handles that were opened and not closed, by the stacks of the opens.
    pub fn leaks(&self) -> String {
        let leaks = &self.report.leaks;
        if leaks.is_empty() {
            return "\nEach handle that was opened was closed or released. Mappings and a process's own memory are not listed here.\n".to_owned();
        }
        let list = self.listed(leaks.iter(), |leak| self.leak(leak) + &self.stack(&leak.stack));
        self.title("Opened and not closed, by the call stack that opened it") + &list
    }

    fn leak(&self, leak: &Leak) -> String {
        let size = if leak.bytes > 0 { format!(", {}", bytes(leak.bytes)) } else { String::new() };
        let whose = leak.allocator.and_then(|allocator| allocator.text());
        let whose = whose.map(|whose| format!(" of {whose}")).unwrap_or_default();
        let age = if leak.oldest_ns == leak.youngest_ns {
            duration(leak.oldest_ns)
        } else {
            format!("{} to {}", duration(leak.youngest_ns), duration(leak.oldest_ns))
        };
        let procs = self.names.processes(leak.procs.iter().map(|proc| &**proc));
        let what = if leak.kind == Object::Memory.word() { "mapping" } else { leak.kind };
        let times = if leak.times > leak.handles {
            format!(", opened {} times", number(leak.times))
        } else {
            String::new()
        };
        self.item(
            "- ",
            &format!("{}{size}{whose}{times}, open for {age}: {procs}", counted(leak.handles, what)),
        )
    }
}
