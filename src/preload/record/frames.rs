//! Who called whom: the return addresses on a thread's stack.

use core::ffi::{c_int, c_void};

/// Calls `found` with the return addresses of the frames above the one that returns to `caller`, that one first,
/// at most `most`, until it returns false.
pub fn each_frame(caller: usize, most: usize, mut found: impl FnMut(usize) -> bool) {
    struct Walk<'a> {
        caller: usize,
        reached: bool,
        left: usize,
        looked: usize,
        found: &'a mut dyn FnMut(usize) -> bool,
    }
    unsafe extern "C" {
        fn _Unwind_Backtrace(
            step: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            walk: *mut c_void,
        ) -> c_int;
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }
    /// Any code but _URC_NO_REASON stops the walk.
    const STOP: c_int = 4;
    /// Our own frames, and then some.
    const MOST_OF_OURS: usize = 64;
    unsafe extern "C" fn step(context: *mut c_void, walk: *mut c_void) -> c_int {
        // SAFETY: both are valid for this call.
        let (address, walk) = unsafe { (_Unwind_GetIP(context), &mut *walk.cast::<Walk>()) };
        walk.looked += 1;
        walk.reached |= address == walk.caller;
        if !walk.reached {
            return if walk.looked > MOST_OF_OURS { STOP } else { 0 };
        }
        if address == 0 || walk.left == 0 || !(walk.found)(address) {
            return STOP;
        }
        walk.left -= 1;
        if walk.left == 0 { STOP } else { 0 }
    }
    let mut walk = Walk { caller, reached: false, left: most, looked: 0, found: &mut found };
    // SAFETY: `walk` outlives the walk, and `step` takes it.
    unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
}
