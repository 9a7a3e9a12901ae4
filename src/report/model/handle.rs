//! Handles: their exporters, their openers, and their ends.

use super::{
    Codes, Place, Proc, Unknown, Uuid,
    word::{self, Word},
};
use cupeer_spec::effect::Object;
use cupeer_spec::value::Shareable;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Reverse;
use std::rc::Rc;

/// Handle of memory or of an event: its exporter, its openers, and its end.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Handle {
    /// Fingerprint that stands for the bytes of the handle.
    pub fingerprint: Fingerprint,
    /// Kind of object that the handle is for.
    #[schemars(extend("enum" = Object::exportable_words()))]
    #[serde(deserialize_with = "word::read")]
    pub kind: Word,
    /// State of the handle.
    pub state: State,
    /// Process that exported the handle; null if unknown.
    pub exporter: Option<Proc>,
    /// Device of the exporter's context; for an allocation, the device of its memory.
    pub device: Option<Uuid>,
    /// Size of the allocation in bytes; null for an event.
    pub bytes: Option<u64>,
    /// Allocator of the memory; null for an event, or if unknown.
    pub allocator: Option<Allocator>,
    /// Time when the handle was first exported.
    pub exported_ns: Option<u64>,
    /// Number of times that the handle was exported.
    pub exports: u64,
    /// Time when the allocation was freed or released, or the event was destroyed.
    pub freed_ns: Option<u64>,
    /// Function that freed, released, or destroyed the object.
    #[serde(deserialize_with = "word::read")]
    pub freed_by: Option<Word>,
    /// Handle that this one is a damaged copy of, if no process exported this one. They differ in bytes that the
    /// driver does not check.
    pub damaged_from: Option<Fingerprint>,
    /// Processes that opened the handle.
    pub opens: Vec<Open>,
    /// Processes that failed to open the handle.
    pub failed: Vec<FailedOpen>,
    /// Bytes that each process read and wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<HandleAccess>,
    /// Reasons for fields that are unknown.
    #[serde(skip_serializing_if = "Unknown::is_empty")]
    #[serde(default, deserialize_with = "word::read")]
    pub unknown: Rc<Unknown>,
}

impl Handle {
    /// Returns the sort key: the worst state first, then by time.
    pub fn sort_key(&self) -> (Reverse<State>, Option<u64>, Fingerprint) {
        let when = self.exported_ns.or(self.opens.first().map(|open| open.opened_ns));
        (Reverse(self.state), when, self.fingerprint)
    }
}

/// Bytes of a handle's memory that a process read and wrote, as far as recorded copies and memsets show: kernels are not included.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug)]
pub struct HandleAccess {
    /// Process that read or wrote.
    pub proc: Proc,
    /// Ranges that it read: the offsets of the first byte and of the byte behind the last one.
    pub reads: Vec<[u64; 2]>,
    /// Ranges that it wrote.
    pub writes: Vec<[u64; 2]>,
    /// Number of ranges that are omitted.
    pub omitted: u64,
}

/// Allocator of some memory.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Allocator {
    /// Name of the allocator.
    #[serde(deserialize_with = "word::read")]
    pub name: Word,
    /// Certainty of the name.
    pub certainty: Certainty,
}

/// Certainty of the allocator of some memory.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// The library that exported the memory has no other memory.
    Certain,
    /// The library that exported the memory may have received it from other code.
    Probable,
}

impl Allocator {
    /// Returns the name with its certainty, such as `CuPy's pool (probable)`; `None` for CUDA's own allocator.
    pub fn name_with_certainty(&self) -> Option<String> {
        let sure = if self.certainty == Certainty::Certain { "" } else { " (probable)" };
        (self.name != Allocator::PLAIN).then(|| format!("{}{sure}", self.name))
    }

    /// Name of memory without an allocator above CUDA's own.
    pub const PLAIN: &str = "cudaMalloc";
}

/// State of a handle, or of one process's use of it. A handle that several processes opened has the worst of their
/// states: the last one in this list.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// No process opened it, and its object still exists.
    #[serde(rename = "exported")]
    Exported,
    /// No process has it open.
    #[serde(rename = "closed")]
    Closed,
    /// A fault plan kept it from being closed: closing failed, opening returned another address, or the opener was
    /// killed.
    #[serde(rename = "open on purpose")]
    OpenOnPurpose,
    /// A fault plan damaged it.
    #[serde(rename = "damaged on purpose")]
    DamagedOnPurpose,
    /// A process has it open.
    #[serde(rename = "open")]
    Open,
    /// A process exited with it open.
    #[serde(rename = "open at exit")]
    OpenAtExit,
    /// No process under cupeer exported it, and none could open it.
    #[serde(rename = "unknown")]
    Unknown,
    /// It is a damaged copy of another handle.
    #[serde(rename = "damaged")]
    Damaged,
    /// Its exporter exited while a process has it open. Virtual memory, pools, and memory of pools stay valid for processes that
    /// imported them.
    #[serde(rename = "exporter gone")]
    ExporterGone,
    /// Its object was freed while a process had it open. An allocation of virtual memory stays valid for processes
    /// that imported it.
    #[serde(rename = "freed while open")]
    FreedWhileOpen,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// Use of a handle by one process: from its first open until it closed the handle as often.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Open {
    /// Process that opened the handle.
    pub proc: Proc,
    /// State of this use.
    pub state: State,
    /// Time when the handle was opened.
    pub opened_ns: u64,
    /// Time when the handle was closed; null if it is open.
    pub closed_ns: Option<u64>,
    /// Function that closed the handle.
    #[serde(deserialize_with = "word::read")]
    pub closed_by: Option<Word>,
    /// Device of the opener's context.
    pub device: Option<Uuid>,
    /// Thread id of the thread that opened the handle.
    pub tid: u32,
    /// Number of times that the handle was opened in that period.
    pub times: u64,
    /// Number of earlier uses by the same process that are omitted.
    pub earlier: u64,
}

/// Failed opens of a handle in one process.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct FailedOpen {
    /// Process that failed to open the handle.
    pub proc: Proc,
    /// Number of failures per result.
    pub codes: Rc<Codes>,
    /// Number of these failures that a fault plan caused, by failing the call or by damaging the handle.
    pub injected: u64,
    /// Time of the last failure.
    pub last_ns: u64,
}

impl FailedOpen {
    /// Returns true if all of these failures came from fault plans.
    pub fn is_on_purpose(&self) -> bool {
        self.injected >= self.codes.values().sum()
    }
}

/// Objects that were opened in one place and not closed.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Leak {
    /// Kind of object.
    #[schemars(extend("enum" = Object::exportable_words()))]
    #[serde(deserialize_with = "word::read")]
    pub kind: Word,
    /// Number of handles that are open.
    pub handles: u64,
    /// Number of opens without a close: a handle that was opened several times must be closed as often.
    pub times: u64,
    /// Size in bytes of the allocations, as far as it is known.
    pub bytes: u64,
    /// Allocator of the memory; null if unknown.
    pub allocator: Option<Allocator>,
    /// Time in nanoseconds that the oldest one has been open.
    pub oldest_ns: u64,
    /// Time in nanoseconds that the youngest one has been open.
    pub youngest_ns: u64,
    /// Processes that have them open.
    pub procs: Vec<Proc>,
    /// Call stack of the open, the caller first.
    pub stack: Vec<Place>,
}

/// Fingerprint of a handle: for the 64 bytes of an IPC handle or a fabric handle, a hash with the key of the job,
/// because the bytes themselves appear nowhere; for a file descriptor, the object that it refers to.
#[derive(JsonSchema, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[schemars(extend("pattern" = "^(ipc|fd|fabric|ptr):[0-9a-f]{16}$"))]
pub struct Fingerprint(#[schemars(with = "String")] pub u64);

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}:{:016x}", Shareable::fingerprint_prefix(self.0), self.0)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = text.split_once(':').and_then(|(_, digits)| u64::from_str_radix(digits, 16).ok());
        let is_it = |known: &Fingerprint| known.to_string() == text;
        number.map(Fingerprint).filter(is_it).ok_or_else(|| D::Error::custom("a fingerprint is not one"))
    }
}
