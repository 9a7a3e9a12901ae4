//! AArch64: x30 has the return address. Functions save it next to x29 anywhere in their frame, and it may be
//! signed.

use crate::memory::Memory;

/// DWARF number of the frame pointer.
pub const FRAME: usize = 29;
/// DWARF number of the stack pointer.
pub const STACK: usize = 31;
/// Number of the code address, which is not a DWARF register.
pub const PLACE: usize = 32;
/// Number of tracked registers.
pub const REGISTERS: usize = 33;
/// DWARF number of the register with the return address.
pub const RETURN: usize = 30;
/// Distance of the saved return address below each frame, in words; `None` if frames differ.
pub const RETURN_BELOW: Option<usize> = None;
/// True if the frame pointer of a function points to the end of its frame.
pub const RECORD_IS_LAST: bool = false;

/// DWARF numbers of the callee-saved registers that a rule keeps.
pub const KEEPS: [usize; 2] = [FRAME, RETURN];
/// Number of bits in a rule for each of [`KEEPS`].
pub const EACH: u32 = 14;
/// Number of bits in a rule for the number of the register by which the frame is found.
pub const NUMBER: u32 = 5;
/// DWARF numbers of registers that a rule forgets, because compilers do not compute frames from them.
pub const FORGETS: core::ops::Range<usize> = 19..29;

/// Offset, from the stack pointer in a signal handler's trampoline, of the registers that the kernel saved,
/// in bytes.
pub const CONTEXT: usize = 312;
/// DWARF numbers of the registers that the kernel saved, in the kernel's order.
pub const CONTEXT_ORDER: [usize; REGISTERS] = {
    let mut order = [0; REGISTERS];
    let mut number = 0;
    while number < REGISTERS {
        order[number] = number;
        number += 1;
    }
    order
};

/// Instructions to which the kernel lets signal handlers return: `mov x8, #139; svc #0`.
pub const SIGRETURN: [u8; 8] = [0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4];

/// Set of DWARF extensions in the unwind tables for this processor.
pub const VENDOR: gimli::Vendor = gimli::Vendor::AArch64;

/// Returns the code address in a saved return address, without the signature that some processors add.
#[inline(always)]
pub fn plain_code_address(kept: usize) -> usize {
    let address;
    // SAFETY: takes a signature out of x30; does nothing on a processor that has none.
    unsafe {
        core::arch::asm!("hint #7", inout("x30") kept => address, options(nomem, nostack, preserves_flags));
    }
    address
}

/// Returns the target of the call instruction before an address, if it is a direct call.
pub fn call_target(memory: impl Memory, address: usize) -> Option<usize> {
    let mut bytes = [0; 4];
    let call = address.checked_sub(4)?;
    if memory.copy(call, &mut bytes) < bytes.len() {
        return None;
    }
    let instruction = u32::from_le_bytes(bytes);
    // The distance in a BL instruction has 26 bits, in words.
    let distance = (instruction as i32) << 6 >> 4;
    (instruction >> 26 == 0b10_0101).then(|| call.wrapping_add_signed(distance as isize))
}

/// Returns true if the instruction before an address is a call.
pub fn is_after_call(memory: impl Memory, address: usize) -> bool {
    let mut bytes = [0; 4];
    if address % 4 != 0 || memory.copy(address.wrapping_sub(4), &mut bytes) < bytes.len() {
        return false;
    }
    let instruction = u32::from_le_bytes(bytes);
    // The instruction is BL, BLR, or a BLR that checks a signed address.
    instruction >> 26 == 0b10_0101
        || instruction & 0xffff_fc1f == 0xd63f_0000
        || instruction & 0xfeff_f800 == 0xd63f_0800
}
