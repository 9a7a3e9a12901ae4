//! x86-64: the thread pointer is `fs`, and the stack holds the return address.

use super::{
    ASYNCHRONOUS, AT_ANY_INSTRUCTION, DEFERRED, ENTERED_OFFSET, Relocation, STACKED, Thread, pthread_setcanceltype,
};
use core::arch::asm;
use core::ffi::{CStr, c_void};

/// Version of the symbols in the first C library for this processor.
pub const FIRST_VERSION: &CStr = c"GLIBC_2.2.5";
/// Name by which the kernel knows the clock that [`ticks`] reads.
pub const COUNTER: &[u8] = b"tsc";
/// Largest page size of a kernel for this processor, in bytes.
pub const LARGEST_PAGE: usize = 4096;
/// Greatest distance of the end of a thread's stack from libc's description of the thread, in bytes: the description itself, and
/// its alignment.
pub const BEHIND_DESCRIPTION: usize = 16 * 1024;

/// Returns the size of a page in bytes.
#[inline(always)]
pub fn page_size() -> usize {
    LARGEST_PAGE
}

/// Returns the address of this thread's block, which is valid for as long as the thread runs.
#[inline(always)]
pub fn thread() -> *mut Thread {
    let block: *mut Thread;
    // SAFETY: reads the thread pointer and the offset of our block that the linker reserved in every
    // thread's initial memory; writes nothing.
    unsafe {
        asm!(
            "mov {block}, qword ptr fs:[0]",
            "add {block}, qword ptr [rip + cupeer_thread@GOTTPOFF]",
            block = out(reg) block,
            options(nostack, pure, readonly),
        );
    }
    block
}

/// Returns the address of libc's description of this thread, the value of `pthread_self`: the thread pointer.
pub fn thread_description() -> usize {
    thread_pointer()
}

/// Returns the thread pointer.
pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the word there is its own address.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, pure, readonly)) };
    pointer
}

/// Returns the stack pointer. The stack grows downwards.
#[inline(always)]
pub fn stack_height() -> usize {
    let height: usize;
    // SAFETY: reads the stack pointer.
    unsafe { asm!("mov {}, rsp", out(reg) height, options(nomem, nostack, preserves_flags)) };
    height
}

/// Adds to a word of this thread and returns its old value. This is a single instruction, which no signal handler of the thread
/// can interrupt. It is not atomic for other threads.
///
/// # Safety
///
/// The word is this thread's.
#[inline(always)]
pub unsafe fn add_uninterrupted(place: *mut usize, more: usize) -> usize {
    let mut before = more;
    // SAFETY: as promised.
    unsafe { asm!("xadd qword ptr [{}], {}", in(reg) place, inout(reg) before, options(nostack)) };
    before
}

#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: reads a register that user programs may read, unless somebody has forbidden that for the process,
    // in which case the record does not use it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Returns the meaning of a kind of relocation; `None` if it means more than an address or a copy.
pub fn relocation_of(kind: u32) -> Option<Relocation> {
    match kind {
        // R_X86_64_64, R_X86_64_GLOB_DAT and R_X86_64_JUMP_SLOT; R_X86_64_COPY.
        1 | 6 | 7 => Some(Relocation::Address),
        5 => Some(Relocation::Copy),
        _ => None,
    }
}

/// Calls the resolver of an indirect function, and returns the address of the function that it chooses.
///
/// # Safety
///
/// It is the resolver of an indirect function of a loaded object, whose own relocations are done.
pub unsafe fn resolve_indirect(resolver: usize) -> usize {
    // SAFETY: as promised; the loader calls it so.
    unsafe { core::mem::transmute::<usize, unsafe extern "C" fn() -> usize>(resolver)() }
}

/// Number that the patchable instructions of our entries load into a register: "cupe".
pub const MARK: u32 = u32::from_le_bytes(*b"cupe");
/// The first four bytes of an unpatched entry: the opcode of `mov eax`, and three bytes of [`MARK`].
pub const INTACT: u32 = MARK << 8 | 0xb8;

/// Returns the target of a jump at the start of `code`, which is at address `at`, in the forms that patchers write: `jmp rel32`,
/// `jmp rel8`, `jmp *disp32(%rip)`, `mov $imm64, %reg` with `jmp *%reg`, and `push` with `ret`. `word` reads eight bytes of
/// memory. Returns `None` for other code, such as a breakpoint.
pub fn jump_target(code: &[u8; 16], at: usize, word: impl Fn(usize) -> Option<usize>) -> Option<usize> {
    let four = |from: usize| code[from..].first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
    let eight = |from: usize| code[from..].first_chunk().map_or(0, |bytes| usize::from_le_bytes(*bytes));
    match *code {
        [0xe9, ..] => Some(at.wrapping_add(5).wrapping_add_signed(four(1) as isize)),
        [0xeb, near, ..] => Some(at.wrapping_add(2).wrapping_add_signed(near as i8 as isize)),
        [0xff, 0x25, ..] => word(at.wrapping_add(6).wrapping_add_signed(four(2) as isize)),
        [0x48, 0xb8..=0xbf, _, _, _, _, _, _, _, _, 0xff, 0xe0..=0xe7, ..]
        | [0x49, 0xb8..=0xbf, _, _, _, _, _, _, _, _, 0x41, 0xff, 0xe0..=0xe7, ..]
        | [0x48, 0xb8..=0xbf, _, _, _, _, _, _, _, _, 0x50..=0x57, 0xc3, ..] => Some(eight(2)),
        [0x68, _, _, _, _, 0xc7, 0x44, 0x24, 0x04, _, _, _, _, 0xc3, ..] => {
            Some(four(1) as u32 as usize | (four(9) as u32 as usize) << 32)
        }
        _ => None,
    }
}

/// Returns valgrind's answer to a request of six words; 0 without valgrind. The request is a sequence of instructions that do
/// nothing, and that valgrind recognizes.
pub fn valgrind(words: &[usize; 6]) -> usize {
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
            in("rax") words,
            in("rdi") 0,
            options(nostack),
        );
    }
    answer
}

/// Instructions that several entries contain, as text for the assembler.
macro_rules! common_asm {
    (begin_frame) => {
        concat!(
            "push rbp\n",
            ".cfi_adjust_cfa_offset 8\n",
            ".cfi_rel_offset rbp, 0\n",
            "mov rbp, rsp\n",
            ".cfi_def_cfa_register rbp",
        )
    };
    (end_frame) => {
        "leave\n.cfi_def_cfa rsp, 8\nret\n.cfi_endproc"
    };
    // Pushes the argument registers, from rbp - 8 down to rbp - 48.
    (push_arguments) => {
        ".irp register, rdi, rsi, rdx, rcx, r8, r9\npush \\register\n.endr"
    };
    (load_arguments) => {
        concat!(
            "mov rdi, qword ptr [rbp - 8]\n",
            "mov rsi, qword ptr [rbp - 16]\n",
            "mov rdx, qword ptr [rbp - 24]\n",
            "mov rcx, qword ptr [rbp - 32]\n",
            "mov r8, qword ptr [rbp - 40]\n",
            "mov r9, qword ptr [rbp - 48]",
        )
    };
    // Calls the function that was pushed last with the arguments of the caller, including those on the stack.
    (call_pushed) => {
        concat!(
            "lea rsi, [rbp + 16]\n",
            "mov rdi, rsp\n",
            "mov ecx, {stacked} / 8\n",
            "rep movsq\n",
            $crate::sys::arch::common_asm!(load_arguments),
            "\ncall qword ptr [rbp - 56]",
        )
    };
    // Sets the cancellation type of this thread to edi.
    (set_cancel_type) => {
        "xor esi, esi\ncall qword ptr [rip + {set_type}@GOTPCREL]"
    };
    // Sets the cancellation type to deferred, and stores the previous type at the address in rsi.
    (swap_cancel_type) => {
        "mov edi, {deferred}\ncall qword ptr [rip + {set_type}@GOTPCREL]"
    };
}
pub(crate) use common_asm;

/// Defines a function of the unwinder as a jump to the function at index `$found`. While that address is 0, it is found by
/// `$find`. The function is visible in this library only.
macro_rules! unwinder_function {
    ($number:literal, $name:ident, $found:ident, $find:ident) => {
        core::arch::global_asm!(
            concat!(".globl ", stringify!($name), "\n.hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@function\n", stringify!($name), ":"),
            "mov rax, qword ptr [rip + {found} + 8 * {number}]",
            "test rax, rax",
            "jz 2f",
            "jmp rax",
            // Three words and the return address are pushed, so the stack is aligned for a call. No function of the unwinder has
            // more arguments.
            "2:",
            "push rdi",
            "push rsi",
            "push rdx",
            "mov edi, {number}",
            "call {find}",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "jmp rax",
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
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        common_asm!(end_frame),
    )
}

/// The registers from which the place of a function's frame can be computed.
pub type Saved = [usize; 8];
/// Numbers that DWARF gives to the registers in [`Saved`].
pub const SAVED_NUMBERS: [usize; 8] = [3, 6, 12, 13, 14, 15, 7, 16];

/// Saves the registers with the values that they have in the caller after this function returns.
///
/// # Safety
///
/// The place is writable.
#[unsafe(naked)]
pub unsafe extern "C" fn saved_registers(place: *mut Saved) {
    core::arch::naked_asm!(
        "mov qword ptr [rdi], rbx",
        "mov qword ptr [rdi + 8], rbp",
        "mov qword ptr [rdi + 16], r12",
        "mov qword ptr [rdi + 24], r13",
        "mov qword ptr [rdi + 32], r14",
        "mov qword ptr [rdi + 40], r15",
        "lea rax, [rsp + 8]",
        "mov qword ptr [rdi + 48], rax",
        "mov rax, qword ptr [rsp]",
        "mov qword ptr [rdi + 56], rax",
        "ret",
    )
}

/// Jumps to the traced function in rax, in a thread that can be cancelled at any instruction. Cancellation is deferred in the
/// traced function, because an unwinder could only pass through it at a call. No frame here needs cleanup.
#[unsafe(naked)]
pub unsafe extern "C" fn asynchronous() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        common_asm!(begin_frame),
        common_asm!(push_arguments),
        "push rax",
        "sub rsp, 24 + {stacked}",
        "lea rsi, [rbp - 64]",
        common_asm!(swap_cancel_type),
        "mov r10, qword ptr [rip + cupeer_thread@GOTTPOFF]",
        // A signal handler may have interrupted code that is about to forward.
        "mov rax, qword ptr fs:[r10 + {target}]",
        "mov qword ptr [rbp - 72], rax",
        "or dword ptr fs:[r10 + {field}], {asynchronous}",
        common_asm!(call_pushed),
        "mov r10, qword ptr [rip + cupeer_thread@GOTTPOFF]",
        "mov rcx, qword ptr [rbp - 72]",
        "mov qword ptr fs:[r10 + {target}], rcx",
        "mov qword ptr [rbp - 56], rax",
        "mov edi, dword ptr [rbp - 64]",
        common_asm!(set_cancel_type),
        "mov rax, qword ptr [rbp - 56]",
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
        "mov r10, qword ptr [rip + cupeer_thread@GOTTPOFF]",
        "push qword ptr fs:[r10 + {target}]",
        "sub rsp, 8 + {stacked}",
        "mov edi, {at_any}",
        common_asm!(set_cancel_type),
        common_asm!(call_pushed),
        "mov qword ptr [rbp - 56], rax",
        "mov edi, {deferred}",
        common_asm!(set_cancel_type),
        "mov rax, qword ptr [rbp - 56]",
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
            "call {note}",
            "mov r11, rax",
            $crate::sys::arch::common_asm!(load_arguments),
            // No arguments are in vector registers.
            "xor eax, eax",
            "leave",
            ".cfi_def_cfa rsp, 8",
            "jmp r11",
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
            "push rdi",
            "push rsi",
            "push rdx",
            "sub rsp, 40",
            "mov rcx, rdx",
            "mov rdx, qword ptr [rbp + 8]",
            "mov rax, qword ptr [rip + {cancel_type}]",
            "test byte ptr fs:[rax], 3",
            "jnz 3f",
            "call {decide}",
            "2:",
            "mov r11, rdx",
            "mov rdi, qword ptr [rbp - 8]",
            "mov rsi, qword ptr [rbp - 16]",
            "mov rdx, qword ptr [rbp - 24]",
            "leave",
            ".cfi_remember_state",
            ".cfi_def_cfa rsp, 8",
            "test rax, rax",
            "jz 4f",
            "jmp rax",
            "4:",
            "mov rax, r11",
            "ret",
            ".cfi_restore_state",
            "3:",
            "lea rsi, [rbp - 32]",
            $crate::sys::arch::common_asm!(swap_cancel_type),
            "mov rdi, qword ptr [rbp - 8]",
            "mov rsi, qword ptr [rbp - 16]",
            "mov rcx, qword ptr [rbp - 24]",
            "mov rdx, qword ptr [rbp + 8]",
            "call {decide}",
            "mov qword ptr [rbp - 40], rax",
            "mov qword ptr [rbp - 48], rdx",
            "mov edi, dword ptr [rbp - 32]",
            $crate::sys::arch::common_asm!(set_cancel_type),
            "mov rax, qword ptr [rbp - 40]",
            "mov rdx, qword ptr [rbp - 48]",
            "jmp 2b",
            ".cfi_endproc",
            decide = sym $decide,
            cancel_type = sym $crate::sys::arch::CANCEL_TYPE,
            deferred = const $crate::sys::arch::DEFERRED,
            set_type = sym $crate::sys::arch::pthread_setcanceltype,
        )
    };
}
pub(crate) use deciding_entry;
