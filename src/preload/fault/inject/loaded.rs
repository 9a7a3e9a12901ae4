//! A plan in this process: its faults, what it has counted, and the threads that look at it.

use super::board::PlanFile;
use super::scopes::Scopes;
use super::{private, shared};
use crate::settings::inject::functions;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};
use cupeer_shared::users::Users;
use cupeer_spec::fault::{Plan, Rule};
use cupeer_spec::record::faults::Counter;
use cupeer_spec::selector::FunctionSet;

/// A plan that is or was armed.
pub struct LoadedPlan {
    /// 0 for that of the environment.
    pub id: u32,
    /// Its file, where other processes have it, too.
    pub file: Option<PlanFile>,
    pub rules: Vec<LoadedRule>,
    /// Whether it is only tried.
    pub is_dry: bool,
    /// Whether a rule looks at what the call before returned, or at the order of processes: then all calls are looked at.
    pub follows: bool,
    /// Whether a rule puts one handle in the place of another.
    pub keeps_handles: bool,
    /// The functions that it looks at.
    pub functions: FunctionSet,
    /// What counts calls.
    pub scopes: Scopes,
    /// What rules of a plan of the program's own have done; shared with forked children.
    pub totals: AtomicPtr<Counter>,
    /// Threads that are looking at it.
    pub users: Users,
    /// Whether it was taken back here, though it may still be among those that are armed.
    pub is_over: AtomicBool,
}

/// A rule of it.
pub struct LoadedRule {
    pub rule: &'static Rule,
    pub number: u32,
    /// Whether a mark was set that it waits for.
    pub has_mark: AtomicBool,
    /// Whether what hangs by it may go on.
    pub is_released: AtomicBool,
    /// How many calls hang by it now.
    pub hanging: AtomicU32,
}

impl LoadedPlan {
    /// A plan that nobody has counted for yet.
    pub fn new(id: u32, plan: &'static Plan, is_dry: bool) -> LoadedPlan {
        let rules = plan.rules.iter().zip(0..).map(|(rule, number)| LoadedRule {
            rule,
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
            follows: plan.follows(),
            keeps_handles: plan.keeps_handles(),
            functions: functions(plan),
            scopes: Scopes::of(&plan.rules),
            totals: AtomicPtr::new(ptr::null_mut()),
            users: Users::new(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Whether its rules are looked at.
    pub fn is_armed(&self) -> bool {
        !self.is_over.load(Relaxed) && self.file.as_ref().is_none_or(PlanFile::is_armed)
    }

    /// Whether the program armed it itself, or a process above it.
    pub fn is_of_program(&self) -> bool {
        self.file.as_ref().is_none_or(PlanFile::has_root)
    }

    /// What is counted of a rule. `None` where there is no memory.
    pub fn totals(&self, rule: &LoadedRule) -> Option<&Counter> {
        if self.id == 0 {
            return shared::counter(rule.number);
        }
        if let Some(file) = &self.file {
            return file.counters().get(rule.number as usize);
        }
        self.own_totals(rule, private::map_shared)
    }

    fn own_totals(&self, rule: &LoadedRule, map: fn(usize) -> *mut c_void) -> Option<&Counter> {
        let totals = private::map_once(&self.totals, self.totals_size(), map);
        // SAFETY: mapped for as long as the plan has users, with room for each rule, and used only as atomics.
        (!totals.is_null()).then(|| unsafe { &*totals.add(rule.number as usize) })
    }

    /// How many calls its rules have matched, and at how many they fired.
    pub fn sum(&self) -> (u64, u64) {
        let totals = self.rules.iter().filter_map(|rule| self.totals(rule));
        totals.fold((0, 0), |(matched, fired), totals| {
            (matched + totals.matched.load(Relaxed), fired + totals.fired.load(Relaxed))
        })
    }

    fn totals_size(&self) -> usize {
        self.rules.len() * size_of::<Counter>()
    }

    /// Unmaps what it has counted, if nobody looks at it any more: asked after it was taken out of those that are armed.
    pub fn give_back(&self) {
        if !self.users.are_gone() {
            return;
        }
        self.scopes.give_back();
        self.file.iter().for_each(PlanFile::give_back);
        let totals = self.totals.swap(ptr::null_mut(), SeqCst);
        if !totals.is_null() {
            // SAFETY: mapped with this size, and nobody looks at it any more.
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
            Plan::parse("own", "cuIpcGetMemHandle:delay=1s;cuDeviceCanAccessPeer:delay=1s").expect("a plan");
        let loaded = LoadedPlan::new(1, Box::leak(Box::new(plan)), false);
        for rule in &loaded.rules {
            assert!(loaded.own_totals(rule, |_| ptr::null_mut()).is_none(), "rule {}", rule.number);
        }
        assert!(loaded.rules.iter().all(|rule| loaded.totals(rule).is_some()));
    }
}
