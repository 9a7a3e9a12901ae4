//! Counts the calls that match a fault, and decides whether the fault fires at a call.

use super::loaded::{LoadedFault, LoadedPlan};
use super::scopes::claim;
use super::{private, shared};
use crate::log::message;
use core::sync::atomic::Ordering::Relaxed;
use cupeer_spec::fault::{CounterScope, PlannedFault, happens, purpose};
use cupeer_spec::function::FnId;
use cupeer_spec::record::faults::{FaultCounter, ScopeCounter, scope_key};

/// Properties of a call that decide together with which other calls it is counted.
pub struct CountedCall {
    pub id: FnId,
    /// Rank of the process; `u32::MAX` if it is not known.
    pub rank: u32,
    /// Current context, for a fault that counts the calls of each context separately; 0 for other faults.
    pub context: u64,
}

/// Firing of a fault at one call, which can be taken back.
#[derive(Clone, Copy)]
pub struct Firing<'a> {
    /// Number of the call, from 1, among the calls that the fault counts together.
    pub count: u64,
    scope: &'a ScopeCounter,
    totals: Option<&'a FaultCounter>,
}

impl Firing<'_> {
    /// Decrements the counts of fired faults, because the fault had nothing to do at the call: a test must not appear to have
    /// tested something.
    pub fn take_back(&self) {
        self.scope.fired.fetch_sub(1, Relaxed);
        if let Some(totals) = self.totals {
            totals.fired.fetch_sub(1, Relaxed);
        }
    }
}

/// Counts a call that meets the conditions of a fault. Returns the firing; `None` if the fault does not fire at the call.
pub fn count_and_decide<'a>(plan: &'a LoadedPlan, rule: &LoadedFault, whose: &CountedCall) -> Option<Firing<'a>> {
    let totals = plan.counts_of_fault(rule);
    if let Some(totals) = totals {
        totals.matched.fetch_add(1, Relaxed);
    }
    let Some(scope) = scope_of(plan, rule, whose) else {
        message::print_once(format_args!("no room to count for the fault {}: it does not fire", rule.spec.name));
        return None;
    };
    let count = scope.count.fetch_add(1, Relaxed) + 1;
    let PlannedFault { when, probability, times, .. } = rule.spec;
    let thrown = || rule.spec.pseudorandom_for(whose.rank, whose.id.spec().name(), count, purpose::FIRE);
    let is_chosen = when.is_selected(count) && (*probability >= 1.0 || happens(*probability, thrown()));
    let once_more = |fired: u64| (fired < times.unwrap_or(u64::MAX)).then_some(fired.saturating_add(1));
    if !is_chosen || scope.fired.fetch_update(Relaxed, Relaxed, once_more).is_err() {
        return None;
    }
    if let Some(totals) = totals {
        totals.fired.fetch_add(1, Relaxed);
    }
    Some(Firing { count, scope, totals })
}

/// Returns the scope in which a fault counts a call.
fn scope_of<'a>(plan: &'a LoadedPlan, rule: &LoadedFault, whose: &CountedCall) -> Option<&'a ScopeCounter> {
    let function = if rule.spec.together { u32::MAX } else { whose.id as u32 };
    let key = |whose: u64| scope_key(rule.number, function, whose);
    let joint = |key| {
        let scopes = match &plan.file {
            Some(file) => file.scopes(),
            None => shared::scopes()?,
        };
        claim(scopes, key, scopes.len())
    };
    let claimed = match rule.spec.per {
        CounterScope::Process => plan.scopes.claim(key(0)),
        CounterScope::Thread => plan.scopes.claim(key(private::thread_number())),
        CounterScope::Ctx => plan.scopes.claim(key(whose.context)),
        CounterScope::Rank => joint(key(u64::from(whose.rank))),
        CounterScope::Job => joint(key(u64::MAX)),
    };
    claimed.map(|(scope, _)| scope)
}
