//! Explains a call that failed without breaking a rule: what was ruled out, and what remains.

use super::emit;
use super::world::Call;
use core::fmt;
use cupeer_rules::decide::{Verdict, World, verdict};
use cupeer_rules::{RULES, Rule, RuleSpec, causes};
use cupeer_spec::effect::Shared;

pub fn failure(call: &Call) {
    let rule = if call.is_documented() { Rule::CallFailed } else { Rule::DriverUndocumented };
    emit::explanation(call, rule, &Explanation(call));
}

struct Explanation<'a>(&'a Call<'a>);

impl Explanation<'_> {
    /// The rules of which this is known about the call. None is broken: that was asked.
    fn each(&self, wanted: Verdict) -> impl Iterator<Item = &'static RuleSpec> {
        let Explanation(call) = self;
        let explains = move |rule: &&RuleSpec| rule.explains(call.id, call.result);
        let is_so = move |rule: &&RuleSpec| verdict(rule.id, &call.judged(), *call) == wanted;
        RULES.iter().filter(explains).filter(is_so)
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Explanation(call) = self;
        let (function, result) = (call.id.spec().name, call.result);
        let known = call.id.spec().result(result);
        match known {
            Some(spec) => write!(f, "{function} returned {} ({})", spec.name(), spec.string())?,
            None => write!(f, "{function} returned {result}, a code that CUDA 13.0 does not have")?,
        }
        if known.is_some() && !call.is_documented() {
            f.write_str(", which its documentation does not list")?;
        }
        let mut separator = "; ruled out: ";
        for rule in self.each(Verdict::Held) {
            write!(f, "{separator}{}", rule.ruled_out)?;
            separator = ", ";
        }
        separator = "; what remains: ";
        for rule in self.each(Verdict::Unknown) {
            write!(f, "{separator}{}", rule.cause)?;
            separator = ", or ";
        }
        let export = |(shared, fingerprint, _): (Shared, _, _)| call.export(shared.object, fingerprint);
        let is_known = call.judged().handle().and_then(export).is_some();
        for cause in causes(call.id, result).filter(|cause| !(is_known && cause.is_of_strangers)) {
            write!(f, "{separator}{}", cause.text)?;
            separator = ", or ";
        }
        if separator.starts_with(';') {
            f.write_str("; no cause is known beyond the documentation of the code")?;
            if let Some(spec) = known {
                write!(f, ": {}", spec.meaning.trim_end_matches('.'))?;
            }
        }
        Ok(())
    }
}
