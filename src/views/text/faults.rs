//! Fault plans: their effects, and one row per fault.

use super::TextView;
use crate::plans::is_counted_in_each_process;
use crate::table::Table;
use cupeer_report::model::DENY;
use cupeer_report::model::{FailureGroup, Fault, FaultHit, Handle, Pending, Process, State};
use cupeer_report::moments::{duration, number};
use cupeer_report::names::{clean, counted};

/// Largest number of calls that are listed per rule, unless all are requested.
const MOST_HITS: usize = 3;

impl TextView<'_> {
    /// Returns the section about fault plans; empty if there was no plan.
    pub fn faults(&self) -> String {
        let did = [self.list_injected_failures(), self.list_stopped_calls(), self.list_changed_handles()].concat();
        let table = self.fault_table() + &self.list_hits();
        if did.is_empty() && table.is_empty() {
            return String::new();
        }
        let is_dry = self.report.faults.iter().any(|fault| fault.dry_run);
        let title = if is_dry { "Faults of a dry run: they changed nothing" } else { "Faults" };
        self.title(title) + &did + &table
    }

    /// Returns a table of the faults in the order in which they are checked.
    fn fault_table(&self) -> String {
        let faults = &self.report.faults;
        let head = ["FAULT", "MATCHED", "FIRED", "DEFINITION"];
        let mut table = Table::new(&head, 4, 20).with_numbers(&[1, 2]).with_last_below();
        for fault in faults.iter().take(self.most_rows) {
            let is_counted_apart = fault.rule.as_deref().is_some_and(is_counted_in_each_process);
            let note = match (fault.matched, fault.fired) {
                (Some(0), 0) => " (never reached)",
                (_, 0) if is_counted_apart => " (never fired; counted in each process)",
                (_, 0) => " (never fired)",
                _ => "",
            };
            let rule = fault.rule.as_deref().map_or("(armed by the program)".into(), clean);
            let seen = if fault.only_seen { " (seen, not documented)" } else { "" };
            table.push_row([
                clean(&fault.name),
                fault.matched.map_or("-".into(), number),
                number(fault.fired),
                format!("{rule}{seen}{note}"),
            ]);
        }
        if table.is_empty() { String::new() } else { table.render(self.width) + &self.omission_line(faults.len()) }
    }

    /// Lists the first calls at which each rule fired.
    fn list_hits(&self) -> String {
        let most = self.list_limit(MOST_HITS);
        let (mut text, mut more) = (String::new(), 0);
        for fault in self.report.faults.iter().take(self.most_rows) {
            for hit in fault.hits.iter().take(most) {
                text += &self.wrap_item("- ", &format!("{} {}", clean(&fault.name), self.describe_hit(fault, hit)));
            }
            more += fault.hits.len().saturating_sub(most) as u64 + fault.hits_more;
        }
        match more {
            0 => text,
            more if self.lists_all => format!("{text}... {}\n", counted(more, "more call")),
            more => format!("{text}... {}; --all shows the first of them\n", counted(more, "more call")),
        }
    }

    /// Describes a call at which a rule fired: `at cuIpcOpenMemHandle_v2, 1333, at 0.002921: error, not
    /// called (call 1 of those it counts)`.
    fn describe_hit(&self, fault: &Fault, hit: &FaultHit) -> String {
        let words: Vec<String> = hit.did.iter().map(|word| word.replace('-', " ")).collect();
        let waited = match hit.waited_ns {
            0 => String::new(),
            waited => format!(", waited {}", duration(waited)),
        };
        let (function, process) = (clean(&hit.function), self.names.process(&hit.proc));
        // The rule had no effect, because another rule came first or the call failed by itself.
        let did = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
        let at = self.at(hit.time_ns);
        // Denied calls are not counted, so their number has no meaning for `when=`.
        let count = match &*fault.plan {
            DENY => String::new(),
            _ => format!(" (call {} of those it counts)", number(hit.count)),
        };
        format!("at {function}, {process}, at {at}: {did}{waited}{count}")
    }

    /// Lists the calls in which a fault plan injected a failure, and those that failed as a consequence of
    /// it.
    fn list_injected_failures(&self) -> String {
        let thing = |what: &str, is_one: fn(&FailureGroup) -> bool| {
            let groups: Vec<&FailureGroup> = self.report.failure_groups.iter().filter(|group| is_one(group)).collect();
            let count: u64 = groups.iter().map(|group| group.count).sum();
            let items: Vec<String> = groups.iter().map(|group| self.describe_group(group)).collect();
            self.format_things((count, "call"), what, items)
        };
        thing("failed (injected)", |group| group.injected)
            + &thing("failed because a fault plan had changed their input", |group| group.follows_fault)
    }

    /// Lists the calls that do not return because of a fault plan.
    fn list_stopped_calls(&self) -> String {
        let all = self.report.processes.iter();
        let all = all.flat_map(|process| process.pending.iter().map(move |call| (process, call)));
        let stopped: Vec<(&Process, &Pending)> = all.filter(|(_, call)| call.injected_by.is_some()).collect();
        let item = |(process, call): &(&Process, &Pending)| {
            let by = clean(call.injected_by.as_deref().unwrap_or_default());
            let until = match &call.release {
                Some(label) if !process.exit.has_ended() => {
                    format!("; `cupeer release {} {}` ends it", clean(&self.report.record.path), clean(label))
                }
                _ => String::new(),
            };
            format!("{} ({by}){until}", self.describe_unreturned(process, call))
        };
        let items: Vec<String> = stopped.iter().map(item).collect();
        let have = if items.len() == 1 { "has" } else { "have" };
        let what = format!("{have} not returned (held by a fault plan)");
        self.format_things((items.len() as u64, "call"), &what, items)
    }

    /// Lists the handles that a fault plan damaged or kept open.
    fn list_changed_handles(&self) -> String {
        let things = [
            (State::OpenOnPurpose, "open, which a fault plan kept from being closed"),
            (State::DamagedOnPurpose, "damaged by a fault plan"),
        ];
        let thing = |(state, what): (State, &str)| {
            let handles = self.report.handles.iter().filter(|handle| handle.state == state);
            let item = |handle: &Handle| format!("{}: {}", handle.fingerprint, self.describe_culprits(handle));
            let items: Vec<String> = handles.map(item).collect();
            let is = if items.len() == 1 { "is" } else { "are" };
            self.format_things((items.len() as u64, "handle"), &format!("{is} {what}"), items)
        };
        things.map(thing).concat()
    }
}
