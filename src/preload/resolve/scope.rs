//! Searches the objects of the process for a name, in the orders in which the loader does.

use super::entries;
use super::libraries::library_of;
use crate::sys::elf;
use crate::sys::object::Object;
use core::ffi::CStr;
use cupeer_spec::function::FUNCTION_COUNT;

/// Returns the next definition behind ours among the objects of the start, in their order.
pub fn at_start(name: &CStr) -> Option<usize> {
    let mut is_behind_us = false;
    elf::find_of_start(|object| {
        let is_ours = elf::is_ours(object);
        is_behind_us |= is_ours;
        if is_behind_us && !is_ours { object.function(name) } else { None }
    })
}

/// Returns our export whose linked calls continue to this function of another library of the start.
pub fn in_place_of(found: usize) -> Option<usize> {
    let object = elf::containing(found).filter(|object| library_of(object).is_none())?;
    let is_it = |name| object.symbol(name).is_some_and(|symbol| symbol.address == found);
    let index = (0..FUNCTION_COUNT)
        .find(|index| is_it(entries::name(*index)) && at_start(entries::name(*index)) == Some(found));
    index.map(entries::export)
}

/// Returns the definition of a name in an object or its dependencies, breadth first, as the loader searches them.
pub fn in_scope_of(object: &Object, name: &CStr) -> Option<usize> {
    // The bases of the objects: the stack may be small.
    let mut scope = [0; 128];
    let (mut looked, mut count) = (0, 1);
    scope[0] = object.base;
    while looked < count {
        let current = elf::at_base(scope[looked])?;
        looked += 1;
        if let found @ Some(_) = current.function(name) {
            return found;
        }
        current.each_needed(|needed| {
            elf::each(|other| {
                let is_it = other.is_called(needed);
                let known = scope[..count].contains(&other.base) || elf::is_ours(other);
                if is_it && !known && count < scope.len() {
                    scope[count] = other.base;
                    count += 1;
                }
                is_it
            });
        });
    }
    None
}

/// Returns true if an object other than the one that was found defines a name, so that the search order matters.
pub fn is_defined_elsewhere(name: &CStr, own: Option<usize>) -> bool {
    let other = |object: &Object| object.function(name).filter(|found| Some(*found) != own);
    elf::find(|object| other(object).filter(|_| !elf::is_ours(object))).is_some()
}

/// Returns the first definition of a name: a compiler may have made the caller's call its last, so that the return
/// address is in another object.
pub fn anywhere(name: &CStr) -> Option<usize> {
    elf::find(|object| object.function(name).filter(|_| !elf::is_ours(object)))
}
