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

/// A rule.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// `PLAN/NAME` if it has a name; otherwise `PLAN/N`: the N-th rule of its plan.
    pub name: String,
    /// The text of the rule, trimmed.
    pub text: String,
    /// The functions.
    pub functions: FunctionSet,
    /// Conditions, all of which a call must meet to match.
    pub conditions: Vec<Condition>,
    /// Selection of the matching calls.
    pub when: When,
    /// Scope of the counter.
    pub per: Per,
    /// True if one counter counts all functions of the rule.
    pub together: bool,
    /// Probability of firing; 1 by default.
    pub probability: f64,
    /// The seed of all that is left to chance.
    pub seed: u64,
    /// The most times that it fires.
    pub times: Option<u64>,
    /// Action.
    pub action: Action,
}

impl Rule {
    /// Returns the [`dice`] value for the `count`-th call that the rule counts, in a process of this rank.
    pub fn thrown(&self, rank: u32, function: &str, count: u64, purpose: u64) -> u64 {
        let function = if self.together { "" } else { function };
        dice(self.seed, &self.name, rank, function, count, purpose)
    }
}

/// A circumstance or an argument, and its values.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    /// Value that the condition compares.
    pub key: Key,
    /// True if the value must be none of these.
    pub not: bool,
    /// The values.
    pub values: Values,
}

/// Value that a condition compares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Key {
    /// The device that the call is about.
    Dev,
    /// The other device.
    Peer,
    /// The current context.
    Ctx,
    /// The size of the allocation.
    Size,
    /// The fingerprint of the handle.
    Handle,
    /// The rank of the process.
    Rank,
    /// Rank on the host.
    LocalRank,
    /// Pid.
    Pid,
    /// Position of the process in the order in which the job's processes made their first call, except
    /// lookups; starts at 1.
    Process,
    /// The file name of its program.
    Program,
    /// The thread: its tid if the values are numbers; otherwise its name, or `main` for the first thread of a
    /// process.
    Thread,
    /// The file name of the calling library.
    Caller,
    /// The hash of the call stack: [`stack_hash`].
    Stack,
    /// Result of the previous call in this thread.
    Prev,
    /// An argument, by its name in the header, as the table spells it.
    Argument(&'static str),
    /// Nanoseconds since the process began.
    Time,
    /// A mark that was set.
    Mark,
    /// The first call of each call stack: no values.
    NewSite,
    /// A part of the call stacks: the one range is the share, in millionths, from 0. Both ends included, as always: 25% is
    /// 0 to 249,999.
    SomeSites,
}

/// The values of a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Values {
    /// Ranges of numbers, both ends included. An argument of 4 bytes counts without its sign.
    Numbers(Vec<(u64, u64)>),
    /// Patterns with `*` for any bytes and `?` for one.
    Patterns(Vec<String>),
}

/// Selection of matching calls: the `first`, then every `step`-th up to the `last`. By default, all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct When {
    /// From 1.
    pub first: u64,
    /// The last one that counts.
    pub last: u64,
    /// From 1.
    pub step: u64,
}

impl When {
    /// Every call.
    pub const ALWAYS: When = When { first: 1, last: u64::MAX, step: 1 };

    /// Returns true if it selects the `n`-th call, counted from 1.
    pub fn has(&self, n: u64) -> bool {
        (self.first..=self.last).contains(&n) && (n - self.first).is_multiple_of(self.step)
    }
}

/// Scope in which calls are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Per {
    /// Each process has its own counter.
    Process,
    /// Each thread.
    Thread,
    /// Each current context in a process.
    Ctx,
    /// All processes of one rank, on a host.
    Rank,
    /// All processes of the job, on a host.
    Job,
}

impl Per {
    /// All with their words.
    pub const ALL: &'static [(Per, &'static str)] = &[
        (Per::Process, "process"),
        (Per::Thread, "thread"),
        (Per::Ctx, "ctx"),
        (Per::Rank, "rank"),
        (Per::Job, "job"),
    ];
}

/// Action on a call at which the rule fires.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Action {
    /// The result.
    pub error: Option<Error>,
    /// Outputs.
    pub outs: Vec<Out>,
    /// A wait before the call.
    pub delay: Option<Delay>,
    /// A wait after it.
    pub delay_after: Option<Delay>,
    /// A wait before the call until this label is released.
    pub hang: Option<String>,
    /// A signal to the thread, before the call.
    pub signal: Option<i32>,
    /// The end of the process, before the call.
    pub exit: Option<i32>,
    /// Time of an injected `error`, before or after the real call.
    pub stage: Stage,
}

/// A result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// This one.
    Code(i32),
    /// A result that is documented for the function or was seen, chosen by the seed.
    Any,
}

/// Treatment of the real call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// The call is not made.
    #[default]
    Instead,
    /// The call is made, and its success is replaced.
    After,
    /// The call is made, and undone if it succeeded: [`crate::function::FnSpec::undone_by`].
    Undo,
}

/// Another output after success.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Out {
    /// The argument, as the table spells it.
    pub argument: &'static str,
    /// Value to write.
    pub value: OutValue,
}

/// Value that is written to an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutValue {
    /// A number, of the output's size.
    Number(u64),
    /// Zeros. In a plan, also `null`.
    Zero,
    /// This byte of a handle, with all its bits turned.
    Flip(u8),
    /// Another handle of the same kind that this process created or received. If there is none, the output
    /// does not change.
    Other,
}

/// A wait, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delay {
    /// Duration.
    pub time: u64,
    /// The most by which the delay varies in either direction, by the seed.
    pub jitter: u64,
}

/// FNV-1a, 64 bits.
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

/// Purposes of a [`dice`] throw.
pub mod purpose {
    /// Decides if the rule fires.
    pub const FIRE: u64 = 1;
    /// Chooses one of the results that are documented or were seen.
    pub const ANY: u64 = 2;
    /// Varies a delay.
    pub const JITTER: u64 = 3;
    /// Varies the delay after the call.
    pub const JITTER_AFTER: u64 = 4;
}

/// Returns true if an event of this probability happens for a number that [`dice`] returned.
pub fn happens(probability: f64, thrown: u64) -> bool {
    // A double has a precision of 53 bits.
    (thrown >> 11) as f64 / (1u64 << 53) as f64 <= probability && probability > 0.0
}

/// The name of a call stack: of the file names and offsets of its frames, the caller's first. Two runs of one program
/// give a call the same one, wherever libraries are loaded.
pub fn stack_hash<'a>(frames: impl Iterator<Item = (&'a [u8], u64)>) -> u64 {
    use crate::record::live::mix;
    frames.fold(1, |hash, (library, offset)| mix(hash ^ fnv(library).wrapping_add(offset)))
}
