//! The row of unwind information for one address: where the registers of its frame are saved, computed from the
//! instructions of .eh_frame.

use super::processor::{PLACE, REGISTERS, RETURN, SAYS_NOTHING, STACK, address_of};
use super::{Registers, WINDOW, expression};
use crate::memory::{Cursor, Memory, PIECE, Window};

/// Address and length of an expression.
pub type Block = (usize, usize);

/// Unwind information of a function.
pub struct Function {
    /// Start address.
    pub start: usize,
    /// Length in bytes.
    pub length: usize,
    /// Encoding of its pointers.
    pub encoding: u8,
    /// True if its entry has augmentation data.
    pub is_augmented: bool,
    /// True if it is the return trampoline of signal handlers.
    pub is_signal: bool,
    /// The factors of addresses and of offsets.
    pub code_step: usize,
    /// See `code_step`.
    pub data_step: i64,
    /// The instructions that it has in common with others, and its own.
    pub common: Block,
    /// See `common`.
    pub own: Block,
}

/// Rule that restores a register of the next frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Place {
    /// There, still.
    Same,
    /// Nowhere.
    Lost,
    /// So far from the frame's address.
    At(i64),
    /// The frame's address plus an offset.
    Is(i64),
    /// In another register.
    Register(usize),
    /// At the address that an expression computes.
    AtExpression(Block),
    /// The value of an expression.
    IsExpression(Block),
}

/// Rule for the address of a frame, which is the stack pointer in the next frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Frame {
    /// No instruction defined it.
    Unknown,
    /// The value of a register plus an offset.
    Register(usize, i64),
    /// The value of an expression.
    Expression(Block),
}

/// A row of the table that .eh_frame describes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    /// The address of the frame.
    pub frame: Frame,
    /// Rule for each register of the next frame.
    pub places: [Place; REGISTERS],
    /// The next frame was interrupted, and has not called.
    pub is_signal: bool,
}

/// Depth of the stack of remembered rows. Compilers use 1.
const DEPTH: usize = 4;

struct Machine<'a> {
    function: &'a Function,
    row: Row,
    initial: Row,
    remembered: [Row; DEPTH],
    depth: usize,
    /// From where on the row holds.
    from: usize,
}

impl Row {
    /// The row of a function for an address.
    pub fn of<M: Memory>(function: &Function, bytes: &mut Window<PIECE, M>, address: usize) -> Option<Row> {
        let empty =
            Row { frame: Frame::Unknown, places: [Place::Same; REGISTERS], is_signal: function.is_signal };
        let mut machine = Machine {
            function,
            row: empty,
            initial: empty,
            remembered: [empty; DEPTH],
            depth: 0,
            from: function.start,
        };
        machine.run(&mut Cursor::new(bytes, function.common.0, function.common.1)?, usize::MAX)?;
        machine.initial = machine.row;
        machine.from = function.start;
        machine.run(&mut Cursor::new(bytes, function.own.0, function.own.1)?, address)?;
        Some(machine.row)
    }

    /// The registers of the next frame. `None` where they cannot be known, or there is none.
    pub fn apply<M: Memory>(
        &self,
        registers: &Registers,
        bytes: &mut Window<PIECE, M>,
        stack: &mut Window<WINDOW, M>,
    ) -> Option<Registers> {
        let mut evaluate = |block: Block, start: Option<usize>, stack: &mut Window<WINDOW, M>| {
            let mut code = Cursor::new(bytes, block.0, block.1)?;
            expression::evaluate(&mut code, start, registers, stack)
        };
        let frame = match self.frame {
            Frame::Unknown => return None,
            Frame::Register(register, offset) => {
                registers.get(register)?.wrapping_add_signed(offset as isize)
            }
            Frame::Expression(block) => evaluate(block, None, stack)?,
        };
        if self.places[RETURN] == Place::Lost {
            return None;
        }
        let mut next = *registers;
        next.set(STACK, Some(frame));
        for (register, place) in self.places.iter().enumerate() {
            let value = match *place {
                Place::Same => continue,
                Place::Lost => None,
                Place::At(offset) => Some(read(stack, frame.wrapping_add_signed(offset as isize))?),
                Place::Is(offset) => Some(frame.wrapping_add_signed(offset as isize)),
                Place::Register(other) => registers.get(other),
                Place::AtExpression(block) => {
                    let place = evaluate(block, Some(frame), stack)?;
                    Some(read(stack, place)?)
                }
                Place::IsExpression(block) => Some(evaluate(block, Some(frame), stack)?),
            };
            next.set(register, value);
        }
        if RETURN != PLACE {
            next.set(PLACE, Some(address_of(next.get(RETURN)?)));
        }
        Some(next)
    }
}

fn read<M: Memory>(stack: &mut Window<WINDOW, M>, address: usize) -> Option<usize> {
    stack.words(address).map(|[word]| word)
}

impl Machine<'_> {
    /// Runs instructions until the row for an address is there.
    fn run<M: Memory>(&mut self, code: &mut Cursor<M>, address: usize) -> Option<()> {
        while code.at < code.end && self.from <= address {
            let instruction = code.byte()?;
            let low = usize::from(instruction & 0x3f);
            match instruction >> 6 {
                1 => self.advance(low),
                2 => self.put(low, Place::At(self.function.data_step.wrapping_mul(code.unsigned()? as i64))),
                3 => self.restore(low),
                _ => self.other(instruction, code)?,
            }
        }
        Some(())
    }

    fn other<M: Memory>(&mut self, instruction: u8, code: &mut Cursor<M>) -> Option<()> {
        let step = self.function.data_step;
        let data = |number: i64| step.wrapping_mul(number);
        match instruction {
            // DW_CFA_nop, and the size of arguments, which unwinding does not need.
            0x00 => {}
            0x2e => _ = code.unsigned()?,
            // DW_CFA_set_loc and DW_CFA_advance_loc1, 2, 4.
            0x01 => self.from = code.pointer(self.function.encoding, 0)?,
            0x02 => self.advance(usize::from(code.byte()?)),
            0x03 => self.advance(usize::from(code.u16()?)),
            0x04 => self.advance(code.u32()? as usize),
            // DW_CFA_offset_extended, with a sign, and the GNU form with the other sign; DW_CFA_val_offset.
            0x05 => self.put(register(code)?, Place::At(data(code.unsigned()? as i64))),
            0x11 => self.put(register(code)?, Place::At(data(code.signed()?))),
            0x2f => self.put(register(code)?, Place::At(data(code.unsigned()? as i64).wrapping_neg())),
            0x14 => self.put(register(code)?, Place::Is(data(code.unsigned()? as i64))),
            0x15 => self.put(register(code)?, Place::Is(data(code.signed()?))),
            0x06 => self.restore(register(code)?),
            0x07 => self.put(register(code)?, Place::Lost),
            0x08 => self.put(register(code)?, Place::Same),
            0x09 => self.put(register(code)?, Place::Register(register(code)?)),
            // DW_CFA_remember_state and DW_CFA_restore_state.
            0x0a => {
                *self.remembered.get_mut(self.depth)? = self.row;
                self.depth += 1;
            }
            0x0b => {
                self.depth = self.depth.checked_sub(1)?;
                self.row = self.remembered[self.depth];
            }
            // DW_CFA_def_cfa, its register and its offset alone, and the forms with a sign.
            0x0c => self.row.frame = Frame::Register(register(code)?, code.unsigned()? as i64),
            0x12 => self.row.frame = Frame::Register(register(code)?, data(code.signed()?)),
            0x0d => {
                let Frame::Register(_, offset) = self.row.frame else { return None };
                self.row.frame = Frame::Register(register(code)?, offset);
            }
            0x0e | 0x13 => {
                let Frame::Register(register, _) = self.row.frame else { return None };
                let offset = if instruction == 0x0e { code.unsigned()? as i64 } else { data(code.signed()?) };
                self.row.frame = Frame::Register(register, offset);
            }
            // DW_CFA_def_cfa_expression, DW_CFA_expression and DW_CFA_val_expression.
            0x0f => self.row.frame = Frame::Expression(block(code)?),
            0x10 => self.put(register(code)?, Place::AtExpression(block(code)?)),
            0x16 => self.put(register(code)?, Place::IsExpression(block(code)?)),
            _ if Some(instruction) == SAYS_NOTHING => {}
            _ => return None,
        }
        Some(())
    }

    fn put(&mut self, register: usize, place: Place) {
        // Registers that hold no address are left out.
        if let Some(old) = self.row.places.get_mut(register) {
            *old = place;
        }
    }

    fn restore(&mut self, register: usize) {
        if let Some(place) = self.initial.places.get(register) {
            self.put(register, *place);
        }
    }

    /// The row so far is that of the addresses below.
    fn advance(&mut self, steps: usize) {
        self.from = self.from.wrapping_add(steps.wrapping_mul(self.function.code_step));
    }
}

fn register<M: Memory>(code: &mut Cursor<M>) -> Option<usize> {
    usize::try_from(code.unsigned()?).ok()
}

fn block<M: Memory>(code: &mut Cursor<M>) -> Option<Block> {
    let length = usize::try_from(code.unsigned()?).ok()?;
    let block = (code.at, length);
    code.skip(length)?;
    Some(block)
}
