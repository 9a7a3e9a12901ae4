//! What a packed record says of itself: `pack.json`, and the line that its maker reads.
//!
//! `cupeer` is the version that made it and `packed_ns` when; `processes` and `hosts` are how many it has;
//! `redacted` is what was asked for. `problems` are names of files and what is wrong with them, and `unnamed` are paths
//! of libraries and why their functions have no names: sentences without a subject.

use super::redact::Redaction;
use cupeer_record::Process;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::SystemTime;

#[derive(Default)]
pub struct About {
    /// Files, and what is wrong with them.
    problems: Vec<(String, String)>,
    unnamed: Vec<(String, String)>,
    processes: usize,
    hosts: usize,
    redacted: Vec<String>,
    /// What there is that tells of persons.
    personal: Vec<String>,
}

impl About {
    pub const FILE: &str = "pack.json";

    pub fn new(problems: Vec<(String, String)>) -> About {
        About { problems, ..About::default() }
    }

    /// Adds something that is wrong with a file: a sentence without a subject.
    pub fn problem(&mut self, name: &str, problem: String) {
        self.problems.push((name.to_owned(), problem));
    }

    /// What is wrong, a sentence each.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        self.problems.iter().map(|(name, problem)| format!("{name} {problem}"))
    }

    /// Takes down what the archive has.
    pub fn count(&mut self, processes: &[Process], redaction: &Redaction) {
        let mut hosts: BTreeSet<&str> = processes.iter().map(Process::host).collect();
        hosts.remove("");
        (self.processes, self.hosts) = (processes.len(), hosts.len());
        self.redacted = redaction.words();
        let stays = |what| self.redacted.iter().all(|word| word != what);
        let has = |what: fn(&Process) -> bool| processes.iter().any(what);
        let all = [
            (stays("hosts") && !hosts.is_empty(), plural(hosts.len(), "name of a host", "names of hosts")),
            (stays("paths"), "paths".into()),
            (stays("arguments") && has(|p| !p.arguments.is_empty()), "arguments".into()),
            (stays("environment") && has(|p| !p.variables.is_empty()), "values of variables".into()),
        ];
        self.personal = all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, what)| what).collect();
    }

    pub fn missing_names<'a>(
        &mut self,
        notes: impl Iterator<Item = (&'a str, &'a str)>,
        redaction: &Redaction,
    ) {
        self.unnamed = notes.map(|(library, why)| (redaction.path(library), why.to_owned())).collect();
    }

    pub fn to_json(&self) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let about = json!({
            "cupeer": env!("CARGO_PKG_VERSION"),
            "packed_ns": now.as_nanos() as u64,
            "processes": self.processes,
            "hosts": self.hosts,
            "redacted": self.redacted,
            "problems": self.problems,
            "unnamed": self.unnamed,
        });
        format!("{about:#}\n")
    }

    pub fn summary(&self, size: u64) -> String {
        let what = format!("{} in {}", plural(self.processes, "process", "processes"), bytes(size));
        match self.personal.split_last() {
            None => what,
            Some((one, [])) => format!("{what}, with {one}; --redact leaves it out"),
            Some((last, others)) => {
                format!("{what}, with {} and {last}; --redact leaves them out", others.join(", "))
            }
        }
    }
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

pub fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} bytes"),
        1024..1_048_576 => format!("{} KiB", count / 1024),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}
