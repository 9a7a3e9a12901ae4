//! Fault plans: which calls fail on purpose, when, and how.
//!
//! Defines plans after parsing, and the decisions that the library and the command must make in the same way.
//! `parse` reads the text of a plan. The command reads files, with comments, names, and includes, and passes
//! one text without these to the library.
//!
//! # The grammar
//!
//! ```text
//! plan   := rule { (";" | newline) rule }
//! rule   := SET { ":" clause }                 clause := key "=" value | flag
//! SET    := as in --trace: names, globs, @groups and ^negations, separated by commas
//! ```
//!
//! The keys are in the table of `parse/keys.rs`, each with its value, meaning and an example: [`keys`] has them, and
//! `docs/reference/plans.md` is made of them.

mod parse;

use crate::selector::FunctionSet;

pub use parse::{KeyKind, KeySpec, LONGEST_NAME, PlanError, is_comparable, is_name, keys, output_values};

/// Rules in the order in which they are checked.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// The rules.
    pub rules: Vec<Rule>,
}

impl Plan {
    /// Returns true if a fault depends on the previous call's result, or on the order in which processes make
    /// calls. If so, every call must be examined.
    pub fn follows(&self) -> bool {
        let conditions = self.rules.iter().flat_map(|rule| &rule.conditions);
        conditions.into_iter().any(|condition| matches!(condition.key, Key::Prev | Key::Process))
    }

    /// Returns true if a fault changes the bytes of a handle.
    pub fn damages_handles(&self) -> bool {
        let mut outs = self.rules.iter().flat_map(|rule| &rule.action.outs);
        outs.any(|out| {
            crate::function::FUNCTIONS
                .iter()
                .any(|function| function.argument(out.argument).is_some_and(|(_, arg)| arg.is_handle()))
        })
    }

    /// Returns true if a fault replaces one handle by another. If so, the handles of all calls must be
    /// stored.
    pub fn keeps_handles(&self) -> bool {
        self.rules.iter().flat_map(|rule| &rule.action.outs).any(|out| out.value == OutValue::Other)
    }
}

/// Rule of a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Name of the rule: `PLAN/NAME`, or `PLAN/N` for the N-th rule of its plan if it has no name.
    pub name: String,
    /// Text of the rule without white space around it.
    pub text: String,
    /// Functions that the rule applies to.
    pub functions: FunctionSet,
    /// Conditions, all of which a call must meet to match.
    pub conditions: Vec<Condition>,
    /// Selection of the matching calls at which the rule fires.
    pub when: When,
    /// Scope in which matching calls are counted.
    pub per: Per,
    /// True if one counter counts the calls of all functions of the rule.
    pub together: bool,
    /// Probability that the rule fires at a selected call; 1 by default.
    pub probability: f64,
    /// Seed of all pseudorandom choices.
    pub seed: u64,
    /// Largest number of times that the rule fires; `None` for no limit.
    pub times: Option<u64>,
    /// Action of the rule when it fires.
    pub action: Action,
}

impl Rule {
    /// Returns the [`dice`] value for the `count`-th call that the rule counts, in a process of this rank.
    pub fn thrown(&self, rank: u32, function: &str, count: u64, purpose: u64) -> u64 {
        let function = if self.together { "" } else { function };
        dice(self.seed, &self.name, rank, function, count, purpose)
    }
}

/// Condition on a circumstance or an argument: what is compared, and with which values.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    /// Value that the condition compares.
    pub key: Key,
    /// True if the condition is met by all values except these.
    pub not: bool,
    /// Values that are compared.
    pub values: Values,
}

/// Value that a condition compares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Key {
    /// Device that the call is about.
    Dev,
    /// Second device of a call about a pair of devices.
    Peer,
    /// Current context.
    Ctx,
    /// Size of the allocation in bytes.
    Size,
    /// Fingerprint of the handle.
    Handle,
    /// Rank of the process in the job.
    Rank,
    /// Rank of the process on its host.
    LocalRank,
    /// Pid of the process.
    Pid,
    /// Position of the process in the order in which the job's processes made their first call, except
    /// lookups; starts at 1.
    Process,
    /// File name of the process's program.
    Program,
    /// Calling thread: its thread id if the values are numbers; otherwise its name, or `main` for the first
    /// thread of a process.
    Thread,
    /// File name of the calling library.
    Caller,
    /// Hash of the call stack: [`stack_hash`].
    Stack,
    /// Result of the previous call in this thread.
    Prev,
    /// Argument, by its name in cuda.h.
    Argument(&'static str),
    /// Nanoseconds since the start of the process.
    Time,
    /// Mark that the program has set.
    Mark,
    /// True for the first call with each call stack. The condition has no values.
    NewSite,
    /// Share of the call stacks. The only range contains parts per million, from 0, with both ends included:
    /// 25% is 0 to 249,999.
    SomeSites,
}

/// Values that a condition compares with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Values {
    /// Ranges of numbers, both ends included. An argument of 4 bytes is compared as an unsigned number.
    Numbers(Vec<(u64, u64)>),
    /// Patterns with `*` for any bytes and `?` for one.
    Patterns(Vec<String>),
}

/// Selection of matching calls: the `first` one, then every `step`-th one up to the `last`. By default, all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct When {
    /// Number of the first selected call, from 1.
    pub first: u64,
    /// Largest number of a selected call.
    pub last: u64,
    /// Distance between the numbers of selected calls, from 1.
    pub step: u64,
}

impl When {
    /// Selection of every call.
    pub const ALWAYS: When = When { first: 1, last: u64::MAX, step: 1 };

    /// Returns true if the `n`-th matching call, counted from 1, is selected.
    pub fn has(&self, n: u64) -> bool {
        (self.first..=self.last).contains(&n) && (n - self.first).is_multiple_of(self.step)
    }
}

/// Scope of a counter of matching calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Per {
    /// Each process has its own counter.
    Process,
    /// Each thread has its own counter.
    Thread,
    /// Each current context of a process has its own counter.
    Ctx,
    /// All processes of one rank on a host share a counter.
    Rank,
    /// All processes of the job on a host share a counter.
    Job,
}

impl Per {
    /// All scopes with their words in plans.
    pub const ALL: &'static [(Per, &'static str)] = &[
        (Per::Process, "process"),
        (Per::Thread, "thread"),
        (Per::Ctx, "ctx"),
        (Per::Rank, "rank"),
        (Per::Job, "job"),
    ];
}

/// Action of a rule on a call at which it fires.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Action {
    /// Result that the call returns instead of the driver's.
    pub error: Option<Error>,
    /// Values that are written to outputs.
    pub outs: Vec<Out>,
    /// Wait before the call.
    pub delay: Option<Delay>,
    /// Wait after the call.
    pub delay_after: Option<Delay>,
    /// Label until whose release the call waits before it is made.
    pub hang: Option<String>,
    /// Number of the signal that is sent to the thread before the call.
    pub signal: Option<i32>,
    /// Exit status with which the process ends before the call.
    pub exit: Option<i32>,
    /// Treatment of the real call if the rule has an `error`.
    pub stage: Stage,
}

/// Result that a rule makes a call return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// This result.
    Code(i32),
    /// Pseudorandom one of the results that are documented for the function or were seen.
    Any,
}

/// Treatment of the real call: left out, made, or made and undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// The call is not made.
    #[default]
    Instead,
    /// The call is made, and if it succeeds, its result is replaced.
    After,
    /// The call is made, and undone if it succeeded: [`crate::function::FnSpec::undone_by`].
    Undo,
}

/// Value that is written to an output after the call succeeded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Out {
    /// Name of the argument in the table.
    pub argument: &'static str,
    /// Value that is written.
    pub value: OutValue,
}

/// Kind of value that is written to an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutValue {
    /// Number with the size of the output.
    Number(u64),
    /// Zeros. A plan can also say `null`.
    Zero,
    /// Handle whose byte with this index has all of its bits inverted.
    Flip(u8),
    /// Another handle of the same kind that this process created or received. If there is none, the output
    /// does not change.
    Other,
}

/// Wait with a fixed and a pseudorandom part, both in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delay {
    /// Duration without variation.
    pub time: u64,
    /// Largest pseudorandom variation of the duration in either direction.
    pub jitter: u64,
}

/// Returns the 64-bit FNV-1a hash of bytes.
pub const fn fnv(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    hash
}

/// Returns a pseudorandom number for the `count`-th call of a function that a rule matches, in a process of
/// this rank (`u32::MAX` for none). It is the same in every run. `purpose` tells several uses for one call
/// apart.
pub fn dice(seed: u64, rule: &str, rank: u32, function: &str, count: u64, purpose: u64) -> u64 {
    use crate::record::live::mix;
    let identity = fnv(rule.as_bytes()) ^ mix(fnv(function.as_bytes()) ^ u64::from(rank));
    mix(mix(seed ^ identity).wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ purpose)
}

/// Purposes of pseudorandom numbers from [`dice`].
pub mod purpose {
    /// Decides whether the rule fires.
    pub const FIRE: u64 = 1;
    /// Chooses one of the results that are documented or were seen.
    pub const ANY: u64 = 2;
    /// Varies the delay before the call.
    pub const JITTER: u64 = 3;
    /// Varies the delay after the call.
    pub const JITTER_AFTER: u64 = 4;
}

/// Returns true if an event of this probability happens when [`dice`] returned `thrown`.
pub fn happens(probability: f64, thrown: u64) -> bool {
    // A double has a precision of 53 bits.
    (thrown >> 11) as f64 / (1u64 << 53) as f64 <= probability && probability > 0.0
}

/// Returns the hash of a call stack, from the file names and offsets of its frames, the caller's first. It is
/// the same in two runs of one program, wherever libraries are loaded.
pub fn stack_hash<'a>(frames: impl Iterator<Item = (&'a [u8], u64)>) -> u64 {
    use crate::record::live::mix;
    frames.fold(1, |hash, (library, offset)| mix(hash ^ fnv(library).wrapping_add(offset)))
}
