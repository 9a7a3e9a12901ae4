//! Fault plans: which calls fail on purpose, when, and how.
//!
//! What belongs here: what a plan is once it is read, and what both the library and the command need to know to agree on
//! it. Reading the text is `parse`; files with their comments, names and includes are the command's, which hands the
//! library one text without them.
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

/// Rules in the order in which they are looked at.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// The rules.
    pub rules: Vec<Rule>,
}

impl Plan {
    /// Whether a rule looks at what the call before returned, or at the order in which processes make calls: every call
    /// must be examined then.
    pub fn follows(&self) -> bool {
        let conditions = self.rules.iter().flat_map(|rule| &rule.conditions);
        conditions.into_iter().any(|condition| matches!(condition.key, Key::Prev | Key::Process))
    }

    /// Whether a rule puts something else into a handle.
    pub fn damages_handles(&self) -> bool {
        let mut outs = self.rules.iter().flat_map(|rule| &rule.action.outs);
        outs.any(|out| {
            crate::function::FUNCTIONS
                .iter()
                .any(|function| function.argument(out.argument).is_some_and(|(_, arg)| arg.is_handle()))
        })
    }

    /// Whether a rule puts one handle in the place of another: the handles of all calls must be remembered then.
    pub fn keeps_handles(&self) -> bool {
        self.rules.iter().flat_map(|rule| &rule.action.outs).any(|out| out.value == OutValue::Other)
    }
}

/// One rule.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// `PLAN/NAME` where it has a name, else `PLAN/N`: the N-th rule of its plan.
    pub name: String,
    /// The rule as it was written, trimmed.
    pub text: String,
    /// The functions.
    pub functions: FunctionSet,
    /// What else must hold for a call to match: all of these.
    pub conditions: Vec<Condition>,
    /// Which of the calls that match.
    pub when: When,
    /// What counts them.
    pub per: Per,
    /// Whether the functions of the rule are counted together.
    pub together: bool,
    /// With which probability; 1 where nothing is said.
    pub probability: f64,
    /// The seed of all that is left to chance.
    pub seed: u64,
    /// The most times that it fires.
    pub times: Option<u64>,
    /// What happens.
    pub action: Action,
}

impl Rule {
    /// What [`dice`] gives for the `count`-th call that the rule counts, in a process of this rank.
    pub fn thrown(&self, rank: u32, function: &str, count: u64, purpose: u64) -> u64 {
        let function = if self.together { "" } else { function };
        dice(self.seed, &self.name, rank, function, count, purpose)
    }
}

/// A circumstance or an argument, and its values.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    /// What is looked at.
    pub key: Key,
    /// Whether it must be none of the values.
    pub not: bool,
    /// The values.
    pub values: Values,
}

/// What a condition looks at.
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
    /// Its rank on its host.
    LocalRank,
    /// Its pid.
    Pid,
    /// The order in which processes of the job made their first call, look-ups aside, from 1.
    Process,
    /// The file name of its program.
    Program,
    /// The thread: its tid where the values are numbers, else its name, or `main` for the first of its process.
    Thread,
    /// The file name of the calling library.
    Caller,
    /// The hash of the call stack: [`stack_hash`].
    Stack,
    /// What the call before it returned in this thread.
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
    /// Patterns, in which `*` stands for any bytes and `?` for one.
    Patterns(Vec<String>),
}

/// Which of the calls that match: the `first`, then every `step`-th up to the `last`. All where nothing is said.
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

    /// Whether the `n`-th call, from 1, is one.
    pub fn has(&self, n: u64) -> bool {
        (self.first..=self.last).contains(&n) && (n - self.first).is_multiple_of(self.step)
    }
}

/// What counts calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Per {
    /// Each process by itself.
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

/// What a rule does to a call at which it fires.
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
    /// What becomes of the real call where there is an `error`.
    pub stage: Stage,
}

/// A result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// This one.
    Code(i32),
    /// One of those that are documented for the function or were seen, by the seed.
    Any,
}

/// What becomes of the real call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// It is not made.
    #[default]
    Instead,
    /// It is made, and its success is replaced.
    After,
    /// It is made, and where it succeeded undone: [`crate::function::FnSpec::undone_by`].
    Undo,
}

/// Another output after success.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Out {
    /// The argument, as the table spells it.
    pub argument: &'static str,
    /// What is put there.
    pub value: OutValue,
}

/// What is put into an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutValue {
    /// A number, of the output's size.
    Number(u64),
    /// Zeros; also `null`.
    Zero,
    /// This byte of a handle, with all its bits turned.
    Flip(u8),
    /// Another handle of the same kind that this process made or was given; where there is none, the output stays.
    Other,
}

/// A wait, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delay {
    /// How long.
    pub time: u64,
    /// At most so much more or less, by the seed.
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

/// A number that chance would give for the `count`-th call of a function that a rule matches, in a process of this rank
/// (`u32::MAX` for none), the same in every run. `purpose` keeps several uses of one call apart.
pub fn dice(seed: u64, rule: &str, rank: u32, function: &str, count: u64, purpose: u64) -> u64 {
    use crate::record::live::mix;
    let identity = fnv(rule.as_bytes()) ^ mix(fnv(function.as_bytes()) ^ u64::from(rank));
    mix(mix(seed ^ identity).wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ purpose)
}

/// What [`dice`] is thrown for.
pub mod purpose {
    /// Whether the rule fires.
    pub const FIRE: u64 = 1;
    /// Which of the results that are documented or were seen.
    pub const ANY: u64 = 2;
    /// How much more or less than a delay.
    pub const JITTER: u64 = 3;
    /// The same of the wait after the call.
    pub const JITTER_AFTER: u64 = 4;
}

/// Whether an event of this probability happens, by a number that [`dice`] gave.
pub fn happens(probability: f64, thrown: u64) -> bool {
    // 53 bits are what a double tells apart.
    (thrown >> 11) as f64 / (1u64 << 53) as f64 <= probability && probability > 0.0
}

/// The name of a call stack: of the file names and offsets of its frames, the caller's first. Two runs of one program
/// give a call the same one, wherever libraries are loaded.
pub fn stack_hash<'a>(frames: impl Iterator<Item = (&'a [u8], u64)>) -> u64 {
    use crate::record::live::mix;
    frames.fold(1, |hash, (library, offset)| mix(hash ^ fnv(library).wrapping_add(offset)))
}
