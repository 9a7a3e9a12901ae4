//! The row of unwind information for one address: where the registers of its frame are saved.

use super::processor::{PLACE, REGISTERS, RETURN, STACK, plain_code_address};
use super::reader::TableReader;
use super::storage::FixedStackStorage;
use super::{Registers, WINDOW, expression};
use crate::memory::{Memory, MemoryWindow};
use gimli::{CfaRule, EhFrame, Register, RegisterRule, UnwindExpression, UnwindTableRow};

/// A row of the table that .eh_frame describes, for one address.
#[derive(Clone)]
pub struct UnwindRow {
    /// Rules for the address of the frame, which is the stack pointer in the calling frame, and for the caller's registers.
    pub rules: UnwindTableRow<usize, FixedStackStorage>,
    /// True if a signal interrupted the next frame; false if that frame made a call.
    pub is_signal: bool,
}

impl UnwindRow {
    /// Returns the rule that restores a register of the next frame.
    pub fn register_rule(&self, register: usize) -> RegisterRule<usize> {
        self.rules.register(Register(register as u16)).unwrap_or(RegisterRule::SameValue)
    }

    /// Returns the register and the offset in bytes whose sum is the address of the frame. Returns `None` if an expression gives
    /// the address.
    pub fn frame_base(&self) -> Option<(usize, i64)> {
        match self.rules.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => Some((register.0.into(), *offset)),
            CfaRule::Expression(_) => None,
        }
    }

    /// Returns true if the frame is the outermost one, which no function called.
    pub fn is_outermost(&self) -> bool {
        self.register_rule(RETURN) == RegisterRule::Undefined
    }

    /// Returns the registers of the next frame. Returns `None` if they cannot be known, or if there is no next frame.
    pub fn caller_registers<M: Memory>(
        &self,
        registers: &Registers,
        section: &EhFrame<TableReader<M>>,
        stack: &mut MemoryWindow<WINDOW, M>,
    ) -> Option<Registers> {
        let evaluate = |expression: &UnwindExpression<usize>, start, stack: &mut MemoryWindow<WINDOW, M>| {
            let expression = expression.get(section).ok()?;
            expression::evaluate_expression(expression, start, registers, stack)
        };
        let frame = match self.rules.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                registers.get(register.0.into())?.wrapping_add_signed(*offset as isize)
            }
            CfaRule::Expression(expression) => evaluate(expression, None, stack)?,
        };
        if self.is_outermost() {
            return None;
        }
        let mut next = *registers;
        next.set(STACK, Some(frame));
        for (register, rule) in self.rules.registers().filter(|(register, _)| usize::from(register.0) < REGISTERS) {
            let value = match rule {
                RegisterRule::SameValue => continue,
                RegisterRule::Undefined => None,
                RegisterRule::Offset(offset) => Some(read_word(stack, frame.wrapping_add_signed(*offset as isize))?),
                RegisterRule::ValOffset(offset) => Some(frame.wrapping_add_signed(*offset as isize)),
                RegisterRule::Register(other) => registers.get(other.0.into()),
                RegisterRule::Expression(expression) => {
                    let place = evaluate(expression, Some(frame), stack)?;
                    Some(read_word(stack, place)?)
                }
                RegisterRule::ValExpression(expression) => Some(evaluate(expression, Some(frame), stack)?),
                RegisterRule::Architectural | RegisterRule::Constant(_) => return None,
            };
            next.set(register.0.into(), value);
        }
        if RETURN != PLACE {
            next.set(PLACE, Some(plain_code_address(next.get(RETURN)?)));
        }
        Some(next)
    }
}

fn read_word<M: Memory>(stack: &mut MemoryWindow<WINDOW, M>, address: usize) -> Option<usize> {
    stack.read_words(address).map(|[word]| word)
}
