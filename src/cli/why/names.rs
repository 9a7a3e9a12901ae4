//! What sentences call the processes of a job.

use super::document::Process;
use super::process::Seen;
use cupeer_report::terminal::clean;
use std::collections::HashMap;

pub struct Names {
    names: HashMap<u32, String>,
    parents: HashMap<u32, u32>,
}

impl Names {
    /// A process is called by its rank, if it is the one that its launcher gave that rank: of several with the same, the one
    /// that has a record, or else the only one that no other started. The others are called by their pids.
    pub fn of(processes: &[Process], seen: &[Seen]) -> Names {
        let parents: HashMap<u32, u32> =
            seen.iter().map(|seen| (seen.about.pid, seen.about.parent)).collect();
        let rank_of = |pid: u32| processes.iter().find(|process| process.pid == pid)?.rank;
        let name = |process: &Process| {
            let pid = process.pid;
            let plain = match (process.own_pid == pid, process.rank) {
                (true, Some(rank)) => format!("process {pid} of rank {rank}"),
                (true, None) => format!("process {pid}"),
                (false, _) => format!("process {pid} ({} in its namespace)", process.own_pid),
            };
            let Some(rank) = process.rank else { return plain };
            let same = || processes.iter().filter(|other| other.rank == Some(rank));
            let mut recorded = same().filter(|other| other.proc.is_some());
            let is_it = match (recorded.next(), recorded.next()) {
                (Some(only), None) => only.pid == pid,
                (Some(_), Some(_)) => false,
                _ => {
                    let is_first = |other: &Process| {
                        parents.get(&other.pid).and_then(|parent| rank_of(*parent)) != Some(rank)
                    };
                    is_first(process) && same().filter(|other| is_first(other)).count() == 1
                }
            };
            if is_it { format!("rank {rank}") } else { plain }
        };
        Names { names: processes.iter().map(|process| (process.pid, name(process))).collect(), parents }
    }

    /// The name of a process, of this job or of another one.
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

    /// The names of several, at most four of them.
    pub fn all(&self, pids: &[u32]) -> String {
        const MOST: usize = 4;
        let mut names: Vec<String> = pids.iter().take(MOST).map(|pid| self.name(*pid)).collect();
        if pids.len() > MOST {
            names.push(format!("{} more", pids.len() - MOST));
        }
        match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            Some((last, _)) => last.clone(),
            None => String::new(),
        }
    }

    /// The processes of the job that a process started.
    pub fn children(&self, pid: u32) -> Vec<u32> {
        let mut all: Vec<u32> =
            self.parents.iter().filter(|(_, parent)| **parent == pid).map(|(child, _)| *child).collect();
        all.sort_unstable();
        all
    }
}
