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

/// Whether a number is one of a condition's.
pub fn holds(condition: &Condition, number: u64) -> bool {
    let Values::Numbers(ranges) = &condition.values else { return false };
    ranges.iter().any(|(from, to)| (*from..=*to).contains(&number)) != condition.not
}

impl Index {
    fn new(id: FnId, rules: Vec<Member>, is_always: bool) -> Index {
        let blocks = rules.len().div_ceil(64);
        let function = id.spec();
        let conditions = |rule: usize, argument: usize| {
            let conditions = rules[rule].rule.rule.conditions.iter();
            conditions.filter(move |condition| argument_of(function, condition) == Some(argument))
        };
        let mut segments = Vec::new();
        for argument in 0..function.args.len().min(MOST_ARGUMENTS) {
            let ranges = (0..rules.len()).flat_map(|rule| conditions(rule, argument));
            let ranges = ranges.flat_map(|condition| match &condition.values {
                Values::Numbers(ranges) => ranges.as_slice(),
                Values::Patterns(_) => &[],
            });
            let mut bounds: Vec<u64> =
                ranges.flat_map(|(from, to)| [*from, to.saturating_add(1)]).filter(|at| *at > 0).collect();
            bounds.sort_unstable();
            bounds.dedup();
            if (0..rules.len()).all(|rule| conditions(rule, argument).next().is_none()) {
                continue;
            }
            let mut masks = vec![0; (bounds.len() + 1) * blocks];
            for (segment, first) in core::iter::once(&0).chain(&bounds).enumerate() {
                for rule in 0..rules.len() {
                    if conditions(rule, argument).all(|condition| holds(condition, *first)) {
                        masks[segment * blocks + rule / 64] |= 1 << (rule % 64);
                    }
                }
            }
            let small =
                core::array::from_fn(|number| bounds.partition_point(|at| *at <= number as u64) as u16);
            segments.push(Segments { argument, bounds, small, masks });
        }
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
