//! Counts the calls that match a fault, and decides whether the fault fires at one.

use super::arming::{LoadedPlan, LoadedRule};
use super::{private, shared};
use crate::log::message;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use cupeer_spec::fault::{Per, Rule, happens, purpose};
use cupeer_spec::function::{FUNCTION_COUNT, FnId};
use cupeer_spec::record::faults::{Counter, Scope, scope_key};

/// The scopes of a plan in this process: for each rule one for each function, and one for all of them together; and
/// where a rule counts by thread, context or call stack, hash tables: another one where those before have no room.
pub struct Scopes {
    direct: AtomicPtr<Scope>,
    direct_count: usize,
    hashed: [AtomicPtr<Scope>; TABLES],
}

/// Where a rule counts all its functions together.
const TOGETHER: usize = FUNCTION_COUNT;

/// The scopes of the first hash table; each has four times those of the one before.
const HASHED: usize = 4096;
/// More tables than memory will hold: of 67 million scopes the last one.
const TABLES: usize = 8;
/// How many scopes a key may be in. None is ever free again, so that it is where it was put.
const PROBES: usize = 64;

impl Scopes {
    /// For some rules. Nothing is mapped before the first call.
    pub fn of(rules: &[Rule]) -> Scopes {
        Scopes {
            direct: AtomicPtr::new(ptr::null_mut()),
            direct_count: rules.len() * (FUNCTION_COUNT + 1),
            hashed: [const { AtomicPtr::new(ptr::null_mut()) }; TABLES],
        }
    }

    fn direct(&self, rule: u32, function: usize) -> Option<&Scope> {
        let place = rule as usize * (FUNCTION_COUNT + 1) + function;
        table(&self.direct, self.direct_count)?.get(place)
    }

    /// The hash tables, each with how many scopes it has.
    fn tables(&self) -> impl Iterator<Item = (&AtomicPtr<Scope>, usize)> {
        self.hashed.iter().zip(0..).map(|(memory, number)| (memory, HASHED << (2 * number)))
    }

    fn hashed(&self, key: u64) -> Option<(&Scope, bool)> {
        for (memory, count) in self.tables() {
            let found = claim(table(memory, count)?, key, PROBES);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Whether a call stack is seen for the first time by a rule; false where there is no room to remember it.
    pub fn is_new(&self, rule: u32, stack: u64) -> bool {
        self.hashed(scope_key(rule, u32::MAX - 1, stack)).is_some_and(|(_, is_new)| is_new)
    }

    /// Gives the memory back. Nobody may be looking at the plan.
    pub fn give_back(&self) {
        for (memory, count) in self.tables().chain([(&self.direct, self.direct_count)]) {
            let memory = memory.swap(ptr::null_mut(), AcqRel);
            if !memory.is_null() {
                // SAFETY: mapped with this size.
                unsafe { libc::munmap(memory.cast(), count * size_of::<Scope>()) };
            }
        }
    }
}

/// A table of a process, mapped where it is not there yet.
fn table(memory: &AtomicPtr<Scope>, count: usize) -> Option<&[Scope]> {
    let memory = private::map_once(memory, count * size_of::<Scope>(), private::map);
    // SAFETY: mapped with this size, all zero, which are scopes; given back when nobody looks at the plan.
    (!memory.is_null()).then(|| unsafe { core::slice::from_raw_parts(memory, count) })
}

/// Finds the scope of a key in a hash table, or takes one for it, and says whether it is new. `None` where all of those
/// that it may be in are taken.
fn claim(table: &[Scope], key: u64, probes: usize) -> Option<(&Scope, bool)> {
    let first = key as usize % table.len().max(1);
    let (after, before) = (table.get(first..)?, &table[..first]);
    for scope in after.iter().chain(before).take(probes) {
        // Most are taken for good: it is enough to read these.
        let taken = match scope.key.load(Acquire) {
            0 => scope.key.compare_exchange(0, key, AcqRel, Acquire),
            taken => Err(taken),
        };
        match taken {
            Ok(_) => return Some((scope, true)),
            Err(taken) if taken == key => return Some((scope, false)),
            Err(_) => {}
        }
    }
    None
}

/// Who is counted for.
pub struct Whose {
    pub id: FnId,
    /// The rank of the process; `u32::MAX` for none.
    pub rank: u32,
    /// The current context, where a rule counts by it.
    pub context: u64,
}

/// That a rule fires at a call.
#[derive(Clone, Copy)]
pub struct Firing<'a> {
    /// The number of the call among those that the rule counts together, from 1.
    pub count: u64,
    scope: &'a Scope,
    totals: Option<&'a Counter>,
}

impl Firing<'_> {
    /// Counts one time less: there was nothing to do, and a test of nothing shall not look like one.
    pub fn take_back(&self) {
        self.scope.fired.fetch_sub(1, Relaxed);
        if let Some(totals) = self.totals {
            totals.fired.fetch_sub(1, Relaxed);
        }
    }
}

/// Counts a call that meets the conditions of a rule, and says whether the rule fires at it.
pub fn fires<'a>(plan: &'a LoadedPlan, rule: &LoadedRule, whose: &Whose) -> Option<Firing<'a>> {
    let totals = plan.totals(rule);
    if let Some(totals) = totals {
        totals.matched.fetch_add(1, Relaxed);
    }
    let Some(scope) = scope(plan, rule, whose) else {
        message::once(format_args!("no room to count for the fault {}: it does not fire", rule.rule.name));
        return None;
    };
    let count = scope.count.fetch_add(1, Relaxed) + 1;
    let Rule { when, probability, times, .. } = rule.rule;
    let thrown = || rule.rule.thrown(whose.rank, whose.id.spec().name, count, purpose::FIRE);
    let is_chosen = when.has(count) && (*probability >= 1.0 || happens(*probability, thrown()));
    let once_more = |fired: u64| (fired < times.unwrap_or(u64::MAX)).then_some(fired.saturating_add(1));
    if !is_chosen || scope.fired.fetch_update(Relaxed, Relaxed, once_more).is_err() {
        return None;
    }
    if let Some(totals) = totals {
        totals.fired.fetch_add(1, Relaxed);
    }
    Some(Firing { count, scope, totals })
}

fn scope<'a>(plan: &'a LoadedPlan, rule: &LoadedRule, whose: &Whose) -> Option<&'a Scope> {
    let function = if rule.rule.together { TOGETHER } else { whose.id as usize };
    let key = |whose: u64| {
        let function = if rule.rule.together { u32::MAX } else { function as u32 };
        scope_key(rule.number, function, whose)
    };
    let joint = |key| shared::scopes().and_then(|scopes| claim(scopes, key, scopes.len()));
    let claimed = match rule.rule.per {
        Per::Process => return plan.scopes.direct(rule.number, function),
        Per::Thread => plan.scopes.hashed(key(private::thread_number())),
        Per::Ctx => plan.scopes.hashed(key(whose.context)),
        Per::Rank => joint(key(u64::from(whose.rank))),
        Per::Job => joint(key(u64::MAX)),
    };
    claimed.map(|(scope, _)| scope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::record::live::mix;

    #[test]
    fn there_are_as_many_scopes_as_threads() {
        let scopes = Scopes::of(&[]);
        let keys = || (1..=100_000).map(mix);
        for is_new in [true, false] {
            for (key, count) in keys().zip(1..) {
                let (scope, is_first) = scopes.hashed(key).expect("a scope");
                assert_eq!(is_first, is_new);
                let before = if is_new { 0 } else { count };
                assert_eq!(scope.count.swap(count, Relaxed), before);
            }
        }
        scopes.give_back();
        assert!(scopes.hashed(mix(1)).is_some_and(|(_, is_new)| is_new));
    }
}
