//! The keys of fault plans: the one list of them, with what each means and how it is read.
//!
//! The list, the page, and the explanations are generated from one or two lines per key. The modules
//! `conditions`, `counts`, `actions`, and `name` parse the values.

use super::actions::{self, parse_delay};
use super::draft::FaultDraft;
use super::span::Span;
use super::values::{parse_number, parse_patterns, parse_ranges, parse_share};
use super::{PlanError, conditions, counts, name, signals};
use crate::fault::{ConditionKey, ConditionValues};

type Result<T> = core::result::Result<T, PlanError>;

named! {
    /// Subject of a key.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum KeyKind {
        /// Selection of calls.
        Calls = "which calls",
        /// Selection of the matching calls at which the fault fires.
        When = "when",
        /// Action of the fault at these calls.
        Happens = "effect",
    }
    /// Returns the words for the subject.
    pub fn words;
}

/// Parser for the value of a key.
pub(super) enum ValueParser {
    /// The value is required, and this function parses it.
    Value(for<'a> fn(&mut FaultDraft<'a>, Span<'a>) -> Result<()>),
    /// The value is required, and is compared in a condition.
    Compared(ConditionKey, fn(Span) -> Result<(bool, ConditionValues)>),
    /// The value is optional, and this function parses it.
    Optional(fn(&mut FaultDraft<'_>, Option<Span>) -> Result<()>),
    /// The key has no value.
    Flag(fn(&mut FaultDraft<'_>)),
    /// The key is the name of an argument, which determines the parser.
    Argument,
}

/// Key of a clause.
pub struct KeySpec {
    /// Text before the `=`.
    pub name: &'static str,
    /// Subject of the key.
    pub kind: KeyKind,
    /// Form of the value after the `=`; empty if the key has no value, and in brackets if the value is
    /// optional.
    pub value: &'static str,
    /// Sentence with the meaning.
    pub doc: &'static str,
    /// Example: a whole rule that contains the key.
    pub rule: &'static str,
    /// True if the key is an action by itself.
    pub acts: bool,
    /// Parser for the value.
    pub(super) reads: ValueParser,
}

impl KeySpec {
    /// Returns a valid clause with the key, from its example.
    pub fn example_clause(&self) -> &'static str {
        let mut clauses = self.rule.split(':').skip(1);
        let is_argument = matches!(self.reads, ValueParser::Argument);
        clauses.find(|clause| is_argument || clause.split('=').next() == Some(self.name)).unwrap_or(self.name)
    }

    /// Returns the form of a clause with the key: `dev=NUMBERS`, `hang[=LABEL]`, `force`.
    pub fn clause_form(&self) -> String {
        match self.value.strip_prefix('[') {
            Some(optional) => format!("{}[={optional}", self.name),
            None if self.value.is_empty() => self.name.into(),
            None => format!("{}={}", self.name, self.value),
        }
    }
}

macro_rules! keys {
    ($($kind:ident $acts:literal { $($name:literal $value:literal $reads:expr, $doc:literal, $rule:literal;)* })*) => {
        static ALL: &[KeySpec] = &[$($(KeySpec {
            name: $name,
            kind: KeyKind::$kind,
            value: $value,
            doc: $doc,
            rule: $rule,
            acts: $acts,
            reads: $reads,
        },)*)*];
    };
}
use ValueParser::{Compared, Flag, Optional, Value};

/// Sets a field to the value of a clause.
fn set_field<T>(place: &mut T, value: Result<T>) -> Result<()> {
    value.map(|value| *place = value)
}

// Each key has a form, a parser, a meaning, and an example. The kind above applies to all keys that follow
// it, and so does the flag of those that act by themselves.
keys! {
    Calls false {
        "dev" "NUMBERS" Compared(ConditionKey::Dev, conditions::parse_devices),
            "Device of the call, numbered as in the process: the first device among the arguments, the one in a structure argument (any of an array), or else that of the current context.",
            "cuIpcGetMemHandle:dev=0:error=OUT_OF_MEMORY";
        "peer" "NUMBERS" Value(conditions::add_peer),
            "Other device: the second device among the arguments, that of the peer context, or that of the memory to which access is granted; in a call that opens memory or an event, its device, if the exporter is in the same recording.",
            "cuCtxEnablePeerAccess:peer=1:error=PEER_ACCESS_UNSUPPORTED";
        "ctx" "NUMBERS" Compared(ConditionKey::Ctx, |value| parse_ranges(value, &|text| parse_number(text, 0, u64::MAX, "0x55d0c0de"))),
            "Current context.",
            "cuIpcOpenMemHandle*:ctx=0x55d0c0de:delay=5ms";
        "size" "SIZES" Value(conditions::add_size),
            "Size argument of a call for virtual memory; otherwise the size of the allocation that contains the address argument, or of the memory being opened, if its exporter is in the same recording.",
            "cuIpcGetMemHandle:size=1M..:error=MAP_FAILED";
        "handle" "FINGERPRINTS" Value(conditions::add_handle),
            "IPC handle argument, by its fingerprint in this job (fingerprints of another recording never match); for virtual memory, the number of the handle.",
            "cuIpcOpenMemHandle*:handle=3f2a5c6b7d8e9f01:error=INVALID_HANDLE";
        "rank" "NUMBERS" Compared(ConditionKey::Rank, conditions::parse_ranks),
            "Rank of the process, from the environment that its launcher set: RANK, SLURM_PROCID, and similar variables.",
            "@open:rank=0..3:delay=20ms";
        "local-rank" "NUMBERS" Compared(ConditionKey::LocalRank, conditions::parse_ranks),
            "Rank of the process on its host.",
            "cuIpcGetMemHandle:local-rank=0:error=any";
        "pid" "NUMBERS" Compared(ConditionKey::Pid, conditions::parse_pids),
            "Pid of the process.",
            "@ipc:pid=4711:delay=5ms";
        "process" "NUMBERS" Compared(ConditionKey::Process, |value| parse_ranges(value, &|text| parse_number(text, 1, u64::MAX, "2"))),
            "Position of the process, from 1, in the order in which the job's processes on this host made their first call; look-ups, queries, and cuInit (@lookup, @query, @init) do not count.",
            "cuIpcOpenMemHandle*:process=2:error=MAP_FAILED";
        "program" "GLOBS" Compared(ConditionKey::Program, conditions::parse_file_names),
            "File name of the program.",
            "@ipc:program=python*:delay=5ms";
        "thread" "NUMBERS|GLOBS" Value(conditions::add_thread),
            "Calling thread: its tid, its name, or main for the first thread of the process.",
            "cuIpcOpenMemHandle*:thread=main:error=MAP_FAILED";
        "caller" "GLOBS" Compared(ConditionKey::Caller, conditions::parse_file_names),
            "File name of the library or program that makes the call.",
            "cuCtxEnablePeerAccess:caller=libnccl*:error=TOO_MANY_PEERS";
        "stack" "FINGERPRINTS" Compared(ConditionKey::Stack, conditions::parse_fingerprints),
            "Call stack, by its fingerprint in a recording; it is the same in every run of a program.",
            "cuIpcOpenMemHandle*:stack=3f2a5c6b7d8e9f01:error=MAP_FAILED";
        "prev" "RESULTS" Value(conditions::add_previous_result),
            "Result that the program got from the thread's previous call; look-ups, queries, and cuInit (@lookup, @query, @init) do not count.",
            "cuIpcOpenMemHandle*:prev=MAP_FAILED:error=MAP_FAILED";
        "after" "TIME" Value(conditions::add_after),
            "The process started at least this long ago.",
            "cuIpcOpenMemHandle*:after=2s:error=MAP_FAILED";
        "until" "TIME" Value(conditions::add_until),
            "The process started at most this long ago.",
            "cuIpcOpenMemHandle*:until=1m:delay=50ms";
        "mark" "GLOBS" Compared(ConditionKey::Mark, parse_patterns),
            "The process has set a mark with a matching text (`cupeer_mark`); true from then on.",
            "cuIpcGetMemHandle:mark=epoch?2:error=OUT_OF_MEMORY";
        "site" "new|SHARE" Value(conditions::add_call_site),
            "new: the first call of each call stack in a process that meets all other conditions; SHARE: all calls of this share of the call stacks, chosen by the seed.",
            "cuIpcOpenMemHandle*:site=new:error=MAP_FAILED";
    }
    When false {
        "when" "F[..L][+[S]]" Value(counts::set_selection),
            "As in strace: F is the F-th matching call; F..L the F-th to the L-th; F+ all from the F-th on; F+S every S-th from the F-th on; counted in each process, and for each function by itself, unless per= says otherwise.",
            "cuIpcOpenMemHandle*:when=3..5:error=MAP_FAILED";
        "p" "SHARE" Value(|draft, value| set_field(&mut draft.rule.probability, parse_share(value))),
            "Each of these calls with this probability; the same calls in every run with the same seed.",
            "@ipc,^@release:p=10%:error=any";
        "seed" "N" Value(|draft, value| set_field(&mut draft.rule.seed, parse_number(value, 0, u64::MAX, "7"))),
            "Seed for the random choices of this fault, in place of the run's seed.",
            "@open:p=10%:seed=7:error=any";
        "times" "N" Value(|draft, value| set_field(&mut draft.rule.times, parse_number(value, 1, u64::MAX, "3").map(Some))),
            "At most N times.",
            "cuIpcOpenMemHandle*:times=3:error=MAP_FAILED";
        "per" "process|thread|ctx|rank|job[/rule]" Value(counts::set_counter_scope),
            "Scope of the count: each process (the default), thread, or current context of a process, or all processes of one rank or of the job on a host; each function separately, or with /rule all functions of the fault together.",
            "cuIpcOpen*:when=1:per=job/rule:error=MAP_FAILED";
    }
    Happens true {
        "error" "RESULT|any" Value(actions::set_error),
            "The call fails with this result; any: with one that is documented or was seen, chosen by the seed.",
            "cuIpcOpenMemHandle*:error=MAP_FAILED";
        "out" "ARGUMENT=VALUE,.." Value(actions::add_outputs),
            "Outputs get these values if the call succeeds: for a number, a number, zero, or null; for a handle, zero, flip/BYTE (all bits of this byte inverted), or other (another handle of its kind that the process created or received; if there is none, it stays); of shareable handles, only descriptors change.",
            "cuIpcOpenMemHandle*:out=pdptr=null";
        "delay" "TIME[~TIME]" Value(|draft, value| set_field(&mut draft.rule.action.delay, parse_delay(value).map(Some))),
            "Waits before the call; the time after ~ is how much longer or shorter the wait may be, chosen by the seed.",
            "@ipc:delay=5ms~1ms";
        "delay-after" "TIME[~TIME]" Value(|draft, value| set_field(&mut draft.rule.action.delay_after, parse_delay(value).map(Some))),
            "Waits after the call, whether it failed or not.",
            "cuIpcGetMemHandle:delay-after=5ms";
        "hang" "[LABEL]" Optional(actions::set_hang),
            "Waits before the call until `cupeer release DIR LABEL` or `cupeer_release`; the default LABEL is hang.",
            "cuIpcCloseMemHandle:hang=here";
        "signal" "SIGNAL" Value(|draft, value| set_field(&mut draft.rule.action.signal, signals::parse_signal(value).map(Some))),
            "Sends the thread this signal before the call; the call continues if the program survives it.",
            "cuIpcOpenMemHandle*:when=2:signal=SEGV";
        "exit" "N" Value(|draft, value| set_field(&mut draft.rule.action.exit, parse_number(value, 0, 255, "3").map(|n| Some(n as i32)))),
            "Ends the process with this status in place of the call, immediately, without running exit handlers.",
            "cuIpcOpenMemHandle*:rank=1:exit=3";
    }
    Happens false {
        "stage" "instead|after|undo" Value(actions::set_stage),
            "Effect of error= on the real call: with instead (the default), it is not made; with after, it is made and its success replaced; with undo, it is made and its effect undone.",
            "cuIpcOpenMemHandle*:stage=undo:error=MAP_FAILED";
        "force" "" Flag(|draft| draft.force = true),
            "Allows an error= that is neither documented for the function nor was seen from a real driver, and one for a release function (@release, @lifetime).",
            "cuMemFree_v2:force:error=INVALID_VALUE";
        "name" "NAME" Value(name::set_name),
            "Names the fault in the log, the recording, and the report, in place of its number.",
            "cuIpcOpenMemHandle*:name=first-open:when=1:error=MAP_FAILED";
    }
    Calls false {
        "ARGUMENT" "NUMBERS|NAMES|GLOBS" ValueParser::Argument,
            "Any argument, by its name in the header, in upper or lower case: a number, its name in the header with or without the common prefix, or globs for a text.",
            "cuDeviceGetP2PAttribute:attrib=ACCESS_SUPPORTED:out=value=0";
    }
}

/// The key that stands for the names of all arguments.
pub static ARGUMENT: &KeySpec = &ALL[ALL.len() - 1];

/// All keys except [`ARGUMENT`].
pub static KEYS: &[KeySpec] = ALL.split_at(ALL.len() - 1).0;

/// Returns all keys, sorted by kind.
pub fn keys() -> impl Iterator<Item = &'static KeySpec> {
    KeyKind::ALL.into_iter().flat_map(|kind| ALL.iter().filter(move |key| key.kind == kind))
}
