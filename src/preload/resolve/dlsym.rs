//! `dlsym` and `dlvsym`: every name that is not in the table continues to libc's own, by a jump that keeps the caller.
//!
//! For a name of the table, the result is replaced if it is the driver's function or NVML's, and left alone if it
//! belongs to any other library. RTLD_NEXT is never replaced: the library that asks is itself a wrapper of the
//! function, and finds our export in its place in the order.

use super::loader::{Dlsym, look_up};
use super::names::index_of;
use super::{bypasses, data_symbols, deep, dlclose, dlerror, driver, entries, loader, runtime, scope};
use crate::sys::arch::{Decision, deciding_entry};
use crate::sys::elf;
use crate::sys::guard::guarded;
use crate::sys::object::equals_text;
use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use cupeer_spec::function::FUNCTIONS;

/// Replaces libc's `dlsym`: returns our entry in place of the driver's function.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    deciding_entry!(decide)
}

/// The dlsym for callers that looked up libc's own dlsym: it skips the dlsym of another tool, which is preloaded behind us.
#[unsafe(naked)]
unsafe extern "C" fn dlsym_of_libc(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    deciding_entry!(decide_as_libc)
}

/// Replaces libc's `dlvsym`. The driver's names have no versions, but `dlsym` has, and tools that replace it look up
/// libc's by its version. The functions that they find with it would bypass cupeer.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void {
    deciding_entry!(decide_version)
}

/// Returns the loader's function with this name, if we interpose it: its name, the address of libc's or the next definition, and
/// the address of ours.
pub fn function_of_loader(name: *const c_char) -> Option<(&'static CStr, usize, usize)> {
    if name.is_null() {
        return None;
    }
    type Function = (&'static CStr, fn() -> usize, usize);
    let functions: [Function; 4] = [
        (c"dlsym", || Dlsym::of_libc().address(), dlsym_of_libc as *const () as usize),
        (c"dlvsym", loader::dlvsym, dlvsym as *const () as usize),
        (c"dlclose", dlclose::find, dlclose::dlclose as *const () as usize),
        (c"dlerror", dlerror::find, dlerror::dlerror as *const () as usize),
    ];
    // SAFETY: the name ends in NUL.
    let is_it = |(wanted, ..): &Function| unsafe { equals_text(name, wanted) };
    let (wanted, find, ours) = functions.into_iter().find(is_it)?;
    Some((wanted, find(), ours))
}

/// Returns our own function if a program looks up a function of the loader that we interpose in a library by its handle, and
/// would get libc's. A lookup through libc's function would bypass us.
fn replacement_of_lookup(next: Dlsym, handle: *mut c_void, name: *const c_char) -> Option<usize> {
    if handle == libc::RTLD_NEXT || handle == libc::RTLD_DEFAULT {
        return None;
    }
    let (wanted, libcs, ours) = function_of_loader(name)?;
    (next.look_up(handle, wanted) == libcs).then_some(ours)
}

unsafe extern "C" fn decide(handle: *mut c_void, name: *const c_char, caller: usize) -> Decision {
    decide_before(Dlsym::behind_us(), handle, name, caller)
}

unsafe extern "C" fn decide_as_libc(handle: *mut c_void, name: *const c_char, caller: usize) -> Decision {
    decide_before(Dlsym::of_libc(), handle, name, caller)
}

/// Decides a lookup that would go to the dlsym `next` without us.
fn decide_before(next: Dlsym, handle: *mut c_void, name: *const c_char, caller: usize) -> Decision {
    let go_on = Decision { jump: next.address(), value: 0 };
    let Some(index) = index_of(name) else {
        return match replacement_of_lookup(next, handle, name) {
            Some(value) => Decision { jump: 0, value },
            None => {
                deep::examine(handle);
                go_on
            }
        };
    };
    let mut answer = None;
    guarded(|| {
        bypasses::note_driver_lookup(caller);
        answer = match handle {
            libc::RTLD_NEXT => look_up_next(next, index, caller),
            libc::RTLD_DEFAULT => look_up_default(next, index, caller),
            _ => look_up_in_handle(next, handle, index, caller),
        };
    });
    answer.map_or(go_on, |value| Decision { jump: 0, value })
}

/// Decides a lookup by name and version: returns our function in place of one of the loader.
unsafe extern "C" fn decide_version(
    handle: *mut c_void,
    name: *const c_char,
    caller: usize,
    version: *const c_char,
) -> Decision {
    let mut decision = Decision { jump: loader::dlvsym(), value: 0 };
    if version.is_null() {
        return decision;
    }
    let Some((name, libcs, ours)) = function_of_loader(name) else { return decision };
    guarded(|| {
        // For a caller that was loaded before us, the next definition is ours; for a later one, it is not.
        let is_behind = || {
            let next = elf::containing(caller).and_then(|object| elf::next_definer(&object, name));
            !next.is_some_and(|next| elf::is_ours(&next))
        };
        if handle == libc::RTLD_NEXT && is_behind() {
            return;
        }
        // SAFETY: the caller's own, and a name of ours.
        if libcs != 0 && unsafe { loader::of_version(handle, name.as_ptr(), version) } == libcs {
            decision = Decision { jump: 0, value: ours };
        }
    });
    decision
}

/// Returns the result of a lookup with RTLD_NEXT; `None` if libc must do the lookup. libc must, unless it would find our export
/// with no definition after it, or a driver that is loaded before us.
fn look_up_next(next: Dlsym, index: usize, caller: usize) -> Option<usize> {
    let name = entries::name(index);
    let object = elf::containing(caller)?;
    if !elf::is_before_us(&object) {
        bypasses::note_next_lookup(&object, name);
        return None;
    }
    // The order begins at the caller's position. If a tool behind us replaces dlsym, the order begins at the tool's position.
    let definer = elf::next_definer(&object, name)?;
    let (is_ours, is_libcs) = (elf::is_ours(&definer), next == Dlsym::of_libc());
    let given = if is_ours || !is_libcs { next.look_up(libc::RTLD_NEXT, name) } else { definer.symbol(name)?.address };
    match given {
        0 if is_ours => Some(fail_lookup(name, object.path())),
        // libc would return our export.
        _ if is_ours && is_libcs => None,
        given => driver::replacement_address(FUNCTIONS[index].library, given),
    }
}

/// Returns the result of a lookup with RTLD_DEFAULT; `None` if libc must do the lookup.
fn look_up_default(next: Dlsym, index: usize, caller: usize) -> Option<usize> {
    let name = entries::name(index);
    let ours = entries::export(index);
    let found = look_up(libc::RTLD_DEFAULT, name);
    if found != ours {
        // The function is that of a driver that was loaded before us.
        return driver::replacement_address(FUNCTIONS[index].library, found);
    }
    let given = next.look_up(libc::RTLD_DEFAULT, name);
    if given != 0 && given != ours {
        return find_diverted_export(next, libc::RTLD_DEFAULT, index, given);
    }
    // libc would find our export. Without us, libc would find the definition after ours in the global scope, or else in the scope
    // of the caller's own library.
    if look_up(libc::RTLD_NEXT, name) != 0 {
        return Some(ours);
    }
    let Some(object) = elf::containing(caller) else { return Some(fail_lookup(name, c"")) };
    let handle = if elf::is_of_start(&object) { ptr::null_mut() } else { driver::open_again(&object) };
    if handle.is_null() {
        return Some(fail_lookup(name, object.path()));
    }
    // SAFETY: gives back the use that dlopen counted; the caller is running.
    unsafe { dlclose::call(handle) };
    // If this lookup fails, its message names the caller's library, as it would without us.
    let found = look_up(handle, name);
    Some(driver::replacement_address(FUNCTIONS[index].library, found).unwrap_or(found))
}

/// Returns the result of a lookup with a handle; `None` if libc must do the lookup.
fn look_up_in_handle(next: Dlsym, handle: *mut c_void, index: usize, caller: usize) -> Option<usize> {
    let name = entries::name(index);
    let ours = entries::export(index);
    let found = next.look_up(handle, name);
    if found != ours {
        data_symbols::repair_new();
        let library = FUNCTIONS[index].library;
        if !entries::is_exported(index) {
            runtime::redirect_new();
            return Some(driver::replacement_address(library, found).unwrap_or(found));
        }
        let handed_out =
            driver::replacement_address(library, found).or_else(|| find_diverted_export(next, handle, index, found));
        driver::hold_pending(None);
        if handed_out.is_none() {
            bypasses::note_handle_lookup(found, caller);
        }
        return Some(handed_out.unwrap_or(found));
    }
    // The handle is that of the program itself, which includes preloaded libraries; or our own.
    // SAFETY: dlsym has just taken the handle.
    let base = unsafe { elf::base_of_handle(handle) };
    if elf::containing(ours).is_some_and(|object| object.base == base) {
        return Some(found);
    }
    if look_up(libc::RTLD_NEXT, name) != 0 { Some(ours) } else { Some(fail_lookup(name, c"")) }
}

/// Returns our export if the dlsym of a tool behind us returned the tool's function in place of the driver's, and our linked
/// calls reach that function as well. A function that only the tool's dlsym returns is reported.
fn find_diverted_export(next: Dlsym, handle: *mut c_void, index: usize, found: usize) -> Option<usize> {
    if found == 0 || next == Dlsym::of_libc() {
        return None;
    }
    let libcs = look_up(handle, entries::name(index));
    if libcs != entries::export(index) {
        // This registers the driver behind the tool as well.
        driver::replacement_address(FUNCTIONS[index].library, libcs)?;
    }
    let ours = scope::find_export_leading_to(found);
    if ours.is_none() {
        bypasses::report_diverting_tool(found);
    }
    ours
}

/// Fails a lookup with the message of the loader for a failed lookup in an object. Returns 0.
fn fail_lookup(name: &CStr, object: &CStr) -> usize {
    unsafe extern "C" {
        static program_invocation_name: *const c_char;
    }
    let object = match object {
        // SAFETY: libc sets it before any constructor runs, to a text that stays.
        path if path.is_empty() => unsafe { CStr::from_ptr(program_invocation_name) },
        path => path,
    };
    dlerror::pretend(&[object.to_bytes(), b": undefined symbol: ", name.to_bytes()]);
    0
}
