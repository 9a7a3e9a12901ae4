//! Finds the interpreter of this process: the program itself, a library that it was linked to, or one that it opened.

use super::layout::Layout;
use crate::sys::object::{Object, Symbol};
use crate::sys::{arena, elf, program_memory};
use core::ffi::CStr;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr,
    Ordering::{Acquire, Release},
};

/// Where it has what.
#[derive(Clone, PartialEq, Eq)]
pub struct Interpreter {
    pub runtime: usize,
    pub layout: Layout,
    /// The types of what leads to a line.
    pub code: usize,
    pub text: usize,
    pub bytes: usize,
    pub frame: usize,
    /// Its loop.
    pub eval: Range<usize>,
    /// The object that has it.
    pub object: Range<usize>,
}

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
    // SAFETY: as above.
    let is_known = unsafe { FOUND.load(Acquire).as_ref() }.is_some_and(|known| *known == new);
    if !is_known && let Some(kept) = arena::keep(new) {
        FOUND.store(ptr::from_ref(kept).cast_mut(), Release);
    }
    true
}

fn read(object: &Object) -> Option<Interpreter> {
    let runtime = object.symbol(c"_PyRuntime")?.address;
    // A program has a copy of its own of what it refers to, and all use that.
    let of = |name: &CStr| -> Option<Symbol> {
        elf::find_of_start(|first| first.symbol(name)).or_else(|| object.symbol(name))
    };
    let address = |name| of(name).map(|symbol| symbol.address);
    let eval = object.symbol(c"_PyEval_EvalFrameDefault");
    Some(Interpreter {
        runtime,
        layout: Layout::of(version(object)?, runtime)?,
        code: address(c"PyCode_Type")?,
        text: address(c"PyUnicode_Type")?,
        bytes: address(c"PyBytes_Type")?,
        frame: address(c"PyFrame_Type")?,
        eval: eval.map_or(0..0, |eval| eval.address..eval.address + eval.size),
        object: object.low..object.high,
    })
}

/// `major << 24 | minor << 16` and so on. 3.9 and 3.10 do not say which they are, but for what each was the first to have.
fn version(object: &Object) -> Option<u32> {
    if let Some(version) = object.symbol(c"Py_Version") {
        let mut bytes = [0; 4];
        let is_read = program_memory::copy(version.address, &mut bytes) == 4;
        return is_read.then(|| u32::from_le_bytes(bytes));
    }
    let has = |name| object.symbol(name).is_some();
    match (has(c"PyIter_Send"), has(c"PyThreadState_GetFrame")) {
        (true, _) => Some(0x030a_0000),
        (_, true) => Some(0x0309_0000),
        _ => None,
    }
}
