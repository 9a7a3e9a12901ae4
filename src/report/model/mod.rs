//! The model of a report: plain data, of which each form (text, JSON, a comparison) shows a part.
//!
//! It contains the rows, named as in JSON (`docs/report.schema.json`). `collect` and the modules that it calls compute
//! them.

mod allocation;
mod call;
mod clue;
mod fault;
mod finding;
mod handle;
mod memory;
mod peer;
mod pool;
mod process;
mod word;

pub use allocation::{
    Access, AddressSpace, Allocation, Allocations, BoundMemory, DeviceMemory, Kept, Mapping, Multicast, TeamDevice,
    Where,
};
pub use call::{Caller, Deviation, Failure, FailureGroup, Function, MOST_PROCS, Mark, Place, Ranks, RuntimeCall};
pub use clue::Clue;
pub use fault::MOST_HITS;
pub use fault::{DENY, Fault, FaultHit};
pub use finding::is_explanation;
pub use finding::{Finding, Object, SEVERITIES, SharedUse, SuppressedBy, Suppression};
pub use handle::{Allocator, Certainty, FailedOpen, Fingerprint, Handle, HandleAccess, Leak, Open, State};
pub use memory::{Memory, MemoryFailure, MemoryOverTime, MemoryRow, MemorySeries, OtherProcess};
pub use peer::{Peer, Uuid};
pub use pool::Pool;
pub use process::{
    Asked, Device, Escaped, Exit, ExitKind, LastCall, Ordinal, Pending, Process, Unnamed, format_bypass,
};

use cupeer_symbols::SourceFiles;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
pub use word::Word;

/// Name of a process in its recording: see [`cupeer_record::process::Process::proc`].
pub type Proc = Rc<str>;

/// Reasons why fields are unknown, by the name of the field.
pub type Unknown = BTreeMap<Word, Word>;

/// Number of calls per result, by the name of the result, or its number if it has no name.
pub type Codes = BTreeMap<String, u64>;

/// Report of a recording.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    /// Version of this format.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: Word,
    /// Recording as a whole.
    pub record: Record,
    /// Processes of the recording, ordered by their start.
    pub processes: Vec<Process>,
    /// Devices that the processes saw.
    pub devices: Vec<Device>,
    /// Functions, ordered by their total duration, the longest first.
    pub functions: Vec<Function>,
    /// Calls by function, result, and caller, ordered by their total duration, the longest first.
    pub callers: Vec<Caller>,
    /// Number of calls that `callers` omits because there were too many callers.
    pub callers_more: u64,
    /// Findings: errors, then warnings, then notes, each ordered by time.
    pub findings: Vec<Finding>,
    /// Entries of the files given with --suppressions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suppressions: Vec<Suppression>,
    /// Faults of fault plans, with their effects.
    pub faults: Vec<Fault>,
    /// Handles, the worst state first.
    pub handles: Vec<Handle>,
    /// Number of closed handles that `handles` omits, because a reduced file keeps only some.
    pub handles_more: u64,
    /// Size in bytes of the allocations of the omitted handles.
    pub handles_more_bytes: u64,
    /// Virtual memory: allocations, mappings, and memory that is kept alive.
    pub allocations: Allocations,
    /// Memory of devices by owner, at calls that failed because too little was left, ordered by time, and at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<Memory>,
    /// Memory of each device over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_over_time: Vec<MemoryOverTime>,
    /// Memory pools of each process, ordered by time: pools that it created, imported, or gave others access to.
    pub pools: Vec<Pool>,
    /// Objects that are open, by the place that opened them.
    pub leaks: Vec<Leak>,
    /// Peer matrix: one row per process and pair of devices.
    pub peers: Vec<Peer>,
    /// First failed calls, ordered by time.
    pub failures: Vec<Failure>,
    /// Number of failed calls that `failures` omits.
    pub failures_more: u64,
    /// All failed calls, by function, result, and caller.
    pub failure_groups: Vec<FailureGroup>,
    /// Unusual facts, the most specific first, if a process failed and no finding explains it; null otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clues: Vec<Clue>,
    /// Marks that programs set with `cupeer_mark`, ordered by time.
    pub marks: Vec<Mark>,
    /// Number of marks that `marks` omits.
    pub marks_more: u64,
    /// Libraries whose calls bypassed cupeer.
    pub escaped: Vec<Escaped>,
    /// Libraries whose functions could not be named.
    pub unnamed: Vec<Unnamed>,
    /// Text of the lines of source at the places of findings, for files that did not change since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_lines: Vec<SourceText>,
}

/// Text of a line of source.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceText {
    /// Path of the file.
    pub file: String,
    /// Number of the line, from 1.
    pub line: u32,
    /// Text of the line, without the spaces around it.
    pub text: String,
}

/// Value of [`Report::schema`].
pub const SCHEMA: &str = "cupeer-report/1";

impl Report {
    /// Reads the lines of source at the places of findings, of hangs, and of the last calls of processes that died.
    pub fn read_source_lines(&mut self, sources: &mut SourceFiles) {
        let of_finding = |finding: &'_ Finding| {
            let objects = finding.objects.iter().filter_map(Object::call_place);
            [&finding.caller].into_iter().chain(objects).cloned().collect::<Vec<Place>>()
        };
        let of_end = |process: &'_ Process| {
            let last = process.last_call.as_ref().and_then(|call| call.caller.clone());
            last.into_iter().chain(process.pending.iter().map(|call| call.caller.clone())).collect::<Vec<_>>()
        };
        let ended = self.processes.iter().flat_map(of_end);
        let hung = self.record.hangs.iter().filter_map(|hang| hang.place.clone());
        let places: BTreeSet<Place> = self.findings.iter().flat_map(of_finding).chain(ended).chain(hung).collect();
        let text = |place: &Place| {
            let line = place.source()?;
            let library = if place.python.is_some() { None } else { Some(place.library.as_deref()?) };
            let (file, text) = (line.file.clone(), sources.read_line(line, library)?);
            Some(SourceText { file, line: line.line, text })
        };
        let texts: BTreeSet<SourceText> = places.iter().filter_map(text).collect();
        self.source_lines = texts.into_iter().collect();
    }

    /// Returns the line of source at a place as compilers print it; `None` if its text is not known.
    pub fn quoted_source_line(&self, place: &Place) -> Option<String> {
        let line = place.source()?;
        let is_its = |known: &&SourceText| (&known.file, known.line) == (&line.file, line.line);
        let known = self.source_lines.iter().find(is_its)?;
        Some(format!("{:>5} | {}", known.line, known.text))
    }

    /// Returns the number of calls.
    pub fn call_count(&self) -> u64 {
        self.functions.iter().map(|function| function.calls).sum()
    }

    /// Returns the functions that processes called and of which no call is in the recording, by name.
    pub fn unrecorded_functions(&self) -> BTreeSet<Word> {
        self.processes.iter().flat_map(|process| process.unrecorded.iter().copied()).collect()
    }

    /// Returns the libraries whose calls bypassed cupeer, except for drivers about which nothing is known but that no
    /// call was seen.
    pub fn bypassing_libraries(&self) -> impl Iterator<Item = &Escaped> {
        self.escaped.iter().filter(|escaped| !escaped.is_driver_without_calls())
    }

    /// Returns the processes that loaded a driver and made no call through cupeer, each with the known reasons. A
    /// process without a reason means nothing if others made calls: programs have helper processes.
    pub fn processes_without_calls(&self) -> impl Iterator<Item = (&Proc, String)> {
        let is_empty = self.record.events == 0;
        let unseen = self.escaped.iter().filter(|escaped| escaped.is_driver_without_calls());
        unseen.filter_map(move |escaped| {
            let of_process = self.bypassing_libraries().filter(|other| other.proc == escaped.proc);
            let reasons: Vec<String> = of_process.map(Escaped::bypass_sentence).collect();
            let unknown = "it made none, or did not find the functions through the dynamic loader".to_owned();
            match reasons.is_empty() {
                true => is_empty.then_some((&escaped.proc, unknown)),
                false => Some((&escaped.proc, reasons.join("; "))),
            }
        })
    }
}

/// Recording as a whole.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Path of the recording.
    pub path: String,
    /// Time when the recording of the first process began.
    pub began_ns: u64,
    /// Time of the last event, or of the last end of a process if that is later; while processes run, now.
    pub ended_ns: u64,
    /// True if a process is still running.
    pub running: bool,
    /// Recording mode: all events, the last events of each process, or both in different processes.
    #[schemars(extend("enum" = ["full", "ring", "mixed"]))]
    #[serde(deserialize_with = "word::read")]
    pub mode: Word,
    /// True if there were more events than those counted here, because a ring keeps only the last ones, and a recording that
    /// reached its limit only the first and the last ones.
    pub dropped: bool,
    /// Hosts; if two have the same name, with the start of their boot ids.
    pub hosts: Vec<String>,
    /// Number of events that were read.
    pub events: u64,
    /// Number of calls without an event of their own, because they failed in the same way as an earlier call, which
    /// counts them.
    #[serde(default)]
    pub repeated: u64,
    /// Number of events that could not be recorded.
    pub lost: u64,
    /// Commands of the runs, as a shell would take them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Programs that `cupeer run` started and that made no call themselves, such as a shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub started: Vec<Started>,
    /// Number of processes that were forked after the driver was initialized, made no recorded call, and exited with an error.
    #[serde(default)]
    pub forked: u64,
    /// Processes of a large job that shared nothing, by program; only their start is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quiet: Vec<Quiet>,
    /// Times at which no process made progress, and the calls in which the processes waited, from 'cupeer run --on-hang'.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hangs: Vec<Hang>,
    /// Problems with the recording itself.
    pub problems: Vec<String>,
    /// Number of calls that the filters select; null without filters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub matching: Option<u64>,
    /// Filters that were given; null without filters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<String>,
    /// True if the filters omit calls of the processes that they select, so that the report does not show how those
    /// ended.
    #[serde(skip)]
    pub in_part: bool,
}

/// Hang: a time at which no process of the job had made progress for a while, or a call had not returned.
#[derive(Clone, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
pub struct Hang {
    /// Time at which cupeer noticed the hang, in nanoseconds.
    pub time_ns: u64,
    /// Time without progress of any process, in nanoseconds.
    pub without_progress_ns: Option<u64>,
    /// Calls in which the processes waited, in one sentence.
    pub answer: String,
    /// File in the directory of the recording with the stacks of the processes, as 'cupeer why --format json' prints them; empty if
    /// it has none, as a packed recording.
    pub file: String,
    /// Time when the job made progress again, in nanoseconds; null if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub resumed_ns: Option<u64>,
    /// Time when cupeer began to end the job because of the hang, in nanoseconds; null if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub ended_ns: Option<u64>,
    /// Recorded processes, each with its activity.
    #[serde(skip)]
    pub doing: Vec<(String, String)>,
    /// Recorded processes that the others wait for.
    #[serde(skip)]
    pub roots: Vec<String>,
    /// Recorded processes that wait for those, directly or indirectly.
    #[serde(skip)]
    pub waiting: Vec<String>,
    /// Place of the first of `roots`, as its activity names it.
    #[serde(skip)]
    pub place: Option<Place>,
}

impl Hang {
    /// Returns the time since which there was no progress, or when the hang was noticed.
    pub fn began_ns(&self) -> u64 {
        self.time_ns.saturating_sub(self.without_progress_ns.unwrap_or(0))
    }
}

/// Processes that reached the driver and shared nothing, which a large job does not record.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct Quiet {
    /// Program of the processes.
    pub program: String,
    /// Number of processes.
    pub processes: u64,
}

impl Record {
    /// Returns the number of processes of a large job that shared nothing.
    pub fn count_quiet_processes(&self) -> u64 {
        self.quiet.iter().fold(0, |all, quiet| all.saturating_add(quiet.processes))
    }

    /// Adds processes, with one entry per program.
    pub fn add_quiet(&mut self, more: impl IntoIterator<Item = Quiet>) {
        for one in more {
            match self.quiet.iter_mut().find(|known| known.program == one.program) {
                Some(known) => known.processes = known.processes.saturating_add(one.processes),
                None => self.quiet.push(one),
            }
        }
        self.quiet.sort_by(|a, b| b.processes.cmp(&a.processes).then_with(|| a.program.cmp(&b.program)));
    }
}

/// Program that `cupeer run` started and that made no call itself.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Started {
    /// Name of the program.
    pub program: String,
    /// End of the program.
    pub exit: Exit,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_and_fingerprints_read_as_elsewhere() {
        let mut uuid = [0x11; 16];
        uuid[15] = 0xab;
        assert_eq!(Uuid(uuid).to_string(), "GPU-11111111-1111-1111-1111-1111111111ab");
        assert_eq!(Fingerprint(0x2f).to_string(), "ipc:000000000000002f");
    }
}
