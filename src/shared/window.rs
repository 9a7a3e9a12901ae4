//! A thread's window: which of its slots is whose, of the thread's calls and of those of its signal handlers, which come
//! in between any two instructions and return before the next.
//!
//! Only the thread itself and its handlers use these words, so that none needs to be atomic; they are *volatile*, so that
//! they are read and written in this order and each once, and a fence for the compiler keeps what is written to the slots
//! between [`Window::fill`] and [`Window::filled`]. The one step that must not be split is one instruction ([`Word::add`]).

use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

/// One word of a thread's block.
pub trait Word: Copy {
    /// Reads it.
    fn get(self) -> usize;
    /// Writes it.
    fn set(self, value: usize);
    /// Adds to it, in one instruction, and gives what it was.
    fn add(self, more: usize) -> usize;
}

/// The bytes of a slot.
pub const SLOT: usize = 64;

/// What of `turn` tells one window that was left from another.
const TURNS: usize = 0xff;

/// The words of a thread that are about its window, which has so many slots.
#[derive(Clone, Copy)]
pub struct Window<W, const SLOTS: usize> {
    /// Where the next slot lies; at or behind `end` where there is no room.
    pub next: W,
    /// Where the window ends.
    pub end: W,
    /// The number of the slot at address A in its stream is A / 64 plus this.
    pub bias: W,
    /// Who is about to write to the window, while somebody is: where the stack stands, above a byte of `turn`; else 0. A
    /// signal handler's call that comes in between puts back what it has found.
    pub filling: W,
    /// How often the thread has left a window that it was about to write to.
    pub turn: W,
}

/// Slots that were taken. Until they are [`Window::filled`], no signal handler's call uses their window for anything
/// else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Where the first one lies.
    pub place: usize,
    /// Its number in the stream.
    pub number: u64,
    /// What the thread was filling before.
    pub before: usize,
}

impl<W: Word, const SLOTS: usize> Window<W, SLOTS> {
    /// Says that the window is being written to, by what goes on where the stack stands at this height. Gives what must
    /// be put back by [`Window::filled`], and the window's end.
    #[inline(always)]
    pub fn fill(self, height: usize) -> (usize, usize) {
        // First: where a signal handler's call leaves the window after this, what is taken does not lie before this end.
        let end = self.end.get();
        let turn = self.turn.get() & TURNS;
        let before = self.filling.get();
        self.filling.set(height << TURNS.count_ones() | turn);
        compiler_fence(SeqCst);
        (before, end)
    }

    /// It is written.
    #[inline(always)]
    pub fn filled(self, before: usize) {
        compiler_fence(SeqCst);
        self.filling.set(before);
    }

    /// Takes slots of the window, where it has room for them, after [`Window::fill`]. A handler's call may go on in
    /// another window at any moment: what was taken is right where it lies before the end that the thread has noted,
    /// because what is numbered there does not change while it is filling.
    #[inline(always)]
    pub fn take(self, slots: usize, end: usize) -> Option<(usize, u64)> {
        let bias = self.bias.get() as u64;
        let place = self.next.add(slots * SLOT);
        let is_inside = end.wrapping_sub(place + slots * SLOT) <= (SLOTS - slots) * SLOT;
        is_inside.then(|| (place, (place as u64 >> 6).wrapping_add(bias)))
    }

    /// Whether the slot at a place still has this number.
    #[inline(always)]
    pub fn has(self, place: usize, number: u64) -> bool {
        (place as u64 >> 6).wrapping_add(self.bias.get() as u64) == number
    }

    /// The number of the next slot. Where slots were asked for that did not fit, they count as taken and were never
    /// written: the window's end is where it goes on.
    pub fn number(self) -> u64 {
        (self.next.get().min(self.end.get()) as u64 >> 6).wrapping_add(self.bias.get() as u64)
    }

    /// The number of the window's first slot.
    pub fn first(self) -> u64 {
        (self.end.get() as u64 >> 6).wrapping_add(self.bias.get() as u64).wrapping_sub(SLOTS as u64)
    }

    /// Where the stack stood of who is about to write; 0 where nobody is.
    pub fn filler(self) -> usize {
        self.filling.get() >> TURNS.count_ones()
    }

    /// Whether the thread must leave its full window, because a call that is interrupted by this one is about to write to
    /// it, and not to one that was left before: then this says that it does. Else it may be used again.
    pub fn must_leave(self) -> bool {
        let (filling, turn) = (self.filling.get(), self.turn.get());
        let is_in_use = filling != 0 && filling & TURNS == turn & TURNS;
        if is_in_use {
            self.turn.set(turn.wrapping_add(1));
        }
        is_in_use
    }

    /// Lets the thread go on at slot `next` of the window whose first slot lies at `first`, of which `room` slots can be
    /// written to, and whose first slot has the number `base`. No handler may come in between.
    pub fn enter(self, first: usize, base: u64, next: usize, room: usize) {
        self.bias.set(base.wrapping_sub(first as u64 >> 6) as usize);
        self.next.set(first + next * SLOT);
        self.end.set(first + room * SLOT);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
