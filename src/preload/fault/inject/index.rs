//! Finds the armed faults that can concern a call from its arguments alone.
//!
//! Each fault of the function is tested in turn: a hundred of them take about 250 ns, ten take 20 to 30.

use super::conditions::{deciding_argument, is_met_by_number};
use super::loaded::{LoadedFault, LoadedPlan};
use super::private;
use crate::fault::forward::ArgumentWords;
use crate::settings::inject::is_counted_as_earlier;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use cupeer_spec::fault::{FaultCondition, PlannedFault};
use cupeer_spec::function::{FUNCTION_COUNT, FnId};

/// Index of all armed faults by function. Never freed once it is published, because a thread may be reading
/// it.
pub struct ArmedPlans {
    functions: Box<[Option<FunctionFaults>; FUNCTION_COUNT]>,
    /// Armed plans, in the order in which their faults are tested.
    pub plans: Vec<&'static LoadedPlan>,
}

/// Armed faults of one function.
pub struct FunctionFaults {
    /// Faults, in the order in which they are tested.
    pub members: Vec<FunctionFault>,
    /// True if every call is examined, whatever its arguments: a denied pair may concern the call, or a plan
    /// tracks it.
    is_always: bool,
}

/// Armed fault, among the faults of one function. A fault that names several functions has one entry for each of them.
pub struct FunctionFault {
    pub plan: &'static LoadedPlan,
    pub rule: &'static LoadedFault,
    /// True if the fault can concern this process: see [`ArmedPlans::mark_faults_of_process`].
    is_of_process: AtomicBool,
    /// Conditions that one argument decides, each with the index of this argument.
    conditions: Box<[(usize, &'static FaultCondition)]>,
}

impl ArmedPlans {
    /// Returns the index of the faults of some plans. `is_always` returns true for a function of which every
    /// call is examined.
    pub fn new(plans: Vec<&'static LoadedPlan>, is_always: impl Fn(FnId) -> bool) -> ArmedPlans {
        let follows = plans.iter().any(|plan| plan.follows);
        let keeps = plans.iter().any(|plan| plan.keeps_handles);
        let index = |i| {
            let id = FnId::at(i);
            let has_handle = id.spec().args().iter().any(|arg| arg.is_ipc_handle());
            let rules = || plans.iter().flat_map(|plan| plan.rules.iter().map(move |rule| (*plan, rule)));
            let named = || rules().filter(|(_, rule)| rule.spec.functions.contains(i));
            // The exact capacity, because the memory of a list that grows is not reused.
            let mut members = Vec::with_capacity(named().count());
            members.extend(named().map(|(plan, rule)| FunctionFault::new(id, plan, rule)));
            let is_always = is_always(id) || follows && is_counted_as_earlier(id) || keeps && has_handle;
            (is_always || !members.is_empty()).then_some(FunctionFaults { members, is_always })
        };
        // Built where it stays: the array is larger than what a small stack has room for.
        let all: Vec<Option<FunctionFaults>> = (0..FUNCTION_COUNT).map(index).collect();
        let Ok(functions) = all.try_into() else { unreachable!("one for each function") };
        ArmedPlans { functions, plans }
    }

    /// Returns the memory in bytes that arming some faults takes, for their plans and for the index.
    pub fn memory_of<'a>(rules: impl Iterator<Item = &'a PlannedFault>) -> usize {
        // Number of bytes for the fixed part of each function with faults.
        const LISTS: usize = 2048;
        const MEMBER: usize = 2 * size_of::<FunctionFault>();
        let (mut bytes, mut is_named) = (0, [false; FUNCTION_COUNT]);
        for rule in rules {
            let conditions = rule.conditions.len() * size_of::<(usize, &FaultCondition)>();
            bytes += 2 * size_of::<LoadedFault>();
            for (_, is_named) in is_named.iter_mut().enumerate().filter(|(index, _)| rule.functions.contains(*index)) {
                bytes += MEMBER + 2 * conditions + if *is_named { 0 } else { LISTS };
                *is_named = true;
            }
        }
        bytes + 4 * (size_of::<ArmedPlans>() + size_of::<[Option<FunctionFaults>; FUNCTION_COUNT]>())
    }

    /// Returns the armed faults of a function; `None` if its calls need not be examined.
    #[inline(always)]
    pub fn faults_of(&self, id: FnId) -> Option<&FunctionFaults> {
        self.functions[id as usize].as_ref()
    }

    /// Marks the faults that can concern this process, so that all others are skipped.
    pub fn mark_faults_of_process(&self, is_of_process: impl Fn(&LoadedFault) -> bool) {
        for member in self.functions.iter().flatten().flat_map(|index| &index.members) {
            member.is_of_process.store(is_of_process(member.rule), Relaxed);
        }
    }
}

impl FunctionFaults {
    /// Returns true if a call with these arguments must be examined.
    #[inline(never)]
    pub fn may_concern(&self, words: &dyn Fn(&mut ArgumentWords)) -> bool {
        if self.is_always || !private::are_faults_chosen() {
            return true;
        }
        let mut call = ArgumentWords::default();
        words(&mut call);
        self.members.iter().any(|member| member.may_concern(&call))
    }
}

impl FunctionFault {
    fn new(id: FnId, plan: &'static LoadedPlan, rule: &'static LoadedFault) -> FunctionFault {
        let conditions = rule.spec.conditions.iter();
        let decided = conditions.filter_map(|one| Some((deciding_argument(id.spec(), one)?, one)));
        FunctionFault { plan, rule, is_of_process: AtomicBool::new(true), conditions: decided.collect() }
    }

    #[inline(always)]
    fn may_concern(&self, call: &ArgumentWords) -> bool {
        let mut conditions = self.conditions.iter();
        self.is_of_process.load(Relaxed)
            && conditions.all(|(argument, condition)| is_met_by_number(condition, call[*argument]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::conditions::is_met_by_number;
    use super::*;
    use cupeer_spec::fault::{ConditionKey, FaultPlan};
    use cupeer_spec::record::live::mix_bits;

    /// Generator of pseudorandom numbers.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: u64) -> u64 {
            self.0 += 1;
            mix_bits(self.0) % end
        }

        fn device(&mut self) -> u64 {
            match self.below(8) {
                0 => u64::from(u32::MAX),
                1..4 => 60 + self.below(10),
                _ => self.below(6),
            }
        }

        fn range(&mut self) -> String {
            let (a, b) = (self.device(), self.device());
            match self.below(3) {
                0 => format!("{a}.."),
                1 => format!("{}..{}", a.min(b), a.max(b)),
                _ => a.to_string(),
            }
        }

        fn rule(&mut self) -> String {
            let mut rule = String::from("cuDeviceCanAccessPeer");
            for key in ["dev", "peer"] {
                if self.below(3) > 0 {
                    let not = if self.below(4) == 0 { "^" } else { "" };
                    let values: Vec<String> = (0..=self.below(3)).map(|_| self.range()).collect();
                    rule += &format!(":{key}={not}{}", values.join(","));
                }
            }
            rule + ":error=INVALID_DEVICE"
        }
    }

    #[test]
    fn members_may_concern_a_call_if_their_conditions_hold() {
        private::process().expect("memory").note_faults_chosen();
        let id = FnId::cuDeviceCanAccessPeer;
        let (mut chance, mut seen) = (Chance(1), [0; 2]);
        for round in 0..300 {
            let count = if round % 10 == 0 { 150 } else { 1 + round % 4 };
            let text = (0..count).map(|_| chance.rule()).collect::<Vec<_>>().join(";");
            let plan = FaultPlan::parse("test", &text).expect("a plan");
            let plan = Box::leak(Box::new(plan));
            let loaded: &'static LoadedPlan = Box::leak(Box::new(LoadedPlan::new(1, plan, false)));
            let armed = ArmedPlans::new(vec![loaded], |_| false);
            let index = armed.faults_of(id).expect("rules for it");
            for _ in 0..100 {
                let (dev, peer) = (chance.device(), chance.device());
                let holds = |condition: &FaultCondition| {
                    is_met_by_number(condition, if condition.key == ConditionKey::Dev { dev } else { peer })
                };
                let meets = loaded.rules.iter().any(|rule| rule.spec.conditions.iter().all(holds));
                let found = index.may_concern(&|words| (words[1], words[2]) = (dev, peer));
                assert_eq!(found, meets, "{text} {dev} {peer}");
                seen[usize::from(meets)] += 1;
            }
        }
        assert!(seen.iter().all(|times| *times > 1000), "{seen:?}");
    }
}
