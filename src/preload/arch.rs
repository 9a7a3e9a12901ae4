//! What the processor's calling convention decides: our block of thread-local words, and the few entries
//! that must leave every argument register and the stack as the caller set them.
//!
//! Another architecture needs this file again, and nothing else of the crate.

use core::arch::{asm, global_asm};
use core::ffi::{c_char, c_void};
use core::sync::atomic::AtomicU64;
use cupeer_spec::record::BlockHeader;

use crate::check::Words;

/// What each thread keeps. Zero at the start of a thread, no destructor: calls come also after a thread's
/// destructors have run.
#[repr(C)]
pub struct Thread {
    /// The return address of the call that entered last.
    pub caller: usize,
    /// The function that it entered, plus 1.
    pub entered: u32,
    /// The function whose call we are forwarding, plus 1.
    pub inside: u32,
    /// Where the stack stood then.
    pub inside_at: usize,
    /// The function that we forward to.
    pub inside_real: usize,
    /// Lines that this thread has written.
    pub written: u64,
    /// Lines that this thread has logged.
    pub logged: AtomicU64,
    /// Where the next slot of its stream lies; at or behind `window_end` where there is no room. See `record`.
    pub next_slot: usize,
    /// Where its window ends.
    pub window_end: usize,
    /// The number of the slot at address A in its stream is A / 64 plus this.
    pub slot_bias: u64,
    /// The process's record that the window belongs to.
    pub epoch: u64,
    /// The window.
    pub window: *mut BlockHeader,
    /// The library that the last recorded call came from, which the record knows.
    pub known: (usize, usize),
    /// Where the stack stood when the thread took slots that it has not filled yet: a signal handler's call must not
    /// empty the window until then. Else 0.
    pub filling: usize,
    /// The same for when it began to make room in its stream.
    pub renewing: usize,
    /// The state of the libraries then.
    pub known_generation: u32,
    /// Whether the thread is going through the objects of the process: see `resolve::elf`.
    pub iterating: u32,
    /// Where what the driver says about the call that it is in is put; null outside of one. See `check`.
    pub words: *mut Words,
    /// What the last call that was looked at for a rule of faults returned, behind a bit that says that there was one, and
    /// the number of the thread: see `inject`.
    pub result: u64,
    pub number: u64,
    /// What `dlerror` shall say in place of our marker: see `resolve::dlerror`.
    pub dlerror: [c_char; 872],
}

/// Offset of [`Thread::entered`], for the entries below.
pub const ENTERED_OFFSET: usize = core::mem::offset_of!(Thread, entered);
const _: () = assert!(core::mem::offset_of!(Thread, caller) == 0 && size_of::<Thread>() == 1024);

// Rust's own thread locals cost a call of __tls_get_addr and may allocate on first use; this block is part
// of the thread's initial memory, because the library is preloaded. A recorded call touches two of its cache lines.
global_asm!(
    ".section .tbss.cupeer_thread,\"awT\",@nobits",
    ".globl cupeer_thread",
    ".hidden cupeer_thread",
    ".type cupeer_thread,@object",
    ".balign 64",
    "cupeer_thread:",
    ".zero 1024",
    ".size cupeer_thread, 1024",
    ".text",
);

/// This thread's block. Valid for as long as the thread runs.
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

/// Where the stack stands: it grows downwards.
#[inline(always)]
pub fn stack_height() -> usize {
    let height: usize;
    // SAFETY: reads the stack pointer.
    unsafe { asm!("mov {}, rsp", out(reg) height, options(nomem, nostack, preserves_flags)) };
    height
}

/// Takes `bytes` of this thread's window: one instruction, so that a signal handler of the thread takes others.
#[inline(always)]
pub fn take_slot(thread: *mut Thread, bytes: usize) -> usize {
    let mut taken = bytes;
    // SAFETY: adds to a word of the thread's block and gives what it was.
    unsafe {
        let place = &raw mut (*thread).next_slot;
        asm!("xadd qword ptr [{}], {}", in(reg) place, inout(reg) taken, options(nostack));
    }
    taken
}

/// The time stamp counter.
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: reads a register that user programs may read, unless somebody has forbidden that for the process,
    // in which case the record does not use it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Calls `work(argument)` on another stack, whose end is `top`, a multiple of 16.
///
/// # Safety
///
/// There is enough memory below `top`, and `work` does not unwind.
#[unsafe(naked)]
pub unsafe extern "C" fn on_stack(top: usize, work: extern "C" fn(*mut c_void), argument: *mut c_void) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// How far behind the start of an export the address lies that look-ups hand out. Inside of the export's
/// symbol, so that `dladdr`, debuggers and profilers name it as they name the driver's function.
pub const LOOKED_UP_OFFSET: usize = 64;

/// How many routes a function has: a caller's is chosen by the bits of its address above the lowest
/// [`ROUTE_SHIFT`].
pub const ROUTES_EACH: usize = 8;
/// See [`ROUTES_EACH`].
pub const ROUTE_SHIFT: usize = 16;

/// An export of ours, in two parts.
///
/// The first, for linked calls, jumps to what the route says that is kept for the caller's address, where the
/// caller lies in its range, else asks `resolve_linked`. The second, [`LOOKED_UP_OFFSET`] behind, is what look-ups hand out, and
/// jumps to the driver's function or to its traced entry. Both touch only registers that no argument uses.
macro_rules! export_entry {
    ($index:expr) => {
        core::arch::naked_asm!(
            "771:",
            "mov r11, qword ptr [rsp]",
            "mov eax, r11d",
            "shr eax, {shift}",
            "and eax, {mask}",
            "lea r10, [rip + {routes} + {offset} * {each}]",
            "mov rax, qword ptr [r10 + rax * 8]",
            "sub r11, qword ptr [rax]",
            "cmp r11, qword ptr [rax + 8]",
            "jae 772f",
            "jmp qword ptr [rax + 16]",
            "772:",
            "push {index}",
            "jmp {resolve}",
            ".org 771b + {looked_up}, 0xcc",
            "jmp qword ptr [rip + {targets} + {offset}]",
            routes = sym $crate::resolve::linked::ROUTES,
            targets = sym $crate::resolve::driver::TARGETS,
            offset = const $index * 8,
            each = const $crate::arch::ROUTES_EACH,
            mask = const $crate::arch::ROUTES_EACH - 1,
            shift = const $crate::arch::ROUTE_SHIFT,
            index = const $index,
            looked_up = const $crate::arch::LOOKED_UP_OFFSET,
            resolve = sym $crate::arch::resolve_linked,
        )
    };
}
pub(crate) use export_entry;

/// Notes the caller and the function for `call`, then goes on to the traced function with all arguments as
/// they came.
macro_rules! traced_entry {
    ($index:expr, $traced:path) => {
        core::arch::naked_asm!(
            "mov r11, qword ptr [rsp]",
            "mov r10, qword ptr [rip + cupeer_thread@GOTTPOFF]",
            "mov qword ptr fs:[r10], r11",
            "mov dword ptr fs:[r10 + {field}], {index}",
            "jmp {traced}",
            field = const $crate::arch::ENTERED_OFFSET,
            index = const $index,
            traced = sym $traced,
        )
    };
}
pub(crate) use traced_entry;

/// The slow way of a linked entry. On the stack: the function's index, then the caller's return address. Saves
/// every register that can hold an argument, because a library's own function of the name may take others.
#[unsafe(naked)]
pub unsafe extern "C" fn resolve_linked() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_adjust_cfa_offset 8",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 128",
        ".cfi_adjust_cfa_offset 176",
        "movups xmmword ptr [rsp], xmm0",
        "movups xmmword ptr [rsp + 16], xmm1",
        "movups xmmword ptr [rsp + 32], xmm2",
        "movups xmmword ptr [rsp + 48], xmm3",
        "movups xmmword ptr [rsp + 64], xmm4",
        "movups xmmword ptr [rsp + 80], xmm5",
        "movups xmmword ptr [rsp + 96], xmm6",
        "movups xmmword ptr [rsp + 112], xmm7",
        "mov rdi, qword ptr [rsp + 176]",
        "mov rsi, qword ptr [rsp + 184]",
        "call {resolve}",
        "movups xmm0, xmmword ptr [rsp]",
        "movups xmm1, xmmword ptr [rsp + 16]",
        "movups xmm2, xmmword ptr [rsp + 32]",
        "movups xmm3, xmmword ptr [rsp + 48]",
        "movups xmm4, xmmword ptr [rsp + 64]",
        "movups xmm5, xmmword ptr [rsp + 80]",
        "movups xmm6, xmmword ptr [rsp + 96]",
        "movups xmm7, xmmword ptr [rsp + 112]",
        "add rsp, 128",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -184",
        // The number of vector registers, where the function takes a variable number of arguments: at most
        // eight, and more than there are does no harm.
        "mov r11, rax",
        "mov eax, 8",
        "jmp r11",
        ".cfi_endproc",
        resolve = sym crate::resolve::linked::resolve,
    )
}

/// Calls `decide(handle, name, return address)`, then either jumps to the address in its first word with
/// everything as the caller left it, so that the real function sees the real caller, or, where that is
/// null, returns its second word.
macro_rules! deciding_entry {
    ($decide:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "push rdi",
            "push rsi",
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 24",
            "mov rdx, qword ptr [rsp + 24]",
            "call {decide}",
            "add rsp, 8",
            "pop rsi",
            "pop rdi",
            ".cfi_adjust_cfa_offset -24",
            "test rax, rax",
            "jz 2f",
            "jmp rax",
            "2:",
            "mov rax, rdx",
            "ret",
            ".cfi_endproc",
            decide = sym $decide,
        )
    };
}
pub(crate) use deciding_entry;

/// What a deciding entry does next. Two words, returned in registers.
#[repr(C)]
pub struct Decision {
    /// Where to jump to, or 0.
    pub jump: usize,
    /// What to return otherwise.
    pub value: usize,
}
