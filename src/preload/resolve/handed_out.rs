//! Replaces the function pointers that `cuGetProcAddress` returns, if their addresses are those of functions of the
//! table. Its result, its status, and its refusals stay the driver's.

use super::{driver, scope};
use cupeer_spec::abi::FunctionPointer;
use cupeer_spec::function::Library;

/// Replaces an address that the driver returned with that of our entry, if it is the address of a function of the table.
///
/// # Safety
///
/// `pointer` is null or points to a pointer that the driver has just written.
pub unsafe fn substitute(pointer: *mut FunctionPointer) {
    // SAFETY: as promised.
    let Some(given) = (unsafe { pointer.as_mut() }).filter(|given| !given.0.is_null()) else { return };
    let address = given.0 as usize;
    // A tool that is preloaded behind us may have returned its own function.
    if let Some(ours) =
        driver::replacement_address(Library::Cuda, address).or_else(|| scope::find_export_leading_to(address))
    {
        given.0 = ours as *mut _;
    }
}
