//! Who called whom: the return addresses on a thread's stack.

use crate::call;
use core::ffi::{c_int, c_void};

/// So much of a stack must lie above a frame for the unwinder to go on from it.
const MOST_FRAME: usize = 1024;

/// How far the memory above an address can surely be read: to the end of the page that the unwinder may need, or
/// not at all.
fn readable_from(height: usize) -> (usize, usize) {
    const PAGE: usize = 4096;
    let last = height.wrapping_add(MOST_FRAME - 1);
    // Between the two lies at most one border of pages.
    let is_readable = call::copy_memory(last, &mut [0]) == 1;
    (height, if is_readable { (last | (PAGE - 1)).wrapping_add(1) } else { height })
}

/// Calls `found` with the return addresses of the frames above the one that returns to `caller`, that one first,
/// at most `most`, until it returns false.
pub fn each_frame(caller: usize, most: usize, mut found: impl FnMut(usize) -> bool) {
    struct Walk<'a> {
        caller: usize,
        reached: bool,
        left: usize,
        looked: usize,
        /// What of the stack is known to be readable.
        readable: (usize, usize),
        found: &'a mut dyn FnMut(usize) -> bool,
    }
    unsafe extern "C" {
        fn _Unwind_Backtrace(
            step: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            walk: *mut c_void,
        ) -> c_int;
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
        fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    }
    /// Any code but _URC_NO_REASON stops the walk.
    const STOP: c_int = 4;
    /// Our own frames, and then some.
    const MOST_OF_OURS: usize = 64;
    unsafe extern "C" fn step(context: *mut c_void, walk: *mut c_void) -> c_int {
        // SAFETY: both are valid for this call.
        let (address, walk) = unsafe { (_Unwind_GetIP(context), &mut *walk.cast::<Walk>()) };
        walk.looked += 1;
        // SAFETY: valid for this call.
        let height = unsafe { _Unwind_GetCFA(context) };
        if height.wrapping_add(MOST_FRAME) > walk.readable.1 || height < walk.readable.0 {
            walk.readable = readable_from(height);
            if height.wrapping_add(MOST_FRAME) > walk.readable.1 {
                // The end of a stack, and of a frame that is none: the first on a stack that the program has made
                // by itself may lead anywhere, and the unwinder reads there without looking.
                let found = walk.reached || address == walk.caller;
                if found && walk.left > 0 {
                    (walk.found)(address);
                }
                return STOP;
            }
        }
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
    let mut walk =
        Walk { caller, reached: false, left: most, looked: 0, readable: (0, 0), found: &mut found };
    // SAFETY: `walk` outlives the walk, and `step` takes it.
    unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
}
