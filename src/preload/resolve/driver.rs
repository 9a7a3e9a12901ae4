//! The loaded driver: which object it is, and where its functions are.
//!
//! The first object that is a driver and that anybody reaches becomes *the* driver, for good: it is held
//! loaded, because programs keep pointers that lead to it through us. A second one is left alone, and named
//! as escaped.

use super::elf;
use super::object::Object;
use super::{dlerror, dlsym, escapes, linked};
use crate::exports::ENTRIES;
use crate::{inject, settings, status};
use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::function::{FUNCTION_COUNT, FnId, Library};

/// The base address of the driver, plus 1; 0 while there is none.
static DRIVER: AtomicUsize = AtomicUsize::new(0);

/// What keeps the driver loaded.
#[derive(Clone, Copy)]
enum Held {
    /// Nothing yet that we know of.
    NotYet,
    /// It came with the program.
    OfStart,
    /// We do.
    ByUs,
}

/// See [`Held`].
static HELD: AtomicU8 = AtomicU8::new(Held::NotYet as u8);

/// Whether the tables below are filled.
static READY: AtomicBool = AtomicBool::new(false);

/// The driver's own functions, in the order of the table; 0 where it lacks one.
static REAL: [AtomicUsize; FUNCTION_COUNT] = [const { AtomicUsize::new(0) }; FUNCTION_COUNT];

/// What look-ups hand out, in the order of the table: the export where a linked call leads straight to this
/// driver, so that a function has one address in the program as it has without us; else the entry for
/// look-ups. Set before any is handed out.
static HANDED_OUT: [AtomicUsize; FUNCTION_COUNT] = [const { AtomicUsize::new(0) }; FUNCTION_COUNT];

/// Where the entry for look-ups goes. Set before any is handed out.
pub static TARGETS: [AtomicUsize; FUNCTION_COUNT] = [const { AtomicUsize::new(0) }; FUNCTION_COUNT];

/// The driver's own function.
#[inline]
pub fn real(id: FnId) -> usize {
    REAL[id as usize].load(Relaxed)
}

/// Whether an object is a CUDA driver: it has the driver's soname.
pub fn is_driver(object: &Object) -> bool {
    object.soname().is_some_and(|soname| soname.to_bytes() == Library::Cuda.soname().as_bytes())
}

/// Makes an object the driver where there is none yet. Says whether it is the driver now.
pub fn register(object: &Object) -> bool {
    let mark = object.base + 1;
    match DRIVER.compare_exchange(0, mark, Release, Acquire) {
        Ok(_) => settings::get().complain(),
        Err(driver) if driver == mark => {}
        Err(_) => return false,
    }
    // Whoever comes while another thread is doing this does it as well: both write the same.
    for id in FnId::all() {
        let index = id as usize;
        let Some(symbol) = object.symbol(name_of(index)) else { continue };
        let traced = inject::is_traced(id);
        REAL[index].store(symbol.address, Relaxed);
        let target = if traced { ENTRIES[index].traced_looked_up as usize } else { symbol.address };
        TARGETS[index].store(target, Relaxed);
        let linked = linked::at_start(name_of(index)) == Some(symbol.address);
        let entries = &ENTRIES[index];
        let handed_out = if linked { entries.export as usize } else { entries.looked_up() };
        HANDED_OUT[index].store(handed_out, Relaxed);
    }
    READY.store(true, Release);
    status::reached();
    escapes::look_for_data_symbols();
    true
}

/// Lets looked-up calls of a function come to us, or go straight to the driver, as is needed now.
pub fn trace(id: FnId) {
    let index = id as usize;
    let real = real(id);
    if real != 0 && TARGETS[index].load(Acquire) != 0 {
        let target = if inject::is_traced(id) { ENTRIES[index].traced_looked_up as usize } else { real };
        TARGETS[index].store(target, Release);
    }
}

/// Keeps the driver loaded, once. Not done where it is registered: that may be in a thread for which a
/// constructor waits that holds the loader's lock. Called where the program itself has called the loader,
/// and before a library is closed. `closing` is the base of that.
pub fn hold_pending(closing: Option<usize>) {
    let driver = DRIVER.load(Acquire);
    // A driver that the program is closing was opened by it, even where our constructor has not run and all
    // that is there counts as being of the start.
    let is_closing = driver != 0 && closing.is_some_and(|base| base + 1 == driver);
    let held = HELD.load(Relaxed);
    if driver == 0 || held == Held::ByUs as u8 || (held == Held::OfStart as u8 && !is_closing) {
        return;
    }
    let Some(object) = elf::at_base(driver - 1) else { return };
    if is_closing || !elf::is_of_start(&object) {
        open_again(&object);
        HELD.store(Held::ByUs as u8, Relaxed);
    } else {
        HELD.store(Held::OfStart as u8, Relaxed);
    }
}

/// Keeps an object loaded. What is there from the start stays anyway, and must not be opened: the loader
/// would run its constructors now, which may be too early.
pub fn hold(object: &Object) {
    if !elf::is_of_start(object) {
        open_again(object);
    }
}

fn open_again(object: &Object) {
    // SAFETY: the path is the loader's own; RTLD_NOLOAD only counts one more user, who never leaves.
    unsafe { libc::dlopen(object.path().as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
}

/// A function of the driver that is not in the table: `Some(0)` where it lacks it, `None` while there is no driver.
pub fn function(name: &core::ffi::CStr) -> Option<usize> {
    if !find_loaded() {
        return None;
    }
    let object = elf::at_base(DRIVER.load(Acquire).checked_sub(1)?)?;
    Some(object.symbol(name).filter(|symbol| !symbol.is_data).map_or(0, |symbol| symbol.address))
}

/// Whether an object is the driver that we follow.
pub fn is_followed(object: &Object) -> bool {
    DRIVER.load(Acquire) == object.base + 1
}

/// Whether there is a driver that we follow.
pub fn is_any_followed() -> bool {
    DRIVER.load(Acquire) != 0
}

/// Whether any driver is loaded, in any namespace, seen or not seen by us.
pub fn is_anywhere() -> bool {
    let mut found = DRIVER.load(Acquire) != 0;
    if !found {
        elf::each(|object| {
            found = is_driver(object);
            found
        });
    }
    elf::each_in_other_namespaces(|object| found |= is_driver(object));
    found
}

/// Registers a driver that is loaded already, where nobody has reached one yet.
pub fn find_loaded() -> bool {
    if DRIVER.load(Acquire) != 0 {
        return true;
    }
    let mut found = None;
    elf::each(|object| {
        if is_driver(object) {
            found = Some(*object);
        }
        found.is_some()
    });
    found.is_some_and(|object| register(&object))
}

/// Loads the driver that the environment names, for calls behind which there is none.
pub fn load_named() -> bool {
    let Some(path) = &settings::get().driver else { return false };
    // SAFETY: loading a library that the user named runs its constructors, as the user asked.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: dlerror gives this thread's message, or null.
        let reason = unsafe { dlerror::real() };
        crate::message::once(format_args!("cannot load the driver of CUPEER_DRIVER: {reason}"));
        return false;
    }
    let init = dlsym::real(handle, c"cuInit");
    match elf::containing(init) {
        Some(object) if init != 0 && is_driver(&object) => register(&object),
        _ => {
            crate::message::once(format_args!(
                "CUPEER_DRIVER is not a CUDA driver (no cuInit, or another soname than {}): {}",
                Library::Cuda.soname(),
                path.to_string_lossy(),
            ));
            false
        }
    }
}

/// The address to hand out for an address of the driver: ours, where the function is in the table.
/// Registers the driver when an address of one is seen first.
pub fn handed_out(address: usize) -> Option<usize> {
    if READY.load(Acquire) {
        return known(address);
    }
    let object = elf::containing(address)?;
    (is_driver(&object) && register(&object)).then(|| known(address)).flatten()
}

fn known(address: usize) -> Option<usize> {
    let index = REAL.iter().position(|real| real.load(Relaxed) == address && address != 0)?;
    Some(HANDED_OUT[index].load(Relaxed))
}

/// The name of a function of the table, for C.
pub fn name_of(index: usize) -> &'static core::ffi::CStr {
    crate::exports::NAMES[index]
}
