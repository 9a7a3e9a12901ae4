//! The model of a report: plain data, of which each form (text, JSON, a comparison) shows a part.
//!
//! It contains the rows, named as in JSON (`docs/report.schema.json`). `collect` and the modules that it calls compute
//! them.

mod allocation;
mod call;
mod fault;
mod finding;
mod handle;
mod peer;
mod pool;
mod process;
mod word;

pub use allocation::{
    Access, AddressSpace, Allocation, Allocations, BoundMemory, DeviceMemory, Kept, Mapping, Multicast,
    TeamDevice, Where,
};
pub use call::{
    Caller, Deviation, Failure, FailureGroup, Function, MOST_PROCS, Mark, Place, Ranks, RuntimeCall,
};
pub use fault::{Fault, FaultHit};
pub use finding::{Finding, Object, SEVERITIES, SuppressedBy, Suppression};
pub use handle::{Allocator, Certainty, FailedOpen, Fingerprint, Handle, Leak, Open, State};
pub use peer::{Peer, Uuid};
pub use pool::Pool;
pub use process::{Device, Escaped, Exit, ExitKind, LastCall, Ordinal, Pending, Process, Unnamed, past};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;
pub use word::Word;

/// The name of a process in its record: see [`cupeer_record::process::Process::proc`].
pub type Proc = Rc<str>;

/// The reasons why fields are unknown, by the field's name.
pub type Unknown = BTreeMap<Word, Word>;

/// How often something ended in each way: by the name of the result, or its number where it has no name.
pub type Codes = BTreeMap<String, u64>;

/// What a record says.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    /// The version of this form.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: Word,
    /// The record as a whole.
    pub record: Record,
    /// Its processes, in the order of their start.
    pub processes: Vec<Process>,
    /// The devices that its processes saw.
    pub devices: Vec<Device>,
    /// The functions; the one with the most time first.
    pub functions: Vec<Function>,
    /// All calls by function, result and caller; those with the most time first.
    pub callers: Vec<Caller>,
    /// Calls that are in none of these, because there were too many callers.
    pub callers_more: u64,
    /// What rules found: errors, then warnings, then notes, each in order of time.
    pub findings: Vec<Finding>,
    /// The entries of the files given with --suppressions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suppressions: Vec<Suppression>,
    /// What fault plans did: a row for each of their rules.
    pub faults: Vec<Fault>,
    /// The ledger, the worst first.
    pub handles: Vec<Handle>,
    /// How many more there were that were closed: of these, a reduced file keeps only some.
    pub handles_more: u64,
    /// The size of those.
    pub handles_more_bytes: u64,
    /// Virtual memory: what is allocated, mapped and kept alive.
    pub allocations: Allocations,
    /// Memory pools, as processes have them, in order of time: those that they made or imported, and what they gave others
    /// access to.
    pub pools: Vec<Pool>,
    /// What is open, by where it was opened.
    pub leaks: Vec<Leak>,
    /// The peer matrix: a row for each process and pair of devices.
    pub peers: Vec<Peer>,
    /// The first failures in order of time.
    pub failures: Vec<Failure>,
    /// How many more there were.
    pub failures_more: u64,
    /// All failures, by function, result and caller.
    pub failure_groups: Vec<FailureGroup>,
    /// What programs have marked with `cupeer_mark`, in order of time.
    pub marks: Vec<Mark>,
    /// How many more marks there were.
    pub marks_more: u64,
    /// Libraries whose calls escaped cupeer.
    pub escaped: Vec<Escaped>,
    /// Libraries whose functions could not be named.
    pub unnamed: Vec<Unnamed>,
}

/// What [`Report::schema`] says.
pub const SCHEMA: &str = "cupeer-report/1";

impl Report {
    /// Libraries whose calls went past us, but for drivers of which nobody knows more than that no call was seen.
    pub fn past(&self) -> impl Iterator<Item = &Escaped> {
        self.escaped.iter().filter(|escaped| !escaped.is_unseen())
    }

    /// The processes that had a driver of which no watched call was seen, each with the reasons that are known. One without
    /// a reason says nothing beside others that did call: programs have such helpers.
    pub fn unseen(&self) -> impl Iterator<Item = (&Proc, String)> {
        let is_empty = self.record.events == 0;
        let unseen = self.escaped.iter().filter(|escaped| escaped.is_unseen());
        unseen.filter_map(move |escaped| {
            let of_process = self.past().filter(|other| other.proc == escaped.proc);
            let reasons: Vec<String> = of_process.map(Escaped::sentence).collect();
            let unknown = "it made none, or did not find the functions through the dynamic loader".to_owned();
            match reasons.is_empty() {
                true => is_empty.then_some((&escaped.proc, unknown)),
                false => Some((&escaped.proc, reasons.join("; "))),
            }
        })
    }
}

/// The record as a whole.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Where it is.
    pub path: String,
    /// When the first of its processes began.
    pub began_ns: u64,
    /// When its last event was or, while processes run, now.
    pub ended_ns: u64,
    /// Whether a process is still running.
    pub running: bool,
    /// Whether all events were kept, or the last ones of each process, or one here and the other there.
    #[schemars(extend("enum" = ["full", "ring", "mixed"]))]
    #[serde(deserialize_with = "word::read")]
    pub mode: Word,
    /// Whether older events than those counted here are gone: a ring keeps its last ones.
    pub dropped: bool,
    /// The hosts; where two have one name, with the start of their boot ids.
    pub hosts: Vec<String>,
    /// Events that were read.
    pub events: u64,
    /// Calls that have no event of their own, because they failed in the same way as one before them, which counts them.
    #[serde(default)]
    pub repeated: u64,
    /// Events that could not be kept.
    pub lost: u64,
    /// The programs that `cupeer run` started and that made no call themselves, as a shell does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub started: Vec<Started>,
    /// The processes of a large job that shared nothing, by program: of these, nothing is known but that they began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quiet: Vec<Quiet>,
    /// What is wrong with the record itself.
    pub problems: Vec<String>,
    /// Calls that the filters choose, where there are filters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub matching: Option<u64>,
    /// The filters that were given, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<String>,
    /// Whether the filters leave out calls of the processes that they choose: how one of those ended is then another
    /// matter.
    #[serde(skip)]
    pub in_part: bool,
}

/// Processes that reached the driver and shared nothing, of which a large job keeps nothing.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct Quiet {
    /// Their program.
    pub program: String,
    /// How many.
    pub processes: u64,
}

impl Record {
    /// How many processes of a large job shared nothing.
    pub fn quiet_processes(&self) -> u64 {
        self.quiet.iter().fold(0, |all, quiet| all.saturating_add(quiet.processes))
    }

    /// Adds some, each program once.
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

/// A program that `cupeer run` started and that made no call itself.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Started {
    /// Its name.
    pub program: String,
    /// How it ended.
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
