//! x86-64: the stack holds the caller's address, and rax, r10, and r11 hold no argument.

use crate::sys::arch::{DEFERRED, common_asm, pthread_setcanceltype};
#[cfg(doc)]
use crate::sys::arch::{INTACT, asynchronous};

/// Notes the caller and the function in the thread's block, then jumps to the traced function.
macro_rules! go_to_traced {
    ($traced:literal) => {
        concat!(
            "mov r11, qword ptr [rsp]\n",
            "mov r10, qword ptr [rip + cupeer_thread@GOTTPOFF]\n",
            // The order of these stores matters: see `call::resolve_target`.
            "mov dword ptr fs:[r10 + {field}], {index} + 1\n",
            "mov qword ptr fs:[r10], r11\n",
            "mov rax, qword ptr [rip + {cancel_type}]\n",
            "test byte ptr fs:[rax], 3\n",
            concat!("jnz 2f\njmp ", $traced, "\n"),
            concat!("2:\nlea rax, [rip + ", $traced, "]\n"),
            "jmp {asynchronous}",
        )
    };
}
pub(crate) use go_to_traced;

/// Instructions at the start of an entry that a patcher may move: 20 bytes, of a form that even UCX's decoder knows. They change
/// only rax, which holds no argument.
macro_rules! patchable {
    () => {
        ".rept 4\nmov eax, {mark}\n.endr"
    };
}
pub(crate) use patchable;

/// Jumps to `$patched` if the first bytes at `$at` are not [`INTACT`]. Changes only the flags.
macro_rules! go_where_patched {
    ($at:literal, $patched:literal) => {
        concat!(concat!("cmp dword ptr [rip + ", $at, "], {intact}\n"), concat!("jne ", $patched))
    };
}
pub(crate) use go_where_patched;

/// The code of an export: see `super::export_entry`.
macro_rules! export_code {
    ($operands:tt) => {
        $crate::entry::arch::export_asm! { $operands
            // Some patchers write the first two bytes at once, which needs an aligned address.
            ".p2align 4",
            "771:",
            ".cfi_startproc",
            $crate::entry::arch::patchable!(),
            $crate::entry::arch::go_where_patched!("771b + {looked_up}", "774f"),
            "773:",
            "mov r11, qword ptr [rsp]",
            "mov eax, r11d",
            "shr eax, {shift}",
            "and eax, {mask}",
            "lea r10, [rip + {routes} + {offset} * {each}]",
            "mov rax, qword ptr [r10 + rax * 8]",
            "lea r10, [rip + {nowhere}]",
            "add rax, r10",
            "sub r11, qword ptr [rax]",
            "cmp r11, qword ptr [rax + 8]",
            "jae 772f",
            "jmp qword ptr [rax + 16]",
            "772:",
            "push {index}",
            ".cfi_adjust_cfa_offset 8",
            "jmp {resolve}",
            ".cfi_adjust_cfa_offset -8",
            "774:",
            $crate::entry::arch::go_where_patched!("771b", "773b"),
            "jmp 775f",
            ".org 771b + {looked_up}, 0xcc",
            "775:",
            $crate::entry::arch::patchable!(),
            $crate::entry::arch::go_where_patched!("771b", "777f"),
            "776:",
            "jmp qword ptr [rip + {targets} + {offset}]",
            "777:",
            $crate::entry::arch::go_where_patched!("775b", "776b"),
            "jmp 771b",
            ".org 771b + {at_traced_export}, 0xcc",
            $crate::entry::arch::go_to_traced!("{traced_export}"),
            ".org 771b + {at_traced_looked_up}, 0xcc",
            $crate::entry::arch::go_to_traced!("{traced_looked_up}"),
            ".cfi_endproc",
            ;
            mask = const $crate::resolve::linked::ROUTES_EACH - 1,
        }
    };
}
pub(crate) use export_code;

/// Finds the route of a linked call that has none. On the stack: the function's index, then the caller's return address. Saves
/// every register that can hold an argument, because a library's own function with that name may take other arguments. The thread
/// cannot be cancelled in there: see [`asynchronous`].
#[unsafe(naked)]
pub unsafe extern "C" fn resolve_linked() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa_offset 16",
        common_asm!(begin_frame),
        common_asm!(push_arguments),
        "sub rsp, 152",
        ".irp number, 0, 1, 2, 3, 4, 5, 6, 7",
        "movups xmmword ptr [rsp + 16 * \\number], xmm\\number",
        ".endr",
        "lea rsi, [rbp - 56]",
        common_asm!(swap_cancel_type),
        "mov rdi, qword ptr [rbp + 8]",
        "mov rsi, qword ptr [rbp + 16]",
        "call {resolve}",
        "mov qword ptr [rbp - 64], rax",
        "mov edi, dword ptr [rbp - 56]",
        common_asm!(set_cancel_type),
        ".irp number, 0, 1, 2, 3, 4, 5, 6, 7",
        "movups xmm\\number, xmmword ptr [rsp + 16 * \\number]",
        ".endr",
        common_asm!(load_arguments),
        "mov r11, qword ptr [rbp - 64]",
        "leave",
        ".cfi_def_cfa rsp, 16",
        "add rsp, 8",
        ".cfi_def_cfa_offset 8",
        // Functions with variable arguments need the number of vector registers with arguments here. At most eight are used, and
        // a greater number than the real one is harmless.
        "mov eax, 8",
        "jmp r11",
        ".cfi_endproc",
        resolve = sym crate::resolve::linked::resolve,
        deferred = const DEFERRED,
        set_type = sym pthread_setcanceltype,
    )
}

#[cfg(test)]
mod tests {
    use crate::sys::unwind::tests::{SEEN, SIGNALS, WRONG, handle, unwind_in_handler};
    use core::ffi::{c_int, c_void};
    use core::hint::black_box;
    use std::sync::atomic::{
        AtomicBool,
        Ordering::{Relaxed, SeqCst},
    };

    /// True while the processor is to trap after the next instruction as well.
    static TRAPPING: AtomicBool = AtomicBool::new(false);
    const TRAP_FLAG: i64 = 0x100;

    extern "C" fn step(_: c_int, _: *mut c_void, context: *mut libc::ucontext_t) {
        if !TRAPPING.load(Relaxed) {
            // SAFETY: the kernel's context of what was interrupted.
            unsafe { (*context).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG };
        }
        unwind_in_handler();
    }

    /// Each single instruction of some code of Rust's, of libc's and of the loader's is a place from which the frames are found,
    /// in prologues, epilogues and the procedure linkage table. Here, because it needs the processor's trap flag.
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
            libc::snprintf(text.as_mut_ptr().cast(), text.len(), c"%d %s %g".as_ptr(), 17, c"text".as_ptr(), 2.5);
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
