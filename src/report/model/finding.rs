//! Findings: their rule, place, reason, and objects.

use super::call::{Hexadecimal, hexadecimal, parse_address};
use super::{
    Allocator, Fingerprint, Place, Proc, RuntimeCall, Uuid,
    word::{self, Word},
};
use cupeer_rules::{Rule, Tells};
use cupeer_spec::record::slot::finding::{Confidence, Severity, role};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::rc::Rc;

/// Severities of a finding.
pub const SEVERITIES: [&str; 3] = [Severity::Error.word(), Severity::Warning.word(), Severity::Note.word()];

/// Findings of one rule and function, with one result and from one place, over all processes.
#[derive(Serialize, Deserialize, JsonSchema, Clone)]
pub struct Finding {
    /// Name of the rule; `cupeer explain RULE` describes it.
    pub rule: Rc<str>,
    /// Severity of the finding. It is a note if a library does it on purpose. With --error-on, the findings that it selects
    /// are errors, and all others at most warnings.
    #[schemars(extend("enum" = SEVERITIES))]
    #[serde(deserialize_with = "word::read")]
    pub severity: Word,
    /// True if the finding fails a run: --error-on selects it or, without that option, it is a warning or an error; and no
    /// suppression matches it.
    #[serde(default)]
    pub fails: bool,
    /// Certainty of the finding. Certain: it follows from what cupeer observed. Stale: it follows from the data of a
    /// process that ended. Inferred: it is the most likely explanation.
    #[schemars(extend("enum" = [Confidence::Certain, Confidence::Stale, Confidence::Inferred].map(Confidence::word)))]
    #[serde(deserialize_with = "word::read")]
    pub confidence: Word,
    /// Name of the function that the program called.
    pub function: Rc<str>,
    /// Argument that the finding is about, by its name in cuda.h.
    #[serde(deserialize_with = "word::read")]
    pub argument: Option<Word>,
    /// Name of the result, or its number if it has no name; null if the call has not returned, or the function is fork.
    pub result: Option<String>,
    /// Process of the first occurrence.
    pub proc: Proc,
    /// Thread id of the first occurrence.
    pub tid: u32,
    /// Number of the call of the first occurrence in its stream.
    pub seq: u64,
    /// Time when the call of the first occurrence began.
    pub time_ns: u64,
    /// Time when the call of the last occurrence began.
    pub last_ns: u64,
    /// Number of occurrences, including those that processes only counted.
    pub count: u64,
    /// Processes with the finding, at most 16.
    pub procs: Vec<Proc>,
    /// Number of processes that `procs` omits.
    pub procs_more: u64,
    /// Ranks of all processes with the finding.
    pub ranks: Vec<u32>,
    /// Sentence that states the error, with the values of the first occurrence.
    pub message: String,
    /// Sentence that the rule is based on; null for a rule that this version does not know.
    #[serde(deserialize_with = "word::read")]
    pub sentence: Option<Word>,
    /// Source of `sentence`: the documentation of a function or a result, an observed driver, or practice.
    #[serde(deserialize_with = "word::read")]
    pub source: Option<Word>,
    /// Action that fixes the error.
    pub hint: String,
    /// Explanation of the first occurrence from the driver's own log.
    pub driver_message: Option<String>,
    /// Call of the CUDA runtime that made the call of the first occurrence; null if the program does not use the
    /// runtime as a shared library.
    pub runtime: Option<RuntimeCall>,
    /// Place that made the calls.
    pub caller: Place,
    /// Call stack of the first occurrence: the caller, its caller, and so on.
    pub stack: Vec<Place>,
    /// Objects that the first occurrence is about.
    pub objects: Vec<Object>,
    /// Uses of shared memory that nothing orders, in the order of time. Absent if the finding is about something else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<SharedUse>,
    /// Suppression that matches the finding, so that it does not count; null if none does.
    pub suppressed_by: Option<SuppressedBy>,
    /// Number, from 1, of the finding of the report that this one follows from. Absent if it follows from none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<u32>,
}

/// Use of shared memory by a copy or a memset, or the end of the memory.
#[derive(Serialize, Deserialize, JsonSchema, Clone)]
pub struct SharedUse {
    /// Process that made the call.
    pub proc: Proc,
    /// Thread id of the thread that made the call.
    pub tid: u32,
    /// Name of the function.
    #[serde(deserialize_with = "word::read")]
    pub function: Word,
    /// Place of the call.
    pub caller: Place,
    /// Stream of the work: its handle, or the name of a default stream; null if the call does its work at once.
    pub stream: Option<String>,
    /// Number of bytes.
    pub bytes: u64,
    /// Offset of the first byte in the exported allocation.
    pub offset: u64,
    /// Time when the call began.
    pub time_ns: u64,
}

/// Suppression of a finding: an entry of a file given with --suppressions.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SuppressedBy {
    /// Path of the file, as it was given.
    pub file: Rc<str>,
    /// Line in which the entry begins.
    pub line: u64,
    /// Reason that the entry gives; null if it gives none.
    pub reason: Option<Rc<str>>,
}

/// Entry of a file given with --suppressions, and its effect.
#[derive(Serialize, Deserialize, JsonSchema, Clone)]
pub struct Suppression {
    /// Path of the file, as it was given.
    pub file: Rc<str>,
    /// Line in which the entry begins.
    pub line: u64,
    /// Rules that the entry matches: a name or a pattern.
    pub rule: String,
    /// Calling libraries that the entry matches; null for all.
    pub library: Option<String>,
    /// Functions or places on the call stack that the entry matches; null for all.
    pub caller: Option<String>,
    /// Programs that the entry matches; null for all.
    pub program: Option<String>,
    /// Reason that the entry gives; null if it gives none.
    pub reason: Option<Rc<str>>,
    /// Number of findings that the entry suppresses in this report.
    pub findings: u64,
}

/// Object that a finding is about, with the place and time of the call that concerned it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Default)]
pub struct Object {
    /// Role of the object in the finding.
    #[schemars(extend("enum" = [&role::WORDS[..], &["unknown"]].concat()))]
    #[serde(deserialize_with = "word::read")]
    pub role: Word,
    /// Process that made the call; null if it is not in the recording.
    pub proc: Option<Proc>,
    /// Pid of that process in its own pid namespace; 0 if unknown.
    pub pid: u32,
    /// Rank of that process.
    pub rank: Option<u32>,
    /// Thread id of the thread that made the call.
    pub tid: Option<u32>,
    /// Device of the object.
    pub device: Option<Uuid>,
    /// Address of the memory, or value of the event or context.
    #[serde(serialize_with = "hexadecimal_or_null", deserialize_with = "address_or_null")]
    #[schemars(with = "Option<Hexadecimal>")]
    pub address: Option<u64>,
    /// Size of the memory in bytes.
    pub bytes: Option<u64>,
    /// Allocator of the memory; null if unknown.
    pub allocator: Option<Allocator>,
    /// Fingerprint of the handle.
    pub fingerprint: Option<Fingerprint>,
    /// Time of the call.
    pub time_ns: Option<u64>,
    /// File name of the library that made the call.
    pub library: Option<Rc<str>>,
    /// Offset in the library that made the call.
    #[serde(serialize_with = "hexadecimal_or_null", deserialize_with = "address_or_null")]
    #[schemars(with = "Option<Hexadecimal>")]
    pub offset: Option<u64>,
    /// Call stack, the caller first.
    pub stack: Vec<Place>,
    /// Place of the call, if another place made the call for it. Absent if it is in `library`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Place>,
}

impl Object {
    /// Returns the place of the call: the frame in the library of the object, or else the first frame.
    pub fn call_place(&self) -> Option<&Place> {
        if self.caller.is_some() {
            return self.caller.as_ref();
        }
        let named = |place: &&Place| place.file_name() == self.library.as_deref() && Some(place.offset) == self.offset;
        let first = || self.stack.first().filter(|_| self.library.is_none());
        self.stack.iter().find(named).or_else(first)
    }
}

fn hexadecimal_or_null<S: Serializer>(number: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => hexadecimal(number, serializer),
        None => serializer.serialize_none(),
    }
}

fn address_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    parse_address(&text).map(Some).ok_or_else(|| D::Error::custom("an address is not one"))
}

impl Finding {
    /// Returns true if the findings of its rule say something of a handle.
    pub fn states_fact(&self, what: Tells) -> bool {
        Rule::of(&self.rule).is_some_and(|rule| rule.spec().states_fact(what))
    }
}

/// Returns true if a rule explains a failure without being broken: its findings are said at every level.
pub fn is_explanation(rule: &str) -> bool {
    Rule::of(rule).is_some_and(|rule| rule.spec().is_explanation())
}
