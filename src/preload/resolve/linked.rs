//! Linked calls: where an export of ours leads to.
//!
//! A program that is linked to the driver reaches our export because we are loaded before. The call goes
//! on as if we were not there: to the next definition in the order of search; where the global scope has
//! none, to what the caller's own library or its dependencies define; else to a driver that is loaded
//! although nobody in scope of the caller has it; else to the one that the environment names; else it fails
//! with CUDA_ERROR_SHARED_OBJECT_INIT_FAILED.

use super::elf::{self, Object};
use super::{dlclose, dlerror, dlsym, driver};
use crate::exports::ENTRIES;
use crate::{arena, call, settings};
use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
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

/// What a caller's library is bound to: as the loader binds a library once, so do we.
struct Binding {
    route: Route,
    /// The library, by where it lies and a hash of its path.
    library: (usize, u64),
    /// The generation in which this was found or found again.
    generation: AtomicU64,
    /// The binding of the same function that was found before.
    earlier: *const Binding,
}

// SAFETY: the pointer is to a binding that is never freed.
unsafe impl Sync for Binding {}

/// The bindings of each function, the latest first.
static BINDINGS: [AtomicPtr<Binding>; FUNCTION_COUNT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; FUNCTION_COUNT];

/// Counts the closings of libraries: after one, others may lie where it lay.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// Forgets what may not hold any more. Called before a library is closed.
pub fn forget() {
    GENERATION.fetch_add(1, Relaxed);
    for current in &ROUTES {
        let route = current.load(Acquire);
        // SAFETY: routes are never freed.
        if unsafe { (*route).length } != usize::MAX {
            current.store((&raw const NOWHERE).cast_mut(), Release);
        }
    }
}

/// Finds the route of a caller: the address to jump to, and the next function.
fn find(id: FnId, caller: usize) -> (usize, usize) {
    let generation = GENERATION.load(Relaxed);
    let object = elf::containing(caller);
    let library = object.map_or((0, 0), |object| (object.base, object.path_hash()));
    let is_this = |binding: &Binding| binding.library == library && object.is_some();
    let bound = bindings(id).find(|b| is_this(b) && b.generation.load(Relaxed) == generation);
    if let Some(bound) = bound {
        ROUTES[id as usize].store((&raw const bound.route).cast_mut(), Release);
        return (bound.route.target, bound.route.real);
    }
    let Some((real, for_all)) = next(id, object.as_ref()) else {
        return (MISSING as usize, MISSING as usize);
    };
    let traced = settings::get().is_traced(id);
    let target = if traced { ENTRIES[id as usize].traced_export as usize } else { real };
    let (low, length) = match object {
        _ if for_all => (0, usize::MAX),
        Some(object) => (object.low, object.high - object.low),
        None => return (target, real),
    };
    let again = bindings(id).find(|b| is_this(b) && (b.route.real, b.route.length) == (real, length));
    let binding = again.or_else(|| {
        let earlier = BINDINGS[id as usize].load(Acquire);
        let route = Route { low, length, target, real };
        let new = arena::keep(Binding { route, library, generation: AtomicU64::new(0), earlier })?;
        // Another thread that adds one at the same time may win: then this one is found anew once.
        let _ =
            BINDINGS[id as usize].compare_exchange(earlier, ptr::from_ref(new).cast_mut(), AcqRel, Acquire);
        Some(new)
    });
    if let Some(binding) = binding {
        binding.generation.store(generation, Relaxed);
        ROUTES[id as usize].store((&raw const binding.route).cast_mut(), Release);
    }
    (target, real)
}

fn bindings(id: FnId) -> impl Iterator<Item = &'static Binding> {
    // SAFETY: bindings are never freed.
    let first = unsafe { BINDINGS[id as usize].load(Acquire).as_ref() };
    // SAFETY: as above.
    core::iter::successors(first, |binding| unsafe { binding.earlier.as_ref() })
}

/// The next function for calls from an object, and whether it is that for every caller.
fn next(id: FnId, object: Option<&Object>) -> Option<(usize, bool)> {
    let name = driver::name_of(id as usize);
    let in_scope = dlerror::preserving(|| {
        // What came with the program is in front of everybody; what was opened later is not for those who
        // were bound before.
        let global = in_global_scope(name).map(|(real, definer)| (real, elf::is_of_start(&definer)));
        global.or_else(|| in_scope_of_caller(name, object?).map(|real| (real, false)))
    });
    let loaded = || {
        let there = driver::find_loaded() || dlerror::preserving(driver::load_named);
        let real = driver::real(id);
        (there && real != 0).then_some((real, false))
    };
    in_scope.or_else(loaded).or_else(|| elsewhere(name).map(|real| (real, false)))
}

/// The next definition behind ours.
fn in_global_scope(name: &CStr) -> Option<(usize, Object)> {
    let next = dlsym::real(libc::RTLD_NEXT, name);
    let object = elf::containing(next).filter(|object| !elf::is_ours(object))?;
    if driver::is_driver(&object) {
        driver::register(&object);
    }
    Some((next, object))
}

/// What the caller's own library or its dependencies define.
fn in_scope_of_caller(name: &CStr, object: &Object) -> Option<usize> {
    let real = in_scope_of(object, name);
    let definer = elf::containing(real).filter(|definer| !elf::is_ours(definer))?;
    if driver::is_driver(&definer) {
        driver::register(&definer);
    }
    Some(real)
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
    unsafe { dlclose::call(handle) };
    found
}

/// The first object that defines a name: a compiler may have made the caller's call its last, so that the
/// return address lies in somebody else.
fn elsewhere(name: &CStr) -> Option<usize> {
    let mut found = None;
    elf::each(|object| {
        found = object.symbol(name).filter(|symbol| !elf::is_ours(object) && !symbol.is_data);
        found.is_some()
    });
    found.map(|symbol| symbol.address)
}
