//! The table of processes, in which similar processes share a row, and the variables below it.

use super::TextView;
use crate::table::Table;
use cupeer_report::endings::format_end_short;
use cupeer_report::model::Process;
use cupeer_report::moments::number;
use cupeer_report::names::{clean, ranks};
use std::collections::BTreeMap;
use std::path::Path;

/// Prefixes of the environment variables that are listed below the processes.
const SHOWN_VARIABLES: [&str; 2] = ["NCCL_P2P_", "NCCL_CUMEM_"];
/// Number of processes up to which each has a row of its own, even if they are similar.
const FEW: usize = 8;
/// Number of similar ranks from which they share a row.
const MANY: usize = 3;

impl TextView<'_> {
    pub fn processes(&self) -> String {
        let has_hosts = self.report.record.hosts.len() > 1;
        let pid = if has_hosts { "HOST:PID" } else { "PID" };
        let head = ["RANK", pid, "PROGRAM", "EXIT", "EVENTS", "LAST CALL", "DEVICES"];
        let table = Table::new(&head, 6, 20).with_numbers(&[0, 1, 4]);
        let cells = |row: &Vec<&Process>| {
            let first = row[0];
            let pid = match (row.len(), has_hosts) {
                (1, true) => clean(&format!("{}:{}", first.host, self.names.pid(first))),
                (1, false) => self.names.pid(first),
                (count, true) => clean(&format!("{}: {count}", first.host)),
                (count, false) => format!("{count} pids"),
            };
            [
                match row.len() {
                    1 => first.rank.map_or("-".into(), |rank| rank.to_string()),
                    _ => ranks(row.iter().filter_map(|process| process.rank)).replace("ranks ", ""),
                },
                pid,
                name_program(first),
                format_end_short(first.exit),
                format_range(row.iter().map(|process| process.events), number),
                self.format_last_calls(row),
                self.format_devices_of(first),
            ]
        };
        self.table_section("Processes", table, &self.group_alike(), cells) + &self.list_variables()
    }

    /// Groups processes. Ranks are in one group if they run the same program on one host, ended in the same
    /// way, and made the same last call. If all processes are requested, or there are few, each is a group of
    /// its own.
    fn group_alike(&self) -> Vec<Vec<&Process>> {
        let all = &self.report.processes;
        if self.lists_all || all.len() <= FEW {
            return all.iter().map(|process| vec![process]).collect();
        }
        let mut rows: Vec<Vec<&Process>> = Vec::new();
        let what = |process: &Process| {
            let last = process.last_call.as_ref().map(|call| call.function.clone());
            (process.host.clone(), process.program.clone(), process.exit, last, process.devices.len())
        };
        let mut by_what: Vec<(_, Vec<&Process>)> = Vec::new();
        for process in all {
            let key = what(process);
            match by_what.iter_mut().find(|(known, _)| process.rank.is_some() && *known == key) {
                Some((_, row)) if row[0].rank.is_some() => row.push(process),
                _ => by_what.push((key, vec![process])),
            }
        }
        for (_, row) in by_what {
            if row.len() < MANY {
                rows.extend(row.into_iter().map(|process| vec![process]));
            } else {
                rows.push(row);
            }
        }
        // List the few processes that differ from the others first.
        rows.sort_by_key(|row| (row.len(), row[0].rank.is_none(), row[0].rank, row[0].began_ns));
        rows
    }

    /// Formats the last calls of processes whose last calls were of the same function.
    fn format_last_calls(&self, row: &[&Process]) -> String {
        let Some(last) = row[0].last_call.as_ref() else { return "-".into() };
        let times = row.iter().filter_map(|process| Some(process.last_call.as_ref()?.at_ns));
        format!("{} {}", format_range(times, |at| self.at(at)), clean(&last.function))
    }

    /// Names the device that a process sees; the number of devices if it sees several.
    pub fn format_devices_of(&self, process: &Process) -> String {
        match &process.devices[..] {
            [] => "unknown".into(),
            [one] => self.names.device(Some(one.uuid)),
            more => format!("{} devices", more.len()),
        }
    }

    /// Lists the environment variables that decide which devices exist and how they are reached: one line per
    /// distinct set of values.
    fn list_variables(&self) -> String {
        let mut who: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for process in &self.report.processes {
            let set: Vec<String> = process
                .variables
                .iter()
                .filter(|(name, _)| {
                    *name == "CUDA_VISIBLE_DEVICES" || SHOWN_VARIABLES.iter().any(|begin| name.starts_with(begin))
                })
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            if !set.is_empty() {
                who.entry(set.join(" ")).or_default().push(&process.proc);
            }
        }
        self.format_list(who.iter(), |(set, procs)| {
            let procs = self.names.processes(procs.iter().copied());
            self.wrap_item("variables: ", &format!("{} ({procs})", clean(set)))
        })
    }
}

/// Names a program by its file name; for an interpreter, also the script.
pub fn name_program(process: &Process) -> String {
    let file =
        |path: &str| Path::new(path).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name = file(&process.program);
    let script = process.arguments.iter().skip(1).find(|argument| !argument.starts_with('-'));
    match script.filter(|script| name.starts_with("python") && script.ends_with(".py")) {
        Some(script) => clean(&format!("{name} {}", file(script))),
        None => clean(&name),
    }
}

/// Formats the common value of all processes, or the smallest and the largest value.
fn format_range(values: impl Iterator<Item = u64> + Clone, shown: impl Fn(u64) -> String) -> String {
    let (Some(least), Some(most)) = (values.clone().min(), values.max()) else { return "-".into() };
    if least == most { shown(least) } else { format!("{}-{}", shown(least), shown(most)) }
}
