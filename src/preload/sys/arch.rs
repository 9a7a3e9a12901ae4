//! What the processor's calling convention decides: our block of thread-local words, and what must leave every argument
//! register and the stack as the caller set them.
//!
//! A port to another architecture rewrites this file and `entry::arch`, and nothing else of the crate.

use core::arch::{asm, global_asm};
use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use cupeer_spec::record::BlockHeader;

use super::memory::Region;

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
    pub window_end: usize,
    /// The number of the slot at address A in its stream is A / 64 plus this.
    pub slot_bias: usize,
    /// The process's record that the window belongs to.
    pub epoch: u64,
    pub window: *mut BlockHeader,
    /// The library that the last recorded call came from, which the record knows.
    pub known: (usize, usize),
    /// Who is about to write to the window, while somebody is: where the stack stands, above a byte of `turn`; else 0. A
    /// signal handler's call that comes in between puts back what it has found. See `record::stream`.
    pub filling: usize,
    /// How often the thread has left a window that it was about to write to.
    pub turn: usize,
    /// The state of the libraries then.
    pub known_generation: u32,
    /// Whether the thread is going through the objects of the process: see `elf`.
    pub iterating: u32,
    /// Where what the driver logs about the call that it is in is kept; null where it is not. See `driver::log`.
    pub driver_messages: *mut c_void,
    /// What the last call that was looked at for a rule of faults returned, behind a bit that says that there was one, and
    /// the number of the thread: see `fault::inject`.
    pub result: u64,
    pub number: u64,
    /// The window that it had to leave so at last, and 1 added where that is over; 0 where there was none.
    pub kept: usize,
    /// Where its collections lie while it makes some: see `memory`.
    pub region: *mut Region,
    /// What a thread that can be cancelled at any instruction forwards to next: see [`asynchronous`].
    pub target: usize,
    /// Where its own stack lies: see `stack`.
    pub stack: (usize, usize),
    /// The start of the other stack that it is on, else 0; and where it stood on the one before. See `aside`.
    pub aside: (usize, usize),
    /// The last context that was seen current, and the record in which it was: see `driver::questions`.
    pub context: (u64, u64),
    /// What `dlerror` shall say in place of our marker: see `resolve::dlerror`.
    pub dlerror: [c_char; 800],
}

/// Offset of [`Thread::entered`], for the entries below.
pub const ENTERED_OFFSET: usize = core::mem::offset_of!(Thread, entered);
/// The bit of [`Thread::entered`] that says that the call came through [`asynchronous`].
pub const ASYNCHRONOUS: u32 = 1 << 31;
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

/// The thread pointer, at which libc's description of the thread begins.
pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the word there is its own address.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, pure, readonly)) };
    pointer
}

/// Where the stack stands: it grows downwards.
#[inline(always)]
pub fn stack_height() -> usize {
    let height: usize;
    // SAFETY: reads the stack pointer.
    unsafe { asm!("mov {}, rsp", out(reg) height, options(nomem, nostack, preserves_flags)) };
    height
}

/// Adds to a word and gives what it was: one instruction, into which no signal handler of the thread can come. Other threads
/// can.
///
/// # Safety
///
/// The word is this thread's.
#[inline(always)]
pub unsafe fn add(place: *mut usize, more: usize) -> usize {
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

/// What several entries have in common, as text for the assembler.
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
    // The argument registers, from rbp - 8 down to rbp - 48.
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
    // Calls what was pushed last with the arguments of the caller, those on the stack as well.
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
    // Whether this thread can be cancelled at any instruction is changed to edi.
    (set_cancel_type) => {
        "xor esi, esi\ncall qword ptr [rip + {set_type}@GOTPCREL]"
    };
    // As above, and what it was goes to where rsi points.
    (swap_cancel_type) => {
        "mov edi, {deferred}\ncall qword ptr [rip + {set_type}@GOTPCREL]"
    };
}
pub(crate) use common_asm;

/// Calls `work(argument)` on another stack, whose end is `top`, a multiple of 16.
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

/// The registers that tell where a function's frame is, and the numbers that DWARF gives them.
pub type Saved = [usize; 8];
pub const SAVED_NUMBERS: [usize; 8] = [3, 6, 12, 13, 14, 15, 7, 16];

/// Saves them as they are in the caller when this has returned.
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

/// Where, from the thread pointer on, the C library keeps whether this thread can be cancelled at any instruction: in the
/// two lowest bits of a byte, which may also say that it cannot be cancelled at all. 0 before it is found: that byte of
/// the thread pointer itself never has them.
pub static CANCEL_TYPE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C-unwind" {
    pub fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

/// Can be cancelled where it calls what may be a cancellation point.
pub const DEFERRED: c_int = 0;
/// Can be cancelled at any instruction.
const AT_ANY_INSTRUCTION: c_int = 1;

/// Finds [`CANCEL_TYPE`], by what the C library changes when it is told so. Called by our constructor.
pub fn find_cancel_type() {
    /// What lies behind the thread pointer is longer in every C library.
    const END: usize = 1024;
    const FROM: usize = 64;
    let own = thread_pointer();
    // SAFETY: these bytes are the C library's, of this thread, and readable.
    let bytes =
        || core::array::from_fn::<u8, END, _>(|i| unsafe { (own as *const u8).add(i).read_volatile() });
    let mut before = 0;
    // SAFETY: `before` is writable. Nobody cancels the thread that runs the constructors.
    let (deferred, at_any, again) = unsafe {
        pthread_setcanceltype(DEFERRED, &mut before);
        let deferred = bytes();
        pthread_setcanceltype(AT_ANY_INSTRUCTION, ptr::null_mut());
        let at_any = bytes();
        pthread_setcanceltype(DEFERRED, ptr::null_mut());
        let again = bytes();
        pthread_setcanceltype(before, ptr::null_mut());
        (deferred, at_any, again)
    };
    let mut changed = (FROM..END).filter(|i| deferred[*i] != at_any[*i]);
    if let (Some(place), None) = (changed.next(), changed.next())
        && deferred == again
        && deferred[place] & 3 == 0
        && at_any[place] & 3 != 0
    {
        CANCEL_TYPE.store(place, Relaxed);
    }
}

/// The bytes of arguments on the stack that are passed on: more than any function of the table has.
const STACKED: usize = 128;

/// Goes on to the traced function in rax, of a thread that can be cancelled at any instruction: not in there, where an
/// unwinder finds calls alone that it can go through. No frame here has anything to be cleaned up.
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
        // The code that a signal handler has interrupted may be about to forward.
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

/// Calls [`Thread::target`] with the arguments that it is called with, while this thread can be cancelled at any instruction
/// as the program wants it.
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

/// Calls `decide(handle, name, return address, third argument)`, then either jumps to the address in its first word with
/// everything as the caller left it, so that the real function sees the real caller, or, where that is
/// null, returns its second word. The thread cannot be cancelled in there: see [`asynchronous`].
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

/// What a deciding entry does next. Two words, returned in registers.
#[repr(C)]
pub struct Decision {
    /// Where to jump to, or 0.
    pub jump: usize,
    /// What to return otherwise.
    pub value: usize,
}
