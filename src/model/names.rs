//! A map from the driver's numbers (context handles, event handles, addresses of opened memory) to their current holders.

use cupeer_spec::effect::Object;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Current holders of the driver's numbers, by kind of object and number. The driver reuses numbers, so a
/// number alone is not a key: code that assigns a number gets its former holder, and must handle it.
pub struct NumberHolders<V, S = RandomState>(HashMap<(Object, u64), V, S>);

impl<V, S: Default> Default for NumberHolders<V, S> {
    fn default() -> Self {
        NumberHolders(HashMap::default())
    }
}

impl<V, S: BuildHasher> NumberHolders<V, S> {
    /// Assigns a number. Returns its former holder.
    #[must_use = "the former bearer has ended, or is the same"]
    pub fn assign(&mut self, object: Object, number: u64, bearer: V) -> Option<V> {
        self.0.insert((object, number), bearer)
    }

    /// Returns the current holder of a number.
    pub fn holder(&self, object: Object, number: u64) -> Option<&V> {
        self.0.get(&(object, number))
    }

    /// Returns the holder of a number, or inserts `new`.
    pub fn holder_or_insert(&mut self, object: Object, number: u64, new: impl FnOnce() -> V) -> &mut V {
        self.0.entry((object, number)).or_insert_with(new)
    }

    /// Removes a number. Returns its holder.
    pub fn take(&mut self, object: Object, number: u64) -> Option<V> {
        self.0.remove(&(object, number))
    }

    /// Removes each number for which `is_kept` returns false.
    pub fn retain(&mut self, mut is_kept: impl FnMut(Object, u64, &mut V) -> bool) {
        self.0.retain(|(object, number), bearer| is_kept(*object, *number, bearer));
    }

    /// Returns all numbers and their holders, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Object, u64, &V)> {
        self.0.iter().map(|((object, number), bearer)| (*object, *number, bearer))
    }

    /// Returns true if no number has a holder.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all numbers.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_given_again_hands_over_its_former_bearer() {
        let mut names: NumberHolders<u32> = NumberHolders::default();
        assert_eq!(names.assign(Object::Context, 7, 1), None);
        assert_eq!(names.assign(Object::Event, 7, 2), None);
        assert_eq!(names.assign(Object::Context, 7, 3), Some(1));
        assert_eq!((names.holder(Object::Context, 7), names.holder(Object::Event, 7)), (Some(&3), Some(&2)));
        assert_eq!(names.take(Object::Context, 7), Some(3));
        assert_eq!((names.take(Object::Context, 7), names.is_empty()), (None, false));
    }
}
