//! `dlclose`: calls libc's own, then removes every route to a library that was unloaded.

use super::{driver, linked, loader};
use crate::sys::elf;
use crate::sys::guard::guarded;
use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicUsize;

#[unsafe(link_section = ".data.start")]
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Calls the next `dlclose`, in place of libc's. Its result does not depend on its caller.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dlclose(handle: *mut c_void) -> c_int {
    guarded(|| {
        // SAFETY: the caller's handle is one that `dlopen` gave; null is refused by libc below.
        let closing = (!handle.is_null()).then(|| unsafe { elf::base_of_handle(handle) });
        driver::hold_pending(closing);
    });
    linked::before_dlclose();
    // SAFETY: the caller promises that the handle is one that `dlopen` gave; null is refused by libc.
    let result = unsafe { call(handle) };
    linked::after_dlclose();
    guarded(elf::note_closed);
    result
}

/// Returns the address of the next dlclose, which is searched once. The search itself clears the loader's
/// last message.
#[unsafe(link_section = ".text.startup")]
pub fn find() -> usize {
    loader::once(&NEXT, || loader::look_up(libc::RTLD_NEXT, c"dlclose"))
}

/// Calls the next dlclose: for the program, or to drop a reference of our own, which unloads nothing.
///
/// # Safety
///
/// `handle` is one that `dlopen` gave.
pub unsafe fn call(handle: *mut c_void) -> c_int {
    let next = find();
    if next == 0 {
        return -1;
    }
    type Dlclose = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
    // SAFETY: the address of a dlclose, which has this type; all else as promised.
    unsafe { core::mem::transmute::<usize, Dlclose>(next)(handle) }
}
