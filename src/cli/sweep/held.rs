//! Virtual memory that a process holds at its end, followed from its calls: the live table has only what is shared.

use cupeer_record::Call;
use cupeer_spec::effect::{Effect, End, Made, Named, Object, Shared};
use std::collections::BTreeMap;

/// What one process holds, by its kind and name.
#[derive(Default)]
pub struct Held(BTreeMap<(Object, u64), Holding>);

/// One thing that it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    bytes: u64,
    /// How many references there are to it.
    pub count: u64,
    /// Whether another process made it.
    pub is_foreign: bool,
    /// The return address of the call by which the process got it, and when that was.
    pub since: (u64, u64),
}

impl Held {
    /// Follows a call, in the order of time. What the program was told counts: it can give back nothing else.
    pub fn follow(&mut self, call: &Call) {
        let Some(function) = call.function.filter(|function| function.spec().is_virtual()) else { return };
        if !call.succeeded() {
            return;
        }
        let number = |argument| call.number(argument);
        let since = (call.caller, call.start);
        for effect in function.spec().effects() {
            let (object, by) = match *effect {
                Effect::Makes(Made { object, by, .. })
                | Effect::Opens(Shared { object, by, .. })
                | Effect::Retains(Named { object, by })
                | Effect::Ends(End { object, by, .. }) => (object, by),
                _ => continue,
            };
            let Some(name) = number(by) else { continue };
            match *effect {
                Effect::Ends(End { size: Some(size), .. }) => {
                    self.end_all(object, name, number(size).unwrap_or(0));
                }
                Effect::Ends(End { is_counted, .. }) => self.give_back((object, name), is_counted),
                Effect::Makes(Made { size, .. }) => {
                    self.add((object, name), size.and_then(number).unwrap_or(0), false, since);
                }
                _ => self.add((object, name), 0, matches!(effect, Effect::Opens(_)), since),
            }
        }
    }

    fn add(&mut self, key: (Object, u64), bytes: u64, is_foreign: bool, since: (u64, u64)) {
        let holding = self.0.entry(key).or_insert(Holding { bytes, count: 0, is_foreign, since });
        holding.count += 1;
    }

    fn give_back(&mut self, key: (Object, u64), is_counted: bool) {
        if let Some(holding) = self.0.get_mut(&key) {
            holding.count -= 1;
            if holding.count == 0 || !is_counted {
                self.0.remove(&key);
            }
        }
    }

    fn end_all(&mut self, object: Object, start: u64, size: u64) {
        let end = start.saturating_add(size);
        self.0.retain(|(kind, name), holding| {
            let is_inside = *name >= start && name.saturating_add(holding.bytes) <= end;
            *kind != object || !is_inside
        });
    }

    /// All that is left.
    pub fn left(self) -> impl Iterator<Item = (Object, Holding)> {
        self.0.into_iter().map(|((object, _), holding)| (object, holding))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(held: Held) -> Vec<(Object, u64)> {
        held.left().map(|(object, holding)| (object, holding.count)).collect()
    }

    #[test]
    fn references_are_counted_and_ranges_end_what_lies_in_them() {
        let mut held = Held::default();
        let since = (0, 0);
        held.add((Object::Allocation, 7), 64, false, since);
        held.add((Object::Allocation, 7), 0, false, since);
        held.give_back((Object::Allocation, 7), true);
        held.give_back((Object::Allocation, 9), true);
        for start in [0, 64, 128] {
            held.add((Object::Mapping, start), 64, false, since);
        }
        held.add((Object::Reservation, 0), 192, false, since);
        held.end_all(Object::Mapping, 0, 128);
        assert_eq!(left(held), [(Object::Allocation, 1), (Object::Reservation, 1), (Object::Mapping, 1)]);
        let mut held = Held::default();
        held.add((Object::Allocation, 7), 64, true, since);
        held.give_back((Object::Allocation, 7), true);
        assert_eq!(left(held), []);
    }
}
