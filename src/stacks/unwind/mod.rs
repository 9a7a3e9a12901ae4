//! The step from one frame of a thread's stack to the next, by the tables of the object that contains its code, or else by
//! the frame pointer. The part that depends on the processor has a file for each.

mod expression;
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
pub mod processor;
mod reader;
mod row;
mod storage;
mod tables;

use crate::memory::{Memory, MemoryWindow};
pub use gimli::RegisterRule;
use processor::{
    CONTEXT, CONTEXT_ORDER, FRAME, PLACE, RECORD_IS_LAST, REGISTERS, SIGRETURN, STACK, is_after_call,
    plain_code_address,
};
pub use row::UnwindRow;
pub use tables::UnwindTables;

/// Number of bytes of a stack that are copied at once.
pub const WINDOW: usize = 512;

/// The registers of a frame, by their DWARF numbers.
#[derive(Clone, Copy)]
pub struct Registers {
    /// Values of the registers.
    pub words: [usize; REGISTERS],
    /// A bit for each register whose value is known.
    pub known: u64,
}

impl Registers {
    /// Returns a set of registers that are all unknown.
    pub const fn all_unknown() -> Self {
        Registers { words: [0; REGISTERS], known: 0 }
    }

    /// Returns the value of a register if it is known.
    pub fn get(&self, register: usize) -> Option<usize> {
        let value = self.words.get(register)?;
        (self.known >> register & 1 == 1).then_some(*value)
    }

    /// Sets the value of a register, or forgets it if `value` is `None`.
    pub fn set(&mut self, register: usize, value: Option<usize>) {
        match value {
            Some(value) => (self.words[register], self.known) = (value, self.known | 1 << register),
            None => self.known &= !(1 << register),
        }
    }
}

/// A walk through a stack, at one of its frames.
pub struct StackWalk<M> {
    /// The registers of the frame.
    pub registers: Registers,
    /// True if a signal interrupted the frame at its address. False if the frame made a call there.
    pub is_interrupted: bool,
    /// Copied memory of the stack.
    pub stack: MemoryWindow<WINDOW, M>,
}

impl<M: Memory> StackWalk<M> {
    /// Returns the return address of the frame, or the instruction that was interrupted.
    pub fn code_address(&self) -> usize {
        self.registers.words[PLACE]
    }

    /// Returns the frame's position on the stack. Callers have greater ones.
    pub fn stack_height(&self) -> usize {
        self.registers.words[STACK]
    }

    /// Returns the address for table lookups. After a call, it is inside of the call instruction, because the
    /// next instruction may belong to another function.
    pub fn lookup_address(&self) -> Option<usize> {
        self.code_address().checked_sub(usize::from(!self.is_interrupted))
    }

    /// Goes to the next frame by the unwind tables of an object.
    pub fn step_by_tables(&mut self, tables: &UnwindTables<M>, address: usize) -> Option<()> {
        let row = tables.find_row(address)?;
        self.registers = row.caller_registers(&self.registers, &tables.whole_memory_section(), &mut self.stack)?;
        self.is_interrupted = row.is_signal;
        Some(())
    }

    /// Goes to the frame that a signal handler interrupted, by the context that the kernel saved on the
    /// stack.
    pub fn step_by_signal_context(&mut self) -> Option<()> {
        let start = self.registers.get(STACK)?.wrapping_add(CONTEXT);
        let words = self.stack.read_bytes(start, 8 * REGISTERS)?;
        for (register, word) in CONTEXT_ORDER.iter().zip(words.as_chunks().0) {
            self.registers.set(*register, Some(usize::from_le_bytes(*word)));
        }
        self.is_interrupted = true;
        Some(())
    }

    /// Goes to the next frame without unwind tables, by the saved frame pointer.
    pub fn step_by_frame_pointer(&mut self) -> Option<()> {
        const FARTHEST: usize = 1 << 20;
        if is_sigreturn(self.stack.memory(), self.code_address()) {
            return self.step_by_signal_context();
        }
        let (frame, height) = (self.registers.get(FRAME)?, self.registers.words[STACK]);
        if frame % 8 != 0 || frame.checked_sub(height)? > FARTHEST {
            return None;
        }
        let [before, address] = self.stack.read_words(frame)?;
        let address = plain_code_address(address);
        if !is_after_call(self.stack.memory(), address) {
            return None;
        }
        self.registers.known = 0;
        for (register, value) in [(FRAME, before), (STACK, frame.wrapping_add(16)), (PLACE, address)] {
            self.registers.set(register, Some(value));
        }
        if !RECORD_IS_LAST {
            // The stack pointer is unknown; it is above the saved frame pointer.
            self.registers.known &= !(1 << STACK);
        }
        Some(())
    }
}

/// Returns true if the code at an address is the return trampoline of signal handlers.
pub fn is_sigreturn(memory: impl Memory, address: usize) -> bool {
    let mut code = [0; SIGRETURN.len()];
    memory.copy(address, &mut code) == SIGRETURN.len() && code == SIGRETURN
}
