//! Intercepts calls of the CUDA runtime as a shared library.
//!
//! The library does not export the runtime's functions, as it does the driver's. A program may have several runtimes,
//! and only the loader knows which one a library was linked to. So the loader binds first; if it bound a library to
//! the runtime that we follow, the library's slot for that address gets our entry, which leads only to that runtime. A
//! slot that is bound elsewhere stays unchanged: to another runtime, to a runtime inside the library, or to a tool in
//! front of it. A slot that is not bound yet (lazy binding) is replaced if no other object in the process has the
//! name.
//!
//! The search runs in our constructor, and when a program looks up a symbol in a library that it opened. Only
//! libraries that list a runtime among their dependencies are searched, once.

use super::libraries::library_of;
use super::needs::is_runtime_entry_needed;
use super::{dlerror, driver, entries, loader};
use crate::sys::elf;
use crate::sys::object::LoadedObject;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use cupeer_spec::function::{FUNCTION_COUNT, FnId, Library};

/// Identifying numbers of the libraries that were examined: see [`identity_hash`].
static LOOKED_AT: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

/// Number of libraries that one search redirects. A later search continues with further ones.
const MOST: usize = 64;
/// Size of the longest path of a runtime, in bytes.
const LONGEST: usize = 1024;

/// Returns a hash of the base address and the path of a library, which identifies the library.
fn identity_hash(object: &LoadedObject) -> u64 {
    let (base, path) = object.identity();
    (base as u64 ^ path) | 1
}

/// Remembers the identifying number of a library. Returns true if the number is new; false if it is known, or there is no space
/// for it.
fn remember_if_new(mark: u64) -> bool {
    for place in &LOOKED_AT {
        match place.compare_exchange(0, mark, Relaxed, Relaxed) {
            Ok(_) => return true,
            Err(known) if known == mark => return false,
            Err(_) => {}
        }
    }
    false
}

/// Returns the functions of the runtime whose calls must come to our entries.
fn traced_runtime_functions() -> impl Iterator<Item = FnId> {
    FnId::all().filter(|id| id.spec().library == Library::Cudart && is_runtime_entry_needed(*id))
}

/// Redirects the libraries that were loaded since the last search, if calls of the runtime must come to our entries.
pub fn redirect_new() {
    static LOADS: AtomicU64 = AtomicU64::new(0);
    if traced_runtime_functions().next().is_none() {
        return;
    }
    let loads = elf::load_and_unload_counts().0;
    if LOADS.swap(loads, Relaxed) == loads || !follow_first_runtime() {
        return;
    }
    // Number of objects that define each function. A name that only one object defines is found there by every lookup.
    let mut definers = [0u8; FUNCTION_COUNT];
    let (mut found, mut count) = ([0; MOST], 0);
    elf::each(|object| {
        for id in traced_runtime_functions().filter(|id| entries::symbol_in(object, *id as usize).is_some()) {
            definers[id as usize] = definers[id as usize].saturating_add(1);
        }
        if count < MOST && !elf::is_ours(object) && needs_runtime(object) && remember_if_new(identity_hash(object)) {
            found[count] = identity_hash(object);
            count += 1;
        }
        false
    });
    // Another thread may be opening one of the libraries. This lookup waits until the loader is done with it.
    loader::look_up(libc::RTLD_DEFAULT, c"dlsym");
    elf::each(|object| {
        if found[..count].contains(&identity_hash(object)) {
            redirect(object, &definers);
        }
        false
    });
}

/// Follows the first runtime that is loaded, and keeps it loaded, because slots and pointers of the program lead through our
/// entries to it. Returns true if a runtime is followed.
fn follow_first_runtime() -> bool {
    if driver::is_any_followed(Library::Cudart) {
        return true;
    }
    // Another thread may be closing the runtime, so its path is copied while the loader lists the objects.
    let mut path = [0; LONGEST];
    let found = elf::find(|object| {
        let name = object.path().to_bytes_with_nul();
        if library_of(object) != Some(Library::Cudart) || name.len() > LONGEST {
            return None;
        }
        path[..name.len()].copy_from_slice(name);
        Some((*object, elf::is_of_start(object)))
    });
    match found {
        Some((object, true)) => driver::follow_object(&object),
        Some((object, false)) => {
            let Ok(path) = CStr::from_bytes_until_nul(&path) else { return false };
            let is_held = dlerror::preserving(|| {
                let handle = driver::open_loaded(path);
                // SAFETY: a handle that the loader has just given.
                !handle.is_null() && unsafe { elf::base_of_handle(handle) } == object.base
            });
            is_held && driver::follow_object(&object)
        }
        None => false,
    }
}

fn needs_runtime(object: &LoadedObject) -> bool {
    let mut needs = false;
    object.each_needed(|name| needs |= Library::Cudart.matches_soname(name.to_bytes()));
    needs
}

/// Puts our entries into the slots of a library that lead to the followed runtime.
fn redirect(object: &LoadedObject, definers: &[u8; FUNCTION_COUNT]) {
    object.each_slot(|slot| {
        // Most slots are for other names.
        if slot.is_copy || !slot.name().to_bytes().starts_with(b"cuda") {
            return;
        }
        let Some(id) = traced_runtime_functions().find(|id| entries::name(*id as usize) == slot.name()) else {
            return;
        };
        let (index, real) = (id as usize, driver::real(id));
        // SAFETY: the place is one that the loader filled.
        let bound = unsafe { *slot.place };
        let is_unbound = object.holds(bound) && definers[index] == 1;
        if real != 0 && (bound == real || is_unbound) {
            // SAFETY: the place is the slot's of this object, and the new address is that of our
            // entry of the same function.
            unsafe { object.write_slot(slot.place, entries::looked_up_entry(index)) };
        }
    });
}
