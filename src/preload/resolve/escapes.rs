//! Finds libraries whose calls bypass cupeer.
//!
//! Calls bypass cupeer if the loader binds a library directly to the driver: RTLD_DEEPBIND, a namespace of `dlmopen`,
//! RTLD_NEXT from a library outside the global scope, or a second driver. No sound way exists to intercept them, so
//! they are reported. The same applies to NVML if any of its functions is traced. `data_symbols` repairs
//! what would crash, and `named` says each of them once.

use super::libraries::{is_driver, is_missed, library_of};
use super::named::{self, FoundObjects, name};
use super::{data_symbols, driver, entries, linked, loader, needs, patched, scope};
use crate::log::{self, status};
use crate::sys::elf;
use crate::sys::forks;
use crate::sys::object::Object;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use cupeer_spec::function::{FUNCTIONS, Library};
use cupeer_spec::way::Way;

/// Called where an object that was loaded after us asks for the next definition of a name of the table.
///
/// In the global scope that is a wrapper behind us, which a linked call has reached through us. Outside of
/// it, the next definition is what the object's own dependencies have.
pub fn looked_up_next(object: &Object, wanted: &CStr) {
    if elf::is_ours(object) || is_wrapper_behind_us(object, wanted) {
        return;
    }
    // The object comes first in its own scope, and has some of the functions of the table. Behind it is the driver, where it
    // depends on one.
    let is_nvml = entries::exported_as(wanted).is_some_and(|index| FUNCTIONS[index].library == Library::Nvml);
    let of_driver = if is_nvml { c"nvmlInit_v2" } else { c"cuDriverGetVersion" };
    let behind = if object.symbol(wanted).is_some() { of_driver } else { wanted };
    let Some(found) = scope::in_scope_of(object, behind) else { return };
    if elf::containing(found).is_some_and(|found| is_missed(&found)) {
        name(object, Way::Next);
    }
}

/// Whether our own forwarding of a linked call leads to this object.
fn is_wrapper_behind_us(object: &Object, wanted: &CStr) -> bool {
    object.symbol(wanted).is_some_and(|own| own.address == loader::look_up(libc::RTLD_NEXT, wanted))
}

/// Called where a look-up by handle found something that we do not follow.
pub fn looked_up(found: usize) {
    let Some(object) = elf::containing(found).filter(is_missed) else { return };
    if !driver::is_followed(&object) {
        name(&object, Way::SecondDriver);
    }
}

/// Called where the dlsym of a tool gave a function of its own for one of the driver's.
pub fn diverted(found: usize) {
    if let Some(object) = elf::containing(found) {
        name(&object, Way::Diverts);
    }
}

/// The bases of drivers of other namespaces are not ours to look at twice: whether there is one.
static IS_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Whether a driver was found in another namespace.
pub fn is_driver_elsewhere() -> bool {
    IS_ELSEWHERE.load(Relaxed)
}

/// Names the libraries of other namespaces that refer to our names, or else the driver there, which is given.
fn look_through_other_namespaces() -> Option<Object> {
    let (mut driver_there, mut named) = (None, false);
    elf::each_in_other_namespaces(|object| {
        if library_of(object).is_some() {
            driver_there = driver_there.or(is_missed(object).then_some(*object));
            IS_ELSEWHERE.fetch_or(is_driver(object), Relaxed);
            return;
        }
        let is_wanted = |index: usize| needs::is_missed(FUNCTIONS[index].library);
        let mut refers = false;
        object.each_slot(|slot| refers |= entries::exported_as(slot.name()).is_some_and(is_wanted));
        if refers {
            name(object, Way::Dlmopen);
            named = true;
        }
    });
    if let Some(driver) = driver_there.filter(|_| !named) {
        name(&driver, Way::Dlmopen);
    }
    driver_there.filter(is_driver)
}

/// Looks through all objects: at exit, when whatever was bound is bound.
///
/// A driver of which no watched call has come to us until now is named as well: without that, a record that is empty could
/// mean both that nothing was called, and that nothing was seen. Not in a child that has it from its parent. Where it came
/// with the program, and nothing else is to be named, it is no more than counted: programs link it that need it in their
/// children. `is_empty` says that the process has no record, or one without an event.
pub fn look_through_all(is_empty: bool) {
    let was_followed = driver::is_any_followed(Library::Cuda);
    let is_silent = !linked::was_called() && (!was_followed || is_empty);
    driver::find_loaded(Library::Cuda);
    data_symbols::look();
    let (mut drivers, mut found) = (0, FoundObjects::default());
    elf::each(|object| {
        drivers += usize::from(is_missed(object));
        false
    });
    let elsewhere = look_through_other_namespaces();
    if drivers > 0 {
        look_through_our_namespace(&mut found, was_followed);
    }
    found.name_all();
    if log::is_on() {
        patched::log_all();
    }
    let silent = driver::followed_driver().or(elsewhere).filter(|_| is_silent && !forks::is_forked());
    if let Some(driver) = silent {
        if elf::is_of_start(&driver) && !named::has_any() {
            status::escaped(Way::Unseen);
        } else {
            name(&driver, Way::Unseen);
        }
    }
}

fn look_through_our_namespace(found: &mut FoundObjects, was_followed: bool) {
    let libcs_dlsym = loader::dlsym();
    let mut is_before = true;
    elf::each(|object| {
        is_before &= !elf::is_ours(object);
        // The runtime is a user of the driver itself.
        if let Some(library) = library_of(object).filter(|library| *library != Library::Cudart) {
            if is_missed(object) && driver::is_any_followed(library) && !driver::is_followed(object) {
                found.add(object, Way::SecondDriver);
            }
            return false;
        }
        if elf::is_ours(object) {
            return false;
        }
        // One of which nothing came through us, before a driver that nobody has looked up with us.
        if is_before && !was_followed && object.symbol(c"dlsym").is_some() {
            found.add(object, Way::Diverts);
        }
        let mut past = None;
        object.each_slot(|slot| {
            // SAFETY: the place is one that the loader filled.
            let bound = unsafe { *slot.place };
            let way = match entries::exported_as(slot.name()).filter(|_| !slot.is_copy) {
                Some(_) => elf::containing(bound)
                    .filter(is_missed)
                    .map(|driver| if elf::is_before_us(&driver) { Way::DriverFirst } else { Way::DeepBind }),
                None => (slot.name() == c"dlsym" && bound == libcs_dlsym).then_some(Way::DeepBind),
            };
            past = past.or(way);
        });
        if let Some(way) = past {
            found.add(object, way);
        }
        false
    });
}
