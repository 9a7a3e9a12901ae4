//! Finds the interpreter of this process: the program itself, a library that it was linked to, or one that it opened.

use crate::sys::object::{Object, Symbol};
use crate::sys::program_memory::Own;
use crate::sys::{arena, elf};
use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr,
    Ordering::{Acquire, Release},
};
use cupeer_stacks::python::Interpreter;

/// The one that was found last; null where there is none.
static FOUND: AtomicPtr<Interpreter> = AtomicPtr::new(ptr::null_mut());

/// The interpreter, where there is one. Those that came with the program are looked for at the first time.
pub fn get() -> Option<&'static Interpreter> {
    static HAS_LOOKED: AtomicBool = AtomicBool::new(false);
    // Several threads may look at once, and each has what it needs then.
    if !HAS_LOOKED.load(Acquire) {
        elf::find_of_start(|object| meet(object).then_some(()));
        HAS_LOOKED.store(true, Release);
    }
    // SAFETY: what is published stays.
    unsafe { FOUND.load(Acquire).as_ref() }
}

/// Looks whether an object is an interpreter, and says so.
pub fn meet(object: &Object) -> bool {
    let Some(new) = read(object) else { return false };
    // SAFETY: what is published stays.
    let is_known = unsafe { FOUND.load(Acquire).as_ref() }.is_some_and(|known| *known == new);
    if !is_known && let Some(kept) = arena::keep(new) {
        FOUND.store(ptr::from_ref(kept).cast_mut(), Release);
    }
    true
}

fn read(object: &Object) -> Option<Interpreter> {
    let place = |symbol: Symbol| (symbol.address, symbol.size);
    let own = |name: &CStr| object.symbol(name).map(place);
    let of = |name: &CStr| elf::find_of_start(|first| first.symbol(name)).map(place).or_else(|| own(name));
    Interpreter::read(Own, object.low..object.high, own, of)
}
