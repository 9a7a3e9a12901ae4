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

/// The most jumps from a patch to its hook: patchers put one near the function, and the hook far away.
const MOST_JUMPS: usize = 4;

/// The two addresses of a function that a program can know, and so patch.
#[inline(always)]
fn parts(index: usize) -> [usize; 2] {
    [entries::export(index), entries::looked_up(index)]
}

#[inline(always)]
fn is_intact(part: usize) -> bool {
    // SAFETY: the part is code of ours, which is readable and is never unmapped. A patcher may be writing to it, so the
    // read is volatile; any value will do.
    unsafe { ptr::read_volatile(part as *const u32) == INTACT }
}

/// Returns true if an entry of a function is patched. The function's entry must be known: it is, once a call has come
/// through it.
#[inline(always)]
pub fn is_patched(id: FnId) -> bool {
    let [export, looked_up] = parts(id as usize);
    !(is_intact(export) && is_intact(looked_up))
}

/// Returns the return address of the program's own call: behind the hook, if the call came through one.
#[cold]
#[inline(never)]
pub fn caller_behind(id: FnId, caller: usize) -> usize {
    hook(id as usize).map_or(caller, |hook| caller::behind(hook, caller))
}

/// Returns the hook that a patched entry of a function leads to. `None` for a breakpoint, and where no entry is patched.
fn hook(index: usize) -> Option<usize> {
    let mut at = parts(index).into_iter().find(|part| !is_intact(*part))?;
    let mut hook = None;
    for _ in 0..MOST_JUMPS {
        let mut code = [0; 16];
        program_memory::copy(at, &mut code);
        let Some(target) = jump_target(&code, at, |place| program_memory::copy_value(place as *const usize))
        else {
            break;
        };
        (at, hook) = (target, Some(target));
    }
    hook
}

/// Logs each library that patched entries, with their functions.
pub fn log_all() {
    // The base of the library, 0 where the patch leads to none.
    let owner = |index: usize| {
        let is_there = entries::export(index) != 0 && is_patched(FnId::at(index));
        is_there.then(|| hook(index).and_then(elf::containing).map_or(0, |object| object.base))
    };
    let owners: [Option<usize>; FUNCTION_COUNT] = core::array::from_fn(owner);
    for (index, owner) in owners.iter().enumerate() {
        if let Some(base) = owner.filter(|_| !owners[..index].contains(owner)) {
            let library = elf::at_base(base).map_or(&b""[..], |object| path(&object));
            log::patched(library, &owners.map(|other| other == Some(base)));
        }
    }
}
