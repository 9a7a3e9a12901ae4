//! A finding before its place has a name: `judged` keeps those of calls while it reads, and [`crate::infer`] adds those that only
//! the whole recording shows.

use crate::follow::functions::Number;
use crate::follow::ledger::{CallSite, Site};
use cupeer_record as record;
use cupeer_report::model::{Allocator, Uuid};
use cupeer_report::places::Stack;
use cupeer_rules::reason::Reason;
use cupeer_rules::{Cache, Confidence, Severity};
use std::rc::Rc;

/// The first of findings of one kind, and how many there are.
#[derive(Clone)]
pub struct PendingFinding {
    /// The name of the rule that is broken.
    pub rule: Rc<str>,
    pub message: String,
    pub hint: String,
    pub confidence: Confidence,
    pub argument: Option<&'static str>,
    pub function: Number,
    /// `None` if the call has not returned.
    pub result: Option<i32>,
    /// The process of the first, and then all others.
    pub processes: Vec<usize>,
    /// The first call, when it began, and when the last one did.
    pub site: Site,
    pub at: u64,
    pub last: u64,
    pub count: u64,
    pub driver_message: Option<Box<[u8]>>,
    /// The objects that the process recorded with the call.
    pub recorded: Vec<record::Object>,
    /// The objects that the recording adds.
    pub objects: Vec<PendingObject>,
    /// The uses of shared memory that it compares.
    pub accesses: Vec<PendingAccess>,
    /// The cache that alone has it open.
    pub cache: Option<Cache>,
    /// The severity that the process of a call recorded.
    pub said: Option<Severity>,
    /// The severity that it has at least.
    pub raised: Option<Severity>,
    /// The memory and the handles that it is about: addresses and lengths; of a handle, its fingerprint and 1. The likelier first.
    pub about: Vec<(u64, u64)>,
    /// True if the recording lacks a fact that decides it.
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

    /// Returns a finding without words that has not been counted.
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
            recorded: Vec::new(),
            objects: Vec::new(),
            accesses: Vec::new(),
            cache: None,
            said: None,
            raised: None,
            about: Vec::new(),
            lacks_facts: false,
        }
    }

    /// Adds why that is by design, and its setting, if a cache alone has it open.
    pub fn with_cache(mut self, cache: Option<Cache>) -> Self {
        if let Some(cache) = cache {
            self.message += &format!("; {}", cache.why);
            self.hint = cache.hint.into();
        }
        PendingFinding { cache, ..self }
    }
}

/// An object of a finding, before its place has a name.
#[derive(Clone, Default)]
pub struct PendingObject {
    /// As the record counts them: [`cupeer_spec::record::slot::finding::role`].
    pub role: u32,
    /// The process that made the call.
    pub process: usize,
    pub tid: Option<u32>,
    pub at: Option<u64>,
    pub stack: Option<Stack>,
    pub device: Option<Uuid>,
    /// An address or a context; 0 if unknown.
    pub address: u64,
    pub bytes: Option<u64>,
    pub allocator: Option<Allocator>,
    pub fingerprint: Option<u64>,
}

impl PendingObject {
    /// Returns the object of a call of a process.
    pub fn new(role: u32, process: usize, CallSite { site, at, .. }: CallSite) -> Self {
        Self::at(role, process, Some(site), Some(at))
    }

    /// Returns the object of a call whose place and time may be unknown.
    pub fn at(role: u32, process: usize, site: Option<Site>, at: Option<u64>) -> Self {
        let (tid, stack) = (site.map(|site| site.tid), site.map(|site| site.stack));
        PendingObject { role, process, tid, at, stack, ..PendingObject::default() }
    }
}

/// A use of shared memory, before its place has a name.
#[derive(Clone)]
pub struct PendingAccess {
    pub process: usize,
    pub call: CallSite,
    pub stream: Option<String>,
    pub bytes: u64,
    pub offset: u64,
}
