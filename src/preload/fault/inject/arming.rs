//! Tracks which plans are armed: the plan of the environment from the start, and those that the program arms itself.
//!
//! Armed plans change as a whole: another [`ArmedPlans`] replaces the previous one. A thread that examines a call
//! marks the plans that it uses, so that the memory of a plan is unmapped only when no thread uses it.

use super::conditions::is_met_by_text;
use super::index::ArmedPlans;
use super::loaded::{LoadedFault, LoadedPlan};
use super::plan_file::PlanFile;
use super::shared;
use crate::fault::deny;
use crate::log::message;
use crate::resolve::traced;
use crate::settings::Settings;
use crate::sys::every_call::{EVERY_CALL, UNREAD, follows_plans};
use crate::sys::memory;
use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use cupeer_shared::users::{self, UserCount};
use cupeer_spec::fault::{ConditionKey, FaultPlan};
use cupeer_spec::function::FnId;

/// Use of the armed plans by a thread. The plans stay mapped until this is dropped.
pub struct PlansInUse(&'static ArmedPlans);

impl PlansInUse {
    /// Returns the plans that are armed at present, and marks them as used; `None` if no plans are armed.
    pub fn mark_in_use() -> Option<PlansInUse> {
        loop {
            let pointer = EVERY_CALL.armed.load(Acquire);
            let armed = plans_at(pointer)?;
            if users::register_user(&EVERY_CALL.armed, pointer, armed.users()) {
                return Some(PlansInUse(armed));
            }
        }
    }
}

impl core::ops::Deref for PlansInUse {
    type Target = ArmedPlans;
    fn deref(&self) -> &ArmedPlans {
        self.0
    }
}

impl Drop for PlansInUse {
    fn drop(&mut self) {
        users::unregister_user(self.0.users());
    }
}

impl ArmedPlans {
    fn users(&self) -> impl Iterator<Item = &UserCount> + Clone {
        self.plans.iter().map(|plan| &plan.users)
    }
}

/// Returns the plans that were published as `pointer`; `None` for null and [`UNREAD`].
fn plans_at(pointer: *mut c_void) -> Option<&'static ArmedPlans> {
    // SAFETY: null, or a value that is never freed.
    (pointer != UNREAD).then(|| unsafe { pointer.cast::<ArmedPlans>().as_ref() }).flatten()
}

/// Arms the plan and the denied pairs in the settings. Not inlined, because this needs more stack than most processes touched at
/// their start.
#[cold]
#[inline(never)]
pub fn arm_at_start(settings: &'static Settings) {
    // A constructor of the program may have armed a plan before.
    let done = with_memory_for_plans(settings.inject.as_ref(), &|plan| {
        shared::compose_text(settings);
        let loaded = plan.map(|plan| &*Box::leak(Box::new(LoadedPlan::new(0, plan, settings.is_dry))));
        replace(|armed| Some(loaded.into_iter().chain(armed.iter().copied()).collect()));
    });
    if done.is_none() {
        message::print_when_driver_reached(&"out of memory for fault plans: nothing is injected, and nothing denied");
    }
}

/// Runs `work` after reserving memory for the armed plans and for `plan`. `None` if there is no memory.
fn with_memory_for_plans<T>(
    plan: Option<&'static FaultPlan>,
    work: &dyn Fn(Option<&'static FaultPlan>) -> T,
) -> Option<T> {
    let using = PlansInUse::mark_in_use();
    let armed = using.iter().flat_map(|armed| &armed.plans).flat_map(|plan| &plan.rules).map(|rule| rule.spec);
    let rules = plan.iter().flat_map(|plan| &plan.rules).chain(armed);
    let texts = rules.clone().map(|rule| rule.name.len() + rule.text.len() + 16).sum::<usize>();
    let bytes = ArmedPlans::memory_of(rules) + 2 * texts;
    memory::run_with_reserved_memory(bytes, || (work(plan), true))
}

/// Replaces the armed plans by the plans that `change` returns. Returns false, and changes nothing, if `change` returns `None`.
fn replace(change: impl Fn(&[&'static LoadedPlan]) -> Option<Vec<&'static LoadedPlan>>) -> bool {
    loop {
        let old = EVERY_CALL.armed.load(Acquire);
        let plans = plans_at(old).map_or(&[][..], |armed| &armed.plans);
        let Some(plans) = change(plans) else { return false };
        let armed = ArmedPlans::new(plans, deny::is_function_examined);
        let is_any = follows_plans() || FnId::all().any(|id| armed.faults_of(id).is_some());
        let new = if is_any { Box::into_raw(Box::new(armed)) } else { ptr::null_mut() };
        if EVERY_CALL.armed.compare_exchange(old, new.cast(), SeqCst, Acquire).is_ok() {
            return true;
        }
        if !new.is_null() {
            // SAFETY: made above and not published.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

/// Arms a plan that has the number `id`. `None` if there is no memory.
pub fn arm_loaded(id: u32, plan: &'static FaultPlan, file: Option<PlanFile>, is_dry: bool) -> Option<()> {
    let file = Cell::new(file);
    let armed = with_memory_for_plans(Some(plan), &|plan| {
        let loaded = LoadedPlan { file: file.take(), ..LoadedPlan::new(id, plan?, is_dry) };
        let loaded: &'static LoadedPlan = Box::leak(Box::new(loaded));
        // Mapped now, so that a child that is forked before the first hit counts where its parent looks.
        loaded.rules.iter().take(1).for_each(|rule| _ = loaded.counts_of_fault(rule));
        replace(|plans| Some(plans.iter().copied().chain([loaded]).collect()));
        Some(loaded)
    });
    traced::add_plan(&armed.flatten()?.functions);
    Some(())
}

/// Publishes the armed plans again, so that calls are examined even if no plan is armed.
pub fn publish_anew() {
    let done = with_memory_for_plans(None, &|_| replace(|plans| Some(plans.to_vec())));
    if done.is_none() {
        message::print_when_driver_reached(
            &"out of memory for fault plans: those that are armed from outside are not used",
        );
    }
}

/// Returns the plan with a number, if it is armed in this process.
pub fn loaded(id: u32) -> Option<&'static LoadedPlan> {
    with_loaded(id, |plan| plan)
}

/// Runs `work` on the plan with a number, if it is armed in this process. The plan's counts stay mapped while `work` runs.
pub fn with_loaded<T>(id: u32, work: impl FnOnce(&'static LoadedPlan) -> T) -> Option<T> {
    let using = PlansInUse::mark_in_use()?;
    let is_it = |plan: &&LoadedPlan| id != 0 && plan.id == id && !plan.is_over.load(Relaxed);
    using.plans.iter().copied().find(is_it).map(work)
}

/// Disarms a plan in this process, and releases the calls that hang because of the plan. Returns false if the plan was not armed.
/// [`LoadedPlan::unmap`] frees the plan's counts.
pub fn disarm_here(plan: &'static LoadedPlan) -> bool {
    let id = plan.id;
    let is_other = |other: &&&'static LoadedPlan| other.id != id;
    let without = |plans: &[&'static LoadedPlan]| {
        plans.iter().any(|plan| plan.id == id).then(|| plans.iter().filter(is_other).copied().collect())
    };
    match with_memory_for_plans(None, &|_| replace(without)) {
        Some(true) => traced::remove_plan(&plan.functions),
        Some(false) => return false,
        // The plan stays in the list, and is skipped.
        None if plan.is_over.swap(true, SeqCst) => return false,
        None => {}
    }
    // Releases the calls that hang because of the plan.
    plan.is_over.store(true, SeqCst);
    true
}

/// Sets `has_mark` for the faults that wait for a mark with this text, because the program set one.
pub fn note_program_mark(text: &[u8]) {
    let Some(using) = PlansInUse::mark_in_use() else { return };
    for rule in using.plans.iter().flat_map(|plan| &plan.rules) {
        if rule.spec.conditions.iter().any(|one| one.key == ConditionKey::Mark && is_met_by_text(one, text)) {
            rule.has_mark.store(true, Release);
        }
    }
}

/// Releases the calls that hang under a label in this process, and all later ones. Returns the number of calls that hang at
/// present.
pub fn release(label: &str) -> u32 {
    let Some(using) = PlansInUse::mark_in_use() else { return 0 };
    let rules = using.plans.iter().flat_map(|plan| &plan.rules);
    let is_it = |rule: &&LoadedFault| rule.spec.action.hang.as_deref() == Some(label);
    rules.filter(is_it).fold(0, |hanging, rule| {
        rule.is_released.store(true, Release);
        hanging + rule.hanging.load(Relaxed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::inject::memory_of;
    use crate::sys::memory::{run_with_reserved_memory, taken};

    const MUCH: usize = 1 << 30;

    /// Plans of about `length` bytes that take much memory for their length.
    fn plans(length: usize) -> Vec<(usize, String)> {
        let of = |rule: &dyn Fn(usize) -> String| {
            let mut text = String::new();
            (0..).map(rule).take_while(|rule| rule.len() < length).find(|rule| {
                text = core::mem::take(&mut text) + rule + ";";
                text.len() >= length
            });
            text
        };
        let texts = vec![
            of(&|_| "*:delay=1s".into()),
            of(&|_| "cuInit:hang".into()),
            of(&|_| "@peer:hang".into()),
            of(&|i| format!("cuDevice*Peer*:dev={i}:hang")),
            of(&|i| format!("cuDeviceCanAccessPeer:dev=^{}:peer={}..:hang", i % 64, i)),
            of(&|i| format!("cuInit:hang=a:exit=1:name=n{i}")),
            of(&|i| format!("cuInit:thread=a,b,c,d:program=^e,f,g:caller=h*:hang=l{i}")),
            "cuDeviceCanAccessPeer:hang:dev=".to_owned()
                + &(0..length / 2).map(|i| format!("{},", i % 10)).collect::<String>()
                + "1",
            "cuInit:hang:thread=".to_owned() + &"a,".repeat(length / 2) + "a",
            "cuIpcGetMemHandle:".to_owned() + &"x".repeat(length),
            "x".repeat(length),
            of(&|_| "\n".into()) + "cuInit",
        ];
        texts.into_iter().map(|text| (text.len(), text)).collect()
    }

    #[test]
    fn plans_take_no_more_memory_than_was_reserved() {
        let (mut read, mut refused) = (0, 0);
        for (length, text) in [0, 10, 100, 1000, 10_000, 130_000].into_iter().flat_map(plans) {
            let about = format!("{} ({length})", &text[..text.len().min(60)]);
            // A message of a failure must not lie in a region.
            let look = |took: usize, reckoned: usize| {
                assert!(took <= reckoned, "{about}: {took} bytes, and not {reckoned}");
            };
            let parsed = run_with_reserved_memory(MUCH, || {
                let plan = FaultPlan::parse("inject", &text).map(|plan| &*Box::leak(Box::new(plan)));
                ((plan.ok(), taken()), true)
            });
            let (plan, took) = parsed.expect("memory");
            look(took, memory_of(text.len()));
            let Some(plan) = plan else {
                refused += 1;
                continue;
            };
            read += 1;
            let armed = run_with_reserved_memory(MUCH, || {
                let loaded: &'static LoadedPlan = Box::leak(Box::new(LoadedPlan::new(1, plan, false)));
                Box::leak(Box::new(ArmedPlans::new(vec![loaded], |_| true)));
                (taken(), true)
            });
            look(armed.expect("memory"), ArmedPlans::memory_of(plan.rules.iter()));
        }
        assert!(read >= 30 && refused >= 10, "{read} {refused}");
    }
}
