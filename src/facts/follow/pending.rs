//! Pending findings: their places are numbers, not yet names. `judged` keeps the findings of calls while calls are read, and
//! [`crate::infer`] adds findings that only the whole recording shows.

use crate::follow::functions::Number;
use crate::follow::ledger::{CallSite, Site};
use cupeer_record as record;
use cupeer_report::model::{Allocator, Uuid};
use cupeer_report::places::StackNumber;
use cupeer_rules::reason::Reason;
use cupeer_rules::{Cache, Confidence, Severity};
use std::rc::Rc;

/// The first finding of one kind, and the number of findings of this kind.
#[derive(Clone)]
pub struct PendingFinding {
    /// The name of the broken rule.
    pub rule: Rc<str>,
    pub message: String,
    pub hint: String,
    pub confidence: Confidence,
    pub argument: Option<&'static str>,
    pub function: Number,
    /// The result of the call; `None` if it has not returned.
    pub result: Option<i32>,
    /// The process of the first finding, followed by all other processes with such findings.
    pub processes: Vec<usize>,
    /// Place of the first call.
    pub site: Site,
    /// Time at which the first call began.
    pub at: u64,
    /// Time at which the last call began.
    pub last: u64,
    pub count: u64,
    pub driver_message: Option<Box<[u8]>>,
    /// The objects of the finding that the process recorded with the call.
    pub recorded_objects: Vec<record::FindingObject>,
    /// Further objects of the finding, from the rest of the recording.
    pub objects: Vec<PendingObject>,
    /// The uses of shared memory that the finding compares.
    pub accesses: Vec<PendingAccess>,
    /// The cache that has the object open, if no other code has.
    pub cache: Option<Cache>,
    /// The severity that the process recorded with the call.
    pub recorded_severity: Option<Severity>,
    /// The lowest severity that the report may give the finding.
    pub lowest_severity: Option<Severity>,
    /// The memory and the handles of the finding, the most probable first: address and length of memory, fingerprint and 1 of a
    /// handle.
    pub subjects: Vec<(u64, u64)>,
    /// True if the recording lacks a fact that would confirm or refute the finding.
    pub lacks_facts: bool,
}

impl PendingFinding {
    /// Returns a finding about one call of a process, and its result.
    pub fn new(reason: &Reason, confidence: Confidence, process: usize, call: CallSite, result: i32) -> Self {
        PendingFinding {
            message: reason.to_string(),
            hint: reason.hint().into(),
            count: 1,
            ..Self::empty(reason.rule().spec().name().into(), confidence, process, call, Some(result))
        }
    }

    /// Returns a finding with a count of 0 and without sentences.
    pub fn empty(
        rule: Rc<str>,
        confidence: Confidence,
        process: usize,
        CallSite { function, site, at }: CallSite,
        result: Option<i32>,
    ) -> Self {
        PendingFinding {
            rule,
            message: String::new(),
            hint: String::new(),
            confidence,
            argument: None,
            function: function as Number,
            result,
            processes: vec![process],
            site,
            at,
            last: at,
            count: 0,
            driver_message: None,
            recorded_objects: Vec::new(),
            objects: Vec::new(),
            accesses: Vec::new(),
            cache: None,
            recorded_severity: None,
            lowest_severity: None,
            subjects: Vec::new(),
            lacks_facts: false,
        }
    }

    /// If only a cache has the object open, adds a sentence that this is by design, and the setting of the cache.
    pub fn with_cache(mut self, cache: Option<Cache>) -> Self {
        if let Some(cache) = cache {
            self.message += &format!("; {}", cache.why);
            self.hint = cache.hint.into();
        }
        PendingFinding { cache, ..self }
    }
}

/// An object of a finding, such as an earlier call. Its place is a number, not yet a name.
#[derive(Clone, Default)]
pub struct PendingObject {
    /// Role of the object in the finding: [`cupeer_spec::record::slot::finding::role`].
    pub role: u32,
    /// The process that made the call.
    pub process: usize,
    pub tid: Option<u32>,
    pub at: Option<u64>,
    pub stack: Option<StackNumber>,
    pub device: Option<Uuid>,
    /// Address of the memory, or the context handle; 0 if unknown.
    pub address: u64,
    pub bytes: Option<u64>,
    pub allocator: Option<Allocator>,
    pub fingerprint: Option<u64>,
}

impl PendingObject {
    /// Returns an object for a call of a process.
    pub fn new(role: u32, process: usize, CallSite { site, at, .. }: CallSite) -> Self {
        Self::from_optional_site(role, process, Some(site), Some(at))
    }

    /// Returns an object for a call whose place and time may be unknown.
    pub fn from_optional_site(role: u32, process: usize, site: Option<Site>, at: Option<u64>) -> Self {
        let (tid, stack) = (site.map(|site| site.tid), site.map(|site| site.stack));
        PendingObject { role, process, tid, at, stack, ..PendingObject::default() }
    }
}

/// A use of shared memory. Its place is a number, not yet a name.
#[derive(Clone)]
pub struct PendingAccess {
    pub process: usize,
    pub call: CallSite,
    pub stream: Option<String>,
    pub bytes: u64,
    pub offset: u64,
}
