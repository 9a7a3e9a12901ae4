//! Findings before their places have names, and what they follow from. Findings of calls of one kind are merged, so that a
//! million of them need the memory of one.

use crate::follow::collect::Collected;
use crate::follow::functions::{Functions, Number};
use crate::follow::ledger::Site;
use cupeer_record::Job;
use cupeer_report::filter::Filter;
use cupeer_report::model::Object;
use cupeer_report::places::Stack;
use cupeer_rules::reason::Reason;
use cupeer_rules::{Cache, Severity};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::finding::Confidence;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

/// What findings follow from.
pub struct Context<'a> {
    pub job: &'a Job,
    pub all: &'a Collected,
    /// What is asked for.
    pub filter: &'a Filter,
    /// Whether others will be put together with it.
    pub is_part: bool,
}

/// Something that was found, before its place has a name.
pub struct Draft<'a> {
    pub sentence: Sentence,
    pub function: Number,
    /// `None` where the call has not returned.
    pub result: Option<i32>,
    /// The process of the first, and then all others.
    pub processes: Vec<usize>,
    /// The first call, when it began, and when the last one did.
    pub site: Site,
    pub at: u64,
    pub last: u64,
    pub count: u64,
    pub driver_message: Option<&'a [u8]>,
    pub objects: Vec<Object>,
    /// The cache that alone has it open.
    pub cache: Option<Cache>,
    /// How bad it is, where its process has said that.
    pub said: Option<Severity>,
    /// Whether the recording lacks a fact that decides it.
    pub lacks_facts: bool,
}

impl Draft<'_> {
    /// Of one call of a process that returned a result, and was made at a time.
    pub fn of(sentence: Sentence, function: FnId, result: i32, process: u32, site: Site, at: u64) -> Self {
        Draft {
            sentence,
            function: function as Number,
            result: Some(result),
            processes: vec![process as usize],
            site,
            at,
            last: at,
            count: 1,
            driver_message: None,
            objects: Vec::new(),
            cache: None,
            said: None,
            lacks_facts: false,
        }
    }

    /// The same of what a cache alone has open, if any: why that is by design, and its setting.
    pub fn with_cache(mut self, cache: Option<Cache>) -> Self {
        if let Some(cache) = cache {
            self.sentence.message += &format!("; {}", cache.why());
            self.sentence.hint = cache.hint().into();
        }
        Draft { cache, ..self }
    }
}

/// What was found, in words.
pub struct Sentence {
    /// The name of the rule that is broken.
    pub rule: Rc<str>,
    pub message: String,
    pub hint: String,
    pub confidence: Confidence,
    pub argument: Option<&'static str>,
}

impl Sentence {
    pub fn of(reason: &Reason, confidence: Confidence) -> Self {
        let (message, hint) = (reason.to_string(), reason.hint().into());
        Sentence { rule: reason.rule().spec().name().into(), message, hint, confidence, argument: None }
    }
}

/// What drafts have in common that one row tells: the rule and how sure it is, the argument, function, result, processes,
/// stack, cache, and the severity that a process has said.
type Kind = (
    Rc<str>,
    &'static str,
    Option<&'static str>,
    Number,
    Option<i32>,
    Vec<usize>,
    Stack,
    Option<Cache>,
    Option<Severity>,
);

/// Drafts, one for each kind: the first that has words, with the count of all.
pub struct Drafts<'a, 'f> {
    filter: &'f Filter,
    all: Vec<Draft<'a>>,
    numbers: HashMap<Kind, usize>,
}

impl<'a, 'f> Drafts<'a, 'f> {
    /// None yet, of what a filter shows.
    pub fn new(filter: &'f Filter) -> Self {
        Drafts { filter, all: Vec::new(), numbers: HashMap::new() }
    }

    pub fn push(&mut self, draft: Draft<'a>) {
        if !self.filter.shows(Functions::id(draft.function), draft.result != Some(0), draft.at) {
            return;
        }
        match self.numbers.entry(kind(&draft)) {
            Entry::Vacant(place) => {
                place.insert(self.all.len());
                self.all.push(draft);
            }
            Entry::Occupied(place) => {
                let known = &mut self.all[*place.get()];
                let (count, last) = (known.count.saturating_add(draft.count), known.last.max(draft.last));
                let order = |draft: &Draft| (draft.sentence.message.is_empty(), draft.at);
                if order(&draft) < order(known) {
                    *known = draft;
                }
                (known.count, known.last) = (count, last);
            }
        }
    }

    pub fn into_all(self) -> Vec<Draft<'a>> {
        self.all
    }
}

fn kind(draft: &Draft) -> Kind {
    let sentence = &draft.sentence;
    (
        sentence.rule.clone(),
        sentence.confidence.word(),
        sentence.argument,
        draft.function,
        draft.result,
        draft.processes.clone(),
        draft.site.stack,
        draft.cache,
        draft.said,
    )
}
