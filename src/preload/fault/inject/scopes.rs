//! The memory in which a plan counts calls: one scope per fault and counted unit, such as a thread.

use super::private;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire},
};
use cupeer_spec::record::faults::{ScopeCounter, scope_key};

/// Scopes of a plan in this process, in hash tables. Another table is mapped if those before it have no room.
pub struct Scopes([AtomicPtr<ScopeCounter>; TABLES]);

/// Number of scopes in the first hash table. Each further table has four times as many scopes as the table before.
const FIRST: usize = 4096;
/// Number of tables, more than memory has room for: the last table has 67 million scopes.
const TABLES: usize = 8;
/// Number of scopes of a table in which a key may be. No scope is ever freed, so that a key stays in its scope.
const PROBES: usize = 64;

impl Scopes {
    /// Returns tables without memory. A table is mapped at its first use.
    pub const fn new() -> Scopes {
        Scopes([const { AtomicPtr::new(ptr::null_mut()) }; TABLES])
    }

    /// Returns the hash tables, each with its number of scopes.
    fn tables(&self) -> impl Iterator<Item = (&AtomicPtr<ScopeCounter>, usize)> {
        self.0.iter().zip(0..).map(|(memory, number)| (memory, FIRST << (2 * number)))
    }

    /// Returns the scope of a key, and true if it is new. `None` if there is no memory for it.
    pub fn claim(&self, key: u64) -> Option<(&ScopeCounter, bool)> {
        for (memory, count) in self.tables() {
            let found = claim(table(memory, count)?, key, PROBES);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Returns true if a fault sees a call stack for the first time; false also if there is no memory for the stack.
    pub fn is_new(&self, rule: u32, stack: u64) -> bool {
        self.claim(scope_key(rule, u32::MAX - 1, stack)).is_some_and(|(_, is_new)| is_new)
    }

    /// Unmaps the tables. No thread may be using the plan.
    pub fn unmap(&self) {
        for (memory, count) in self.tables() {
            let memory = memory.swap(ptr::null_mut(), AcqRel);
            if !memory.is_null() {
                // SAFETY: mapped with this size.
                unsafe { libc::munmap(memory.cast(), count * size_of::<ScopeCounter>()) };
            }
        }
    }
}

/// Returns a hash table of this process, and maps it first if needed. `None` if there is no memory.
fn table(memory: &AtomicPtr<ScopeCounter>, count: usize) -> Option<&[ScopeCounter]> {
    let memory = private::map_once(memory, count * size_of::<ScopeCounter>(), private::map_wiped_on_fork);
    // SAFETY: mapped with this size, all zero, which are scopes; unmapped when no thread uses the plan.
    (!memory.is_null()).then(|| unsafe { core::slice::from_raw_parts(memory, count) })
}

/// Returns the scope of a key in a hash table, and true if it is new. `None` if all scopes that the key may be in are taken.
pub fn claim(table: &[ScopeCounter], key: u64, probes: usize) -> Option<(&ScopeCounter, bool)> {
    let first = key as usize % table.len().max(1);
    let (after, before) = (table.get(first..)?, &table[..first]);
    for scope in after.iter().chain(before).take(probes) {
        // Most scopes are taken, and stay taken: reading their keys is enough.
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
    use cupeer_spec::record::live::mix_bits;

    #[test]
    fn every_key_gets_its_own_scope() {
        let scopes = Scopes::new();
        let keys = || (1..=100_000).map(mix_bits);
        for is_new in [true, false] {
            for (key, count) in keys().zip(1..) {
                let (scope, is_first) = scopes.claim(key).expect("a scope");
                assert_eq!(is_first, is_new);
                let before = if is_new { 0 } else { count };
                assert_eq!(scope.count.swap(count, Relaxed), before);
            }
        }
        scopes.unmap();
        assert!(scopes.claim(mix_bits(1)).is_some_and(|(_, is_new)| is_new));
    }
}
