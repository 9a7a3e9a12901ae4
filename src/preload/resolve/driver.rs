//! Tracks the loaded driver and the loaded NVML: which objects they are, and where their functions are.
//!
//! The first driver object that any caller reaches becomes *the* driver permanently: it is held loaded, because
//! programs keep pointers that lead to it through us. A second one is left alone, and reported as a bypass. The same
//! holds for NVML, except that reaching it does not count as reaching a driver: programs look at their GPUs with it
//! for reasons unrelated to CUDA. A process may have several runtimes, each with its own users: a second one is left
//! alone without a report.

use super::libraries::{LIBRARIES, is_driver, is_watched_object, library_of};
use super::{data_symbols, dlerror, entries, loader, needs, scope, used};
use crate::log::{message, status};
use crate::settings;
use crate::sys::aside::run_blocked_with_stack;
use crate::sys::elf;
use crate::sys::forks;
use crate::sys::object::LoadedObject;
use core::ffi::{CStr, c_void};
use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_shared::route::set_call_target;
use cupeer_spec::function::{FUNCTION_COUNT, FnId, Library};

struct Followed {
    /// Base address of the followed object, plus 1; 0 while there is none.
    base: AtomicUsize,
    /// Reason for which the object stays loaded: [`OF_START`], [`BY_US`], or 0 if there is no known reason.
    held: AtomicU8,
    /// True if the tables [`REAL`], [`HANDED_OUT`], and [`TARGETS`] are filled for this library.
    ready: AtomicBool,
}

const OF_START: u8 = 1;
const BY_US: u8 = 2;

static FOLLOWED: [Followed; LIBRARIES.len()] =
    [const { Followed { base: AtomicUsize::new(0), held: AtomicU8::new(0), ready: AtomicBool::new(false) } };
        LIBRARIES.len()];

fn followed(library: Library) -> &'static Followed {
    &FOLLOWED[library as usize]
}

/// Addresses of the followed libraries' own functions, in the order of the table; 0 if a library lacks the function.
static REAL: [AtomicUsize; FUNCTION_COUNT] = [const { AtomicUsize::new(0) }; FUNCTION_COUNT];

/// Address that a lookup returns for each function, in the order of the table: the export if a linked call leads directly to this
/// library, so that a function has one address in the program as it has without us; otherwise the entry for lookups. Set before
/// any address is returned.
static HANDED_OUT: [AtomicUsize; FUNCTION_COUNT] = [const { AtomicUsize::new(0) }; FUNCTION_COUNT];

/// Address to which the entry for lookups of each function jumps. Set before any address is returned.
pub static TARGETS: [AtomicUsize; FUNCTION_COUNT] = [const { AtomicUsize::new(0) }; FUNCTION_COUNT];

#[inline]
pub fn real(id: FnId) -> usize {
    REAL[id as usize].load(Relaxed)
}

/// Follows an object as the driver, NVML, or runtime if no object is followed as that library yet. Returns true if
/// this object is followed now.
pub fn follow_object(object: &LoadedObject) -> bool {
    let Some(library) = library_of(object) else { return false };
    let (mark, is_cuda) = (object.base + 1, library == Library::Cuda);
    match followed(library).base.compare_exchange(0, mark, Release, Acquire) {
        Ok(_) if is_cuda => message::note_driver_reached(),
        Ok(_) => {}
        Err(base) if base == mark => {}
        Err(_) => return false,
    }
    // Another thread may be doing the same, which is harmless: both write the same values.
    for id in FnId::all().filter(|id| id.spec().library == library) {
        let index = id as usize;
        let Some(symbol) = entries::symbol_in(object, index) else { continue };
        // A function of the runtime whose calls are not intercepted has no entry.
        if !entries::is_exported(index) && !needs::is_runtime_entry_needed(id) {
            continue;
        }
        REAL[index].store(symbol.address, Relaxed);
        aim_looked_up_entry(id);
        let is_linked =
            entries::is_exported(index) && scope::find_after_us_at_start(entries::name(index)) == Some(symbol.address);
        let handed_out = if is_linked { entries::export(index) } else { entries::looked_up_entry(index) };
        HANDED_OUT[index].store(handed_out, Relaxed);
    }
    followed(library).ready.store(true, Release);
    if is_cuda {
        status::count_reached();
    }
    data_symbols::repair_new();
    true
}

/// Directs looked-up calls of a function through `call` or straight to the driver, as is needed now.
pub fn aim_looked_up_entry(id: FnId) {
    let index = id as usize;
    let real = real(id);
    if real != 0 {
        set_call_target(
            &TARGETS[index],
            || needs::is_traced(id) || used::is_first_call_awaited(id),
            entries::traced_looked_up_address(id),
            real,
        );
    }
}

/// Keeps the driver and NVML loaded, if that is still to be done. `register` cannot do it: that may run in a thread that a
/// constructor waits for while it holds the loader's lock. Called in calls of the loader by the program, and before a library is
/// closed, with the base of that library as `closing`.
pub fn hold_pending(closing: Option<usize>) {
    FOLLOWED.iter().for_each(|followed| followed.hold_if_pending(closing));
}

impl Followed {
    /// Returns the object that is followed as this library.
    fn object(&self) -> Option<LoadedObject> {
        elf::at_base(self.base.load(Acquire).checked_sub(1)?)
    }

    fn hold_if_pending(&self, closing: Option<usize>) {
        let mark = self.base.load(Acquire);
        // The program opened the library that it is closing. This holds even if our constructor has not run, and all objects
        // count as those of the start.
        let is_closing = mark != 0 && closing.is_some_and(|base| base + 1 == mark);
        let held = self.held.load(Relaxed);
        if mark == 0 || held == BY_US || (held == OF_START && !is_closing) {
            return;
        }
        let Some(object) = self.object() else { return };
        let is_ours = is_closing || !elf::is_of_start(&object);
        if is_ours {
            open_again(&object);
        }
        self.held.store(if is_ours { BY_US } else { OF_START }, Relaxed);
    }
}

/// Keeps an object loaded by a reference. An object of the start stays loaded anyway, and must not be opened: the loader would
/// run its constructors now, which may be too early.
pub fn keep_loaded(object: &LoadedObject) {
    if !elf::is_of_start(object) {
        open_again(object);
    }
}

/// Adds a reference to a loaded object. Returns the object's handle; null if it is not loaded.
pub fn open_again(object: &LoadedObject) -> *mut c_void {
    open_loaded(object.path())
}

/// Adds a reference to a loaded object by its path. Returns the object's handle; null if it is not loaded.
pub fn open_loaded(path: &CStr) -> *mut c_void {
    // SAFETY: the path ends in NUL; RTLD_NOLOAD loads nothing.
    forks::while_nobody_forks(|| unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) })
}

/// Returns the address of a function of the driver, in the table or not; `None` if the driver lacks it. Stores the address in
/// `place`, or 1 if the driver lacks the function.
#[cold]
#[inline(never)]
pub fn look_for(name: &CStr, place: &AtomicUsize) -> Option<usize> {
    let mut found = None;
    // The program's stack may be too small for a search of the driver's symbols.
    run_blocked_with_stack(|| found = function(Library::Cuda, name));
    let address = found?.max(1);
    place.store(address, Relaxed);
    Some(address)
}

/// Returns the address of a function of a library, in the table or not: `Some(0)` if the library lacks the function, `None` if
/// the library is not loaded.
pub fn function(library: Library, name: &CStr) -> Option<usize> {
    if !follow_if_loaded(library) {
        return None;
    }
    let object = followed(library).object()?;
    Some(object.function(name).unwrap_or(0))
}

/// Returns the driver that we follow.
pub fn followed_driver() -> Option<LoadedObject> {
    followed(Library::Cuda).object()
}

/// Returns true if we follow this object: the driver, NVML, or a runtime.
pub fn is_followed(object: &LoadedObject) -> bool {
    FOLLOWED.iter().any(|followed| followed.base.load(Acquire) == object.base + 1)
}

/// Returns true if we follow any object as this library.
pub fn is_any_followed(library: Library) -> bool {
    followed(library).base.load(Acquire) != 0
}

/// Returns true if a library whose bypassing calls would be missed is loaded in any namespace, even one that we do not follow.
pub fn is_driver_in_any_namespace() -> bool {
    let mut found =
        is_any_followed(Library::Cuda) || elf::find(|object| is_watched_object(object).then_some(())).is_some();
    elf::each_in_other_namespaces(|object| found |= is_watched_object(object));
    found
}

/// Follows a library that is already loaded, if no object is followed as this library yet. Returns true if one is followed now.
pub fn follow_if_loaded(library: Library) -> bool {
    let find = || elf::find(|object| (library_of(object) == Some(library)).then_some(*object));
    is_any_followed(library) || find().is_some_and(|object| follow_object(&object))
}

/// Loads the driver that the environment names, for linked calls that find no other driver. Returns true if it is loaded.
pub fn load_configured_driver() -> bool {
    let Some(path) = &settings::get().driver else { return false };
    // SAFETY: loading a library that the user named runs its constructors, as the user asked.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: dlerror gives this thread's message, or null.
        let reason = unsafe { dlerror::take_loader_message() };
        message::print_once(format_args!("cannot load the driver of CUPEER_DRIVER: {reason}"));
        return false;
    }
    let init = loader::look_up(handle, c"cuInit");
    match elf::containing(init) {
        Some(object) if init != 0 && is_driver(&object) => follow_object(&object),
        _ => {
            message::print_once(format_args!(
                "CUPEER_DRIVER is not a CUDA driver (no cuInit, or another soname than {}): {}",
                Library::Cuda.soname(),
                message::LossyText(path.to_bytes()),
            ));
            false
        }
    }
}

/// Returns the address that a lookup returns in place of this address of a library's function; `None` if the function is not in
/// the table. Follows the library at the first lookup.
pub fn replacement_address(library: Library, address: usize) -> Option<usize> {
    if followed(library).ready.load(Acquire) {
        return find_replacement_address(address);
    }
    // Only the module `runtime` decides which runtime is followed.
    let object = elf::containing(address).filter(|_| library != Library::Cudart)?;
    (library_of(&object) == Some(library) && follow_object(&object))
        .then(|| find_replacement_address(address))
        .flatten()
}

fn find_replacement_address(address: usize) -> Option<usize> {
    let index = REAL.iter().position(|real| real.load(Relaxed) == address && address != 0)?;
    Some(HANDED_OUT[index].load(Relaxed))
}
