//! What a report is: plain data, of which each form (text, JSON, a comparison) shows its part.
//!
//! What belongs here: the rows, named as JSON has them (`docs/report.schema.json`), and where their values come
//! from. What does not: how they are found (`collect` and what it calls), and how they look.

use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The name of a process in its record: see [`cupeer_record::process::Process::proc`].
pub type Proc = Rc<str>;

/// The reasons why fields are unknown, by the field's name.
pub type Unknown = BTreeMap<&'static str, &'static str>;

/// How often something ended in each way: by the name of the result, or its number where it has no name.
pub type Codes = BTreeMap<String, u64>;

/// The whole.
#[derive(Serialize)]
pub struct Report {
    /// The version of this form: [`SCHEMA`].
    pub schema: &'static str,
    /// The record as a whole.
    pub record: Record,
    /// Its processes, in the order of their begin.
    pub processes: Vec<Process>,
    /// The devices that its processes saw.
    pub devices: Vec<Device>,
    /// The functions that were called.
    pub functions: Vec<Function>,
    /// What rules found. There are none yet.
    pub findings: [u8; 0],
    /// What faults were asked for. There are none yet.
    pub faults: [u8; 0],
    /// The ledger.
    pub handles: Vec<Handle>,
    /// What is open, by where it was opened.
    pub leaks: Vec<Leak>,
    /// The peer matrix.
    pub peers: Vec<Peer>,
    /// The first failures.
    pub failures: Vec<Failure>,
    /// How many more there were.
    pub failures_more: u64,
    /// All failures by function, result and caller.
    pub failure_groups: Vec<FailureGroup>,
    /// Libraries whose calls went past us.
    pub escaped: Vec<Escaped>,
    /// Libraries whose functions have no names here.
    pub unnamed: Vec<Unnamed>,
}

/// What [`Report::schema`] says.
pub const SCHEMA: &str = "cupeer-report/1";

/// The record as a whole.
#[derive(Serialize)]
pub struct Record {
    /// Where it lies.
    pub path: String,
    /// When the first of its processes began, and its last event or, while processes run, now.
    pub began_ns: u64,
    /// See `began_ns`.
    pub ended_ns: u64,
    /// Whether a process runs.
    pub running: bool,
    /// Whether all events were kept: `full`, `ring` or `mixed`.
    pub mode: &'static str,
    /// The hosts, or boots of hosts, that its processes ran on.
    pub hosts: Vec<String>,
    /// Events that were read.
    pub events: u64,
    /// Events that could not be kept.
    pub lost: u64,
    /// What is wrong with the record itself.
    pub problems: Vec<String>,
    /// What was asked for: the filters, as they were given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<String>,
}

/// One process.
#[derive(Serialize)]
pub struct Process {
    /// Its name in the record.
    pub proc: Proc,
    /// As it knows itself.
    pub pid: u32,
    /// Its parent.
    pub ppid: u32,
    /// Where it ran.
    pub host: String,
    /// Since when its host ran.
    pub boot_id: String,
    /// Its pid namespace.
    pub pid_ns: u64,
    /// Its rank in the job.
    pub rank: Option<u32>,
    /// Its program.
    pub program: String,
    /// Its program's arguments.
    pub arguments: Vec<String>,
    /// `full` or `ring`.
    pub mode: &'static str,
    /// Events that were read.
    pub events: u64,
    /// Events that could not be kept.
    pub lost: u64,
    /// `running`, `gone` or `unknown`.
    pub exit: &'static str,
    /// When it began to be recorded.
    pub began_ns: u64,
    /// Its last call.
    pub last_call: Option<LastCall>,
    /// The calls that have not returned.
    pub pending: Vec<Pending>,
    /// What it saw of devices.
    pub devices: Vec<Ordinal>,
    /// Why fields are unknown.
    #[serde(skip_serializing_if = "Unknown::is_empty")]
    pub unknown: Unknown,
}

/// The last call of a process.
#[derive(Serialize)]
pub struct LastCall {
    /// The function.
    pub function: Rc<str>,
    /// The thread.
    pub tid: u32,
    /// When it began.
    pub at_ns: u64,
}

/// A call that has not returned.
#[derive(Serialize)]
pub struct Pending {
    /// The function.
    pub function: Rc<str>,
    /// The thread.
    pub tid: u32,
    /// The number of the call in its stream.
    pub seq: u64,
    /// When it began.
    pub since_ns: u64,
    /// How long that is ago.
    pub age_ns: u64,
    /// Its arguments.
    pub args: serde_json::Map<String, serde_json::Value>,
    /// Who made it.
    pub caller: Place,
    /// And who called that.
    pub stack: Vec<Place>,
}

/// A device as one process numbers it.
#[derive(Serialize)]
pub struct Ordinal {
    /// Its number there.
    pub ordinal: i32,
    /// Its UUID.
    pub uuid: Uuid,
}

/// A device.
#[derive(Serialize)]
pub struct Device {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its PCI address.
    pub pci: String,
    /// Its name.
    pub name: String,
}

/// A function.
#[derive(Serialize)]
pub struct Function {
    /// Its name.
    pub function: Rc<str>,
    /// How often it was called.
    pub calls: u64,
    /// How often it ended in a result other than CUDA_SUCCESS.
    pub failures: Codes,
    /// How many results were of our making.
    pub injected: u64,
    /// Calls that have not returned.
    pub pending: u64,
    /// Calls that an exception or a cancellation went through.
    pub unwound: u64,
    /// The time in it, over all threads.
    pub total_ns: u64,
    /// The median of its calls that returned.
    pub p50_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// Over the ranks.
    pub ranks: Option<Ranks>,
}

impl Function {
    /// How many calls ended in a result other than CUDA_SUCCESS.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

/// How the calls of a function are spread over the ranks.
#[derive(Serialize)]
pub struct Ranks {
    /// The fewest calls of a rank.
    pub least: u64,
    /// What lies in the middle.
    pub median: u64,
    /// The most calls of a rank.
    pub most: u64,
    /// The ranks that deviate.
    pub deviating: Vec<Deviation>,
}

/// A rank that deviates.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deviation {
    /// The rank.
    pub rank: u32,
    /// Its calls.
    pub calls: u64,
    /// The calls of the others: what most of them have, or the median.
    pub others: u64,
    /// Whether all the ranks that do not deviate have exactly so many.
    pub exact: bool,
}

/// A handle of memory or of an event.
#[derive(Serialize)]
pub struct Handle {
    /// What stands for its bytes.
    pub fingerprint: Fingerprint,
    /// `memory` or `event`.
    pub kind: &'static str,
    /// How it stands: [`State`].
    pub state: State,
    /// Who exported it.
    pub exporter: Option<Proc>,
    /// The device of the exporter's context.
    pub device: Option<Uuid>,
    /// The size of the allocation.
    pub bytes: Option<u64>,
    /// When it was exported first.
    pub exported_ns: Option<u64>,
    /// How often it was exported.
    pub exports: u64,
    /// When its allocation was freed, or the event destroyed.
    pub freed_ns: Option<u64>,
    /// The function that ended it.
    pub freed_by: Option<&'static str>,
    /// Of a handle that nobody exported: the one that it is a damaged copy of.
    pub damaged_from: Option<Fingerprint>,
    /// Who opened it.
    pub opens: Vec<Open>,
    /// Who failed to open it.
    pub failed: Vec<FailedOpen>,
    /// Why fields are unknown.
    #[serde(skip_serializing_if = "Unknown::is_empty")]
    pub unknown: Unknown,
}

/// How a handle, or one opening of it, stands. The worst is last.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// Nobody opened it, and its allocation is there.
    #[serde(rename = "exported")]
    Exported,
    /// Nobody has it open.
    #[serde(rename = "closed")]
    Closed,
    /// Somebody has it open.
    #[serde(rename = "open")]
    Open,
    /// A process ended with it open.
    #[serde(rename = "open at exit")]
    OpenAtExit,
    /// Nobody under cupeer exported it, and nobody could open it.
    #[serde(rename = "unknown")]
    Unknown,
    /// It is another handle's damaged copy.
    #[serde(rename = "damaged")]
    Damaged,
    /// Its exporter ended, and somebody has it open.
    #[serde(rename = "exporter gone")]
    ExporterGone,
    /// It was freed while somebody had it open.
    #[serde(rename = "freed while open")]
    FreedWhileOpen,
}

impl State {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            State::Exported => "exported",
            State::Closed => "closed",
            State::Open => "open",
            State::OpenAtExit => "open at exit",
            State::Unknown => "unknown",
            State::Damaged => "damaged",
            State::ExporterGone => "exporter gone",
            State::FreedWhileOpen => "freed while open",
        }
    }
}

/// From where one process opened a handle to where it had closed it as often.
#[derive(Serialize)]
pub struct Open {
    /// The process.
    pub proc: Proc,
    /// How it stands.
    pub state: State,
    /// When it was opened.
    pub opened_ns: u64,
    /// When it was closed.
    pub closed_ns: Option<u64>,
    /// The function that closed it.
    pub closed_by: Option<&'static str>,
    /// The device of the opener's context.
    pub device: Option<Uuid>,
    /// The thread that opened it.
    pub tid: u32,
    /// How often it was opened in this time.
    pub times: u64,
    /// Earlier times of the same process that are left out.
    pub earlier: u64,
}

/// One process's failures to open a handle.
#[derive(Serialize)]
pub struct FailedOpen {
    /// The process.
    pub proc: Proc,
    /// With what.
    pub codes: Codes,
    /// When last.
    pub last_ns: u64,
}

/// What was opened in one place and not closed.
#[derive(Serialize)]
pub struct Leak {
    /// `memory` or `event`.
    pub kind: &'static str,
    /// How many handles are open.
    pub handles: u64,
    /// The bytes of their allocations, where known.
    pub bytes: u64,
    /// How long the oldest is open.
    pub oldest_ns: u64,
    /// How long the youngest is open.
    pub youngest_ns: u64,
    /// Who has them open.
    pub procs: Vec<Proc>,
    /// Where they were opened, the caller first.
    pub stack: Vec<Place>,
}

/// What one process did from one device to another.
#[derive(Serialize)]
pub struct Peer {
    /// The process.
    pub proc: Proc,
    /// The device that accesses.
    pub from: Option<Uuid>,
    /// The device whose memory is accessed.
    pub to: Option<Uuid>,
    /// How often it asked about the two.
    pub asked: u64,
    /// What cuDeviceCanAccessPeer said last.
    pub can_access: Option<bool>,
    /// Whether it switched access on.
    pub enabled: bool,
    /// When it switched access on last.
    pub enabled_ns: Option<u64>,
    /// When it switched access off again.
    pub disabled_ns: Option<u64>,
    /// What asking, switching on and off failed with.
    pub failed: Codes,
    /// IPC memory that it opened over the two.
    pub opened: u64,
    /// What opening failed with.
    pub open_failed: Codes,
    /// Whether opening failed and nothing has been open over the two since.
    pub unmapped_since_failure: bool,
    /// Why fields are unknown.
    #[serde(skip_serializing_if = "Unknown::is_empty")]
    pub unknown: Unknown,
}

/// A call that failed.
#[derive(Serialize)]
pub struct Failure {
    /// When it began.
    pub time_ns: u64,
    /// The process.
    pub proc: Proc,
    /// The thread.
    pub tid: u32,
    /// The number of the call in its stream.
    pub seq: u64,
    /// The function.
    pub function: Rc<str>,
    /// The name of the result, or its number.
    pub result: String,
    /// Its arguments.
    pub args: serde_json::Map<String, serde_json::Value>,
    /// How long it took.
    pub duration_ns: u64,
    /// Whether the result was of our making.
    pub injected: bool,
    /// What the driver said.
    pub driver_message: Option<String>,
    /// Who made it.
    pub caller: Place,
    /// The caller, who called that, and so on.
    pub stack: Vec<Place>,
}

/// Failures that are alike.
#[derive(Serialize)]
pub struct FailureGroup {
    /// The function.
    pub function: Rc<str>,
    /// The name of the result, or its number.
    pub result: String,
    /// How many.
    pub count: u64,
    /// The first.
    pub first_ns: u64,
    /// The last.
    pub last_ns: u64,
    /// Which processes, at most [`MOST_PROCS`].
    pub procs: Vec<Proc>,
    /// How many more processes.
    pub procs_more: u64,
    /// Who made them.
    pub caller: Place,
    /// Whether they are part of what programs do when all is well.
    pub usual: bool,
}

/// The most processes that a group names.
pub const MOST_PROCS: usize = 16;

/// A place in a program.
#[derive(Serialize, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The path of the library.
    pub library: Option<Rc<str>>,
    /// Its build id in hexadecimal digits.
    pub build_id: Option<Rc<str>>,
    /// Where in it, or the address where the library is unknown.
    #[serde(serialize_with = "hexadecimal")]
    pub offset: u64,
    /// The function, where symbols are at hand.
    pub function: Option<Rc<str>>,
}

/// A library whose calls went past us.
#[derive(Serialize)]
pub struct Escaped {
    /// The process.
    pub proc: Proc,
    /// Its path.
    pub library: String,
    /// How they went past us.
    pub way: String,
}

/// A library whose functions have no names here.
#[derive(Serialize)]
pub struct Unnamed {
    /// Its path.
    pub library: String,
    /// Why.
    pub reason: String,
}

/// What stands for the bytes of a handle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Fingerprint(pub u64);

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "ipc:{:016x}", self.0)
    }
}

/// A device's UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Uuid(pub [u8; 16]);

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("GPU")?;
        for (i, byte) in self.0.iter().enumerate() {
            let dash = if [0, 4, 6, 8, 10].contains(&i) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

macro_rules! serialized_as_displayed {
    ($($type:ty)*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}
serialized_as_displayed! { Fingerprint Uuid }

fn hexadecimal<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{number:#x}"))
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

    #[test]
    fn states_are_the_same_words_everywhere() {
        for state in
            [State::Closed, State::Open, State::OpenAtExit, State::ExporterGone, State::FreedWhileOpen]
        {
            assert_eq!(serde_json::to_value(state).unwrap(), state.word());
        }
    }
}
