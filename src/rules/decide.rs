//! The decisions: which rule a call breaks, as a function of the call and of the known facts about the world.
//!
//! Each decision exists once, for the library at the call, with facts from the live table and the driver, and for the
//! report afterwards, with facts from the record. Both supply the facts as a [`World`]. A fact that is unknown is
//! `None`, and breaks no rule. The confidence of a finding follows from what was known.
//!
//! Failed calls are decided in `arguments`, `handles`, `pointers`, `peers`, `vmm`, `multicast`, and `pool_calls`, in
//! the order of the rules: the first broken rule explains the failure. Successful calls are decided in `succeeded`.
//! Nothing here allocates, because it runs inside other people's programs.

mod arguments;
mod graphs;
mod handles;
mod multicast;
mod peers;
mod pointers;
mod pool_calls;
mod succeeded;
#[cfg(test)]
mod tests;
mod uses;
mod vmm;
mod world;

pub use cupeer_model::Call;
pub use world::{
    ClosedBy, ClosedHandle, DeviceNode, EnabledPeers, EndedMemory, EndedObject, Export, FreedExport, Importers,
    NodeUse, ObjectEnd, OpenerLibraries, Opening, PointerAttributes, ProcessLife, World,
};

use crate::reason::Reason;
pub use crate::reason::{EndKind, HadContext, Ptrace};
use crate::{Cache, Confidence, Found, RULES, Rule, Scope};
use cupeer_spec::effect::Demand;
use cupeer_spec::function::FnId;

/// A broken rule, as it is passed to the caller.
pub struct Violation<'a, O> {
    /// Reason, with its values.
    pub reason: Reason<'a>,
    /// Confidence in the violation.
    pub confidence: Confidence,
    /// The argument that the violation is about, by its index in the call.
    pub argument: Option<usize>,
    /// Objects of the finding: the role of each, and the world's reference to it.
    pub objects: &'a [(u32, O)],
    /// The library cache that alone has the object open, on purpose; `None` otherwise.
    pub cache: Option<Cache>,
}

/// Result of checking a rule; a check returns `None` if it is unknown whether the call breaks the rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The call breaks the rule, and the violation was reported.
    Broken,
    /// The call does not break the rule.
    Held,
}

/// Returns true if the explanation of a failure depends on more than the function, the result, and arguments
/// that are not addresses. If so, the next such call needs an explanation of its own.
pub fn has_varying_explanation(function: FnId, result: i32) -> bool {
    let mut rules = RULES.iter().filter(|rule| rule.explains(function, result));
    rules.any(|rule| rule.scope != Scope::Arguments && rule.found != Found::InRecordings)
}

/// Checks a call against the rules, and reports violations. Returns true if there was one.
pub fn check_call<W: World>(call: &Call, world: &W, report: &mut dyn FnMut(&Violation<W::Object>)) -> bool {
    let mut judge = Judge { call, world, report };
    if call.result == 0 {
        return judge.check_success() == Some(Verdict::Broken);
    }
    let mut rules = RULES.iter().filter(|rule| rule.explains(call.function, call.result));
    rules.any(|rule| judge.decide(rule.id) == Some(Verdict::Broken))
}

/// Checks one rule that may explain why a call failed.
pub fn check_rule<W: World>(rule: Rule, call: &Call, world: &W) -> Option<Verdict> {
    Judge { call, world, report: &mut |_| {} }.decide(rule)
}

/// State of the checks of one call.
struct Judge<'a, W: World> {
    call: &'a Call<'a>,
    world: &'a W,
    report: &'a mut dyn FnMut(&Violation<W::Object>),
}

impl<W: World> Judge<'_, W> {
    fn report_violation(
        &mut self,
        reason: Reason,
        confidence: Confidence,
        argument: impl Into<Option<usize>>,
        objects: &[(u32, W::Object)],
    ) -> Option<Verdict> {
        self.report_violation_of(reason, confidence, argument.into(), objects, None)
    }

    /// Reports a violation about an object that others have open. If only a cache has it open, the violation
    /// names that cache.
    fn report_violation_of(
        &mut self,
        reason: Reason,
        confidence: Confidence,
        argument: Option<usize>,
        objects: &[(u32, W::Object)],
        cache: Option<Cache>,
    ) -> Option<Verdict> {
        let found = reason.rule().spec().found;
        debug_assert!(self.call.result != 0 || found.can_be_in_successes(), "{reason}: it is {found:?}");
        (self.report)(&Violation { reason, confidence, argument, objects, cache });
        Some(Verdict::Broken)
    }

    /// Reports a violation that is certain if `is_broken`.
    fn report_if(&mut self, is_broken: bool, argument: impl Into<Option<usize>>, reason: Reason) -> Option<Verdict> {
        if is_broken { self.report_violation(reason, Confidence::Certain, argument, &[]) } else { Some(Verdict::Held) }
    }

    /// Returns what the table of functions says about the call's function. Every function of a rule has to
    /// have what the rule needs, so `None` is a mistake in the table.
    fn expect_in_table<T>(&self, said: Option<T>) -> Option<T> {
        let name = self.call.function.spec().name();
        debug_assert!(said.is_some(), "the effects of {name} do not name what a rule needs");
        said
    }

    /// Checks an argument that must have one certain value: the flags of the call.
    fn check_flags(&mut self, reason: impl FnOnce(u32) -> Reason<'static>) -> Option<Verdict> {
        let demand = self.call.function.spec().required_value();
        let Demand { by, value } = self.expect_in_table(demand)?;
        let flags = self.call.number_at(by) as u32;
        self.report_if(flags != value, by, reason(flags))
    }

    /// Decides nothing about a call: the report finds this cause after it has read all processes.
    fn shown_by_recordings(&mut self) -> Option<Verdict> {
        Some(Verdict::Held)
    }
}

/// Generates the function that checks a rule.
macro_rules! declare_deciders {
    (; $(
        rule $rule:ident $name:literal {
            says: $says:literal,
            $(functions: $functions:tt,)?
            $(functions_of: $table:ident,)?
            $(results: $results:tt,
            decided_by: $decider:ident $(($decided:expr))?,)?
            $(reasons: $reasons:tt,)?
            severity: $($rest:tt)*
        }
    )*) => {
        impl<W: World> Judge<'_, W> {
            /// Checks a rule that may explain why the call failed, with the decider that its entry names.
            fn decide(&mut self, rule: Rule) -> Option<Verdict> {
                match rule {
                    $(Rule::$rule => declare_deciders!(@ask self $($decider $($decided)?)?),)*
                }
            }
        }
    };
    // A rule without a decider explains no failure, so it is never checked for one.
    (@ask $judge:ident) => { None };
    (@ask $judge:ident $decider:ident $($decided:expr)?) => { $judge.$decider($($decided)?) };
}
with_rules!(declare_deciders);
