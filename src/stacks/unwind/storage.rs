//! Storage for gimli's interpreters on the stack, because nothing may be allocated.

use super::processor::REGISTERS;
use gimli::{
    EvaluationStorage, Piece, Reader, Register, RegisterRule, UnwindContextStorage, UnwindTableRow, Value,
};

/// Storage in fixed arrays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnStack;

impl UnwindContextStorage<usize> for OnStack {
    // Also for vector registers, which a few functions save.
    type Rules = [(Register, RegisterRule<usize>); REGISTERS + 16];
    // The row itself, the initial one, and two that were remembered: compilers use one.
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

impl<R: Reader> EvaluationStorage<R> for OnStack {
    type Stack = [Value; 16];
    type ExpressionStack = [(R, R); 0];
    type Result = [Piece<R>; 1];
}
