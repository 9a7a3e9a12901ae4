//! The part of the entries that depends on the processor's calling convention. The entries leave every argument
//! register and the stack as the caller set them. Each processor has its own file, as in `sys::arch`.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod own;

pub use own::resolve_linked;
pub(crate) use own::{export_entry, go_to_traced, go_where_patched, patchable};
