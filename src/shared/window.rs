//! A thread's window: which of its slots is whose, of the thread's calls and of those of its signal handlers, which come
//! in between any two instructions and return before the next.
//!
//! Only the thread itself and its handlers use these words, so that none needs to be atomic; they are *volatile*, so that
//! they are read and written in this order and each once, and a fence for the compiler keeps what is written to the slots
//! between [`Window::begin_writing`] and [`Window::end_writing`]. The one step that must not be split is one
//! instruction ([`Word::fetch_add`]).

use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

/// One word of a thread's block.
pub trait Word: Copy {
    /// Reads the word.
    fn get(self) -> usize;
    /// Writes the word.
    fn set(self, value: usize);
    /// Adds to the word in one instruction. Returns its value before.
    fn fetch_add(self, more: usize) -> usize;
}

/// Size of a slot in bytes.
pub const SLOT: usize = 64;

/// Mask for the bits of `turn` that distinguish a window from those that the thread left before.
const TURNS: usize = 0xff;

/// The words of a thread that describe its window of `SLOTS` slots.
#[derive(Clone, Copy)]
pub struct Window<W, const SLOTS: usize> {
    /// Address of the next slot. At or behind `end`, the window is full.
    pub next: W,
    /// Address of the end of the window's allocated slots.
    pub end: W,
    /// The number of the slot at address A in its stream is A / 64 plus this.
    pub bias: W,
    /// Nonzero while a call is about to write to the window: the stack height of the call, above a byte of `turn`. A
    /// signal handler's call that interrupts it sets a value of its own, and then restores the value that it found.
    pub filling: W,
    /// Number of times that the thread left a window while a call was about to write to it.
    pub turn: W,
}

/// Slots that were taken. Until [`Window::end_writing`], no signal handler's call uses their window for anything
/// else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakenSlots {
    /// Address of the first slot.
    pub place: usize,
    /// Number of the first slot in the thread's stream.
    pub number: u64,
    /// Value of `filling` before this call, which [`Window::end_writing`] restores.
    pub before: usize,
}

impl<W: Word, const SLOTS: usize> Window<W, SLOTS> {
    /// Notes in `filling` that code at this stack height is about to write to the window. Returns the previous value
    /// of `filling`, which [`Window::end_writing`] restores, and the window's end.
    #[inline(always)]
    pub fn begin_writing(self, height: usize) -> (usize, usize) {
        // Read the end first: if a signal handler's call leaves the window after this, the slots taken are
        // not before this end.
        let end = self.end.get();
        let turn = self.turn.get() & TURNS;
        let before = self.filling.get();
        self.filling.set(height << TURNS.count_ones() | turn);
        compiler_fence(SeqCst);
        (before, end)
    }

    /// Restores the previous value of `filling` after the slots were written.
    #[inline(always)]
    pub fn end_writing(self, before: usize) {
        compiler_fence(SeqCst);
        self.filling.set(before);
    }

    /// Takes slots of the window if it has space for them, after [`Window::begin_writing`]. A handler's call may
    /// continue in another window at any time. The slots are valid if they are before the end that the thread has
    /// read, because the numbers up to there do not change while `filling` is set.
    #[inline(always)]
    pub fn take_slots(self, slots: usize, end: usize) -> Option<(usize, u64)> {
        let bias = self.bias.get() as u64;
        let place = self.next.fetch_add(slots * SLOT);
        let is_inside = end.wrapping_sub(place + slots * SLOT) <= (SLOTS - slots) * SLOT;
        is_inside.then(|| (place, (place as u64 >> 6).wrapping_add(bias)))
    }

    /// Returns true if the slot at this address still has this number.
    #[inline(always)]
    pub fn has_slot_number(self, place: usize, number: u64) -> bool {
        (place as u64 >> 6).wrapping_add(self.bias.get() as u64) == number
    }

    /// Returns the number of the next slot. Slots that did not fit were never written, so a full window
    /// continues at its end.
    pub fn next_number(self) -> u64 {
        (self.next.get().min(self.end.get()) as u64 >> 6).wrapping_add(self.bias.get() as u64)
    }

    /// Returns the number of the window's first slot.
    pub fn first_number(self) -> u64 {
        (self.end.get() as u64 >> 6).wrapping_add(self.bias.get() as u64).wrapping_sub(SLOTS as u64)
    }

    /// Returns the stack height of the code that is writing to the window; 0 if there is none.
    pub fn writer_height(self) -> usize {
        self.filling.get() >> TURNS.count_ones()
    }

    /// Returns true if the thread must leave its full window, because a call that this call interrupts is about to
    /// write there; then also adds 1 to `turn`. If false, the thread may reuse the window.
    pub fn check_must_leave(self) -> bool {
        let (filling, turn) = (self.filling.get(), self.turn.get());
        let is_in_use = filling != 0 && filling & TURNS == turn & TURNS;
        if is_in_use {
            self.turn.set(turn.wrapping_add(1));
        }
        is_in_use
    }

    /// Moves the thread to slot `next` of the window with its first slot at address `first`. The window has
    /// space for `room` slots, and the number of its first slot is `base`. No handler may interrupt this.
    pub fn move_thread_to(self, first: usize, base: u64, next: usize, room: usize) {
        self.bias.set(base.wrapping_sub(first as u64 >> 6) as usize);
        self.next.set(first + next * SLOT);
        self.end.set(first + room * SLOT);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
