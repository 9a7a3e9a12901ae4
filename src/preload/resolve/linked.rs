//! Linked calls: where an export of ours leads to.
//!
//! A program that is linked to the driver reaches our export because we are loaded before. The call goes
//! on as if we were not there: to the next definition in the order of search; where the global scope has
//! none, to what the caller's own library or its dependencies define; else to a driver that is loaded
//! although nobody in scope of the caller has it; else to the one that the environment names; else it fails
//! with CUDA_ERROR_SHARED_OBJECT_INIT_FAILED.

use super::elf::{self, Object};
use super::{dlerror, dlsym, driver};
use crate::exports::ENTRIES;
use crate::{call, settings};
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};
use cupeer_spec::function::{FUNCTION_COUNT, FnId};
use cupeer_spec::results;

/// Where calls from a range of addresses go. Never freed: a thread may be reading it.
#[repr(C)]
pub struct Route {
    /// The first address of the range.
    low: usize,
    /// Its length; `usize::MAX` for every caller.
    length: usize,
    /// Where the export jumps to: the next function, or our traced entry.
    target: usize,
    /// The next function.
    real: usize,
}

static NOWHERE: Route = Route { low: 0, length: 0, target: 0, real: 0 };

/// The route of each function, in the order of the table.
pub static ROUTES: [AtomicPtr<Route>; FUNCTION_COUNT] =
    [const { AtomicPtr::new(&raw const NOWHERE as *mut Route) }; FUNCTION_COUNT];

/// The next function for a call that came through the export.
#[inline]
pub fn real(id: FnId, caller: usize) -> usize {
    match current(id, caller) {
        Some(route) => route.real,
        None => find(id, caller).1,
    }
}

#[inline]
fn current(id: FnId, caller: usize) -> Option<&'static Route> {
    // SAFETY: routes are never freed.
    let route = unsafe { &*ROUTES[id as usize].load(Acquire) };
    (caller.wrapping_sub(route.low) < route.length).then_some(route)
}

/// Called by an export that has no route for its caller: gives the address to jump to.
pub unsafe extern "C" fn resolve(index: usize, caller: usize) -> usize {
    let id = FnId::at(index);
    let mut target = MISSING as usize;
    call::quietly(|| target = find(id, caller).0);
    target
}

/// What a call gets behind which there is no driver.
unsafe extern "C" fn missing() -> i32 {
    results::Result::SHARED_OBJECT_INIT_FAILED as i32
}

const MISSING: unsafe extern "C" fn() -> i32 = missing;

/// Finds the route of a caller and keeps it: the address to jump to, and the next function.
fn find(id: FnId, caller: usize) -> (usize, usize) {
    let name = driver::name_of(id as usize);
    let ours = ENTRIES[id as usize].export as usize;
    let callers_object = elf::containing(caller);
    let mut found = dlerror::preserving(|| {
        let next = dlsym::real(libc::RTLD_NEXT, name);
        if next != 0 && next != ours {
            if let Some(object) = elf::containing(next) {
                hold(&object);
            }
            return Some((next, 0, usize::MAX));
        }
        let own = callers_object.map_or(0, |object| in_scope_of(&object, name));
        let Object { low, high, .. } = callers_object?;
        (own != 0 && own != ours).then_some((own, low, high - low))
    });
    if found.is_none() && (driver::find_loaded() || dlerror::preserving(driver::load_named)) {
        let real = driver::real(id);
        found = (real != 0).then_some((real, 0, usize::MAX));
    }
    let Some((real, low, length)) = found.or_else(|| elsewhere(name, ours)) else {
        return (MISSING as usize, MISSING as usize);
    };
    if let Some(object) = elf::containing(real).filter(driver::is_driver) {
        driver::register(&object);
    }
    let target =
        if settings::get().is_traced(id) { ENTRIES[id as usize].traced_export as usize } else { real };
    let route = Box::leak(Box::new(Route { low, length, target, real }));
    ROUTES[id as usize].store(ptr::from_mut(route), Release);
    (target, real)
}

/// What a look-up in an object and its dependencies finds.
fn in_scope_of(object: &Object, name: &core::ffi::CStr) -> usize {
    // The program's own scope is the global one, which RTLD_NEXT has searched.
    if object.path().is_empty() {
        return object.symbol(name).map_or(0, |symbol| symbol.address);
    }
    // SAFETY: the path is the loader's own; RTLD_NOLOAD loads nothing.
    let handle = unsafe { libc::dlopen(object.path().as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return object.symbol(name).map_or(0, |symbol| symbol.address);
    }
    let found = dlsym::real(handle, name);
    // SAFETY: gives back the use that dlopen counted; the caller's object stays, it is running.
    unsafe { libc::dlclose(handle) };
    found
}

/// The one object that defines a name: a compiler may have made the caller's call its last, so that the
/// return address lies in somebody else.
fn elsewhere(name: &core::ffi::CStr, ours: usize) -> Option<(usize, usize, usize)> {
    let mut found = None;
    elf::each(|object| {
        found = object.symbol(name).filter(|s| s.address != ours && !s.is_data).map(|s| (s.address, 0, 0));
        found.is_some()
    });
    found
}

/// Keeps the object of a next definition loaded, because the route to it stays.
fn hold(object: &Object) {
    let _: *mut c_void =
        // SAFETY: the path is the loader's own; RTLD_NOLOAD only counts one more user.
        unsafe { libc::dlopen(object.path().as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
}
