//! Searches the objects of the process for a name, in the orders in which the loader does.

use super::entries;
use super::libraries::library_of;
use crate::sys::elf;
use crate::sys::object::LoadedObject;
use core::ffi::CStr;
use cupeer_spec::function::FUNCTION_COUNT;

/// Returns the next definition of a name after ours, among the objects that were loaded at the start, in load order.
pub fn find_after_us_at_start(name: &CStr) -> Option<usize> {
    let mut is_behind_us = false;
    elf::find_of_start(|object| {
        let is_ours = elf::is_ours(object);
        is_behind_us |= is_ours;
        if is_behind_us && !is_ours { object.function(name) } else { None }
    })
}

/// Returns our export whose linked calls lead to this function, which is in another library that was loaded at the start.
pub fn find_export_leading_to(found: usize) -> Option<usize> {
    let object = elf::containing(found).filter(|object| library_of(object).is_none())?;
    let is_it = |name| object.symbol(name).is_some_and(|symbol| symbol.address == found);
    let index = (0..FUNCTION_COUNT)
        .find(|index| is_it(entries::name(*index)) && find_after_us_at_start(entries::name(*index)) == Some(found));
    index.map(entries::export)
}

/// Returns the definition of a name in an object or its dependencies, in the breadth-first order in which the loader searches
/// them.
pub fn in_scope_of(object: &LoadedObject, name: &CStr) -> Option<usize> {
    // Base addresses of the objects that were searched or will be searched. They are stored in place of the objects,
    // because the stack may be small.
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
                let is_it = other.is_referred_to_by(needed);
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

/// Returns true if more than one object defines a name, so that the search order matters. `own` is a definition that does not
/// count.
pub fn is_defined_elsewhere(name: &CStr, own: Option<usize>) -> bool {
    let other = |object: &LoadedObject| object.function(name).filter(|found| Some(*found) != own);
    elf::find(|object| other(object).filter(|_| !elf::is_ours(object))).is_some()
}

/// Returns the first definition of a name in any object. It is used if the compiler made the caller's call a tail call, so that
/// the return address is in another object.
pub fn find_anywhere(name: &CStr) -> Option<usize> {
    elf::find(|object| object.function(name).filter(|_| !elf::is_ours(object)))
}
