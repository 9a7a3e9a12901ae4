//! Repairs references to variables that have the names of our exports: tables of function pointers, as cuew has.
//!
//! The loader binds a library with such a variable to our export instead. Its references are restored, because it would
//! otherwise write into our code.

use super::libraries::library_of;
use super::reported::FoundObjects;
use super::{entries, names};
use crate::sys::elf;
use crate::sys::object::{LoadedObject, Symbol};
use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use cupeer_spec::bypass::Bypass;

/// Restores references to variables with the names of our exports, in the libraries that were loaded since the last
/// search. Reports those libraries.
pub fn repair_new() {
    static LOOKED: AtomicU64 = AtomicU64::new(0);
    let loads = elf::load_and_unload_counts().0;
    if LOOKED.swap(loads, Relaxed) != loads {
        let mut found = FoundObjects::default();
        elf::each(|object| {
            if repair(object) {
                found.add(object, Bypass::DataSymbol);
            }
            false
        });
        found.report_all();
    }
}

/// Restores references to such variables in all objects, without a report. Called by our constructor, which also runs in
/// processes that never reach a driver.
pub fn repair_all() {
    let mut program = None;
    elf::each(|object| {
        repair(object);
        program.get_or_insert(*object);
        false
    });
    // Copies of variables in the program are repaired as well.
    if let Some(program) = program {
        repair_copies(&program);
    }
}

/// Repairs the program's copies of variables with the names of our exports: the loader filled the copies with our code.
fn repair_copies(program: &LoadedObject) {
    program.each_slot(|slot| {
        // Few references are copies, so names are compared last.
        let Some(index) = slot.is_copy.then(|| names::exported_as(slot.name())).flatten() else { return };
        if let Some(own) = program.symbol(slot.name()).filter(|symbol| symbol.size <= 64)
            && let Some(origin) = data_behind_us(entries::name(index))
        {
            // SAFETY: both are variables of that size at least, which nobody uses yet.
            unsafe {
                let size = own.size.min(origin.size);
                ptr::write_bytes(slot.place.cast::<u8>(), 0, own.size);
                ptr::copy_nonoverlapping(origin.address as *const u8, slot.place.cast(), size);
            }
        }
    });
}

/// Returns the first variable with this name in an object after our library.
fn data_behind_us(name: &CStr) -> Option<Symbol> {
    let mut is_behind = false;
    elf::find(|object| {
        is_behind |= elf::is_ours(object);
        object.symbol(name).filter(|symbol| is_behind && symbol.is_data)
    })
}

/// Repairs the references of an object that defines variables with the names of our exports. Returns true if it defines any.
#[unsafe(link_section = ".text.startup")]
fn repair(object: &LoadedObject) -> bool {
    let data = |index| entries::symbol_in(object, index).filter(|symbol| symbol.is_data);
    let mut likely = entries::candidates_in(object).filter(|index| entries::is_exported(*index)).peekable();
    let is_exempt = || elf::is_ours(object) || library_of(object).is_some();
    if likely.peek().is_none() || is_exempt() || !likely.any(|index| data(index).is_some()) {
        return false;
    }
    object.each_slot(|slot| {
        let Some(index) = names::exported_as(slot.name()).filter(|_| !slot.is_copy) else { return };
        let Some(own) = data(index) else { return };
        // SAFETY: the place is one that the loader filled.
        if unsafe { *slot.place } == entries::export(index) {
            // SAFETY: the place is the slot's of this object, and the new address is that of its own variable.
            unsafe { object.write_slot(slot.place, own.address) };
        }
    });
    true
}
