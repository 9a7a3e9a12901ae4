//! Finds the armed faults that can concern a call from its arguments alone, in a few loads however many faults there
//! are.
//!
//! Each function has one bit for each fault that names it. For each argument that faults test, the possible numbers
//! are divided into segments within which the same faults apply; a segment has the bits of those faults. A fault can
//! concern a call if its bit is set in all segments of the call. Testing a hundred faults one by one takes about
//! 250 ns, and ten of them 20 to 30; the budget is 10 ns.

use super::conditions::{argument_of, held};
use super::loaded::{LoadedPlan, LoadedRule};
use super::private;
use crate::fault::forward::ArgumentWords;
use crate::settings::inject::is_followed;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use cupeer_spec::fault::{Condition, Rule, Values};
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
    /// The bits of the rules of this process: [`Index::choose`].
    base: Vec<AtomicU64>,
    segments: Vec<Segments>,
}

/// The segments of one argument.
struct Segments {
    argument: usize,
    /// Where each begins but the first, which begins at 0.
    bounds: Vec<u64>,
    /// The segment of each of the smallest numbers.
    small: [u16; SMALL],
    /// The bits of each.
    masks: Vec<u64>,
}

/// Numbers below are found without a search: devices, flags, attributes.
const SMALL: usize = 64;

/// The most arguments that are looked at here.
const MOST_ARGUMENTS: usize = 8;

/// The most words of the masks of one argument: 4 MiB. Beyond, its rules look at it themselves.
const MOST_WORDS: usize = 512 * 1024;

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
        let (mut members, mut loaded) = ([0usize; FUNCTION_COUNT], 0);
        // What the conditions on each argument say, and how many ranges that are in all.
        let mut ranges = [[0usize; MOST_ARGUMENTS]; FUNCTION_COUNT];
        for rule in rules {
            loaded += 1;
            for id in FnId::all().filter(|id| rule.functions.contains(*id as usize)) {
                members[id as usize] += 1;
                for condition in &rule.conditions {
                    let argument = argument_of(id.spec(), condition).filter(|index| *index < MOST_ARGUMENTS);
                    if let (Some(index), Values::Numbers(numbers)) = (argument, &condition.values) {
                        ranges[id as usize][index] += numbers.len() + 1;
                    }
                }
            }
        }
        let of_ranges = |count: usize, blocks: usize| {
            // The changes, in a list that grows to the double of it; the bounds, and the masks.
            let masks = ((2 * count + 1) * blocks).min(MOST_WORDS) * size_of::<u64>();
            if count == 0 { 0 } else { 2048 + count * (2 * 6 * size_of::<(u64, bool, usize)>()) + masks }
        };
        let mut bytes = 4 * (size_of::<Armed>() + size_of::<[Option<Index>; FUNCTION_COUNT]>())
            + loaded * 2 * size_of::<LoadedRule>();
        for (members, ranges) in members.iter().zip(&ranges).filter(|(members, _)| **members > 0) {
            let blocks = members.div_ceil(64);
            bytes += 2048 + members * (2 * size_of::<Member>() + MOST_ARGUMENTS * 4);
            bytes += ranges.iter().map(|count| of_ranges(*count, blocks)).sum::<usize>();
        }
        bytes
    }

    /// The rules of a function, where there are any.
    #[inline(always)]
    pub fn index(&self, id: FnId) -> Option<&Index> {
        self.functions[id as usize].as_ref()
    }

    /// Leaves out what can never concern this process.
    pub fn choose(&self, is_of_process: impl Fn(&LoadedRule) -> bool) {
        self.functions.iter().flatten().for_each(|index| index.choose(&is_of_process));
    }
}

impl Index {
    fn new(id: FnId, rules: Vec<Member>, is_always: bool) -> Index {
        let blocks = rules.len().div_ceil(64);
        let function = id.spec();
        let segments = (0..function.args().len().min(MOST_ARGUMENTS))
            .filter_map(|argument| Segments::of(function, argument, &rules, blocks))
            .collect();
        let base = (0..blocks).map(|_| AtomicU64::new(u64::MAX)).collect();
        let index = Index { rules, is_always, base, segments };
        index.choose(&|_: &LoadedRule| true);
        index
    }

    fn choose(&self, is_of_process: &impl Fn(&LoadedRule) -> bool) {
        for (block, rules) in self.base.iter().zip(self.rules.chunks(64)) {
            let bits = rules.iter().enumerate().filter(|(_, member)| is_of_process(member.rule));
            block.store(bits.map(|(bit, _)| 1 << bit).sum(), Relaxed);
        }
    }

    /// Whether a call with these arguments must be examined.
    #[inline(never)]
    pub fn may_concern(&self, words: &dyn Fn(&mut ArgumentWords)) -> bool {
        if self.is_always || !private::is_prepared() {
            return true;
        }
        let Some((first, others)) = self.segments.split_first() else {
            return self.base.iter().any(|base| base.load(Relaxed) != 0);
        };
        let mut call = ArgumentWords::default();
        words(&mut call);
        let blocks = self.base.len();
        let of_first = first.bits(call[first.argument], blocks);
        for (block, (base, bits)) in self.base.iter().zip(of_first).enumerate() {
            let mut bits = base.load(Relaxed) & bits;
            // Most often the first argument that rules look at tells that none can concern the call.
            for segments in others {
                if bits == 0 {
                    break;
                }
                bits &=
                    segments.bits(call[segments.argument], blocks).get(block).copied().unwrap_or(u64::MAX);
            }
            if bits != 0 {
                return true;
            }
        }
        false
    }
}

impl Segments {
    /// `None` where no rule looks at the argument, and where its table would be too large. A plan may have thousands of
    /// rules: a segment is the one before it with what changes at its start.
    fn of(function: &FnSpec, argument: usize, rules: &[Member], blocks: usize) -> Option<Segments> {
        let looks = |condition: &&'static Condition| argument_of(function, condition) == Some(argument);
        // How many conditions of a rule do not hold, and where one begins to hold or ceases to.
        let mut missing = vec![0u32; rules.len()];
        let mut changes: Vec<(u64, bool, usize)> = Vec::new();
        for (rule, member) in rules.iter().enumerate() {
            for condition in member.rule.rule.conditions.iter().filter(looks) {
                missing[rule] += 1;
                for (from, to) in held(condition) {
                    changes.push((from, true, rule));
                    changes.extend(to.checked_add(1).map(|after| (after, false, rule)));
                }
            }
        }
        if missing.iter().all(|missing| *missing == 0) {
            return None;
        }
        changes.sort_unstable();
        let begins = |at: &[(u64, bool, usize)]| at[0].0 > 0;
        let count = changes.chunk_by(|one, next| one.0 == next.0).filter(|at| begins(at)).count();
        if (count + 1) * blocks > MOST_WORDS {
            return None;
        }
        let (mut bounds, mut masks) = (Vec::with_capacity(count), Vec::with_capacity((count + 1) * blocks));
        // Rules that do not look at the argument hold everywhere.
        let mut now = vec![u64::MAX; blocks];
        let unlooked = |rule: &usize| missing[*rule] > 0;
        (0..rules.len()).filter(unlooked).for_each(|rule| now[rule / 64] &= !(1 << (rule % 64)));
        for at in changes.chunk_by(|one, next| one.0 == next.0) {
            if begins(at) {
                masks.extend_from_slice(&now);
                bounds.push(at[0].0);
            }
            for (_, begins, rule) in at {
                missing[*rule] = if *begins { missing[*rule] - 1 } else { missing[*rule] + 1 };
                let bit = 1 << (rule % 64);
                let word = &mut now[rule / 64];
                *word = if missing[*rule] == 0 { *word | bit } else { *word & !bit };
            }
        }
        masks.extend_from_slice(&now);
        let small = core::array::from_fn(|number| bounds.partition_point(|at| *at <= number as u64) as u16);
        Some(Segments { argument, bounds, small, masks })
    }

    /// The bits of the segment of a number.
    #[inline(always)]
    fn bits(&self, number: u64, blocks: usize) -> &[u64] {
        let segment = match self.small.get(number as usize) {
            Some(segment) => usize::from(*segment),
            // What is no small number is most often beyond all that rules name: an address, -1.
            None if self.bounds.last().is_none_or(|last| number >= *last) => self.bounds.len(),
            None => self.bounds.partition_point(|at| *at <= number),
        };
        self.masks.get(segment * blocks..(segment + 1) * blocks).unwrap_or(&[])
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

        /// Around the borders of what is found without a search.
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
    fn the_index_finds_what_the_conditions_say() {
        private::process().expect("memory").prepare();
        let id = FnId::cuDeviceCanAccessPeer;
        let (mut chance, mut seen) = (Chance(1), [0; 2]);
        for round in 0..300 {
            // More than a block of bits in some.
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
