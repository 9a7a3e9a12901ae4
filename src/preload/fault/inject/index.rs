//! Finds the armed faults that can concern a call from its arguments alone.
//!
//! Each rule of the function is tested in turn: a hundred of them take about 250 ns, ten take 20 to 30.

use super::conditions::{argument_of, holds};
use super::loaded::{LoadedPlan, LoadedRule};
use super::private;
use crate::fault::forward::ArgumentWords;
use crate::settings::inject::is_followed;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use cupeer_spec::fault::{Condition, Rule};
use cupeer_spec::function::{FUNCTION_COUNT, FnId, FnSpec};

/// All rules that are armed, by function. Never freed once it is published: a thread may be reading it.
pub struct Armed {
    functions: Box<[Option<Index>; FUNCTION_COUNT]>,
    /// The plans, in the order in which they are looked at.
    pub plans: Vec<&'static LoadedPlan>,
}

#[derive(Clone, Copy)]
pub struct Member {
    pub plan: &'static LoadedPlan,
    pub rule: &'static LoadedRule,
}

/// The rules of one function.
pub struct Index {
    /// In the order in which they are looked at.
    pub rules: Vec<Member>,
    /// Whether every call is looked at, whatever its arguments: where a denied pair may concern it, or something is
    /// remembered of it.
    is_always: bool,
    /// In the same order.
    tests: Vec<Test>,
}

/// The conditions of one rule that the arguments alone decide.
struct Test {
    /// Whether the rule can concern this process: [`Armed::choose`].
    is_of_process: AtomicBool,
    conditions: Box<[(usize, &'static Condition)]>,
}

impl Armed {
    /// The rules of some plans. `is_always` says of which functions every call is looked at.
    pub fn new(plans: Vec<&'static LoadedPlan>, is_always: impl Fn(FnId) -> bool) -> Armed {
        let follows = plans.iter().any(|plan| plan.follows);
        let keeps = plans.iter().any(|plan| plan.keeps_handles);
        let index = |i| {
            let id = FnId::at(i);
            let has_handle = id.spec().args().iter().any(|arg| arg.is_handle());
            let members = plans.iter().flat_map(|plan| plan.rules.iter().map(|rule| Member { plan, rule }));
            let rules: Vec<Member> =
                members.filter(|member| member.rule.rule.functions.contains(i)).collect();
            let is_always = is_always(id) || follows && is_followed(id) || keeps && has_handle;
            (is_always || !rules.is_empty()).then(|| Index::new(id, rules, is_always))
        };
        // Built where it stays: the array is larger than what a small stack has room for.
        let all: Vec<Option<Index>> = (0..FUNCTION_COUNT).map(index).collect();
        let Ok(functions) = all.try_into() else { unreachable!("one for each function") };
        Armed { functions, plans }
    }

    /// How much memory it takes to arm some rules, as plans and by function.
    pub fn memory_of<'a>(rules: impl Iterator<Item = &'a Rule>) -> usize {
        // Each function with rules has a list of them that grows to the double.
        const LISTS: usize = 2048;
        const MEMBER: usize = 2 * (size_of::<Member>() + size_of::<Test>());
        let (mut bytes, mut is_named) = (0, [false; FUNCTION_COUNT]);
        for rule in rules {
            let conditions = rule.conditions.len() * size_of::<(usize, &Condition)>();
            bytes += 2 * size_of::<LoadedRule>();
            for (_, is_named) in
                is_named.iter_mut().enumerate().filter(|(index, _)| rule.functions.contains(*index))
            {
                bytes += MEMBER + 2 * conditions + if *is_named { 0 } else { LISTS };
                *is_named = true;
            }
        }
        bytes + 4 * (size_of::<Armed>() + size_of::<[Option<Index>; FUNCTION_COUNT]>())
    }

    /// The rules of a function, where there are any.
    #[inline(always)]
    pub fn index(&self, id: FnId) -> Option<&Index> {
        self.functions[id as usize].as_ref()
    }

    /// Leaves out what can never concern this process.
    pub fn choose(&self, is_of_process: impl Fn(&LoadedRule) -> bool) {
        for index in self.functions.iter().flatten() {
            for (member, test) in index.rules.iter().zip(&index.tests) {
                test.is_of_process.store(is_of_process(member.rule), Relaxed);
            }
        }
    }
}

impl Index {
    fn new(id: FnId, rules: Vec<Member>, is_always: bool) -> Index {
        let tests = rules.iter().map(|member| Test::of(id.spec(), member.rule)).collect();
        Index { rules, is_always, tests }
    }

    /// Whether a call with these arguments must be examined.
    #[inline(never)]
    pub fn may_concern(&self, words: &dyn Fn(&mut ArgumentWords)) -> bool {
        if self.is_always || !private::is_prepared() {
            return true;
        }
        let mut call = ArgumentWords::default();
        words(&mut call);
        self.tests.iter().any(|test| test.passes(&call))
    }
}

impl Test {
    fn of(function: &FnSpec, rule: &'static LoadedRule) -> Test {
        let conditions = rule.rule.conditions.iter();
        let tested = conditions.filter_map(|condition| Some((argument_of(function, condition)?, condition)));
        Test { is_of_process: AtomicBool::new(true), conditions: tested.collect() }
    }

    #[inline(always)]
    fn passes(&self, call: &ArgumentWords) -> bool {
        let mut conditions = self.conditions.iter();
        self.is_of_process.load(Relaxed)
            && conditions.all(|(argument, condition)| holds(condition, call[*argument]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::conditions::holds;
    use super::*;
    use cupeer_spec::fault::{Key, Plan};
    use cupeer_spec::record::live::mix;

    /// Numbers below others, as if by chance.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: u64) -> u64 {
            self.0 += 1;
            mix(self.0) % end
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
    fn the_tests_find_what_the_conditions_say() {
        private::process().expect("memory").prepare();
        let id = FnId::cuDeviceCanAccessPeer;
        let (mut chance, mut seen) = (Chance(1), [0; 2]);
        for round in 0..300 {
            let count = if round % 10 == 0 { 150 } else { 1 + round % 4 };
            let text = (0..count).map(|_| chance.rule()).collect::<Vec<_>>().join(";");
            let plan = Plan::parse("test", &text).expect("a plan");
            let plan = Box::leak(Box::new(plan));
            let loaded: &'static LoadedPlan = Box::leak(Box::new(LoadedPlan::new(1, plan, false)));
            let armed = Armed::new(vec![loaded], |_| false);
            let index = armed.index(id).expect("rules for it");
            for _ in 0..100 {
                let (dev, peer) = (chance.device(), chance.device());
                let holds = |condition: &Condition| {
                    holds(condition, if condition.key == Key::Dev { dev } else { peer })
                };
                let meets = loaded.rules.iter().any(|rule| rule.rule.conditions.iter().all(holds));
                let found = index.may_concern(&|words| (words[1], words[2]) = (dev, peer));
                assert_eq!(found, meets, "{text} {dev} {peer}");
                seen[usize::from(meets)] += 1;
            }
        }
        assert!(seen.iter().all(|times| *times > 1000), "{seen:?}");
    }
}
