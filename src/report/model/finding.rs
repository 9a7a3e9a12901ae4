//! Findings: their rule, place, reason, and objects.

use super::call::{Hexadecimal, hexadecimal, of_address};
use super::{
    Allocator, Fingerprint, Place, Proc, RuntimeCall, Uuid,
    word::{self, Word},
};
use cupeer_spec::record::slot::finding::{Confidence, Severity, role};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::rc::Rc;

/// How severe a finding can be.
pub const SEVERITIES: [&str; 3] = [Severity::Error.word(), Severity::Warning.word(), Severity::Note.word()];

/// What a rule found: all findings of one rule and function, with one result and from one place, over all processes.
#[derive(Serialize, Deserialize, JsonSchema, Clone)]
pub struct Finding {
    /// The name of the rule: 'cupeer explain RULE' says more.
    pub rule: Rc<str>,
    /// How severe it is. What a library does on purpose is a note.
    #[schemars(extend("enum" = SEVERITIES))]
    #[serde(deserialize_with = "word::read")]
    pub severity: Word,
    /// Certain: it follows from what was seen. Stale: it follows from what a process that has died left behind.
    /// Inferred: it is the likeliest explanation.
    #[schemars(extend("enum" = [Confidence::Certain, Confidence::Stale, Confidence::Inferred].map(Confidence::word)))]
    #[serde(deserialize_with = "word::read")]
    pub confidence: Word,
    /// The function.
    pub function: Rc<str>,
    /// The argument that it is about, by its name in cuda.h.
    #[serde(deserialize_with = "word::read")]
    pub argument: Option<Word>,
    /// The name of the result, or its number; null where the call has not returned.
    pub result: Option<String>,
    /// The process of the first.
    pub proc: Proc,
    /// Its thread.
    pub tid: u32,
    /// The number of its call in its stream.
    pub seq: u64,
    /// When the first began.
    pub time_ns: u64,
    /// When the last began.
    pub last_ns: u64,
    /// How many there are, including those that processes only counted.
    pub count: u64,
    /// In which processes, at most 16.
    pub procs: Vec<Proc>,
    /// In how many more.
    pub procs_more: u64,
    /// The ranks among all of them.
    pub ranks: Vec<u32>,
    /// What was found, with the values of the first.
    pub message: String,
    /// What the rule rests on; null of a rule that this version does not know.
    #[serde(deserialize_with = "word::read")]
    pub sentence: Option<Word>,
    /// Where that is from: a function or a result of the documentation, what was observed, or practice.
    #[serde(deserialize_with = "word::read")]
    pub source: Option<Word>,
    /// What to do.
    pub hint: String,
    /// What the driver said about the first.
    pub driver_message: Option<String>,
    /// The call of the runtime that made the first, where the program uses the runtime as a shared library; else null.
    pub runtime: Option<RuntimeCall>,
    /// Who made the calls.
    pub caller: Place,
    /// Of the first: the caller, who called that, and so on.
    pub stack: Vec<Place>,
    /// What the first is about.
    pub objects: Vec<Object>,
    /// The entry that suppresses them: they count for nothing. Null where none does.
    pub suppressed_by: Option<SuppressedBy>,
}

/// An entry of a file given with --suppressions, from where a finding is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SuppressedBy {
    /// The file, as it was given.
    pub file: Rc<str>,
    /// The line in which the entry begins.
    pub line: u64,
    /// Its reason, where it has one.
    pub reason: Option<Rc<str>>,
}

/// An entry of a file given with --suppressions, and what it does.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Suppression {
    /// The file, as it was given.
    pub file: Rc<str>,
    /// The line in which the entry begins.
    pub line: u64,
    /// The rules that it means: a name or a pattern.
    pub rule: String,
    /// The calling libraries that it means; null means all.
    pub library: Option<String>,
    /// The functions or places on the call stack that it means; null means all.
    pub caller: Option<String>,
    /// The programs that it means; null means all.
    pub program: Option<String>,
    /// Why.
    pub reason: Option<Rc<str>>,
    /// How many findings it suppresses here.
    pub findings: u64,
}

/// Something that a finding is about: where it was made, and by whom.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Default)]
pub struct Object {
    /// What it is.
    #[schemars(extend("enum" = [&role::WORDS[..], &["unknown"]].concat()))]
    #[serde(deserialize_with = "word::read")]
    pub role: Word,
    /// The process; null where the record does not have it.
    pub proc: Option<Proc>,
    /// Its pid, in its own pid namespace; 0 where unknown.
    pub pid: u32,
    /// Its rank.
    pub rank: Option<u32>,
    /// The thread.
    pub tid: Option<u32>,
    /// The device.
    pub device: Option<Uuid>,
    /// The address, event or context.
    #[serde(serialize_with = "hexadecimal_or_null", deserialize_with = "address_or_null")]
    #[schemars(with = "Option<Hexadecimal>")]
    pub address: Option<u64>,
    /// The size.
    pub bytes: Option<u64>,
    /// Whose memory it is; null where the record does not tell.
    pub allocator: Option<Allocator>,
    /// The handle.
    pub fingerprint: Option<Fingerprint>,
    /// When.
    pub time_ns: Option<u64>,
    /// The file name of the library that did it.
    pub library: Option<Rc<str>>,
    /// Where in that.
    #[serde(serialize_with = "hexadecimal_or_null", deserialize_with = "address_or_null")]
    #[schemars(with = "Option<Hexadecimal>")]
    pub offset: Option<u64>,
    /// The call stack, the caller first.
    pub stack: Vec<Place>,
}

impl Object {
    /// Who did it: the one on the stack whose library it names, or the first.
    pub fn place(&self) -> Option<&Place> {
        let named = |place: &&Place| {
            place.file_name() == self.library.as_deref() && Some(place.offset) == self.offset
        };
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
    of_address(&text).map(Some).ok_or_else(|| D::Error::custom("an address is not one"))
}
