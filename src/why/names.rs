//! Names of a job's processes in sentences.

use super::document::Process;
use super::process::ProcessReading;
use cupeer_report::terminal::clean;
use std::collections::HashMap;

pub struct ProcessNames {
    names: HashMap<u32, String>,
    parents: HashMap<u32, u32>,
}

impl ProcessNames {
    /// Returns the names of all processes. A process is called by its rank if its launcher gave it that rank. If several
    /// processes have the rank, the name goes to the process in the recording, or else to the only one that no process with
    /// the rank started. The other processes are called by their pids.
    pub fn of(processes: &[Process], seen: &[ProcessReading]) -> ProcessNames {
        let parents: HashMap<u32, u32> = seen.iter().map(|seen| (seen.about.pid, seen.about.parent)).collect();
        let rank_of = |pid: u32| processes.iter().find(|process| process.pid == pid)?.rank;
        let first = seen.iter().map(|seen| seen.about.pid).min();
        let program = processes.iter().find(|process| Some(process.pid) == first).map(|process| &process.program);
        let name = |process: &Process| {
            let pid = process.pid;
            // A command that a program of the job started is called by its first arguments.
            let is_command =
                process.rank.is_none() && program != Some(&process.program) && !process.arguments.is_empty();
            let known = process.comm.clone().or_else(|| is_command.then(|| short_command(process)));
            let comm = known.map(|comm| format!(" ({})", clean(&comm))).unwrap_or_default();
            let plain = match (process.own_pid == pid, process.rank) {
                (true, Some(rank)) => format!("process {pid} of rank {rank}"),
                (true, None) => format!("process {pid}{comm}"),
                (false, _) => format!("process {pid} ({} in its namespace)", process.own_pid),
            };
            let Some(rank) = process.rank else { return plain };
            let same = || processes.iter().filter(|other| other.rank == Some(rank));
            let mut recorded = same().filter(|other| other.proc.is_some());
            let is_it = match (recorded.next(), recorded.next()) {
                (Some(only), None) => only.pid == pid,
                (Some(_), Some(_)) => false,
                _ => {
                    let is_first =
                        |other: &Process| parents.get(&other.pid).and_then(|parent| rank_of(*parent)) != Some(rank);
                    is_first(process) && same().filter(|other| is_first(other)).count() == 1
                }
            };
            if is_it { format!("rank {rank}") } else { plain }
        };
        ProcessNames { names: processes.iter().map(|process| (process.pid, name(process))).collect(), parents }
    }

    /// Returns the name of a process, which may belong to another job.
    pub fn name(&self, pid: u32) -> String {
        if let Some(name) = self.names.get(&pid) {
            return name.clone();
        }
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        match program.trim_end() {
            "" => format!("process {pid}"),
            program => format!("process {pid} ({})", clean(program)),
        }
    }

    /// Returns the names of several processes: `ranks 0 to 2 and 5`, or at most four names without ranks.
    pub fn join_names(&self, pids: &[u32]) -> String {
        const MOST: usize = 4;
        let names: Vec<String> = pids.iter().map(|pid| self.name(*pid)).collect();
        let ranks: Option<Vec<u32>> = names.iter().map(|name| name.strip_prefix("rank ")?.parse().ok()).collect();
        let ranks = ranks.filter(|ranks| ranks.len() > 1);
        let is_ranks = ranks.is_some();
        let mut words = ranks.map_or_else(|| names.iter().take(MOST).cloned().collect(), to_ranges);
        if !is_ranks && pids.len() > MOST {
            words.push(format!("{} more", pids.len() - MOST));
        }
        let are_plain = !is_ranks && words.len() > 1 && names.iter().all(|name| name.starts_with("process "));
        if are_plain {
            words.iter_mut().for_each(|word| *word = word.trim_start_matches("process ").to_owned());
        }
        let joined = match words.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            Some((last, _)) => last.clone(),
            None => String::new(),
        };
        match (is_ranks, are_plain) {
            (true, _) => format!("ranks {joined}"),
            (_, true) => format!("processes {joined}"),
            _ => joined,
        }
    }

    /// Returns the pids of the processes of the job that a process started.
    pub fn children_of(&self, pid: u32) -> Vec<u32> {
        let mut all: Vec<u32> =
            self.parents.iter().filter(|(_, parent)| **parent == pid).map(|(child, _)| *child).collect();
        all.sort_unstable();
        all
    }
}

/// Returns numbers as ranges: `0 to 2`, `5`.
fn to_ranges(mut numbers: Vec<u32>) -> Vec<String> {
    numbers.sort_unstable();
    let mut found = Vec::new();
    let mut rest = numbers.as_slice();
    while let Some(first) = rest.first() {
        let length = rest.iter().zip(*first..).take_while(|(number, next)| **number == *next).count();
        match length {
            0..3 => found.extend(rest[..length].iter().map(u32::to_string)),
            _ => found.push(format!("{first} to {}", rest[length - 1])),
        }
        rest = &rest[length.max(1)..];
    }
    found
}

/// Returns the program of a process with its first arguments.
fn short_command(process: &Process) -> String {
    const WIDTH: usize = 30;
    let program = process.program.rsplit('/').next().unwrap_or_default();
    let words: Vec<&str> = [program].into_iter().chain(process.arguments.iter().skip(1).map(String::as_str)).collect();
    let text = words.join(" ");
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
