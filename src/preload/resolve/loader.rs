//! Finds libc's own functions of the dynamic loader by reading its symbol table.
//!
//! We export all of these names ourselves, and sanitizers look up their functions through us before they can run any.
//! So nothing here calls libc.

use crate::sys::elf;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Returns the address in `kept` if it was found before; otherwise finds and stores it. Returns 0 if there is none.
pub fn once(kept: &AtomicUsize, find: impl FnOnce() -> usize) -> usize {
    let mut address = kept.load(Relaxed);
    if address == 0 {
        address = find();
        kept.store(address, Relaxed);
    }
    address
}

/// The next definition of a function that we interpose. It is found when our library is loaded, because lookups are not allowed
/// in a signal handler or in a child of vfork, from which programs call the function.
pub struct Next {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Next {
        Next { name, address: AtomicUsize::new(0) }
    }

    pub fn find(&self) {
        self.address.store(look_up(libc::RTLD_NEXT, self.name), Relaxed);
    }

    /// Returns the address of the next definition; 0 if there is none.
    pub fn get(&self) -> usize {
        self.address.load(Relaxed)
    }
}

/// Returns the address of libc's own function with this name; 0 if there is none. The address is stored in `kept`.
#[unsafe(link_section = ".text.startup")]
pub fn libcs_own(name: &CStr, kept: &AtomicUsize) -> usize {
    once(kept, || {
        let address = elf::find_without_lock(|object| {
            // Other libraries that define `dlsym` are tools before libc, like us; they do not define `dladdr1`.
            object.symbol(c"dladdr1")?;
            Some(object.symbol(name)?.address)
        });
        address.unwrap_or(0)
    })
}

/// A dlsym function, by its address; 0 if there is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Dlsym(usize);

impl Dlsym {
    /// Returns libc's own dlsym, which is searched once.
    #[unsafe(link_section = ".text.startup")]
    pub fn of_libc() -> Dlsym {
        #[unsafe(link_section = ".data.start")]
        static OWN: AtomicUsize = AtomicUsize::new(0);
        Dlsym(libcs_own(c"dlsym", &OWN))
    }

    /// Returns the next dlsym after ours, which is searched once: libc's, or that of another tool that is preloaded behind us.
    pub fn behind_us() -> Dlsym {
        #[unsafe(link_section = ".data.start")]
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Dlsym(once(&NEXT, || look_up(libc::RTLD_NEXT, c"dlsym")))
    }

    pub fn address(self) -> usize {
        self.0
    }

    /// Looks up a name through this dlsym, with our library as the caller. Returns 0 if the name is not found.
    #[unsafe(link_section = ".text.startup")]
    pub fn look_up(self, handle: *mut c_void, name: &CStr) -> usize {
        if self.0 == 0 {
            return 0;
        }
        type Function = unsafe extern "C" fn(*mut c_void, *const c_char) -> usize;
        // SAFETY: the address is that of a dlsym, which has this type. The name ends in NUL, and the handle is one that the loader gave.
        unsafe { core::mem::transmute::<usize, Function>(self.0)(handle, name.as_ptr()) }
    }
}

/// Looks up a name through libc's own dlsym, with our library as the caller. Returns 0 if the name is not found.
pub fn look_up(handle: *mut c_void, name: &CStr) -> usize {
    Dlsym::of_libc().look_up(handle, name)
}

/// Returns the address of libc's own dlvsym, which is searched once.
pub fn dlvsym() -> usize {
    #[unsafe(link_section = ".data.start")]
    static OWN: AtomicUsize = AtomicUsize::new(0);
    libcs_own(c"dlvsym", &OWN)
}

/// Looks up a version of a name through libc's own dlvsym, with our library as the caller.
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

/// Returns the address of the next function after ours with this name and version; 0 if there is none.
pub fn next_of_version(name: &CStr, version: &CStr) -> usize {
    // SAFETY: both texts end in NUL.
    unsafe { of_version(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()) }
}
