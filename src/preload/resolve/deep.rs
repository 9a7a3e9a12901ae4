//! Redirects `dlsym` in libraries that were opened with RTLD_DEEPBIND, as PHP opens its extensions. They are bound to
//! libc's own `dlsym`, whose results would bypass cupeer.
//!
//! The search runs when a program looks up a symbol in a library, which it must do before it can use the library.
//! Calls by name from such a library are only reported, for which `bypasses` looks at it at that time, too.

use super::loader::Dlsym;
use super::{bypasses, loader, runtime};
use crate::settings;
use crate::sys::elf;
use crate::sys::guard::guarded;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// True if the settings switch anything on. Otherwise, calls that bypass us do not matter.
#[unsafe(link_section = ".data.start")]
static IS_ANY_ON: AtomicBool = AtomicBool::new(false);

/// Handles of the libraries that were examined last.
static LOOKED_AT: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// Sets and returns [`IS_ANY_ON`]: true if the settings switch anything on. Called by our constructor.
pub fn note_if_anything_is_on() -> bool {
    let settings = settings::get();
    let is_told = settings.log.is_some() || settings.record.is_some();
    let is_on = is_told || settings.inject.is_some() || settings.deny.is_some();
    IS_ANY_ON.store(is_on, Relaxed);
    is_on
}

/// Examines the library that a handle refers to, if it was not examined before.
#[inline]
pub fn examine(handle: *mut c_void) {
    if handle == libc::RTLD_NEXT || handle == libc::RTLD_DEFAULT || !IS_ANY_ON.load(Relaxed) {
        return;
    }
    let place = &LOOKED_AT[(handle as usize >> 6) % LOOKED_AT.len()];
    if place.load(Relaxed) != handle as usize {
        place.store(handle as usize, Relaxed);
        guarded(|| {
            redirect_dlsym(handle);
            runtime::redirect_new();
            // SAFETY: the program asks libc about this handle next, which reads the same.
            bypasses::examine_opened_object(&unsafe { elf::object_of_handle(handle) });
        });
    }
}

#[cold]
#[inline(never)]
fn redirect_dlsym(handle: *mut c_void) {
    // SAFETY: the program asks libc about this handle next, which reads the same.
    let (object, base) = unsafe { (elf::object_of_handle(handle), elf::base_of_handle(handle)) };
    if !object.refers_to(c"dlsym") {
        return;
    }
    let Some(object) = elf::at_base(base).filter(|object| !elf::is_of_start(object)) else { return };
    let (libcs, everybodys) = (Dlsym::of_libc().address(), loader::look_up(libc::RTLD_DEFAULT, c"dlsym"));
    if everybodys == 0 || object.symbol(c"dlsym").is_some() {
        return;
    }
    object.each_slot(|slot| {
        // SAFETY: the place is one that the loader filled.
        let bound = unsafe { *slot.place };
        if slot.name() == c"dlsym" && !slot.is_copy && (bound == libcs || object.holds(bound)) {
            // SAFETY: the place is the slot's of this object, and the new address is that of a dlsym.
            unsafe { object.write_slot(slot.place, everybodys) };
        }
    });
}
