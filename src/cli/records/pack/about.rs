//! The description in a packed recording: `pack.json`, and the line that `cupeer pack` prints.
//!
//! All texts about problems are sentences without a subject.

use super::redact::Redaction;
use cupeer_record::Process;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Serialize)]
pub struct PackDescription {
    /// Version of cupeer that packed the recording.
    cupeer: &'static str,
    packed_ns: u64,
    /// Number of processes.
    processes: usize,
    /// Number of hosts.
    hosts: usize,
    /// Kinds of data that were left out.
    redacted: Vec<String>,
    /// Names of files, and problems with them.
    pub problems: Vec<(String, String)>,
    /// Paths of libraries, and reasons why functions in them have no names.
    pub unnamed: Vec<(String, String)>,
    /// Kinds of personal data that the archive contains.
    #[serde(skip)]
    personal: Vec<String>,
}

impl PackDescription {
    pub const FILE: &str = "pack.json";

    pub fn new(problems: Vec<(String, String)>) -> PackDescription {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        PackDescription {
            cupeer: env!("CARGO_PKG_VERSION"),
            packed_ns: now.as_nanos() as u64,
            processes: 0,
            hosts: 0,
            redacted: Vec::new(),
            problems,
            unnamed: Vec::new(),
            personal: Vec::new(),
        }
    }

    /// Returns a sentence for each problem.
    pub fn problem_sentences(&self) -> impl Iterator<Item = String> {
        self.problems.iter().map(|(name, problem)| format!("{name} {problem}"))
    }

    /// Counts the processes and hosts in the archive, and lists the kinds of data that were left out.
    pub fn note_contents(&mut self, processes: &[Process], redaction: &Redaction) {
        let mut hosts: BTreeSet<&str> = processes.iter().map(Process::host).collect();
        hosts.remove("");
        (self.processes, self.hosts) = (processes.len(), hosts.len());
        self.redacted = redaction.redacted_kinds();
        let stays = |what| self.redacted.iter().all(|word| word != what);
        let has = |what: fn(&Process) -> bool| processes.iter().any(what);
        let all = [
            (stays("hosts") && !hosts.is_empty(), format_count(hosts.len(), "name of a host", "names of hosts")),
            (stays("paths"), "paths".into()),
            (stays("arguments") && has(|p| !p.arguments.is_empty()), "arguments".into()),
            (stays("environment") && has(|p| !p.variables.is_empty()), "values of variables".into()),
        ];
        self.personal = all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, what)| what).collect();
    }

    pub fn describe_contents(&self, size: u64) -> String {
        let what = format!("{} in {}", format_count(self.processes, "process", "processes"), format_size(size));
        match self.personal.split_last() {
            None => what,
            Some((one, [])) => format!("{what}, with {one}; --redact leaves it out"),
            Some((last, others)) => {
                format!("{what}, with {} and {last}; --redact leaves them out", others.join(", "))
            }
        }
    }
}

fn format_count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

pub fn format_size(count: u64) -> String {
    match count {
        0..1024 => format!("{count} bytes"),
        1024..1_048_576 => format!("{} KiB", count / 1024),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}
