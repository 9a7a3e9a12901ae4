//! Walks the return addresses on a thread's stack. No contents of the stack can end the program.
//!
//! Every byte outside the thread's own stack, and every byte of unwind information, is copied by the kernel
//! (`cupeer_stacks`). So code generated at run time, a modified stack, a library that is being unloaded, and a damaged
//! table give a wrong or a shorter stack, never a fault. Nothing is allocated, no lock is taken, and nothing waits,
//! because the call may come from a signal handler.
//!
//! This file contains the walk. A `rule` describes the step from one frame to the next, and is remembered for its
//! address. It comes from the tables that an object has for the address, or else from the frame pointer: both are in
//! `cupeer_stacks`.

mod rule;

use super::program_memory::Own;
use super::{arch, elf, stack};
use core::mem::MaybeUninit;
use core::ops::Range;
use cupeer_stacks::Window;
use cupeer_stacks::unwind::processor::{FRAME, PLACE, RETURN, RETURN_BELOW, STACK, address_of};
use cupeer_stacks::unwind::{self, Registers};
use rule::{Kind, Rule};

/// Our own frames, and then some: before the frame of the caller is reached.
const MOST_OF_OURS: usize = 64;

type Tables = unwind::Tables<Own>;

/// The tables of the object that an address belongs to.
fn tables(address: usize) -> Option<Tables> {
    Some(Tables::at(elf::unwind_table(address)?, Own))
}

struct Walk(unwind::Walk<Own>);

/// Calls `found` with the return addresses of the frames above the one that returns to `caller`, that one first,
/// at most `most`, until it returns false. The first is `caller`, whatever the stack looks like.
#[inline(never)]
pub fn each_frame(caller: usize, most: usize, mut found: impl FnMut(usize) -> bool) {
    if caller == 0 || most == 0 {
        return;
    }
    let mut walk = Walk::here();
    let mut ours = 0;
    while walk.address() != caller {
        ours += 1;
        if ours > MOST_OF_OURS || !walk.step() {
            found(caller);
            return;
        }
    }
    for left in (0..most).rev() {
        if !found(walk.address()) || left == 0 || !walk.step() {
            return;
        }
    }
}

/// Calls `found` with all return addresses on this thread's stack, from that of the function that calls this on, until it
/// returns false.
#[inline(never)]
pub fn each_frame_from_here(mut found: impl FnMut(usize) -> bool) {
    let mut walk = Walk::here();
    while walk.step() && found(walk.address()) {}
}

/// Returns true if both addresses belong to one function, as the unwind information of their object has it.
pub fn is_same_function(one: usize, other: usize) -> bool {
    elf::unwind_table(one).filter(|table| elf::unwind_table(other) == Some(*table)).is_some_and(|table| {
        let mut tables = Tables::at(table, Own);
        let first = tables.search(one);
        first.is_some() && first == tables.search(other)
    })
}

impl Walk {
    /// One that begins in the frame of the function that this is a part of.
    #[inline(always)]
    fn here() -> Self {
        let mut saved = MaybeUninit::uninit();
        // SAFETY: writes to the place. The frame stays for as long as the walk does.
        let saved = unsafe {
            arch::saved_registers(saved.as_mut_ptr());
            saved.assume_init()
        };
        Walk::from(&saved, stack::above(arch::stack_height()))
    }

    /// One that begins in the frame that saved its registers.
    fn from(saved: &arch::Saved, there: Range<usize>) -> Self {
        let mut registers = Registers::none();
        for (register, value) in arch::SAVED_NUMBERS.iter().zip(saved) {
            registers.set(*register, Some(*value));
        }
        // SAFETY: it is the stack of this thread above the frame of the walk, which stays for as long as the walk goes on.
        let stack = unsafe { Window::beside(Own, there) };
        Walk(unwind::Walk { registers, is_interrupted: false, stack })
    }

    fn address(&self) -> usize {
        self.0.address()
    }

    /// Goes to the next frame. Says whether there is one.
    fn step(&mut self) -> bool {
        let (address, height) = (self.address(), self.0.height());
        let is_there = self.next().is_some() && self.address() != 0;
        is_there && (self.address(), self.0.height()) != (address, height)
    }

    fn next(&mut self) -> Option<()> {
        let address = self.0.asked()?;
        let rule = Rule::at(address);
        self.0.is_interrupted = false;
        match rule.kind() {
            Kind::Frame => self.by_rule(rule),
            Kind::Signal => self.0.by_context(),
            Kind::Odd => self.0.by_tables(&mut tables(address)?, address),
            Kind::Outermost => None,
            Kind::Unknown => self.0.by_frame_pointer(),
        }
    }

    /// The next frame by the rule that almost all code has.
    #[inline]
    fn by_rule(&mut self, rule: Rule) -> Option<()> {
        let unwind::Walk { registers, stack, .. } = &mut self.0;
        let frame = match registers.get(rule.register()) {
            Some(value) => value.wrapping_add_signed(rule.offset()),
            None => by_record(registers, rule)?,
        };
        let (saved, Range { start: nearest, end: behind }) = rule.saved();
        let lowest = frame.checked_sub(8 * (behind - 1))?;
        let bytes = stack.bytes(lowest, 8 * (behind - nearest))?;
        let below = |words: usize| {
            let place = 8 * (behind - 1 - words);
            bytes[place..].first_chunk().map_or(0, |word| usize::from_le_bytes(*word))
        };
        for (register, words) in saved {
            registers.words[register] = below(words);
            if RETURN_BELOW.is_none() {
                // Unlike the others, it is not known from the start.
                registers.known |= 1 << register;
            }
        }
        registers.words[STACK] = frame;
        registers.words[PLACE] = match RETURN_BELOW {
            Some(words) => below(words),
            None => address_of(registers.get(RETURN)?),
        };
        // A function may use the others as it likes.
        registers.known = registers.known & rule::KEPT | 1 << STACK | 1 << PLACE;
        Some(())
    }
}

/// The address of a frame where the stack pointer is not known: functions that keep the frame pointer have it lead to where
/// they keep it.
#[cold]
fn by_record(registers: &Registers, rule: Rule) -> Option<usize> {
    let (mut saved, _) = rule.saved();
    let (_, words) = saved.find(|(register, _)| *register == FRAME)?;
    Some(registers.get(FRAME)?.wrapping_add(8 * words))
}

#[cfg(test)]
pub mod tests;
