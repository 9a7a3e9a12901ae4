//! The unwinder of our own panics: libgcc_s, loaded at the first panic instead of with the library.
//!
//! A process that never sees a panic of ours does not pay for loading it. What Rust's standard library links to stands here;
//! each of these functions jumps to the one of libgcc_s, so that the unwinder sees its real caller.

use super::arch::unwinder_function;
use super::{elf, forks};
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

macro_rules! functions {
    ($($number:literal $name:ident,)*) => {
        const NAMES: &[&str] = &[$(concat!(stringify!($name), "\0")),*];
        $(unwinder_function!($number, $name, FOUND, find);)*
    };
}

// The functions to which Rust's standard library may link.
functions! {
    0 _Unwind_Backtrace,
    1 _Unwind_DeleteException,
    2 _Unwind_FindEnclosingFunction,
    3 _Unwind_GetCFA,
    4 _Unwind_GetDataRelBase,
    5 _Unwind_GetIP,
    6 _Unwind_GetIPInfo,
    7 _Unwind_GetLanguageSpecificData,
    8 _Unwind_GetRegionStart,
    9 _Unwind_GetTextRelBase,
    10 _Unwind_RaiseException,
    11 _Unwind_Resume,
    12 _Unwind_SetGR,
    13 _Unwind_SetIP,
}

/// Address of each function in libgcc_s; 0 before its first call.
static FOUND: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];

/// Returns the address of the function with this number, after loading libgcc_s at the first call.
extern "C" fn find(number: usize) -> usize {
    let flags = libc::RTLD_LAZY | libc::RTLD_NODELETE;
    // SAFETY: the name ends in NUL. The constructors of libgcc_s are those that a library linked to it would run.
    let handle = forks::while_nobody_forks(|| unsafe { libc::dlopen(c"libgcc_s.so.1".as_ptr(), flags) });
    // SAFETY: `dlopen` gave the handle, which is not null, and the library stays loaded.
    let object = (!handle.is_null()).then(|| unsafe { elf::object_of_handle(handle) });
    let name = NAMES.get(number).and_then(|name| CStr::from_bytes_with_nul(name.as_bytes()).ok());
    let function = name.zip(object).and_then(|(name, object)| object.function(name));
    let function = function.unwrap_or(absent as *const () as usize);
    if let Some(place) = FOUND.get(number) {
        place.store(function, Relaxed);
    }
    function
}

/// Replaces each function if there is no libgcc_s: no panic can be caught then.
extern "C" fn absent() -> ! {
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::elf;

    #[test]
    fn a_panic_is_caught_by_libgcc() {
        struct Dropped<'a>(&'a AtomicUsize);
        impl Drop for Dropped<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let drops = AtomicUsize::new(0);
        let caught = std::panic::catch_unwind(|| {
            let _dropped = Dropped(&drops);
            std::panic::resume_unwind(Box::new("a payload"));
        });
        assert_eq!(caught.expect_err("a panic").downcast_ref(), Some(&"a payload"));
        assert_eq!(drops.load(Relaxed), 1, "what was on the stack was dropped");
        let raise = NAMES.iter().position(|name| *name == "_Unwind_RaiseException\0").expect("a number");
        let object = elf::containing(FOUND[raise].load(Relaxed)).expect("it was found");
        assert_eq!(object.soname(), Some(c"libgcc_s.so.1"));
    }

    #[test]
    fn each_is_one_of_libgcc() {
        for (number, name) in NAMES.iter().enumerate() {
            assert_ne!(find(number), absent as *const () as usize, "{name}");
        }
        assert_eq!(find(NAMES.len()), absent as *const () as usize);
    }
}
