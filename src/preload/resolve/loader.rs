//! Finds libc's own functions of the dynamic loader by reading its symbol table.
//!
//! We export all of these names ourselves, and sanitizers look up their functions through us before they can run any.
//! So nothing here calls libc.

use crate::sys::elf;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A function's address, which is kept once it is found; 0 where there is none.
pub fn once(kept: &AtomicUsize, find: impl FnOnce() -> usize) -> usize {
    let mut address = kept.load(Relaxed);
    if address == 0 {
        address = find();
        kept.store(address, Relaxed);
    }
    address
}

/// libc's function of a name; 0 where there is none. `kept` is where the caller keeps it.
#[unsafe(link_section = ".text.startup")]
pub fn own(name: &CStr, kept: &AtomicUsize) -> usize {
    once(kept, || {
        let address = elf::find_without_lock(|object| {
            // Others that define `dlsym` are tools in front of it, as we are; they leave this one alone.
            object.symbol(c"dladdr1")?;
            Some(object.symbol(name)?.address)
        });
        address.unwrap_or(0)
    })
}

/// Finds libc's own dlsym, once.
#[unsafe(link_section = ".text.startup")]
pub fn dlsym() -> usize {
    #[unsafe(link_section = ".data.start")]
    static OWN: AtomicUsize = AtomicUsize::new(0);
    own(c"dlsym", &OWN)
}

/// Finds the next dlsym, once: libc's, or that of another tool which is preloaded behind us.
pub fn next_dlsym() -> usize {
    #[unsafe(link_section = ".data.start")]
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    once(&NEXT, || look_up(libc::RTLD_NEXT, c"dlsym"))
}

/// Looks a name up with libc's own dlsym, with ourselves as the caller.
pub fn look_up(handle: *mut c_void, name: &CStr) -> usize {
    // SAFETY: the address is that of libc's own dlsym, or 0.
    unsafe { look_up_with(dlsym(), handle, name) }
}

/// Looks a name up with the dlsym at an address, with ourselves as the caller; finds nothing where that is 0.
///
/// # Safety
///
/// The address is 0 or that of a dlsym.
#[unsafe(link_section = ".text.startup")]
pub unsafe fn look_up_with(dlsym: usize, handle: *mut c_void, name: &CStr) -> usize {
    if dlsym == 0 {
        return 0;
    }
    type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> usize;
    // SAFETY: as promised, the address is that of a dlsym, which has this type. The name ends in NUL, and the handle is one that the loader gave.
    unsafe { core::mem::transmute::<usize, Dlsym>(dlsym)(handle, name.as_ptr()) }
}

pub fn dlvsym() -> usize {
    #[unsafe(link_section = ".data.start")]
    static OWN: AtomicUsize = AtomicUsize::new(0);
    own(c"dlvsym", &OWN)
}

/// Looks a name of a version up with libc's own dlvsym, with ourselves as the caller.
///
/// # Safety
///
/// The handle is one that the loader gave, and both texts end in NUL.
pub unsafe fn of_version(handle: *mut c_void, name: *const c_char, version: *const c_char) -> usize {
    let dlvsym = dlvsym();
    if dlvsym == 0 {
        return 0;
    }
    type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> usize;
    // SAFETY: the address of a dlvsym, which has this type; all else as promised.
    unsafe { core::mem::transmute::<usize, Dlvsym>(dlvsym)(handle, name, version) }
}

/// Finds a function of a version behind us.
pub fn next_of_version(name: &CStr, version: &CStr) -> usize {
    // SAFETY: both texts end in NUL.
    unsafe { of_version(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()) }
}
