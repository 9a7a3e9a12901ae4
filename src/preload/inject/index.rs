//! What of the armed rules can concern a call, found from its arguments alone, in a few loads however many rules there
//! are.
//!
//! Each function has a bit for each rule that names it. For each argument that rules look at, the numbers fall into
//! segments within which the same rules hold; a segment has the bits of those rules. The rules that can concern a call
//! are those whose bits are set in all of its segments.

use super::CallWords;
use super::arming::{Loaded, LoadedRule};
use super::private;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use cupeer_spec::fault::{Condition, Key, Values};
use cupeer_spec::function::{FUNCTION_COUNT, FnId, FnSpec, Group};

/// All rules that are armed, by function. Never freed once it is published: a thread may be reading it.
pub struct Armed {
    functions: [Option<Index>; FUNCTION_COUNT],
    /// The plans, in the order in which they are looked at.
    pub plans: Vec<&'static Loaded>,
}

/// A rule and its plan.
#[derive(Clone, Copy)]
pub struct Member {
    /// The plan.
    pub plan: &'static Loaded,
    /// The rule.
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

impl Armed {
    /// The rules of some plans. `is_always` says of which functions every call is looked at.
    pub fn new(plans: Vec<&'static Loaded>, is_always: impl Fn(FnId) -> bool) -> Armed {
        let follows = plans.iter().any(|plan| plan.follows);
        let keeps = plans.iter().any(|plan| plan.keeps_handles);
        let functions = core::array::from_fn(|i| {
            let id = FnId::at(i);
            let has_handle = id.spec().args.iter().any(|arg| arg.is_handle());
            let members = plans.iter().flat_map(|plan| plan.rules.iter().map(|rule| Member { plan, rule }));
            let rules: Vec<Member> =
                members.filter(|member| member.rule.rule.functions.contains(i)).collect();
            let is_always = is_always(id) || follows && is_followed(id) || keeps && has_handle;
            (is_always || !rules.is_empty()).then(|| Index::new(id, rules, is_always))
        });
        Armed { functions, plans }
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

/// Whether a call counts as one where rules look at what was called before: look-ups and questions are made by the
/// hundred, by whatever library.
pub fn is_followed(id: FnId) -> bool {
    !id.spec().is_in(Group::Lookup) && !id.spec().is_in(Group::Query)
}

/// The argument that a condition looks at, where it needs nothing else.
pub fn argument_of(function: &FnSpec, condition: &Condition) -> Option<usize> {
    let is_device = |index: usize| {
        let devices = || function.args.iter().enumerate().filter(|(_, arg)| arg.type_word() == "CUdevice");
        devices().nth(index).map(|(index, _)| index)
    };
    match (&condition.key, &condition.values) {
        (Key::Dev, Values::Numbers(_)) => is_device(0),
        (Key::Peer, Values::Numbers(_)) => is_device(1),
        (Key::Argument(name), Values::Numbers(_)) => {
            // An output says something after the call alone.
            let argument = function.argument(name)?;
            let is_number = !argument.1.is_handle() && argument.1.count.is_none();
            is_number.then_some(argument.0)
        }
        _ => None,
    }
}

fn ranges(condition: &Condition) -> &[(u64, u64)] {
    match &condition.values {
        Values::Numbers(ranges) => ranges,
        Values::Patterns(_) => &[],
    }
}

/// Whether a number is one of a condition's.
pub fn holds(condition: &Condition, number: u64) -> bool {
    let Values::Numbers(ranges) = &condition.values else { return false };
    ranges.iter().any(|(from, to)| (*from..=*to).contains(&number)) != condition.not
}

impl Index {
    fn new(id: FnId, rules: Vec<Member>, is_always: bool) -> Index {
        let blocks = rules.len().div_ceil(64);
        let function = id.spec();
        let segments = (0..function.args.len().min(MOST_ARGUMENTS))
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

    /// Whether a call with these arguments has to be looked at.
    #[inline(never)]
    pub fn may_concern(&self, words: &dyn Fn(&mut CallWords)) -> bool {
        if self.is_always || !private::is_prepared() {
            return true;
        }
        let Some((first, others)) = self.segments.split_first() else {
            return self.base.iter().any(|base| base.load(Relaxed) != 0);
        };
        let mut call = [0; 8];
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
    /// `None` where no rule looks at the argument. A plan may have thousands of rules: what is done for each is done for the
    /// segments in its own ranges, not for all.
    fn of(function: &FnSpec, argument: usize, rules: &[Member], blocks: usize) -> Option<Segments> {
        let looks = |condition: &&'static Condition| argument_of(function, condition) == Some(argument);
        let of_rule =
            |member: &Member| -> Vec<_> { member.rule.rule.conditions.iter().filter(looks).collect() };
        let limited: Vec<(usize, Vec<&Condition>)> =
            rules.iter().map(of_rule).enumerate().filter(|(_, conditions)| !conditions.is_empty()).collect();
        if limited.is_empty() {
            return None;
        }
        let mut bounds: Vec<u64> = limited
            .iter()
            .flat_map(|(_, conditions)| conditions)
            .flat_map(|condition| ranges(condition))
            .flat_map(|(from, to)| [*from, to.saturating_add(1)])
            .filter(|at| *at > 0)
            .collect();
        bounds.sort_unstable();
        bounds.dedup();
        let segment_of = |number: u64| bounds.partition_point(|at| *at <= number);
        // All other rules hold everywhere.
        let mut others = vec![u64::MAX; blocks];
        limited.iter().for_each(|(rule, _)| others[rule / 64] &= !(1 << (rule % 64)));
        let mut masks = others.repeat(bounds.len() + 1);
        for (rule, conditions) in &limited {
            let mut set = |segment: usize| {
                let first = segment.checked_sub(1).map_or(0, |before| bounds[before]);
                if conditions.iter().all(|condition| holds(condition, first)) {
                    masks[segment * blocks + rule / 64] |= 1 << (rule % 64);
                }
            };
            match conditions.iter().find(|condition| !condition.not) {
                Some(condition) => ranges(condition)
                    .iter()
                    .for_each(|(from, to)| (segment_of(*from)..=segment_of(*to)).for_each(&mut set)),
                None => (0..=bounds.len()).for_each(set),
            }
        }
        let small = core::array::from_fn(|number| segment_of(number as u64) as u16);
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
    use super::*;
    use cupeer_spec::fault::Plan;
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
            let loaded: &'static Loaded = Box::leak(Box::new(Loaded::new(1, plan, false)));
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
