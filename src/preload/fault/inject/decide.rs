//! Decides about one call: which faults fire at it, whether a pair of devices is denied, and what replaces the call.

use super::arming::PlansInUse;
use super::counts::{self, CountedCall, Firing};
use super::facts::{self, Facts};
use super::index::FunctionFault;
use super::loaded::{LoadedFault, LoadedPlan};
use super::{handles, live};
use crate::fault::{deny, forward::ForwardedCall};
use crate::sys::environment;
use core::cell::Cell;
use cupeer_spec::fault::{CounterScope, FaultResult, RealCallTreatment, purpose};
use cupeer_spec::function::{Direction, FnId};
use cupeer_spec::record::slot::hit::did;

/// Number of faults that can fire at one call. Further faults are neither tested nor counted at that call.
pub const MOST: usize = 8;

/// Value that is not a combination of the bits of [`did`]: nothing is recorded yet.
const NEVER: u16 = u16::MAX;

/// Fault that fired at a call.
#[derive(Clone, Copy)]
pub struct FiredFault {
    pub plan: &'static LoadedPlan,
    pub rule: &'static LoadedFault,
    pub firing: Firing<'static>,
    /// Effects of the fault on the call, as bits of [`did`].
    pub did: u16,
    /// Time by which the fault delayed the call, in nanoseconds.
    pub waited: u64,
}

/// Faults that fire at one call, the denial of the call, and their effects.
pub struct CallFaults<'a> {
    pub(super) call: &'a ForwardedCall<'a>,
    pub(super) fired: [Option<FiredFault>; MOST],
    /// Index of the denied pair, or of the limit of peers, because of which the call is denied.
    pub(super) denied: Option<usize>,
    /// True if a denied pair may change the outputs of the call.
    pub(super) may_be_denied: bool,
    /// Number of the process in the job.
    pub(super) process: u16,
    pub(super) stack: u64,
    pub(super) rank: u32,
    /// Result in place of the driver's, for a call that is not forwarded.
    pub instead: Option<i32>,
    /// Result of the driver, if the call was forwarded.
    pub(super) driver_result: Option<i32>,
    /// True if the program gets a result or an output that is not the driver's.
    pub is_altered: bool,
    /// True if the program gets a failure in place of the driver's success.
    pub(super) has_other_result: bool,
    /// True if an output is not the driver's, so that the live table must not store it.
    pub has_other_output: bool,
    /// True if the effect of the driver's call was undone.
    pub(super) is_undone: bool,
    /// Values of the outputs before the call, for a call that may be undone.
    pub(super) outputs: [Option<u64>; 2],
    /// Bits of [`did`] that are in the record already, for the denial and then for each fault; [`NEVER`] if none are.
    pub(super) recorded: Cell<[u16; 1 + MOST]>,
    /// Use of the plans, which keeps them from being unmapped.
    _using: PlansInUse,
}

impl FiredFault {
    /// Returns true if the fault acts on the call; false in a dry run.
    pub fn is_acting(&self) -> bool {
        self.did & did::DRY == 0
    }

    /// Returns a pseudorandom number, which depends only on the fault, the call, and the purpose.
    pub fn random(&self, id: FnId, rank: u32, purpose: u64) -> u64 {
        self.rule.spec.pseudorandom_for(rank, id.spec().name(), self.firing.count, purpose)
    }
}

impl<'a> CallFaults<'a> {
    /// Decides about a call. `None` if no fault fires at the call, no denied pair may concern it, and no plan tracks it.
    pub fn decide(call: &'a ForwardedCall<'a>) -> Option<CallFaults<'a>> {
        live::poll();
        let using = PlansInUse::mark_in_use()?;
        using.faults_of(call.id)?;
        facts::choose_faults_of_process(&using);
        handles::remember(call, Direction::In);
        let facts = Facts::new(call);
        let rank = environment::rank();
        let mut fired = [None; MOST];
        let mut free = fired.iter_mut();
        for member in using.faults_of(call.id).map_or(&[][..], |index| &index.members) {
            let &FunctionFault { plan, rule, .. } = member;
            if free.len() == 0 || !plan.is_armed() || !facts.meet(plan, rule) {
                continue;
            }
            let context = if rule.spec.per == CounterScope::Ctx { facts.context() } else { 0 };
            let whose = CountedCall { id: call.id, rank, context };
            if let Some(firing) = counts::count_and_decide(plan, rule, &whose)
                && let Some(place) = free.next()
            {
                let did = if plan.is_dry { did::DRY } else { 0 };
                *place = Some(FiredFault { plan, rule, firing, did, waited: 0 });
            }
        }
        let is_any = fired[0].is_some();
        let may_be_denied = deny::is_function_examined(call.id);
        let denied = if may_be_denied { deny::deny_before_call(call) } else { None };
        let is_remembered = using.plans.iter().any(|plan| plan.follows || plan.keeps_handles);
        if !is_any && !may_be_denied && !is_remembered {
            return None;
        }
        let stack = if is_any || denied.is_some() { facts.stack() } else { 0 };
        let mut fault = CallFaults {
            call,
            fired,
            denied: denied.map(|denied| denied.which),
            may_be_denied,
            process: facts::process_number().min(u64::from(u16::MAX)) as u16,
            stack,
            rank,
            instead: denied.map(|denied| denied.result),
            driver_result: None,
            is_altered: false,
            has_other_result: false,
            has_other_output: false,
            is_undone: false,
            outputs: [None; 2],
            recorded: Cell::new([NEVER; 1 + MOST]),
            _using: using,
        };
        // The result of a denied pair takes precedence over that of a fault.
        if let Some((fired, error)) = fault.first_error()
            && fault.denied.is_none()
            && fired.rule.spec.action.stage == RealCallTreatment::Instead
        {
            fault.instead = Some(fault.code(&fired, error));
        }
        Some(fault)
    }

    /// Returns the first fault that fired and that has a result, and the result.
    pub(super) fn first_error(&self) -> Option<(FiredFault, FaultResult)> {
        self.acting_faults().find_map(|fired| Some((*fired, fired.rule.spec.action.error?)))
    }

    /// Returns the faults that fired, without those of a dry run.
    pub(super) fn acting_faults(&self) -> impl Iterator<Item = &FiredFault> {
        self.fired.iter().flatten().filter(|fired| fired.is_acting())
    }

    /// Returns a pseudorandom number for a fault at this call.
    pub(super) fn random(&self, fired: &FiredFault, purpose: u64) -> u64 {
        fired.random(self.call.id, self.rank, purpose)
    }

    /// Returns the result code with which a fault replaces the driver's result.
    pub(super) fn code(&self, fired: &FiredFault, error: FaultResult) -> i32 {
        match error {
            FaultResult::Code(code) => code,
            FaultResult::Any => {
                let spec = self.call.id.spec();
                let count = spec.failures().count().max(1);
                let chosen = self.random(fired, purpose::ANY) as usize % count;
                spec.failures().nth(chosen).unwrap_or(999)
            }
        }
    }

    /// Returns true if a fault fired at the call, even in a dry run, or a denied pair denied the call.
    pub fn is_hit_or_denied(&self) -> bool {
        self.denied.is_some() || self.fired[0].is_some()
    }
}
