//! x86-64: the return address is right below the frame, and functions restore six registers.

use crate::sys::program_memory;

/// The numbers that DWARF gives the registers: the frame pointer, the stack pointer, and where the frame is in its code.
pub const FRAME: usize = 6;
pub const STACK: usize = 7;
pub const PLACE: usize = 16;
pub const REGISTERS: usize = 17;
/// The register by which tables say where the return address is, and how many words below each frame it lies where that
/// is the same for all.
pub const RETURN: usize = PLACE;
pub const RETURN_BELOW: Option<usize> = Some(1);
/// Whether the frame pointer leads to the end of a frame.
pub const RECORD_IS_LAST: bool = true;

/// The registers that a function gives back as they were, and that a rule keeps, how many bits of it each has, and how many
/// the number of the register has that the frame is found by.
pub const KEEPS: [usize; 6] = [3, FRAME, 12, 13, 14, 15];
pub const EACH: u32 = 5;
pub const NUMBER: u32 = 4;
/// Those that a rule forgets.
pub const FORGETS: core::ops::Range<usize> = 0..0;

/// Where the registers lie that the kernel has put on the stack, from the stack pointer on, and their numbers in its order.
pub const CONTEXT: usize = 40;
pub const CONTEXT_ORDER: [usize; REGISTERS] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];

/// The code that every C library lets signal handlers return to: `mov rax, 15; syscall`.
pub const SIGRETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// An instruction of tables that says nothing of where registers are.
pub const SAYS_NOTHING: Option<u8> = None;

/// The address in what was kept as a return address.
#[inline(always)]
pub fn address_of(kept: usize) -> usize {
    kept
}

/// Whether the instruction before an address is a call.
pub fn is_behind_call(address: usize) -> bool {
    const BEFORE: usize = 7;
    let mut bytes = [0; BEFORE];
    if program_memory::copy(address.wrapping_sub(BEFORE), &mut bytes) < BEFORE {
        return false;
    }
    // By a register or by memory: FF, then 2 in the middle of the next byte.
    let is_indirect =
        |length: usize| bytes[BEFORE - length] == 0xff && bytes[BEFORE - length + 1] >> 3 & 7 == 2;
    bytes[BEFORE - 5] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(is_indirect)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SEEN, SIGNALS, WRONG, handle, look_from_handler};
    use core::ffi::{c_int, c_void};
    use core::hint::black_box;
    use std::sync::atomic::{
        AtomicBool,
        Ordering::{Relaxed, SeqCst},
    };

    /// Whether the processor shall trap behind the next instruction, too.
    static TRAPPING: AtomicBool = AtomicBool::new(false);
    const TRAP_FLAG: i64 = 0x100;

    extern "C" fn step(_: c_int, _: *mut c_void, context: *mut libc::ucontext_t) {
        if !TRAPPING.load(Relaxed) {
            // SAFETY: the kernel's context of what was interrupted.
            unsafe { (*context).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG };
        }
        look_from_handler();
    }

    /// Each single instruction of some code of Rust's, of libc's and of the loader's is a place from which the frames are found,
    /// in prologues, epilogues and the procedure linkage table.
    #[test]
    fn frames_are_found_from_every_instruction() {
        let _alone = SIGNALS.lock();
        handle(libc::SIGTRAP, step, 0);
        let seen = SEEN.load(SeqCst);
        let mut text = [0u8; 64];
        let mut numbers = [3u32, 1, 2, 9, 7];
        extern "C" fn compare(a: *const c_void, b: *const c_void) -> c_int {
            // SAFETY: two of the numbers below.
            unsafe { (*a.cast::<u32>()).cmp(&*b.cast()) as c_int }
        }
        TRAPPING.store(true, Relaxed);
        // SAFETY: the flag makes the processor trap behind each instruction until the handler clears it; the text has room.
        unsafe {
            core::arch::asm!("pushfq", "or qword ptr [rsp], {flag}", "popfq", flag = const TRAP_FLAG);
            libc::snprintf(
                text.as_mut_ptr().cast(),
                text.len(),
                c"%d %s %g".as_ptr(),
                17,
                c"text".as_ptr(),
                2.5,
            );
            libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 4, Some(compare));
            black_box(format!("{numbers:?}"));
            black_box(libc::dlsym(libc::RTLD_DEFAULT, c"getpid".as_ptr()));
            TRAPPING.store(false, Relaxed);
        }
        assert_eq!(numbers, [1, 2, 3, 7, 9]);
        let (seen, wrong) = (SEEN.load(SeqCst) - seen, WRONG.load(SeqCst));
        assert!(seen > 2000 && wrong == 0, "{wrong} of {seen}");
    }
}
