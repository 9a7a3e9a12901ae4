//! x86-64: the return address is right below the frame, and functions restore six registers.

use crate::memory::Memory;

/// The numbers that DWARF gives the registers: the frame pointer, the stack pointer, and where the frame is in its code.
pub const FRAME: usize = 6;
/// See [`FRAME`].
pub const STACK: usize = 7;
/// See [`FRAME`].
pub const PLACE: usize = 16;
/// Number of tracked registers.
pub const REGISTERS: usize = 17;
/// Register number of the return address in unwind tables, and its distance below each frame in words if it
/// is the same for all frames.
pub const RETURN: usize = PLACE;
/// See [`RETURN`].
pub const RETURN_BELOW: Option<usize> = Some(1);
/// True if the frame pointer points to the end of a frame.
pub const RECORD_IS_LAST: bool = true;

/// Callee-saved registers that a rule keeps, the bits of each, and the bits of the register number by which
/// the frame is found.
pub const KEEPS: [usize; 6] = [3, FRAME, 12, 13, 14, 15];
/// See [`KEEPS`].
pub const EACH: u32 = 5;
/// See [`KEEPS`].
pub const NUMBER: u32 = 4;
/// Registers that a rule forgets.
pub const FORGETS: core::ops::Range<usize> = 0..0;

/// Offset, from the stack pointer, of the registers that the kernel saved on the stack, and their numbers in
/// the kernel's order.
pub const CONTEXT: usize = 40;
/// See [`CONTEXT`].
pub const CONTEXT_ORDER: [usize; REGISTERS] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];

/// The code that every C library lets signal handlers return to: `mov rax, 15; syscall`.
pub const SIGRETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Extensions of the unwind tables.
pub const VENDOR: gimli::Vendor = gimli::Vendor::Default;

/// Returns the address in a saved return address.
#[inline(always)]
pub fn address_of(kept: usize) -> usize {
    kept
}

/// Returns the target of the call before an address if it is a direct call.
pub fn call_target(memory: impl Memory, address: usize) -> Option<usize> {
    let mut bytes = [0; 5];
    if memory.copy(address.checked_sub(5)?, &mut bytes) < bytes.len() || bytes[0] != 0xe8 {
        return None;
    }
    let distance = i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
    Some(address.wrapping_add_signed(distance as isize))
}

/// Returns true if the instruction before an address is a call.
pub fn is_behind_call(memory: impl Memory, address: usize) -> bool {
    const BEFORE: usize = 7;
    let mut bytes = [0; BEFORE];
    if memory.copy(address.wrapping_sub(BEFORE), &mut bytes) < BEFORE {
        return false;
    }
    // An indirect call, through a register or memory: FF, then 2 in the middle of the next byte.
    let is_indirect =
        |length: usize| bytes[BEFORE - length] == 0xff && bytes[BEFORE - length + 1] >> 3 & 7 == 2;
    bytes[BEFORE - 5] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(is_indirect)
}
