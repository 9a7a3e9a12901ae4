//! Calls with their stacks: failures in the order of time, and open calls without a close.

use super::TextView;
use crate::table::Table;
use cupeer_report::model::{Failure, FailureGroup, Leak, Place, Unnamed};
use cupeer_report::moments::{bytes, duration, number};
use cupeer_report::names::{clean, counted};
use cupeer_report::places::format_stack;
use cupeer_report::values;
use cupeer_report::verdict::{describe_runtime_call, format_fault_cause};
use cupeer_spec::effect::Object;
use std::collections::HashMap;

/// Largest number of frames of a stack, unless all are requested.
const MOST_FRAMES: usize = 4;

impl TextView<'_> {
    /// Lists the expected failures in groups and, on request, all failed calls in the order of time.
    pub fn failures(&self) -> String {
        let groups = &self.report.failure_groups;
        let usual: Vec<&FailureGroup> = groups.iter().filter(|group| group.usual && !group.injected).collect();
        let mut text = String::new();
        if !usual.is_empty() {
            text += &self.title("Expected failures");
            text += &self.format_list(usual.iter(), |group| self.wrap_item("  ", &self.describe_group(group)));
        }
        let are_asked_for = self.lists_all || self.report.record.filters.iter().any(|filter| filter == "--failed");
        if groups.is_empty() || !are_asked_for {
            return text;
        }
        let total: u64 = groups.iter().map(|group| group.count).sum();
        text += &self.title("Failures in order of time");
        let mut seen: HashMap<(&str, &str, &[Place]), u64> = HashMap::new();
        for failure in self.report.failures.iter().take(self.most_rows) {
            text += &self.format_failure(failure);
            let key = (&*failure.function, &*failure.result, &failure.stack[..]);
            match seen.get(&key) {
                Some(at) => text += &format!("      (from the same place as at {})\n", self.at(*at)),
                None => {
                    seen.insert(key, failure.time_ns);
                    text += &self.format_stack(&failure.stack);
                }
            }
        }
        let shown = self.report.failures.iter().take(self.most_rows).map(|failure| failure.calls.max(1));
        match total.saturating_sub(shown.fold(0, u64::saturating_add)) {
            0 => text,
            more => format!("{text}... {} more; --all shows them\n", number(more)),
        }
    }

    pub fn marks(&self) -> String {
        let mut table = Table::new(&["TIME", "WHO", "MARK"], 3, 20).with_numbers(&[0]);
        for mark in self.report.marks.iter().take(self.most_rows) {
            table.push_row([self.at(mark.time_ns), self.name_process(&mark.proc), clean(&mark.text)]);
        }
        let all = self.report.marks.len() + self.report.marks_more as usize;
        self.titled_table("Marks", table, all)
    }

    /// Lists the libraries whose functions have no names in this report, with the reasons.
    pub fn unnamed_libraries(&self) -> String {
        let unnamed = &self.report.unnamed;
        if unnamed.is_empty() {
            return String::new();
        }
        let line = |library: &Unnamed| clean(&format!("{}: {}", library.library, library.reason));
        let list = self.format_list(unnamed.iter(), |library| self.wrap_item("  ", &line(library)));
        self.title("Libraries without symbols") + &list
    }

    fn format_failure(&self, failure: &Failure) -> String {
        let injected = format_fault_cause(failure.injected, failure.injected_by.as_deref(), failure.follows_fault);
        let message = failure.driver_message.as_deref().map(|text| format!("; the driver says: {}", clean(text)));
        let runtime = describe_runtime_call(failure.runtime.as_ref());
        let call = format!(
            "{} {}({}) = {} <{}>{injected}{runtime}{}{}",
            self.names.process(&failure.proc),
            clean(&failure.function),
            clean(&values::format_arguments(&failure.args)),
            failure.result,
            duration(failure.duration_ns),
            message.unwrap_or_default(),
            match failure.calls {
                0 | 1 => String::new(),
                calls => format!("; and {} times more in the same way", number(calls - 1)),
            }
        );
        self.wrap_item(&format!("{}  ", self.at(failure.time_ns)), &call)
    }

    pub fn format_stack(&self, stack: &[Place]) -> String {
        let stack = self.without_start_frames(stack);
        let most = self.list_limit(MOST_FRAMES);
        if !self.lists_all && stack.first().is_some_and(|first| first.python.is_some()) {
            let lines = format_stack(stack);
            return lines.iter().take(most).map(|line| self.wrap_item("      ", &clean(line))).collect();
        }
        let lines = |place: &Place| -> String {
            place.lines().iter().map(|line| self.wrap_item("      ", &clean(line))).collect()
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
        let list = self.format_list(leaks.iter(), |leak| self.format_leak(leak) + &self.format_stack(&leak.stack));
        self.title("Opened and not closed, by the call stack that opened it") + &list
    }

    fn format_leak(&self, leak: &Leak) -> String {
        let size = if leak.bytes > 0 { format!(", {}", bytes(leak.bytes)) } else { String::new() };
        let whose = leak.allocator.and_then(|allocator| allocator.name_with_certainty());
        let whose = whose.map(|whose| format!(" of {whose}")).unwrap_or_default();
        let age = if leak.oldest_ns == leak.youngest_ns {
            duration(leak.oldest_ns)
        } else {
            format!("{} to {}", duration(leak.youngest_ns), duration(leak.oldest_ns))
        };
        let procs = self.names.processes(leak.procs.iter().map(|proc| &**proc));
        let what = if leak.kind == Object::Memory.word() { "mapping" } else { leak.kind };
        let times =
            if leak.times > leak.handles { format!(", opened {} times", number(leak.times)) } else { String::new() };
        self.wrap_item("- ", &format!("{}{size}{whose}{times}, open for {age}: {procs}", counted(leak.handles, what)))
    }
}
