//! AArch64: x30 holds the return address; functions save it beside x29 anywhere in their frame, and it may be signed.

use crate::memory::Memory;

/// The numbers that DWARF gives the registers: the frame pointer, the stack pointer; and one for where the frame is in its
/// code.
pub const FRAME: usize = 29;
/// See [`FRAME`].
pub const STACK: usize = 31;
/// See [`FRAME`].
pub const PLACE: usize = 32;
/// How many there are.
pub const REGISTERS: usize = 33;
/// The register by which tables say where the return address is, and how many words below each frame it lies where that
/// is the same for all.
pub const RETURN: usize = 30;
/// See [`RETURN`].
pub const RETURN_BELOW: Option<usize> = None;
/// Whether the frame pointer leads to the end of a frame.
pub const RECORD_IS_LAST: bool = false;

/// The registers that a function gives back as they were, and that a rule keeps, how many bits of it each has, and how many
/// the number of the register has that the frame is found by.
pub const KEEPS: [usize; 2] = [FRAME, RETURN];
/// See [`KEEPS`].
pub const EACH: u32 = 14;
/// See [`KEEPS`].
pub const NUMBER: u32 = 5;
/// Those that a rule forgets: compilers find no frame by them.
pub const FORGETS: core::ops::Range<usize> = 19..29;

/// Where the registers lie that the kernel has put on the stack, from the stack pointer on, and their numbers in its order.
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

/// An instruction of tables that says nothing of where registers are: that the return address is signed from here on.
pub const SAYS_NOTHING: Option<u8> = Some(0x2d);

/// The address in what was kept as a return address: without its signature, where the processor makes such.
#[inline(always)]
pub fn address_of(kept: usize) -> usize {
    let address;
    // SAFETY: takes a signature out of x30; does nothing on a processor that has none.
    unsafe {
        core::arch::asm!("hint #7", inout("x30") kept => address, options(nomem, nostack, preserves_flags));
    }
    address
}

/// Where the call before an address leads to, where the instruction says it.
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

/// Whether the instruction before an address is a call.
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
