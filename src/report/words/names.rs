//! The names of processes, devices, and results in text: short, but distinct.

pub use crate::base::terminal::clean;

pub use crate::base::moments::number;
use crate::model::{Codes, Device, Proc, Process, Report, Uuid};
use cupeer_spec::signals;
use cupeer_spec::uuid::GpuName;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// Short names of the processes and devices of one report.
pub struct Labels {
    by_proc: HashMap<Proc, ProcessName>,
    devices: HashMap<Uuid, String>,
}

/// Number of processes without a rank that a list names; of further ones, only the number is given.
const MOST_NAMES: usize = 3;

#[derive(Clone)]
enum ProcessName {
    Rank(u32),
    Text(String),
}

impl Labels {
    /// Chooses the names. A process is called by its rank if no other process has it; otherwise by its pid, with its
    /// host, rank, or a number if necessary.
    pub fn new(report: &Report) -> Self {
        fn count<K: Hash + Eq>(keys: impl Iterator<Item = K>) -> HashMap<K, usize> {
            let mut counts = HashMap::new();
            keys.for_each(|key| *counts.entry(key).or_default() += 1);
            counts
        }
        let by_pid = |process: &Process| process.pid.to_string();
        let by_host = |process: &Process| format!("{}:{}", process.host, process.pid);
        let by_rank =
            |process: &Process| process.rank.map_or_else(String::new, |rank| format!("rank {rank} ({})", process.pid));
        let processes = || report.processes.iter();
        let ranks = count(processes().filter_map(|process| process.rank));
        let (pids, hosts) = (count(processes().map(by_pid)), count(processes().map(by_host)));
        let both = count(processes().map(by_rank));
        let mut alike: HashMap<String, usize> = HashMap::new();
        let mut name = |process: &Process| match process.rank {
            Some(rank) if ranks[&rank] == 1 => ProcessName::Rank(rank),
            _ if pids[&by_pid(process)] == 1 => ProcessName::Text(by_pid(process)),
            _ if hosts[&by_host(process)] == 1 => ProcessName::Text(clean(&by_host(process))),
            Some(_) if both[&by_rank(process)] == 1 => ProcessName::Text(by_rank(process)),
            _ => {
                // Pids can repeat in another namespace, and after exec. The first process is then called 5#1,
                // the second 5#2.
                let key = if report.record.hosts.len() > 1 { by_host(process) } else { by_pid(process) };
                let number = alike.entry(key.clone()).or_default();
                *number += 1;
                ProcessName::Text(clean(&format!("{key}#{number}")))
            }
        };
        let by_proc = report.processes.iter().map(|process| (process.proc.clone(), name(process))).collect();
        Labels { by_proc, devices: Self::devices(report) }
    }

    /// Names the devices, by full UUIDs if the short ones are ambiguous.
    fn devices(report: &Report) -> HashMap<Uuid, String> {
        let short = |device: &Device| GpuName { number: device.number, uuid: device.uuid.0 }.to_string();
        let all: BTreeSet<String> = report.devices.iter().map(short).collect();
        let are_distinct = all.len() == report.devices.len();
        let name = |device: &Device| if are_distinct { short(device) } else { device.uuid.to_string() };
        report.devices.iter().map(|device| (device.uuid, name(device))).collect()
    }

    /// Returns the name of a process.
    pub fn process(&self, proc: &str) -> String {
        match self.by_proc.get(proc) {
            Some(ProcessName::Rank(rank)) => format!("rank {rank}"),
            Some(ProcessName::Text(name)) => name.clone(),
            None => clean(proc),
        }
    }

    /// Returns the pid of a process, followed by the number that its name contains if the pid is not unique.
    pub fn pid(&self, process: &Process) -> String {
        let pid = process.pid.to_string();
        match self.by_proc.get(&process.proc) {
            Some(ProcessName::Text(name)) => match name.rsplit_once('#') {
                Some((_, number)) => format!("{pid}#{number}"),
                None => pid,
            },
            _ => pid,
        }
    }

    /// Returns the names of several processes: `ranks 0-3, 28199`.
    pub fn processes<'a>(&self, procs: impl Iterator<Item = &'a str>) -> String {
        let mut numbers = BTreeSet::new();
        let mut names = BTreeSet::new();
        for proc in procs {
            match self.by_proc.get(proc) {
                Some(ProcessName::Rank(rank)) => drop(numbers.insert(*rank)),
                _ => drop(names.insert(self.process(proc))),
            }
        }
        let mut parts = Vec::new();
        if !numbers.is_empty() {
            parts.push(ranks(numbers.into_iter()));
        }
        let more = names.len().saturating_sub(MOST_NAMES);
        parts.extend(names.into_iter().take(MOST_NAMES));
        if more > 0 {
            parts.push(format!("{more} more"));
        }
        parts.join(", ")
    }

    /// Returns the name of a device: `GPU 5 (c09e..0005)`.
    pub fn device(&self, uuid: Option<Uuid>) -> String {
        let Some(uuid) = uuid else { return "unknown".into() };
        let unseen = || GpuName { number: None, uuid: uuid.0 }.to_string();
        self.devices.get(&uuid).cloned().unwrap_or_else(unseen)
    }
}

/// Formats ranks for tables: `rank 3`, or `ranks 0-3,5`.
pub fn ranks(ranks: impl Iterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let run = |(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    let word = if let [(first, last)] = runs[..]
        && first == last
    {
        "rank"
    } else {
        "ranks"
    };
    format!("{word} {}", runs.iter().map(run).collect::<Vec<_>>().join(","))
}

/// Formats ranks for sentences: `rank 3`, or `ranks 0 to 3 and 5`.
pub fn format_ranks_in_words(list: impl Iterator<Item = u32>) -> String {
    let text = ranks(list).replace('-', " to ");
    let Some((before, last)) = text.rsplit_once(',') else { return text };
    format!("{} and {last}", before.replace(',', ", "))
}

/// Returns the name of a result without its prefix `CUDA_ERROR_`.
pub fn short_result_name(name: &str) -> &str {
    name.strip_prefix("CUDA_ERROR_").unwrap_or(name)
}

/// Formats results with their counts, the most frequent first: `3 INVALID_VALUE, 1 MAP_FAILED`.
pub fn codes(codes: &Codes) -> String {
    let mut sorted: Vec<_> = codes.iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let code = |(name, count): (&String, &u64)| format!("{} {}", number(*count), short_result_name(name));
    sorted.into_iter().map(code).collect::<Vec<_>>().join(", ")
}

/// Returns the name of a signal as in `kill -l`, or its number.
pub fn signal_name(signal: i32) -> String {
    signals::signal_name(signal).map_or_else(|| format!("signal {signal}"), |name| format!("SIG{name}"))
}

/// Formats a count with its noun: `1 call`, `2 calls`.
pub fn counted(count: u64, word: &str) -> String {
    let plural = match word.strip_suffix('y') {
        _ if word.ends_with("process") => format!("{word}es"),
        Some(stem) if word.ends_with("library") => format!("{stem}ies"),
        _ => format!("{word}s"),
    };
    let word = if count == 1 { word } else { &plural };
    format!("{} {word}", number(count))
}

/// Returns a text as a sentence that ends in a period.
pub fn as_sentence(text: &str) -> String {
    let ends = text.ends_with(['.', '!', '?']);
    if ends { text.to_owned() } else { format!("{text}.") }
}

/// Formats the number of processes that shared nothing: `1,990 more processes shared nothing and were not
/// recorded`, without `more` if no process was recorded; `None` for a count of 0.
pub fn format_unrecorded_count(count: u64, recorded: usize) -> Option<String> {
    let more = if recorded > 0 { " more " } else { " " };
    let all = counted(count, "process").replacen(' ', more, 1);
    let was = if count == 1 { "was" } else { "were" };
    (count > 0).then(|| format!("{all} shared nothing and {was} not recorded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_counts_are_formatted_like_other_numbers() {
        let all = Codes::from([("CUDA_ERROR_MAP_FAILED".into(), 3), ("CUDA_ERROR_INVALID_VALUE".into(), 1000)]);
        assert_eq!(codes(&all), "1,000 INVALID_VALUE, 3 MAP_FAILED");
    }

    #[test]
    fn plurals_are_those_of_the_last_word() {
        let all = [(1, "child process"), (2, "child process"), (2, "library"), (3, "key")];
        assert_eq!(
            all.map(|(count, word)| counted(count, word)),
            ["1 child process", "2 child processes", "2 libraries", "3 keys"]
        );
    }

    #[test]
    fn ranks_are_joined_to_ranges() {
        let text = |list: &[u32]| ranks(list.iter().copied());
        assert_eq!(text(&[3]), "rank 3");
        assert_eq!(text(&[0, 1]), "ranks 0,1");
        assert_eq!(text(&[0, 1, 2, 3, 5, 7, 8]), "ranks 0-3,5,7,8");
        let words = |list: &[u32]| format_ranks_in_words(list.iter().copied());
        assert_eq!([words(&[3]), words(&[0, 1, 2])], ["rank 3", "ranks 0 to 2"]);
        assert_eq!([words(&[0, 1]), words(&[0, 2, 3, 4, 9])], ["ranks 0 and 1", "ranks 0, 2 to 4 and 9"]);
    }
}
