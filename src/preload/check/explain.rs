//! Explains a call that failed without breaking a rule: the possible causes, the most likely first. Causes that were
//! ruled out are omitted.

use super::emit::{Delivery, UnwrittenFinding, emit};
use super::world::CheckedCall;
use core::fmt;
use cupeer_rules::decide::{World, check_rule};
use cupeer_rules::{DRIVER_SAYS, NO_CAUSE, RULES, Rule, RuleSpec, causes};
use cupeer_spec::effect::Shared;
use cupeer_spec::record::slot::finding::Confidence;
use cupeer_spec::value::write_quoted_content;

/// Number of bytes of the driver's message after which it is cut, if it is printed because no cause is known.
const MOST_SAID: usize = 160;

pub fn report_unexplained_failure(call: &CheckedCall, delivery: Delivery) {
    let rule = if call.is_documented() { Rule::CallFailed } else { Rule::DriverUndocumented };
    let (reason, hint) = (&Explanation(call), &Hint { call, rule });
    let (confidence, argument, objects) = (Confidence::Inferred, None, &[]);
    emit(&UnwrittenFinding { call, rule, confidence, argument, objects, reason, hint, cache: None, delivery });
}

/// Hint about a failure: the hint of the rule, or if the result has a name, the command that lists all causes.
struct Hint<'a> {
    call: &'a CheckedCall<'a>,
    rule: Rule,
}

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.call.id.spec().result(self.call.result) {
            Some(result) if self.rule == Rule::CallFailed => {
                let has_causes = Explanation(self.call).each_cause(|_| Ok(())).is_ok_and(|count| count > 0);
                let first = if has_causes { "Check the most likely cause first. " } else { "" };
                write!(f, "{first}`cupeer explain {}` lists all known causes of this result.", result.short_name())
            }
            _ => f.write_str(self.rule.spec().hint()),
        }
    }
}

struct Explanation<'a>(&'a CheckedCall<'a>);

impl Explanation<'_> {
    /// Returns the rules that would explain the failure, but whose conditions cannot be decided.
    fn undecided_rules(&self) -> impl Iterator<Item = &'static RuleSpec> {
        let Explanation(call) = self;
        let explains = move |rule: &&RuleSpec| rule.explains(call.id, call.result);
        let is_unknown = move |rule: &&RuleSpec| check_rule(rule.id, &call.call_for_rules(), *call).is_none();
        RULES.iter().filter(explains).filter(is_unknown)
    }

    /// Hands over the possible causes that were not ruled out, the most likely first. Returns their number.
    fn each_cause(&self, mut found: impl FnMut(&str) -> fmt::Result) -> Result<usize, fmt::Error> {
        let Explanation(call) = self;
        let export = |(shared, fingerprint, _): (Shared, _, _)| call.find_export(shared.object, fingerprint);
        let is_known = call.call_for_rules().opened_handle().and_then(export).is_some();
        let of_practice = causes(call.id, call.result).filter(|cause| !(is_known && cause.is_of_unrecorded_exporters));
        let mut all = self.undecided_rules().map(RuleSpec::cause).chain(of_practice.map(|known| known.text));
        all.try_fold(0, |count, text| found(text).map(|()| count + 1))
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Explanation(call) = self;
        let (function, result) = (call.id.spec().name(), call.result);
        let known = call.id.spec().result(result);
        match known {
            Some(spec) => write!(f, "{function} returned {}", spec.name())?,
            None => write!(f, "{function} returned {result}, a code that CUDA 13.0 does not have")?,
        }
        if known.is_some() && !call.is_documented() {
            f.write_str("; its documentation does not list that")?;
        }
        let mut separator = "; most likely ";
        let count = self.each_cause(|text| {
            let said = write!(f, "{separator}{text}");
            separator = if separator == "; most likely " { "; or " } else { ", or " };
            said
        })?;
        match known {
            _ if count > 0 => Ok(()),
            _ if !call.driver_messages.is_empty() => {
                f.write_str(DRIVER_SAYS)?;
                write_quoted_content(call.driver_messages.as_bytes(), MOST_SAID, f)
            }
            Some(spec) => write!(f, "{NO_CAUSE}{}", spec.meaning().trim_end_matches('.')),
            None => Ok(()),
        }
    }
}
