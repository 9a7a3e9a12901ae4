//! The findings about single calls, as calls are read: findings that processes recorded, and findings from earlier calls of a
//! process.
//!
//! [`world`] supplies the facts that the recording has for
//! the rules, which are in `src/rules` with their sentences and decisions. What all processes together show is in
//! [`crate::infer`].
//!
//! A finding that a process could only infer is judged again when the recording knows more. A certain one stays.
//!
//! Findings with the same process, rule, function, result, and stack are stored as one: the first, with a count. Related sites of
//! the same process ([`earlier`]) are stored with the first.

mod earlier;
mod world;

use world::CallWorld;
pub use world::{ASSUMED_LIFETIME, ProcessFacts, device_count, ordinal_of_uuid, uuid_of_ordinal};

use crate::follow::functions::Number;
use crate::follow::ledger::{CallSite, Site};
use crate::follow::pending::PendingFinding;
use cupeer_record::{Call, Finding, Outcome, Process};
use cupeer_report::expected::{Expectation, ProbeQuery};
use cupeer_report::judged::as_judged_call;
use cupeer_report::model::is_explanation;
use cupeer_report::numbered::NumberedNames;
use cupeer_report::places::{StackNumber, StackTable};
use cupeer_rules::decide::{self, Violation};
use cupeer_rules::{Cache, Confidence, Found, RULES, Rule, RuleSet, RuleSpec, Severity};
use cupeer_spec::env;
use cupeer_spec::function::FnId;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Number of inferred findings that are stored separately for a second judgement; further ones are judged only once.
const MOST_INFERRED: usize = 1 << 16;
/// Number of rule names that are stored: the rules of this version, and 256 of other versions. Findings of further
/// rules are dropped.
const MOST_NAMES: usize = cupeer_rules::RULES.len() + 256;

#[derive(Default)]
pub struct CallFindings {
    pub by_key: HashMap<FindingKey, Box<PendingFinding>, foldhash::fast::RandomState>,
    names: NumberedNames,
    /// The settings of the checks, by process.
    pub settings: Vec<CheckSettings>,
    /// Number of inferred findings that are judged again.
    pub inferred_count: usize,
}

/// Key of findings that are stored as one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FindingKey {
    process: usize,
    /// Number of the rule in [`NumberedNames`].
    rule: u16,
    function: Number,
    /// The result of the call; `None` if it has not returned.
    result: Option<i32>,
    stack: StackNumber,
    /// The severity that the process recorded, if any.
    severity: Option<Severity>,
    /// The confidence. An inference about one call never shares a row with a certainty about another.
    confidence: Confidence,
    /// The subject of an inferred finding that is judged again.
    about: Option<FindingSubject>,
}

/// The subject of a finding that is judged again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum FindingSubject {
    /// A handle that could not be opened, by its fingerprint.
    Handle(u64),
    /// A call that ended an object, by its thread and number.
    Call(u32, u64),
    /// Calls that may turn out to have been probes.
    Probe(ProbeQuery),
}

pub struct JudgedCall<'a> {
    pub index: usize,
    pub process: &'a Process,
    pub function: FnId,
    pub call: &'a Call,
    pub at: u64,
    /// When the last call of a run of repeated calls began.
    pub last: u64,
    /// True if the filters choose the call.
    pub is_chosen: bool,
    /// Relation of the call to probes.
    pub standing: Expectation,
}

impl JudgedCall<'_> {
    fn result(&self) -> Option<i32> {
        if let Outcome::Returned(result) = self.call.outcome { Some(result) } else { None }
    }

    /// Returns the subject of a finding that is judged again with the handle table.
    fn subject(&self) -> Option<FindingSubject> {
        let spec = self.function.spec();
        if self.call.succeeded() {
            return spec.ends().map(|_| FindingSubject::Call(self.call.tid, self.call.seq));
        }
        let handle = self.call.function?.spec().opens()?.handle;
        let bytes = self.call.argument(handle)?.first_chunk()?;
        Some(FindingSubject::Handle(u64::from_le_bytes(*bytes)))
    }
}

/// The settings of the checks of one process.
pub struct CheckSettings {
    /// True if the process was checked while it was running: then its own calls were judged at that time.
    is_checked: bool,
    /// True if the recording of the process has findings.
    has_recorded_findings: bool,
    /// True if the driver did something that a fault plan reported to the process as failed. The driver's state then differs
    /// from the state that the process knows.
    driver_knows_more: bool,
    ignore: RuleSet,
    only: Option<RuleSet>,
}

/// Returns true if a call may have findings: it failed, carries findings, or breaks a rule although it succeeds.
#[inline]
pub fn may_have_findings(function: FnId, call: &Call) -> bool {
    !call.succeeded() || !call.details.findings.is_empty() || may_break_rule_on_success(function)
}

impl CallFindings {
    pub fn new(processes: &[Process]) -> Self {
        CallFindings { settings: processes.iter().map(CheckSettings::new).collect(), ..CallFindings::default() }
    }

    /// Stores the findings of a call. Returns true if one of them is certain and more than an explanation of the
    /// call's failure.
    pub fn store_findings(&mut self, made: &JudgedCall, facts: Option<ProcessFacts>, stacks: &mut StackTable) -> bool {
        if let Expectation::Expected(_) = made.standing {
            return false;
        }
        let asked = made.standing.open_query().map(FindingSubject::Probe);
        let recorded = &made.call.details.findings;
        if recorded.is_empty() && !self.settings[made.index].is_checked {
            let driver_knows_more = self.settings[made.index].driver_knows_more;
            let Some(facts) = facts else { return false };
            let is_found = judge(made, facts, driver_knows_more, &mut |found| {
                let rule = found.reason.rule().spec().name();
                self.count_finding(
                    made,
                    rule,
                    || to_recorded_finding(found),
                    (stacks, Some(facts)),
                    asked,
                    (found.confidence, None),
                );
            });
            // A call that succeeded is also judged later, by its effects on other processes.
            return is_found && !made.call.succeeded();
        }
        self.settings[made.index].has_recorded_findings |= !recorded.is_empty();
        let mut is_judged = false;
        for finding in recorded {
            let about = made.subject().filter(|_| finding.confidence == Confidence::Inferred);
            let about = about.filter(|_| !is_explanation(&finding.rule) && self.inferred_count < MOST_INFERRED);
            self.inferred_count += usize::from(about.is_some());
            is_judged |= about.is_none() && !is_explanation(&finding.rule);
            let (about, said) = (asked.or(about), (finding.confidence, Some(finding.severity)));
            self.count_finding(made, &finding.rule, || finding.clone(), (stacks, facts), about, said);
        }
        is_judged
    }

    pub fn rule_of(&self, key: &FindingKey) -> Option<Rule> {
        Rule::of(&self.names.name(key.rule))
    }

    /// Returns the keys of the inferred findings of a process about a subject.
    pub fn inferred_keys(
        &self,
        process: usize,
        function: FnId,
        result: i32,
        stack: StackNumber,
        about: FindingSubject,
    ) -> Vec<FindingKey> {
        let (function, result, about) = (function as Number, Some(result), Some(about));
        let confidence = Confidence::Inferred;
        let key = |(rule, severity)| FindingKey { process, rule, function, result, stack, severity, confidence, about };
        if self.inferred_count == 0 {
            return Vec::new();
        }
        let severities = [Severity::Error, Severity::Warning, Severity::Note].map(Some);
        let keys = (0..self.names.count()).flat_map(|rule| severities.map(|severity| key((rule, severity))));
        keys.filter(|key| self.by_key.contains_key(key)).collect()
    }

    /// Removes the findings about calls of a process that turned out to be a probe.
    pub fn remove_probe_findings(&mut self, process: usize, question: ProbeQuery) {
        let asked = Some(FindingSubject::Probe(question));
        self.by_key.retain(|key, _| (key.process, key.about) != (process, asked));
    }

    pub fn set_driver_knows_more(&mut self, process: usize) {
        self.settings[process].driver_knows_more = true;
    }

    pub fn was_checked(&self, process: usize) -> bool {
        self.settings[process].is_checked || self.settings[process].has_recorded_findings
    }

    pub fn has_finding_of(&self, rule: Rule, process: usize) -> bool {
        let Some(number) = self.names.find_number(rule.spec().name()) else { return false };
        self.by_key.keys().any(|key| (key.rule, key.process) == (number, process))
    }

    /// Counts a finding of a rule, and stores it if it is the first of its kind.
    fn count_finding(
        &mut self,
        made: &JudgedCall,
        rule: &str,
        finding: impl FnOnce() -> Finding,
        (stacks, facts): (&mut StackTable, Option<ProcessFacts>),
        about: Option<FindingSubject>,
        (confidence, severity): (Confidence, Option<Severity>),
    ) {
        let id = Rule::of(rule);
        let Some(rule) = self.names.find_or_add(rule, MOST_NAMES).filter(|_| made.is_chosen) else { return };
        let JudgedCall { index, call, at, last, .. } = *made;
        let result = made.result();
        let (function, stack) = (made.function as Number, stacks.of(index, call));
        let key = FindingKey { process: index, rule, function, result, stack, severity, confidence, about };
        let kept = self.by_key.entry(key).or_insert_with(|| {
            let Finding { mut message, hint, argument, objects: mut recorded, .. } = finding();
            let sites = |(rule, facts)| earlier::earlier_calls(rule, made, facts, stacks);
            let mut objects = id.zip(facts).map(sites).unwrap_or_default();
            let ended = facts.and_then(|facts| earlier::call_that_ended_range(&mut recorded, made, facts, stacks));
            if let Some((object, others)) = ended {
                objects.push(object);
                message.extend(others.into_iter().flat_map(|others| ["; ".to_owned(), others]));
            }
            // The sites that the process recorded are not repeated.
            objects.retain(|object| !recorded.iter().any(|known| known.what.role == object.role));
            let args = made.function.spec().args();
            let made = CallSite { function: made.function, site: Site::new(call, stack, true), at };
            Box::new(PendingFinding {
                message,
                hint,
                argument: argument.and_then(|i| Some(args.get(usize::from(i))?.name())),
                driver_message: call.details.message.clone().map(Vec::into_boxed_slice),
                recorded_objects: recorded,
                objects,
                recorded_severity: severity,
                subjects: possible_addresses(call),
                ..PendingFinding::empty(self.names.name(rule), confidence, index, made, result)
            })
        });
        kept.count = kept.count.saturating_add(call.call_count());
        kept.last = kept.last.max(last);
    }
}

/// Returns the numbers that may be addresses or fingerprints: first those in the driver's message, then the call's arguments.
fn possible_addresses(call: &Call) -> Vec<(u64, u64)> {
    /// Smaller numbers are sizes, flags, and devices.
    const LEAST: u64 = 1 << 32;
    let said = String::from_utf8_lossy(call.details.message.as_deref().unwrap_or_default()).into_owned();
    let named = said.split("0x").skip(1).filter_map(|text| {
        let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
        u64::from_str_radix(&text[..end], 16).ok()
    });
    let arguments = call.arguments();
    let args = call.function.map_or(&[][..], |function| function.spec().args());
    let places = (0..args.len()).filter_map(|index| arguments.get(call.function?.spec().argument_byte_range(index)));
    let words = places.filter_map(|bytes| bytes.first_chunk()).map(|bytes| u64::from_le_bytes(*bytes));
    named.chain(words).filter(|number| *number >= LEAST).map(|number| (number, 1)).collect()
}

impl CheckSettings {
    fn new(process: &Process) -> Self {
        let value = |name: &str| {
            let found = process.variables.iter().rev().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
        };
        // The process ignored settings that it could not parse.
        let set = |name| RuleSet::parse(value(name)?).ok();
        CheckSettings {
            is_checked: env::CheckLevel::from_variable(value(env::CHECK)).is_some(),
            has_recorded_findings: false,
            driver_knows_more: false,
            ignore: set(env::IGNORE).unwrap_or_default(),
            only: set(env::ONLY),
        }
    }

    /// Returns the severity of a rule for calls of a library, or of a cache that alone has the handle open; `None` if the
    /// settings exclude it.
    pub fn severity(&self, rule: &RuleSpec, library: &str, cache: Option<Cache>) -> Option<Severity> {
        let library = library.as_bytes();
        let is_asked = self.only.as_ref().is_none_or(|only| only.contains(rule.id, library))
            && !self.ignore.contains(rule.id, library);
        is_asked.then(|| rule.severity_in(library, cache))
    }
}

/// Returns true if a call of a function can break a rule although it succeeds, and if its process alone shows that.
#[inline]
fn may_break_rule_on_success(function: FnId) -> bool {
    static FUNCTIONS: LazyLock<Vec<bool>> = LazyLock::new(|| {
        let rules = || RULES.iter().filter(|rule| rule.found == Found::InSuccesses);
        FnId::all().map(|function| rules().any(|rule| rule.functions().contains(&function))).collect()
    });
    FUNCTIONS[function as usize]
}

/// Judges a call by the earlier calls of its process. Passes on each violation.
fn judge(
    made: &JudgedCall,
    facts: ProcessFacts,
    driver_knows_more: bool,
    report: &mut dyn FnMut(&Violation<()>),
) -> bool {
    let Some(result) = made.result().filter(|_| !made.call.injected) else { return false };
    let args = made.call.arguments();
    let call = as_judged_call(made.function, result, &args, made.call);
    let mut is_found = false;
    decide::check_call(&call, &CallWorld { made, facts }, &mut |found| {
        let is_kept = match found.reason.rule().spec().found {
            // The calls of other processes may refute the violation, so it is decided afterwards.
            Found::Afterwards => false,
            Found::InStates => !driver_knows_more,
            _ => true,
        };
        if is_kept {
            is_found = true;
            report(found);
        }
    });
    is_found
}

/// Returns a violation in the form of recorded findings. It has no severity yet, because that depends on the calling library.
fn to_recorded_finding<O>(found: &Violation<O>) -> Finding {
    let rule = found.reason.rule().spec();
    Finding {
        confidence: found.confidence,
        severity: rule.severity,
        argument: found.argument.map(|argument| argument as u8),
        rule: rule.name().into(),
        message: found.reason.to_string(),
        hint: found.reason.hint().into(),
        objects: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::function::FnId::*;

    #[test]
    fn successes_are_looked_at_if_a_rule_is_about_them() {
        for function in [cuIpcGetMemHandle, cuIpcOpenMemHandle_v2, cuIpcCloseMemHandle, cuCtxEnablePeerAccess] {
            assert!(may_break_rule_on_success(function), "{}", function.spec().name());
        }
        // Programs call these most, and only the library knows the memory that they use.
        for function in FnId::all().filter(|function| function.spec().is_device_work()) {
            assert!(!may_break_rule_on_success(function), "{}", function.spec().name());
        }
    }
}
