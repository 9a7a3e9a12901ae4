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
use super::scope::{find_after_us_at_start, find_anywhere, in_scope_of, is_defined_elsewhere};
use super::{dlerror, driver, entries, loader, needs, used};
use crate::sys::arena;
use crate::sys::elf;
use crate::sys::guard::guarded;
use crate::sys::object::LoadedObject;
use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_shared::route::{self, LibraryClosings};
use cupeer_spec::function::{FUNCTION_COUNT, FnId, Group, Library};
use cupeer_spec::results;

/// Number of places for routes of each function. The caller's address, without its lowest [`ROUTE_SHIFT`] bits, chooses a place.
pub const ROUTES_EACH: usize = 8;
/// Number of low bits of the caller's address that are ignored: see [`ROUTES_EACH`].
pub const ROUTE_SHIFT: usize = 16;

/// The target of linked calls from one range of addresses. It is never freed, because a thread may be reading it.
#[repr(C)]
pub struct Route {
    low: usize,
    /// Length of the range in bytes; `usize::MAX` if the route is for every caller.
    length: usize,
    /// Address to which the export jumps: the next function, or our traced entry. Laid out as a usize.
    target: AtomicUsize,
    real: usize,
}

/// The empty route, which matches no caller.
pub static NOWHERE: Route = Route { low: 0, length: 0, target: AtomicUsize::new(0), real: 0 };

/// A place for a route, as its distance in bytes from [`NOWHERE`]: an address would need a relocation in each process.
#[repr(transparent)]
pub struct RouteSlot(AtomicUsize);

impl RouteSlot {
    #[inline]
    fn route(&self) -> &'static Route {
        let address = (&raw const NOWHERE).expose_provenance().wrapping_add(self.0.load(Acquire));
        // SAFETY: the distance is 0 or that of a route, whose address `keep` exposed, and routes are never freed.
        unsafe { &*ptr::with_exposed_provenance(address) }
    }

    fn store_route(&self, route: &'static Route) {
        let distance = ptr::from_ref(route).expose_provenance().wrapping_sub((&raw const NOWHERE).addr());
        self.0.store(distance, Release);
    }
}

/// The places for the routes of each function, in the order of the table: see [`ROUTES_EACH`].
pub static ROUTES: [[RouteSlot; ROUTES_EACH]; FUNCTION_COUNT] =
    [const { [const { RouteSlot(AtomicUsize::new(0)) }; ROUTES_EACH] }; FUNCTION_COUNT];

/// Returns the place for the route of a caller's calls of a function.
#[inline]
fn route_slot(id: FnId, caller: usize) -> &'static RouteSlot {
    &ROUTES[id as usize][(caller as u32 >> ROUTE_SHIFT) as usize % ROUTES_EACH]
}

/// Returns the address of the next function for a call that came through the export; never 0.
#[inline]
pub fn next_function(id: FnId, caller: usize) -> usize {
    known_next_function(id, caller).unwrap_or_else(|| {
        let mut real = failing_function(id);
        guarded(|| real = find_target_and_next(id, caller).1);
        real
    })
}

/// Returns the address of the next function if the route of the caller is known.
#[inline(always)]
pub fn known_next_function(id: FnId, caller: usize) -> Option<usize> {
    let route = route_slot(id, caller).route();
    (caller.wrapping_sub(route.low) < route.length).then_some(route.real)
}

/// Finds the route for a caller. Called by an export that has no route for its caller. Returns the address to jump to.
pub unsafe extern "C" fn resolve(index: usize, caller: usize) -> usize {
    let id = FnId::at(index);
    let mut target = failing_function(id);
    guarded(|| target = find_target_and_next(id, caller).0);
    target
}

/// Returns a function that fails, in place of one of a library that is not loaded.
fn failing_function(id: FnId) -> usize {
    unsafe extern "C" fn no_driver() -> i32 {
        results::Result::SHARED_OBJECT_INIT_FAILED as i32
    }
    unsafe extern "C" fn no_nvml() -> i32 {
        results::nvml::Result::LIBRARY_NOT_FOUND as i32
    }
    let missing: unsafe extern "C" fn() -> i32 = match id.spec().library {
        Library::Nvml => no_nvml,
        // No caller is linked to our entries for the runtime.
        Library::Cuda | Library::Cudart => no_driver,
    };
    missing as usize
}

/// The function to which linked calls from one library lead. It is found once, as the loader binds a library once.
struct Binding {
    route: Route,
    /// True if the function is in the caller's own library, and may be unrelated to the driver's.
    is_own: bool,
    /// Identities of the caller's library and of the library that defines the function.
    between: [(usize, u64); 2],
    /// Generation of library closings in which the binding was last found to be valid.
    generation: AtomicU64,
    /// The binding of the same function that was found before this one; null if there is none.
    earlier: *const Binding,
}

// SAFETY: the pointer is to a binding that is never freed.
unsafe impl Sync for Binding {}

impl Binding {
    /// Returns true if the binding is valid for a caller's library. After a library was closed, another one may be at the address
    /// of the caller's library or of the definer.
    fn holds(&self, library: (usize, u64), generation: u64) -> bool {
        if self.between[0] != library {
            return false;
        }
        if self.generation.load(Relaxed) == generation {
            return true;
        }
        let still = elf::containing(self.route.real).map(|definer| definer.identity()) == Some(self.between[1]);
        if still {
            self.generation.store(generation, Relaxed);
        }
        still
    }
}

/// The bindings of each function as a linked list, the latest first.
static BINDINGS: [AtomicPtr<Binding>; FUNCTION_COUNT] = [const { AtomicPtr::new(ptr::null_mut()) }; FUNCTION_COUNT];

/// Count of library closings. No route is remembered while a library is being closed.
static CLOSINGS: LibraryClosings = LibraryClosings::new();

/// Removes the routes of all callers, because some may become invalid. Called before a library is closed.
pub fn before_dlclose() {
    CLOSINGS.begin_closing(forget_routes);
}

/// Removes the routes of all callers again. Called after a library was closed.
pub fn after_dlclose() {
    CLOSINGS.end_closing(forget_routes);
}

fn forget_routes() {
    for place in ROUTES.iter().flatten().filter(|place| place.route().length != usize::MAX) {
        place.store_route(&NOWHERE);
    }
}

/// Finds the address to jump to, and the next function, for a caller. Takes no lock that the loader holds while it runs
/// constructors or destructors, unless the search order cannot be known otherwise.
fn find_target_and_next(id: FnId, caller: usize) -> (usize, usize) {
    let generation = CLOSINGS.current_step();
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
    let Some((real, for_all)) = next_definition(id, object.as_ref()) else {
        return (failing_function(id), failing_function(id));
    };
    let definer = elf::containing(real);
    let is_real = definer.as_ref().and_then(library_of) == Some(id.spec().library);
    if let Some(definer) = definer.as_ref().filter(|_| is_real) {
        driver::follow_object(definer);
    }
    // A caller's own function with this name may be unrelated to the driver's.
    let is_own = !is_real && elf::is_same_object(caller, real);
    if !is_own {
        note(id);
    }
    let target = if is_traced(id) && !is_own { entries::traced_export_address(id) } else { real };
    let (low, length) = match object.and_then(|object| object.part(caller)) {
        _ if for_all => (0, usize::MAX),
        Some(part) => (part.start, part.len()),
        // In code that was generated at run time, only the page of the caller surely belongs to it.
        None if is_real => (caller & !0xfff, 0x1000),
        None => return (target, real),
    };
    let earlier = BINDINGS[id as usize].load(Acquire);
    let route = Route { low, length, target: AtomicUsize::new(target), real };
    let between = [library, definer.map_or((0, 0), |definer| definer.identity())];
    let binding = Binding { route, is_own, between, generation: AtomicU64::new(generation), earlier };
    if let Some(binding) = arena::store_permanently(binding) {
        let new = ptr::from_ref(binding).cast_mut();
        if BINDINGS[id as usize].compare_exchange(earlier, new, AcqRel, Acquire).is_err() {
            // Another thread has added a binding at the same time. The route is not kept, and a later call finds it anew: a route
            // without a binding would lead past plans that are armed later.
            return (target, real);
        }
        aim(id, binding);
        keep(id, caller, &binding.route, generation);
        return (binding.route.target.load(Acquire), real);
    }
    (target, real)
}

/// Notes the first linked call of a function. After that, looked-up calls need not come to us to be noted, either.
fn note(id: FnId) {
    if used::note(id) {
        needs::update_reason(id);
        driver::aim_looked_up_entry(id);
    }
}

/// Directs linked calls of a function through `call` or straight to the next function, as is needed now.
pub fn aim_linked_entry(id: FnId) {
    for binding in bindings(id) {
        aim(id, binding);
    }
}

fn aim(id: FnId, binding: &Binding) {
    if !binding.is_own {
        let (target, real) = (&binding.route.target, binding.route.real);
        route::set_call_target(target, || is_traced(id), entries::traced_export_address(id), real);
    }
}

/// Stores a route in the place for a caller.
fn keep(id: FnId, caller: usize, route: &'static Route, generation: u64) {
    if route.length == usize::MAX {
        ROUTES[id as usize].iter().for_each(|place| place.store_route(route));
        return;
    }
    let place = route_slot(id, caller);
    place.store_route(route);
    if !CLOSINGS.is_still_valid(generation) {
        place.store_route(&NOWHERE);
    }
}

fn bindings(id: FnId) -> impl Iterator<Item = &'static Binding> {
    // SAFETY: bindings are never freed.
    let first = unsafe { BINDINGS[id as usize].load(Acquire).as_ref() };
    // SAFETY: bindings are never freed, and an earlier one never changes.
    core::iter::successors(first, |binding| unsafe { binding.earlier.as_ref() })
}

/// Returns the next function for linked calls from an object. Also returns true if that function was loaded at the start of the
/// program.
fn next_definition(id: FnId, object: Option<&LoadedObject>) -> Option<(usize, bool)> {
    let name = entries::name(id as usize);
    // Objects that were loaded at the start come first in every scope.
    if let Some(real) = find_after_us_at_start(name) {
        return Some((real, true));
    }
    let own = object.and_then(|object| in_scope_of(object, name));
    let in_scope = if is_defined_elsewhere(name, own) { find_with_loader(name, own) } else { own };
    let library = id.spec().library;
    let loaded = || {
        let load = || library == Library::Cuda && dlerror::preserving(driver::load_configured_driver);
        let there = driver::follow_if_loaded(library) || load();
        let real = driver::real(id);
        (there && real != 0).then_some(real)
    };
    in_scope.or_else(loaded).or_else(|| find_anywhere(name)).map(|real| (real, false))
}

/// Returns true if a linked call came to us that was not for a caller's own function. Calls of cuInit do not count, because they
/// are seldom recorded.
pub fn was_called() -> bool {
    let mut watched = FnId::all().filter(|id| !id.spec().is_in(Group::Init));
    watched.any(|id| bindings(id).any(|binding| !binding.is_own))
}

/// Returns true if a linked call came to us from the library with this base address.
pub fn is_caller(base: usize) -> bool {
    FnId::all().any(|id| bindings(id).any(|binding| binding.between[0].0 == base && !binding.is_own))
}

/// Returns the definition after ours that the loader finds in the global scope, or else in the caller's own scope. The library
/// that defines the function is kept loaded, as the loader keeps it for libraries that it binds to it.
#[cold]
#[inline(never)]
fn find_with_loader(name: &CStr, own: Option<usize>) -> Option<usize> {
    dlerror::preserving(|| {
        let next = loader::look_up(libc::RTLD_NEXT, name);
        let definer = elf::containing(next).filter(|definer| !elf::is_ours(definer));
        if let Some(definer) = definer {
            driver::keep_loaded(&definer);
            return Some(next);
        }
        own
    })
}
