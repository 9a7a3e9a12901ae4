//! Finds the interpreter of this process: the program itself, a library that it was linked to, or one that it opened.

use crate::sys::object::{LoadedObject, Symbol};
use crate::sys::program_memory::OwnMemory;
use crate::sys::{arena, elf};
use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr,
    Ordering::{Acquire, Release},
};
use cupeer_stacks::python::Interpreter;

/// The interpreter that was found last; null if there is none.
static FOUND: AtomicPtr<Interpreter> = AtomicPtr::new(ptr::null_mut());

/// Returns the Python interpreter of this process; `None` if there is none. The first call searches the objects of the start.
pub fn get() -> Option<&'static Interpreter> {
    static HAS_LOOKED: AtomicBool = AtomicBool::new(false);
    // Several threads may search at once, and all find the same.
    if !HAS_LOOKED.load(Acquire) {
        elf::find_of_start(|object| note_interpreter(object).then_some(()));
        HAS_LOOKED.store(true, Release);
    }
    // SAFETY: what is published stays.
    unsafe { FOUND.load(Acquire).as_ref() }
}

/// Remembers an object if it is a Python interpreter. Returns true if it is.
pub fn note_interpreter(object: &LoadedObject) -> bool {
    let Some(new) = read(object) else { return false };
    // SAFETY: what is published stays.
    let is_known = unsafe { FOUND.load(Acquire).as_ref() }.is_some_and(|known| *known == new);
    if !is_known && let Some(kept) = arena::store_permanently(new) {
        FOUND.store(ptr::from_ref(kept).cast_mut(), Release);
    }
    true
}

fn read(object: &LoadedObject) -> Option<Interpreter> {
    let place = |symbol: Symbol| (symbol.address, symbol.size);
    let own = |name: &CStr| object.symbol(name).map(place);
    let of = |name: &CStr| elf::find_of_start(|first| first.symbol(name)).map(place).or_else(|| own(name));
    Interpreter::read_interpreter(OwnMemory, object.low..object.high, own, of)
}
