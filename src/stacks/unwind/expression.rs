//! Evaluates the expressions of .eh_frame, which code has if a register and an offset are not enough: entries of the
//! procedure linkage table, realigned stacks, and signal frames.

use super::storage::FixedStackStorage;
use super::{Registers, WINDOW};
use crate::memory::{Memory, MemoryWindow};
use gimli::{Encoding, Evaluation, EvaluationResult, Expression, Format, Location, Piece, Reader, Value};

/// Returns the value of an expression that begins with `start` on its stack.
pub fn evaluate_expression<M: Memory>(
    expression: Expression<impl Reader<Offset = usize>>,
    start: Option<usize>,
    registers: &Registers,
    stack: &mut MemoryWindow<WINDOW, M>,
) -> Option<usize> {
    const ENCODING: Encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
    const MOST_OPERATIONS: u32 = 1 << 12;
    let mut evaluation = Evaluation::<_, FixedStackStorage>::new_in(expression.0, ENCODING);
    evaluation.set_max_iterations(MOST_OPERATIONS);
    if let Some(start) = start {
        evaluation.set_initial_value(start as u64);
    }
    let mut result = evaluation.evaluate();
    loop {
        result = match result.ok()? {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = registers.get(register.0.into())?;
                evaluation.resume_with_register(Value::Generic(value as u64))
            }
            EvaluationResult::RequiresMemory { address, size: 8, space: None, .. } => {
                let [word] = stack.read_words(address as usize)?;
                evaluation.resume_with_memory(Value::Generic(word as u64))
            }
            EvaluationResult::RequiresRelocatedAddress(address) => evaluation.resume_with_relocated_address(address),
            _ => return None,
        };
    }
    match evaluation.as_result() {
        [Piece { location: Location::Address { address }, .. }] => Some(*address as usize),
        _ => None,
    }
}
