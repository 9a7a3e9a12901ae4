//! The processes of a recording, their devices, and their calls that bypassed cupeer.

use super::{
    Place, Proc, RuntimeCall, Unknown, Uuid,
    word::{self, Word},
};
use crate::text::names::clean;
use cupeer_spec::env::{self, Level};
use cupeer_spec::record::end::End;
use cupeer_spec::way::{self, Way};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A process.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Its name.
    pub proc: Proc,
    /// Its pid, in its own pid namespace.
    pub pid: u32,
    /// The pid of its parent.
    pub ppid: u32,
    /// The host that it ran on.
    pub host: String,
    /// The boot id of its host: times are ordered among processes that have the same.
    pub boot_id: String,
    /// The inode of its pid namespace.
    pub pid_ns: u64,
    /// Its rank in the job, from its launcher's variables.
    pub rank: Option<u32>,
    /// Its program.
    pub program: String,
    /// Its arguments, the program's name first.
    pub arguments: Vec<String>,
    /// The variables of its environment that decide what CUDA programs do.
    pub variables: BTreeMap<String, String>,
    /// Whether all events were kept.
    #[schemars(extend("enum" = ["full", "ring"]))]
    #[serde(deserialize_with = "word::read")]
    pub mode: Word,
    /// Events that were read.
    pub events: u64,
    /// Calls that have no event of their own, because they failed in the same way as one before them, which counts them.
    #[serde(default)]
    pub repeated: u64,
    /// Calls that a fault plan changed, delayed, held or ended.
    pub injected: u64,
    /// Events that could not be kept.
    pub lost: u64,
    /// How it ended, or that it runs.
    pub exit: Exit,
    /// The program that it became, where it executed one in its own place: it ended as `exit` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub became: Option<String>,
    /// When its recording began.
    pub began_ns: u64,
    /// Its last call.
    pub last_call: Option<LastCall>,
    /// The calls that have not returned, the oldest first.
    pub pending: Vec<Pending>,
    /// The devices that it sees, as it numbers them.
    pub devices: Vec<Ordinal>,
    /// Why fields are unknown.
    #[serde(skip_serializing_if = "Unknown::is_empty")]
    #[serde(default, deserialize_with = "word::read")]
    pub unknown: Unknown,
}

/// How a process ended, or that it runs.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// The kind.
    pub kind: ExitKind,
    /// The exit status, where it returned one.
    pub code: Option<u8>,
    /// The number of the signal that ended it, where one did.
    pub signal: Option<u8>,
    /// Whether `_exit` ended it: nothing was done that is done at an exit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub immediate: bool,
}

/// The ways in which a process ends.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum ExitKind {
    /// It runs.
    Running,
    /// It returned.
    Returned,
    /// A signal ended it.
    Signal,
    /// The process was killed or called exit_group, and it is unknown which.
    Died,
    /// It became another program.
    Executed,
    /// It has ended, and its record does not say how: an older version made it.
    Gone,
    /// Whether it has ended is unknown.
    Unseen,
}

impl Exit {
    /// From whether it runs, what its record says of its end, and whether it has become another program.
    pub fn of(alive: Option<bool>, end: End, is_another: bool) -> Exit {
        let of = |kind| Exit { kind, code: None, signal: None, immediate: false };
        match (alive, end) {
            (Some(true), _) => of(ExitKind::Running),
            _ if is_another => of(ExitKind::Executed),
            (_, End::Executed) => of(ExitKind::Executed),
            (_, End::Returned(code) | End::ExecutedReturned(code)) => {
                Exit { code: Some(code), ..of(ExitKind::Returned) }
            }
            (_, End::Left(code)) => Exit { code: Some(code), immediate: true, ..of(ExitKind::Returned) },
            (_, End::ReturnedSomething) => of(ExitKind::Returned),
            (_, End::Signal(signal) | End::ExecutedSignal(signal)) => {
                Exit { signal: Some(signal), ..of(ExitKind::Signal) }
            }
            (Some(false), End::Unseen) => of(ExitKind::Died),
            (Some(false), End::Untold) => of(ExitKind::Gone),
            (None, End::Unseen | End::Untold) => of(ExitKind::Unseen),
        }
    }

    /// Whether it has certainly ended.
    pub fn has_ended(self) -> bool {
        !matches!(self.kind, ExitKind::Running | ExitKind::Unseen)
    }
}

impl Process {
    /// How its calls were checked, where they were.
    pub fn checked(&self) -> Option<Level> {
        Level::of(self.variables.get(env::CHECK).map(String::as_str))
    }

    /// Whether a fault plan has ended it, or has kept it in a call until it ended.
    pub fn is_stopped_on_purpose(&self) -> bool {
        self.pending.iter().any(|call| call.injected_by.is_some())
    }
}

/// The last call of a process.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct LastCall {
    /// The function.
    pub function: Rc<str>,
    /// The thread.
    pub tid: u32,
    /// When it began.
    pub at_ns: u64,
}

/// A call that has not returned.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Pending {
    /// The function.
    pub function: Rc<str>,
    /// The thread.
    pub tid: u32,
    /// The number of the call in its stream.
    pub seq: u64,
    /// When it began.
    pub since_ns: u64,
    /// How long it had been running at the end of the record.
    pub age_ns: u64,
    /// The name of the fault plan's rule that keeps it from returning.
    pub injected_by: Option<String>,
    /// The label by which 'cupeer release' releases it, where that rule makes it wait for one.
    pub release: Option<String>,
    /// The arguments by their names in cuda.h, as in the log: numbers as numbers; pointers, handles and 64-bit values
    /// as hexadecimal strings; what is not known is null.
    pub args: serde_json::Map<String, serde_json::Value>,
    /// The call of the runtime that made this one, where the program uses the runtime as a shared library; else null.
    pub runtime: Option<RuntimeCall>,
    /// Who made it.
    pub caller: Place,
    /// The caller, who called that, and so on.
    pub stack: Vec<Place>,
}

/// A device as one process numbers it.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Ordinal {
    /// Its number in the process.
    pub ordinal: i32,
    /// The device.
    pub uuid: Uuid,
}

/// A device.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its PCI address.
    pub pci: String,
    /// Its name.
    pub name: String,
}

/// A library whose calls escaped cupeer.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Escaped {
    /// The process.
    pub proc: Proc,
    /// Its path.
    pub library: String,
    /// How they escaped cupeer.
    pub way: String,
}

impl Escaped {
    /// Whether it is a driver of which nobody knows more than that no call was seen.
    pub fn is_unseen(&self) -> bool {
        self.way == Way::Unseen.name()
    }

    /// That calls go past us, and how.
    pub fn sentence(&self) -> String {
        past(&self.library, &self.way, "")
    }
}

/// That the calls of a library go past us, where, and how.
pub fn past(library: &str, way: &str, times: &str) -> String {
    format!("the calls of {} escape cupeer{times}: {}", clean(library), clean(&way::explained(way)))
}

/// A library whose functions could not be named.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Unnamed {
    /// Its path.
    pub library: String,
    /// Why.
    pub reason: String,
}
