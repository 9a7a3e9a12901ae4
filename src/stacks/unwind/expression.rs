//! Evaluates the expressions of .eh_frame, which code has if a register and an offset are not enough: entries of the
//! procedure linkage table, realigned stacks, and signal frames. Expressions have no branches, so each one ends.

use super::{Registers, WINDOW};
use crate::memory::{Cursor, Memory, Window};

/// Depth of the evaluation stack.
const DEPTH: usize = 16;

struct Values {
    values: [usize; DEPTH],
    count: usize,
}

impl Values {
    fn push(&mut self, value: usize) -> Option<()> {
        *self.values.get_mut(self.count)? = value;
        self.count += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        Some(self.values[self.count])
    }

    /// Does something with the last two.
    fn both(&mut self, work: impl FnOnce(usize, usize) -> usize) -> Option<()> {
        let (second, first) = (self.pop()?, self.pop()?);
        self.push(work(first, second))
    }
}

/// Evaluates an expression, with `start` on the stack.
pub fn evaluate<M: Memory>(
    code: &mut Cursor<M>,
    start: Option<usize>,
    registers: &Registers,
    stack: &mut Window<WINDOW, M>,
) -> Option<usize> {
    let mut values = Values { values: [0; DEPTH], count: 0 };
    if let Some(start) = start {
        values.push(start)?;
    }
    while code.at < code.end {
        let operation = code.byte()?;
        match operation {
            // DW_OP_deref.
            0x06 => {
                let [word] = stack.words(values.pop()?)?;
                values.push(word)?;
            }
            // DW_OP_const*.
            0x08 => values.push(usize::from(code.byte()?))?,
            0x09 => values.push(code.byte()? as i8 as usize)?,
            0x0a => values.push(usize::from(code.u16()?))?,
            0x0b => values.push(code.u16()? as i16 as usize)?,
            0x0c => values.push(code.u32()? as usize)?,
            0x0d => values.push(code.u32()? as i32 as usize)?,
            0x0e | 0x0f => values.push(code.u64()? as usize)?,
            0x10 => values.push(code.unsigned()? as usize)?,
            0x11 => values.push(code.signed()? as usize)?,
            // DW_OP_dup, drop, swap.
            0x12 => {
                let last = values.pop()?;
                values.push(last)?;
                values.push(last)?;
            }
            0x13 => _ = values.pop()?,
            0x16 => {
                let (second, first) = (values.pop()?, values.pop()?);
                values.push(second)?;
                values.push(first)?;
            }
            // DW_OP_and, minus, mul, or, plus, plus_uconst, shl, shr, shra, xor.
            0x1a => values.both(|a, b| a & b)?,
            0x1c => values.both(usize::wrapping_sub)?,
            0x1e => values.both(usize::wrapping_mul)?,
            0x21 => values.both(|a, b| a | b)?,
            0x22 => values.both(usize::wrapping_add)?,
            0x23 => {
                values.push(code.unsigned()? as usize)?;
                values.both(usize::wrapping_add)?;
            }
            0x24 => values.both(|a, b| a.checked_shl(b as u32).unwrap_or(0))?,
            0x25 => values.both(|a, b| a.checked_shr(b as u32).unwrap_or(0))?,
            0x26 => values.both(|a, b| (a as isize >> b.min(63)) as usize)?,
            0x27 => values.both(|a, b| a ^ b)?,
            // DW_OP_eq, ge, gt, le, lt, ne.
            0x29 => values.both(|a, b| usize::from(a == b))?,
            0x2a => values.both(|a, b| usize::from(a as isize >= b as isize))?,
            0x2b => values.both(|a, b| usize::from(a as isize > b as isize))?,
            0x2c => values.both(|a, b| usize::from(a as isize <= b as isize))?,
            0x2d => values.both(|a, b| usize::from((a as isize) < b as isize))?,
            0x2e => values.both(|a, b| usize::from(a != b))?,
            // DW_OP_lit*, DW_OP_breg* and DW_OP_nop.
            0x30..=0x4f => values.push(usize::from(operation - 0x30))?,
            0x70..=0x8f => values.push(relative(registers, u64::from(operation - 0x70), code)?)?,
            0x92 => values.push(relative(registers, code.unsigned()?, code)?)?,
            0x96 => {}
            _ => return None,
        }
    }
    values.pop()
}

fn relative<M: Memory>(registers: &Registers, register: u64, code: &mut Cursor<M>) -> Option<usize> {
    Some(registers.get(register as usize)?.wrapping_add_signed(code.signed()? as isize))
}
