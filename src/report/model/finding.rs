//! Findings: which rule, where, why, and what it is about.

use super::call::hexadecimal;
use super::{Fingerprint, Place, Proc, Uuid};
use serde::{Serialize, Serializer};
use std::rc::Rc;

/// What a rule has found, in all calls of one function from one place that ended alike.
#[derive(Serialize, Clone)]
pub struct Finding {
    /// The name of the rule.
    pub rule: Rc<str>,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// `certain`, `stale` or `inferred`.
    pub confidence: &'static str,
    /// The function.
    pub function: Rc<str>,
    /// The name of the argument that it is about.
    pub argument: Option<&'static str>,
    /// The name of the result, or its number.
    pub result: Option<String>,
    /// The process of the first.
    pub proc: Proc,
    /// Its thread.
    pub tid: u32,
    /// The number of its call in its stream.
    pub seq: u64,
    /// When it began.
    pub time_ns: u64,
    /// When the last began.
    pub last_ns: u64,
    /// How many there are.
    pub count: u64,
    /// In which processes, at most [`super::MOST_PROCS`].
    pub procs: Vec<Proc>,
    /// In how many more.
    pub procs_more: u64,
    /// The ranks among all of them.
    pub ranks: Vec<u32>,
    /// What the first is, with its values.
    pub message: String,
    /// What the rule rests on.
    pub sentence: Option<&'static str>,
    /// Where that is from.
    pub source: Option<&'static str>,
    /// What to do.
    pub hint: String,
    /// What the driver said about the first.
    pub driver_message: Option<String>,
    /// Who made the calls.
    pub caller: Place,
    /// What the first is about.
    pub objects: Vec<Object>,
}

/// Something that a finding is about.
#[derive(Serialize, Clone)]
pub struct Object {
    /// What it is: `export`, `opening` and so on.
    pub role: &'static str,
    /// The process, where the record has it.
    pub proc: Option<Proc>,
    /// Its pid, as it knows itself.
    pub pid: u32,
    /// Its rank.
    pub rank: Option<u32>,
    /// The thread.
    pub tid: Option<u32>,
    /// The device.
    pub device: Option<Uuid>,
    /// The address, event or context.
    #[serde(serialize_with = "hexadecimal_or_null")]
    pub address: Option<u64>,
    /// The size.
    pub bytes: Option<u64>,
    /// What stands for the handle.
    pub fingerprint: Option<Fingerprint>,
    /// When it was made.
    pub time_ns: Option<u64>,
    /// The file name of the library that made it.
    pub library: Option<Rc<str>>,
    /// Where in that.
    #[serde(serialize_with = "hexadecimal_or_null")]
    pub offset: Option<u64>,
    /// The call stack, the caller first.
    pub stack: Vec<Place>,
}

fn hexadecimal_or_null<S: Serializer>(number: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => hexadecimal(number, serializer),
        None => serializer.serialize_none(),
    }
}
