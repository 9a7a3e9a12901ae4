//! Tracks our entries that another library patched in place, as UCX and debuggers do with the driver's functions: the
//! entries, the libraries, and the callers behind the patch.
//!
//! A patch overwrites the first instructions of an entry with a jump to a hook. The hook runs instructions that it moved away,
//! then jumps back behind them. `entry::arch` provides instructions that can be moved.

use super::entries;
use crate::log;
use crate::sys::arch::{INTACT, jump_target};
use crate::sys::caller::{self, path};
use crate::sys::elf;
use crate::sys::program_memory;
use core::ptr;
use cupeer_spec::function::{FUNCTION_COUNT, FnId};

/// Largest number of jumps from a patched entry to its hook: patchers put one jump near the function, and the hook far away.
const MOST_JUMPS: usize = 4;

/// Returns the two addresses of a function that a program can know, and so patch.
#[inline(always)]
fn entry_addresses(index: usize) -> [usize; 2] {
    [entries::export(index), entries::looked_up_entry(index)]
}

#[inline(always)]
fn is_intact(part: usize) -> bool {
    // SAFETY: the part is code of ours, which is readable and is never unmapped. A patcher may be writing to it, so the
    // read is volatile; any value will do.
    unsafe { ptr::read_volatile(part as *const u32) == INTACT }
}

/// Returns true if another library patched an entry of a function. Our entry for the function must be known, which is so once a
/// call has come through it.
#[inline(always)]
pub fn is_patched(id: FnId) -> bool {
    let [export, looked_up] = entry_addresses(id as usize);
    !(is_intact(export) && is_intact(looked_up))
}

/// Returns the return address of the program's own call: that of the hook's caller if the call came through a hook.
#[cold]
#[inline(never)]
pub fn caller_behind(id: FnId, caller: usize) -> usize {
    hook(id as usize).map_or(caller, |hook| caller::caller_of_hook(hook, caller))
}

/// Returns the address of the hook to which a patched entry of a function jumps. Returns `None` for a breakpoint, and if no entry
/// is patched.
fn hook(index: usize) -> Option<usize> {
    let mut at = entry_addresses(index).into_iter().find(|part| !is_intact(*part))?;
    let mut hook = None;
    for _ in 0..MOST_JUMPS {
        let mut code = [0; 16];
        program_memory::copy(at, &mut code);
        let Some(target) = jump_target(&code, at, |place| program_memory::copy_value(place as *const usize)) else {
            break;
        };
        (at, hook) = (target, Some(target));
    }
    hook
}

/// Logs each library that patched entries, with the names of their functions.
pub fn log_all() {
    // Returns the base of the library that contains the hook; 0 if no library does.
    let owner = |index: usize| {
        let is_there = entries::export(index) != 0 && is_patched(FnId::at(index));
        is_there.then(|| hook(index).and_then(elf::containing).map_or(0, |object| object.base))
    };
    let owners: [Option<usize>; FUNCTION_COUNT] = core::array::from_fn(owner);
    for (index, owner) in owners.iter().enumerate() {
        if let Some(base) = owner.filter(|_| !owners[..index].contains(owner)) {
            let library = elf::at_base(base).map_or(&b""[..], |object| path(&object));
            log::log_patched_functions(library, &owners.map(|other| other == Some(base)));
        }
    }
}
