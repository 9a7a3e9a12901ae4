//! AArch64: x30 has the return address. Functions save it next to x29 anywhere in their frame, and it may be
//! signed.

use crate::memory::Memory;

/// DWARF register numbers of the frame pointer and the stack pointer, and a number for the code address.
pub const FRAME: usize = 29;
/// See [`FRAME`].
pub const STACK: usize = 31;
/// See [`FRAME`].
pub const PLACE: usize = 32;
/// Number of tracked registers.
pub const REGISTERS: usize = 33;
/// Register number of the return address in unwind tables, and its distance below each frame in words if it
/// is the same for all frames.
pub const RETURN: usize = 30;
/// See [`RETURN`].
pub const RETURN_BELOW: Option<usize> = None;
/// True if the frame pointer points to the end of a frame.
pub const RECORD_IS_LAST: bool = false;

/// Callee-saved registers that a rule keeps, the bits of each, and the bits of the register number by which
/// the frame is found.
pub const KEEPS: [usize; 2] = [FRAME, RETURN];
/// See [`KEEPS`].
pub const EACH: u32 = 14;
/// See [`KEEPS`].
pub const NUMBER: u32 = 5;
/// Registers that a rule forgets, because compilers do not compute frames from them.
pub const FORGETS: core::ops::Range<usize> = 19..29;

/// Offset, from the stack pointer, of the registers that the kernel saved on the stack, and their numbers in
/// the kernel's order.
pub const CONTEXT: usize = 312;
/// See [`CONTEXT`].
pub const CONTEXT_ORDER: [usize; REGISTERS] = {
    let mut order = [0; REGISTERS];
    let mut number = 0;
    while number < REGISTERS {
        order[number] = number;
        number += 1;
    }
    order
};

/// The code that the kernel lets signal handlers return to: `mov x8, #139; svc #0`.
pub const SIGRETURN: [u8; 8] = [0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4];

/// Extensions of the unwind tables.
pub const VENDOR: gimli::Vendor = gimli::Vendor::AArch64;

/// Returns the address in a saved return address, without its signature if the processor adds one.
#[inline(always)]
pub fn address_of(kept: usize) -> usize {
    let address;
    // SAFETY: takes a signature out of x30; does nothing on a processor that has none.
    unsafe {
        core::arch::asm!("hint #7", inout("x30") kept => address, options(nomem, nostack, preserves_flags));
    }
    address
}

/// Returns the target of the call before an address if it is a direct call.
pub fn call_target(memory: impl Memory, address: usize) -> Option<usize> {
    let mut bytes = [0; 4];
    let call = address.checked_sub(4)?;
    if memory.copy(call, &mut bytes) < bytes.len() {
        return None;
    }
    let instruction = u32::from_le_bytes(bytes);
    // The distance of BL has 26 bits, in words.
    let distance = (instruction as i32) << 6 >> 4;
    (instruction >> 26 == 0b10_0101).then(|| call.wrapping_add_signed(distance as isize))
}

/// Returns true if the instruction before an address is a call.
pub fn is_behind_call(memory: impl Memory, address: usize) -> bool {
    let mut bytes = [0; 4];
    if address % 4 != 0 || memory.copy(address.wrapping_sub(4), &mut bytes) < bytes.len() {
        return false;
    }
    let instruction = u32::from_le_bytes(bytes);
    // BL, BLR, and BLR of a signed address.
    instruction >> 26 == 0b10_0101
        || instruction & 0xffff_fc1f == 0xd63f_0000
        || instruction & 0xfeff_f800 == 0xd63f_0800
}
