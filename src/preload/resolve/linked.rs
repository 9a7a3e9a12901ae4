//! Linked calls: finds the function that an export of ours must call next.
//!
//! A program that is linked to the driver reaches our export because we are loaded first. The call continues as if we
//! were absent: to the next definition in search order; if the global scope has none, to the definition in the
//! caller's own library or its dependencies; otherwise to a driver that is loaded outside of the caller's scope;
//! otherwise to the driver that the environment names; otherwise it fails with CUDA_ERROR_SHARED_OBJECT_INIT_FAILED.
//! Calls of NVML use the same order, except that the environment names none, and fail with
//! NVML_ERROR_LIBRARY_NOT_FOUND.

use super::libraries::library_of;
use super::needs::is_traced;
use super::scope::{anywhere, at_start, in_scope_of, is_defined_elsewhere};
use super::{dlerror, driver, entries, loader, needs, used};
use crate::sys::arena;
use crate::sys::elf;
use crate::sys::guard::guarded;
use crate::sys::object::Object;
use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_shared::route::{self, Closings};
use cupeer_spec::function::{FUNCTION_COUNT, FnId, Group, Library};
use cupeer_spec::results;

/// Number of routes of a function. The bits of a caller's address above the lowest [`ROUTE_SHIFT`] choose one.
pub const ROUTES_EACH: usize = 8;
/// See [`ROUTES_EACH`].
pub const ROUTE_SHIFT: usize = 16;

/// Target of calls from a range of addresses. Never freed, because a thread may be reading it.
#[repr(C)]
pub struct Route {
    low: usize,
    /// Its length; `usize::MAX` for every caller.
    length: usize,
    /// Target of the export: the next function, or our traced entry. Laid out as a usize.
    target: AtomicUsize,
    real: usize,
}

/// The route of no caller.
pub static NOWHERE: Route = Route { low: 0, length: 0, target: AtomicUsize::new(0), real: 0 };

/// Place of a route: its distance from [`NOWHERE`]. An address would be relocated in each process.
#[repr(transparent)]
pub struct Place(AtomicUsize);

impl Place {
    #[inline]
    fn route(&self) -> &'static Route {
        let address = (&raw const NOWHERE).expose_provenance().wrapping_add(self.0.load(Acquire));
        // SAFETY: the distance is 0 or that of a route, whose address `keep` exposed, and routes are never freed.
        unsafe { &*ptr::with_exposed_provenance(address) }
    }

    fn keep(&self, route: &'static Route) {
        let distance = ptr::from_ref(route).expose_provenance().wrapping_sub((&raw const NOWHERE).addr());
        self.0.store(distance, Release);
    }
}

/// The routes of each function, in the order of the table: see [`ROUTES_EACH`].
pub static ROUTES: [[Place; ROUTES_EACH]; FUNCTION_COUNT] =
    [const { [const { Place(AtomicUsize::new(0)) }; ROUTES_EACH] }; FUNCTION_COUNT];

/// Returns the place of the route for a caller.
#[inline]
fn place(id: FnId, caller: usize) -> &'static Place {
    &ROUTES[id as usize][(caller as u32 >> ROUTE_SHIFT) as usize % ROUTES_EACH]
}

/// Returns the next function for a call that came through the export; never 0.
#[inline]
pub fn real(id: FnId, caller: usize) -> usize {
    known(id, caller).unwrap_or_else(|| {
        let mut real = missing(id);
        guarded(|| real = find(id, caller).1);
        real
    })
}

/// Returns the next function if it was found before.
#[inline(always)]
pub fn known(id: FnId, caller: usize) -> Option<usize> {
    let route = place(id, caller).route();
    (caller.wrapping_sub(route.low) < route.length).then_some(route.real)
}

/// Called by an export that has no route for its caller. Returns the address to jump to.
pub unsafe extern "C" fn resolve(index: usize, caller: usize) -> usize {
    let id = FnId::at(index);
    let mut target = missing(id);
    guarded(|| target = find(id, caller).0);
    target
}

/// Returns the function that stands for a library that is not loaded: it fails.
fn missing(id: FnId) -> usize {
    unsafe extern "C" fn no_driver() -> i32 {
        results::Result::SHARED_OBJECT_INIT_FAILED as i32
    }
    unsafe extern "C" fn no_nvml() -> i32 {
        results::nvml::Result::LIBRARY_NOT_FOUND as i32
    }
    let missing: unsafe extern "C" fn() -> i32 = match id.spec().library {
        Library::Nvml => no_nvml,
        // Nobody is linked to us for the runtime.
        Library::Cuda | Library::Cudart => no_driver,
    };
    missing as usize
}

/// Binding of a caller's library: as the loader binds a library once, so do we.
struct Binding {
    route: Route,
    /// True if the function is the caller's own, which may be unrelated to the driver's.
    is_own: bool,
    /// The caller's library, and the one that defines the function.
    between: [(usize, u64); 2],
    /// The generation in which this was found, or found to hold still.
    generation: AtomicU64,
    /// The binding of the same function that was found before.
    earlier: *const Binding,
}

// SAFETY: the pointer is to a binding that is never freed.
unsafe impl Sync for Binding {}

impl Binding {
    /// Returns true if the binding holds for a caller's library. After a library was closed, another one may be at
    /// the address of either.
    fn holds(&self, library: (usize, u64), generation: u64) -> bool {
        if self.between[0] != library {
            return false;
        }
        if self.generation.load(Relaxed) == generation {
            return true;
        }
        let still =
            elf::containing(self.route.real).map(|definer| definer.identity()) == Some(self.between[1]);
        if still {
            self.generation.store(generation, Relaxed);
        }
        still
    }
}

/// The bindings of each function, the latest first.
static BINDINGS: [AtomicPtr<Binding>; FUNCTION_COUNT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; FUNCTION_COUNT];

/// The closings of libraries, while which no route is kept.
static CLOSINGS: Closings = Closings::new();

/// Removes routes that may not hold any longer. Called before a library is closed.
pub fn closing() {
    CLOSINGS.begin(forget);
}

/// Removes them again, after the library was closed.
pub fn closed() {
    CLOSINGS.end(forget);
}

fn forget() {
    for place in ROUTES.iter().flatten().filter(|place| place.route().length != usize::MAX) {
        place.keep(&NOWHERE);
    }
}

/// Finds the route of a caller: the address to jump to, and the next function. Takes no lock that the loader
/// holds while it runs constructors or destructors, but where the order of search cannot be known otherwise.
fn find(id: FnId, caller: usize) -> (usize, usize) {
    let generation = CLOSINGS.now();
    let object = elf::containing(caller);
    let library = object.map_or((0, 0), |object| object.identity());
    let bound = bindings(id).find(|binding| object.is_some() && binding.holds(library, generation));
    if let Some(bound) = bound {
        if !bound.is_own {
            note(id);
        }
        keep(id, caller, &bound.route, generation);
        return (bound.route.target.load(Acquire), bound.route.real);
    }
    let Some((real, for_all)) = next(id, object.as_ref()) else {
        return (missing(id), missing(id));
    };
    let definer = elf::containing(real);
    let is_real = definer.as_ref().and_then(library_of) == Some(id.spec().library);
    if let Some(definer) = definer.as_ref().filter(|_| is_real) {
        driver::register(definer);
    }
    // A library's own function of the name may be something else altogether.
    let is_own = !is_real && elf::is_same_object(caller, real);
    if !is_own {
        note(id);
    }
    let target = if is_traced(id) && !is_own { entries::traced_export(id) } else { real };
    let (low, length) = match object.and_then(|object| object.part(caller)) {
        _ if for_all => (0, usize::MAX),
        Some(part) => (part.start, part.len()),
        // Code that was generated at run time: only the page of the caller surely belongs to it.
        None if is_real => (caller & !0xfff, 0x1000),
        None => return (target, real),
    };
    let earlier = BINDINGS[id as usize].load(Acquire);
    let route = Route { low, length, target: AtomicUsize::new(target), real };
    let between = [library, definer.map_or((0, 0), |definer| definer.identity())];
    let binding = Binding { route, is_own, between, generation: AtomicU64::new(generation), earlier };
    if let Some(binding) = arena::keep(binding) {
        let new = ptr::from_ref(binding).cast_mut();
        if BINDINGS[id as usize].compare_exchange(earlier, new, AcqRel, Acquire).is_err() {
            // Another thread has added one at the same time. This one is found anew: a route that is in no binding would
            // lead past plans that are armed later.
            return (target, real);
        }
        aim(id, binding);
        keep(id, caller, &binding.route, generation);
        return (binding.route.target.load(Acquire), real);
    }
    (target, real)
}

/// Notes a linked call. After the first one, looked-up calls need not come to us, either.
fn note(id: FnId) {
    if used::note(id) {
        needs::decide_again(id);
        driver::trace(id);
    }
}

/// Directs linked calls of a function to us or to the next function, as is needed now.
pub fn trace(id: FnId) {
    for binding in bindings(id) {
        aim(id, binding);
    }
}

fn aim(id: FnId, binding: &Binding) {
    if !binding.is_own {
        let (target, real) = (&binding.route.target, binding.route.real);
        route::aim(target, || is_traced(id), entries::traced_export(id), real);
    }
}

/// Stores a route for its callers.
fn keep(id: FnId, caller: usize, route: &'static Route, generation: u64) {
    if route.length == usize::MAX {
        ROUTES[id as usize].iter().for_each(|place| place.keep(route));
        return;
    }
    let place = place(id, caller);
    place.keep(route);
    if !CLOSINGS.holds(generation) {
        place.keep(&NOWHERE);
    }
}

fn bindings(id: FnId) -> impl Iterator<Item = &'static Binding> {
    // SAFETY: bindings are never freed.
    let first = unsafe { BINDINGS[id as usize].load(Acquire).as_ref() };
    // SAFETY: bindings are never freed, and an earlier one never changes.
    core::iter::successors(first, |binding| unsafe { binding.earlier.as_ref() })
}

/// Returns the next function for calls from an object, and true if it came with the program.
fn next(id: FnId, object: Option<&Object>) -> Option<(usize, bool)> {
    let name = entries::name(id as usize);
    // Objects of the start come first in every scope.
    if let Some(real) = at_start(name) {
        return Some((real, true));
    }
    let own = object.and_then(|object| in_scope_of(object, name));
    let in_scope = if is_defined_elsewhere(name, own) { by_the_loader(name, own) } else { own };
    let library = id.spec().library;
    let loaded = || {
        let load = || library == Library::Cuda && dlerror::preserving(driver::load_named);
        let there = driver::find_loaded(library) || load();
        let real = driver::real(id);
        (there && real != 0).then_some(real)
    };
    in_scope.or_else(loaded).or_else(|| anywhere(name)).map(|real| (real, false))
}

/// Returns true if a linked call came to us that was not a library's own, except those of cuInit, which are seldom
/// recorded.
pub fn was_called() -> bool {
    let mut watched = FnId::all().filter(|id| !id.spec().is_in(Group::Init));
    watched.any(|id| bindings(id).any(|binding| !binding.is_own))
}

/// Returns true if a linked call came to us from the library with this base.
pub fn is_caller(base: usize) -> bool {
    FnId::all().any(|id| bindings(id).any(|binding| binding.between[0].0 == base && !binding.is_own))
}

/// Returns the definition that the loader finds behind us in the global scope, or else the one in the caller's own
/// scope. The definer is kept loaded, as the loader keeps it for libraries that it binds to it.
#[cold]
#[inline(never)]
fn by_the_loader(name: &CStr, own: Option<usize>) -> Option<usize> {
    dlerror::preserving(|| {
        let next = loader::look_up(libc::RTLD_NEXT, name);
        let definer = elf::containing(next).filter(|definer| !elf::is_ours(definer));
        if let Some(definer) = definer {
            driver::hold(&definer);
            return Some(next);
        }
        own
    })
}
