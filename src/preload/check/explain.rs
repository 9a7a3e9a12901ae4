//! Explains a call that failed without breaking a rule: what was ruled out, and what remains.

use super::emit;
use super::world::Call;
use core::fmt::{self, Write};
use cupeer_rules::decide::{Verdict, World, verdict};
use cupeer_rules::{RULES, Rule, RuleSpec, causes};

/// Explains a failure.
pub fn failure(call: &Call) {
    let is_documented = call.is_documented();
    let rule = if is_documented { Rule::CallFailed } else { Rule::DriverUndocumented };
    emit::explanation(call, rule, &Explanation { call, is_documented });
}

/// The words.
struct Explanation<'a> {
    call: &'a Call<'a>,
    is_documented: bool,
}

impl Explanation<'_> {
    /// The rules of which this is known about the call. None is broken: that was asked.
    fn each(&self, wanted: Verdict) -> impl Iterator<Item = &'static RuleSpec> {
        let explains = move |rule: &&RuleSpec| rule.explains(self.call.id, self.call.result);
        let is_so = move |rule: &&RuleSpec| verdict(rule.id, &self.call.judged(), self.call) == wanted;
        RULES.iter().filter(explains).filter(is_so)
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (function, result) = (self.call.id.spec().name, self.call.result);
        match (self.call.id.spec().result(result), self.is_documented) {
            (Some(spec), true) => write!(f, "{function} returned {} ({})", spec.name(), spec.string())?,
            (Some(spec), false) => write!(
                f,
                "{function} returned {} ({}), which its documentation does not list",
                spec.name(),
                spec.string()
            )?,
            (None, _) => write!(f, "{function} returned {result}, a code that CUDA 13.0 does not have")?,
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
        let is_known =
            self.call.judged().handle().is_some_and(|(shared, fingerprint, _)| {
                self.call.export(shared.object, fingerprint).is_some()
            });
        for cause in causes(self.call.id, result).filter(|cause| !(is_known && cause.is_of_strangers)) {
            write!(f, "{separator}{}", cause.text)?;
            separator = ", or ";
        }
        if separator.starts_with(';') {
            f.write_str("; no cause is known beyond the documentation of the code")?;
            if let Some(spec) = self.call.id.spec().result(result) {
                f.write_char(':')?;
                write!(f, " {}", spec.meaning.trim_end_matches('.'))?;
            }
        }
        Ok(())
    }
}
