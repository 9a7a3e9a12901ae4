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

use super::program_memory::OwnMemory;
use super::{arch, elf, stack};
use core::mem::MaybeUninit;
use core::ops::Range;
use cupeer_stacks::MemoryWindow;
use cupeer_stacks::unwind::processor::{FRAME, PLACE, RETURN, RETURN_BELOW, STACK, plain_code_address};
use cupeer_stacks::unwind::{self, Registers};
use rule::{Kind, Rule};

/// Largest number of frames before that of the caller, which are our own frames and a few more.
const MOST_OF_OURS: usize = 64;

type Tables = unwind::UnwindTables<OwnMemory>;

/// Returns the unwind tables of the object that contains an address.
fn tables(address: usize) -> Option<Tables> {
    Some(Tables::at(elf::unwind_table(address)?, OwnMemory))
}

type Walk = unwind::StackWalk<OwnMemory>;

/// Calls `found` with the return addresses of at most `most` frames, beginning with the frame that returns to `caller`, until it
/// returns false. The first address is `caller`, even if the stack cannot be read.
#[inline(never)]
pub fn each_frame(caller: usize, most: usize, mut found: impl FnMut(usize) -> bool) {
    if caller == 0 || most == 0 {
        return;
    }
    let mut walk = walk_from_here();
    let mut ours = 0;
    while walk.code_address() != caller {
        ours += 1;
        if ours > MOST_OF_OURS || !step(&mut walk) {
            found(caller);
            return;
        }
    }
    for left in (0..most).rev() {
        if !found(walk.code_address()) || left == 0 || !step(&mut walk) {
            return;
        }
    }
}

/// Calls `found` with all return addresses on this thread's stack, beginning with that of the calling function, until it returns
/// false.
#[inline(never)]
pub fn each_frame_from_here(mut found: impl FnMut(usize) -> bool) {
    let mut walk = walk_from_here();
    while step(&mut walk) && found(walk.code_address()) {}
}

/// Returns true if both addresses are in one function, according to the unwind tables of their object.
pub fn is_same_function(one: usize, other: usize) -> bool {
    elf::unwind_table(one).filter(|table| elf::unwind_table(other) == Some(*table)).is_some_and(|table| {
        let tables = Tables::at(table, OwnMemory);
        let first = tables.search_entry(one);
        first.is_some() && first == tables.search_entry(other)
    })
}

/// Begins a walk in the frame of the function into which this one is inlined.
#[inline(always)]
fn walk_from_here() -> Walk {
    let mut saved = MaybeUninit::uninit();
    // SAFETY: writes to the place. The frame stays for as long as the walk does.
    let saved = unsafe {
        arch::saved_registers(saved.as_mut_ptr());
        saved.assume_init()
    };
    walk_from(&saved, stack::range_above(arch::stack_height()))
}

/// Begins a walk in the frame that saved these registers. `there` is a range of the stack that can be read in place.
fn walk_from(saved: &arch::Saved, there: Range<usize>) -> Walk {
    let mut registers = Registers::all_unknown();
    for (register, value) in arch::SAVED_NUMBERS.iter().zip(saved) {
        registers.set(*register, Some(*value));
    }
    // SAFETY: it is the stack of this thread above the frame of the walk, which stays for as long as the walk goes on.
    let stack = unsafe { MemoryWindow::with_readable_range(OwnMemory, there) };
    Walk { registers, is_interrupted: false, stack }
}

/// Goes to the next frame. Returns false if there is none.
fn step(walk: &mut Walk) -> bool {
    let (address, height) = (walk.code_address(), walk.stack_height());
    let is_there = try_step(walk).is_some() && walk.code_address() != 0;
    is_there && (walk.code_address(), walk.stack_height()) != (address, height)
}

fn try_step(walk: &mut Walk) -> Option<()> {
    let address = walk.lookup_address()?;
    let rule = Rule::for_address(address);
    walk.is_interrupted = false;
    match rule.kind() {
        Kind::Frame => by_rule(walk, rule),
        Kind::Signal => walk.step_by_signal_context(),
        Kind::Complex => walk.step_by_tables(&tables(address)?, address),
        Kind::Outermost => None,
        Kind::Unknown => walk.step_by_frame_pointer(),
    }
}

/// Goes to the next frame by a rule of kind [`Kind::Frame`], which almost all code has.
#[inline]
fn by_rule(Walk { registers, stack, .. }: &mut Walk, rule: Rule) -> Option<()> {
    let frame = match registers.get(rule.register()) {
        Some(value) => value.wrapping_add_signed(rule.offset()),
        None => frame_by_saved_pointer(registers, rule)?,
    };
    let (saved, Range { start: nearest, end: behind }) = rule.saved_registers_below();
    let lowest = frame.checked_sub(8 * (behind - 1))?;
    let bytes = stack.read_bytes(lowest, 8 * (behind - nearest))?;
    let below = |words: usize| {
        let place = 8 * (behind - 1 - words);
        bytes[place..].first_chunk().map_or(0, |word| usize::from_le_bytes(*word))
    };
    for (register, words) in saved {
        registers.words[register] = below(words);
        if RETURN_BELOW.is_none() {
            // This register is not among those that are always known.
            registers.known |= 1 << register;
        }
    }
    registers.words[STACK] = frame;
    registers.words[PLACE] = match RETURN_BELOW {
        Some(words) => below(words),
        None => plain_code_address(registers.get(RETURN)?),
    };
    // A function may change the other registers.
    registers.known = registers.known & rule::KEPT | 1 << STACK | 1 << PLACE;
    Some(())
}

/// Returns the address of a frame if the stack pointer is unknown. In functions with a frame pointer, that register points to the
/// place where its previous value is saved.
#[cold]
fn frame_by_saved_pointer(registers: &Registers, rule: Rule) -> Option<usize> {
    let (mut saved, _) = rule.saved_registers_below();
    let (_, words) = saved.find(|(register, _)| *register == FRAME)?;
    Some(registers.get(FRAME)?.wrapping_add(8 * words))
}

#[cfg(test)]
pub mod tests;
