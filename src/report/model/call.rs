//! Calls: sums by function, failures, and callers.

use super::{
    Codes, Proc,
    word::{self, Word},
};
use crate::base::moments::number;
use cupeer_symbols::SourceLine;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::rc::Rc;

/// Calls of one function.
#[derive(Serialize, JsonSchema)]
pub struct Function {
    /// Name of the function.
    pub function: Rc<str>,
    /// Number of calls of the function.
    pub calls: u64,
    /// Number of calls per result other than CUDA_SUCCESS.
    pub failures: Codes,
    /// Number of failed calls per result, without calls that had nothing left to release because the driver had shut
    /// down.
    #[serde(skip)]
    pub wrong: Codes,
    /// Number of calls whose result came from a fault plan instead of the driver.
    pub injected: u64,
    /// Number of calls that have not returned.
    pub pending: u64,
    /// Number of calls that an exception, a cancellation, or a jump left.
    pub unwound: u64,
    /// Total duration of the calls in nanoseconds, over all threads.
    pub total_ns: u64,
    /// Median duration in nanoseconds of the calls that returned, accurate to 1%.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the durations in nanoseconds, accurate to 1%.
    pub p99_ns: Option<u64>,
    /// Longest duration in nanoseconds.
    pub max_ns: Option<u64>,
    /// Distribution of the calls over the ranks; null if no process has a rank.
    pub ranks: Option<Ranks>,
}

impl Function {
    /// Returns the number of calls whose result was not CUDA_SUCCESS.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Returns the number of failed calls that left something undone.
    pub fn wrong_calls(&self) -> u64 {
        self.wrong.values().sum()
    }
}

/// Calls of one function with one result from one place.
#[derive(Serialize, JsonSchema)]
pub struct Caller {
    /// Name of the function.
    pub function: Rc<str>,
    /// Name of the result, or its number if it has no name; null for calls that have not returned, or were unwound.
    pub result: Option<String>,
    /// Number of calls.
    pub calls: u64,
    /// Number of processes that made the calls.
    pub processes: u64,
    /// Total duration of the calls in nanoseconds, over all threads.
    pub total_ns: u64,
    /// Median duration in nanoseconds of the calls that returned, accurate to 1%.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the durations in nanoseconds, accurate to 1%.
    pub p99_ns: Option<u64>,
    /// Longest duration in nanoseconds.
    pub max_ns: Option<u64>,
    /// Place that called the driver: a library and an offset, without the function. In a program that uses the CUDA
    /// runtime as a shared library, the place is in the runtime.
    pub caller: Place,
}

/// Distribution of calls over the ranks.
#[derive(Serialize, JsonSchema)]
pub struct Ranks {
    /// Number of calls of the rank that made the fewest.
    pub least: u64,
    /// Median of the numbers of calls of all ranks.
    pub median: u64,
    /// Number of calls of the rank that made the most.
    pub most: u64,
    /// Ranks whose number of calls differs from that of the others.
    pub deviating: Vec<Deviation>,
}

/// Rank whose number of calls differs from that of the others.
#[derive(Serialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deviation {
    /// Number of the rank.
    pub rank: u32,
    /// Number of calls of this rank.
    pub calls: u64,
    /// Number of calls of the other ranks: the number that most of them have, or the median.
    pub others: u64,
    /// True if all ranks that do not deviate have exactly this number.
    pub exact: bool,
}

/// Mark that a program set.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    /// Process that set the mark.
    pub proc: Proc,
    /// Thread id of the thread that set the mark.
    pub tid: u32,
    /// Time of the mark.
    pub time_ns: u64,
    /// Text that the program passed to `cupeer_mark`.
    pub text: String,
}

/// Call that failed.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// Time when the call began.
    pub time_ns: u64,
    /// Process that made the call.
    pub proc: Proc,
    /// Thread id of the thread that made the call.
    pub tid: u32,
    /// Number of the call in its stream.
    pub seq: u64,
    /// Name of the function.
    pub function: Rc<str>,
    /// Name of the result, or its number if it has no name.
    pub result: String,
    /// Arguments of the call by their names in cuda.h, as in the log: numbers as numbers; pointers, handles, and
    /// 64-bit values as hexadecimal strings; unknown values as null.
    pub args: serde_json::Map<String, serde_json::Value>,
    /// Duration of the call in nanoseconds.
    pub duration_ns: u64,
    /// Number of calls that this failure stands for: itself, and later calls of its thread that failed in the same way
    /// and have no event of their own.
    #[serde(default = "one")]
    pub calls: u64,
    /// True if the result came from a fault plan instead of the driver.
    pub injected: bool,
    /// Name of the fault that set the result; null if none did or the recording does not have it.
    pub injected_by: Option<String>,
    /// True if the driver refused something that a fault plan had changed: a handle that it damaged, an address that
    /// it made up, or an object that it closed although it told the program otherwise.
    pub follows_fault: bool,
    /// Explanation of the failure from the driver's own log.
    pub driver_message: Option<String>,
    /// Call of the CUDA runtime that made this call; null if the program does not use the runtime as a shared library.
    pub runtime: Option<RuntimeCall>,
    /// Place that made the call.
    pub caller: Place,
    /// Call stack: the caller, its caller, and so on.
    pub stack: Vec<Place>,
}

fn one() -> u64 {
    1
}

/// Call of the CUDA runtime that made driver calls.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug)]
pub struct RuntimeCall {
    /// Name of the runtime function.
    pub function: Rc<str>,
    /// Name of its result, or its number if it has no name; null if the call has not returned.
    pub result: Option<String>,
}

/// Failures with the same function, result, and caller.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct FailureGroup {
    /// Name of the function.
    pub function: Rc<str>,
    /// Name of the result, or its number if it has no name.
    pub result: String,
    /// Number of failures.
    pub count: u64,
    /// Number of failures with a call stack of their own. The others repeat one of these, in the same thread and with
    /// the same function, result, and return address.
    #[serde(default)]
    pub stacks: u64,
    /// True if the results came from a fault plan instead of the driver.
    pub injected: bool,
    /// Name of the fault that set the results; null if none did or the recording does not have it.
    pub injected_by: Option<Rc<str>>,
    /// True if the driver refused something that a fault plan had changed.
    pub follows_fault: bool,
    /// Time of the first failure.
    pub first_ns: u64,
    /// Time of the last failure.
    pub last_ns: u64,
    /// Processes that had the failures, at most 16.
    pub procs: Vec<Proc>,
    /// Number of processes that `procs` omits.
    pub procs_more: u64,
    /// Call of the CUDA runtime that made the first failed call; null if the program does not use the runtime as a
    /// shared library.
    pub runtime: Option<RuntimeCall>,
    /// Place that made the calls.
    pub caller: Place,
    /// True if programs that work have these failures too.
    pub usual: bool,
    /// Purpose of the calls if they are probes, whose failure is expected; null for other calls.
    #[serde(default, deserialize_with = "word::read")]
    pub expected: Option<Word>,
}

impl super::Report {
    /// Returns the number of failed calls of a function, with how many of them were expected: `3 (2 expected)`.
    pub fn format_failed(&self, function: &Function) -> String {
        let own = self.failure_groups.iter().filter(|group| group.function == function.function);
        let expected: u64 = own.filter(|group| group.is_expected()).map(|group| group.count).sum();
        match (number(function.failed()), number(expected)) {
            (failed, _) if expected == 0 => failed,
            (failed, expected) if failed == expected => format!("{failed} expected"),
            (failed, expected) => format!("{failed} ({expected} expected)"),
        }
    }
}

impl FailureGroup {
    /// Returns the sort key: informative failures first, then the most frequent.
    pub fn sort_key(&self) -> (bool, Reverse<u64>, u64) {
        (self.usual, Reverse(self.count), self.first_ns)
    }

    /// Returns true if programs fail this way when all is well, and no fault plan is the reason.
    pub fn is_expected(&self) -> bool {
        self.usual && !self.is_on_purpose()
    }

    /// Returns true if the calls failed because of a fault plan.
    pub fn is_on_purpose(&self) -> bool {
        self.injected || self.follows_fault
    }
}

/// Number of processes that a group lists: the first ones.
pub const MOST_PROCS: usize = 16;

fn has_none(lines: &Rc<[SourceLine]>) -> bool {
    lines.is_empty()
}

/// Place in a program.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Place {
    /// Path of the library.
    pub library: Option<Rc<str>>,
    /// Build id of the library in hexadecimal digits.
    #[schemars(extend("pattern" = "^[0-9a-f]+$"))]
    pub build_id: Option<Rc<str>>,
    /// Offset in the library, or the address if the library is unknown.
    #[serde(serialize_with = "hexadecimal", deserialize_with = "address")]
    #[schemars(with = "Hexadecimal")]
    pub offset: u64,
    /// Name of the function; null without symbols.
    pub function: Option<Rc<str>>,
    /// Lines of source; empty without debugging information. Functions that were inlined at the place come first, each
    /// called by the next.
    #[serde(default, skip_serializing_if = "has_none")]
    pub lines: Rc<[SourceLine]>,
    /// Line of Python that led to this place, if it made the call; or the line of Python that this place is, if it has
    /// no library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<Rc<SourceLine>>,
    /// Place that made the call for this one: a function that only passes calls on, or a library. Absent if this place made
    /// the call itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Rc<Place>>,
}

/// Number that JSON has in hexadecimal digits because it is an address or part of one.
#[derive(JsonSchema)]
#[schemars(inline, extend("pattern" = "^0x[0-9a-f]+$"))]
#[allow(dead_code)]
pub(super) struct Hexadecimal(String);

pub(super) fn hexadecimal<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{number:#x}"))
}

/// Reads an address from its hexadecimal digits.
pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    parse_address(&text).ok_or_else(|| D::Error::custom("an address is not one"))
}

pub(super) fn parse_address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
