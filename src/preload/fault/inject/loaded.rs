//! A plan in this process: its faults, its counts, and the threads that use it.

use super::plan_file::PlanFile;
use super::scopes::Scopes;
use super::{private, shared};
use crate::settings::inject::examined_functions;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};
use cupeer_shared::users::UserCount;
use cupeer_spec::fault::{FaultPlan, PlannedFault};
use cupeer_spec::record::faults::FaultCounter;
use cupeer_spec::selector::FunctionSet;

/// Plan that is armed, or was armed before.
pub struct LoadedPlan {
    /// Number of the plan; 0 for the plan of the environment.
    pub id: u32,
    /// File of the plan, if other processes have the plan as well.
    pub file: Option<PlanFile>,
    pub rules: Vec<LoadedFault>,
    /// True for a dry run: the faults of the plan are reported, and change nothing.
    pub is_dry: bool,
    /// True if a condition is about the previous call, or about the order of processes, so that all calls are examined.
    pub follows: bool,
    /// True if a fault replaces a handle with another handle.
    pub keeps_handles: bool,
    /// The functions whose calls are examined.
    pub functions: FunctionSet,
    pub scopes: Scopes,
    /// Counts of the faults of a plan that the program armed, which forked children share; null before their first use.
    pub totals: AtomicPtr<FaultCounter>,
    /// Threads that use the plan.
    pub users: UserCount,
    /// True if the plan was disarmed in this process. It may still be among the armed plans.
    pub is_over: AtomicBool,
}

/// Fault of a plan in this process.
pub struct LoadedFault {
    /// Definition of the fault in the plan.
    pub spec: &'static PlannedFault,
    pub number: u32,
    /// True if the program set the mark that the fault waits for.
    pub has_mark: AtomicBool,
    /// True if the calls that hang because of the fault may continue.
    pub is_released: AtomicBool,
    /// Number of calls that hang because of the fault.
    pub hanging: AtomicU32,
}

impl LoadedPlan {
    /// Returns a plan whose counts are not mapped yet.
    pub fn new(id: u32, plan: &'static FaultPlan, is_dry: bool) -> LoadedPlan {
        let rules = plan.rules.iter().zip(0..).map(|(rule, number)| LoadedFault {
            spec: rule,
            number,
            has_mark: AtomicBool::new(false),
            is_released: AtomicBool::new(false),
            hanging: AtomicU32::new(0),
        });
        LoadedPlan {
            id,
            file: None,
            rules: rules.collect(),
            is_dry,
            follows: plan.needs_every_call(),
            keeps_handles: plan.needs_stored_handles(),
            functions: examined_functions(plan),
            scopes: Scopes::new(),
            totals: AtomicPtr::new(ptr::null_mut()),
            users: UserCount::new(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns true if the faults of the plan can fire.
    pub fn is_armed(&self) -> bool {
        !self.is_over.load(Relaxed) && self.file.as_ref().is_none_or(PlanFile::is_armed)
    }

    /// Returns true if the program or one of its ancestors armed the plan.
    pub fn is_armed_by_program(&self) -> bool {
        self.file.as_ref().is_none_or(PlanFile::is_armed_by_process)
    }

    /// Returns the counts of a fault of the plan. `None` if there is no memory for them.
    pub fn counts_of_fault(&self, rule: &LoadedFault) -> Option<&FaultCounter> {
        if self.id == 0 {
            return shared::counter(rule.number);
        }
        if let Some(file) = &self.file {
            return file.counters().get(rule.number as usize);
        }
        self.own_totals(rule, private::map_shared)
    }

    fn own_totals(&self, rule: &LoadedFault, map: fn(usize) -> *mut c_void) -> Option<&FaultCounter> {
        let totals = private::map_once(&self.totals, self.totals_size(), map);
        // SAFETY: mapped for as long as the plan has users, with room for each fault, and used only as atomics.
        (!totals.is_null()).then(|| unsafe { &*totals.add(rule.number as usize) })
    }

    /// Returns the number of calls that faults of the plan matched, and the number of calls at which they fired.
    pub fn total_counts(&self) -> (u64, u64) {
        let totals = self.rules.iter().filter_map(|rule| self.counts_of_fault(rule));
        totals.fold((0, 0), |(matched, fired), totals| {
            (matched + totals.matched.load(Relaxed), fired + totals.fired.load(Relaxed))
        })
    }

    fn totals_size(&self) -> usize {
        self.rules.len() * size_of::<FaultCounter>()
    }

    /// Unmaps the counts, unless a thread still uses the plan. Must run after the plan was removed from the armed plans.
    pub fn unmap(&self) {
        if !self.users.is_unused() {
            return;
        }
        self.scopes.unmap();
        self.file.iter().for_each(PlanFile::unmap);
        let totals = self.totals.swap(ptr::null_mut(), SeqCst);
        if !totals.is_null() {
            // SAFETY: mapped with this size, and no thread uses it any more.
            unsafe { libc::munmap(totals.cast::<c_void>(), self.totals_size()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_memory_nothing_is_counted() {
        let plan =
            FaultPlan::parse("own", "cuIpcGetMemHandle:delay=1s;cuDeviceCanAccessPeer:delay=1s").expect("a plan");
        let loaded = LoadedPlan::new(1, Box::leak(Box::new(plan)), false);
        for rule in &loaded.rules {
            assert!(loaded.own_totals(rule, |_| ptr::null_mut()).is_none(), "rule {}", rule.number);
        }
        assert!(loaded.rules.iter().all(|rule| loaded.counts_of_fault(rule).is_some()));
    }
}
