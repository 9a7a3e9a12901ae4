//! The processes of a recording, their devices, and their calls that bypassed cupeer.

use super::{
    Place, Proc, RuntimeCall, Unknown, Uuid,
    word::{self, Word},
};
use crate::base::terminal::clean;
use cupeer_spec::bypass::{self, Bypass};
use cupeer_spec::env::{self, CheckLevel};
use cupeer_spec::record::end::RecordedEnd;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::rc::Rc;

/// Process of a recording.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Name of the process, unique in the recording.
    pub proc: Proc,
    /// Pid of the process in its own pid namespace.
    pub pid: u32,
    /// Pid of the parent process.
    pub ppid: u32,
    /// Host that the process ran on.
    pub host: String,
    /// Boot id of the host. Times are ordered among processes with the same boot id.
    pub boot_id: String,
    /// Inode of the pid namespace.
    pub pid_ns: u64,
    /// Rank in the job, from the launcher's variables; null if it has none.
    pub rank: Option<u32>,
    /// Program of the process.
    pub program: String,
    /// Arguments of the program, its name first.
    pub arguments: Vec<String>,
    /// Command line of the program behind a process that Python's multiprocessing started, whose own arguments name no
    /// script; null for other processes.
    #[serde(default)]
    pub started_by: Option<String>,
    /// Environment variables that change the behavior of CUDA programs.
    pub variables: BTreeMap<String, String>,
    /// Recording mode: all events, or the last ones, with the first ones of a recording that reached its limit.
    #[schemars(extend("enum" = ["full", "ring"]))]
    #[serde(deserialize_with = "word::read")]
    pub mode: Word,
    /// Limit of the recording in bytes, which it reached: events between the first and the last ones are gone. Null if it did
    /// not reach a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub reached_limit: Option<u64>,
    /// Number of events that were read.
    pub events: u64,
    /// Number of calls without an event of their own, because they failed in the same way as an earlier call, which
    /// counts them.
    #[serde(default)]
    pub repeated: u64,
    /// Number of calls that a fault plan changed, delayed, held, or ended.
    pub injected: u64,
    /// Number of events that could not be recorded.
    pub lost: u64,
    /// End of the process, or that it is running.
    pub exit: Exit,
    /// Time until which the process is known to have run, in nanoseconds since 1970. Absent if it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub ran_until_ns: Option<u64>,
    /// Time by which the process had ended, in nanoseconds since 1970; the same as `ran_until_ns` if its end is known exactly.
    /// Absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub ended_by_ns: Option<u64>,
    /// Signal from outside of the run after which the process ended. Absent if there was none, or cupeer did not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Asked")]
    pub asked: Option<Asked>,
    /// Program that the process executed in its place; it ended as `exit` shows. Absent if it executed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub became: Option<String>,
    /// Time when the recording of the process began.
    pub began_ns: u64,
    /// Last call of the process.
    pub last_call: Option<LastCall>,
    /// Calls that have not returned, the oldest first.
    pub pending: Vec<Pending>,
    /// Functions of cupeer's table that the process called, and of which the recording has no call.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "word::read")]
    pub unrecorded: Vec<Word>,
    /// Devices that the process sees, in its own numbering.
    pub devices: Vec<Ordinal>,
    /// Reasons for fields that are unknown.
    #[serde(skip_serializing_if = "Unknown::is_empty")]
    #[serde(default, deserialize_with = "word::read")]
    pub unknown: Unknown,
}

/// End of a process, or that it is running.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exit {
    /// Kind of end.
    pub kind: ExitKind,
    /// Exit status; null if the process did not exit with one.
    pub code: Option<u8>,
    /// Number of the signal that killed the process; null if none did.
    pub signal: Option<u8>,
    /// True if `_exit` ended the process, without the work that is done at an exit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub immediate: bool,
}

/// Kind of end of a process.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "lowercase")]
pub enum ExitKind {
    /// The process is running.
    Running,
    /// The process exited.
    Returned,
    /// A signal killed the process.
    Signal,
    /// The process was killed or called exit_group, and it is unknown which.
    Died,
    /// The process became another program.
    Executed,
    /// The process ended, and the recording does not show how, because an older version made it.
    Gone,
    /// It is unknown whether the process has ended.
    #[default]
    Unseen,
}

impl Exit {
    /// Returns the end of a process from whether it runs, from the end in its record, and from whether it became
    /// another program.
    pub fn of(alive: Option<bool>, end: RecordedEnd, is_another: bool) -> Exit {
        let of = |kind| Exit { kind, ..Exit::default() };
        match (alive, end) {
            (Some(true), _) => of(ExitKind::Running),
            _ if is_another => of(ExitKind::Executed),
            (_, RecordedEnd::Executed) => of(ExitKind::Executed),
            (_, RecordedEnd::Returned(code) | RecordedEnd::ExecutedReturned(code)) => {
                Exit { code: Some(code), ..of(ExitKind::Returned) }
            }
            (_, RecordedEnd::Left(code)) => Exit { code: Some(code), immediate: true, ..of(ExitKind::Returned) },
            (_, RecordedEnd::ReturnedSomething) => of(ExitKind::Returned),
            (_, RecordedEnd::Signal(signal) | RecordedEnd::ExecutedSignal(signal)) => {
                Exit { signal: Some(signal), ..of(ExitKind::Signal) }
            }
            (Some(false), RecordedEnd::Unseen) => of(ExitKind::Died),
            (Some(false), RecordedEnd::Untold) => of(ExitKind::Gone),
            (None, RecordedEnd::Unseen | RecordedEnd::Untold) => of(ExitKind::Unseen),
        }
    }

    /// Returns true if the process exited with an error, or something killed it.
    pub fn is_failure(self) -> bool {
        matches!(self.kind, ExitKind::Signal | ExitKind::Died) || self.code.is_some_and(|code| code > 0)
    }

    /// Returns true if the process has certainly ended.
    pub fn has_ended(self) -> bool {
        !matches!(self.kind, ExitKind::Running | ExitKind::Unseen)
    }
}

impl Process {
    /// Returns the file name of the program; empty if it is unknown.
    pub fn program_name(&self) -> &str {
        Path::new(&self.program).file_name().and_then(OsStr::to_str).unwrap_or_default()
    }

    /// Returns what a process is called in every run: its rank, or else its program.
    pub fn name_in_every_run(&self) -> String {
        self.rank.map_or_else(|| self.program_name().to_owned(), |rank| format!("rank {rank}"))
    }

    /// Returns how the calls of the process were checked; `None` if they were not.
    pub fn check_level(&self) -> Option<CheckLevel> {
        CheckLevel::from_variable(self.variables.get(env::CHECK).map(String::as_str))
    }

    /// Returns true if the process had certainly ended when another one of its host ended. Clocks of hosts differ.
    pub fn ended_before(&self, other: &Process) -> bool {
        let times = self.ended_by_ns.zip(other.ran_until_ns);
        self.boot_id == other.boot_id && times.is_some_and(|(ended, ran)| ended <= ran)
    }

    /// Returns true if a fault plan ended the process, or kept it in a call until it ended.
    pub fn is_stopped_on_purpose(&self) -> bool {
        self.pending.iter().any(|call| call.injected_by.is_some())
    }
}

/// Signal from outside of a run that asked its processes to end, as its launcher noted it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Asked {
    /// Number of the signal.
    pub signal: u8,
    /// Sender of the signal: the name of the process, `terminal`, or `cupeer`; null if it is unknown.
    pub sender: Option<String>,
    /// Pid of the sender; null for the terminal.
    pub pid: Option<u32>,
    /// Time when the launcher noted the signal, in nanoseconds since 1970.
    pub at_ns: u64,
}

/// Last call of a process.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct LastCall {
    /// Name of the function.
    pub function: Rc<str>,
    /// Thread id of the thread that made the call.
    pub tid: u32,
    /// Time when the call began.
    pub at_ns: u64,
    /// Place that made the call; absent if the process was not killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Place")]
    pub caller: Option<Place>,
}

/// Call that has not returned.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Pending {
    /// Name of the function.
    pub function: Rc<str>,
    /// Thread id of the thread that made the call.
    pub tid: u32,
    /// Number of the call in its stream.
    pub seq: u64,
    /// Time when the call began.
    pub since_ns: u64,
    /// Time in nanoseconds that the call had been running at the end of the recording.
    pub age_ns: u64,
    /// Name of the fault that holds the call; null if none does.
    pub injected_by: Option<String>,
    /// Label with which `cupeer release` releases the call; null if the fault does not wait for a release.
    pub release: Option<String>,
    /// Arguments of the call by their names in cuda.h, as in the log: numbers as numbers; pointers, handles, and
    /// 64-bit values as hexadecimal strings; unknown values as null.
    pub args: serde_json::Map<String, serde_json::Value>,
    /// Call of the CUDA runtime that made this call; null if the program does not use the runtime as a shared library.
    pub runtime: Option<RuntimeCall>,
    /// Place that made the call.
    pub caller: Place,
    /// Call stack: the caller, its caller, and so on.
    pub stack: Vec<Place>,
}

/// Device in the numbering of one process.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Ordinal {
    /// Number of the device in the process.
    pub ordinal: i32,
    /// UUID of the device.
    pub uuid: Uuid,
}

/// Device that a process saw.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// UUID of the device.
    pub uuid: Uuid,
    /// Number that CUDA has for the device in a process without CUDA_VISIBLE_DEVICES; null if unknown.
    #[serde(default)]
    pub number: Option<u32>,
    /// PCI address of the device.
    pub pci: String,
    /// Name of the device.
    pub name: String,
}

/// Library whose calls bypassed cupeer.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Escaped {
    /// Process that loaded the library. It has no row in `processes` if libcupeer.so was not loaded.
    pub proc: Proc,
    /// Path of the library.
    pub library: String,
    /// Method by which the calls bypassed cupeer, in words.
    pub way: String,
}

impl Escaped {
    /// Returns true if this is a driver about which nothing is known but that no call was seen.
    pub fn is_driver_without_calls(&self) -> bool {
        self.way == Bypass::Unseen.name()
    }

    /// Returns true if this is a driver of a process without cupeer, which a run saw from outside.
    pub fn is_process_without_cupeer(&self) -> bool {
        self.way == Bypass::NotLoaded.name()
    }

    /// Returns a sentence: the calls of the library bypass cupeer, and how.
    pub fn bypass_sentence(&self) -> String {
        format_bypass(&self.library, &self.way, "")
    }
}

/// Returns a sentence: the calls of the library bypass cupeer, how, and how often.
pub fn format_bypass(library: &str, way: &str, times: &str) -> String {
    format!("the calls of {} escape cupeer{times}: {}", clean(library), clean(&bypass::name_with_hint(way)))
}

/// Library whose functions could not be named.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Unnamed {
    /// Path of the library.
    pub library: String,
    /// Reason why its functions could not be named.
    pub reason: String,
}
