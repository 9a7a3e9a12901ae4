//! `dlclose`: goes on to libc's own. Passes through us so that no route leads to a library that is gone.

use super::{dlsym, linked};
use crate::arch::{Decision, deciding_entry};
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The libc function, interposed.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    deciding_entry!(decide)
}

unsafe extern "C" fn decide(_: *mut c_void, _: *const c_char, _: usize) -> Decision {
    linked::forget();
    Decision { jump: find(), value: 0 }
}

/// Finds the next dlclose, once. The finding itself clears the loader's last message.
pub fn find() -> usize {
    match NEXT.load(Relaxed) {
        0 => {
            let next = dlsym::real(libc::RTLD_NEXT, c"dlclose");
            NEXT.store(next, Relaxed);
            next
        }
        next => next,
    }
}

/// Gives back a use of our own, by which nothing is unloaded.
///
/// # Safety
///
/// `handle` is one that `dlopen` gave.
pub unsafe fn call(handle: *mut c_void) {
    let next = find();
    if next != 0 {
        // SAFETY: the address of a dlclose, which has this type.
        let next = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void) -> c_int>(next) };
        // SAFETY: as promised.
        unsafe { next(handle) };
    }
}
