//! Calls: sums by function, failures, and callers.

use super::{
    Codes, Proc,
    word::{self, Word},
};
use crate::symbols::SourceLine;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::rc::Rc;

/// A function.
#[derive(Serialize, JsonSchema)]
pub struct Function {
    /// Its name.
    pub function: Rc<str>,
    /// How often it was called.
    pub calls: u64,
    /// How often it ended in a result other than CUDA_SUCCESS.
    pub failures: Codes,
    /// The same without calls that had nothing left to end, because the driver had shut down.
    #[serde(skip)]
    pub wrong: Codes,
    /// How many results came from a fault plan instead of the driver.
    pub injected: u64,
    /// Calls that have not returned.
    pub pending: u64,
    /// Calls that an exception or a cancellation unwound.
    pub unwound: u64,
    /// The time in it, over all threads.
    pub total_ns: u64,
    /// The median of its calls that returned, accurate to 1%.
    pub p50_ns: Option<u64>,
    /// The 99th percentile, accurate to 1%.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// How its calls are spread over the ranks; null where no process has a rank.
    pub ranks: Option<Ranks>,
}

impl Function {
    /// How many calls ended in a result other than CUDA_SUCCESS.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// How many of them failed to do what there was to do.
    pub fn wrong(&self) -> u64 {
        self.wrong.values().sum()
    }
}

/// Calls of a function with one result from one place.
#[derive(Serialize, JsonSchema)]
pub struct Caller {
    /// The function.
    pub function: Rc<str>,
    /// The name of the result, or its number; null of calls that have not returned, or were unwound.
    pub result: Option<String>,
    /// How many.
    pub calls: u64,
    /// In how many processes.
    pub processes: u64,
    /// The time in them, over all threads.
    pub total_ns: u64,
    /// The median of those that returned, accurate to 1%.
    pub p50_ns: Option<u64>,
    /// The 99th percentile, accurate to 1%.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// Where the driver was called from; of a program that uses the runtime as a shared library, that lies in the runtime. The
    /// library and the offset in it; functions are not named.
    pub caller: Place,
}

/// Calls over the ranks.
#[derive(Serialize, JsonSchema)]
pub struct Ranks {
    /// The fewest calls of a rank.
    pub least: u64,
    /// The median.
    pub median: u64,
    /// The most calls of a rank.
    pub most: u64,
    /// The ranks whose number of calls differs.
    pub deviating: Vec<Deviation>,
}

/// A rank that deviates.
#[derive(Serialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deviation {
    /// The rank.
    pub rank: u32,
    /// Its calls.
    pub calls: u64,
    /// The calls of the others: what most of them have, or the median.
    pub others: u64,
    /// Whether all ranks that do not deviate have exactly this many.
    pub exact: bool,
}

/// What a program has marked.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    /// The process.
    pub proc: Proc,
    /// The thread.
    pub tid: u32,
    /// When.
    pub time_ns: u64,
    /// The text that it gave to `cupeer_mark`.
    pub text: String,
}

/// A call that failed.
#[derive(Serialize, Deserialize, JsonSchema)]
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
    /// The arguments by their names in cuda.h, as in the log: numbers as numbers; pointers, handles and 64-bit values
    /// as hexadecimal strings; what is not known is null.
    pub args: serde_json::Map<String, serde_json::Value>,
    /// How long it took.
    pub duration_ns: u64,
    /// How many calls it stands for: itself, and those of its thread that failed in the same way after it and have no event of
    /// their own.
    #[serde(default = "one")]
    pub calls: u64,
    /// Whether the result came from a fault plan instead of the driver.
    pub injected: bool,
    /// The name of the fault plan's rule that made it; null also where the record does not say.
    pub injected_by: Option<String>,
    /// Whether the driver refused what a fault plan had changed: a handle that it damaged, an address that it made up, or
    /// something that it closed although the program was told otherwise.
    pub follows_fault: bool,
    /// What the driver said.
    pub driver_message: Option<String>,
    /// The call of the runtime that made this one, where the program uses the runtime as a shared library; else null.
    pub runtime: Option<RuntimeCall>,
    /// Who made it.
    pub caller: Place,
    /// The caller, who called that, and so on.
    pub stack: Vec<Place>,
}

fn one() -> u64 {
    1
}

/// A call of the runtime in which others were made.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug)]
pub struct RuntimeCall {
    /// Its function.
    pub function: Rc<str>,
    /// The name of its result, or its number; null where it has not returned.
    pub result: Option<String>,
}

/// Failures with the same function, result and caller.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct FailureGroup {
    /// The function.
    pub function: Rc<str>,
    /// The name of the result, or its number.
    pub result: String,
    /// How many.
    pub count: u64,
    /// How many of them have a call stack of their own. The others were like one of these, of the same thread and with the
    /// same function, result, and return address.
    #[serde(default)]
    pub stacks: u64,
    /// Whether the results came from a fault plan instead of the driver.
    pub injected: bool,
    /// The name of the fault plan's rule that made them; null also where the record does not say.
    pub injected_by: Option<Rc<str>>,
    /// Whether the driver refused what a fault plan had changed.
    pub follows_fault: bool,
    /// When the first was.
    pub first_ns: u64,
    /// When the last was.
    pub last_ns: u64,
    /// In which processes, at most 16.
    pub procs: Vec<Proc>,
    /// In how many more.
    pub procs_more: u64,
    /// The call of the runtime that made the first, where the program uses the runtime as a shared library; else null.
    pub runtime: Option<RuntimeCall>,
    /// Who made them.
    pub caller: Place,
    /// Whether programs do this when all is well.
    pub usual: bool,
    /// What the calls ask, where they are probes, whose failure is expected; null of others.
    #[serde(default, deserialize_with = "word::read")]
    pub expected: Option<Word>,
}

impl FailureGroup {
    /// Its place among others: those that tell of something first, then the most frequent.
    pub fn order(&self) -> (bool, Reverse<u64>, u64) {
        (self.usual, Reverse(self.count), self.first_ns)
    }

    /// Whether they failed because a fault plan said so.
    pub fn is_on_purpose(&self) -> bool {
        self.injected || self.follows_fault
    }
}

/// The most processes that a group names.
pub const MOST_PROCS: usize = 16;

fn has_none(lines: &Rc<[SourceLine]>) -> bool {
    lines.is_empty()
}

/// A place in a program.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Place {
    /// The path of the library.
    pub library: Option<Rc<str>>,
    /// Its build id in hexadecimal digits.
    #[schemars(extend("pattern" = "^[0-9a-f]+$"))]
    pub build_id: Option<Rc<str>>,
    /// Where in it, or the address where the library is unknown.
    #[serde(serialize_with = "hexadecimal", deserialize_with = "address")]
    #[schemars(with = "Hexadecimal")]
    pub offset: u64,
    /// The function, where symbols are at hand.
    pub function: Option<Rc<str>>,
    /// The lines of source, where debugging information is at hand: those of functions that were inlined there first, each
    /// called by the next.
    #[serde(default, skip_serializing_if = "has_none")]
    pub lines: Rc<[SourceLine]>,
    /// The line of Python that has led here, of who made the call; or, where there is no library, that this place is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<Rc<SourceLine>>,
}

/// A number as JSON has it where it is an address or part of one.
#[derive(JsonSchema)]
#[schemars(inline, extend("pattern" = "^0x[0-9a-f]+$"))]
#[allow(dead_code)]
pub(super) struct Hexadecimal(String);

pub(super) fn hexadecimal<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{number:#x}"))
}

/// Reads such a number.
pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    of_address(&text).ok_or_else(|| D::Error::custom("an address is not one"))
}

pub(super) fn of_address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
