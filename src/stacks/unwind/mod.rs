//! The step from one frame of a thread's stack to the next, by the tables of the object that contains its code, or else by
//! the frame pointer. The part that depends on the processor has a file for each.

mod eh_frame;
pub mod expression;
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
pub mod processor;
pub mod row;

use crate::memory::{Memory, Window};
pub use eh_frame::Tables;
use processor::{
    CONTEXT, CONTEXT_ORDER, FRAME, PLACE, RECORD_IS_LAST, REGISTERS, SIGRETURN, STACK, address_of,
    is_behind_call,
};

/// What is copied of a stack at once.
pub const WINDOW: usize = 512;

/// The registers of a frame, by their numbers in DWARF.
#[derive(Clone, Copy)]
pub struct Registers {
    /// What they hold.
    pub words: [usize; REGISTERS],
    /// A bit for each that is known.
    pub known: u64,
}

impl Registers {
    /// None is known.
    pub const fn none() -> Self {
        Registers { words: [0; REGISTERS], known: 0 }
    }

    /// What a register holds, where that is known.
    pub fn get(&self, register: usize) -> Option<usize> {
        let value = self.words.get(register)?;
        (self.known >> register & 1 == 1).then_some(*value)
    }

    /// Sets a register, or forgets it.
    pub fn set(&mut self, register: usize, value: Option<usize>) {
        match value {
            Some(value) => (self.words[register], self.known) = (value, self.known | 1 << register),
            None => self.known &= !(1 << register),
        }
    }
}

/// A walk, at one of its frames.
pub struct Walk<M> {
    /// The registers of the frame.
    pub registers: Registers,
    /// Whether the frame was interrupted at its address, and not left by a call before it.
    pub is_interrupted: bool,
    /// The stack.
    pub stack: Window<WINDOW, M>,
}

impl<M: Memory> Walk<M> {
    /// Where the frame is in its code.
    pub fn address(&self) -> usize {
        self.registers.words[PLACE]
    }

    /// How far down the stack it reaches.
    pub fn height(&self) -> usize {
        self.registers.words[STACK]
    }

    /// The address that tables are asked for: the instruction behind a call may belong to another function.
    pub fn asked(&self) -> Option<usize> {
        self.address().checked_sub(usize::from(!self.is_interrupted))
    }

    /// Goes to the next frame as the tables of an object have it.
    pub fn by_tables(&mut self, tables: &mut Tables<M>, address: usize) -> Option<()> {
        let row = tables.row(address)?;
        self.registers = row.apply(&self.registers, &mut tables.bytes, &mut self.stack)?;
        self.is_interrupted = row.is_signal;
        Some(())
    }

    /// Goes to the frame that a signal handler has interrupted, by the context that the kernel has put on the stack.
    pub fn by_context(&mut self) -> Option<()> {
        let start = self.registers.get(STACK)?.wrapping_add(CONTEXT);
        let words = self.stack.bytes(start, 8 * REGISTERS)?;
        for (register, word) in CONTEXT_ORDER.iter().zip(words.as_chunks().0) {
            self.registers.set(*register, Some(usize::from_le_bytes(*word)));
        }
        self.is_interrupted = true;
        Some(())
    }

    /// Goes to the next frame where nothing is known of the code: by what lies at the frame pointer, where that is one.
    pub fn by_frame_pointer(&mut self) -> Option<()> {
        const FARTHEST: usize = 1 << 20;
        if is_sigreturn(self.stack.memory(), self.address()) {
            return self.by_context();
        }
        let (frame, height) = (self.registers.get(FRAME)?, self.registers.words[STACK]);
        if frame % 8 != 0 || frame.checked_sub(height)? > FARTHEST {
            return None;
        }
        let [before, address] = self.stack.words(frame)?;
        let address = address_of(address);
        if !is_behind_call(self.stack.memory(), address) {
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

/// Whether the code at an address is what signal handlers return to.
pub fn is_sigreturn(memory: impl Memory, address: usize) -> bool {
    let mut code = [0; SIGRETURN.len()];
    memory.copy(address, &mut code) == SIGRETURN.len() && code == SIGRETURN
}
