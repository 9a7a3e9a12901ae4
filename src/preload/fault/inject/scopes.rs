//! The memory in which a plan counts: one scope for each fault and what it counts by.

use super::private;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire},
};
use cupeer_spec::fault::Rule;
use cupeer_spec::function::FUNCTION_COUNT;
use cupeer_spec::record::faults::{Scope, scope_key};

/// The scopes of a plan in this process: for each rule one for each function, and one for all of them together; and
/// where a rule counts by thread, context or call stack, hash tables: another one where those before have no room.
pub struct Scopes {
    direct: AtomicPtr<Scope>,
    direct_count: usize,
    hashed: [AtomicPtr<Scope>; TABLES],
}

/// Where a rule counts all its functions together.
pub const TOGETHER: usize = FUNCTION_COUNT;

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

    pub fn direct(&self, rule: u32, function: usize) -> Option<&Scope> {
        let place = rule as usize * (FUNCTION_COUNT + 1) + function;
        table(&self.direct, self.direct_count)?.get(place)
    }

    /// The hash tables, each with how many scopes it has.
    fn tables(&self) -> impl Iterator<Item = (&AtomicPtr<Scope>, usize)> {
        self.hashed.iter().zip(0..).map(|(memory, number)| (memory, HASHED << (2 * number)))
    }

    pub fn hashed(&self, key: u64) -> Option<(&Scope, bool)> {
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
pub fn claim(table: &[Scope], key: u64, probes: usize) -> Option<(&Scope, bool)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering::Relaxed;
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
