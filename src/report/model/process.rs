//! The processes of a record, their devices, and what of them went past us.

use super::{Place, Proc, Unknown, Uuid};
use crate::text::names::clean;
use cupeer_spec::way::{self, Way};
use serde::Serialize;
use std::collections::BTreeMap;
use std::rc::Rc;

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
    /// The variables of its environment that its record has.
    pub variables: BTreeMap<String, String>,
    /// `full` or `ring`.
    pub mode: &'static str,
    /// Events that were read.
    pub events: u64,
    /// Calls that a fault plan changed, held or ended.
    pub injected: u64,
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
    /// The rule of a fault plan because of which it does not return.
    pub injected_by: Option<String>,
    /// The label that `cupeer release` ends it with, where that rule makes it wait for that.
    pub release: Option<String>,
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
    format!("the calls of {} go past cupeer{times}: {}", clean(library), clean(&way::explained(way)))
}

/// A library whose functions have no names here.
#[derive(Serialize)]
pub struct Unnamed {
    /// Its path.
    pub library: String,
    /// Why.
    pub reason: String,
}
