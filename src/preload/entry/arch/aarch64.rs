//! AArch64: x30 holds the caller's address, and x9 to x17 hold no argument.

use crate::sys::arch::{DEFERRED, common_asm, pthread_setcanceltype};
#[cfg(doc)]
use crate::sys::arch::{INTACT, asynchronous};

/// Notes the caller and the function in the thread's block, then jumps to the traced function.
macro_rules! go_to_traced {
    ($traced:literal) => {
        concat!(
            "adrp x16, :gottprel:cupeer_thread\n",
            "ldr x16, [x16, :gottprel_lo12:cupeer_thread]\n",
            "mrs x17, tpidr_el0\n",
            "add x16, x16, x17\n",
            "mov w15, #{index} + 1\n",
            // The order of these stores matters: see `call::resolve_target`.
            "str w15, [x16, #{field}]\n",
            "str x30, [x16]\n",
            "adrp x16, {cancel_type}\n",
            "ldr x16, [x16, :lo12:{cancel_type}]\n",
            "ldrb w17, [x17, x16]\n",
            "tst w17, #3\n",
            concat!("b.ne 2f\nb ", $traced, "\n"),
            concat!("2:\nadrp x16, ", $traced, "\nadd x16, x16, :lo12:", $traced, "\n"),
            "b {asynchronous}",
        )
    };
}
pub(crate) use go_to_traced;

/// Instructions at the start of an entry that a patcher may move: 16 bytes, of a form that UCX's decoder knows. They change only
/// x9, which holds no argument.
macro_rules! patchable {
    () => {
        ".rept 4\nmov w9, #{mark}\n.endr"
    };
}
pub(crate) use patchable;

/// Jumps to `$patched` if the instruction at `$at` is not [`INTACT`]. Changes x9 and x10.
macro_rules! go_where_patched {
    ($at:literal, $patched:literal) => {
        concat!(
            concat!("adr x9, ", $at, "\n"),
            "ldr w9, [x9]\n",
            "mov w10, #{intact} & 0xffff\n",
            "movk w10, #{intact} >> 16, lsl #16\n",
            concat!("cmp w9, w10\nb.ne ", $patched),
        )
    };
}
pub(crate) use go_where_patched;

/// The code of an export: see `super::export_entry`.
macro_rules! export_code {
    ($operands:tt) => {
        $crate::entry::arch::export_asm! { $operands
            "771:",
            ".cfi_startproc",
            $crate::entry::arch::patchable!(),
            $crate::entry::arch::go_where_patched!("771b + {looked_up}", "774f"),
            "773:",
            "ubfx x9, x30, #{shift}, #{bits}",
            "adrp x10, {routes} + {offset} * {each}",
            "add x10, x10, :lo12:{routes} + {offset} * {each}",
            "ldr x9, [x10, x9, lsl #3]",
            "adrp x10, {nowhere}",
            "add x10, x10, :lo12:{nowhere}",
            "add x10, x10, x9",
            "ldp x11, x12, [x10]",
            "sub x11, x30, x11",
            "cmp x11, x12",
            "b.hs 772f",
            "ldr x16, [x10, #16]",
            "br x16",
            "772:",
            "mov w17, #{index}",
            "b {resolve}",
            "774:",
            $crate::entry::arch::go_where_patched!("771b", "773b"),
            "b 775f",
            ".org 771b + {looked_up}, 0",
            "775:",
            $crate::entry::arch::patchable!(),
            $crate::entry::arch::go_where_patched!("771b", "777f"),
            "776:",
            "adrp x16, {targets} + {offset}",
            "ldr x16, [x16, :lo12:{targets} + {offset}]",
            "br x16",
            "777:",
            $crate::entry::arch::go_where_patched!("775b", "776b"),
            "b 771b",
            ".org 771b + {at_traced_export}, 0",
            $crate::entry::arch::go_to_traced!("{traced_export}"),
            ".org 771b + {at_traced_looked_up}, 0",
            $crate::entry::arch::go_to_traced!("{traced_looked_up}"),
            ".cfi_endproc",
            ;
            bits = const $crate::resolve::linked::ROUTES_EACH.ilog2(),
        }
    };
}
pub(crate) use export_code;

/// Finds the route of a linked call that has none. The function's index is in x17. Saves every register that can hold an
/// argument, because a library's own function with that name may take other arguments. The thread cannot be cancelled in there:
/// see [`asynchronous`].
#[unsafe(naked)]
pub unsafe extern "C" fn resolve_linked() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        common_asm!(begin_frame),
        common_asm!(push_arguments),
        "str x17, [x29, #-72]",
        "sub sp, sp, #144",
        "stp q0, q1, [sp]",
        "stp q2, q3, [sp, #32]",
        "stp q4, q5, [sp, #64]",
        "stp q6, q7, [sp, #96]",
        "sub x1, x29, #88",
        common_asm!(swap_cancel_type),
        "ldr x0, [x29, #-72]",
        "ldr x1, [x29, #8]",
        "bl {resolve}",
        "str x0, [x29, #-72]",
        "ldr w0, [x29, #-88]",
        common_asm!(set_cancel_type),
        "ldp q0, q1, [sp]",
        "ldp q2, q3, [sp, #32]",
        "ldp q4, q5, [sp, #64]",
        "ldp q6, q7, [sp, #96]",
        common_asm!(load_arguments),
        "ldr x16, [x29, #-72]",
        common_asm!(leave_frame),
        "br x16",
        ".cfi_endproc",
        resolve = sym crate::resolve::linked::resolve,
        deferred = const DEFERRED,
        set_type = sym pthread_setcanceltype,
    )
}
