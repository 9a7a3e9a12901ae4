//! Interrupts a thread with a signal handler, and that handler with a second one, at every read and write of
//! a thread's word or a slot's word. Afterwards, a reader checks what the windows contain.

use super::*;
use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;

const SLOTS: usize = 3;
/// Distance between the slots of two windows.
const STEP: usize = (SLOTS + 2) * SLOT;
const RING: usize = 4;

/// A slot as in a window.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Slot {
    /// Number in the stream, written last, and the number with which the rest was written.
    seq: Option<u64>,
    call: u32,
    what: What,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum What {
    #[default]
    Pending,
    Returned,
    /// The end of the call in the slot with this number.
    LateEnd(u64),
}

#[derive(Clone, Default, Debug)]
struct Block {
    base: u64,
    slots: [Slot; SLOTS],
    /// True if a thread may still write to the block.
    is_owned: bool,
}

/// A thread with its windows, and the steps at which a handler makes calls.
#[derive(Default)]
struct Machine<'a> {
    words: [Cell<usize>; 5],
    blocks: RefCell<Vec<Block>>,
    /// Address of each block. A new block can reuse the address of an old one.
    places: RefCell<Vec<usize>>,
    /// Blocks that were copied out of windows.
    copies: RefCell<Vec<Block>>,
    current: Cell<usize>,
    kept: Cell<Option<(usize, bool)>>,
    is_ring: bool,
    steps: Cell<usize>,
    /// Steps that a handler interrupts, and the number of calls that it makes.
    interrupts: &'a [(usize, u32)],
    is_masked: Cell<bool>,
    depth: Cell<usize>,
    calls: Cell<u32>,
    /// The number of each call that has returned.
    returned: RefCell<BTreeMap<u64, u32>>,
}

#[derive(Clone, Copy)]
struct Traced<'a>(&'a Machine<'a>, usize);

impl Word for Traced<'_> {
    fn get(self) -> usize {
        self.0.step();
        self.0.words[self.1].get()
    }
    fn set(self, value: usize) {
        self.0.step();
        self.0.words[self.1].set(value);
    }
    fn fetch_add(self, more: usize) -> usize {
        self.0.step();
        let had = self.0.words[self.1].get();
        self.0.words[self.1].set(had + more);
        had
    }
}

impl Machine<'_> {
    fn new(is_ring: bool, interrupts: &[(usize, u32)]) -> Machine<'_> {
        let machine = Machine { is_ring, interrupts, is_masked: Cell::new(true), ..Machine::default() };
        let first = machine.new_block(None);
        machine.enter(first, 0);
        machine.is_masked.set(false);
        machine
    }

    fn window(&self) -> Window<Traced<'_>, SLOTS> {
        let [next, end, bias, filling, turn] = [0, 1, 2, 3, 4].map(|word| Traced(self, word));
        Window { next, end, bias, filling, turn }
    }

    /// A handler may come in before the step that follows.
    fn step(&self) {
        if self.is_masked.get() {
            return;
        }
        let step = self.steps.get();
        self.steps.set(step + 1);
        if let Some((_, calls)) = self.interrupts.iter().find(|(at, _)| *at == step) {
            self.depth.set(self.depth.get() + 1);
            (0..*calls).for_each(|_| self.call());
            self.depth.set(self.depth.get() - 1);
        }
    }

    /// Returns a new block. In a ring, it is the oldest block without an owner.
    fn new_block(&self, place: Option<usize>) -> usize {
        let (mut blocks, mut places) = (self.blocks.borrow_mut(), self.places.borrow_mut());
        let count = blocks.len();
        if self.is_ring && count == RING {
            let free = (1..=RING).map(|i| (self.current.get() + i) % RING).find(|i| !blocks[*i].is_owned);
            return free.expect("a block of the ring");
        }
        blocks.push(Block::default());
        if let Some(place) = place {
            // Nothing points to the old block any more.
            places.iter_mut().filter(|old| **old == place).for_each(|old| *old = 0);
        }
        places.push(place.unwrap_or((count + 1) * STEP));
        count
    }

    fn enter(&self, block: usize, base: u64) {
        let place = self.places.borrow()[block];
        // Old slots stay in a ring block: their numbers tell them from new ones.
        let slots = self.blocks.borrow()[block].slots;
        self.blocks.borrow_mut()[block] = Block { base, slots, is_owned: true };
        self.current.set(block);
        self.window().move_thread_to(place, base, 0, SLOTS);
    }

    /// Makes space as `record::stream` does, without signals.
    fn make_room(&self) {
        let (window, old) = (self.window(), self.current.get());
        if window.writer_height() == 0
            && let Some((kept, _)) = self.kept.get()
        {
            self.kept.set(Some((kept, true)));
            if self.is_ring {
                self.blocks.borrow_mut()[kept].is_owned = false;
                self.kept.set(None);
            }
        }
        let (number, must_leave) = (window.next_number(), window.check_must_leave());
        if self.is_ring {
            let new = self.new_block(None);
            self.enter(new, number);
            if must_leave {
                self.kept.set(Some((old, false)));
            } else {
                self.blocks.borrow_mut()[old].is_owned = false;
            }
        } else if must_leave {
            let reused = self.kept.get().filter(|(_, is_over)| *is_over);
            let place = reused.map(|(kept, _)| self.places.borrow()[kept]).filter(|place| *place != 0);
            let new = self.new_block(place);
            let base = self.blocks.borrow()[old].base;
            self.enter(new, base + SLOTS as u64);
            self.kept.set(Some((old, false)));
        } else {
            let full = self.blocks.borrow()[old].clone();
            let is_there = |i: &usize| full.slots[*i].seq == Some(full.base + *i as u64);
            let used = (0..SLOTS).rev().find(is_there).map_or(0, |i| i + 1);
            let next = full.base + used as u64;
            self.copies.borrow_mut().push(full);
            self.enter(old, next);
        }
    }

    fn height(&self) -> usize {
        1000 - self.depth.get()
    }

    fn take(&self) -> TakenSlots {
        let window = self.window();
        let (before, end) = window.begin_writing(self.height());
        if let Some((place, number)) = window.take_slots(1, end) {
            return TakenSlots { place, number, before };
        }
        window.end_writing(before);
        let outer = self.is_masked.replace(true);
        for _ in 0..3 {
            let (before, end) = window.begin_writing(self.height());
            if let Some((place, number)) = window.take_slots(1, end) {
                self.is_masked.set(outer);
                return TakenSlots { place, number, before };
            }
            window.end_writing(before);
            self.make_room();
        }
        unreachable!("there is always room");
    }

    /// Writes a word of a slot.
    fn write(&self, place: usize, write: impl FnOnce(&mut Slot)) {
        self.step();
        let (block, index) = self.slot_at(place).expect("a window");
        write(&mut self.blocks.borrow_mut()[block].slots[index]);
    }

    /// Returns the block at an address, and the index of the slot.
    fn slot_at(&self, place: usize) -> Option<(usize, usize)> {
        let places = self.places.borrow();
        let is_there = |start: &usize| *start != 0 && (*start..*start + SLOTS * SLOT).contains(&place);
        places.iter().position(is_there).map(|block| (block, (place - places[block]) / SLOT))
    }

    fn put(&self, what: What, call: u32) -> TakenSlots {
        let taken = self.take();
        self.write(taken.place, |slot| (slot.call, slot.what) = (call, what));
        self.write(taken.place, |slot| slot.seq = Some(taken.number));
        self.window().end_writing(taken.before);
        taken
    }

    /// Returns true if the slot, in a ring block that the thread left, still holds this number.
    fn is_in_ring(&self, place: usize, number: u64) -> bool {
        let is_it = |(block, index): (usize, usize)| self.blocks.borrow()[block].base + index as u64 == number;
        self.is_ring && self.slot_at(place).is_some_and(is_it)
    }

    /// A call from its start to its end.
    fn call(&self) {
        let call = self.calls.get() + 1;
        self.calls.set(call);
        let taken = self.put(What::Pending, call);
        // Forwarded.
        self.step();
        let (before, _) = self.window().begin_writing(self.height());
        if self.window().has_slot_number(taken.place, taken.number) || self.is_in_ring(taken.place, taken.number) {
            self.write(taken.place, |slot| slot.what = What::Returned);
            self.window().end_writing(before);
        } else {
            self.window().end_writing(before);
            self.put(What::LateEnd(taken.number), call);
        }
        self.returned.borrow_mut().insert(taken.number, call);
    }

    /// Returns the slots that a reader finds, by number.
    fn read(&self) -> BTreeMap<u64, Slot> {
        let mut found = BTreeMap::new();
        for block in self.copies.borrow().iter().chain(&*self.blocks.borrow()) {
            for (slot, number) in block.slots.iter().zip(block.base..) {
                if slot.seq == Some(number) {
                    let before = found.insert(number, *slot);
                    assert!(before.is_none_or(|before| before == *slot), "{number} twice: {self:?}");
                }
            }
        }
        found
    }

    fn check(&self) {
        let found = self.read();
        let late =
            |number: u64, call: u32| found.values().any(|slot| slot.what == What::LateEnd(number) && slot.call == call);
        for (number, call) in &*self.returned.borrow() {
            match found.get(number) {
                Some(slot) => {
                    assert_eq!(slot.call, *call, "{self:?}");
                    // The end may be in a ring block that is gone.
                    assert!(slot.what == What::Returned || self.is_ring || late(*number, *call), "{self:?}");
                }
                None => assert!(self.is_ring, "call {call} is lost: {self:?}"),
            }
        }
        assert_eq!(self.words[3].get(), 0, "somebody is filling still: {self:?}");
    }
}

impl core::fmt::Debug for Machine<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter) -> core::fmt::Result {
        let Machine { blocks, copies, interrupts, returned, .. } = self;
        write!(f, "{interrupts:?}\n{returned:?}\n{copies:?}\n{:?}", blocks.borrow())
    }
}

/// Makes some calls that these handlers interrupt. Returns the number of steps.
fn run(is_ring: bool, interrupts: &[(usize, u32)]) -> usize {
    let machine = Machine::new(is_ring, interrupts);
    (0..4).for_each(|_| machine.call());
    machine.check();
    machine.steps.get()
}

#[test]
fn no_handler_takes_or_loses_a_slot_of_the_call_that_it_interrupts() {
    let mut tried = 0;
    for is_ring in [false, true] {
        for (calls, nested) in [(1, 1), (1, 4), (4, 1), (4, 4)] {
            for first in 0..run(is_ring, &[]) {
                let steps = run(is_ring, &[(first, calls)]);
                for second in first + 1..steps {
                    run(is_ring, &[(first, calls), (second, nested)]);
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 10_000, "{tried}");
}
