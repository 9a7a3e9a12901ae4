//! Counts the calls that match a fault, and decides whether the fault fires at one.

use super::loaded::{LoadedPlan, LoadedRule};
use super::scopes::{TOGETHER, claim};
use super::{private, shared};
use crate::log::message;
use core::sync::atomic::Ordering::Relaxed;
use cupeer_spec::fault::{Per, Rule, happens, purpose};
use cupeer_spec::function::FnId;
use cupeer_spec::record::faults::{Counter, Scope, scope_key};

/// Who is counted for.
pub struct Whose {
    pub id: FnId,
    /// The rank of the process; `u32::MAX` for none.
    pub rank: u32,
    /// The current context, where a rule counts by it.
    pub context: u64,
}

/// That a rule fires at a call.
#[derive(Clone, Copy)]
pub struct Firing<'a> {
    /// The number of the call among those that the rule counts together, from 1.
    pub count: u64,
    scope: &'a Scope,
    totals: Option<&'a Counter>,
}

impl Firing<'_> {
    /// Counts one time less: there was nothing to do, and a test of nothing shall not look like one.
    pub fn take_back(&self) {
        self.scope.fired.fetch_sub(1, Relaxed);
        if let Some(totals) = self.totals {
            totals.fired.fetch_sub(1, Relaxed);
        }
    }
}

/// Counts a call that meets the conditions of a rule, and says whether the rule fires at it.
pub fn fires<'a>(plan: &'a LoadedPlan, rule: &LoadedRule, whose: &Whose) -> Option<Firing<'a>> {
    let totals = plan.totals(rule);
    if let Some(totals) = totals {
        totals.matched.fetch_add(1, Relaxed);
    }
    let Some(scope) = scope(plan, rule, whose) else {
        message::once(format_args!("no room to count for the fault {}: it does not fire", rule.rule.name));
        return None;
    };
    let count = scope.count.fetch_add(1, Relaxed) + 1;
    let Rule { when, probability, times, .. } = rule.rule;
    let thrown = || rule.rule.thrown(whose.rank, whose.id.spec().name(), count, purpose::FIRE);
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

fn scope<'a>(plan: &'a LoadedPlan, rule: &LoadedRule, whose: &Whose) -> Option<&'a Scope> {
    let function = if rule.rule.together { TOGETHER } else { whose.id as usize };
    let key = |whose: u64| {
        let function = if rule.rule.together { u32::MAX } else { function as u32 };
        scope_key(rule.number, function, whose)
    };
    let shared = || match &plan.file {
        Some(file) => Some(file.scopes()),
        None => shared::scopes(),
    };
    let joint = |key| shared().and_then(|scopes| claim(scopes, key, scopes.len()));
    let claimed = match rule.rule.per {
        Per::Process => return plan.scopes.direct(rule.number, function),
        Per::Thread => plan.scopes.hashed(key(private::thread_number())),
        Per::Ctx => plan.scopes.hashed(key(whose.context)),
        Per::Rank => joint(key(u64::from(whose.rank))),
        Per::Job => joint(key(u64::MAX)),
    };
    claimed.map(|(scope, _)| scope)
}
