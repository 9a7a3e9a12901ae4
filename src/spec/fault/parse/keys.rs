//! The keys of fault plans: the one list of them, with what each means and how it is read.
//!
//! The list, the page, and the explanations are generated from one or two lines per key. The modules
//! `conditions`, `counts`, `actions`, and `name` parse the values.

use super::actions::{self, wait};
use super::draft::Draft;
use super::span::Span;
use super::values::{number, patterns, ranges, share};
use super::{PlanError, conditions, counts, name, signals};
use crate::fault::{Key, Values};

type Result<T> = core::result::Result<T, PlanError>;

named! {
    /// Subject of a key.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum KeyKind {
        /// Selection of calls.
        Calls = "which calls",
        /// At which of the calls that match the rule fires.
        When = "when",
        /// Action.
        Happens = "effect",
    }
    /// Returns the words for the subject.
    pub fn words;
}

/// Parser for the value of a key.
pub(super) enum Reads {
    /// The value is required, and this function parses it.
    Value(for<'a> fn(&mut Draft<'a>, Span<'a>) -> Result<()>),
    /// The value is required, and is compared in a condition.
    Compared(Key, fn(Span) -> Result<(bool, Values)>),
    /// The value is optional, and this function parses it.
    Optional(fn(&mut Draft<'_>, Option<Span>) -> Result<()>),
    /// The key has no value.
    Flag(fn(&mut Draft<'_>)),
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
    pub(super) reads: Reads,
}

impl KeySpec {
    /// Returns a valid clause with the key, from its example.
    pub fn example(&self) -> &'static str {
        let mut clauses = self.rule.split(':').skip(1);
        let is_argument = matches!(self.reads, Reads::Argument);
        clauses.find(|clause| is_argument || clause.split('=').next() == Some(self.name)).unwrap_or(self.name)
    }

    /// Returns the form of a clause with the key: `dev=NUMBERS`, `hang[=LABEL]`, `force`.
    pub fn form(&self) -> String {
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
use Reads::{Compared, Flag, Optional, Value};

/// Sets a field to the value of a clause.
fn set<T>(place: &mut T, value: Result<T>) -> Result<()> {
    value.map(|value| *place = value)
}

// Each key has a form, a parser, a meaning, and an example. The kind above applies to all keys that follow
// it, and so does the flag of those that act by themselves.
keys! {
    Calls false {
        "dev" "NUMBERS" Compared(Key::Dev, conditions::devices),
            "Device of the call, numbered as in the process: the first device among the arguments, the one in a structure argument (any of an array), or else that of the current context.",
            "cuIpcGetMemHandle:dev=0:error=OUT_OF_MEMORY";
        "peer" "NUMBERS" Value(conditions::peer),
            "Other device: the second device among the arguments, that of the peer context, or that of the memory to which access is granted; in a call that opens memory or an event, its device, if the exporter is in the same recording.",
            "cuCtxEnablePeerAccess:peer=1:error=PEER_ACCESS_UNSUPPORTED";
        "ctx" "NUMBERS" Compared(Key::Ctx, |value| ranges(value, &|text| number(text, 0, u64::MAX, "0x55d0c0de"))),
            "Current context.",
            "cuIpcOpenMemHandle*:ctx=0x55d0c0de:delay=5ms";
        "size" "SIZES" Value(conditions::size),
            "Size argument of a call for virtual memory; otherwise the size of the allocation that contains the address argument, or of the memory being opened, if its exporter is in the same recording.",
            "cuIpcGetMemHandle:size=1M..:error=MAP_FAILED";
        "handle" "FINGERPRINTS" Value(conditions::handle),
            "IPC handle argument, by its fingerprint in this job (fingerprints of another recording never match); for virtual memory, the number of the handle.",
            "cuIpcOpenMemHandle*:handle=3f2a5c6b7d8e9f01:error=INVALID_HANDLE";
        "rank" "NUMBERS" Compared(Key::Rank, conditions::ranks),
            "Rank of the process, from the environment that its launcher set: RANK, SLURM_PROCID, and similar variables.",
            "@open:rank=0..3:delay=20ms";
        "local-rank" "NUMBERS" Compared(Key::LocalRank, conditions::ranks),
            "Rank of the process on its host.",
            "cuIpcGetMemHandle:local-rank=0:error=any";
        "pid" "NUMBERS" Compared(Key::Pid, conditions::pids),
            "Pid of the process.",
            "@ipc:pid=4711:delay=5ms";
        "process" "NUMBERS" Compared(Key::Process, |value| ranges(value, &|text| number(text, 1, u64::MAX, "2"))),
            "Position of the process, from 1, in the order in which the job's processes on this host made their first call; look-ups, queries, and cuInit (@lookup, @query, @init) do not count.",
            "cuIpcOpenMemHandle*:process=2:error=MAP_FAILED";
        "program" "GLOBS" Compared(Key::Program, conditions::file_names),
            "File name of the program.",
            "@ipc:program=python*:delay=5ms";
        "thread" "NUMBERS|GLOBS" Value(conditions::thread),
            "Calling thread: its tid, its name, or main for the first thread of the process.",
            "cuIpcOpenMemHandle*:thread=main:error=MAP_FAILED";
        "caller" "GLOBS" Compared(Key::Caller, conditions::file_names),
            "File name of the library or program that makes the call.",
            "cuCtxEnablePeerAccess:caller=libnccl*:error=TOO_MANY_PEERS";
        "stack" "FINGERPRINTS" Compared(Key::Stack, conditions::fingerprints),
            "Call stack, by its fingerprint in a recording; it is the same in every run of a program.",
            "cuIpcOpenMemHandle*:stack=3f2a5c6b7d8e9f01:error=MAP_FAILED";
        "prev" "RESULTS" Value(conditions::prev),
            "Result that the program got from the thread's previous call; look-ups, queries, and cuInit (@lookup, @query, @init) do not count.",
            "cuIpcOpenMemHandle*:prev=MAP_FAILED:error=MAP_FAILED";
        "after" "TIME" Value(conditions::after),
            "The process started at least this long ago.",
            "cuIpcOpenMemHandle*:after=2s:error=MAP_FAILED";
        "until" "TIME" Value(conditions::until),
            "The process started at most this long ago.",
            "cuIpcOpenMemHandle*:until=1m:delay=50ms";
        "mark" "GLOBS" Compared(Key::Mark, patterns),
            "The process has set a mark with a matching text (`cupeer_mark`); true from then on.",
            "cuIpcGetMemHandle:mark=epoch?2:error=OUT_OF_MEMORY";
        "site" "new|SHARE" Value(conditions::site),
            "new: the first call of each call stack in a process that meets all other conditions; SHARE: all calls of this share of the call stacks, chosen by the seed.",
            "cuIpcOpenMemHandle*:site=new:error=MAP_FAILED";
    }
    When false {
        "when" "F[..L][+[S]]" Value(counts::when),
            "As in strace: F is the F-th matching call; F..L the F-th to the L-th; F+ all from the F-th on; F+S every S-th from the F-th on; counted in each process, and for each function by itself, unless per= says otherwise.",
            "cuIpcOpenMemHandle*:when=3..5:error=MAP_FAILED";
        "p" "SHARE" Value(|draft, value| set(&mut draft.rule.probability, share(value))),
            "Each of these calls with this probability; the same calls in every run with the same seed.",
            "@ipc,^@release:p=10%:error=any";
        "seed" "N" Value(|draft, value| set(&mut draft.rule.seed, number(value, 0, u64::MAX, "7"))),
            "Seed for the random choices of this fault, in place of the run's seed.",
            "@open:p=10%:seed=7:error=any";
        "times" "N" Value(|draft, value| set(&mut draft.rule.times, number(value, 1, u64::MAX, "3").map(Some))),
            "At most N times.",
            "cuIpcOpenMemHandle*:times=3:error=MAP_FAILED";
        "per" "process|thread|ctx|rank|job[/rule]" Value(counts::per),
            "Scope of the count: each process (the default), thread, or current context of a process, or all processes of one rank or of the job on a host; each function separately, or with /rule all functions of the fault together.",
            "cuIpcOpen*:when=1:per=job/rule:error=MAP_FAILED";
    }
    Happens true {
        "error" "RESULT|any" Value(actions::error),
            "The call fails with this result; any: with one that is documented or was seen, chosen by the seed.",
            "cuIpcOpenMemHandle*:error=MAP_FAILED";
        "out" "ARGUMENT=VALUE,.." Value(actions::out),
            "Outputs get these values if the call succeeds: for a number, a number, zero, or null; for a handle, zero, flip/BYTE (all bits of this byte inverted), or other (another handle of its kind that the process created or received; if there is none, it stays); of shareable handles, only descriptors change.",
            "cuIpcOpenMemHandle*:out=pdptr=null";
        "delay" "TIME[~TIME]" Value(|draft, value| set(&mut draft.rule.action.delay, wait(value).map(Some))),
            "Waits before the call; the time after ~ is how much longer or shorter the wait may be, chosen by the seed.",
            "@ipc:delay=5ms~1ms";
        "delay-after" "TIME[~TIME]" Value(|draft, value| set(&mut draft.rule.action.delay_after, wait(value).map(Some))),
            "Waits after the call, whether it failed or not.",
            "cuIpcGetMemHandle:delay-after=5ms";
        "hang" "[LABEL]" Optional(actions::hang),
            "Waits before the call until `cupeer release DIR LABEL` or `cupeer_release`; the default LABEL is hang.",
            "cuIpcCloseMemHandle:hang=here";
        "signal" "SIGNAL" Value(|draft, value| set(&mut draft.rule.action.signal, signals::parse(value).map(Some))),
            "Sends the thread this signal before the call; the call continues if the program survives it.",
            "cuIpcOpenMemHandle*:when=2:signal=SEGV";
        "exit" "N" Value(|draft, value| set(&mut draft.rule.action.exit, number(value, 0, 255, "3").map(|n| Some(n as i32)))),
            "Ends the process with this status in place of the call, immediately, without running exit handlers.",
            "cuIpcOpenMemHandle*:rank=1:exit=3";
    }
    Happens false {
        "stage" "instead|after|undo" Value(actions::stage),
            "Effect of error= on the real call: with instead (the default), it is not made; with after, it is made and its success replaced; with undo, it is made and its effect undone.",
            "cuIpcOpenMemHandle*:stage=undo:error=MAP_FAILED";
        "force" "" Flag(|draft| draft.force = true),
            "Allows an error= that is neither documented for the function nor was seen from a real driver, and one for a release function (@release, @lifetime).",
            "cuMemFree_v2:force:error=INVALID_VALUE";
        "name" "NAME" Value(name::name),
            "Names the fault in the log, the recording, and the report, in place of its number.",
            "cuIpcOpenMemHandle*:name=first-open:when=1:error=MAP_FAILED";
    }
    Calls false {
        "ARGUMENT" "NUMBERS|NAMES|GLOBS" Reads::Argument,
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
