//! Finds libraries whose calls bypass cupeer.
//!
//! Calls bypass cupeer if the loader binds a library directly to the driver: RTLD_DEEPBIND, a namespace of `dlmopen`,
//! RTLD_NEXT from a library outside the global scope, or a second driver. No sound way exists to intercept them, so
//! they are reported. The same applies to NVML if any of its functions is traced. `data_symbols` repairs
//! what would crash, and `reported` says each of them once.
//!
//! A library is examined when the program looks something up in it for the first time, because not every process comes to
//! an end that we see. What is bound only at a call is found at the end.

use super::libraries::{LIBRARIES, is_driver, is_watched_object, library_of};
use super::loader::Dlsym;
use super::reported::{self, FoundObjects, report};
use super::{data_symbols, driver, linked, loader, names, needs, patched, scope};
use crate::log::{self, status};
use crate::sys::elf;
use crate::sys::forks;
use crate::sys::object::LoadedObject;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use cupeer_spec::bypass::Bypass;
use cupeer_spec::function::{FUNCTIONS, Library};

/// Reports a program or library that was loaded after us, if its lookup of the next definition (RTLD_NEXT) of a
/// function of the table finds a driver without us.
///
/// In the global scope, the next definition is that of a wrapper behind us, which a linked call reached through us.
/// Outside of it, it is that of the object's own dependencies.
pub fn note_next_lookup(object: &LoadedObject, wanted: &CStr) {
    if elf::is_ours(object) || is_wrapper_behind_us(object, wanted) {
        return;
    }
    // The object comes first in its own scope, and defines some functions of the table. If it depends on a driver, that driver
    // comes next.
    let is_nvml = names::exported_as(wanted).is_some_and(|index| FUNCTIONS[index].library == Library::Nvml);
    let of_driver = if is_nvml { c"nvmlInit_v2" } else { c"cuDriverGetVersion" };
    let behind = if object.symbol(wanted).is_some() { of_driver } else { wanted };
    let Some(found) = scope::in_scope_of(object, behind) else { return };
    if elf::containing(found).is_some_and(|found| is_watched_object(&found)) {
        report(object, Bypass::Next);
    }
}

/// Returns true if our export forwards linked calls of this function to this object.
fn is_wrapper_behind_us(object: &LoadedObject, wanted: &CStr) -> bool {
    object.symbol(wanted).is_some_and(|own| own.address == loader::look_up(libc::RTLD_NEXT, wanted))
}

/// Reports a second driver in which a lookup by handle found an address. Remembers a library that only resembles a
/// driver.
pub fn note_handle_lookup(found: usize, caller: usize) {
    let Some(object) = elf::containing(found) else { return };
    if is_watched_object(&object) && !driver::is_followed(&object) {
        report(&object, Bypass::SecondDriver);
    } else if is_like_driver(&object) && !elf::is_ours(&object) && !object.holds(caller) {
        add(&LIKE_DRIVER, object.base);
    }
}

/// Returns true if a library defines the functions that every driver has, but has another soname: a copy of a driver
/// in a package, or a wrapper.
fn is_like_driver(object: &LoadedObject) -> bool {
    const OF_EACH: [&CStr; 3] = [c"cuInit", c"cuDriverGetVersion", c"cuGetProcAddress"];
    library_of(object).is_none() && OF_EACH.iter().all(|name| object.function(name).is_some())
}

/// Base addresses, plus 1, of libraries that resemble a driver, and in which the program looked something up.
static LIKE_DRIVER: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];
/// Base addresses, plus 1, of libraries that resemble a driver and that look up functions of a driver themselves, as a
/// wrapper does.
static WRAPPERS: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

fn add(bases: &[AtomicUsize; 8], base: usize) {
    let is_there = |place: &AtomicUsize| {
        let known = place.compare_exchange(0, base + 1, Relaxed, Relaxed);
        known.is_ok() || known == Err(base + 1)
    };
    let _ = bases.iter().any(is_there);
}

fn has(bases: &[AtomicUsize; 8], base: usize) -> bool {
    bases.iter().any(|place| place.load(Relaxed) == base + 1)
}

/// Remembers the library that contains `caller` as a wrapper, if it resembles a driver: it looks up a function of a
/// driver itself.
pub fn note_driver_lookup(caller: usize) {
    if let Some(object) = elf::containing(caller).filter(is_like_driver) {
        add(&WRAPPERS, object.base);
    }
}

/// Pid of the process in which a library refers to a driver and is not bound to it yet; 0 if there is none.
static UNBOUND_IN: AtomicU32 = AtomicU32::new(0);

/// Examines a program or library in which the program looks something up for the first time. Reports it if it is bound
/// to a driver without us.
pub fn examine_opened_object(object: &LoadedObject) {
    let mut needs = None;
    object.each_needed(|name| {
        let library = LIBRARIES.into_iter().find(|library| library.matches_soname(name.to_bytes()));
        needs = needs.or(library.filter(|library| needs::is_watched_library(*library)));
    });
    let Some(library) = needs else { return };
    let Some(object) = elf::at_base(object.base) else {
        // The object is in another namespace.
        return report(object, Bypass::Dlmopen);
    };
    if library_of(&object).is_some() || elf::is_ours(&object) || elf::is_of_start(&object) {
        return;
    }
    let (way, is_unbound) = bound_past_us(&object);
    if let Some(way) = way {
        driver::follow_if_loaded(library);
        report(&object, way);
    } else if is_unbound {
        UNBOUND_IN.store(std::process::id(), Relaxed);
    }
}

/// Returns true if a library of this process is not bound to its driver yet, so that libraries must be searched before the
/// process executes another program or ends without our destructor.
pub fn has_unbound() -> bool {
    UNBOUND_IN.load(Relaxed) == std::process::id()
}

/// Returns true if a search at the end of the process may find a bypass.
pub fn may_find_bypass() -> bool {
    LIKE_DRIVER[0].load(Relaxed) != 0 || driver::is_driver_in_any_namespace()
}

/// Reports the tool that contains `found`: its dlsym returned its own function in place of the driver's.
pub fn report_diverting_tool(found: usize) {
    if let Some(object) = elf::containing(found) {
        report(&object, Bypass::Diverts);
    }
}

/// Reports the libraries of other namespaces that refer to functions of the table; if there are none, reports a driver there.
/// Returns that driver.
fn look_through_other_namespaces() -> Option<LoadedObject> {
    let (mut driver_there, mut named) = (None, false);
    elf::each_in_other_namespaces(|object| {
        if library_of(object).is_some() {
            driver_there = driver_there.or(is_watched_object(object).then_some(*object));
            return;
        }
        let is_wanted = |index: usize| needs::is_watched_library(FUNCTIONS[index].library);
        let mut refers = false;
        object.each_slot(|slot| refers |= names::exported_as(slot.name()).is_some_and(is_wanted));
        if refers {
            report(object, Bypass::Dlmopen);
            named = true;
        }
    });
    if let Some(driver) = driver_there.filter(|_| !named) {
        report(&driver, Bypass::Dlmopen);
    }
    driver_there.filter(is_driver)
}

/// Searches all objects for bypasses. Called at the end of the process, when all symbols that are ever bound are bound.
///
/// A driver without any watched call so far is reported as well, except in a child that inherited it: otherwise an
/// empty recording could mean both that nothing was called, and that nothing was seen. If the driver was loaded with
/// the program, and no other bypass is reported, it is only counted, because programs link it that need it only in
/// their children. `is_empty` is true if the process has no recording, or one without an event.
pub fn look_through_all(is_empty: bool) {
    let was_followed = driver::is_any_followed(Library::Cuda);
    let is_silent = !linked::was_called() && (!was_followed || is_empty);
    driver::follow_if_loaded(Library::Cuda);
    data_symbols::repair_new();
    let (mut drivers, mut found) = (0, FoundObjects::default());
    elf::each(|object| {
        drivers += usize::from(is_watched_object(object));
        false
    });
    let elsewhere = look_through_other_namespaces();
    let is_other = |base: &usize| !has(&WRAPPERS, *base) && !linked::is_caller(*base);
    let like_driver = LIKE_DRIVER.iter().filter_map(|place| place.load(Relaxed).checked_sub(1));
    for object in like_driver.filter(is_other).filter_map(elf::at_base) {
        found.add(&object, Bypass::OtherSoname);
    }
    if drivers > 0 {
        look_through_our_namespace(&mut found, was_followed);
    }
    found.report_all();
    if log::is_on() {
        patched::log_all();
    }
    // The process itself, or its parent, called cuInit through us. That call need not be recorded, and the children's records
    // tell of it.
    let is_seen = forks::is_forked() || forks::has_forked_late();
    let silent = driver::followed_driver().or(elsewhere).filter(|_| is_silent && !is_seen);
    if let Some(driver) = silent {
        if elf::is_of_start(&driver) && !reported::has_any() {
            status::count_bypass(Bypass::Unseen);
        } else {
            report(&driver, Bypass::Unseen);
        }
    }
}

fn look_through_our_namespace(found: &mut FoundObjects, was_followed: bool) {
    let mut is_before = true;
    elf::each(|object| {
        is_before &= !elf::is_ours(object);
        // The runtime is itself a user of the driver.
        if let Some(library) = library_of(object).filter(|library| *library != Library::Cudart) {
            if is_watched_object(object) && driver::is_any_followed(library) && !driver::is_followed(object) {
                found.add(object, Bypass::SecondDriver);
            }
            return false;
        }
        if elf::is_ours(object) {
            return false;
        }
        // The object is a tool with its own dlsym that was loaded before us, and no lookup of the driver came through us.
        if is_before && !was_followed && object.symbol(c"dlsym").is_some() {
            found.add(object, Bypass::Diverts);
        }
        let (past, _) = bound_past_us(object);
        if let Some(way) = past {
            found.add(object, way);
        }
        false
    });
}

/// Returns the bypass by which the loader bound an object to a driver; `None` if there is none. Also returns true if the object
/// refers to a driver and is not bound yet.
fn bound_past_us(object: &LoadedObject) -> (Option<Bypass>, bool) {
    let libcs_dlsym = Dlsym::of_libc().address();
    let (mut past, mut is_unbound) = (None, false);
    object.each_slot(|slot| {
        // SAFETY: the place is one that the loader filled.
        let bound = unsafe { *slot.place };
        let way = match names::exported_as(slot.name()).filter(|_| !slot.is_copy) {
            Some(_) => {
                is_unbound |= object.holds(bound);
                elf::containing(bound)
                    .filter(is_watched_object)
                    .map(|driver| if elf::is_before_us(&driver) { Bypass::DriverFirst } else { Bypass::DeepBind })
            }
            None => (slot.name() == c"dlsym" && bound == libcs_dlsym).then_some(Bypass::DeepBind),
        };
        past = past.or(way);
    });
    (past, is_unbound)
}
