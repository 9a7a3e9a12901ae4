//! Faults on purpose: the one step that may change what the program sees.

use cupeer_spec::function::FnId;

/// A call as the steps see it that may change it.
pub struct Forward<'a> {
    /// The function.
    pub id: FnId,
    /// Its arguments in order: numbers without their sign, pointers and handles as they are; of an IPC handle by value the
    /// address of its bytes.
    pub words: &'a [u64; 8],
    /// Its return address.
    pub caller: usize,
}
