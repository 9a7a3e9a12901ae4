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

/// A memory handle or an event handle: who exported it, who opened it, and how that ended.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Handle {
    /// What stands for its bytes.
    pub fingerprint: Fingerprint,
    /// What it is of.
    #[schemars(extend("enum" = Object::exported()))]
    #[serde(deserialize_with = "word::read")]
    pub kind: Word,
    /// How it stands.
    pub state: State,
    /// Who exported it.
    pub exporter: Option<Proc>,
    /// The device of the exporter's context; of an allocation, the one on which it lies.
    pub device: Option<Uuid>,
    /// The size of the allocation; null of an event.
    pub bytes: Option<u64>,
    /// Whose memory it is; null of an event, and where the record does not tell.
    pub allocator: Option<Allocator>,
    /// When it was exported first.
    pub exported_ns: Option<u64>,
    /// How often it was exported.
    pub exports: u64,
    /// When its allocation was freed or released, or the event destroyed.
    pub freed_ns: Option<u64>,
    /// The function that freed, released or destroyed it.
    #[serde(deserialize_with = "word::read")]
    pub freed_by: Option<Word>,
    /// Of a handle that nobody exported: the one that it is a damaged copy of. They differ in bytes that the driver
    /// does not check.
    pub damaged_from: Option<Fingerprint>,
    /// Who opened it.
    pub opens: Vec<Open>,
    /// Who failed to open it.
    pub failed: Vec<FailedOpen>,
    /// Why fields are unknown.
    #[serde(skip_serializing_if = "Unknown::is_empty")]
    #[serde(default, deserialize_with = "word::read")]
    pub unknown: Unknown,
}

impl Handle {
    /// Its place among others: the worst first, then in order of time.
    pub fn order(&self) -> (Reverse<State>, Option<u64>, Fingerprint) {
        let when = self.exported_ns.or(self.opens.first().map(|open| open.opened_ns));
        (Reverse(self.state), when, self.fingerprint)
    }
}

/// What made some memory.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Allocator {
    /// Its name.
    #[serde(deserialize_with = "word::read")]
    pub name: Word,
    /// How sure that is.
    pub certainty: Certainty,
}

/// How sure it is what made some memory.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// The library that exported it has no other.
    Certain,
    /// That library may have got it from elsewhere.
    Probable,
}

impl Allocator {
    /// `CuPy's pool (probable)`; of what is not worth a word, none.
    pub fn text(&self) -> Option<String> {
        let sure = if self.certainty == Certainty::Certain { "" } else { " (probable)" };
        (self.name != Allocator::PLAIN).then(|| format!("{}{sure}", self.name))
    }

    /// What has no allocator of its own above that of CUDA.
    pub const PLAIN: &str = "cudaMalloc";
}

/// How a handle, or one opening of it, stands. A handle with several openings has the worst of them: the last one here.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// Nobody opened it, and its allocation still exists.
    #[serde(rename = "exported")]
    Exported,
    /// Nobody has it open.
    #[serde(rename = "closed")]
    Closed,
    /// A fault plan kept it from being closed: closing failed, opening gave another address, or the opener was ended.
    #[serde(rename = "open on purpose")]
    OpenOnPurpose,
    /// A fault plan has damaged it.
    #[serde(rename = "damaged on purpose")]
    DamagedOnPurpose,
    /// Somebody has it open.
    #[serde(rename = "open")]
    Open,
    /// A process ended with it open.
    #[serde(rename = "open at exit")]
    OpenAtExit,
    /// Nobody under cupeer exported it, and nobody could open it.
    #[serde(rename = "unknown")]
    Unknown,
    /// It is another handle's damaged copy.
    #[serde(rename = "damaged")]
    Damaged,
    /// Its exporter ended, and somebody has it open.
    #[serde(rename = "exporter gone")]
    ExporterGone,
    /// It was freed while somebody had it open. An allocation stays for those who have imported it.
    #[serde(rename = "freed while open")]
    FreedWhileOpen,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// From where one process opened a handle to where it had closed it as often.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Open {
    /// The process.
    pub proc: Proc,
    /// How it stands.
    pub state: State,
    /// When it was opened.
    pub opened_ns: u64,
    /// When it was closed.
    pub closed_ns: Option<u64>,
    /// The function that closed it.
    #[serde(deserialize_with = "word::read")]
    pub closed_by: Option<Word>,
    /// The device of the opener's context.
    pub device: Option<Uuid>,
    /// The thread that opened it.
    pub tid: u32,
    /// How often it was opened in that time.
    pub times: u64,
    /// How many earlier openings by the same process are left out.
    pub earlier: u64,
}

/// One process's failures to open a handle.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct FailedOpen {
    /// The process.
    pub proc: Proc,
    /// The results.
    pub codes: Codes,
    /// How many of these failures a fault plan caused, by failing the call or by damaging the handle.
    pub injected: u64,
    /// When the last one was.
    pub last_ns: u64,
}

impl FailedOpen {
    /// Whether it failed only because of fault plans.
    pub fn is_on_purpose(&self) -> bool {
        self.injected >= self.codes.values().sum()
    }
}

/// What was opened in one place and not closed.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Leak {
    /// What it is of.
    #[schemars(extend("enum" = Object::exported()))]
    #[serde(deserialize_with = "word::read")]
    pub kind: Word,
    /// How many are open.
    pub handles: u64,
    /// How many openings are open: a handle that was opened several times must be closed as often.
    pub times: u64,
    /// The bytes of their allocations, where known.
    pub bytes: u64,
    /// Whose memory they are of; null where the record does not tell.
    pub allocator: Option<Allocator>,
    /// How long the oldest is open.
    pub oldest_ns: u64,
    /// How long the youngest is open.
    pub youngest_ns: u64,
    /// Who has them open.
    pub procs: Vec<Proc>,
    /// Where they were opened, the caller first.
    pub stack: Vec<Place>,
}

/// What stands for a handle: for the 64 bytes of an IPC handle or a fabric handle, keyed by the job, which themselves
/// appear nowhere; of a descriptor, what it refers to.
#[derive(JsonSchema, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[schemars(extend("pattern" = "^(ipc|fd|fabric|ptr):[0-9a-f]{16}$"))]
pub struct Fingerprint(#[schemars(with = "String")] pub u64);

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}:{:016x}", Shareable::prefix(self.0), self.0)
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
