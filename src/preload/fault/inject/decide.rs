//! Decides about one call: which faults fire at it, whether a pair of devices is denied, and what replaces the call.

use super::arming::Using;
use super::counts::{self, Firing, Whose};
use super::facts::{self, Facts};
use super::loaded::{LoadedPlan, LoadedRule};
use super::{handles, live};
use crate::fault::{deny, forward::Forward};
use crate::sys::environment;
use core::cell::Cell;
use cupeer_spec::fault::{Error, Per, Stage, purpose};
use cupeer_spec::function::Direction;
use cupeer_spec::record::slot::hit::did;

/// The most rules that act at one call.
pub const MOST: usize = 8;

/// No bits of [`did`].
const NEVER: u16 = u16::MAX;

/// A rule that fired.
#[derive(Clone, Copy)]
pub struct Fired {
    pub plan: &'static LoadedPlan,
    pub rule: &'static LoadedRule,
    pub firing: Firing<'static>,
    /// What it did: [`did`].
    pub did: u16,
    /// What it waited, in nanoseconds.
    pub waited: u64,
}

/// What becomes of one call.
pub struct Fault<'a> {
    pub(super) call: &'a Forward<'a>,
    pub(super) fired: [Option<Fired>; MOST],
    /// Which pair, or the limit, denies it.
    pub(super) denied: Option<usize>,
    /// Whether one may, once it is made.
    pub(super) may_be_denied: bool,
    /// The number of the process in the job.
    pub(super) process: u16,
    pub(super) stack: u64,
    pub(super) rank: u32,
    /// The result in place of the call.
    pub instead: Option<i32>,
    /// What the real call returned, where it was made.
    pub(super) driver_result: Option<i32>,
    /// Whether the program sees another result or output than the driver's.
    pub is_altered: bool,
    /// Whether it gets a failure in place of the driver's success.
    pub(super) has_other_result: bool,
    /// Whether an output is not the driver's, so that the live table cannot take it for what is open.
    pub has_other_output: bool,
    /// Whether what the real call did was undone.
    pub(super) is_undone: bool,
    /// What stood where the outputs go, for a call that may be undone.
    pub(super) outputs: [Option<u64>; 2],
    /// What the record was told that the denial and the rules did; [`NEVER`] where it was not.
    pub(super) told: Cell<[u16; 1 + MOST]>,
    /// Keeps the plans.
    _using: Using,
}

impl<'a> Fault<'a> {
    /// Finds out what becomes of a call. `None` where nothing does.
    pub fn of(call: &'a Forward<'a>) -> Option<Fault<'a>> {
        live::look();
        let using = Using::now()?;
        using.index(call.id)?;
        facts::prepare(&using);
        handles::remember(call, Direction::In);
        let facts = Facts::of(call);
        let rank = environment::rank();
        let mut fired = [None; MOST];
        let mut count = 0;
        for member in using.index(call.id).map_or(&[][..], |index| &index.rules) {
            if count == MOST || !member.plan.is_armed() || !facts.meet(member.plan, member.rule) {
                continue;
            }
            let context = if member.rule.rule.per == Per::Ctx { facts.context() } else { 0 };
            let whose = Whose { id: call.id, rank, context };
            if let Some(firing) = counts::fires(member.plan, member.rule, &whose) {
                let did = if member.plan.is_dry { did::DRY } else { 0 };
                fired[count] = Some(Fired { plan: member.plan, rule: member.rule, firing, did, waited: 0 });
                count += 1;
            }
        }
        let may_be_denied = deny::concerns(call.id);
        let denied = if may_be_denied { deny::before(call) } else { None };
        let is_remembered = using.plans.iter().any(|plan| plan.follows || plan.keeps_handles);
        if count == 0 && !may_be_denied && !is_remembered {
            return None;
        }
        let stack = if count > 0 || denied.is_some() { facts.stack() } else { 0 };
        let mut fault = Fault {
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
            told: Cell::new([NEVER; 1 + MOST]),
            _using: using,
        };
        // That of a denied pair comes before that of a rule.
        if let Some((fired, error)) = fault.first_error()
            && fault.denied.is_none()
            && fired.rule.rule.action.stage == Stage::Instead
        {
            fault.instead = Some(fault.code(&fired, error));
        }
        Some(fault)
    }

    /// The first rule that has a result.
    pub(super) fn first_error(&self) -> Option<(Fired, Error)> {
        self.acting().find_map(|fired| Some((*fired, fired.rule.rule.action.error?)))
    }

    /// A rule that fired and is not only tried.
    pub(super) fn acting_at(&self, index: usize) -> Option<Fired> {
        self.fired[index].filter(|fired| fired.did & did::DRY == 0)
    }

    /// All of these.
    pub(super) fn acting(&self) -> impl Iterator<Item = &Fired> {
        self.fired.iter().flatten().filter(|fired| fired.did & did::DRY == 0)
    }

    pub(super) fn thrown(&self, fired: &Fired, purpose: u64) -> u64 {
        fired.rule.rule.thrown(self.rank, self.call.id.spec().name(), fired.firing.count, purpose)
    }

    /// The number of a rule's result.
    pub(super) fn code(&self, fired: &Fired, error: Error) -> i32 {
        match error {
            Error::Code(code) => code,
            Error::Any => {
                let spec = self.call.id.spec();
                let count = spec.failures().count().max(1);
                let chosen = self.thrown(fired, purpose::ANY) as usize % count;
                spec.failures().nth(chosen).unwrap_or(999)
            }
        }
    }

    /// Whether anything fired, or was denied so far.
    pub fn is_hit(&self) -> bool {
        self.denied.is_some() || self.fired[0].is_some()
    }
}
