//! AArch64: the thread pointer is `tpidr_el0`, after libc's description of the thread, and x30 holds the return
//! address.

use super::{
    ASYNCHRONOUS, AT_ANY_INSTRUCTION, DEFERRED, ENTERED_OFFSET, Relocation, STACKED, Thread, pthread_setcanceltype,
};
use core::arch::asm;
use core::ffi::{CStr, c_ulong, c_void};

/// Version of the symbols in the first C library for this processor.
pub const FIRST_VERSION: &CStr = c"GLIBC_2.17";
/// Name by which the kernel knows the clock that [`ticks`] reads.
pub const COUNTER: &[u8] = b"arch_sys_counter";
/// Largest page size of a kernel for this processor, in bytes.
pub const LARGEST_PAGE: usize = 65536;
/// Greatest distance of the end of a thread's stack from libc's description of the thread, in bytes: the thread-local words of
/// the libraries that are loaded at the start are between them.
pub const BEHIND_DESCRIPTION: usize = 1 << 20;

/// Returns the size of a page in bytes, which is the kernel's choice.
pub fn page_size() -> usize {
    // SAFETY: reads what the kernel has told libc.
    unsafe { libc::getauxval(libc::AT_PAGESZ) as usize }
}

/// Returns the address of this thread's block, which is valid for as long as the thread runs.
#[inline(always)]
pub fn thread() -> *mut Thread {
    let block: *mut Thread;
    // SAFETY: reads the thread pointer and the offset of our block that the linker reserved in every
    // thread's initial memory; writes nothing.
    unsafe {
        asm!(
            "adrp {offset}, :gottprel:cupeer_thread",
            "ldr {offset}, [{offset}, :gottprel_lo12:cupeer_thread]",
            "mrs {block}, tpidr_el0",
            "add {block}, {block}, {offset}",
            offset = out(reg) _,
            block = out(reg) block,
            options(nostack, pure, readonly, preserves_flags),
        );
    }
    block
}

/// Returns the address of libc's description of this thread, the value of `pthread_self`: it is before the thread
/// pointer.
pub fn thread_description() -> usize {
    // SAFETY: pthread_self has no preconditions.
    unsafe { libc::pthread_self() as usize }
}

/// Returns the thread pointer.
pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// Returns the stack pointer. The stack grows downwards.
#[inline(always)]
pub fn stack_height() -> usize {
    let height: usize;
    // SAFETY: reads the stack pointer.
    unsafe { asm!("mov {}, sp", out(reg) height, options(nomem, nostack, preserves_flags)) };
    height
}

/// Adds to a word of this thread and returns its old value, as one step for signal handlers of the thread: the addition starts
/// again if a handler interrupts it, because the return from a handler clears the exclusive monitor. It is not atomic for other
/// threads.
///
/// # Safety
///
/// The word is this thread's.
#[inline(always)]
pub unsafe fn add_uninterrupted(place: *mut usize, more: usize) -> usize {
    let before;
    // SAFETY: as promised.
    unsafe {
        asm!(
            "2:",
            "ldxr {before}, [{place}]",
            "add {after}, {before}, {more}",
            "stxr {failed:w}, {after}, [{place}]",
            "cbnz {failed:w}, 2b",
            place = in(reg) place,
            more = in(reg) more,
            before = out(reg) before,
            after = out(reg) _,
            failed = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
    before
}

#[inline(always)]
pub fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: reads a register that user programs may read, unless somebody has forbidden that for the process,
    // in which case the record does not use it.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// Returns the meaning of a kind of relocation; `None` if it means more than an address or a copy.
pub fn relocation_of(kind: u32) -> Option<Relocation> {
    match kind {
        // R_AARCH64_ABS64, R_AARCH64_GLOB_DAT and R_AARCH64_JUMP_SLOT; R_AARCH64_COPY.
        257 | 1025 | 1026 => Some(Relocation::Address),
        1024 => Some(Relocation::Copy),
        _ => None,
    }
}

/// Calls the resolver of an indirect function, and returns the address of the function that it chooses.
///
/// # Safety
///
/// It is the resolver of an indirect function of a loaded object, whose own relocations are done.
pub unsafe fn resolve_indirect(resolver: usize) -> usize {
    /// Argument that glibc's loader passes to resolvers: its size, and the capabilities of the processor.
    #[repr(C)]
    struct Processor {
        size: c_ulong,
        capabilities: [c_ulong; 2],
    }
    const HAS_MORE: c_ulong = 1 << 62;
    type Resolver = unsafe extern "C" fn(c_ulong, *const Processor) -> usize;
    // SAFETY: as promised; the loader calls it so.
    unsafe {
        let capabilities = [libc::getauxval(libc::AT_HWCAP), libc::getauxval(libc::AT_HWCAP2)];
        let processor = Processor { size: size_of::<Processor>() as c_ulong, capabilities };
        core::mem::transmute::<usize, Resolver>(resolver)(capabilities[0] | HAS_MORE, &processor)
    }
}

/// Number that the patchable instructions of our entries load into a register: "cu".
pub const MARK: u32 = u16::from_le_bytes(*b"cu") as u32;
/// The first instruction of an unpatched entry: `movz w9, #MARK`.
pub const INTACT: u32 = 0x5280_0009 | MARK << 5;

/// Returns the target of a jump at the start of `code`, which is at address `at`, in the forms that patchers write: `b`, and
/// `ldr` of a literal, `adrp` with `add`, or `movz` with `movk`, followed by `br`. `word` reads eight bytes of memory. Returns
/// `None` for other code, such as a breakpoint.
pub fn jump_target(code: &[u8; 16], at: usize, word: impl Fn(usize) -> Option<usize>) -> Option<usize> {
    let [first, second, third, fourth] =
        core::array::from_fn(|index| code[4 * index..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)));
    let is_jump = |instruction: u32| instruction & 0xffff_fc1f == 0xd61f_0000;
    // Returns the field of `bits` bits from bit `from` on, as a signed number.
    let signed =
        |instruction: u32, from: u32, bits: u32| ((instruction << (32 - from - bits)) as i32 >> (32 - bits)) as isize;
    if first >> 26 == 0b000101 {
        return Some(at.wrapping_add_signed(signed(first, 0, 26) * 4));
    }
    if first >> 24 == 0x58 && is_jump(second) {
        return word(at.wrapping_add_signed(signed(first, 5, 19) * 4));
    }
    if first & 0x9f00_0000 == 0x9000_0000 && second & 0xffc0_0000 == 0x9100_0000 && is_jump(third) {
        let pages = signed(first, 5, 19) << 2 | (first >> 29 & 3) as isize;
        let page = (at & !0xfff).wrapping_add_signed(pages << 12);
        return Some(page + (second >> 10 & 0xfff) as usize);
    }
    if first & 0xffe0_0000 == 0xd280_0000 && is_jump(fourth) {
        let part = |instruction: u32| ((instruction >> 5 & 0xffff) as usize) << (16 * (instruction >> 21 & 3));
        return Some(part(first) | part(second) | part(third));
    }
    None
}

/// Returns valgrind's answer to a request of six words; 0 without valgrind. The request is a sequence of instructions that do
/// nothing, and that valgrind recognizes.
pub fn valgrind(words: &[usize; 6]) -> usize {
    let mut answer = 0;
    // SAFETY: the turns of x12 add up to two whole ones, and valgrind reads no more than the words.
    unsafe {
        asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            inout("x3") answer,
            in("x4") words,
            options(nostack, preserves_flags),
        );
    }
    answer
}

/// Instructions that several entries contain, as text for the assembler.
macro_rules! common_asm {
    (begin_frame) => {
        concat!(
            "stp x29, x30, [sp, #-16]!\n",
            ".cfi_adjust_cfa_offset 16\n",
            ".cfi_rel_offset x29, 0\n",
            ".cfi_rel_offset x30, 8\n",
            "mov x29, sp\n",
            ".cfi_def_cfa_register x29",
        )
    };
    // Leaves the stack frame.
    (leave_frame) => {
        concat!(
            "mov sp, x29\n",
            ".cfi_def_cfa_register sp\n",
            "ldp x29, x30, [sp], #16\n",
            ".cfi_adjust_cfa_offset -16\n",
            ".cfi_restore x29\n",
            ".cfi_restore x30",
        )
    };
    (end_frame) => {
        concat!($crate::sys::arch::common_asm!(leave_frame), "\nret\n.cfi_endproc")
    };
    // Pushes the argument registers and the register with the address of a large result, from x29 - 16 down to x29 - 80, with a
    // free word at x29 - 72.
    (push_arguments) => {
        concat!(
            "sub sp, sp, #80\n",
            "stp x0, x1, [x29, #-16]\n",
            "stp x2, x3, [x29, #-32]\n",
            "stp x4, x5, [x29, #-48]\n",
            "stp x6, x7, [x29, #-64]\n",
            "str x8, [x29, #-80]",
        )
    };
    (load_arguments) => {
        concat!(
            "ldp x0, x1, [x29, #-16]\n",
            "ldp x2, x3, [x29, #-32]\n",
            "ldp x4, x5, [x29, #-48]\n",
            "ldp x6, x7, [x29, #-64]\n",
            "ldr x8, [x29, #-80]",
        )
    };
    // Loads the address of this thread's block into x9.
    (find_thread) => {
        concat!(
            "adrp x9, :gottprel:cupeer_thread\n",
            "ldr x9, [x9, :gottprel_lo12:cupeer_thread]\n",
            "mrs x10, tpidr_el0\n",
            "add x9, x9, x10",
        )
    };
    // Calls the function whose address is in the free word, with the arguments of the caller, including those on the stack.
    (call_kept) => {
        concat!(
            "add x9, x29, #16\n",
            "mov x10, sp\n",
            "mov x11, #{stacked} / 16\n",
            "5:\n",
            "ldp x12, x13, [x9], #16\n",
            "stp x12, x13, [x10], #16\n",
            "subs x11, x11, #1\n",
            "b.ne 5b\n",
            $crate::sys::arch::common_asm!(load_arguments),
            "\nldr x16, [x29, #-72]\n",
            "blr x16",
        )
    };
    // Sets the cancellation type of this thread to w0.
    (set_cancel_type) => {
        concat!("mov x1, #0\n", "adrp x16, :got:{set_type}\n", "ldr x16, [x16, :got_lo12:{set_type}]\n", "blr x16",)
    };
    // Sets the cancellation type to deferred, and stores the previous type at the address in x1.
    (swap_cancel_type) => {
        concat!(
            "mov w0, #{deferred}\n",
            "adrp x16, :got:{set_type}\n",
            "ldr x16, [x16, :got_lo12:{set_type}]\n",
            "blr x16",
        )
    };
}
pub(crate) use common_asm;

/// Defines a function of the unwinder as a jump to the function at index `$found`. While that address is 0, it is found by
/// `$find`. The function is visible in this library only.
macro_rules! unwinder_function {
    ($number:literal, $name:ident, $found:ident, $find:ident) => {
        core::arch::global_asm!(
            concat!(".globl ", stringify!($name), "\n.hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ",%function\n", stringify!($name), ":"),
            "adrp x16, {found}",
            "add x16, x16, :lo12:{found}",
            "ldr x16, [x16, #8 * {number}]",
            "cbz x16, 2f",
            "br x16",
            // No function of the unwinder has more arguments.
            "2:",
            "stp x29, x30, [sp, #-48]!",
            "mov x29, sp",
            "stp x0, x1, [sp, #16]",
            "str x2, [sp, #32]",
            "mov w0, #{number}",
            "bl {find}",
            "mov x16, x0",
            "ldr x2, [sp, #32]",
            "ldp x0, x1, [sp, #16]",
            "ldp x29, x30, [sp], #48",
            "br x16",
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            number = const $number,
            found = sym $found,
            find = sym $find,
        );
    };
}
pub(crate) use unwinder_function;

/// Calls `work(argument)` on another stack. `top` is the end of that stack, a multiple of 16.
///
/// # Safety
///
/// There is enough memory below `top`, and `work` does not unwind.
#[unsafe(naked)]
pub unsafe extern "C" fn on_stack(top: usize, work: extern "C" fn(*mut c_void), argument: *mut c_void) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        common_asm!(begin_frame),
        "mov sp, x0",
        "mov x0, x2",
        "blr x1",
        common_asm!(end_frame),
    )
}

/// The registers from which the place of a function's frame can be computed.
pub type Saved = [usize; 13];
/// Numbers that `unwind` gives to the registers in [`Saved`].
pub const SAVED_NUMBERS: [usize; 13] = [19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 31, 32];

/// Saves the registers with the values that they have in the caller after this function returns.
///
/// # Safety
///
/// The place is writable.
#[unsafe(naked)]
pub unsafe extern "C" fn saved_registers(place: *mut Saved) {
    core::arch::naked_asm!(
        "stp x19, x20, [x0]",
        "stp x21, x22, [x0, #16]",
        "stp x23, x24, [x0, #32]",
        "stp x25, x26, [x0, #48]",
        "stp x27, x28, [x0, #64]",
        "mov x9, sp",
        "stp x29, x9, [x0, #80]",
        "str x30, [x0, #96]",
        "ret",
    )
}

/// Jumps to the traced function in x16, in a thread that can be cancelled at any instruction. Cancellation is deferred in the
/// traced function, because an unwinder could only pass through it at a call. No frame here needs cleanup.
#[unsafe(naked)]
pub unsafe extern "C" fn asynchronous() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        common_asm!(begin_frame),
        common_asm!(push_arguments),
        "str x16, [x29, #-72]",
        "sub sp, sp, #16 + {stacked}",
        "sub x1, x29, #88",
        common_asm!(swap_cancel_type),
        common_asm!(find_thread),
        // A signal handler may have interrupted code that is about to forward.
        "ldr x10, [x9, #{target}]",
        "str x10, [x29, #-96]",
        // The addition starts again if a signal handler interrupts it: see `add_uninterrupted`.
        "add x10, x9, #{field}",
        "3:",
        "ldxr w11, [x10]",
        "orr w11, w11, #{asynchronous}",
        "stxr w12, w11, [x10]",
        "cbnz w12, 3b",
        common_asm!(call_kept),
        "str x0, [x29, #-72]",
        common_asm!(find_thread),
        "ldr x10, [x29, #-96]",
        "str x10, [x9, #{target}]",
        "ldr w0, [x29, #-88]",
        common_asm!(set_cancel_type),
        "ldr x0, [x29, #-72]",
        common_asm!(end_frame),
        stacked = const STACKED,
        deferred = const DEFERRED,
        field = const ENTERED_OFFSET,
        target = const core::mem::offset_of!(Thread, target),
        asynchronous = const ASYNCHRONOUS,
        set_type = sym pthread_setcanceltype,
    )
}

/// Calls [`Thread::target`] with the arguments that this function was called with. During that call, this thread can be cancelled
/// at any instruction if the program has set so.
#[unsafe(naked)]
pub unsafe extern "C" fn forward_asynchronously() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        common_asm!(begin_frame),
        common_asm!(push_arguments),
        common_asm!(find_thread),
        "ldr x10, [x9, #{target}]",
        "str x10, [x29, #-72]",
        "sub sp, sp, #{stacked}",
        "mov w0, #{at_any}",
        common_asm!(set_cancel_type),
        common_asm!(call_kept),
        "str x0, [x29, #-72]",
        "mov w0, #{deferred}",
        common_asm!(set_cancel_type),
        "ldr x0, [x29, #-72]",
        common_asm!(end_frame),
        stacked = const STACKED,
        target = const core::mem::offset_of!(Thread, target),
        deferred = const DEFERRED,
        at_any = const AT_ANY_INSTRUCTION,
        set_type = sym pthread_setcanceltype,
    )
}

/// Calls `note(first argument, second argument)`, then jumps to the address that `note` returns, with all arguments unchanged,
/// including variable ones.
macro_rules! noting_entry {
    ($note:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            $crate::sys::arch::common_asm!(begin_frame),
            $crate::sys::arch::common_asm!(push_arguments),
            "bl {note}",
            "mov x16, x0",
            $crate::sys::arch::common_asm!(load_arguments),
            $crate::sys::arch::common_asm!(leave_frame),
            "br x16",
            ".cfi_endproc",
            note = sym $note,
        )
    };
}
pub(crate) use noting_entry;

/// Calls `decide(handle, name, return address, third argument)`. If the first word of its result is not null, jumps to that
/// address with everything as the caller left it, so that the real function sees the real caller; otherwise returns the second
/// word. The thread cannot be cancelled in `decide`: see [`asynchronous`].
macro_rules! deciding_entry {
    ($decide:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            $crate::sys::arch::common_asm!(begin_frame),
            "sub sp, sp, #48",
            "stp x0, x1, [sp]",
            "str x2, [sp, #16]",
            "mov x3, x2",
            "mov x2, x30",
            "adrp x9, {cancel_type}",
            "ldr x9, [x9, :lo12:{cancel_type}]",
            "mrs x10, tpidr_el0",
            "ldrb w9, [x10, x9]",
            "tst w9, #3",
            "b.ne 3f",
            "bl {decide}",
            "2:",
            "mov x16, x0",
            "mov x17, x1",
            "ldp x0, x1, [sp]",
            "ldr x2, [sp, #16]",
            ".cfi_remember_state",
            $crate::sys::arch::common_asm!(leave_frame),
            "cbz x16, 4f",
            "br x16",
            "4:",
            "mov x0, x17",
            "ret",
            ".cfi_restore_state",
            "3:",
            "add x1, sp, #24",
            $crate::sys::arch::common_asm!(swap_cancel_type),
            "ldp x0, x1, [sp]",
            "ldr x3, [sp, #16]",
            "ldr x2, [x29, #8]",
            "bl {decide}",
            "stp x0, x1, [sp, #32]",
            "ldr w0, [sp, #24]",
            $crate::sys::arch::common_asm!(set_cancel_type),
            "ldp x0, x1, [sp, #32]",
            "b 2b",
            ".cfi_endproc",
            decide = sym $decide,
            cancel_type = sym $crate::sys::arch::CANCEL_TYPE,
            deferred = const $crate::sys::arch::DEFERRED,
            set_type = sym $crate::sys::arch::pthread_setcanceltype,
        )
    };
}
pub(crate) use deciding_entry;
