//! The findings of calls, as they are read: those that the processes made, and those that follow from what one did before.
//!
//! [`calls`] collects what calls carry and what their process tells. [`world`] supplies the facts that the recording has for
//! the rules, which are in `src/rules` with their sentences and decisions. What all processes together show is in
//! [`crate::infer`].
//!
//! A finding that a process could only infer is judged again when the recording knows more. A certain one stays.
//!
//! Findings are kept by process, rule, function, result, and stack, each with its first one, however many there are. Related sites
//! in its own process ([`earlier`]) are noted with the first one.

mod calls;
mod earlier;
mod world;

pub use world::{Sight, UNSEEN, device_count, ordinal, uuid};

use crate::follow::functions::Number;
use crate::follow::ledger::Site;
use crate::follow::pending::PendingFinding;
use cupeer_record::{Call, Finding, Outcome, Process};
use cupeer_report::expected::{Question, Standing};
use cupeer_report::model::is_explanation;
use cupeer_report::numbered::Numbered;
use cupeer_report::places::{Stack, Stacks};
use cupeer_rules::{Cache, Confidence, Rule, RuleSet, RuleSpec, Severity};
use cupeer_spec::env;
use cupeer_spec::function::FnId;
use std::collections::HashMap;

/// The most findings that were inferred and are judged again, each by itself.
const MOST_INFERRED: usize = 1 << 16;
/// The most names of rules, with 256 that this version does not know.
const MOST_NAMES: usize = cupeer_rules::RULES.len() + 256;

pub struct Findings {
    pub kept: HashMap<Key, Box<PendingFinding>, foldhash::fast::RandomState>,
    names: Numbered,
    /// What is asked for, by process.
    pub asked: Vec<Asked>,
    /// How many were inferred that are judged again.
    pub inferred: usize,
}

/// What findings have in common that are kept as one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    process: usize,
    /// A number in [`Numbered`].
    rule: u16,
    function: Number,
    /// `None` where the call has not returned.
    result: Option<i32>,
    stack: Stack,
    /// How bad it is, where its process has said that.
    severity: Option<Severity>,
    /// How sure it is: what is inferred of one call is not said with what is certain of another.
    confidence: Confidence,
    /// Of what is inferred and judged again: what it is about.
    about: Option<About>,
}

/// What a finding is about that is judged again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum About {
    /// A handle that could not be opened, by its fingerprint.
    Handle(u64),
    /// A call that ended something, by its thread and number.
    Call(u32, u64),
    /// Calls that may turn out to have been probes.
    Asked(Question),
}

pub struct MadeCall<'a> {
    pub index: usize,
    pub process: &'a Process,
    pub function: FnId,
    pub call: &'a Call,
    pub at: u64,
    /// When the last of the calls was that it stands for.
    pub last: u64,
    /// Whether the filters choose it.
    pub is_chosen: bool,
    /// Whether it was a probe.
    pub standing: Standing,
}

impl MadeCall<'_> {
    fn result(&self) -> Option<i32> {
        if let Outcome::Returned(result) = self.call.outcome { Some(result) } else { None }
    }

    /// What it is about, where the ledger judges it again.
    fn about(&self) -> Option<About> {
        let spec = self.function.spec();
        if self.call.succeeded() {
            return spec.ends().map(|_| About::Call(self.call.tid, self.call.seq));
        }
        let handle = self.call.function?.spec().opens()?.handle;
        let bytes = self.call.argument(handle)?.first_chunk()?;
        Some(About::Handle(u64::from_le_bytes(*bytes)))
    }
}

/// What of a process is checked.
pub struct Asked {
    /// Whether it was checked while it ran: what a call by itself shows was found then.
    is_checked: bool,
    /// Whether its record has findings of its own.
    has_told: bool,
    /// Whether the driver has done what this process was told had failed, because a fault plan said so: what it says of
    /// the state of things is then news to the process.
    driver_knows_more: bool,
    ignore: RuleSet,
    only: Option<RuleSet>,
}

/// Whether there may be something to find in a call: it failed, carries findings, or breaks a rule although it succeeds.
#[inline]
pub fn concerns(function: FnId, call: &Call) -> bool {
    !call.succeeded() || !call.details.findings.is_empty() || calls::may_break(function)
}

impl Findings {
    pub fn new(processes: &[Process]) -> Self {
        let asked = processes.iter().map(Asked::of).collect();
        Findings { kept: HashMap::default(), names: Numbered::default(), asked, inferred: 0 }
    }

    /// Notes what was found in a call. Returns whether there is more than an explanation of its failure, or what
    /// was only inferred and is judged again.
    pub fn call(&mut self, made: &MadeCall, sight: Option<Sight>, stacks: &mut Stacks) -> bool {
        if let Standing::Expected(_) = made.standing {
            return false;
        }
        let asked = made.standing.question().map(About::Asked);
        let recorded = &made.call.details.findings;
        if recorded.is_empty() && !self.asked[made.index].is_checked {
            let driver_knows_more = self.asked[made.index].driver_knows_more;
            let Some(sight) = sight else { return false };
            let is_found = calls::look(made, sight, driver_knows_more, &mut |found| {
                let rule = found.reason.rule().spec().name();
                self.add(
                    made,
                    rule,
                    || calls::finding(found),
                    (stacks, Some(sight)),
                    asked,
                    (found.confidence, None),
                );
            });
            // What a success means to others is judged with them.
            return is_found && !made.call.succeeded();
        }
        self.asked[made.index].has_told |= !recorded.is_empty();
        let mut is_judged = false;
        for finding in recorded {
            let about = made.about().filter(|_| finding.confidence == Confidence::Inferred);
            let about = about.filter(|_| !is_explanation(&finding.rule) && self.inferred < MOST_INFERRED);
            self.inferred += usize::from(about.is_some());
            is_judged |= about.is_none() && !is_explanation(&finding.rule);
            let (about, said) = (asked.or(about), (finding.confidence, Some(finding.severity)));
            self.add(made, &finding.rule, || finding.clone(), (stacks, sight), about, said);
        }
        is_judged
    }

    pub fn rule(&self, key: &Key) -> Option<Rule> {
        Rule::of(&self.names.name(key.rule))
    }

    /// What a process has only inferred of something.
    pub fn inferred(
        &self,
        process: usize,
        function: FnId,
        result: i32,
        stack: Stack,
        about: About,
    ) -> Vec<Key> {
        let (function, result, about) = (function as Number, Some(result), Some(about));
        let confidence = Confidence::Inferred;
        let key =
            |(rule, severity)| Key { process, rule, function, result, stack, severity, confidence, about };
        if self.inferred == 0 {
            return Vec::new();
        }
        let severities = [Severity::Error, Severity::Warning, Severity::Note].map(Some);
        let keys = (0..self.names.count()).flat_map(|rule| severities.map(|severity| key((rule, severity))));
        keys.filter(|key| self.kept.contains_key(key)).collect()
    }

    /// What a process has asked was a probe: what was found in its calls is taken back.
    pub fn answered(&mut self, process: usize, question: Question) {
        let asked = Some(About::Asked(question));
        self.kept.retain(|key, _| (key.process, key.about) != (process, asked));
    }

    pub fn driver_knows_more(&mut self, process: usize) {
        self.asked[process].driver_knows_more = true;
    }

    pub fn was_checked(&self, process: usize) -> bool {
        self.asked[process].is_checked || self.asked[process].has_told
    }

    pub fn has(&self, rule: Rule, process: usize) -> bool {
        let Some(number) = self.names.known(rule.spec().name()) else { return false };
        self.kept.keys().any(|key| (key.rule, key.process) == (number, process))
    }

    /// Counts a finding of a rule, and keeps it where it is the first of its kind.
    fn add(
        &mut self,
        made: &MadeCall,
        rule: &str,
        finding: impl FnOnce() -> Finding,
        (stacks, sight): (&mut Stacks, Option<Sight>),
        about: Option<About>,
        (confidence, severity): (Confidence, Option<Severity>),
    ) {
        let id = Rule::of(rule);
        let Some(rule) = self.names.number(rule, MOST_NAMES).filter(|_| made.is_chosen) else { return };
        let MadeCall { index, call, at, last, .. } = *made;
        let result = made.result();
        let (function, stack) = (made.function as Number, stacks.of(index, call));
        let key = Key { process: index, rule, function, result, stack, severity, confidence, about };
        let kept = self.kept.entry(key).or_insert_with(|| {
            let Finding { mut message, hint, argument, objects: mut recorded, .. } = finding();
            let sites = |(rule, sight)| earlier::sites(rule, made, sight, stacks);
            let mut objects = id.zip(sight).map(sites).unwrap_or_default();
            let ended = sight.and_then(|sight| earlier::ended_range(&mut recorded, made, sight, stacks));
            if let Some((object, others)) = ended {
                objects.push(object);
                message.extend(others.into_iter().flat_map(|others| ["; ".to_owned(), others]));
            }
            // The sites that the process recorded are not repeated.
            objects.retain(|object| !recorded.iter().any(|known| known.what.role == object.role));
            let args = made.function.spec().args();
            Box::new(PendingFinding {
                rule: self.names.name(rule),
                message,
                hint,
                confidence,
                argument: argument.and_then(|i| Some(args.get(usize::from(i))?.name())),
                function,
                result,
                processes: vec![index],
                site: Site::of(call, stack, true),
                at,
                last: at,
                count: 0,
                driver_message: call.details.message.clone().map(Vec::into_boxed_slice),
                recorded,
                objects,
                accesses: Vec::new(),
                cache: None,
                said: severity,
                raised: None,
                about: about_of(call),
                lacks_facts: false,
            })
        });
        kept.count = kept.count.saturating_add(call.times());
        kept.last = kept.last.max(last);
    }
}

/// The numbers of a call that may be addresses or fingerprints: those that the driver names, and then its arguments.
fn about_of(call: &Call) -> Vec<(u64, u64)> {
    /// Smaller numbers are sizes, flags, and devices.
    const LEAST: u64 = 1 << 32;
    let said = String::from_utf8_lossy(call.details.message.as_deref().unwrap_or_default()).into_owned();
    let named = said.split("0x").skip(1).filter_map(|text| {
        let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
        u64::from_str_radix(&text[..end], 16).ok()
    });
    let arguments = call.arguments();
    let args = call.function.map_or(&[][..], |function| function.spec().args());
    let places = (0..args.len()).filter_map(|index| arguments.get(call.function?.spec().place(index)));
    let words = places.filter_map(|bytes| bytes.first_chunk()).map(|bytes| u64::from_le_bytes(*bytes));
    named.chain(words).filter(|number| *number >= LEAST).map(|number| (number, 1)).collect()
}

impl Asked {
    fn of(process: &Process) -> Self {
        let value = |name: &str| {
            let found = process.variables.iter().rev().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
        };
        // What could not be understood was not done.
        let set = |name| RuleSet::parse(value(name)?).ok();
        Asked {
            is_checked: env::Level::of(value(env::CHECK)).is_some(),
            has_told: false,
            driver_knows_more: false,
            ignore: set(env::IGNORE).unwrap_or_default(),
            only: set(env::ONLY),
        }
    }

    /// How bad a rule is in a call of a library, where a cache alone has it open that it is about; `None` where it is not
    /// asked for.
    pub fn severity(&self, rule: &RuleSpec, library: &str, cache: Option<Cache>) -> Option<Severity> {
        let library = library.as_bytes();
        let is_asked = self.only.as_ref().is_none_or(|only| only.contains(rule.id, library))
            && !self.ignore.contains(rule.id, library);
        is_asked.then(|| rule.severity_in(library, cache))
    }
}
