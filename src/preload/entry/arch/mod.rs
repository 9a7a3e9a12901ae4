//! The part of the entries that depends on the processor's calling convention. The entries leave every argument
//! register and the stack as the caller set them. Each processor has its own file, as in `sys::arch`.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod own;

pub use own::resolve_linked;
pub(crate) use own::{export_code, go_to_traced, go_where_patched, patchable};

/// One of our exports, in four parts at fixed offsets: see `resolve::entries`.
///
/// The first part serves linked calls. It jumps to the target of the route that is kept for the caller's address, if the
/// caller is in the route's range; otherwise it calls `resolve_linked`. The second part is the address that look-ups hand
/// out. It jumps to the driver's function or to its traced entry. The last two parts are the traced entries of both: they
/// store the caller and the function for `call`, then jump to the traced function with all arguments unchanged; through
/// `asynchronous` if the thread can be canceled at any instruction. All parts change only registers that hold no
/// argument.
///
/// The first two parts begin with instructions that a patcher can move. Without cupeer the two are one address, so a patch
/// of one must also see the calls of the other: each part jumps to the start of the other if only the other is patched.
macro_rules! export_entry {
    ($index:expr, $traced_export:path, $traced_looked_up:path) => {
        $crate::entry::arch::export_code!(($index, $traced_export, $traced_looked_up))
    };
}
pub(crate) use export_entry;

/// Assembles the code of an export with the operands that it has on every processor, and the processor's own.
macro_rules! export_asm {
    (($index:expr, $traced_export:path, $traced_looked_up:path) $($code:expr,)* ; $($own:tt)*) => {
        core::arch::naked_asm!(
            $($code,)*
            routes = sym $crate::resolve::linked::ROUTES,
            nowhere = sym $crate::resolve::linked::NOWHERE,
            targets = sym $crate::resolve::driver::TARGETS,
            offset = const $index * 8,
            each = const $crate::resolve::linked::ROUTES_EACH,
            shift = const $crate::resolve::linked::ROUTE_SHIFT,
            index = const $index,
            mark = const $crate::sys::arch::MARK,
            intact = const $crate::sys::arch::INTACT as i32,
            looked_up = const $crate::resolve::entries::LOOKED_UP,
            at_traced_export = const $crate::resolve::entries::TRACED_EXPORT,
            at_traced_looked_up = const $crate::resolve::entries::TRACED_LOOKED_UP,
            resolve = sym $crate::entry::arch::resolve_linked,
            field = const $crate::sys::arch::ENTERED_OFFSET,
            cancel_type = sym $crate::sys::arch::CANCEL_TYPE,
            traced_export = sym $traced_export,
            traced_looked_up = sym $traced_looked_up,
            asynchronous = sym $crate::sys::arch::asynchronous,
            $($own)*
        )
    };
}
pub(crate) use export_asm;
