//! The shared objects of the process: all of them, the object of an address, the objects loaded at the start, and
//! those of other namespaces.
//!
//! Reading the lists directly, without `dladdr` or `dlsym`, leaves `dlerror` unchanged. `object` reads a single
//! object. Nothing here decides anything.

use super::every_call::EVERY_CALL;
use super::forks::while_nobody_forks;
use super::object::{LinkMap, LoadedObject};
use core::ffi::{CStr, c_int, c_void};
use core::iter::successors;
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use libc::dl_phdr_info;

/// Calls `found` with each object of our linker namespace, in load order, until it returns true.
pub fn each(mut found: impl FnMut(&LoadedObject) -> bool) {
    #[unsafe(link_section = ".text.startup")]
    unsafe extern "C" fn one(info: *mut dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: `found` is what `each` passed, and `info` describes a loaded object for this callback.
        unsafe {
            c_int::from((*found.cast::<&mut dyn FnMut(&LoadedObject) -> bool>())(&LoadedObject::from_phdr_info(&*info)))
        }
    }
    let mut found: &mut dyn FnMut(&LoadedObject) -> bool = &mut found;
    // SAFETY: the callback gets what it expects, which outlives the iteration.
    while_nobody_forks(|| unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut found).cast()) });
}

/// Returns the first result of `look` among the objects of our linker namespace, in load order.
pub fn find<T>(mut look: impl FnMut(&LoadedObject) -> Option<T>) -> Option<T> {
    let mut found = None;
    each(|object| {
        found = look(object);
        found.is_some()
    });
    found
}

/// Returns the first result of `look` as [`find`] does, without the loader's lock and without a function call. Only for objects
/// that were loaded at the start, which are never unloaded.
pub fn find_without_lock<T>(mut look: impl FnMut(&LoadedObject) -> Option<T>) -> Option<T> {
    unsafe extern "C" {
        static _r_debug: Debug;
    }
    // SAFETY: the loader filled it before any code ran. Its list begins with the objects of the start, which are
    // never removed.
    unsafe {
        successors(_r_debug.map.as_ref(), |map| map.next.as_ref())
            .find_map(|map| look(&LoadedObject::of_link_map(map, 0, 0)))
    }
}

/// Returns the number of objects that were ever loaded, and the number that were ever unloaded.
pub fn load_and_unload_counts() -> (u64, u64) {
    unsafe extern "C" fn first(info: *mut dl_phdr_info, _: usize, changes: *mut c_void) -> c_int {
        // SAFETY: `info` is valid for this callback and `changes` are the numbers below.
        unsafe { *changes.cast::<(u64, u64)>() = ((*info).dlpi_adds, (*info).dlpi_subs) };
        1
    }
    let mut changes = (0u64, 0u64);
    // SAFETY: the callback writes to `changes`, which outlive the iteration.
    while_nobody_forks(|| unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut changes).cast()) });
    changes
}

/// Changes [`libraries_generation`](super::every_call::libraries_generation) if the program's last `dlclose` unloaded
/// a library, because cached facts about libraries may be wrong.
pub fn note_closed() {
    static UNLOADED: AtomicU64 = AtomicU64::new(0);
    let unloaded = load_and_unload_counts().1;
    if UNLOADED.swap(unloaded, Relaxed) != unloaded {
        EVERY_CALL.libraries.fetch_add(1, Release);
    }
}

/// Returns the address of a variable in our own library.
pub fn own_address() -> usize {
    own_address as *const () as usize
}

/// Returns true if an address is in our own library, which is never unloaded.
pub fn is_our_code(address: usize) -> bool {
    static LOW: AtomicUsize = AtomicUsize::new(0);
    static HIGH: AtomicUsize = AtomicUsize::new(0);
    if HIGH.load(Acquire) == 0 {
        let Some(object) = containing(own_address()) else { return false };
        LOW.store(object.low, Relaxed);
        HIGH.store(object.high, Release);
    }
    (LOW.load(Relaxed)..HIGH.load(Relaxed)).contains(&address)
}

pub fn is_ours(object: &LoadedObject) -> bool {
    object.holds(own_address())
}

/// Returns true if another copy of our library is loaded before us.
pub fn is_second_copy() -> bool {
    find(|object| (is_ours(object) || object.symbol(c"cupeer_version").is_some()).then(|| !is_ours(object)))
        == Some(true)
}

/// Returns true if an object was loaded before us: the program, and libraries that are preloaded before us.
pub fn is_before_us(object: &LoadedObject) -> bool {
    let is_it = |other: &LoadedObject| other.base == object.base;
    find(|other| (is_it(other) || is_ours(other)).then(|| !is_ours(other))) == Some(true)
}

/// Returns the next object after `object`, in the order of the start, that defines a name. `object` was loaded before us.
pub fn next_definer(object: &LoadedObject, name: &CStr) -> Option<LoadedObject> {
    let mut is_behind = false;
    find_of_start(|other| {
        let is_it = is_behind && other.symbol(name).is_some();
        is_behind |= other.base == object.base;
        is_it.then_some(*other)
    })
}

/// Number of objects that were loaded when our constructor ran; `usize::MAX` before that. These are the objects of the start.
#[unsafe(link_section = ".data.start")]
static OBJECTS_OF_START: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Counts the objects that were loaded at the start. Called by our constructor.
pub fn count_start() {
    let mut count = 0;
    each(|_| {
        count += 1;
        false
    });
    OBJECTS_OF_START.store(count, Relaxed);
}

/// Returns the first result of `look` among the objects that were loaded at the start, in load order.
pub fn find_of_start<T>(mut look: impl FnMut(&LoadedObject) -> Option<T>) -> Option<T> {
    let mut left = OBJECTS_OF_START.load(Relaxed);
    find(|object| {
        let Some(less) = left.checked_sub(1) else { return Some(None) };
        left = less;
        look(object).map(Some)
    })?
}

/// Returns true if an object was loaded at the start of the program. Such an object is never unloaded, and its scope is the
/// global one.
pub fn is_of_start(object: &LoadedObject) -> bool {
    find_of_start(|other| (other.base == object.base).then_some(())).is_some()
}

/// Returns the base address of the object that a handle of `dlopen` refers to.
///
/// # Safety
///
/// `handle` is one that `dlopen` gave and that `dlsym` has just taken.
pub unsafe fn base_of_handle(handle: *mut c_void) -> usize {
    // SAFETY: glibc's handles are link maps, which begin with the base.
    unsafe { (*handle.cast::<LinkMap>()).base }
}

/// Returns the object that a handle of `dlopen` refers to, without its address range.
///
/// # Safety
///
/// `handle` is one that `dlopen` gave.
pub unsafe fn object_of_handle(handle: *mut c_void) -> LoadedObject {
    // SAFETY: glibc's handles are link maps.
    unsafe { LoadedObject::of_link_map(&*handle.cast::<LinkMap>(), 0, 0) }
}

/// The address of glibc's `_dl_find_object`, which finds the object of an address without a lock; 0 before
/// glibc 2.35, and before our constructor.
#[unsafe(link_section = ".data.start")]
static FIND_OBJECT: AtomicUsize = AtomicUsize::new(0);

/// Sets the address of `_dl_find_object`. Called by our constructor.
pub fn set_dl_find_object(address: usize) {
    FIND_OBJECT.store(address, Relaxed);
}

/// The start of glibc's `struct dl_find_object`.
#[repr(C)]
struct DlFindObject {
    flags: u64,
    start: usize,
    end: usize,
    link_map: *const LinkMap,
    /// Address of the object's .eh_frame_hdr.
    unwind: usize,
    rest: [u64; 7],
}

/// Returns the result of `_dl_find_object` for an address; `Err` if the C library has no such function.
fn dl_find_object(address: usize) -> Result<Option<DlFindObject>, ()> {
    let find_object = FIND_OBJECT.load(Relaxed);
    if find_object == 0 {
        return Err(());
    }
    // SAFETY: the address of `_dl_find_object`, which has this type and fills no more than this structure.
    unsafe {
        let find_object: unsafe extern "C" fn(usize, *mut DlFindObject) -> c_int = core::mem::transmute(find_object);
        let mut found: DlFindObject = core::mem::zeroed();
        Ok((find_object(address, &mut found) == 0).then_some(found))
    }
}

pub fn containing(address: usize) -> Option<LoadedObject> {
    match dl_find_object(address) {
        Ok(found) => {
            let DlFindObject { start, end, link_map, .. } = found?;
            // SAFETY: the link map is that of a loaded object.
            unsafe { Some(LoadedObject::of_link_map(link_map.as_ref()?, start, end)) }
        }
        Err(()) => find(|object| object.holds(address).then_some(*object)),
    }
}

/// Returns the address of the unwind information (.eh_frame_hdr) of the object that contains an address. The information itself
/// is not read.
pub fn unwind_table(address: usize) -> Option<usize> {
    let table = match dl_find_object(address) {
        Ok(found) => found?.unwind,
        Err(()) => containing(address)?.unwind,
    };
    (table != 0).then_some(table)
}

/// Returns the object of our namespace with this base address.
pub fn at_base(base: usize) -> Option<LoadedObject> {
    find(|object| (object.base == base).then_some(*object))
}

/// Returns true if an address is in the program itself, which is the first object.
pub fn is_of_program(address: usize) -> bool {
    containing(address).zip(find(|first| Some(first.base))).is_some_and(|(object, base)| object.base == base)
}

/// Returns true if two addresses are in one object.
pub fn is_same_object(a: usize, b: usize) -> bool {
    containing(a).zip(containing(b)).is_some_and(|(a, b)| a.base == b.base)
}

/// `struct r_debug_extended` of glibc 2.35 and later.
#[repr(C)]
struct Debug {
    version: c_int,
    map: *const LinkMap,
    brk: usize,
    state: c_int,
    ldbase: usize,
    next: *const Debug,
}

/// Calls `found` with each object of the other linker namespaces, which `dlmopen` creates. Finds none before glibc 2.35.
pub fn each_in_other_namespaces(mut found: impl FnMut(&LoadedObject)) {
    let debug = find(|program| Some(program.loader_debug_address())).unwrap_or(0) as *const Debug;
    // SAFETY: DT_DEBUG of the program points to the loader's r_debug, from version 2 on in its extended
    // form. Called at exit, when nobody loads any more.
    unsafe {
        let first = debug.as_ref().filter(|debug| debug.version >= 2);
        for debug in successors(first.and_then(|debug| debug.next.as_ref()), |debug| debug.next.as_ref()) {
            successors(debug.map.as_ref(), |map| map.next.as_ref())
                .for_each(|map| found(&LoadedObject::of_link_map(map, 0, 0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_know_their_names_and_what_they_define() {
        let libc_getpid = libc::getpid as *const () as usize;
        let object = containing(libc_getpid).expect("libc is loaded");
        assert_eq!(object.soname(), Some(c"libc.so.6"));
        assert!(object.path().to_bytes().ends_with(b"libc.so.6"));
        assert_eq!(object.symbol(c"getpid").map(|s| (s.address, s.is_data)), Some((libc_getpid, false)));
        assert!(object.symbol(c"environ").is_some_and(|s| s.is_data));
        assert!(object.symbol(c"cuInit").is_none() && object.symbol(c"").is_none());
        assert!(containing(0).is_none());
    }

    #[test]
    fn slots_lead_to_what_the_loader_bound() {
        let mut seen = false;
        each(|object| {
            object.each_slot(|slot| {
                // SAFETY: the loader filled the place.
                let bound = unsafe { *slot.place };
                seen |= slot.name() == c"dl_iterate_phdr" && containing(bound).is_some();
            });
            seen
        });
        assert!(seen);
    }
}
