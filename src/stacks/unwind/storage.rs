//! Storage for gimli's interpreters on the stack, because nothing may be allocated.

use super::processor::REGISTERS;
use gimli::{EvaluationStorage, Piece, Reader, Register, RegisterRule, UnwindContextStorage, UnwindTableRow, Value};

/// Storage for gimli's interpreters in fixed arrays on the stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FixedStackStorage;

impl UnwindContextStorage<usize> for FixedStackStorage {
    // There is also space for vector registers, which a few functions save.
    type Rules = [(Register, RegisterRule<usize>); REGISTERS + 16];
    // There is space for the row itself, the initial row, and two remembered rows: compilers use one.
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

impl<R: Reader> EvaluationStorage<R> for FixedStackStorage {
    type Stack = [Value; 16];
    type ExpressionStack = [(R, R); 0];
    type Result = [Piece<R>; 1];
}
