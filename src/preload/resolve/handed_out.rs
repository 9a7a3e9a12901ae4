//! The function pointers that `cuGetProcAddress` hands out: replaced where they lead to a function of the
//! table, by comparing addresses. Its result, its status and its refusals stay the driver's.

use super::{driver, linked};
use cupeer_spec::abi::FunctionPointer;
use cupeer_spec::function::Library;

/// Puts our address in place of the driver's.
///
/// # Safety
///
/// `pointer` is null or points to a pointer that the driver has just written.
pub unsafe fn substitute(pointer: *mut FunctionPointer) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: not null, and the driver wrote there.
    let given = unsafe { (*pointer).0 };
    if given.is_null() {
        return;
    }
    // A tool that is preloaded behind us may have given its own.
    let ours = driver::handed_out(Library::Cuda, given as usize);
    if let Some(ours) = ours.or_else(|| linked::in_place_of(given as usize)) {
        // SAFETY: as above.
        unsafe { (*pointer).0 = ours as *mut _ };
    }
}
