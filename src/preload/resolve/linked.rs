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
use crate::{arena, call, settings};
use core::ffi::CStr;
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

/// A next function, and the callers for which it is that: none but this call's where the length is 0.
struct Found {
    real: usize,
    low: usize,
    length: usize,
}

impl Found {
    fn for_all(real: usize) -> Self {
        Found { real, low: 0, length: usize::MAX }
    }
}

/// Finds the route of a caller: the address to jump to, and the next function.
fn find(id: FnId, caller: usize) -> (usize, usize) {
    let name = driver::name_of(id as usize);
    let ours = ENTRIES[id as usize].export as usize;
    let found = dlerror::preserving(|| in_global_scope(name).or_else(|| in_scope_of_caller(name, caller)))
        .or_else(|| {
            let there = driver::find_loaded() || dlerror::preserving(driver::load_named);
            let real = driver::real(id);
            (there && real != 0).then(|| Found::for_all(real))
        })
        .or_else(|| elsewhere(name, ours));
    let Some(Found { real, low, length }) = found else { return (MISSING as usize, MISSING as usize) };
    let traced = settings::get().is_traced(id);
    let target = if traced { ENTRIES[id as usize].traced_export as usize } else { real };
    if length > 0 {
        keep(id, Route { low, length, target, real });
    }
    (target, real)
}

/// Makes a route the current one, where it is not already.
fn keep(id: FnId, route: Route) {
    let current = &ROUTES[id as usize];
    // SAFETY: routes are never freed.
    let old = unsafe { &*current.load(Acquire) };
    if (old.low, old.length, old.real) == (route.low, route.length, route.real) {
        return;
    }
    if let Some(kept) = arena::keep(route) {
        current.store(ptr::from_ref(kept).cast_mut(), Release);
    }
}

/// The next definition behind ours.
fn in_global_scope(name: &CStr) -> Option<Found> {
    let next = dlsym::real(libc::RTLD_NEXT, name);
    let object = elf::containing(next)?;
    if elf::is_ours(&object) {
        return None;
    }
    driver::hold(&object);
    if driver::is_driver(&object) {
        driver::register(&object);
    }
    Some(Found::for_all(next))
}

/// What the caller's own library or its dependencies define.
fn in_scope_of_caller(name: &CStr, caller: usize) -> Option<Found> {
    let object = elf::containing(caller)?;
    let real = in_scope_of(&object, name);
    let definer = elf::containing(real)?;
    if elf::is_ours(&definer) {
        return None;
    }
    // Only the driver is held loaded. A library's own function goes with the library, and another library
    // may come to lie where it lay: that route is found anew for each call.
    let stays = driver::is_driver(&definer) && driver::register(&definer);
    Some(Found { real, low: object.low, length: if stays { object.high - object.low } else { 0 } })
}

/// What a look-up in an object and its dependencies finds.
fn in_scope_of(object: &Object, name: &CStr) -> usize {
    // Its scope is the global one, which RTLD_NEXT has searched.
    if elf::is_of_start(object) {
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

/// The first object that defines a name: a compiler may have made the caller's call its last, so that the
/// return address lies in somebody else.
fn elsewhere(name: &CStr, ours: usize) -> Option<Found> {
    let mut found = None;
    elf::each(|object| {
        found = object.symbol(name).filter(|symbol| symbol.address != ours && !symbol.is_data);
        found.is_some()
    });
    found.map(|symbol| Found { real: symbol.address, low: 0, length: 0 })
}
