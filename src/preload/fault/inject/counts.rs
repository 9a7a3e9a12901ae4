//! Counts the calls that match a fault, and decides whether the fault fires at one.

use super::loaded::{LoadedPlan, LoadedRule};
use super::scopes::claim;
use super::{private, shared};
use crate::log::message;
use core::sync::atomic::Ordering::Relaxed;
use cupeer_spec::fault::{Per, Rule, happens, purpose};
use cupeer_spec::function::FnId;
use cupeer_spec::record::faults::{Counter, Scope, scope_key};

/// The caller that a call is counted for.
pub struct Whose {
    pub id: FnId,
    /// The rank of the process; `u32::MAX` for none.
    pub rank: u32,
    /// The current context, for a fault that counts by it.
    pub context: u64,
}

/// A fault that fires at a call.
#[derive(Clone, Copy)]
pub struct Firing<'a> {
    /// The number of the call among those that the fault counts together, from 1.
    pub count: u64,
    scope: &'a Scope,
    totals: Option<&'a Counter>,
}

impl Firing<'_> {
    /// Decrements the counts. The fault had nothing to do, and a test must not appear to have tested something.
    pub fn take_back(&self) {
        self.scope.fired.fetch_sub(1, Relaxed);
        if let Some(totals) = self.totals {
            totals.fired.fetch_sub(1, Relaxed);
        }
    }
}

/// Counts a call that meets the conditions of a fault. `None` if the fault does not fire at it.
pub fn fires<'a>(plan: &'a LoadedPlan, rule: &LoadedRule, whose: &Whose) -> Option<Firing<'a>> {
    let totals = plan.totals(rule);
    if let Some(totals) = totals {
        totals.matched.fetch_add(1, Relaxed);
    }
    let Some(scope) = scope(plan, rule, whose) else {
        message::once(format_args!("no room to count for the fault {}: it does not fire", rule.spec.name));
        return None;
    };
    let count = scope.count.fetch_add(1, Relaxed) + 1;
    let Rule { when, probability, times, .. } = rule.spec;
    let thrown = || rule.spec.thrown(whose.rank, whose.id.spec().name(), count, purpose::FIRE);
    let is_chosen = when.has(count) && (*probability >= 1.0 || happens(*probability, thrown()));
    let once_more = |fired: u64| (fired < times.unwrap_or(u64::MAX)).then_some(fired.saturating_add(1));
    if !is_chosen || scope.fired.fetch_update(Relaxed, Relaxed, once_more).is_err() {
        return None;
    }
    if let Some(totals) = totals {
        totals.fired.fetch_add(1, Relaxed);
    }
    Some(Firing { count, scope, totals })
}

/// The scope in which a fault counts a call.
fn scope<'a>(plan: &'a LoadedPlan, rule: &LoadedRule, whose: &Whose) -> Option<&'a Scope> {
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
        Per::Process => plan.scopes.claim(key(0)),
        Per::Thread => plan.scopes.claim(key(private::thread_number())),
        Per::Ctx => plan.scopes.claim(key(whose.context)),
        Per::Rank => joint(key(u64::from(whose.rank))),
        Per::Job => joint(key(u64::MAX)),
    };
    claimed.map(|(scope, _)| scope)
}
