//! `dlvsym`: returns our `dlsym` where a caller would get libc's.
//!
//! The driver's names have no versions, but `dlsym` has, and tools that replace it ask for libc's by its version.
//! Calls of what they find with it would bypass cupeer.

use super::{dlsym, loader};
use crate::sys::arch::{Decision, deciding_entry};
use crate::sys::elf;
use crate::sys::guard::guarded;
use core::ffi::{CStr, c_char, c_void};

/// The libc function, interposed.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    deciding_entry!(decide)
}

unsafe extern "C" fn decide(
    handle: *mut c_void,
    name: *const c_char,
    caller: usize,
    version: *const c_char,
) -> Decision {
    let mut decision = Decision { jump: loader::dlvsym(), value: 0 };
    if version.is_null() {
        return decision;
    }
    let Some((name, libcs, ours)) = dlsym::function_of_loader(name) else { return decision };
    guarded(|| {
        // From before us, the next one is ours; from behind us, it is not.
        let is_behind = || {
            let next = elf::containing(caller).and_then(|object| elf::next_definer(&object, name));
            !next.is_some_and(|next| elf::is_ours(&next))
        };
        if handle == libc::RTLD_NEXT && is_behind() {
            return;
        }
        // SAFETY: the caller's own, and a name of ours.
        if libcs != 0 && unsafe { loader::of_version(handle, name.as_ptr(), version) } == libcs {
            decision = Decision { jump: 0, value: ours };
        }
    });
    decision
}

/// Finds a function of a version behind us.
pub fn of_version(name: &CStr, version: &CStr) -> usize {
    // SAFETY: both texts end in NUL.
    unsafe { loader::of_version(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()) }
}
