//! The memory of a device when a call found too little: a table of its owners.

use super::TextView;
use crate::table::Table;
use cupeer_report::model::{Memory, MemoryRow, OtherProcess};
use cupeer_report::moments::{bytes, number};
use cupeer_report::names::clean;

/// Largest number of tables, unless all are requested.
const MOST: usize = 3;

impl TextView<'_> {
    pub fn device_memory(&self) -> String {
        let failed: Vec<&Memory> = self.report.memory.iter().filter(|one| one.at_ns.is_some()).collect();
        // Show the last calls, because the program may not have survived them.
        let most = if self.lists_all { usize::MAX } else { MOST };
        let skipped = failed.len().saturating_sub(most);
        failed[skipped..].iter().map(|one| self.memory_table(one)).collect()
    }

    /// Returns the table for one failed call. The rows add up to the memory of the device.
    fn memory_table(&self, memory: &Memory) -> String {
        let head = ["PROCESS", "SIZE", "ALLOCATIONS", "STATE", "FROM"];
        let mut table = Table::new(&head, 5, 20).with_numbers(&[1, 2]);
        for row in memory.rows.iter().take(self.most_rows) {
            table.push_row([
                self.names.process(&row.proc),
                bytes(row.bytes),
                if row.count > 0 { number(row.count) } else { "-".into() },
                self.format_state(row),
                row.caller.as_ref().map_or("-".into(), |place| clean(&place.line_or_long())),
            ]);
        }
        let mut rest = |what: &str, size: u64| {
            if size > 0 {
                table.push_row([what.into(), bytes(size), "-".into(), String::new(), "-".into()]);
            }
        };
        let hidden = memory.rows.iter().skip(self.most_rows).map(|row| row.bytes).sum();
        rest("other rows", hidden);
        memory.other_processes.iter().for_each(|one| rest(&name_other_process(one), one.bytes));
        rest("no row: contexts, driver, others", memory.unaccounted.unwrap_or(0));
        if let Some(free) = memory.free {
            table.push_row(["free".into(), bytes(free), "-".into(), String::new(), "-".into()]);
        }
        let asked = memory.wanted.map_or_else(String::new, |wanted| format!(" asked for {}", bytes(wanted)));
        let total = memory.total.map_or_else(String::new, |total| format!(", {} in all", bytes(total)));
        let title = format!(
            "Memory of {}{total}, when {}{asked} at {} in {}",
            self.names.device(Some(memory.device)),
            clean(memory.function.as_deref().unwrap_or_default()),
            self.at(memory.at_ns.unwrap_or(0)),
            memory.proc.as_deref().map_or_else(String::new, |proc| self.name_process(proc)),
        );
        self.titled_table(&title, table, memory.rows.len().min(self.most_rows))
    }

    fn format_state(&self, row: &MemoryRow) -> String {
        match (&row.holders[..], row.kind) {
            ([], "small") => "in use, small".into(),
            ([], _) => row.state.into(),
            (holders, _) => {
                format!("freed, kept by {}", self.names.processes(holders.iter().map(|proc| &**proc)))
            }
        }
    }
}

/// Names a process without a recording that has memory of the device: `4242 python, not recorded`.
pub(crate) fn name_other_process(one: &OtherProcess) -> String {
    match &*one.name {
        "" => format!("{}, not recorded", one.pid),
        name => format!("{} {}, not recorded", one.pid, clean(name)),
    }
}
