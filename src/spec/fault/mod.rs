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

pub use parse::{
    KeyKind, KeySpec, LONGEST_NAME, PlanError, describe_output_values, is_comparable, is_fault_name, keys,
};

/// Faults in the order in which they are checked.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FaultPlan {
    /// Faults of the plan.
    pub rules: Vec<PlannedFault>,
}

impl FaultPlan {
    /// Returns true if a fault depends on the previous call's result, or on the order in which processes make
    /// calls. If so, every call must be examined.
    pub fn needs_every_call(&self) -> bool {
        let conditions = self.rules.iter().flat_map(|rule| &rule.conditions);
        conditions.into_iter().any(|condition| matches!(condition.key, ConditionKey::Prev | ConditionKey::Process))
    }

    /// Returns true if a fault of the plan changes the bytes of a handle.
    pub fn damages_handles(&self) -> bool {
        let mut outs = self.rules.iter().flat_map(|rule| &rule.action.outs);
        outs.any(|out| {
            crate::function::FUNCTIONS
                .iter()
                .any(|function| function.find_argument(out.argument).is_some_and(|(_, arg)| arg.is_ipc_handle()))
        })
    }

    /// Returns true if a fault replaces one handle by another. If so, the handles of all calls must be
    /// stored.
    pub fn needs_stored_handles(&self) -> bool {
        self.rules.iter().flat_map(|rule| &rule.action.outs).any(|out| out.value == OutputValue::Other)
    }
}

/// Fault of a plan: the calls at which it fires, and its action.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedFault {
    /// Name of the fault: `PLAN/NAME`, or `PLAN/N` for the N-th fault of its plan if it has no name.
    pub name: String,
    /// Text of the fault without white space around it.
    pub text: String,
    /// Functions to whose calls the fault applies.
    pub functions: FunctionSet,
    /// Conditions, all of which a call must meet to match.
    pub conditions: Vec<FaultCondition>,
    /// Selection of the matching calls at which the fault fires.
    pub when: CallSelection,
    /// Scope in which matching calls are counted.
    pub per: CounterScope,
    /// True if one counter counts the calls of all functions of the fault; otherwise, each function has its own.
    pub together: bool,
    /// Probability that the fault fires at a selected call; 1 by default.
    pub probability: f64,
    /// Seed of all pseudorandom choices of the fault.
    pub seed: u64,
    /// Largest number of times that the fault fires; `None` for no limit.
    pub times: Option<u64>,
    /// Action of the fault when it fires.
    pub action: FaultAction,
}

impl PlannedFault {
    /// Returns the [`pseudorandom_number`] for the `count`-th call that the fault counts, in a process of this rank.
    pub fn pseudorandom_for(&self, rank: u32, function: &str, count: u64, purpose: u64) -> u64 {
        let function = if self.together { "" } else { function };
        pseudorandom_number(self.seed, &self.name, rank, function, count, purpose)
    }
}

/// Condition on a circumstance or an argument: what is compared, and with which values.
#[derive(Clone, PartialEq, Debug)]
pub struct FaultCondition {
    /// Value that the condition compares.
    pub key: ConditionKey,
    /// True if the condition is negated, and so met by all values except `values`.
    pub not: bool,
    /// Values with which the condition compares.
    pub values: ConditionValues,
}

/// Value that a condition compares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConditionKey {
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
pub enum ConditionValues {
    /// Ranges of numbers, both ends included. An argument of 4 bytes is compared as an unsigned number.
    Numbers(Vec<(u64, u64)>),
    /// Patterns with `*` for any bytes and `?` for one.
    Patterns(Vec<String>),
}

/// Selection of matching calls: the `first` one, then every `step`-th one up to the `last`. By default, all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallSelection {
    /// Number of the first selected call, from 1.
    pub first: u64,
    /// Number of the last call that can be selected.
    pub last: u64,
    /// Distance between the numbers of selected calls, from 1.
    pub step: u64,
}

impl CallSelection {
    /// Selection of every call.
    pub const ALWAYS: CallSelection = CallSelection { first: 1, last: u64::MAX, step: 1 };

    /// Returns true if the `n`-th matching call, counted from 1, is selected.
    pub fn is_selected(&self, n: u64) -> bool {
        (self.first..=self.last).contains(&n) && (n - self.first).is_multiple_of(self.step)
    }
}

/// Scope of a counter of matching calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterScope {
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

impl CounterScope {
    /// All scopes with their words in plans.
    pub const ALL: &'static [(CounterScope, &'static str)] = &[
        (CounterScope::Process, "process"),
        (CounterScope::Thread, "thread"),
        (CounterScope::Ctx, "ctx"),
        (CounterScope::Rank, "rank"),
        (CounterScope::Job, "job"),
    ];
}

/// Action of a fault on a call at which it fires.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FaultAction {
    /// Result that the call returns instead of the driver's.
    pub error: Option<FaultResult>,
    /// Values that are written to outputs.
    pub outs: Vec<OutputChange>,
    /// Wait before the call.
    pub delay: Option<FaultDelay>,
    /// Wait after the call.
    pub delay_after: Option<FaultDelay>,
    /// Label until whose release the call waits before it is made.
    pub hang: Option<String>,
    /// Number of the signal that is sent to the thread before the call.
    pub signal: Option<i32>,
    /// Exit status with which the process ends before the call.
    pub exit: Option<i32>,
    /// Treatment of the real call if the fault has an `error`.
    pub stage: RealCallTreatment,
}

/// Result that a fault makes a call return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultResult {
    /// The result with this number.
    Code(i32),
    /// A pseudorandom choice among the results that are documented for the function or were seen.
    Any,
}

/// Treatment of the real call: left out, made, or made and undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RealCallTreatment {
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
pub struct OutputChange {
    /// Name of the argument in the table.
    pub argument: &'static str,
    /// Value that is written.
    pub value: OutputValue,
}

/// Kind of value that is written to an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputValue {
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
pub struct FaultDelay {
    /// Duration without variation.
    pub time: u64,
    /// Largest pseudorandom variation of the duration in either direction.
    pub jitter: u64,
}

/// Returns the 64-bit FNV-1a hash of bytes.
pub const fn fnv_hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    hash
}

/// Returns a pseudorandom number for the `count`-th call of a function that a fault matches, in a process of this
/// rank (`u32::MAX` for none). The number is the same in every run. `purpose` distinguishes several uses of numbers
/// for one call.
pub fn pseudorandom_number(seed: u64, rule: &str, rank: u32, function: &str, count: u64, purpose: u64) -> u64 {
    use crate::record::live::mix_bits;
    let identity = fnv_hash(rule.as_bytes()) ^ mix_bits(fnv_hash(function.as_bytes()) ^ u64::from(rank));
    mix_bits(mix_bits(seed ^ identity).wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ purpose)
}

/// Purposes of the numbers from [`pseudorandom_number`].
pub mod purpose {
    /// Decides whether the fault fires.
    pub const FIRE: u64 = 1;
    /// Chooses one of the results that are documented or were seen.
    pub const ANY: u64 = 2;
    /// Varies the delay before the call.
    pub const JITTER: u64 = 3;
    /// Varies the delay after the call.
    pub const JITTER_AFTER: u64 = 4;
}

/// Returns true if an event of this probability happens when [`pseudorandom_number`] returned `thrown`.
pub fn happens(probability: f64, thrown: u64) -> bool {
    // A double has a precision of 53 bits.
    (thrown >> 11) as f64 / (1u64 << 53) as f64 <= probability && probability > 0.0
}

/// Returns the hash of a call stack, from the file names and offsets of its frames, the caller's first. It is
/// the same in two runs of one program, wherever libraries are loaded.
pub fn stack_hash<'a>(frames: impl Iterator<Item = (&'a [u8], u64)>) -> u64 {
    use crate::record::live::mix_bits;
    frames.fold(1, |hash, (library, offset)| mix_bits(hash ^ fnv_hash(library).wrapping_add(offset)))
}
