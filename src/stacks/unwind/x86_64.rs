//! x86-64: the return address is right below the frame, and functions restore six registers.

use crate::memory::Memory;

/// DWARF number of the frame pointer.
pub const FRAME: usize = 6;
/// DWARF number of the stack pointer.
pub const STACK: usize = 7;
/// DWARF number of the code address.
pub const PLACE: usize = 16;
/// Number of tracked registers.
pub const REGISTERS: usize = 17;
/// DWARF number of the register with the return address.
pub const RETURN: usize = PLACE;
/// Distance of the saved return address below each frame, in words; `None` if frames differ.
pub const RETURN_BELOW: Option<usize> = Some(1);
/// True if the frame pointer of a function points to the end of its frame.
pub const RECORD_IS_LAST: bool = true;

/// DWARF numbers of the callee-saved registers that a rule keeps.
pub const KEEPS: [usize; 6] = [3, FRAME, 12, 13, 14, 15];
/// Number of bits in a rule for each of [`KEEPS`].
pub const EACH: u32 = 5;
/// Number of bits in a rule for the number of the register by which the frame is found.
pub const NUMBER: u32 = 4;
/// DWARF numbers of registers that a rule forgets; none on this processor.
pub const FORGETS: core::ops::Range<usize> = 0..0;

/// Offset, from the stack pointer in a signal handler's trampoline, of the registers that the kernel saved, in bytes.
pub const CONTEXT: usize = 40;
/// DWARF numbers of the registers that the kernel saved, in the kernel's order.
pub const CONTEXT_ORDER: [usize; REGISTERS] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];

/// Instructions to which every C library lets signal handlers return: `mov rax, 15; syscall`.
pub const SIGRETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Set of DWARF extensions in the unwind tables for this processor.
pub const VENDOR: gimli::Vendor = gimli::Vendor::Default;

/// Returns the code address in a saved return address.
#[inline(always)]
pub fn plain_code_address(kept: usize) -> usize {
    kept
}

/// Returns the target of the call instruction before an address, if it is a direct call.
pub fn call_target(memory: impl Memory, address: usize) -> Option<usize> {
    let mut bytes = [0; 5];
    if memory.copy(address.checked_sub(5)?, &mut bytes) < bytes.len() || bytes[0] != 0xe8 {
        return None;
    }
    let distance = i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
    Some(address.wrapping_add_signed(distance as isize))
}

/// Returns true if the instruction before an address is a call.
pub fn is_after_call(memory: impl Memory, address: usize) -> bool {
    const BEFORE: usize = 7;
    let mut bytes = [0; BEFORE];
    if memory.copy(address.wrapping_sub(BEFORE), &mut bytes) < BEFORE {
        return false;
    }
    // The instruction is an indirect call through a register or memory: FF, then 2 in the middle of the next byte.
    let is_indirect = |length: usize| bytes[BEFORE - length] == 0xff && bytes[BEFORE - length + 1] >> 3 & 7 == 2;
    bytes[BEFORE - 5] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(is_indirect)
}
