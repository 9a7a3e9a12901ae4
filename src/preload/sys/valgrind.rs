//! Tells valgrind about other stacks, because it takes a move of the stack pointer for growth if the other stack is
//! near.

use super::arch;

/// Does work on a stack that is in the memory from `start` to `end`.
pub fn with_stack(start: usize, end: usize, work: impl FnOnce()) {
    const STACK_REGISTER: usize = 0x1501;
    const STACK_DEREGISTER: usize = 0x1502;
    let stack = request(STACK_REGISTER, start, end);
    work();
    request(STACK_DEREGISTER, stack, 0);
}

/// Returns true if valgrind is running this process.
pub fn is_valgrind_running() -> bool {
    const RUNNING_ON_VALGRIND: usize = 0x1001;
    request(RUNNING_ON_VALGRIND, 0, 0) != 0
}

/// Returns valgrind's answer to a request with two arguments; 0 without valgrind.
fn request(request: usize, first: usize, second: usize) -> usize {
    arch::valgrind(&[request, first, second, 0, 0, 0])
}
