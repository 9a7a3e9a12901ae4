//! What valgrind must be told: it takes a move of the stack pointer for growth where the other stack lies near.
//!
//! A request is a sequence of instructions that do nothing, and that valgrind's own processor knows.

use core::arch::asm;

/// Does work that goes on in the memory from `start` up to `end` as on a stack.
pub fn with_stack(start: usize, end: usize, work: impl FnOnce()) {
    const STACK_REGISTER: usize = 0x1501;
    const STACK_DEREGISTER: usize = 0x1502;
    let stack = request(STACK_REGISTER, start, end);
    work();
    request(STACK_DEREGISTER, stack, 0);
}

/// Whether valgrind executes the process.
pub fn is_here() -> bool {
    const RUNNING_ON_VALGRIND: usize = 0x1001;
    request(RUNNING_ON_VALGRIND, 0, 0) != 0
}

/// What valgrind answers; 0 without it.
fn request(request: usize, first: usize, second: usize) -> usize {
    let words = [request, first, second, 0, 0, 0];
    let mut answer = 0;
    // SAFETY: the turns of rdi add up to two whole ones, and valgrind reads no more than the words.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            inout("rdx") answer,
            in("rax") &words,
            in("rdi") 0,
            options(nostack),
        );
    }
    answer
}
