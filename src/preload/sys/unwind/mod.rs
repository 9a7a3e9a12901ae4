//! Walks the return addresses on a thread's stack. No contents of the stack can end the program.
//!
//! Every byte outside the thread's own stack, and every byte of unwind information, is copied by the kernel
//! (`memory`). So code generated at run time, a modified stack, a library that is being unloaded, and a damaged table
//! give a wrong or a shorter stack, never a fault. Nothing is allocated, no lock is taken, and nothing waits, because
//! the call may come from a signal handler.
//!
//! This file contains the walk. A `rule` describes the step from one frame to the next, and is remembered for its
//! address. It comes from the `row` that an object's tables (`eh_frame`) have for the address, or else from the frame
//! pointer. The part that depends on the processor has a file for each: see `sys::arch`.

mod eh_frame;
mod expression;
mod memory;
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod processor;
mod row;
mod rule;

use super::{arch, elf, stack};
use core::mem::MaybeUninit;
use core::ops::Range;
use eh_frame::Tables;
use memory::Window;
use processor::{
    CONTEXT, CONTEXT_ORDER, FRAME, PLACE, RECORD_IS_LAST, REGISTERS, RETURN, RETURN_BELOW, STACK, address_of,
    is_behind_call,
};
use rule::{Kind, Rule};

/// Our own frames, and then some: before the frame of the caller is reached.
const MOST_OF_OURS: usize = 64;

/// What is copied of a stack at once.
const WINDOW: usize = 512;

#[derive(Clone, Copy)]
struct Registers {
    words: [usize; REGISTERS],
    /// A bit for each that is known.
    known: u64,
}

impl Registers {
    fn get(&self, register: usize) -> Option<usize> {
        let value = self.words.get(register)?;
        (self.known >> register & 1 == 1).then_some(*value)
    }

    fn set(&mut self, register: usize, value: Option<usize>) {
        match value {
            Some(value) => (self.words[register], self.known) = (value, self.known | 1 << register),
            None => self.known &= !(1 << register),
        }
    }
}

struct Walk {
    registers: Registers,
    /// Whether the frame was interrupted at its address, and not left by a call before it.
    is_interrupted: bool,
    stack: Window<WINDOW>,
}

/// Calls `found` with the return addresses of the frames above the one that returns to `caller`, that one first,
/// at most `most`, until it returns false. The first is `caller`, whatever the stack looks like.
#[inline(never)]
pub fn each_frame(caller: usize, most: usize, mut found: impl FnMut(usize) -> bool) {
    if caller == 0 || most == 0 {
        return;
    }
    let mut saved = MaybeUninit::uninit();
    // SAFETY: writes to the place. This frame stays for as long as the walk does.
    let saved = unsafe {
        arch::saved_registers(saved.as_mut_ptr());
        saved.assume_init()
    };
    let mut walk = Walk::from(&saved, stack::above(arch::stack_height()));
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

/// Returns true if both addresses belong to one function, as the unwind information of their object has it.
pub fn is_same_function(one: usize, other: usize) -> bool {
    elf::unwind_table(one).filter(|table| elf::unwind_table(other) == Some(*table)).is_some_and(|table| {
        let mut tables = Tables::at(table);
        let first = tables.search(one);
        first.is_some() && first == tables.search(other)
    })
}

impl Walk {
    /// One that begins in the frame that saved its registers.
    fn from(saved: &arch::Saved, there: Range<usize>) -> Self {
        let mut registers = Registers { words: [0; REGISTERS], known: 0 };
        for (register, value) in arch::SAVED_NUMBERS.iter().zip(saved) {
            registers.set(*register, Some(*value));
        }
        Walk { registers, is_interrupted: false, stack: Window::beside(there) }
    }

    fn address(&self) -> usize {
        self.registers.words[PLACE]
    }

    /// Goes to the next frame. Says whether there is one.
    fn step(&mut self) -> bool {
        let (address, height) = (self.address(), self.registers.words[STACK]);
        let is_there = self.next().is_some() && self.address() != 0;
        is_there && (self.address(), self.registers.words[STACK]) != (address, height)
    }

    fn next(&mut self) -> Option<()> {
        // The instruction behind a call may belong to another function.
        let address = self.address().checked_sub(usize::from(!self.is_interrupted))?;
        let rule = Rule::at(address);
        self.is_interrupted = false;
        match rule.kind() {
            Kind::Frame => self.by_rule(rule),
            Kind::Signal => self.by_context(),
            Kind::Odd => {
                let mut tables = Tables::containing(address)?;
                let row = tables.row(address)?;
                self.registers = row.apply(&self.registers, &mut tables.bytes, &mut self.stack)?;
                self.is_interrupted = row.is_signal;
                Some(())
            }
            Kind::Outermost => None,
            Kind::Unknown => self.by_frame_pointer(),
        }
    }

    /// The next frame by the rule that almost all code has.
    #[inline]
    fn by_rule(&mut self, rule: Rule) -> Option<()> {
        let frame = match self.registers.get(rule.register()) {
            Some(value) => value.wrapping_add_signed(rule.offset()),
            None => self.by_record(rule)?,
        };
        let (saved, Range { start: nearest, end: behind }) = rule.saved();
        let lowest = frame.checked_sub(8 * (behind - 1))?;
        let bytes = self.stack.bytes(lowest, 8 * (behind - nearest))?;
        let below = |words: usize| {
            let place = 8 * (behind - 1 - words);
            bytes[place..].first_chunk().map_or(0, |word| usize::from_le_bytes(*word))
        };
        for (register, words) in saved {
            self.registers.words[register] = below(words);
            if RETURN_BELOW.is_none() {
                // Unlike the others, it is not known from the start.
                self.registers.known |= 1 << register;
            }
        }
        self.registers.words[STACK] = frame;
        self.registers.words[PLACE] = match RETURN_BELOW {
            Some(words) => below(words),
            None => address_of(self.registers.get(RETURN)?),
        };
        // A function may use the others as it likes.
        self.registers.known = self.registers.known & rule::KEPT | 1 << STACK | 1 << PLACE;
        Some(())
    }

    /// The address of a frame where the stack pointer is not known: functions that keep the frame pointer have it lead to where
    /// they keep it.
    #[cold]
    fn by_record(&self, rule: Rule) -> Option<usize> {
        let (mut saved, _) = rule.saved();
        let (_, words) = saved.find(|(register, _)| *register == FRAME)?;
        Some(self.registers.get(FRAME)?.wrapping_add(8 * words))
    }

    /// The frame that a signal handler has interrupted, by the context that the kernel has put on the stack.
    fn by_context(&mut self) -> Option<()> {
        let start = self.registers.get(STACK)?.wrapping_add(CONTEXT);
        let words = self.stack.bytes(start, 8 * REGISTERS)?;
        for (register, word) in CONTEXT_ORDER.iter().zip(words.as_chunks().0) {
            self.registers.set(*register, Some(usize::from_le_bytes(*word)));
        }
        self.is_interrupted = true;
        Some(())
    }

    /// The next frame where nothing is known of the code: by what lies at the frame pointer, where that is one.
    fn by_frame_pointer(&mut self) -> Option<()> {
        const FARTHEST: usize = 1 << 20;
        if rule::is_sigreturn(self.address()) {
            return self.by_context();
        }
        let (frame, height) = (self.registers.get(FRAME)?, self.registers.words[STACK]);
        if frame % 8 != 0 || frame.checked_sub(height)? > FARTHEST {
            return None;
        }
        let [before, address] = self.stack.words(frame)?;
        let address = address_of(address);
        if !is_behind_call(address) {
            return None;
        }
        self.registers.known = 0;
        for (register, value) in [(FRAME, before), (STACK, frame.wrapping_add(16)), (PLACE, address)] {
            self.registers.set(register, Some(value));
        }
        if !RECORD_IS_LAST {
            // It is somewhere above.
            self.registers.known &= !(1 << STACK);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
